"""The laws on tiny models of each architecture, and what single methods promise besides them.

The laws over the whole table of methods are in test_every_method.py, the tenth in test_honest_errors.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import pathlens as pl
from pathlens.checks import options_of
from pathlens.engine.methods import METHODS, Entry
from pathlens.quadrature import gauss
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.types import FIXED_RULES
from tests.support import models
from tests.support.methods import WORDS, needs
from tests.support.models import ARCHITECTURES, TEXTS
from tests.support.twins import gradients as twins


def readings(entry: Entry) -> Iterator[dict]:
    """A method of token scores in every way it can be asked: its rules by what they do, by coordinate, its contexts."""
    asked = {"method": entry.name, **needs(entry.name)}
    yield asked
    if not entry.telescopes and not entry.record().through_words:  # rules of second order, which many legs make slow
        yield from ({**asked, "rule": rule} for rule in ("split", "midpoint") if rule in entry.rules)
    for each in options_of(entry.record):
        if each.name in ("coordinates", "context"):
            yield from ({**asked, each.name: value} for value in each.choices or (True,) if value != each.default)


SCORED = [choice for entry in METHODS.values() if entry.result is pl.Explanation for choice in readings(entry)]
ALONE = [c for c in SCORED if METHODS[c["method"]].telescopes and "context" not in c]  # every token's sum is its own
FIRST_ORDER = [choice for choice in SCORED if choice not in ALONE]
EVERY = [choice for choice in SCORED if not METHODS[choice["method"]].record().through_words]  # no vocabulary needed
FURTHER = [choice for choice in EVERY if set(choice) - {"method"}]  # each method as it is: test_every_method.py


def name(choice: dict) -> str:
    return "-".join(str(value) for key, value in choice.items() if key not in WORDS)


def ends_and_score(model, text, **request):
    """Both ends in float64-friendly form, and the plain score of one point."""
    case = model.case(text, request=Request(**request))
    return case, lambda point: case.score(point[None], [case])[0]


# Law 3: completeness, within the certificate's own bound


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("choice", FIRST_ORDER, ids=name)
def test_scores_sum_to_the_outputs_change(architecture, choice):
    """In float64, and with nodes enough for a plain rule: whether it settles is then no matter of a processor's rounding."""
    result = pl.explain(models.in_double(models.classifier(architecture)), TEXTS[0], max_nodes=4096, **choice)
    cert = result.certificate
    change = cert.f_input - cert.f_baseline
    assert abs(change) > 1e-3, "a model that does not move tests nothing"
    assert cert.converged
    assert abs(result.scores.sum() - change) <= cert.bound
    assert cert.gap == pytest.approx(abs(result.scores.sum() - change), abs=1e-9)


@pytest.mark.parametrize("choice", ALONE, ids=name)
def test_sig_completes_for_each_token_alone(choice):
    model = load(models.classifier("bert"))
    result = pl.explain(model, TEXTS[0], **choice)
    case, score = ends_and_score(model, TEXTS[0])
    for token in range(len(result.tokens)):
        without = case.ends.end.clone()
        without[token] = case.ends.start[token]
        with torch.no_grad():
            change = float(score(case.ends.end) - score(without))
        assert result.scores[token] == pytest.approx(change, abs=result.certificate.bound)
    assert result.certificate.kind == "per token"


def test_a_text_equal_to_its_baseline_gives_zeros_and_a_certificate():
    for choice in FURTHER:
        result = pl.explain(models.classifier("bert"), "[MASK] [MASK]", **choice)
        assert result.scores.shape == (4,) and not result.scores.any()
        assert result.certificate.converged and result.certificate.gap <= 1e-5
        assert result.certificate.f_input == pytest.approx(result.certificate.f_baseline, abs=1e-5) != 0


# Law 4: a linear model is exact on any path, with any rule


@pytest.mark.parametrize("choice", [*FURTHER, *({"rule": r, "n_steps": 3} for r in FIXED_RULES)], ids=name)
def test_linear_model_is_exact(choice):
    torch.manual_seed(0)
    net = nn.Linear(6, 1).double()
    x = torch.randn(6, dtype=torch.float64)
    result = pl.explain(net, x, **choice)
    assert result.scores == pytest.approx((net.weight[0] * x).detach().numpy(), abs=1e-12)
    assert result.certificate.converged


@pytest.mark.parametrize("choice", [choice for choice in EVERY if choice["method"] == "ig"], ids=name)
@pytest.mark.parametrize("baseline", [None, "some other words", torch.full((4,), 0.3)], ids=["zero", "text", "tensor"])
def test_quadratic_toy_equals_its_closed_form(choice, baseline):
    model = pl.ToyModel()
    result = pl.explain(model, "why do the words matter here", baseline=baseline, tolerance=1e-6, **choice)
    case = model.case("why do the words matter here", request=Request(baseline=baseline))
    assert result.scores == pytest.approx(model.ig(case.ends.start, case.ends.end).numpy(), abs=1e-9)


