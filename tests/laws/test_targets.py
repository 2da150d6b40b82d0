"""All classes of a text in one call: the numbers of separate calls, from shared passes."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch

import pathlens as pl
from tests.support import methods, models
from tests.support.models import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
SCORED = [
    ("ig", {}), ("ig", {"n_steps": 5}), ("ig", {"rule": "split", "tolerance": 0.1}), ("ig", {"score": "prob", "unit": "word"}),
    ("sig", {}), ("sig", {"context": "prefix"}), ("secant", {}), ("secant", {"layer": 1}), ("udig", {}), ("idg", {}),
    ("ih", {"n_steps": 4}), ("sig", {"coordinates": True, "n_steps": 3}), ("ig", {"baseline": ["mask", "pad"]}),
]  # fmt: skip


@contextmanager
def counted(module: torch.nn.Module):
    """Rows that go through the model."""
    seen: list[int] = []
    hook = module.base_model.register_forward_hook(lambda *call: seen.append(len(call[-1][0])))
    try:
        yield seen
    finally:
        hook.remove()


@pytest.mark.parametrize(("method", "options"), SCORED, ids=str)
def test_all_classes_at_once_are_as_one_by_one(method, options):
    model = models.classifier("bert")
    options = {**methods.needs(method), **options}
    together = pl.explain(model, TEXTS[0], method=method, target="all", **options)
    assert isinstance(together, pl.explanation.results.Results) and len(together) == 3
    for number, result in enumerate(together):
        alone = pl.explain(model, TEXTS[0], method=method, target=number, **options)
        assert result.target == alone.target and result.tokens == alone.tokens
        size = np.abs(methods.numbers(alone)).max()
        assert np.abs(methods.numbers(result) - methods.numbers(alone)).max() <= 2e-5 * size
        assert result.certificate.nodes == alone.certificate.nodes and not result.altered
        assert result.certificate.converged == alone.certificate.converged
        assert result.meta["chosen"]["target"] == number and result.probabilities == alone.probabilities
        assert result.check.units == alone.check.units
        assert result.check.actual == pytest.approx(alone.check.actual, abs=1e-5)


@pytest.mark.parametrize(("method", "most"), [("sig", 1 / 2), ("secant", 2 / 3), ("ig", 0.8)])
def test_forward_passes_are_shared(method, most):
    """Of three classes: once where the points are the same, and never more than apart."""
    model = models.classifier("bert")
    module = model[0]
    how = {"method": method, "check": False, **({"n_steps": 12} if method == "ig" else {})}
    pl.explain(model, TEXTS[0], **how)  # the first of a kind is compared with the model's own output
    with counted(module) as together:
        pl.explain(model, TEXTS[0], target="all", **how)
    with counted(module) as apart:
        for number in range(3):
            pl.explain(model, TEXTS[0], target=number, **how)
    assert sum(together) <= most * sum(apart)


def test_several_texts_give_every_class_of_each_in_order():
    model = models.classifier("bert")
    every = pl.explain(model, TEXTS[:2], method="secant", target="all")
    assert [result.text for result in every] == [text for text in TEXTS[:2] for _ in range(3)]
    assert [result.meta["chosen"]["target"] for result in every] == [0, 1, 2] * 2
    alone = pl.explain(model, TEXTS[1], method="secant", target="all")
    for one, other in zip(every[3:], alone, strict=True):
        assert np.allclose(one.scores, other.scores, atol=1e-6)


def test_a_list_for_one_text_asks_for_each_and_for_several_texts_one_each():
    model = models.classifier("bert")
    two = pl.explain(model, TEXTS[0], method="secant", target=[2, "LABEL_0"])
    assert [result.meta["chosen"]["target"] for result in two] == [2, 0]
    paired = pl.explain(model, TEXTS[:2], method="secant", target=[2, 0])
    assert [result.text for result in paired] == TEXTS[:2]
    assert [result.meta["chosen"]["target"] for result in paired] == [2, 0]
    with pytest.raises(pl.errors.InputError, match="empty"):
        pl.explain(model, TEXTS[0], target=[])
    with pytest.raises(pl.errors.InputError, match="LABEL_9.*not a label"):
        pl.explain(model, TEXTS[0], method="secant", target=["LABEL_1", "LABEL_9"])


def test_a_tagger_has_no_classes_of_a_text():
    with pytest.raises(pl.errors.InputError, match="target of a tagger"):
        pl.explain(models.tagger(), TEXTS[0], target="all")


@pytest.mark.parametrize("target", ["all", [0, 2]])
def test_a_method_of_the_whole_output_takes_no_list_of_classes(target):
    with pytest.raises(pl.errors.InputError, match="explains the whole output, every class at once.*leave target="):
        pl.explain(models.classifier("bert"), TEXTS[0], method="vaig", target=target)
