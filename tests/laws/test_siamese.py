"""Integrated Jacobians: the matrix with its reference row and column sums to the similarity, for every encoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf

import pathlens as pl
from experiments.pair_statistics import agreement, top_share
from pathlens.engine.prepare import pair_limits
from pathlens.explanation.pair import Measure
from pathlens.quadrature import rule
from pathlens.studies.zoom import zoom
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder
from tests.support import models
from tests.support.twins.jacobians import pair_by_coordinate

# fixed small node counts are compared with a twin, not asked to settle
pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")

A, B = "the movie was not really funny , but moving .", "i never was a plot that was hardly good"


def tiny(name: str = "bert"):
    return load(models.encoder(name))


def embed_of(case):
    return lambda point: case.score(point[None], [case])[0, 0]


def own_cosine(model, a: str, b: str) -> float:
    request = Request(vector=True)
    e_a, e_b = (model.embed(text, request).double() for text in (a, b))
    return float(e_a @ e_b / e_a.norm() / e_b.norm())


def test_one_texts_scores_are_of_the_cosine_itself():
    """Both lengths are divided by, the other text's too, along the path and at both its ends."""
    for method in ("ig", "secant"):
        result = pl.explain(models.encoder(), A, B, method=method, **({} if method == "ig" else {"gives": "scores"}))
        assert result.certificate.f_input == pytest.approx(own_cosine(tiny(), A, B), abs=1e-6), method
        assert result.certificate.converged and abs(result.certificate.f_input) <= 1


@pytest.mark.parametrize("name", models.ENCODERS)
@pytest.mark.parametrize("layer", [0, 2, 3])
def test_full_matrix_sums_to_the_models_own_similarity(name, layer):
    model = tiny(name)
    result = pl.explain(model, A, B, layer=layer)
    assert result.certificate.converged
    assert result.similarity == pytest.approx(own_cosine(model, A, B), abs=1e-6)
    assert abs(result.full_matrix.sum() - result.similarity) <= 1e-3 * max(abs(result.similarity), 0.1)
    assert result.certificate.f_baseline == result.full_matrix[0, 0]
    assert len(result.certificate.error_estimate) == len(result.tokens_a) + len(result.tokens_b)


@pytest.mark.parametrize("choices", [{}, {"norm": "inside"}, {"similarity": "dot"}])
def test_equals_the_papers_algorithm_node_for_node(choices):
    model = tiny()
    result = pl.explain(model, A, B, n_steps=5, rule="midpoint", coordinates=True, **choices)
    plain = pl.explain(model, A, B, n_steps=5, rule="midpoint", **choices)
    a, b = (model.case(text, request=Request(vector=True, norm=choices.get("norm", "outside"))) for text in (A, B))
    nodes = rule("midpoint")(5)
    twin = pair_by_coordinate(embed_of(a), a.ends, embed_of(b), b.ends, nodes.t, nodes.weight).numpy()
    if not choices:
        with torch.no_grad():
            twin = twin / float(embed_of(a)(a.ends.end).norm() * embed_of(b)(b.ends.end).norm())
    size = np.abs(twin.sum((1, 3))).max()
    assert np.abs(twin - result.coordinates).max() < 1e-5 * size
    assert np.abs(twin.sum((1, 3)) - plain.matrix).max() < 1e-5 * size
    assert np.abs(result.matrix - plain.matrix).max() < 1e-5 * size


def test_forward_and_reverse_mode_agree_and_are_chosen_by_count():
    long = " ".join(["the movie was good and bad ."] * 9)  # 63 units against 32 output coordinates
    model = tiny()
    forward, reverse, auto = (
        pl.explain(model, long, A, n_steps=3, mode=mode) for mode in ("forward", "reverse", "auto")
    )
    assert np.abs(forward.full_matrix - reverse.full_matrix).max() < 1e-5 * np.abs(forward.full_matrix).max()
    assert auto.certificate.passes < forward.certificate.passes
    assert auto.certificate.passes - 4 == 3 * 32 + 3 * 10  # the long side by 32 outputs, the short one by its 10 units


