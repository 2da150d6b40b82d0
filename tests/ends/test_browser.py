"""The page in a real browser, by what a person does with it."""

from __future__ import annotations

import json
import re

import pytest

import pathlens as pl
from pathlens.serve.tasks import BOUNDS
from pathlens.text.load import load
from pathlens.types import TEXT_UNITS
from tests.rooms.test_chat import generator
from tests.support.browser import (
    HOSTILE,
    TEXT,
    accessible,
    address,
    ask,
    browser,
    chances,
    looked_at,
    numbers,
    opened,
    options,
    page,
    ready,
    serving,
    settled,
    shot,
    view,
)
from tests.support.models import answerer, classifier, encoder, filler, tagger

__all__ = ["address", "browser", "page"]  # fixtures


def test_it_opens_on_a_live_example_with_its_prediction(page, address):
    opened(page, address)
    assert page.inner_text("#result .text").strip() == page.input_value("[name=text]")
    assert page.inner_text("#result h1").startswith("predicted LABEL_")
    assert set(chances(page)) == {"LABEL_0", "LABEL_1", "LABEL_2"} and "baseline" in page.inner_text(
        "#says .class >> nth=0"
    )
    drawer = page.locator("#result .diagnostics")
    assert drawer.get_attribute("open") is None
    drawer.locator("summary").click()
    assert "passes" in drawer.inner_text()
    looked_at(page, "explain")


def test_it_says_what_the_library_says(page, address):
    ready(page, address)
    options(page)
    page.fill("[name=text]", TEXT)
    page.select_option("[name=method]", "ig")
    page.select_option("[name=unit]", "token")
    page.select_option("[name=target]", "LABEL_1")
    page.fill("[name=baseline]", "pad")
    assert ask(page) == ""
    wanted = pl.explain(load(classifier("bert")), TEXT, method="ig", target="LABEL_1", baseline="pad")
    kept = [s for s, special in zip(wanted.scores, wanted.special, strict=True) if not special]
    result = numbers(page)
    assert len(result) == len(kept) and max(abs(a - b) for a, b in zip(result, kept, strict=True)) < 0.06
    unit = page.locator("#result .text .unit", has_text="funny")
    unit.hover()
    tip = unit.evaluate("node => getComputedStyle(node, '::after').content")
    assert "funny" in tip and any(c.isdigit() for c in tip)


def test_every_class_is_one_click_away(page, address):
    opened(page, address)
    before = page.get_attribute("#result", "data-done")
    other = page.locator("#says .class[aria-pressed=false]").first
    name, scores = other.locator("b").inner_text(), numbers(page)
    other.click()
    assert settled(page, before) == ""
    assert page.inner_text("#says .class[aria-pressed=true] b") == name
    assert name in page.inner_text("#result header p") and numbers(page) != scores


PLACES = {"tagger": (tagger, TEXT), "filler": (filler, "the movie was [MASK] .")}


def pressed(page) -> list[str]:
    return page.locator("#says .class[aria-pressed=true] b").all_inner_texts()


def asked_of(page, address, name, text):
    ready(page, address)
    page.select_option("[name=model]", name)
    page.fill("[name=text]", text)
    if name == "answerer":
        page.fill("[name=second]", TEXT)
    assert ask(page) == ""


@pytest.mark.parametrize("name", PLACES)
def test_a_tag_and_a_word_in_a_gap_are_one_click_away(page, address, name):
    """What is explained then is what the library explains when it is asked for that tag, of that token, or for that word."""
    make, text = PLACES[name]
    asked_of(page, address, name, text)
    model = load(make())
    first = pl.explain(model, text, unit="word")
    (before,) = pressed(page)
    assert set(chances(page)) == set(first.probabilities) and first.origin.about.place in page.inner_text("#says h2")
    for chosen in [each for each in chances(page) if each != before][:2]:
        wanted = pl.explain(model, text, unit="word", target=first.origin.targets[chosen])
        done = page.get_attribute("#result", "data-done")
        page.locator("#says button.class").filter(has=page.get_by_text(chosen, exact=True)).click()
        assert settled(page, done) == "" and pressed(page) == [chosen]
        assert wanted.target in page.inner_text("#result header p") and wanted.target.strip("'").startswith(chosen)
        page.wait_for_selector("#go:not([disabled])")
        shown = page.inner_text("#result .text"), numbers(page)
        assert same_again(page, address) == shown and pressed(page) == [chosen], "a link has it too"


def test_an_edit_leaves_the_tag_and_the_gap_that_are_asked_about_where_they_are(page, address):
    """Words before a token that is asked about are not offered: with another number of tokens there, another would be its."""
    for name, (_, text) in PLACES.items():
        asked_of(page, address, name, text)
        if name == "tagger":
            options(page)
            page.fill("[name=words]", "3")
            assert ask(page) == ""
        (explained,), place, words = pressed(page), page.inner_text("#says h2"), text.split()
        units = page.locator("#result .text .unit").all()
        offered = [unit.inner_text() for unit in units if unit.get_attribute("role") == "button"]
        assert offered == (words[3:] if name == "tagger" else [word for word in words if word != "[MASK]"])
        assert ("after what is explained" in page.inner_text("#hint")) == (name == "tagger")
        done = page.get_attribute("#result", "data-done")
        page.locator("#result .text .unit[role=button]").last.click()
        assert page.is_visible("#word [data-edit=mask]") == (name == "tagger"), "a mask would be a gap more"
        page.click("#word [data-edit=delete]")
        assert settled(page, done) == "" and pressed(page) == [explained] and page.inner_text("#says h2") == place


