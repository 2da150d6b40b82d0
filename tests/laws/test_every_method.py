"""The laws, each over the whole table of methods: a line added to it is tested by all of them at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.engine.methods import METHODS, route_of
from pathlens.engine.options import build
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support import methods, models
from tests.support.linear import LinearModel
from tests.support.methods import EVERY
from tests.support.models import TEXTS
from tests.support.relatives import RELATIVES
from tests.support.twins import TWINS
from tests.support.twins import bound as _  # noqa: F401  binds every twin to its method

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
every_method = pytest.mark.parametrize("method", EVERY)


def close(one: np.ndarray, other: np.ndarray, share: float) -> None:
    """Equal up to a share of the largest number."""
    assert one.shape == other.shape
    size = np.abs(other).max()
    assert size > 0, "zeros prove nothing"
    assert np.abs(one - other).max() <= share * size


# Law 3: completeness, within the certificate's own bound


@every_method
def test_a_result_adds_up_and_its_certificate_says_so(method):
    result = methods.explain(method, methods.model_for(method), TEXTS[0])
    cert = result.certificate
    assert cert.converged and methods.gap(result) <= cert.bound
    assert methods.gap(result) == pytest.approx(cert.gap, abs=1e-6 * max(1.0, abs(cert.f_input)))
    assert abs(cert.f_input - cert.f_baseline) > 1e-3, "a model that does not move tests nothing"


# Law 4: a linear model is exact on any path, by any rule


def exact(result: object, model: LinearModel, text: str, second: str) -> np.ndarray:
    shares, vectors = model.shares(text), model.vectors(text)
    if isinstance(result, pl.VectorExplanation):
        return vectors[None, 1:]
    if isinstance(result, pl.PairExplanation):
        other = model.vectors(second)
        return vectors @ other.T / (np.linalg.norm(vectors.sum(0)) * np.linalg.norm(other.sum(0)))
    if isinstance(result, pl.Interactions):
        return np.diag(shares)
    if isinstance(result, pl.PhraseTree):
        square = np.square(model.table[[model.words.index(w) for w in text.split()]] - model.table[0]).sum(1).numpy()
        inside = [[low <= s < high for s, _ in result.offsets] for low, high in (node.span for node in result.nodes)]
        return np.array([shares[group].sum() / np.sqrt(square[group].sum()) for group in inside])
    return shares


@every_method
@pytest.mark.parametrize("settled", [True, False], ids=["to the tolerance", "three nodes"])
def test_a_linear_model_is_exact(method, settled):
    model, text, second = LinearModel(), "one two three two five", "six seven"
    options = {} if settled else methods.fixed(method, 3)
    result = methods.explain(method, model, text, second, **options)
    close(methods.numbers(result), exact(result, model, text, second), 1e-9)
    assert result.certificate.converged or not settled


# Law 2: the path


@every_method
def test_its_path_leads_from_the_baseline_to_the_text_and_held_tokens_stay(method):
    entry, model = METHODS[method], load(methods.model_for(method))
    case = model.case(TEXTS[0], request=Request(vector=entry.vector))
    route = route_of(build(method, methods.needs(method)), case.ends)
    first, last = route.corner(int(route.legs[0, 0])), route.corner(int(route.legs[-1, 1]))
    assert torch.equal(last, case.ends.end)
    if route.complete:
        assert torch.equal(first, case.ends.start)
    held = case.ends.held
    assert held.any() and all(torch.equal(route.corner(i)[held], case.ends.end[held]) for i in range(route.corners))


# Law 5: orders agree


@every_method
def test_it_agrees_with_its_relative(method):
    assert method in RELATIVES, f"{method} has no relative: bind one in tests/support/relatives.py"
    close(*RELATIVES[method](), 2e-4)


# Law 6: packing changes nothing


@every_method
def test_alone_is_as_in_a_batch_of_any_size(method):
    model = methods.model_for(method)
    together = methods.explain(method, model, TEXTS, **methods.fixed(method))
    for rows in (1, 3, 1000):
        chunked = methods.explain(method, model, TEXTS, internal_batch_size=rows, **methods.fixed(method))
        for one, other in zip(chunked, together, strict=True):
            close(methods.numbers(one), methods.numbers(other), 2e-5)
    for text, result in zip(TEXTS, together, strict=True):
        alone = methods.explain(method, model, text, **methods.fixed(method))
        close(methods.numbers(alone), methods.numbers(result), 2e-5)


# Law 7: slow twins


@every_method
def test_it_equals_its_slow_twin(method):
    assert method in TWINS, (
        f"{method} has no slow twin: transcribe its formula and bind it in tests/support/twins/bound.py"
    )
    ours, literal = TWINS[method]()
    close(ours, literal, 2e-5)


# Law 8: invariances


@every_method
@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_the_attention_kernel_changes_nothing(method, architecture):
    sdpa, eager = (
        methods.explain(method, methods.model_for(method, architecture, kernel), TEXTS[0], **methods.fixed(method))
        for kernel in ("sdpa", "eager")
    )
    close(methods.numbers(sdpa), methods.numbers(eager), 1e-4)


@every_method
def test_single_precision_drifts_little(method):
    single, texts = methods.model_for(method), TEXTS[0]
    numbers = [
        methods.numbers(methods.explain(method, model, texts, **methods.fixed(method)))
        for model in (single, models.in_double(single))
    ]
    close(*numbers, 1e-4)


@every_method
def test_the_order_of_texts_does_not_matter(method):
    model = methods.model_for(method)
    forward = methods.explain(method, model, TEXTS, **methods.fixed(method))
    backward = methods.explain(method, model, TEXTS[::-1], **methods.fixed(method))[::-1]
    for one, other in zip(forward, backward, strict=True):
        close(methods.numbers(one), methods.numbers(other), 2e-5)


@every_method
def test_a_text_equal_to_its_baseline_has_nothing_to_explain(method):
    result = methods.explain(method, methods.model_for(method), "[MASK] [MASK]", second="[MASK]", baseline="mask")
    values = methods.numbers(result)
    moved = values[1:, 1:] if isinstance(result, pl.PairExplanation) else values
    assert not moved.any() and result.certificate.converged


# Law 9: round trip


@every_method
def test_save_and_load_give_the_same(method, tmp_path):
    result = methods.explain(method, methods.model_for(method), TEXTS[0], **methods.fixed(method))
    again = pl.load(result.save(tmp_path / "result.json"))
    assert type(again) is type(result)
    assert np.array_equal(methods.numbers(again), methods.numbers(result))
    assert again.certificate == result.certificate and dict(again.meta) == dict(result.meta)
    assert again.to_dict() == result.to_dict()


def test_the_twins_are_of_methods_that_exist():
    assert set(TWINS) <= set(EVERY)
