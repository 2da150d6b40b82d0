"""The check of belief: its two numbers are what they are said to be, whatever the method, and hang on nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import pathlens as pl
from experiments import belief as study
from pathlens.explanation.check import Belief, few_of
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support import draw_samples, methods
from tests.support.linear import LinearModel
from tests.support.methods import EVERY, SECOND
from tests.support.models import TEXTS, classifier

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
every_method = pytest.mark.parametrize("method", EVERY)


def of_units(result) -> np.ndarray:
    """What each unit is said to add, one row each (of a pair: of the first text's, then of the second's)."""
    if isinstance(result, pl.PairExplanation):
        return np.concatenate([result.full_matrix[1:].sum(1), result.full_matrix[:, 1:].sum(0)])[:, None]
    if isinstance(result, pl.VectorExplanation):
        return result.vectors.transpose(1, 0, 2).reshape(len(result.tokens), -1)
    return result.scores[:, None]


def strongest(result) -> list[int]:
    sizes = np.linalg.norm(of_units(result), axis=1)
    return sorted(range(len(sizes)), key=lambda u: -sizes[u])[:3]


def predicted(result, units: list[int]) -> np.ndarray:
    """What the result says of these units together, entry by entry."""
    if isinstance(result, pl.PairExplanation):
        rows = [u + 1 for u in units if u < len(result.tokens_a)]
        columns = [u + 1 - len(result.tokens_a) for u in units if u >= len(result.tokens_a)]
        full = result.full_matrix
        lost = sum(full[i, j] for i in range(len(full)) for j in range(full.shape[1]) if i in rows or j in columns)
        return np.array([-lost])
    if isinstance(result, pl.Interactions):
        inside = range(len(result.tokens))
        return np.array([-sum(result.matrix[i, j] for i in inside for j in inside if i in units or j in units)])
    return -of_units(result)[units].sum(0)


def at_baseline(method, model, text, second, units) -> tuple[np.ndarray, np.ndarray]:
    """The output at the text and with these tokens at the baseline, asked of the model one text at a time."""
    texts = (text, second) if method == "ij" else (text,)
    both, first = [], 0
    for each in texts:
        case = model.case(each, request=Request(vector=method in ("vaig", "ij")))
        rows = case.ends.end.clone()
        inside = [u - first for u in units if first <= u < first + len(case)]
        rows[inside] = case.ends.start[inside]
        first += len(case)
        with torch.no_grad():
            both.append([case.score(at[None], [case])[0].double().numpy() for at in (case.ends.end, rows)])
    if method != "ij":
        return tuple(np.atleast_1d(value).ravel() for value in both[0])
    (a, a_masked), (b, b_masked) = both
    cosine = [float(np.sum(x * y) / np.linalg.norm(x) / np.linalg.norm(y)) for x, y in ((a, b), (a_masked, b_masked))]
    return np.array([cosine[0]]), np.array([cosine[1]])


@every_method
def test_the_check_is_what_the_model_does(method):
    """Against a plain computation: the three strongest units of the result itself, and the model asked by hand."""
    model = load(methods.model_for(method))
    result = methods.explain(method, model, TEXTS[0])
    units = strongest(result)
    prediction, (before, after) = predicted(result, units), at_baseline(method, model, TEXTS[0], SECOND, units)
    check, change = result.check, after - before
    tokens = (*result.tokens_a, *result.tokens_b) if method == "ij" else result.tokens
    assert check.applies and check.units == tuple(tokens[u] for u in units)
    length = np.linalg.norm if method == "vaig" else lambda value: float(value[0])
    size = max(np.abs(prediction).max(), np.abs(change).max(), 1e-3)
    assert check.predicted == pytest.approx(length(prediction), abs=1e-4 * size)
    assert check.actual == pytest.approx(length(change), abs=1e-4 * size)
    assert check.difference == pytest.approx(np.linalg.norm(prediction - change), abs=2e-4 * size)
    assert check.vector == (method == "vaig") and check.passes == (2 if method == "ij" else 1)


@every_method
def test_a_linear_model_is_believed(method):
    options = {"similarity": "dot"} if method == "ij" else {}
    check = methods.explain(method, LinearModel(), "one two three two five", "six seven", **options).check
    assert check.applies and check.agrees and len(check.units) == 2 + (method == "ij")
    if method != "ij":  # a product of two changes is not their sum
        assert check.difference <= 1e-6 * max(1.0, abs(check.actual))


@every_method
def test_the_company_of_a_text_changes_nothing(method):
    model, how = methods.model_for(method), methods.fixed(method)
    together = methods.explain(method, model, TEXTS, **how)
    for text, result in zip(TEXTS, together, strict=True):
        alone = methods.explain(method, model, text, internal_batch_size=1, **how).check
        assert alone.units == result.check.units and alone.agrees == result.check.agrees
        assert alone.predicted == pytest.approx(result.check.predicted, abs=2e-5 * max(1.0, abs(alone.predicted)))
        assert alone.actual == pytest.approx(result.check.actual, abs=2e-5 * max(1.0, abs(alone.actual)))


@every_method
def test_it_can_be_left_out_and_changes_no_number(method):
    model = methods.model_for(method)
    without = methods.explain(method, model, TEXTS[0], check=False, **methods.fixed(method))
    checked = methods.explain(method, model, TEXTS[0], **methods.fixed(method))
    assert without.check is None and checked.check is not None
    assert np.array_equal(methods.numbers(without), methods.numbers(checked), equal_nan=True)
    assert without.certificate == checked.certificate and without.meta["chosen"]["check"] is False


def test_equal_units_are_taken_in_their_order():
    """Rounding must not choose: two words alike stand in the text's order."""
    check = pl.explain(LinearModel(), "two one two one two one", method="ig").check
    again = pl.explain(LinearModel(), "two one two one two one", method="sig").check
    assert check.units == again.units and len(set(check.units)) == 1