def test_what_nothing_asks_for_is_no_button(page, address):
    """An answer is where the model finds it; of all classes as one vector none is explained by itself."""
    asked_of(page, address, "answerer", "the movie")
    wanted = pl.explain(load(answerer()), "the movie", TEXT)
    assert list(chances(page)) == list(wanted.probabilities) and page.locator("#says button").count() == 0
    assert page.locator("#says .class[aria-current=true] b").all_inner_texts() == [wanted.prediction]
    accessible(page, "answer's words")
    ready(page, address)
    options(page)
    page.select_option("[name=method]", "vaig")
    assert ask(page) == "" and len(chances(page)) == 3 and page.locator("#says button").count() == 0


@pytest.mark.parametrize("edit", ["mask", "delete", "replace"])
def test_a_word_is_changed_and_everything_moves(page, address, edit):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    was, scores, before = chances(page), numbers(page), page.get_attribute("#result", "data-done")
    page.locator("#result .text .unit", has_text="not").click()
    assert page.inner_text("#word-name") == "“not”"
    if edit == "mask":
        looked_at(page, "word")
    if edit == "replace":
        page.fill("#word [name=replacement]", "very")
        page.keyboard.press("Enter")
    else:
        page.click(f"#word [data-edit={edit}]")
    assert settled(page, before) == ""
    words = page.inner_text("#result .text").split()
    put = {"mask": ["[MASK]"], "delete": [], "replace": ["very"]}[edit]
    assert words == [w for word in TEXT.split() for w in (put if word == "not" else [word])]
    now = chances(page)
    assert (
        numbers(page) != scores
        and f"was {was['LABEL_0']}" in page.locator("#says .class", has_text="LABEL_0").inner_text()
    )
    message = page.locator("#result td.was").all_inner_texts()
    assert sum(text.startswith("was ") for text in message) == len(TEXT.split()) - 1
    # the same numbers as asking for that text, and back again
    plain = pl.explain(load(classifier("bert")), " ".join(words)).probabilities
    for name, share in now.items():
        assert abs(float(share.split()[0].lstrip("<>")) - 100 * plain[name]) < 0.1
    before = page.get_attribute("#result", "data-done")
    page.click("text=Back to your text")
    assert settled(page, before) == "" and chances(page) == was and page.is_hidden("#edits")


def test_only_what_applies_is_offered_and_defaults_are_the_models(page, address):
    opened(page, address)
    options(page)
    assert page.get_attribute("[name=baseline]", "placeholder") == "mask"
    assert page.inner_text("[name=method] option >> nth=0").startswith("secant")
    for method, taken in {"ig": [], "idg": ["tree"], "vaig": ["block"], "secant": ["block"]}.items():
        page.select_option("[name=method]", method)
        assert [name for name in ("tree", "block") if page.is_visible(f"[name={name}]")] == taken, method
    assert page.is_hidden("[name=passages]") and page.is_hidden("[name=contrast]")
    assert page.locator("[name=unit] option").all_inner_texts() == list(TEXT_UNITS)
    assert page.locator("[name=model] option").all_inner_texts()[0].startswith("tiny (")
    assert "encoder" not in page.inner_text("[name=model]"), "one text has no similarity"
    page.select_option("[name=model]", "writer")
    assert page.inner_text("[data-name=text]") == "Prompt" and page.is_visible("[name=passages]")
    assert page.get_attribute("[name=baseline]", "placeholder") == "zero"
    view(page, "pair")
    assert page.locator("[name=model] option").count() == 1 and page.is_visible("[name=text_b]")


def test_tabs_without_a_model_are_not_there(browser):
    """A server with a classifier alone has no similarity and no answers."""
    with serving({"tiny": load(classifier("bert"))}) as address:
        page = browser.new_page()
        opened(page, address)
        assert page.locator("[role=tab]:visible").all_inner_texts() == ["One text", "A table"]
        page.close()


def test_nothing_stale_stays_under_an_error(page, address):
    opened(page, address)
    options(page)
    page.fill("[name=baseline]", "nobody")
    assert "nobody" in ask(page)
    assert page.inner_html("#result") == "" and all(page.is_hidden(f"#{each}") for each in ("says", "tools", "further"))
    assert not page.is_disabled("#go")
    looked_at(page, "error")
    page.fill("[name=text]", "  ")
    assert "Text: There is nothing here" in ask(page)


def test_a_server_that_is_gone_is_said(page, address):
    opened(page, address)
    page.route("**/api/**", lambda route: route.abort())
    page.click("#go")
    page.wait_for_selector("#wrong:visible")
    assert "does not answer" in page.inner_text("#wrong") and page.inner_html("#result") == ""
    page.context.clear_cookies()
    page.trouble.clear()  # the browser's own line about the request that was cut


def test_two_texts_and_their_pairs(page, address):
    ready(page, address)
    view(page, "pair")
    page.fill("[name=text]", "a man plays guitar")
    page.fill("[name=text_b]", "the film was funny")
    assert ask(page) == ""
    assert "= pairs of words" in page.inner_text("#result h1") and "+ the rest" in page.inner_text("#result h1")
    assert "word × word" in page.inner_text("#result")
    visible = page.locator("#result .arc[display=inline]")
    many = visible.count()
    page.locator("#result input.top").evaluate("node => { node.value = 3; node.dispatchEvent(new Event('input')); }")
    assert visible.count() == 3 < many
    drawing, table = page.locator("#result .scroll:has(.arcs)"), page.locator("#result .matrix >> nth=0")
    for width in (1600, 1200, 390):  # no name is cut off; beside the table where there is room
        page.set_viewport_size({"width": width, "height": 900})
        assert drawing.evaluate("node => node.scrollWidth <= node.clientWidth"), width
        beside = drawing.bounding_box()["x"] > table.bounding_box()["x"] + table.bounding_box()["width"]
        assert beside == (width == 1600), width
    looked_at(page, "pair")