@pytest.mark.parametrize("unit", ["word", "sentence"])
def test_a_unit_is_a_direction_and_equals_the_sum_of_its_tokens(unit):
    model, a, b = tiny(), A + " great !", B
    tokens = pl.explain(model, a, b, n_steps=6)
    units = pl.explain(model, a, b, n_steps=6, unit=unit)
    assert units.full_matrix.sum() == pytest.approx(tokens.full_matrix.sum(), abs=1e-5)
    if unit == "word":
        assert np.allclose(units.full_matrix, tokens.words().full_matrix, atol=1e-5)
    else:
        assert len(units.tokens_a) == 4  # [CLS], two sentences, [SEP]
        assert units.certificate.passes < tokens.certificate.passes / 2  # cost goes with the number of units


def test_zoom_opens_a_sentence_and_everything_still_adds_up():
    model, a, b = (
        tiny(),
        "the movie was bad . the plot was great . it was funny .",
        "i never was a man ! a great film .",
    )
    sentences = pl.explain(model, a, b, unit="sentence", tolerance=1e-5)
    opened = zoom(model, sentences, a=[1], b=[2])
    assert opened.full_matrix.sum() == pytest.approx(sentences.similarity, abs=1e-4)
    assert opened.tokens_a[1:6] == ("the", "movie", "was", "bad", ".")
    assert opened.tokens_a[6:8] == sentences.tokens_a[2:4]
    assert opened.full_matrix[2:7, 2].sum() == pytest.approx(sentences.full_matrix[2, 2], abs=1e-4)
    with pytest.raises(pl.InputError, match="cannot be opened"):
        zoom(model, sentences, a=[0])
    with pytest.raises(pl.InputError, match="cannot be opened"):
        zoom(model, sentences, a=["first"])


def test_alone_equals_in_a_batch():
    explainer = pl.Explainer(tiny(), tolerance=1e-3)
    together = explainer([A, "great !", A], [B, A, "bad"])
    for result, (a, b) in zip(together, [(A, B), ("great !", A), (A, "bad")], strict=True):
        alone = explainer(a, b)
        assert alone.certificate.nodes == result.certificate.nodes
        assert np.abs(alone.full_matrix - result.full_matrix).max() < 1e-5


def test_both_norms_sum_to_the_cosine_but_are_not_the_same():
    outside, inside = (pl.explain(tiny(), A, B, norm=norm) for norm in ("outside", "inside"))
    assert outside.similarity == pytest.approx(inside.similarity, abs=1e-6)
    assert inside.full_matrix.sum() == pytest.approx(outside.full_matrix.sum(), abs=2e-3)
    assert np.abs(inside.matrix - outside.matrix).max() > 0.05 * np.abs(outside.matrix).max()


def test_shifted_encoder_needs_no_reference():
    model = pl.Shifted(tiny(), scale=2.0)
    result = pl.explain(model, A, B, layer=1)
    assert np.abs(result.full_matrix[0]).max() < 1e-6 and np.abs(result.full_matrix[:, 0]).max() < 1e-6
    assert result.certificate.converged and result.matrix.sum() == pytest.approx(result.similarity, abs=1e-3)
    dot = pl.explain(model, A, B, similarity="dot", method="ig")  # one side moves, the other is fixed
    assert dot.certificate.f_baseline == pytest.approx(0, abs=1e-5) and dot.certificate.converged
    with pytest.raises(pl.InputError, match="length zero at its reference"):
        pl.explain(model, A, B, method="ig")