def test_what_cannot_be_asked_says_so(capsys):
    model = classifier("bert")
    assert [few_of(n) for n in range(9)] == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    alone = pl.explain(model, "funny", method="ig")
    assert not alone.check.applies and "too few" in alone.check.reason
    by_definition = pl.explain(model, "really funny", method="sig").check
    assert not by_definition.applies and "defined" in by_definition.reason
    some = pl.explain(model, TEXTS[0], method="ih", interaction_index=2, n_steps=3).check
    assert not some.applies and "some of the interactions" in some.reason
    alone.show()
    assert "· not checked against the model: too few" in " ".join(capsys.readouterr().out.split())


def test_several_baselines_are_checked_on_average():
    model = classifier("bert")
    both = pl.explain(model, TEXTS[0], baseline=["mask", "pad"], method="sig")
    units = [both.tokens.index(unit) for unit in both.check.units]
    assert both.check.predicted == pytest.approx(-both.scores[units].sum(), abs=1e-9) and both.check.passes == 2
    changes = []
    for baseline in ("mask", "pad"):
        case = load(model).case(TEXTS[0], request=Request(baseline=baseline))
        rows = case.ends.end.clone()
        rows[units] = case.ends.start[units]
        with torch.no_grad():
            changes.append(float(case.score(rows[None], [case])[0] - case.score(case.ends.end[None], [case])[0]))
    assert both.check.actual == pytest.approx(np.mean(changes), abs=1e-6)


@pytest.mark.parametrize(
    ("predicted", "actual", "weight", "agrees"),
    [
        (-4.0, -3.0, 4.0, True),
        (-4.0, -1.9, 4.0, False),
        (0.28, -3.30, 3.0, False),
        (0.05, -0.1, 4.0, True),
        (0.0, 0.0, 0.0, True),
    ],
)
def test_when_two_changes_agree(predicted, actual, weight, agrees):
    """Half of the larger, or a tenth of the scores at stake."""
    assert Belief.judge(("a",), predicted, actual, weight=weight, bound=0.0, passes=1).agrees is agrees