ROWS = {
    "csv": 'text,label\n"the film, was good",LABEL_0\nnot funny,LABEL_1\n"a ""movie"" was moving",LABEL_2\nthe plot,LABEL_1\n',
    "tsv": "label\ttext\nLABEL_0\tthe film was good\nLABEL_1\tnot funny\nLABEL_2\ta movie\nLABEL_1\tthe plot\n",
    "semicolons": "id;text;label\n1;the film, was good;LABEL_0\n2;not funny;LABEL_1\n3;a movie;LABEL_2\n4;the plot;LABEL_1\n",
}


def predicted(page):
    page.wait_for_selector("#table[data-done]", state="attached")


@pytest.mark.parametrize("kind", list(ROWS))
def test_a_file_becomes_a_table_of_predictions(page, address, tmp_path, kind):
    ready(page, address)
    view(page, "table")
    file = tmp_path / f"rows.{'tsv' if kind == 'tsv' else 'csv'}"
    file.write_text(ROWS[kind], encoding="utf-8")
    page.set_input_files("#file", str(file))
    predicted(page)
    assert page.locator(".many > tbody > tr").count() == 4 and "of 4 rows" in page.inner_text(".count")
    labels = page.locator(".many > tbody > tr > td:nth-child(3)").all_inner_texts()
    assert labels == ["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_1"], "the column of true classes was found"
    texts = page.locator(".many .open").all_inner_texts()
    assert texts[1] == "not funny" and (kind != "csv" or texts[:3:2] == ["the film, was good", 'a "movie" was moving'])
    model = load(classifier("bert"))
    message = [row.split()[0] for row in page.locator(".many > tbody > tr > td:nth-child(4)").all_inner_texts()]
    assert message == [pl.explain(model, text).prediction for text in texts]


def tabled(page, address) -> None:
    """A table of rows, with a prediction for each."""
    ready(page, address)
    view(page, "table")
    page.fill("#rows", ROWS["csv"])
    page.click("#go")
    predicted(page)


def test_the_table_is_sorted_filtered_and_opened(page, address):
    tabled(page, address)
    right = int(page.inner_text(".sums .about").split()[0])
    cells = page.locator(".confusion td button").all_inner_texts()
    assert sum(map(int, cells)) == 4 and sum(map(int, cells[:: int(len(cells) ** 0.5) + 1])) == right
    page.click("th[data-key=sure] button")
    sure = [
        float(v.split()[0].lstrip("<>"))
        for v in page.locator(".many > tbody > tr > td:nth-last-child(2)").all_inner_texts()
    ]
    assert sure == sorted(sure) and page.get_attribute("th[data-key=sure]", "aria-sort") == "ascending"
    page.click("text=Most wrong")
    wrong = page.locator(".many > tbody > tr").count()
    assert wrong == 4 - right and page.is_checked(".choose [type=checkbox]")
    page.click("text=As in the file")
    page.fill(".choose [type=search]", "movie")
    assert page.locator(".many > tbody > tr").count() == 1
    page.fill(".choose [type=search]", "")
    page.click("text=Most unsure")
    page.locator(".many .open").first.click()
    page.wait_for_selector(".many .detail .bars")
    looked_at(page, "table")
    text = page.locator(".many .open").first.inner_text()
    page.click("text=Try changes to this text")
    assert settled(page) == "" and page.input_value("[name=text]") == text


def test_a_dropped_file_and_one_that_cannot_be_used(page, address):
    ready(page, address)
    view(page, "table")
    drop = """(text) => {
      const data = new DataTransfer();
      data.items.add(new File([text], "rows.csv", { type: "text/csv" }));
      for (const kind of ["dragover", "drop"])
        document.getElementById("drop").dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
    }"""
    page.evaluate(drop, "text,label\nthe film,LABEL_0\nthe plot,LABEL_2\n")
    predicted(page)
    assert page.locator(".many > tbody > tr").count() == 2
    page.fill("#rows", "text,label\nthe film,LABEL_0\nthe plot,sideways\n")
    page.keyboard.press("Tab")
    page.select_option("[name=label_column]", label="label")
    page.click("#go")
    page.wait_for_selector("#wrong:visible")
    assert "sideways" in page.inner_text("#wrong") and page.is_hidden("#table")


def test_a_text_file_has_a_text_a_line_and_no_header(page, address, tmp_path):
    ready(page, address)
    view(page, "table")
    lines = ["not funny", "the film", "a movie, and a plot"]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    page.set_input_files("#file", str(tmp_path / "lines.txt"))
    predicted(page)
    assert page.locator(".many .open").all_inner_texts() == lines and not page.is_checked("#named")


