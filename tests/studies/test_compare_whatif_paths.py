"""Compare, what-if and the path viewer against numbers known beforehand."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertForMaskedLM

import pathlens as pl
from pathlens.doctor import examine
from pathlens.errors import InputError, StoreError
from pathlens.metrics.statistics import kendall, ranks, spearman
from pathlens.report import Report
from pathlens.studies.compare import compare, side_by_side
from pathlens.studies.pathview import pathview
from pathlens.studies.whatif import whatif
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support.draw_samples import explanation
from tests.support.models import answerer, classifier, config, encoder, generator, sharpen, tagger, tokenizer

TEXT = "the movie was not really funny"
HOSTILE = "<img src=x onerror=alert(1)> 日本語 [bold]x[/bold]"


@pytest.fixture(scope="module")
def tiny():
    return load(classifier("bert"))


def test_a_comparisons_numbers_stand_beside_ticks_and_cannot_be_written_to():
    two = pl.compare(classifier("bert"), "not really funny", methods=["ig", "sig"])
    for numbers in (two.values, two.spearman, two.kendall):
        with pytest.raises(ValueError, match="read-only"):
            numbers[0, 0] = 9.0


def test_what_is_compared_where_nothing_is_named(tiny):
    """What `pl.explain` shows is among it, whatever the model; of two texts whatever gives a matrix."""
    usual = {
        ("secant", "ig", "sig"): (tiny, "not really funny"),
        ("ij", "secant"): (load(encoder("bert")), "not really funny", "a movie"),
        ("ig", "sig"): (pl.ToyModel(), "not really funny"),
        ("secant", "sig"): (load(generator()), "not really"),
    }
    for methods, asked in usual.items():
        study = pl.compare(*asked, tolerance=0.1)
        assert tuple(result.method for result in study.results) == study.labels == methods
        assert pl.explain(*asked, tolerance=0.1).method == methods[0]
        (least,) = (note for note in study.notes if "agreement:" in note)
        assert least.startswith("least") == (len(methods) > 2), "of two there is one agreement"
        rho = np.nanmin(study.spearman)
        assert f"Spearman {rho:+.2f}" in least and ("differ most" in least) == (rho < 1 - 1e-9)
        assert study.headline == study.results[0].headline


def test_notes_of_edits_have_a_column_where_there_are_some(tiny):
    for edit, columns in {("not", "mask"): 4, ("not", "replace", "very not"): 5}.items():
        page = whatif(tiny, "not really funny", [edit, ("funny", "mask")]).to_html()
        head = re.search(r"<tr>(?:(?!</tr>).)*difference.*?</tr>", page, re.DOTALL)[0]
        assert len(re.findall(r"<t[hd][ >]", head)) == columns, edit


def test_agreement_of_known_lists():
    one, two = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    assert spearman(one, two) == pytest.approx(0.8) and kendall(one, two) == pytest.approx(2 / 3)
    assert spearman(one, -one) == -1 and kendall(one, -one) == -1
    assert np.isnan(spearman(one, np.ones(4))) and np.isnan(kendall(one, np.ones(4)))
    assert ranks(np.array([5.0, 1, 5])).tolist() == [1.5, 0, 1.5]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=12))
def test_kendall_equals_the_count_of_pairs(pairs):
    one, two = np.array(pairs, dtype=float).T
    same = other = left = right = 0
    for i in range(len(one)):
        for j in range(i):
            a, b = np.sign(one[i] - one[j]), np.sign(two[i] - two[j])
            same, other = same + (a * b > 0), other + (a * b < 0)
            left, right = left + (a != 0), right + (b != 0)
    if left and right:
        assert kendall(one, two) == pytest.approx((same - other) / np.sqrt(left * right))
    else:
        assert np.isnan(kendall(one, two))


def test_compare_columns_are_the_methods_own_scores(tiny, tmp_path):
    comparison = compare(tiny, TEXT, methods=["ig", "sig"], baselines=["mask", "pad"])
    assert comparison.labels == ("ig · mask", "ig · pad", "sig · mask", "sig · pad")
    alone = pl.explain(tiny, TEXT, method="ig", baseline="pad")
    assert np.allclose(comparison.values[:, 1], alone.scores)
    for unit, up, down, high, low in comparison.disagreements():
        assert high > 0 > low and up != down and unit in comparison.units
    comparison.save(tmp_path / "c.json")
    comparison.to_html(tmp_path / "c.html")
    for name in ("c.json", "c.html"):
        again = pl.load(tmp_path / name)
        assert [r.method for r in again] == ["ig", "ig", "sig", "sig"]
        assert np.array_equal(again[1].scores, comparison.results[1].scores)


def test_several_baselines_are_side_by_side_as_on_the_command_line(tiny):
    by_one, by_many = (
        compare(tiny, TEXT, method=["ig"], **{name: ["mask", "pad"]}) for name in ("baseline", "baselines")
    )
    assert by_one.labels == by_many.labels == ("mask", "pad") and np.array_equal(by_one.values, by_many.values)
    assert np.allclose(by_one.values[:, 1], pl.explain(tiny, TEXT, method="ig", baseline="pad").scores)


@pytest.mark.parametrize("baseline", [[["mask", "pad"]], [["mask", "pad"], "zero"]])
def test_a_list_inside_the_list_of_baselines_is_averaged_over(tiny, baseline):
    choices = {} if len(baseline) > 1 else {"methods": ["ig", "sig"]}
    averaged = compare(tiny, TEXT, baseline=baseline, **choices).results[0]
    alone = pl.explain(tiny, TEXT, method=averaged.method, baseline=["mask", "pad"])
    assert averaged.origin.baseline == alone.origin.baseline and np.allclose(averaged.scores, alone.scores)


def test_two_models_are_compared_by_word(tiny):
    comparison = compare(tiny, TEXT, models=[load(classifier("distilbert"))])
    assert len(comparison.labels) == 2 and comparison.results[0].meta["unit"] == "word"


def test_methods_are_compared_on_one_number():
    """A model with a score of its own for integrals (as `smollm`): a probability beside its logarithm says nothing."""
    odd = load(generator())
    odd.default_layer, odd.default_score = 1, "prob"
    every = {result.origin.score for result in compare(odd, TEXT, methods=["ig", "secant", "sig"], check=False).results}
    assert every == {"logprob"} and pl.explain(odd, TEXT, method="ig", check=False).origin.score == "prob"
    asked = compare(odd, TEXT, methods=["ig", "sig"], score="prob", check=False)
    assert {result.origin.score for result in asked.results} == {"prob"}
    by_name = compare(odd, TEXT, methods=["ig", "secant"], check=False)
    by_record = compare(odd, TEXT, methods=[pl.IG(), pl.SECANT()], check=False)
    assert np.array_equal(by_name.values, by_record.values) and by_name.labels == by_record.labels
    assert len({result.origin.baseline for result in by_record.results}) == 1


def test_what_cannot_be_compared_is_said():
    toy = pl.ToyModel()
    with pytest.raises(InputError, match="at least two"):
        compare(toy, "a b", methods=["ig"])
    with pytest.raises(InputError, match="same text"):
        side_by_side([pl.explain(toy, "a b"), pl.explain(toy, "a b c")])


def test_masking_is_predicted_exactly_by_sig(tiny):
    study = whatif(tiny, TEXT, method="sig")
    assert len(study.edits) == 6
    for edit in study.edits:
        assert edit.predicted == pytest.approx(edit.actual, abs=1e-5)
    assert study.agreement == pytest.approx(1.0)


def test_the_target_stays_fixed_through_edits(tiny):
    study = whatif(tiny, TEXT, [("not", "delete"), ("not", "replace", "very"), (0 + 1, "replace", "a good plot")])
    before = pl.explain(tiny, TEXT).certificate.f_input
    assert study.f_before == pytest.approx(before, abs=1e-5)
    after = pl.explain(tiny, "the movie was very really funny", target=_predicted(tiny, TEXT)).certificate.f_input
    assert study.edits[1].actual == pytest.approx(after - before, abs=1e-5)
    assert study.edits[0].text == "the movie was really funny" and study.edits[2].note


def _predicted(model, text):
    return model.case(text, request=Request()).target


EDITS = [("the", "replace", "great"), ("movie", "replace", "a good plot"), ("really", "delete")]


@pytest.mark.parametrize("method", ["secant", "ig", "sig"])
def test_a_writers_token_and_score_stay_fixed_through_edits(method):
    """The likeliest next token of an edited text is another one, and a model may have a layer and a score for integrals."""
    plain = load(generator())
    study = whatif(plain, TEXT, EDITS, method=method, check=False)
    token, texts = study.explanation.origin.chosen["target"], [edit.text for edit in study.edits]
    assert len({pl.explain(plain, text, check=False).target for text in texts}) > 1, "each by itself says other words"
    for edit, after in zip(study.edits, pl.explain(plain, texts, target=token, check=False), strict=True):
        assert edit.actual == pytest.approx(after.certificate.f_input - study.f_before, abs=1e-5)
    odd = load(generator())
    odd.default_layer, odd.default_score = 1, "prob"  # as `smollm`
    same = whatif(odd, TEXT, EDITS, method=method, layer=0, score="logprob", check=False)
    usual = whatif(odd, TEXT, EDITS, method=method, check=False)
    assert [edit.predicted for edit in same.edits] == pytest.approx([edit.predicted for edit in study.edits], abs=1e-5)
    assert usual.f_before == pytest.approx(usual.explanation.certificate.f_input, abs=1e-6), (
        "the score that is explained"
    )
    if method != "ig":  # what it explains is the log-probability, at the word embeddings
        assert [edit.actual for edit in usual.edits] == pytest.approx([edit.actual for edit in study.edits], abs=1e-5)
        assert [e.predicted for e in usual.edits] == pytest.approx([e.predicted for e in study.edits], abs=1e-5)
    against = whatif(plain, TEXT, EDITS[:1], method=method, contrast=" good", check=False).edits[0]
    assert against.predicted != pytest.approx(study.edits[0].predicted, rel=1e-3), "a contrast is in the slope too"
    with pytest.raises(InputError, match="generate writes anew"):
        whatif(plain, TEXT, EDITS, method=method, generate=1)


def test_a_place_that_is_explained_moves_with_the_edit():
    """A tag, a gap, an answer: the same one after the edit, not the surest of the edited text."""
    edits = [("movie", "replace", "a good plot"), ("movie", "delete"), ("the", "replace", "great")]
    shifts = {"a good plot": 2, "": -1, "great": 0}
    torch.manual_seed(0)
    filler = sharpen(BertForMaskedLM(config("bert"))).eval(), tokenizer()
    for pair, text, place in ((tagger(), TEXT, 5), (filler, "the movie was not [MASK] funny", 5)):
        first = pl.explain(pair, text, check=False)
        asked = first.origin.chosen["target"]
        assert asked[0] == place
        study = whatif(pair, text, edits, check=False)
        for edit in study.edits:
            moved = (asked[0] + shifts[edit.replacement], asked[1])
            after = pl.explain(pair, edit.text, target=moved, check=False).certificate.f_input
            assert edit.actual == pytest.approx(after - first.certificate.f_input, abs=1e-5)
    with pytest.raises(InputError, match="token 5 is what is explained"):
        whatif(tagger(), TEXT, [("really", "delete")])
    model, tokens = answerer()
    study = whatif((model, tokens), "what was funny", [("what", "replace", "who is")], text_b=TEXT, check=False)
    sums = []
    for question, shift in (("what was funny", 0), ("who is was funny", 1)):
        with torch.no_grad():
            output = model(**tokens(question, TEXT, return_tensors="pt"))
        start, end = load((model, tokens)).case("what was funny", TEXT, request=Request()).target
        sums.append(float(output.start_logits[0, start + shift] + output.end_logits[0, end + shift]))
    assert study.edits[0].actual == pytest.approx(sums[1] - sums[0], abs=1e-5)


def test_edits_that_make_no_sense_are_refused(tiny):
    for edits, word in (([("nobody", "mask")], "nobody"), ([(1, "eat")], "eat"), ([(0, "mask")], "not part"),
                        ([(99, "mask")], "99"), ([(1, "replace", " ")], "words")):  # fmt: skip
        with pytest.raises(InputError, match=word):
            whatif(tiny, TEXT, edits)


def test_the_path_starts_at_the_baseline_and_shares_end_at_the_scores(tiny):
    study = pathview(tiny, TEXT, methods=["ig", "udig"], points=65, neighbours=10, steps=4)
    line, words = study.tracks
    proof = pl.explain(tiny, TEXT).certificate
    for track in (line, words):
        assert track.output[0] == pytest.approx(proof.f_baseline, abs=1e-5)
        assert track.output[-1] == pytest.approx(proof.f_input, abs=1e-5)
        assert track.share[-1].sum() == pytest.approx(proof.f_input - proof.f_baseline, abs=2e-3)
    assert line.nearest[-1][1][0][0] == "the" and line.nearest[0][1][0][0] == "[MASK]" and line.far[-1, 1] < 1e-3
    assert words.anchors[-1][1] == "the" and not line.anchors
    assert np.allclose(line.share[-1], pl.explain(tiny, TEXT).scores, atol=2e-3)


def test_one_method_may_be_named_as_everywhere_else(tiny):
    assert [track.method for track in pl.pathview(tiny, TEXT, method="ig").tracks] == ["ig"]
    with pytest.raises(pl.InputError, match="a path is drawn for ig, dig, udig; got 'secant'"):
        pl.pathview(tiny, TEXT, method="secant")
    with pytest.raises(pl.InputError, match="both name methods"):
        pl.pathview(tiny, TEXT, method="ig", methods=["dig"])


def test_every_view_takes_hostile_text(tmp_path, capsys):
    toy = pl.ToyModel()
    views = [compare(toy, HOSTILE, methods=["ig", "sig"]), whatif(toy, HOSTILE), pathview(toy, HOSTILE),
             Report.of([pl.explain(toy, HOSTILE)], title=HOSTILE)]  # fmt: skip
    for view in views:
        page = view.to_html()
        assert "<img" not in page.replace("<img class", "") and "日本語" in page
        view.show()
        assert view.to_png(tmp_path / "a.png").stat().st_size > 1000
        with pytest.raises(StoreError):
            view.save(tmp_path / "missing" / "a.json")
    output = "".join(capsys.readouterr().out.split())
    assert "onerror=alert(1)>日本語[bold]x[/bold]" in output, "markup in a text stays those characters"


def test_the_doctor_finds_a_model_that_looks_at_padding():
    """A score that counts rows breaks packing, and the doctor says so without stopping."""

    class Counts(pl.ToyModel):
        def case(self, text, text_b=None, *, request):
            case = super().case(text, text_b, request=request)
            inner = case.score
            score = lambda points, cases: inner(points, cases) * points.shape[1]  # noqa: E731
            return replace(case, score=score, pack="counts")

    study = examine(Counts(), "a b c d e f g h i j k l m n")
    states = {check.law: check.state for check in study.checks}
    assert states["6 batch = single"] == "fails" and states["1 rules"] == "holds" and not study.healthy
    assert next(check.advice for check in study.checks if check.law == "6 batch = single")


@pytest.fixture(scope="module")
def ranking():
    documents = ["the film was funny", "a movie , but moving", "music plays", f"the man {HOSTILE}"]
    return pl.rank(load(encoder("bert")), "a man plays guitar", documents, top=3)


def test_a_ranking_is_drawn_with_the_words_that_met(ranking, tmp_path, capsys):
    ranking.show(width=100)
    output = capsys.readouterr().out
    assert "adds up within" not in output and "not explained: 1 more" in output
    names = ranking[0].explanation.top(1)[0][:2]
    assert "–".join(names) in output
    page = ranking.to_html(tmp_path / "rank.html").read_text("utf-8")
    assert "<img" not in page and "<details" in page
    scores = [h.score for h in ranking.hits[:3]]
    assert [r.similarity for r in pl.load(tmp_path / "rank.html")] == pytest.approx(scores, abs=1e-6)
    assert ranking.to_png(tmp_path / "rank.png").read_bytes().startswith(b"\x89PNG")


def test_why_one_stands_above_another_is_on_every_picture(ranking, tmp_path, capsys):
    asked = ranking.with_reason(0, 2)
    change = ranking[0].score - ranking[2].score
    assert abs(asked.reason.full_matrix.sum() - change) <= asked.reason.certificate.bound
    asked.show(width=100)
    shown = capsys.readouterr().out
    assert "stands above 3." in shown and f"{change:+.4f}" in shown
    assert "stands above 3." in asked.to_html(tmp_path / "why.html").read_text("utf-8")
    assert len(pl.load(tmp_path / "why.html")) == 4
    assert asked.to_dict()["why"]["similarity"] == pytest.approx(change)
    with pytest.raises(pl.InputError, match="place 3"):
        ranking.with_reason(0, 3)  # scored, not explained


def test_layers_are_drawn_and_read_back(tmp_path, capsys):
    from pathlens.studies.layers import layers

    study = layers(load(classifier("bert")), TEXT, layers=[0, 1])
    alone = pl.explain(load(classifier("bert")), TEXT, layer=1)
    assert abs(study.results[1].scores - alone.scores).max() < 1e-9
    study.show(width=100)
    assert "layer 1" in capsys.readouterr().out
    page = study.to_html(tmp_path / "l.html").read_text("utf-8")
    assert page.count('class="bars"') == 2 and page.count('class="chart"') == 1 and "✓ layer 1" in page
    assert len(pl.load(tmp_path / "l.html")) == 2
    with pytest.raises(pl.InputError, match="one value per token"):
        layers(load(classifier("bert")), "not funny", layers=[0], method="ih")


def test_error_against_nodes_falls_as_each_rule_promises(tiny, tmp_path, capsys):
    from pathlens.studies.nodes import nodes

    study = nodes(tiny, TEXT, counts=(8, 16, 32))
    ratios = {rule: row[0] / row[-1] for rule, row in study.errors.items()}
    assert 3 < ratios["left"] < 5, "first order: four times the nodes, a quarter of the error"
    assert 12 < ratios["midpoint"] < 20 and 12 < ratios["trapezoid"] < 22, "second order: a sixteenth"
    assert max(study.errors["gauss"]) < min(study.errors["left"])
    assert study.adaptive <= study.explanation.certificate.bound
    study.show(width=100)
    assert "as asked" in capsys.readouterr().out
    assert "as asked" in study.to_html(tmp_path / "n.html").read_text("utf-8")
    assert study.to_png(tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(pl.InputError, match="ig, dig, udig"):
        nodes(pl.ToyModel(), "a b", method="sig")


def test_a_results_own_rounds_are_on_its_page():
    result = pl.explain(pl.ToyModel(), "not really funny at all")
    history = [[21, 1e-2, 3e-2], [45, 1e-5, 2e-4]]
    twice = result.derived(meta={**result.meta, "history": history})
    assert "error against nodes" in twice.to_html() and "45" in twice.to_html()
    assert "error against nodes" not in result.derived(meta={**result.meta, "history": history[:1]}).to_html()


def test_what_if_says_what_its_prediction_rests_on():

    masked = whatif(pl.ToyModel(), "not really funny", [("not", "mask")]).to_html()
    assert "minus the ig score" in masked and "first guess" not in masked
    assert "mean gradient of ig" in whatif(pl.ToyModel(), "a b", [("a", "replace", "c")], method="sig").to_html()


def test_a_single_text_shows_its_points_and_many_texts_themselves(capsys, monkeypatch):
    from pathlens.engine import progress
    from pathlens.engine.progress import Progress

    pl.explain(pl.ToyModel(), "not really funny", show_progress=True)
    assert capsys.readouterr().err == "", "over at once: no bar"
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    pl.explain(pl.ToyModel(), "not really funny", show_progress=True)
    output = capsys.readouterr().err
    assert "point" in output and "text" not in output
    assert "100%" not in output, "how many points it takes is not known before its end"
    pl.explain(pl.ToyModel(), ["a b", "c"], show_progress=True)
    assert re.search(r"2/2 .*, [1-9]\d* points", capsys.readouterr().err)
    pl.explain(pl.ToyModel(), "not really funny")
    assert capsys.readouterr().err == "", "quiet unless asked"
    with Progress(1, False) as none:
        assert none.points is None


def test_the_bar_that_is_shown_moves_with_what_is_worked_on_inside_it(monkeypatch):
    """Texts worked on together end one by one: they move the bar before the caller counts them, and are counted once."""
    from pathlens.engine import progress

    drawn = []
    monkeypatch.setattr(
        progress.Progress, "draw", lambda self, texts: (drawn.append((texts, self.points_done)), self.bar.update(texts))
    )
    explainer = pl.Explainer(pl.ToyModel())
    with progress.Progress(3, True) as bar:
        explainer.run([("a b", None), ("c", None)])
        assert bar.bar.n == 2 and bar.ahead == 2
        assert [texts for texts, _ in drawn].count(0) >= 2, "points are told on the way"
        assert drawn[-1][1] >= 2
        bar.advance(2)
        assert bar.bar.n == 2 and bar.ahead == 0, "counted once"
        with progress.Progress(1, True) as inside:
            assert inside.bar is None, "one bar at a time"
            inside(None)
        bar.advance(1)
        assert bar.bar.n == 3
    assert progress.shown() is None


def test_a_ranking_moves_its_bar_document_by_document(minilm, capsys, monkeypatch):
    from pathlens.engine import progress

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    documents = ["Rice is boiled in water.", "A", "The bank by the river was closed on the day of the long rain."]
    pl.rank(minilm, "cooking rice", documents, show_progress=True, tolerance=0.1, method="secant")
    drawn = capsys.readouterr().err
    assert "0/3" in drawn and "3/3" in drawn and "points" in drawn


def test_studies_draw_themselves_in_a_notebook(tiny, ranking):
    from pathlens.studies.layers import layers

    for result in (
        compare(pl.ToyModel(), "a b", methods=["ig", "sig"]),
        whatif(pl.ToyModel(), "a b"),
        pathview(tiny, "not funny", methods=["ig"], points=3),
        layers(tiny, "not funny", layers=[0]),
        ranking,
    ):
        shown = result._repr_html_()
        assert shown.startswith("<style>") and "<article" in shown and "<!DOCTYPE" not in shown
        assert "<img" not in shown


def test_a_report_of_one_table_shows_every_feature(tmp_path):
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    rows = list(torch.randn(5, 3))
    results = pl.explain(pl.Tabular(net, features=["体重", HOSTILE, "c"]), rows)
    assert results[2].meta["features"] == pytest.approx(rows[2].tolist())
    page = Report.of(results).to_html(tmp_path / "t.html").read_text("utf-8")
    assert page.count('class="point') == 2 * 5 * 3, "summary and dependence, a point per row and feature"
    assert "<img" not in page and "体重" in page
    assert Report.of(results).to_png(tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    mixed = [*results, pl.explain(pl.ToyModel(), "a b")]
    assert 'class="point' not in Report.of(mixed).to_html(), "a text is no row of the table"


def test_a_report_opens_with_what_the_model_says_and_no_diagnostics(tiny, tmp_path, capsys):
    results = pl.explain(tiny, ["good", "bad"])
    page = results.to_html(tmp_path / "r.html").read_text("utf-8")
    head = re.search(r"<thead>.*?</thead>", page, re.S)[0]
    heads = re.findall(r"<button[^>]*>([^<]*)</button>", head)
    assert heads == ["#", "method", "model", "explains", "text", "the model says", "output", "change", "strongest"]
    results.report.show(width=200)
    shown = capsys.readouterr().out
    assert "gap" not in shown.split("good")[0], "the terminal's table has no gap either"
    for row, result in zip(results.report.rows(), results, strict=True):
        assert 0.0 in result.scores, "special tokens score nothing"
        assert row["headline"].startswith("predicted ") and result.headline.startswith(row["headline"])
        assert f'of-headline" dir="auto">{row["headline"]}</td>' in page and row["headline"] in shown
        assert "good" in row["top"] or "bad" in row["top"]
        assert not any(part.endswith(" +0") for part in row["top"].split(", ")), "what adds nothing is not strongest"


def test_a_report_never_averages_what_raises_one_target_with_what_raises_another(tmp_path):
    """`dull` speaks for negative and against positive: one mean of both would say nothing."""
    good = explanation("fine film", [2.0, 0.5], target="positive")
    bad = explanation("dull film", [3.0, 0.1], target="negative")
    result = Report.of([good, bad]).words()
    assert result["positive"]["film"] == (0.5, 1) and result["negative"]["film"] == (0.1, 1)
    assert set(result) == {"positive", "negative"}
    both = Report.of([good, good]).words()
    assert both["positive"]["film"] == (0.5, 2)
    assert Report.of([good, bad]).to_png(tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")


def table_of(study, tmp_path):
    """Of anything with rows: the lines of its CSV, and that its length, its file and its data frame are the same table."""
    lines = list(csv.DictReader(study.to_csv().splitlines()))
    frame = study.to_dataframe()
    assert len(study) == len(lines) == len(frame) and list(lines[0]) == list(frame.columns)
    assert study.to_csv(tmp_path / "table.csv").read_text("utf-8") == study.to_csv() and "nan" not in study.to_csv()
    return lines


def test_every_study_is_a_table_of_the_rows_it_shows(tmp_path):
    pair, quick = classifier("bert"), {"n_steps": 2, "tolerance": 1}
    compared = pl.compare(pair, TEXT, methods=["ig", "sig"], **quick)
    assert [row["unit"] for row in table_of(compared, tmp_path)] == list(compared.units)
    edited = pl.whatif(pair, TEXT, **quick)
    for row, edit in zip(table_of(edited, tmp_path), edited.edits, strict=True):
        assert row["name"] == edit.name and float(row["difference"]) == edit.actual - edit.predicted
    deep = pl.layers(pair, TEXT, **quick)
    for layer, result in zip(deep.names, deep.results, strict=True):
        assert [float(row[f"layer {layer}"]) for row in table_of(deep, tmp_path)] == result.scores.tolist()
    lengths = pl.layers(pair, TEXT, layers=[0], method="vaig", **quick)
    assert lengths.to_dataframe()["layer 0"].tolist() == lengths.results[0].norms.sum(0).tolist()
    few = pl.nodes(pair, TEXT, counts=[2, 4], rules=["gauss", "left"], n_steps=2, tolerance=1)
    rows = [(row["rule"], int(row["nodes"]), float(row["error"])) for row in table_of(few, tmp_path)]
    assert rows[:2] == [("gauss", 2, few.errors["gauss"][0]), ("gauss", 4, few.errors["gauss"][1])] and len(rows) == 5
    assert rows[-1] == ("as asked", few.explanation.certificate.nodes, few.adaptive)
    along = pl.pathview(pair, TEXT, methods=["ig", "udig"], points=3, steps=3, neighbours=3)
    moving = [k for k, held in enumerate(along.held) if not held]
    rows = table_of(along, tmp_path)
    assert len(rows) == 2 * 3 * len(moving) and "" not in {row["nearest"] for row in rows}
    last = [float(row["share"]) for row in rows if row["method"] == "ig" and float(row["t"]) == 1]
    assert last == along.tracks[0].share[-1][moving].tolist()
    curve = pl.softplus_curve(classifier("bert"), TEXT, betas=[5], tolerance=0.5)
    assert float(table_of(curve, tmp_path)[0]["beta"]) == 5


def test_a_comparison_without_an_order_speaks_of_none():
    one = pl.compare(classifier("bert"), "funny", methods=["ig", "sig"])
    assert np.isnan(one.spearman[0, 1]) and "nan" not in repr(one) and "Spearman" not in repr(one)
    assert any("agreement is not defined" in note for note in one.notes), "the page says why"
    three = replace(
        one, labels=("a", "b", "c"), spearman=np.array([[1, 0.5, np.nan], [0.5, 1, np.nan], [np.nan, np.nan, 1]])
    )
    assert "Spearman 0.50" in repr(three) and "nan" not in repr(three) and " to " not in repr(three)
