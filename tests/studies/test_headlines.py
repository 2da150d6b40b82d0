"""Every view says what the model says; short reprs; differences that say what was subtracted; diagnostics in one line."""

from __future__ import annotations

import io
import re
from dataclasses import fields, is_dataclass

import pytest
from rich.console import Console

import pathlens as pl
from pathlens.draw import figure, markup, page_of, terminal
from pathlens.explanation.base import quoted
from pathlens.text.load import load
from tests.support.models import classifier, generator

TEXT = "the movie was not really funny"
QUICK = {"n_steps": 2, "tolerance": 1}


@pytest.fixture(scope="module")
def tiny():
    return load(classifier("bert"))


@pytest.fixture(scope="module")
def views(tiny):
    return {
        "result": pl.explain(tiny, TEXT, **QUICK),
        "compare": pl.compare(tiny, TEXT, methods=["ig", "sig"], **QUICK),
        "what if": pl.whatif(tiny, TEXT, **QUICK),
        "layers": pl.layers(tiny, TEXT, layers=[0, 1], **QUICK),
        "nodes": pl.nodes(tiny, TEXT, counts=[2], rules=["gauss"], tolerance=1),
        "path": pl.pathview(tiny, TEXT, methods=["ig"], points=3),
    }


def printed(thing) -> str:
    stream = io.StringIO()
    terminal.show(thing, console=Console(file=stream, width=200, color_system=None))
    return stream.getvalue()


def words_of(thing, monkeypatch) -> str:
    """Everything that a picture writes as a paragraph."""
    written: list[str] = []
    real = figure.paragraph
    monkeypatch.setattr(figure, "paragraph", lambda text, *a, **k: written.append(text) or real(text, *a, **k))
    figure.draw(thing)
    return "\n".join(written)


def test_every_view_says_what_the_model_says(views, monkeypatch):
    headline = views["result"].headline
    assert re.fullmatch(r"predicted \S+, .* % \(from the baseline alone: \S+, .* %\)", headline)
    for name, view in views.items():
        assert page_of(view).headline == headline and len(page_of(view).classes) == len(
            views["result"].probabilities
        ), name
        assert headline in printed(view).splitlines()[0], name
        assert f"<h1>{headline}</h1>" in markup.fragment(view), name
        assert headline in words_of(view, monkeypatch), name


def test_a_model_without_classes_names_its_number():
    toy = pl.ToyModel()
    result, path = pl.explain(toy, "a fine film"), pl.pathview(toy, "a fine film", methods=["ig"], points=3)
    proof = result.certificate
    assert result.headline == f"F: {proof.f_input:.4g} (from the baseline alone: {proof.f_baseline:.4g})"
    assert page_of(path).headline == path.headline and path.headline.startswith("F: ")


def test_a_headline_quotes_all_that_was_written():
    """Three outputs with probabilities of their own are not called by one word."""
    assert [quoted(each) for each in (" Paris", " Paris.", " Paris.\n\n")] == ["“Paris”", "“Paris.”", "“Paris.↵↵”"]
    assert [quoted(each) for each in ("\n", "\r\n", "  x", " ")] == ["“↵”", "“↵”", "“ x”", "“ ”"]
    written = pl.explain(generator(), "the movie was", generate=3)
    assert written.headline.startswith(f"{quoted(written.origin.outputs[0])} is ") and "\n" not in repr(written)


def test_reprs_are_a_line_not_a_dump(views, tiny):
    things = [*views.values(), views["result"].certificate, views["result"].check, pl.Explainer(tiny), tiny]
    things += [views["path"].tracks[0], pl.Report.of([views["result"]])]
    for thing in things:
        text = repr(thing)
        assert text.startswith(f"<{type(thing).__name__} · ") and len(text) < 300 and "\n" not in text
        if is_dataclass(thing):
            assert not any(f"{each.name}=" in text for each in fields(thing))
    assert views["result"].target in repr(views["what if"]) and "Spearman" in repr(views["compare"])
    assert "settled" in repr(views["result"].certificate)