def test_bad_choices_say_what_to_do():
    model = tiny()
    for choices, words in [
        ({"similarity": "euclid"}, '"cosine" or "dot"'),
        ({"norm": "half"}, "outside"),
        ({"mode": "sideways"}, "forward"),
        ({"similarity": "dot", "norm": "inside"}, "for similarity='cosine'"),
        ({"coordinates": True, "memory_budget": 1000}, "GiB"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            pl.explain(model, A, B, **choices)
    blind = load(models.encoder("bert"))
    blind.head = lambda states, mask, cases: states.sum(1) * 0.0
    with pytest.raises(pl.ModelError, match="length zero"):
        pl.explain(blind, A, B)
    assert pl.explain(blind, A, B, similarity="dot").similarity == 0


def test_minilm_pair_settles_at_a_deep_layer(minilm):
    """The real model, cheaply: layer 4."""
    a, b = "A man is dancing in a hard hat.", "The person with a helmet dances."
    result = pl.explain(minilm, a, b, layer=4)
    expected = minilm.sentence_transformer.encode([a, b], convert_to_tensor=True).double()
    assert result.certificate.converged
    assert result.full_matrix.sum() == pytest.approx(float(expected[0] @ expected[1]), abs=5e-4)
    pairs = {(x, y) for x, y, _ in result.top(3)}
    assert pairs & {("dancing", "dances"), ("hat", "helmet"), ("man", "person")}


@pytest.mark.slow
def test_minilm_every_layer_and_the_paper_at_layer_0(minilm):
    a, b = "A man is dancing.", "A woman sings a song."
    for layer in range(7):
        result = pl.explain(minilm, a, b, layer=layer)
        assert result.certificate.converged and result.certificate.gap < 5e-4
    outcome = pl.explain(minilm, a, b, n_steps=2, rule="gauss")
    case_a, case_b = (minilm.case(text, request=Request(vector=True)) for text in (a, b))
    nodes = rule("gauss")(2)
    twin = pair_by_coordinate(embed_of(case_a), case_a.ends, embed_of(case_b), case_b.ends, nodes.t, nodes.weight)
    with torch.no_grad():
        scale = float(embed_of(case_a)(case_a.ends.end).norm() * embed_of(case_b)(case_b.ends.end).norm())
    assert np.abs(twin.sum((1, 3)).numpy() / scale - outcome.matrix).max() < 1e-5


def scaled(by: float) -> SentenceEncoder:
    """The same encoder, every embedding `by` times as long."""
    encoder = SentenceEncoder(*models.encoder("bert"))
    plain = encoder.head
    encoder.head = lambda states, mask, cases: plain(states, mask, cases) * by
    return encoder


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_how_exact_a_side_must_be_goes_by_its_own_length(similarity):
    """e(a) a ten-thousandth as long as e(b): an error allowed by the other's length would never settle."""
    sides = scaled(0.01), scaled(100.0)
    cases = [side.case(text, request=Request(vector=True)) for side, text in zip(sides, (A, B), strict=True)]
    e_a, e_b = (embed_of(case)(case.ends.end).detach().double().numpy() for case in cases)
    measure = Measure(similarity)
    scale = measure.scale(e_a, e_b)
    bound = measure.limit(float(e_a @ e_b) / scale, measure.reach(e_a, e_b))
    for limit, other in zip(pair_limits(cases, measure), (e_b, e_a), strict=True):
        assert limit * np.linalg.norm(other) / scale <= bound * (1 + 1e-9)


def test_a_dot_product_of_short_embeddings_is_not_settled_by_being_small():
    """One node is far off, whatever the length of the embeddings: the verdict must not depend on their unit."""
    verdicts = []
    for by in (1.0, 1e-4):
        model = scaled(by)
        rough, good = (pl.explain(model, A, B, similarity="dot", **how) for how in ({"n_steps": 1}, {}))
        verdicts.append((rough.certificate.converged, good.certificate.converged))
        assert good.full_matrix.sum() == pytest.approx(good.similarity, rel=2e-3)
        assert good.certificate.bound < 2e-3 * abs(good.similarity)
    assert verdicts == [(False, True)] * 2


@pytest.mark.parametrize(
    "choice", [{"method": "ig"}, {"method": "secant", "gives": "scores", "norm": "inside"}], ids=str
)
def test_zoom_asks_for_a_similarity_again(choice):
    """One number, with the second text fixed: not the one-sided reading of a ranking, whose query is not known."""
    model, text = tiny(), "the movie was bad . the plot was great ."
    result = pl.explain(model, text, "a great film .", unit="sentence", similarity="cosine", **choice)
    opened = zoom(model, result, [1])
    assert opened.certificate.f_input == pytest.approx(result.certificate.f_input)
    assert opened.scores[1:6].sum() == pytest.approx(result.scores[1], abs=2 * result.certificate.bound)


def test_zoom_keeps_the_baseline_and_refuses_what_would_not_add_up():
    model, a, b = tiny(), "the movie was bad . the plot was great .", "i never was a man ! a great film ."
    zero = pl.explain(model, a, b, unit="sentence", baseline="zero", tolerance=1e-5)
    opened = zoom(model, zero, a=np.array([1]), b=2)
    assert opened.meta["baseline"] == "zero"
    assert opened.full_matrix[2:7, 2].sum() == pytest.approx(zero.full_matrix[2, 2], abs=1e-4)
    each = pl.explain(model, a, b, unit="sentence", baseline=("zero", "mask"), tolerance=1e-5)
    numbers = torch.randn(32, generator=torch.Generator().manual_seed(0))
    with pytest.raises(pl.InputError, match="say baseline="):
        zoom(model, pl.explain(model, a, b, unit="sentence", baseline=numbers, tolerance=1e-5), a=[1])
    again = zoom(model, each, a=[1], baseline=("zero", "mask"))
    assert again.full_matrix[2:7, 2].sum() == pytest.approx(each.full_matrix[2, 2], abs=1e-4)
    hit = pl.rank(model, b, [a], unit="sentence", baseline=("mask", "zero"), tolerance=1e-5)[0].explanation
    result = zoom(model, hit, b=[1])  # both names are in the result
    assert result.full_matrix[2, 2:7].sum() == pytest.approx(hit.full_matrix[2, 2], abs=1e-4)
    ranking = pl.rank(model, b, [a, A], unit="sentence", n_steps=4)
    for call, words in [
        (lambda: zoom(tiny("electra"), zero, a=[1]), "the model and the choices"),
        (lambda: zoom(model, ranking.why(0, 1), b=[1]), "difference of two explanations"),
        (lambda: zoom(model, zero, [1]), "by side"),
        (lambda: zoom(model, zero, a=[True]), "cannot be opened"),
        (lambda: zoom(model, pl.rank(model, b, [a], one_sided=True, n_steps=2)[0].explanation, [1]), "one-sided"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            call()


def test_analyses_say_what_they_cannot_answer():
    model = tiny()
    pair = pl.explain(model, A, B, n_steps=2)
    for percent in (0, -5, 101, float("nan")):
        with pytest.raises(pl.InputError, match="percent must be above 0"):
            top_share([pair], percent)
    nothing = top_share([pair.derived(similarity=0.0)])  # a share of zero is not a number; the others are
    assert np.isnan(nothing["of_prediction"]) and nothing["of_positive"] > 0
    short = pl.explain(model, "great", "bad", n_steps=1)
    with pytest.raises(pl.InputError, match="nothing can be correlated"):
        agreement([short], [short])


def test_softplus_and_inference_mode_are_the_same_in_encode_and_explain():
    torch.manual_seed(4)
    body = models.sharpen(hf.AutoModel.from_config(models.config("bert", hidden_act="relu"))).eval()
    model = SentenceEncoder(body, models.tokenizer())
    how = {"n_steps": 4, "mode": "reverse"}
    smooth, plain = (pl.explain(model, A, B, softplus=beta, **how).full_matrix for beta in (1.0, None))
    with torch.inference_mode():
        result = pl.encode(model, [A, B], softplus=1.0, **how).pair(0, 1).full_matrix
    assert np.abs(result - smooth).max() < 1e-5 * np.abs(smooth).max()
    assert np.abs(smooth - plain).max() > 1e-3
