"""Certificates: what "settled" means, wherever one is made: of one text, of a pair, of a mean, of a difference, of words.

Records and problems with exact answers alone, in float64: nothing here hangs on a model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pathlens as pl
from pathlens.explanation.certificate import Certificate, bound_of
from pathlens.explanation.pair import Measure, Side, one_sided, pair_of
from pathlens.explanation.record import Continuation, Explanation
from pathlens.vectors.rank import difference, token_difference
from tests.support import models
from tests.support.bank import BANK, TEXT, BankModel

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
FACTS = {"tolerance": 1e-3, "nodes": 7, "passes": 9}


def judged(**more) -> Certificate:
    return Certificate.judge(**{"f_input": 3.0, "f_baseline": 1.0, "total": 2.0, **FACTS, **more})


def test_a_result_is_settled_only_when_everything_known_of_it_is_small():
    """The bound here is 2e-3: each of these alone decides."""
    settled, unsettled = judged(), judged(total=2.01)
    assert settled.converged and settled.bound == 2e-3 and not unsettled.converged
    assert judged(total=2.0019).converged and not judged(total=2.0021).converged
    assert judged(errors=(0.0, 1.9e-3)).converged and not judged(errors=(0.0, 2.1e-3)).converged
    assert judged(also=(1.9e-3,)).converged and not judged(also=(0.0, 2.1e-3)).converged
    assert judged(parts=(settled, settled)).converged
    assert not judged(parts=(settled, unsettled)).converged and not judged(parts=(unsettled, settled)).converged


def test_a_certificate_made_by_hand_is_judged_by_its_own_numbers():
    fine = judged(errors=(1e-3, 1.9e-3), rows=(1e-4,))
    assert fine.converged and replace(fine).converged and replace(fine, converged=True) == fine
    for lie in (
        {"bound": 0.0}, {"gap": 3e-3}, {"gap": float("nan")}, {"total": 2.01}, {"total": float("nan")}, {"f_input": 3.01},
        {"error_estimate": (1e-3, 2.1e-3)}, {"error_estimate": (float("nan"), 1e-3)}, {"kind": "matrix"},
    ):  # fmt: skip
        assert not replace(fine, converged=True, **lie).converged, lie
        assert not judged(**{"bound": fine.bound, "gap": 0.0, "errors": fine.error_estimate} | {
            {"error_estimate": "errors"}.get(name, name): value for name, value in lie.items()
        }).converged, lie  # fmt: skip
    exact = Certificate(2.0, 0.0, 2.0, 0.0, 0.0, 1e-3, True, 1, 1)
    assert exact.converged, "nothing is off, so nothing needs to be allowed"
    assert not replace(fine, converged=False).converged, "what else is known to be off is not in its numbers"


def test_the_bound_is_the_tolerance_of_the_change_and_rounding_below():
    assert bound_of(5.0, 1.0, 1e-3) == 4e-3 and bound_of(1.0, 5.0, 1e-2) == 0.04
    assert bound_of(0.5, 0.5, 1e-3) == 1e-5 and bound_of(-30.0, -30.0, 1e-3) == pytest.approx(3e-4)


# ---- pairs


META = {"chosen": {"method": "ij"}, "notes": ()}


def side(text: str, seed: int, scale: float = 1.0, **more) -> Side:
    """One token a word; e(x) = e(r) + Σ V exactly, unless a `gap` is stated."""
    draw, words = np.random.default_rng(seed), text.split()
    vectors, reference = scale * draw.normal(size=(len(words), 4)), scale * draw.normal(size=4)
    places = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
    facts = {
        "text": text,
        "tokens": tuple(words),
        "offsets": tuple((low, low + len(word)) for low, word in zip(places, words, strict=False)),
        "special": (False,) * len(words),
        "vectors": vectors,
        "reference": reference,
        "embedding": reference + vectors.sum(0),
        "error": 1e-5 * scale * np.arange(1, len(words) + 1),
        "gap": 0.0,
        "nodes": 5,
        "passes": 6,
    }
    return Side(**{**facts, **more})


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_one_sided_estimates_are_a_vectors_error_against_the_whole_query(similarity):
    """ε in V_j moves its score by at most ‖ε‖·‖e(q)‖ / scale; the vectors' own gap and every estimate must be settled."""
    measure, query, b = Measure(similarity), np.array([2.0, -1.0, 0.5, 1.0]), side("three words here", 3)
    reach = np.linalg.norm(query) if similarity == "dot" else 1 / np.linalg.norm(b.embedding)
    proof = one_sided(query, b, measure, META).certificate
    assert proof.error_estimate == pytest.approx(b.error * reach) and proof.converged
    assert proof.bound == pytest.approx(1e-3 * abs(proof.f_input), rel=1e-9)
    for loose in ({"error": b.error + 2 * proof.bound / reach}, {"gap": 2 * proof.bound / reach}):
        assert not one_sided(query, replace(b, **loose), measure, META).certificate.converged