# Law 5: orders agree


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_vectors_of_the_logits_are_the_ig_of_each_logit(layer):
    pair = models.classifier("bert")
    vectors = pl.explain(pair, TEXTS[0], method="vaig", layer=layer, tolerance=1e-5)
    assert vectors.vectors.sum(1) == pytest.approx(vectors.f_input - vectors.f_baseline, abs=1e-6)
    for label in range(3):
        single = pl.explain(pair, TEXTS[0], method="ig", target=label, layer=layer, tolerance=1e-5)
        assert vectors.vectors[0, :, label] == pytest.approx(single.scores, abs=1e-5)


def test_forward_and_reverse_products_are_the_same():
    forward, reverse = (
        pl.explain(models.encoder(), TEXTS[0], method="vaig", n_steps=4, mode=mode).vectors
        for mode in ("forward", "reverse")
    )
    assert forward == pytest.approx(reverse, abs=1e-6)


# Law 6: packing changes nothing


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_alone_is_as_in_a_batch(architecture):
    """In float64: which nodes are added next is then never a matter of how a batch of another size rounds."""
    pair = models.in_double(models.classifier(architecture))
    together = pl.explain(pair, TEXTS)
    for text, result in zip(TEXTS, together, strict=True):
        alone = pl.explain(pair, text)
        assert alone.scores == pytest.approx(result.scores, abs=1e-6)
        assert alone.certificate.nodes == result.certificate.nodes


@pytest.mark.parametrize("choice", FURTHER, ids=name)
def test_any_chunk_size_gives_the_same(choice):
    """In float64, as above."""
    pair = models.in_double(models.classifier("bert"))
    chunked = pl.explain(pair, TEXTS, internal_batch_size=3, **choice)
    for one, other in zip(pl.explain(pair, TEXTS, **choice), chunked, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=2e-6)


def test_minilm_alone_in_a_batch_and_padded(minilm):
    texts = ["A man plays a guitar.", "Nobody came.", "The quick brown fox jumps over the lazy dog near the river."]
    together = pl.explain(minilm, texts, ["Someone makes music."] * 3, method="ig")
    for text, result in zip(texts, together, strict=True):
        for extra in ({}, {"internal_batch_size": 1}, {"internal_batch_size": 7}):
            alone = pl.explain(minilm, text, "Someone makes music.", method="ig", **extra)
            assert alone.scores == pytest.approx(result.scores, abs=1e-6)


# Law 7: slow twins


def test_sig_prefix_is_the_literal_loop():
    model = load(models.classifier("bert"))
    case, score = ends_and_score(model, TEXTS[0], target=2)
    twin = twins.prefix_differences(score, case.ends.start, case.ends.end)
    result = pl.explain(model, TEXTS[0], method="sig", context="prefix", target=2)
    assert result.scores == pytest.approx(twin.numpy(), abs=1e-6)


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_split_step_is_the_literal_loop(cells):
    model = pl.ToyModel()
    case, score = ends_and_score(model, "a few words more")
    twin = twins.split_step(score, case.ends.start, case.ends.end, cells)
    result = pl.explain(model, "a few words more", rule="split", n_steps=cells)
    assert result.scores == pytest.approx(twin.numpy(), abs=1e-12)


@pytest.mark.parametrize("block", ["encoder.layer.1.attention", "encoder.layer.0.output"])
def test_vaig_of_a_block_is_one_ig_per_output_coordinate(block):
    model = load(models.encoder())
    result = pl.explain(model, TEXTS[1], method="vaig", block=block, n_steps=3)
    case = model.case(TEXTS[1], request=Request(vector=True, block=block))
    nodes = gauss(3)
    with model.quiet():
        vector = lambda point: case.score(point[None], [case])[0]  # noqa: E731
        twin = twins.vector_ig(vector, case.ends.start, case.ends.end, nodes.t, nodes.weight)
    assert result.vectors == pytest.approx(twin.numpy(), abs=1e-6)


# Law 8: invariances


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("method", ["ig", "vaig"])
def test_attention_kernel_changes_nothing(architecture, method):
    sdpa, eager = (
        pl.explain(models.classifier(architecture, kernel), TEXTS[0], method=method, n_steps=6)
        for kernel in ("sdpa", "eager")
    )
    if method == "vaig":
        assert sdpa.vectors == pytest.approx(eager.vectors, abs=5e-6)
    else:
        assert sdpa.scores == pytest.approx(eager.scores, abs=5e-6)