def test_a_difference_names_both_and_sums_to_what_stands_there(tiny, monkeypatch):
    one, two = pl.explain(tiny, TEXT), pl.explain(tiny, TEXT, baseline="zero")
    less = one - two
    sums = [float(each.scores.sum()) for each in (one, two)]
    assert [name for name, _ in less.difference] == ["baseline mask", "baseline zero"]
    assert [total for _, total in less.difference] == pytest.approx(sums)
    legend = page_of(less).proof.legend
    total = re.search(r"they sum to (\S+) = (\S+) \(baseline mask\) − (\S+) \(baseline zero\)", legend)
    assert [float(each) for each in total.groups()] == pytest.approx([less.scores.sum(), *sums], rel=1e-3, abs=1e-4)
    both = f"{sums[0]:.4g} − {sums[1]:.4g}"
    for text in (repr(less), printed(less), markup.fragment(less), words_of(less, monkeypatch)):
        assert "baseline mask − baseline zero" in text and both in text
    assert less.settled and less.altered == ""


def test_a_difference_with_a_reading_that_has_no_sum_is_settled_and_says_its_own(tiny):
    """SIG's numbers have no common sum: neither has the difference one to miss."""
    one, two = pl.explain(tiny, TEXT, method="ig"), pl.explain(tiny, TEXT, method="sig")
    less = one - two
    assert less.certificate.kind == "per token" and less.settled and less.altered == ""
    assert f"{float(less.scores.sum()):.4g}" in less.headline and "ig − sig" in page_of(less).title


def test_diagnostics_of_many_are_one_line(views, monkeypatch):
    for name in ("layers", "compare"):
        page = page_of(views[name])
        assert len(page.proof.sums) == 2 and len(page.proof.diagnostics) == 1
        text = printed(views[name])
        assert text.count("diagnostics:") == 1 and all(each.name in text for each in page.proof.sums)
        assert markup.fragment(views[name]).count('<details class="diagnostics"') == 1
        assert page.proof.diagnostics[0].words in words_of(views[name], monkeypatch)


def test_what_has_no_common_sum_is_never_said_to_add_up(tiny, monkeypatch):
    """Beside integrals and secants, sig is listed apart, under the row that says so."""
    for methods, claim in {
        "ig,sig,secant": "ig, secant add up; sig exact unit by unit, without a common sum",
        "ig,secant": "all add up",
        "sig": "exact unit by unit",
    }.items():
        several = "," in methods
        study = pl.compare(tiny, TEXT, methods=methods) if several else pl.explain(tiny, TEXT, method=methods)
        proof = page_of(study).proof
        assert proof.claim == claim and f"<summary>✓ {claim} · diagnostics</summary>" in markup.fragment(study)
        lines = proof.diagnostics[0].words.split("; ")
        if several:
            assert [("sig" in line, "add up" in line) for line in lines] in (
                [(False, True), (True, False)],
                [(False, True)],
            )
            for text in (printed(study), words_of(study, monkeypatch)):
                assert all(line in " ".join(text.split()) for line in lines)


def test_why_one_stands_above_another_has_one_heading(minilm, monkeypatch):
    ranking = pl.rank(minilm, "music", ["a guitar", "a river"], n_steps=2, tolerance=1).with_reason(0, 1)
    reason = ranking.reason
    text = printed(ranking)
    assert text.count("stands above") == 1 and text.count("place 1 minus place 2") <= 3  # under it, and in the legend
    page = markup.fragment(ranking)
    assert (
        page.count("<h1>") == 1 + len(ranking) and f"<h1>{reason.headline}" not in page
    )  # the page's, and of each hit
    assert reason.headline in words_of(ranking, monkeypatch)


def test_names_and_numbers_are_not_read_back_from_the_headline(tiny):
    """A class called "bad (1 star)" is named whole, and an output of 9 is stated although "96.9 %" has a 9 in it."""
    result = pl.explain(tiny, TEXT, **QUICK)
    odd = result.derived(probabilities={"bad (1 star)": 0.969, "good": 0.031})
    assert "predicted bad (1 star), 96.9 %" in repr(odd)
    assert not odd.headline_has_output
    assert f"output {odd.certificate.f_input:.4g}" in page_of(odd).subtitle