def test_a_pairs_estimates_go_by_the_other_texts_length():
    """Lengths differ a hundredfold, so one taken for the other shows."""
    a, b, measure = side("a b", 1, scale=0.1), side("c d e", 2, scale=10.0), Measure("dot")
    proof = pair_of(a, b, measure, META).certificate
    lengths = [np.linalg.norm(each.embedding) for each in (a, b)]
    assert proof.error_estimate == pytest.approx([*(a.error * lengths[1]), *(b.error * lengths[0])])
    for sides in ((replace(a, gap=2 * proof.bound / lengths[1]), b), (a, replace(b, gap=2 * proof.bound / lengths[0]))):
        assert not pair_of(*sides, measure, META).certificate.converged
    assert proof.converged


def test_a_difference_of_two_hits_is_settled_when_both_are():
    """However near their scores: estimates of what both share are added, of the rest they stand side by side."""
    query, one, two = side("what is it", 5), side("a good film", 6), side("the plot", 7)
    measure = Measure("cosine")
    for make, join in (
        (lambda b: pair_of(query, b, measure, META), difference),
        (lambda b: one_sided(query.embedding, b, measure, META), token_difference),
    ):
        above, below = make(one), make(two)
        result = join(above, below, "asked").certificate
        assert result.converged and result.bound == pytest.approx(above.certificate.bound + below.certificate.bound)
        first, second = (np.array(each.certificate.error_estimate) for each in (above, below))
        shared = len(query.tokens) if join is difference else 0
        wanted = [*(first[:shared] + second[:shared]), *first[shared:], *second[shared:]]
        assert result.error_estimate == pytest.approx(wanted)
        rough = make(replace(two, error=two.error + 0.1))
        assert not rough.certificate.converged
        for pair in ((above, rough), (rough, above)):
            assert not join(*pair, "asked").certificate.converged
        settled = rough.derived(certificate=replace(rough.certificate, converged=True))
        assert not join(above, settled, "asked").certificate.converged, "an estimate above the bound is enough"
        unsettled = above.derived(certificate=replace(above.certificate, converged=False))
        assert not join(unsettled, below, "asked").certificate.converged, "and so is a part that was not settled"


def test_the_second_documents_characters_follow_the_first_ones():
    query, one, two = side("what is it", 5), side("a good film", 6), side("the plot was", 7)
    for make, join, of in (
        (lambda b: pair_of(query, b, Measure(), META), difference, lambda r: (r.meta["texts"][1], r.tokens_b, r.offsets_b)),
        (lambda b: one_sided(query.embedding, b, Measure(), META), token_difference, lambda r: (r.meta["texts"][0], r.tokens, r.offsets)),
    ):  # fmt: skip
        text, tokens, offsets = of(join(make(one), make(two), "asked"))
        assert tuple(text[start:end] for start, end in offsets) == tokens == (*one.tokens, *two.tokens)


# ---- words of several tokens


def pieces(**more) -> Explanation:
    """ "unbelievable , really": the first word has three tokens, the mark and the last one each."""
    text, tokens = "unbelievable , really", ("un", "believ", "able", ",", "really")
    scores, errors = np.array([1.0, 2.0, 4.0, -0.5, -3.0]), (1e-4, 2e-4, 4e-4, 8e-4, 16e-4)
    proof = Certificate.judge(f_input=3.5, f_baseline=0.0, total=3.5, errors=errors, **FACTS)
    offsets = ((0, 2), (2, 8), (8, 12), (13, 14), (15, 21))
    facts = {"special": (False,) * 5, "segments": (0,) * 5, "meta": {"texts": [text], "unit": "token"}}
    return Explanation(
        method="ig", target="F", certificate=proof, tokens=tokens, offsets=offsets, scores=scores, **{**facts, **more}
    )