@pytest.mark.parametrize("agrees", [True, False])
def test_it_is_shown_everywhere_and_kept(agrees, capsys, tmp_path):
    from dataclasses import replace

    check = Belief.judge(
        ("not", "<b>bad</b>"), -0.3 if agrees else 0.28, -0.33 if agrees else -3.3, weight=1, bound=0, passes=1
    )
    small = draw_samples.small()
    result = small.derived(check=check, certificate=replace(small.certificate, error_estimate=()))
    result.show(width=200)
    verdict = "✓ agrees" if agrees else "✗ does not agree"
    printed = capsys.readouterr().out
    assert f"{verdict} when “not”, “<b>bad</b>” are at the baseline together: the scores predict" in printed
    assert "none was tried alone" in printed, "three may agree where each is far off"
    page = result.to_html()
    assert f"{verdict[2:]} when “not”" in page and "<b>bad" not in page
    assert (
        "predict a change of -0.3, the model makes it -0.33"
        if agrees
        else "predict a change of +0.28, the model makes it -3.3"
    ) in page
    assert "-3.3; none" in result.to_png(tmp_path / "a.svg").read_text(encoding="utf-8") or agrees
    assert pl.load(result.save(tmp_path / "a.json"), strict=True).check == check
    assert result.words().check == check and (result - result).check is None
    assert result.derived(edited="by hand").to_html().count("at the baseline together") == 0, (
        "of numbers that are not its own"
    )


@pytest.mark.parametrize("by", [None, "secant"])
def test_of_a_tree_the_scores_that_predict_are_named_and_shown(by, capsys, tmp_path):
    """What stands beside them in every view are values of phrases, which predict nothing of the kind."""
    chosen = {"by": by} if by else {}
    tree = pl.explain(
        load(classifier("bert")), "not bad , not bad at all", method="idg", tree="right-branching", **chosen
    )
    assert tree.check is not None and len(tree.check.units) == 3
    tree.show(width=400)
    line = next(each for each in capsys.readouterr().out.split("\n") if "at the baseline together" in each)
    words, shown = re.search(r"scores of the (\w+) under the tree \(([^)]*)\) predict a change of", line).groups()
    assert words == ("secants" if by else "integral")
    values = [float(each) for each in shown.split(", ")]
    assert len(values) == 3 and -sum(values) == pytest.approx(tree.check.predicted, rel=0.02, abs=1e-4)
    for unit, value in zip(tree.check.units, values, strict=True):
        places = [i for i, token in enumerate(tree.tokens) if token == unit]
        assert min(abs(tree.scores[places] - value)) <= 0.01 * abs(value)
    picture = tree.to_png(tmp_path / "a.svg").read_text(encoding="utf-8")
    assert f"({shown})" in tree.to_html() and all(value in picture for value in shown.split(", "))


def test_a_corpus_counts_it(tmp_path):
    from pathlens.corpus import Source, results, run, summarise

    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, "funny"]))
    run(load(classifier("bert")), Source(str(tmp_path / "texts.txt")), tmp_path / "run", method="secant")
    kept = list(results(tmp_path / "run"))
    agreed = [each.check.agrees for each in kept if each.check.applies]
    facts = dict(summarise(tmp_path / "run", speech=False)["overview"].rows)
    assert len(agreed) == len(TEXTS) and facts["checked against the model"] == len(TEXTS)
    assert facts["share where it does what the scores predict"] == pytest.approx(np.mean(agreed))


def test_the_page_has_the_table_of_the_rows():
    """400 texts by the default methods: what docs/adding-up.md says of them is made from the rows that are kept."""
    rows = study.known()
    assert set(rows) == {(number, method) for number in range(study.TEXTS) for method in ("sig", "secant", "ig")}
    assert load(classifier("bert")).default_method in {method for _, method in rows}
    assert study.table(rows) in study.PAGE.read_text(encoding="utf-8")