def test_precision_drift_is_small_and_half_precision_sums_in_full():
    model, tokenizer = models.classifier("bert")
    reference = pl.explain(models.in_double((model, tokenizer)), TEXTS[0], target=0)
    single = pl.explain((model, tokenizer), TEXTS[0], target=0)
    half = pl.explain((deepcopy(model).bfloat16(), tokenizer), TEXTS[0], target=0, tolerance=0.2)
    scale = np.abs(reference.scores).max()
    assert np.abs(single.scores - reference.scores).max() <= 1e-4 * scale
    assert 1e-5 * scale < np.abs(half.scores - reference.scores).max() <= 0.1 * scale
    assert half.scores.dtype == np.float64


# Law 9: round trip


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.explain(models.classifier("bert"), TEXTS[0], coordinates=True),
        lambda: pl.explain(models.classifier("bert"), TEXTS[0], baseline=["mask", "pad", "zero"]),
        lambda: pl.explain(models.encoder(), TEXTS[0], method="vaig"),
        lambda: pl.explain(models.encoder(), TEXTS[2], method="vaig", block="encoder.layer.0"),
        lambda: pl.explain(models.encoder(), TEXTS[0], TEXTS[1]),
    ],
    ids=["tokens", "expected", "vector", "large", "pair"],
)
def test_save_and_load_give_the_same(make, tmp_path):
    result = make()
    again = pl.load(result.save(tmp_path / "result.json"))
    assert type(again) is type(result)
    for field, value in vars(result).items():
        other = getattr(again, field)
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, other), field
        elif field == "meta":
            assert dict(value) == dict(other)
        else:
            assert value == other, field
    assert again.to_dataframe().equals(result.to_dataframe())


# Layers


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_layer_explains_the_same_output(architecture):
    pair = models.classifier(architecture)
    changes = []
    for layer in (0, 1, 2, 3, -1):
        result = pl.explain(pair, TEXTS[0], layer=layer)
        assert result.certificate.converged
        changes.append(result.certificate.f_input - result.certificate.f_baseline)
    assert np.ptp(changes) < 1e-4 * abs(changes[0]) + 1e-6


def test_special_tokens_score_zero_at_the_embeddings_and_show_above():
    below, above = (pl.explain(models.classifier("bert"), TEXTS[0], layer=layer) for layer in (0, 1))
    marks = np.array(below.special)
    assert below.tokens[0] == "[CLS]" and not below.scores[marks].any()
    assert np.abs(above.scores[marks]).min() > 0


# Units


def test_units_are_directions_and_equal_the_sums_of_their_tokens():
    pair = models.classifier("bert")
    tokens = pl.explain(pair, TEXTS[0], tolerance=1e-6)
    spans = {"subject": (0, 9), "rest": (10, len(TEXTS[0]))}
    units = pl.explain(pair, TEXTS[0], unit=spans, tolerance=1e-6)
    inside = [i for i, (s, e) in enumerate(tokens.offsets) if e > s and e <= 9]
    assert units.scores[units.tokens.index("subject")] == pytest.approx(tokens.scores[inside].sum(), abs=1e-6)
    vectors = pl.explain(models.encoder(), TEXTS[0], method="vaig", unit=spans, tolerance=1e-6)
    fine = pl.explain(models.encoder(), TEXTS[0], method="vaig", tolerance=1e-6)
    named = vectors.tokens.index("subject")
    assert vectors.vectors[0, named] == pytest.approx(fine.vectors[0, inside].sum(0), abs=1e-5)
    assert vectors.certificate.passes < fine.certificate.passes


def test_sig_moves_a_unit_as_one():
    model = load(models.classifier("bert"))
    spans = [(0, 9), (10, len(TEXTS[0]))]
    result = pl.explain(model, TEXTS[0], method="sig", unit=spans)
    case, score = ends_and_score(model, TEXTS[0])
    without = case.ends.end.clone()
    without[1:3] = case.ends.start[1:3]
    with torch.no_grad():
        assert result.scores[1] == pytest.approx(float(score(case.ends.end) - score(without)), abs=1e-6)
    with pytest.raises(pl.InputError, match="unit='word'"):
        pl.explain(model, TEXTS[0], method="sig").words()


# Expected gradients


def test_expected_gradients_are_the_mean_over_baselines():
    model = pl.ToyModel()
    choices = ["zero", "other words", "the cat"]
    single = np.stack([pl.explain(model, "words that count", baseline=b).scores for b in choices])
    result = pl.explain(model, "words that count", baseline=choices)
    assert result.scores == pytest.approx(single.mean(0))
    assert result.standard_error == pytest.approx(single.std(0, ddof=1) / np.sqrt(3))
    assert result.certificate.gap < 1e-9 and result.meta["baseline"] == "3 baselines"