def test_a_row_longer_than_the_server_takes_is_named(page, address, tmp_path):
    """By the server's own bound, which is written once."""
    ready(page, address)
    view(page, "table")
    long = "the film " * (BOUNDS["characters"] // 9 + 1)
    (tmp_path / "lines.txt").write_text(f"not funny\n{long}\n", encoding="utf-8")
    page.set_input_files("#file", str(tmp_path / "lines.txt"))
    predicted(page)
    assert f"longer than {BOUNDS['characters']} characters" in page.inner_text(".many > tbody > tr:nth-child(2)")
    assert "longer than" not in page.inner_text(".many > tbody > tr:nth-child(1)")


REJECTED = {
    "bin.xlsx": b"PK\x03\x04",
    "zeros.csv": b"text\0\0",
    "head.csv": b"text,label\n",
    "quote.csv": b'text,label\n"a,b\n',
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_file_that_cannot_be_read_leaves_nothing_of_the_one_before(page, address, tmp_path, name):
    """Otherwise the rows of one file would be predicted under the name of another."""
    ready(page, address)
    view(page, "table")
    (tmp_path / "rows.csv").write_text(ROWS["csv"], encoding="utf-8")
    (tmp_path / name).write_bytes(REJECTED[name])
    page.set_input_files("#file", str(tmp_path / "rows.csv"))
    predicted(page)
    page.set_input_files("#file", str(tmp_path / name))
    page.wait_for_selector("#wrong:visible")
    assert page.is_hidden("#columns") and page.is_hidden("#table")
    assert "the plot" not in page.input_value("#rows")
    before = page.get_attribute("#ask", "data-answered")
    page.click("#go")
    page.wait_for_function("before => document.getElementById('ask').dataset.answered !== before", arg=before)
    assert page.is_visible("#wrong") and page.is_hidden("#table"), "there is nothing to predict"


def test_every_row_is_explained_and_believed_or_not(page, address):
    tabled(page, address)
    page.click("[data-part=all]")
    page.wait_for_function("() => [...document.querySelectorAll('.many .leads')].every((cell) => cell.textContent)")
    model = load(classifier("bert"))
    strongest = [cell.split()[0] for cell in page.locator(".many .leads").all_inner_texts()]
    texts = page.locator(".many .open").all_inner_texts()
    assert strongest == [pl.explain(model, text, unit="word").top(1)[0][0] for text in texts]
    page.click("text=How far to believe the explanations")
    page.wait_for_selector("[data-part=belief] .pathlens")
    assert "comprehensiveness" in page.inner_text("[data-part=belief]")


def test_strongest_words_are_words_and_unknown_ones_are_marked(page, address):
    """No special token, nothing that counts for nothing; what the model has never seen is not shown as if it were read."""
    ready(page, address)
    view(page, "table")
    page.fill("#rows", "text\n🎉🎉🎉\nthe film 🎉 was good\n")
    page.click("#go")
    predicted(page)
    page.click("[data-part=all]")
    page.wait_for_function("() => [...document.querySelectorAll('.many .leads')].every((cell) => cell.textContent)")
    for cell in page.locator(".many .leads").all_inner_texts():
        assert "[CLS]" not in cell and "[SEP]" not in cell and not re.search(r" [+-]?0\.00", cell)
        assert all(("unknown to the model" in part) == ("🎉" in part) for part in cell.split(" · "))
    first = page.locator(".many .leads").first.inner_text()
    assert "🎉🎉🎉 (unknown to the model)" in first or first == "no word moves it"


def test_a_search_over_pasted_documents(page, address):
    ready(page, address)
    view(page, "rank")
    page.fill("[name=text]", "music plays")
    page.fill("[name=documents]", "the film was good\nmusic plays\nnot funny")
    assert ask(page) == ""
    assert page.locator("#result .ranking > section > details").count() == 3
    assert "music plays" in page.inner_text("#result .ranking details >> nth=0")
    before = page.get_attribute("#result", "data-done")
    page.select_option("#why [aria-label=below]", "2")
    page.click("#why >> text=Why?")
    assert settled(page, before) == ""
    assert "stands above 3." in page.locator("#result .ranking > section > h2").inner_text()
    looked_at(page, "rank")


def test_an_answer_with_its_sources(page, address):
    ready(page, address)
    view(page, "answer")
    page.fill("[name=question]", "who was it ?")
    page.fill("[name=sources]", f"a movie {HOSTILE} . the plot was good .\n\na man plays music .")
    page.fill("[name=reply]", "the man is funny . it was a movie .")
    assert ask(page) == ""
    assert "with the sources" in page.inner_text("#result h1")
    sentences = page.locator("#result .out")
    assert sentences.count() == 2
    drawer, inside = page.locator("#result .diagnostics"), re.compile(r"gap|pass|full colour")
    assert drawer.get_attribute("open") is None
    assert inside.search(drawer.text_content()) and "the whole answer" in page.inner_text(".chosen")
    assert page.inner_text(".chosen").endswith("✓ adds up") and not inside.search(page.inner_text(".chosen"))
    shades = [page.locator("#result .source .unit").evaluate_all("all => all.map((each) => each.className)")]
    for k in range(2):
        sentences.nth(k).click()
        assert f"({k + 1} of 2)" in page.inner_text(".chosen") and not inside.search(page.inner_text(".chosen"))
        assert re.search(rf"\({k + 1} of 2\): adds up: .*gap.*pass.*full colour is", drawer.text_content())
        shades.append(page.locator("#result .source .unit").evaluate_all("all => all.map((each) => each.className)"))
    assert shades[1] != shades[2] and page.locator("#result img").count() == 0
    looked_at(page, "answer")


def study(page, kind) -> str:
    page.click(f"[data-study={kind}]")
    page.wait_for_selector(f".study[data-kind={kind}][data-done]:not([data-done=''])")
    assert page.get_attribute(f".study[data-kind={kind}]", "data-done") != "failed", page.inner_text(
        f".study[data-kind={kind}]"
    )
    return page.inner_text(f".study[data-kind={kind}] .content")


def test_methods_are_compared_beside_the_result(page, address):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    assert "Spearman" in study(page, "compare")
    section = page.locator(".study[data-kind=compare]")
    for name in ("mask", "pad"):
        section.locator(f"input[name=baselines][value={name}]").check()
    section.locator("text=Compare >> nth=-1").click()
    page.wait_for_function("() => document.querySelector('.study .content').innerText.includes('ig · pad')")
    text = section.inner_text()
    assert "Kendall" in text and "secant · mask" in text
    assert page.is_visible("#result .bars"), "the result itself stays"
    looked_at(page, "compare")


def test_how_far_to_believe_one_text(page, address):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    text = study(page, "whatif")
    assert "predicted" in text and "actual" in text and "Spearman" in text
    assert page.locator(".study circle").count() == 10
    looked_at(page, "belief")


def test_scrubbing_the_path_changes_what_is_read(page, address):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    study(page, "path")
    place, near = page.locator(".study .place"), page.locator(".study .near").first
    last, words = place.inner_text(), near.inner_text()
    page.locator(".study input.along").focus()
    page.keyboard.press("Home")
    assert place.inner_text().startswith("0 %") and place.inner_text() != last
    assert near.inner_text() != words and "[MASK]" in near.inner_text()
    assert page.locator(".study svg.track").count() == 3
    looked_at(page, "path")


def test_every_tab_is_whole_on_a_phone(page, address):
    page.set_viewport_size({"width": 390, "height": 844})
    ready(page, address)
    boxes = [each.bounding_box() for each in page.locator("[role=tab]:visible").all()]
    assert len(boxes) == 5 and all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


def test_what_is_wide_stands_over_the_whole_width(page, address):
    page.set_viewport_size({"width": 1600, "height": 1000})
    opened(page, address)
    study(page, "path")
    study(page, "layers")
    for kind in ("path", "layers"):
        shown = page.locator(f".study[data-kind={kind}]")
        assert shown.bounding_box()["width"] > 1000
        for part in shown.locator(".scroll, .steps").all():
            assert part.evaluate("node => node.scrollWidth <= node.clientWidth")
    panels = [each.bounding_box() for each in page.locator(".study .panels > section").all()]
    assert len({round(box["y"]) for box in panels}) < len(panels), "side by side"


def test_layers_and_nodes(page, address):
    ready(page, address)
    page.fill("[name=text]", "not funny")
    assert ask(page) == ""
    study(page, "layers")
    assert page.locator(".study .panels .bars").count() == 3 and page.locator(".study .curve").count()
    assert not page.locator("[data-study=nodes]").count(), "secants take no nodes"
    options(page)
    page.select_option("[name=method]", "ig")
    assert ask(page) == ""
    study(page, "layers")
    assert "allowed" in study(page, "nodes") and "ig ·" in page.inner_text(".study[data-kind=nodes] .content")
    looked_at(page, "layers")


@pytest.mark.parametrize("method, part", [("idg", ".tree"), ("ih", ".matrix")])
def test_every_kind_of_result_fits_a_phone(page, address, method, part):
    ready(page, address)
    options(page)
    page.fill("[name=text]", TEXT)
    page.select_option("[name=method]", method)
    assert ask(page) == ""
    assert page.locator(f"#result {part}").count() >= 1
    looked_at(page, method)


def test_bars_start_at_one_line_and_take_all_of_the_width(page, address):
    """Lengths can be compared only where they start alike; a scale that nothing needs leaves half of the picture empty."""
    page.set_viewport_size({"width": 1200, "height": 900})
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    wide = {side: [] for side in ("below", "above")}
    for side, widths in wide.items():
        widths += [bar.bounding_box()["width"] for bar in page.locator(f"#result .bars .{side} i").all()]
        room = page.locator(f"#result .bars .{side}").first.bounding_box()["width"]
        assert abs(max(widths) - room) < 3, (side, max(widths), room)
    assert min(max(each) for each in wide.values()) > 0
    options(page)
    page.select_option("[name=method]", "idg")
    for width in (1200, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert ask(page) == ""
        starts = [bar.bounding_box()["x"] for bar in page.locator("#result .tree .room").all()]
        assert len(starts) > 3 and max(starts) - min(starts) < 1, (width, starts)


def test_exports_and_permalink(page, address, tmp_path):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    saved = {}
    for kind in ("html", "png", "json"):
        with page.expect_download() as got:
            page.click(f"[data-export={kind}]")
        saved[kind] = tmp_path / f"a.{kind}"
        got.value.save_as(saved[kind])
    assert saved["png"].read_bytes().startswith(b"\x89PNG")
    one, two = pl.load(saved["html"]), pl.load(saved["json"])
    assert (one.scores == two.scores).all() and one.meta["texts"] == [TEXT]
    assert json.loads(saved["json"].read_text())["kind"] == "Explanation"
    link = page.get_attribute("#permalink", "href")
    page.goto("about:blank")
    page.goto(address + link)
    page.wait_for_selector("#result[data-done]")
    assert page.locator("#result .text").first.inner_text().strip() == TEXT


def same_again(page, address) -> tuple[str, list[float]]:
    """The link, and the address bar, in another window: the same question."""
    link = page.get_attribute("#permalink", "href")
    assert page.evaluate("() => location.hash") == link
    page.goto("about:blank")
    opened(page, address, link)
    return page.inner_text("#result .text"), numbers(page)


def test_a_link_keeps_the_class_and_the_edited_text(page, address):
    """What was chosen above the result, and what was changed in it, stand in no field of the form."""
    ready(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    for press in ("#says .class[aria-pressed=false]", "not"):
        before = page.get_attribute("#result", "data-done")
        if press == "not":
            page.locator("#result .text .unit", has_text="not").click()
            press = "#word [data-edit=delete]"
        page.locator(press).first.click()
        assert settled(page, before) == ""
        page.wait_for_selector("#go:not([disabled])")
        explained, shown = (
            page.inner_text("#says .class[aria-pressed=true] b"),
            (page.inner_text("#result .text"), numbers(page)),
        )
        assert same_again(page, address) == shown
        assert page.inner_text("#says .class[aria-pressed=true] b") == explained
    assert "not" not in page.input_value("[name=text]").split()


def test_a_link_keeps_why_one_stands_above_another(page, address):
    ready(page, address)
    view(page, "rank")
    page.fill("[name=text]", "music plays")
    page.fill("[name=documents]", "the film was good\nmusic plays\nnot funny")
    assert ask(page) == ""
    before = page.get_attribute("#result", "data-done")
    page.select_option("#why [aria-label=below]", "2")
    page.click("#why >> text=Why?")
    assert settled(page, before) == ""
    page.wait_for_selector("#go:not([disabled])")
    link = page.get_attribute("#permalink", "href")
    page.goto("about:blank")
    opened(page, address, link)
    assert "stands above 3." in page.locator("#result .ranking > section > h2").inner_text()


def test_words_on_the_way_are_whole_on_a_phone(page, tmp_path):
    """A table that is wider than the screen scrolls; its words are not broken letter by letter."""
    from pathlens.draw import blocks, markup
    from tests.support import draw_samples

    words = ("[MASK]", "extraordinarily", "uncomfortable", "disappointing", "heartbreaking", "moving")
    listing = blocks.Listing(
        ("from the baseline", "→", "", "", "", "to the text"), (words,) * 3, title="the words on the way"
    )
    whole = markup.document(blocks.Page("udig", blocks=(listing,), proof=blocks.Proof()))
    (tmp_path / "way.html").write_text(whole, encoding="utf-8")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"file://{tmp_path / 'way.html'}")
    heights = page.locator(".listing tbody :is(td, th)").evaluate_all("all => all.map((each) => each.clientHeight)")
    assert max(heights) < 40, "one line each"
    fits = "() => document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate(fits) and page.locator(".scroll").evaluate("box => box.scrollWidth > box.clientWidth")
    draw_samples.broken().to_html(tmp_path / "said.html")
    page.goto(f"file://{tmp_path / 'said.html'}")
    accessible(page, "said")
    shot(page, "said")


def test_hostile_text_stays_text_everywhere(page, address, tmp_path):
    opened(page, address)
    options(page)
    page.select_option("[name=model]", "toy")
    page.fill("[name=text]", f"{HOSTILE} fine")
    page.fill("[name=baseline]", HOSTILE)
    assert ask(page) == ""
    for kind in ("compare", "whatif", "path"):
        assert "onerror" in study(page, kind), kind
    assert page.locator("#shown img").count() == 0 and "onerror" in page.inner_text("#result")
    from pathlens.report import Report

    Report.of([pl.explain(pl.ToyModel(), f"{HOSTILE} fine")], title=HOSTILE).to_html(tmp_path / "r.html")
    page.goto(f"file://{tmp_path / 'r.html'}")
    assert page.locator("img").count() == 0 and HOSTILE in page.inner_text("body")


def test_keyboard_alone_on_a_phone(page, address):
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, address)
    before = page.get_attribute("#result", "data-done")
    page.fill("[name=text]", TEXT)
    page.keyboard.press("Control+Enter")
    assert settled(page, before) == ""
    before = page.get_attribute("#result", "data-done")
    page.locator("#result .unit").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.textContent") == "movie"
    page.keyboard.press("Enter")
    assert page.inner_text("#word-name") == "“movie”"
    page.keyboard.press("Escape")
    assert page.is_hidden("#word") and page.evaluate("() => document.activeElement.textContent") == "movie"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the first choice: mask
    assert settled(page, before) == "" and "[MASK]" in page.inner_text("#result .text")
    page.wait_for_selector("#go:not([disabled])")
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.dataset.view") == "pair"


def test_work_can_be_stopped(page, address):
    opened(page, address)
    options(page)
    page.select_option("[name=model]", "toy")
    page.fill("[name=text]", " ".join(f"w{i}" for i in range(590)))
    page.select_option("[name=method]", "ih")
    page.wait_for_selector("#go:not([disabled])")
    page.click("#go")
    page.click("#cancel")
    page.wait_for_selector("#shown[aria-busy=false]", state="attached")
    assert page.inner_text("#state") in ("stopped", "") or page.inner_text("#state").startswith("done")
    assert not page.is_disabled("#go") and page.is_hidden("#cancel")


def test_five_hundred_tokens_are_drawn(page, address):
    opened(page, address)
    page.select_option("[name=model]", "toy")
    page.fill("[name=text]", " ".join(f"w{i}" for i in range(500)))
    assert ask(page) == ""
    assert page.locator("#result .text .unit").count() == 500


def test_two_results_in_one_notebook_are_alive(page, tmp_path):
    """What a notebook puts on its page: fragments one after the other, on a ground of its own."""
    model = load(encoder("bert"))
    pair = pl.explain(model, "a man plays guitar", "the film was funny", unit="word")
    text = pl.explain(load(classifier("bert")), TEXT)
    outputs = "".join(f"<div class='output'>{each._repr_html_()}</div>" for each in (pair, text, pair))
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><body style='background:#111;color:#eee'>{outputs}</body>", encoding="utf-8")
    page.goto(f"file://{file}")
    assert page.locator(".pathlens[data-live]").count() == 3
    sliders = page.locator("input.top")
    sliders.nth(1).evaluate("node => { node.value = 2; node.dispatchEvent(new Event('input')); }")
    drawn = page.locator(".pathlens >> nth=2").locator(".arc[display=inline]").count()
    assert drawn == 2 < page.locator(".pathlens >> nth=0").locator(".arc[display=inline]").count()
    grounds = page.locator(".pathlens").evaluate_all("all => all.map((each) => getComputedStyle(each).backgroundColor)")
    assert len(set(grounds)) == 1 and sum(map(int, grounds[0][4:-1].split(","))) < 200, "no white slab on a dark page"
    shot(page, "notebook")


def test_a_report_is_filtered_sorted_and_opened(page, tmp_path):
    from pathlens.report import Report

    results = [
        pl.explain(pl.ToyModel(), text, method=method)
        for text in ("a b c", "日本語 の 文", "b b")
        for method in ("ig", "sig")
    ]
    Report.of(results, title="things").to_html(tmp_path / "r.html")
    page.goto(f"file://{tmp_path / 'r.html'}")
    page.fill(".filter", "日本語")
    assert page.inner_text(".count") == "2 of 6"
    page.select_option("select[data-key=method]", "sig")
    assert page.inner_text(".count") == "1 of 6"
    page.fill(".filter", "")
    page.select_option("select[data-key=method]", "")
    page.click("button[data-key=change]")
    changes = [
        float(v) for v in page.eval_on_selector_all("tbody[data-change]", "all => all.map((b) => b.dataset.change)")
    ]
    assert changes == sorted(changes)
    page.locator(".row").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".detail:not([hidden]) .bars").count() == 1
    shot(page, "report")


def usual(page, name) -> str:
    """What an empty choice says it means."""
    return page.locator(f"[name={name}] option[value='']").inner_text()


def test_the_usual_score_is_the_methods(browser):
    """A generator may have a score of its own for one token's integral; whatever is shown as the default is what is explained."""
    writer = load(generator())
    writer.default_score = "prob"
    with serving({"writer": writer}) as address:
        page = browser.new_page()
        opened(page, address)
        options(page)
        page.fill("[name=text]", TEXT)
        for method in page.locator("[name=method] option").evaluate_all("all => all.map((each) => each.value)"):
            if method in ("dig", "udig", "vaig"):
                continue  # paths through words take long; a vector has no score, and none is offered
            page.select_option("[name=method]", method)
            shown = usual(page, "score")
            assert ask(page) == "", method
            score = re.search(r"score (\w+)", page.locator("#result header p").inner_text())[1]
            assert shown == f"{score} (the default)", method
        page.select_option("[name=method]", "ig")
        assert usual(page, "score") == "prob (the default)"
        page.fill("[name=generate]", "3")
        assert usual(page, "score") == "logprob (the default)"
        page.fill("[name=generate]", "")
        page.fill("[name=words]", " film was")
        assert usual(page, "score") == "prob of one token, logprob of more (the default)"
        page.close()


@pytest.mark.parametrize("model, chosen", [
    ("tiny", {"method": "ih"}),
    ("tiny", {"method": "idg"}),
    ("tiny", {"method": "vaig"}),
    ("writer", {}),
    ("writer", {"words": " film was"}),
    ("writer", {"generate": "3"}),
])  # fmt: skip
def test_words_are_offered_to_be_changed_where_a_click_opens_them(page, address, model, chosen):
    ready(page, address)
    options(page)
    page.select_option("[name=model]", model)
    page.fill("[name=text]", TEXT)
    for name, value in chosen.items():
        page.select_option(f"[name={name}]", value) if name == "method" else page.fill(f"[name={name}]", value)
    assert ask(page) == ""
    unit = page.locator("#result .text .unit", has_text="not").first
    assert "Click" not in page.inner_text("#about")
    assert page.is_visible("#hint") == (chosen.get("method") not in ("idg", "vaig"))
    if page.is_hidden("#hint"):
        assert page.locator("#result .unit[role=button]").count() == 0
        return
    before, was = page.get_attribute("#result", "data-done"), chances(page)
    unit.click()
    assert page.inner_text("#word-name") == "“not”"
    page.click("#word [data-edit=delete]")
    assert settled(page, before) == ""
    assert page.locator("#result .text").first.inner_text().split() == [word for word in TEXT.split() if word != "not"]
    assert "“not” deleted" in page.inner_text("#edits")
    now = chances(page)
    assert list(now) == list(was) and was, "what was said is what is explained still"
    assert "was " in page.inner_text("#says .class >> nth=0")


@pytest.mark.parametrize("name, value, words", [
    ("layer", "77", "Layer: This must be 3 or less."),
    ("layer", "1.5", "Layer: This must be a whole number."),
    ("tolerance", "0", "Tolerance: This must be 1e-9 or more."),
])  # fmt: skip
def test_a_number_that_cannot_be_is_said_in_the_pages_words(page, address, name, value, words):
    opened(page, address)
    options(page)
    page.select_option("[name=method]", "ig")
    page.fill("[name=baseline]", "nobody")
    assert "nobody" in ask(page)
    page.fill("[name=baseline]", "")
    page.fill(f"[name={name}]", value)
    assert ask(page) == words, "and nothing of the error before"
    assert page.get_attribute(f"[name={name}]", "aria-invalid") == "true"
    page.fill(f"[name={name}]", "")
    assert ask(page) == ""


OFFERED = {  # what can be asked further, by what is shown
    "ig": ["compare", "whatif", "path", "layers", "nodes"],
    "secant": ["compare", "whatif", "path", "layers"],
    "idg": ["compare", "whatif", "path", "layers"],
    "ih": ["compare", "whatif", "path", "layers"],
    "vaig": ["compare", "layers"],
    "pair": ["compare", "whatif"],
    "rank": ["compare", "whatif"],
    "answer": ["compare"],
    "continuation": ["compare"],
}


@pytest.mark.parametrize("shown", list(OFFERED))
def test_whatever_is_offered_beside_a_result_works(page, address, shown):
    """Compare methods, how far to believe it and the others, for every kind of result; none covers it on a wide screen."""
    ready(page, address)
    if shown in ("ig", "secant", "idg", "ih", "vaig"):
        options(page)
        page.fill("[name=text]", TEXT)
        page.select_option("[name=method]", shown)
    elif shown == "continuation":
        options(page)
        page.select_option("[name=model]", "writer")
        page.fill("[name=text]", TEXT)
        page.fill("[name=words]", " film was")
    else:
        view(page, shown)
        if shown == "pair":
            page.fill("[name=text]", "a man plays guitar")
            page.fill("[name=text_b]", "the film was funny")
        elif shown == "rank":
            page.fill("[name=text]", "music plays")
            page.fill("[name=documents]", "the film was good\nmusic plays\nnot funny")
        else:
            page.fill("[name=question]", "who was it ?")
            page.fill("[name=sources]", "a movie . the plot was good .\n\na man plays music .")
            page.fill("[name=reply]", "the man is funny . it was a movie .")
    assert ask(page) == ""
    kinds = page.locator("#further [data-study]").evaluate_all("all => all.map((each) => each.dataset.study)")
    assert kinds == OFFERED[shown]
    page.set_viewport_size({"width": 1600, "height": 1000})
    wide = False  # a path's table and layers need the whole width: with them, everything stands below the result
    for kind in kinds:
        assert "altered" not in study(page, kind)
        wide = wide or kind in ("path", "layers")
        edges = [page.locator(part).first.bounding_box() for part in ("#main", f".study[data-kind={kind}]")]
        side, long = ("y", "height") if wide else ("x", "width")
        assert edges[0][side] + edges[0][long] <= edges[1][side], f"{kind} stays beside the result, or below it"
    if shown in ("rank", "answer"):
        section, name = page.locator(".study[data-kind=compare]"), {"rank": "hit", "answer": "sentence"}[shown]
        before = section.inner_text()
        section.locator(f"[name={name}]").select_option("1")
        page.wait_for_function(
            "before => { const node = document.querySelector('.study[data-kind=compare]'); return node.dataset.done && node.innerText !== before; }",
            arg=before,
        )
        assert section.get_attribute("data-done") != "failed", section.inner_text()
    looked_at(page, f"beside-{shown}")


def test_most_unsure_is_of_all_rows(page, address):
    tabled(page, address)
    page.click("text=Most wrong")
    assert page.is_checked(".choose [type=checkbox]")
    page.click("text=Most unsure")
    assert not page.is_checked(".choose [type=checkbox]") and page.locator(".many > tbody > tr").count() == 4


def test_a_quote_that_is_never_closed_is_said(page, address):
    ready(page, address)
    view(page, "table")
    page.fill("#rows", 'text,label\nthe film,LABEL_0\n"the plot,LABEL_2\nnot funny,LABEL_1\n')
    page.click("#go")
    page.wait_for_selector("#wrong:visible")
    assert "A quote opens in line 3" in page.inner_text("#wrong") and page.is_hidden("#table")


def test_a_phone_shows_the_prediction_of_every_row(page, address):
    page.set_viewport_size({"width": 390, "height": 844})
    tabled(page, address)
    for name in ("True class", "Prediction", "Probability", "Lead over the next"):
        cells = page.locator(f".many > tbody td[data-name='{name}']").all()
        assert len(cells) == 4
        for box in (cell.bounding_box() for cell in cells):
            assert box["x"] >= 0 and box["x"] + box["width"] <= 390, name


TAKEN = {  # rows → the column of texts, the one of true classes, the true classes that are shown, and what is remarked
    "named": ("id,has_image,text,label\n1,0,not funny,LABEL_2\n2,1,the film,LABEL_1\n", "text", "label", [2, 1], ""),
    "numbers": ("stars,Review,Target\n1,the film,1.0\n2,not funny,0.0\n1,a movie,\n", "Review", "Target", [1, 0, None], ""),
    "title": ("title,text,gold\na long title of a film,the film,0\n", "text", "gold", [0], ""),
    "guessed": ("text,what\nthe film,LABEL_1\n", "text", "what", [1], ""),
    "strange": (
        "text,seen,label\nthe film,1,LABEL_1\nnot funny,0,pos\n", "text", "no column", None,
        "No true classes are taken from “label”: “pos” in row 2 is none of this model's classes (LABEL_0, LABEL_1, LABEL_2).",
    ),
    "ragged": (
        "text,label\nthe film,LABEL_1\nnot funny, but long,LABEL_0\na movie,LABEL_2\nthe plot\n", "text", "label", [1, 2],
        "2 of 4 rows are left out; the first: row 2 has 3 fields where 2 were expected: a stray separator or quote.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(TAKEN))
def test_columns_are_taken_by_their_names_and_what_is_not_taken_is_remarked(page, address, kind):
    rows, text, label, classes, remark = TAKEN[kind]
    ready(page, address)
    view(page, "table")
    page.fill("#rows", rows)
    chosen = "name => document.querySelector(`[name=${name}]`).selectedOptions[0].textContent"
    assert [page.evaluate(chosen, name) for name in ("text_column", "label_column")] == [text, label]
    assert page.inner_text("#remarks") == remark
    page.click("#go")
    predicted(page)
    cells = page.locator(".many > tbody td[data-name='True class']").all_inner_texts()
    assert cells == [] if classes is None else cells == ["·" if k is None else f"LABEL_{k}" for k in classes]
    assert (remark in page.inner_text(".sums")) == (kind != "strange")
    if kind == "ragged":
        assert page.locator(".many > tbody td.number:first-child").all_inner_texts() == ["1", "3"]


def test_an_opened_row_stays_open_and_a_stopped_table_counts_what_is_left(page, address):
    held = []
    page.route("**/api/predict*", lambda route: held.append(route))

    def let_go(nth):
        while len(held) <= nth:
            page.wait_for_timeout(20)
        held[nth].continue_()

    ready(page, address)
    view(page, "table")
    page.fill("#rows", "text\n" + "".join(f"the film was w{k}\n" for k in range(100)))
    page.click("#go")
    let_go(0)
    page.locator(".many .open").first.click()
    opened_row = page.locator(".many tr:has([aria-expanded=true]) + .detail")
    opened_row.locator(".bars").wait_for()
    opened_row.locator("summary").first.focus()
    let_go(1)
    page.wait_for_function("() => document.querySelector('#state').textContent.startsWith('64 ')")
    assert opened_row.count() == 1 and page.evaluate("() => document.activeElement.tagName") == "SUMMARY"
    page.click("#cancel")
    let_go(2)
    page.wait_for_selector("#shown[aria-busy=false]", state="attached")
    done = int(page.inner_text(".count").split()[0])
    assert done in (64, 96) and f"Stopped: {100 - done} of 100 rows were not predicted" in page.inner_text(".sums")
    page.fill(".choose [type=search]", "w0")
    assert opened_row.count() == 1
    page.fill(".choose [type=search]", "")
    page.click("th[data-key=text] button")
    assert opened_row.count() == 1
    page.click("th[data-key=number] button")
    page.click("th[data-key=number] button")
    assert opened_row.count() == 0, "it is the last one now"
    page.click("text=Show more rows")
    assert opened_row.locator(".bars").count() == 1
    page.locator(".many [aria-expanded=true]").click()
    assert page.locator(".many .detail").count() == 0