def test_a_word_is_the_sum_of_its_tokens_and_so_is_its_estimate():
    words = pieces(coordinates=np.arange(10.0).reshape(5, 2)).words()
    assert words.tokens == ("unbelievable", ",", "really")
    assert words.scores.tolist() == [7.0, -0.5, -3.0] and words.coordinates[0].tolist() == [6.0, 9.0]
    assert words.certificate.error_estimate == pytest.approx([7e-4, 8e-4, 16e-4])
    tokens = pieces().certificate
    assert tokens.converged and words.certificate.converged and words.certificate.bound == 3 * tokens.bound
    each = replace(tokens, error_estimate=(0.9 * tokens.bound,) * 5)
    joined = pieces().derived(certificate=each).words().certificate
    assert joined.converged and joined.error_estimate[0] > each.bound, "every token is within its bound"
    assert not pieces().derived(certificate=replace(each, bound=0.8 * each.bound)).words().certificate.converged
    assert [word for word, _ in words.top(2)] == ["unbelievable", "really"], "the largest in size, whatever the sign"


def test_words_of_a_continuation_sum_every_column():
    one = pieces()
    columns = tuple(replace(one.certificate, error_estimate=(1e-4 * k,) * 5) for k in (1, 2))
    shared = {name: getattr(one, name) for name in ("method", "target", "certificate", "meta", "tokens", "offsets", "special", "segments")}  # fmt: skip
    made = Continuation(
        **shared, outputs=("a", "b"), output_offsets=((0, 1), (2, 3)), matrix=np.arange(10.0).reshape(5, 2), certificates=columns
    )  # fmt: skip
    words = made.words()
    assert words.matrix.tolist() == [[6.0, 9.0], [6.0, 7.0], [8.0, 9.0]]
    assert [list(each.error_estimate) for each in words.certificates] == [
        pytest.approx([3e-4 * k, 1e-4 * k, 1e-4 * k]) for k in (1, 2)
    ]


def test_words_of_a_pair_sum_rows_and_columns_and_the_reference_stays():
    whole = replace(side("un able x", 8), text="unable x", offsets=((0, 2), (2, 6), (7, 8)))
    pair = pair_of(whole, side("a film", 9), Measure(), META)
    words = pair.words()
    assert words.tokens_a == ("unable", "x") and words.tokens_b == ("a", "film")
    assert words.full_matrix[1] == pytest.approx(pair.full_matrix[1] + pair.full_matrix[2])
    errors = pair.certificate.error_estimate
    assert words.certificate.error_estimate == pytest.approx([errors[0] + errors[1], *errors[2:]])
    assert words.full_matrix[[0, 2]] == pytest.approx(pair.full_matrix[[0, 3]])
    assert pair.core + pair.rest == pytest.approx(pair.similarity)


# ---- means, differences and lists of numbers, on problems with exact answers

BASELINES = [None, np.array([0.3, 0.1, -0.2, 0.4, 0.2])[:, None], np.array([-0.5, 0.2, 0.1, -0.1, 0.3])[:, None]]


@pytest.mark.parametrize("n", [None, 2])
def test_expected_gradients_have_the_mean_estimate_and_are_settled_by_it(n):
    model = BankModel(BANK["sigmoids"])
    single = [pl.explain(model, TEXT, method="ig", baseline=b, n_steps=n).certificate for b in BASELINES]
    proof = pl.explain(model, TEXT, method="ig", baseline=BASELINES, n_steps=n).certificate
    assert proof.error_estimate == pytest.approx(np.mean([each.error_estimate for each in single], axis=0))
    assert proof.f_baseline == pytest.approx(np.mean([each.f_baseline for each in single]))
    assert proof.converged == (n is None) and proof.bound == bound_of(proof.f_input, proof.f_baseline, 1e-3)


def test_a_list_of_numbers_is_settled_when_each_is():
    """A cubic is exact with few nodes, a kink is not; the columns share one bound, by the root mean square."""
    model = BankModel(BANK["cubic"], BANK["kink"])
    rough = pl.explain(model, TEXT, method="ig", n_steps=6)
    assert [each.converged for each in rough.certificates] == [True, False] and not rough.certificate.converged
    assert pl.explain(model, TEXT, method="ig").certificate.converged
    changes = [each.f_input - each.f_baseline for each in rough.certificates]
    bound = 1e-3 * np.sqrt(np.mean(np.square(changes)))
    assert [each.bound for each in rough.certificates] == pytest.approx([bound, bound])


def test_a_list_is_not_settled_by_a_total_that_is():
    """The total may be off by as many bounds as there are numbers: one that is not settled hides under that."""
    model, hidden = BankModel(BANK["cubic"], BANK["exponential"], BANK["kink"]), 0
    for n in range(3, 40):
        result = pl.explain(model, TEXT, method="ig", n_steps=n)
        assert result.certificate.converged == all(each.converged for each in result.certificates)
        proof = result.certificate
        hidden += not proof.converged and max(proof.gap, *proof.error_estimate) <= proof.bound
    assert hidden > 0


@pytest.mark.parametrize("problem, n", [("two kinks", 8), ("two kinks", 24), ("oscillation", 8)])
def test_an_estimate_by_coordinate_covers_the_gap_of_its_own_token(problem, n):
    """SIG: every token has its own sum, so what each misses is known."""
    proof = pl.explain(BankModel(BANK[problem]), TEXT, method="sig", coordinates=True, n_steps=n).certificate
    assert max(proof.rows) > 1e-9 and all(
        estimate >= gap * (1 - 1e-9) for estimate, gap in zip(proof.error_estimate, proof.rows, strict=True)
    )


def test_the_difference_of_two_results_adds_estimates_and_is_settled_when_both_are():
    fine, rough = (pl.explain(BankModel(BANK["narrow"]), TEXT, method="ig", n_steps=n) for n in (None, 4))
    assert fine.certificate.converged and not rough.certificate.converged
    for pair in ((fine, rough), (rough, fine)):
        proof = (pair[0] - pair[1]).certificate
        assert not proof.converged
        assert proof.error_estimate == pytest.approx(np.add(*(each.certificate.error_estimate for each in pair)))
    unsettled = fine.derived(certificate=replace(fine.certificate, converged=False))
    assert not (unsettled - fine).certificate.converged and (fine - fine).certificate.converged


def test_an_unsettled_result_is_unsettled_when_it_is_loaded(tmp_path):
    rough = pl.explain(BankModel(BANK["narrow"]), TEXT, method="ig", n_steps=4)
    again = pl.load(rough.save(tmp_path / "rough.json"))
    assert not again.certificate.converged and again.certificate == rough.certificate
    fine = pl.explain(BankModel(BANK["narrow"]), TEXT, method="ig")
    doubted = fine.derived(certificate=replace(fine.certificate, converged=False))  # by what is not in its numbers
    again = pl.load(doubted.save(tmp_path / "doubted.json"))
    assert fine.settled and not again.certificate.converged and not again.altered


def test_a_result_that_does_not_say_which_tokens_are_special_has_none():
    """Whoever reads one asks the record, and so do a picture, a comparison and the rows of a run."""
    bare = pieces().derived(special=(), segments=())
    assert bare.added == (False,) * len(bare.tokens) and bare.homes == (0,) * len(bare.tokens)
    marked = pieces().derived(special=(True, *bare.added[1:]), segments=())
    assert marked.added[0] and marked.homes == (-1, *bare.homes[1:])
    assert pl.explain(pl.ToyModel(), "a b", method="idg", tree="right-branching").homes == (0, 0)
    for drawn in (bare, marked):
        assert "piece" in drawn.to_html() or drawn.tokens[-1] in drawn.to_html()


def test_of_vectors_no_difference_of_lengths_is_shown():
    proof = pl.explain(models.classifier("bert"), models.TEXTS[0], method="vaig").certificate
    assert f"settled · vectors that sum to length {proof.total:.6g} · gap" in repr(proof)
    assert f"{proof.f_input - proof.f_baseline:.6g}" not in repr(proof)
