"""What may go wrong on the page, and what it offers: its own words, nothing stale, no control that does not apply."""

from __future__ import annotations

import re
from copy import deepcopy

import pytest
import torch
from tokenizers import processors

import pathlens as pl
from pathlens.text.causal import CausalLM
from pathlens.text.load import load
from tests.rooms.test_chat import generator
from tests.support.browser import (
    TEXT,
    address,
    ask,
    browser,
    chances,
    opened,
    options,
    page,
    ready,
    serving,
    settled,
    view,
)
from tests.support.models import answerer, classifier, config, encoder, tokenizer
from tests.support.models import generator as plain_generator

__all__ = ["address", "browser", "page"]  # fixtures
DROP = """([name, type, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type }));
  const at = document.getElementById("shown");
  const events = ["dragover", "drop"].map((kind) => new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
  return events.map((event) => at.dispatchEvent(event)); // false: the browser does nothing with it
}"""
PYTHON = re.compile(r"\b[a-z_]+=|\bpl\.|\bNone\b|Error\b|Traceback|\(\w+, \w+\)|`|\b\w+_\w+\b|torch|\bpip\b")


def rows(page) -> list[str]:
    page.wait_for_selector("#table[data-done]", state="attached")
    return page.locator(".many .open").all_inner_texts()


@pytest.mark.parametrize("where", ["explain", "pair", "answer"])
def test_a_table_dropped_anywhere_opens_as_one(page, address, where):
    opened(page, address)
    if where != "explain":
        view(page, where)
    assert page.evaluate(DROP, ["rows.csv", "text/csv", "text,label\nthe film,LABEL_0\nthe plot,LABEL_2\n"]) == [
        False,
        False,
    ]
    assert rows(page) == ["the film", "the plot"]
    assert page.get_attribute("#tab-table", "aria-selected") == "true" and page.inner_html("#result") == ""


@pytest.mark.parametrize(
    "name, type, text", [("cat.png", "image/png", "\x89PNG"), ("a.csv", "text/csv", "a\0b,\0"), ("b.xlsx", "", "PK")]
)
def test_a_dropped_file_of_another_kind_says_what_is_expected(page, address, name, type, text):
    opened(page, address)
    assert page.evaluate(DROP, [name, type, text]) == [False, False]
    page.wait_for_selector("#wrong:visible")
    message = page.inner_text("#wrong")
    assert name in message and "CSV or TSV" in message and page.inner_html("#result") == "", (
        "nothing stale stays either"
    )


def test_a_table_where_no_model_has_classes(browser):
    with serving({"encoder": load(encoder("bert"))}) as address:
        page = browser.new_page()
        opened(page, address)
        page.evaluate(DROP, ["rows.csv", "text/csv", "text\na b\n"])
        page.wait_for_selector("#wrong:visible")
        assert "names classes" in page.inner_text("#wrong")
        page.close()


HEADS = {
    "text\nthe film was good\nnot funny\n": ["the film was good", "not funny"],
    "Review text\nthe film was good\nnot funny\n": ["the film was good", "not funny"],
    "the film was good .\nnot funny\n": ["the film was good .", "not funny"],
    "not funny,LABEL_0\nthe film,LABEL_1\n": ["not funny", "the film"],
    "tweet;class\nthe film;LABEL_1\n": ["the film"],
    '"A ""quoted"", long title of something"\nnot funny\n': ['A "quoted", long title of something', "not funny"],
    "1,A fine film\n0,Bad film\n0,Awful": ["A fine film", "Bad film", "Awful"],
    'A fine film\nBad film, really\n"quoted, film"': ["Bad film, really", "quoted, film"],
}
GUESSED = {"Review text", "A fine film"}  # first lines that are names for all that can be seen


@pytest.mark.parametrize("text", list(HEADS))
def test_a_line_of_names_is_no_text(page, address, text):
    opened(page, address)
    page.evaluate(DROP, ["rows.csv", "text/csv", text])
    assert rows(page) == HEADS[text]
    first = text.split("\n")[0]
    if first not in GUESSED:
        assert page.is_hidden("#remarks")
        return
    assert f"The first line ({first}) is taken as the name" in page.inner_text("#remarks")
    page.uncheck("#named")
    assert page.is_hidden("#remarks"), "the user's word is not doubted"
    page.check("#named")
    assert page.is_hidden("#remarks")


def test_whether_the_first_line_names_columns_is_the_users_word(page, address):
    ready(page, address)
    view(page, "table")
    page.fill("#rows", "great\nfunny\nnot\n")
    page.keyboard.press("Tab")
    assert page.is_checked("#named"), "as the library reads it"
    page.uncheck("#named")
    page.click("#go")
    assert rows(page) == ["great", "funny", "not"]


def test_a_table_as_spreadsheets_save_it(page, address, tmp_path):
    """Half of them are not UTF-8, and have semicolons, quotes over two lines and a mark in front."""
    text = 'text;label\n"the film; ""good""\nand café 🎬";LABEL_0\nמצחיק מאוד;LABEL_1\n;LABEL_2\n'
    ready(page, address)
    view(page, "table")
    for name, encoding in {"utf-8-sig": "utf-8-sig", "utf-16": "utf-16"}.items():
        file = tmp_path / f"{name}.csv"
        file.write_bytes(text.encode(encoding))
        page.set_input_files("#file", str(file))
        page.wait_for_selector("#shown[aria-busy=true]", state="attached")
        page.wait_for_selector("#shown[aria-busy=false]", state="attached")
        assert rows(page)[0].split() == ["the", "film;", '"good"', "and", "café", "🎬"], encoding
        assert "no text in this row" in page.inner_text(".many > tbody > tr >> nth=2")
    file.write_bytes("text;label\ncafé;LABEL_0\n".encode("cp1252"))
    page.set_input_files("#file", [])
    page.set_input_files("#file", str(file))
    page.wait_for_function("() => document.querySelector('.many .open')?.textContent === 'café'")


# ---- errors in the page's own words

SLIPS = {  # view, model, what is put where, the label that the error names, a part of what it says
    "no text": ("explain", "tiny", {"text": " "}, "Text", "nothing here"),
    "too long": ("explain", "tiny", {"text": "the film " * 400}, "Text", "Shorten it"),
    "longer than a request": ("explain", "tiny", {"text": "the film " * 3000}, "Text", "20000 characters"),
    "a baseline's word": ("explain", "tiny", {"baseline": "zebra"}, "Baseline", "does not know"),
    "a name in capitals": ("explain", "tiny", {"baseline": "Mask"}, "Baseline", "did you mean mask"),
    "a tree": ("explain", "tiny", {"method": "idg", "tree": "(S (NP the"}, "Tree", "never closed"),
    "a tree of others": ("explain", "tiny", {"method": "idg", "tree": "(S (A b))"}, "Tree", "not what the text has"),
    "both": ("explain", "writer", {"words": " funny", "generate": "3"}, "Tokens to write", "Leave one of them empty"),
    "the same": ("explain", "writer", {"words": " funny", "contrast": " funny"}, "Contrast", "something else"),
    "no passages": ("explain", "writer", {"unit": "passage"}, "Unit", "Write passages"),
    "no room": ("explain", "writer", {"text": "the film " * 400}, "Prompt", "Shorten"),
    "no second": ("pair", "encoder", {"text_b": ""}, "Second text", "nothing here"),
    "no documents": ("rank", "encoder", {"documents": "\n"}, "Documents", "nothing here"),
    "too many documents": ("rank", "encoder", {"documents": "a film\n" * 65}, "Documents", "up to 64"),
    "no sources": ("answer", "writer", {"sources": ""}, "Sources", "nothing here"),
    "too many sources": ("answer", "writer", {"sources": "a film\n\n" * 65}, "Sources", "up to 64"),
}


@pytest.mark.parametrize("slip", list(SLIPS))
def test_errors_are_in_the_pages_own_words(page, address, slip):
    where, model, given, label, part = SLIPS[slip]
    ready(page, address, f"#view={where}&model={model}")
    assert where == "answer" or settled(page) == ""
    options(page)
    for name, value in sorted(given.items(), key=lambda each: each[0] != "method"):
        field = page.locator(f"#ask [name={name}]")
        (field.select_option if field.evaluate("node => node.matches('select')") else field.fill)(value)
    message = ask(page)
    assert message.startswith(label) and part in message, message
    assert not PYTHON.search(message), message
    assert page.locator("#ask [aria-invalid=true]").count() == 1 and page.inner_html("#result") == ""
    page.trouble[:] = [each for each in page.trouble if "422" not in each]  # the browser's own line about a request


def test_what_the_page_has_no_words_for_is_folded_away(page, address, monkeypatch):
    def broken(self, take):
        raise TypeError("unsupported operand 'NoneType'")

    monkeypatch.setattr("pathlens.serve.requests.ExplainRequest.answer", broken)
    ready(page, address)
    message = settled(page)
    assert "fault of the program" in message and "NoneType" not in message
    page.click("#wrong summary")
    assert "NoneType" in page.inner_text("#wrong")


def test_an_error_is_gone_with_the_next_answer(page, address):
    opened(page, address)
    options(page)
    page.fill("[name=baseline]", "zebra")
    assert ask(page) and page.locator("[aria-invalid]").count() == 1
    page.fill("[name=baseline]", "pad")
    assert ask(page) == "" and page.locator("[aria-invalid]").count() == 0 and page.is_visible("#says")


def test_nothing_stale_in_any_view(page, address):
    """A result, then a slip: the result goes, in every view; a study's error replaces what it showed."""
    for where, field in (("pair", "text_b"), ("rank", "documents"), ("answer", "sources")):
        page.goto("about:blank")
        ready(page, address, f"#view={where}")
        if where == "answer":
            page.fill("[name=reply]", "it was a movie .")
            assert ask(page) == ""
        assert settled(page) == "" and page.inner_html("#result") != ""
        page.fill(f"[name={field}]", "")
        assert "nothing here" in ask(page)
        left = page.eval_on_selector_all(
            "#shown > *", "all => all.filter((n) => n.checkVisibility() && n.innerText.trim()).map((n) => n.id)"
        )
        assert left == ["wrong"], where
    view(page, "table")
    page.click("#go")
    rows(page)
    page.fill("#rows", "text,label\n")
    page.click("#go")
    page.wait_for_selector("#wrong:visible")
    assert page.is_hidden("#table")
    view(page, "explain")
    assert ask(page) == ""
    view(page, "table")
    assert page.is_hidden("#table"), "what the slip has ended does not come back"


def test_a_study_that_fails_shows_nothing_of_before(page, address):
    opened(page, address)
    page.click("[data-study=compare]")
    page.wait_for_selector(".study[data-kind=compare] .content .pathlens")
    while page.locator(".study input:checked").count():
        page.locator(".study input:checked").first.uncheck()
    page.click(".study >> text=Compare >> nth=-1")
    page.wait_for_selector(".study[data-done=failed]")
    message = page.inner_text(".study output")
    assert "Tick at least two" in message and not PYTHON.search(message)
    assert page.inner_html(".study .content") == "" and page.is_visible("#result .bars")


# ---- only what applies


@pytest.fixture(scope="module")
def kinds():
    """Models with what the others lack: named classes and enough words for a path through them, a question, a plain decoder."""
    import transformers as hf

    torch.manual_seed(0)
    many = hf.BertForSequenceClassification(config("bert", vocab_size=700, num_labels=2)).eval()
    many.config.id2label = {0: "negative", 1: "positive"}
    models = {
        "named": (many, tokenizer()),
        "twin": (deepcopy(many), tokenizer()),
        "asked": answerer(),
        "decoder": classifier("llama"),
        "writer": generator(),
    }
    with serving({name: load(model) for name, model in models.items()}) as made:
        yield made


def offered(page, name) -> list[str]:
    return page.eval_on_selector_all(f"{name} option", "all => all.map((each) => each.value).filter(Boolean)")


def test_controls_follow_the_model_and_the_method(page, kinds):
    page.trouble.clear()
    page.goto(kinds)
    page.wait_for_selector("#ask[data-loaded]")
    assert settled(page) == ""
    page.trouble.clear()  # this server's own address
    options(page)
    assert page.is_hidden("[name=second]"), "its classes are about one text"
    assert offered(page, "[name=target]") == ["negative", "positive"]
    assert page.inner_text("[name=score] option >> nth=0") == "logit (the default)"
    for method, layer in {"ig": True, "dig": False, "udig": False, "sig": True}.items():
        page.select_option("[name=method]", method)
        assert page.is_visible("[name=layer]") == layer, method
        assert page.is_visible("[name=tolerance]") == (method != "sig"), method
    page.select_option("[name=method]", "vaig")
    assert page.is_hidden("[name=target]") and page.is_visible("[name=unit]")
    page.select_option("[name=block]", index=1)
    assert page.is_hidden("[name=unit]") and page.is_hidden("[name=layer]")
    assert ask(page) == "" and page.locator("#result .pathlens").count() == 1

    page.select_option("[name=method]", "secant")
    page.select_option("[name=block]", "")
    page.select_option("[name=target]", "negative")
    page.select_option("[name=block]", index=1)
    assert page.is_hidden("[name=target]") and page.is_hidden("[name=score]"), "a part of the model has neither"
    assert ask(page) == "", "what was chosen before the part was is not sent"
    assert page.locator("#says button.class").count() == 0
    page.select_option("[name=block]", "")
    assert page.is_visible("[name=target]") and page.is_visible("[name=score]")

    page.select_option("[name=method]", "")
    page.select_option("[name=model]", "asked")
    assert page.is_visible("[name=second]") and page.inner_text("[data-name=second]") == "Passage"
    assert page.inner_text("[data-name=text]") == "Question" and offered(page, "[name=target]") == [
        "span",
        "start",
        "end",
    ]
    page.select_option("[name=method]", "sig")
    assert "idg" not in offered(page, "[name=method]") and page.is_hidden("[name=block]")
    page.select_option("[name=method]", "")
    assert ask(page) == ""

    page.select_option("[name=model]", "decoder")
    assert "mask" not in offered(page, "#baselines") and {"zero", "mean"} <= set(offered(page, "#baselines"))
    default = page.get_attribute("[name=baseline]", "placeholder")
    assert default == pl.explain(load(classifier("llama")), "not funny").meta["baseline"]

    page.select_option("[name=model]", "writer")
    assert page.is_hidden("[name=second]") and page.is_hidden("[name=target]") and page.is_visible("[name=words]")
    assert page.inner_text("[name=method] option >> nth=0") == "secant (the default)"
    page.trouble.clear()


@pytest.mark.parametrize("name, others", [("named", ["twin"]), ("twin", ["named"]), ("decoder", []), ("writer", [])])
def test_only_models_that_answer_the_same_question_are_compared(page, kinds, name, others):
    """Of the same kind, with the same classes; the writer has the same view and no class, the decoder others."""
    page.goto(kinds)
    page.wait_for_selector("#ask[data-loaded]")
    assert settled(page) == ""
    page.select_option("[name=model]", name)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    page.click("[data-study=compare]")
    section = page.locator(".study[data-kind=compare]")
    page.wait_for_selector(".study[data-kind=compare][data-done]:not([data-done=''])")
    offered = section.locator("fieldset:has(legend:text('other models')) input")
    assert [each.get_attribute("value") for each in offered.all()] == others
    if others:
        offered.first.check()
        before = section.get_attribute("data-done")
        section.locator("text=Compare >> nth=-1").click()
        page.wait_for_selector(f".study[data-done]:not([data-done='']):not([data-done='{before}'])")
        assert section.get_attribute("data-done") != "failed", section.inner_text()
    page.trouble.clear()  # this server's own address


def test_notes_are_for_readers_of_the_page_too(browser):
    """What a model does of itself is said in words, not in calls."""
    model, words = plain_generator()
    words = deepcopy(words)
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")  # prompts begin with a word
    with serving({"writer": CausalLM(model, words, layer=1, sink="[SEP]", score="prob")}) as made:
        page = browser.new_page()
        opened(page, made)
        options(page)
        page.fill("[name=text]", TEXT)
        page.select_option("[name=method]", "ig")
        assert ask(page) == ""
        notes = page.inner_text("#result .notes")
        page.close()
    for about in ("attention sink", "the path runs at layer 1", "probability is explained"):
        assert about in notes
    assert not PYTHON.search(notes), notes


# ---- a person changes their mind


def test_another_model_while_one_is_at_work(page, address):
    opened(page, address)
    page.select_option("[name=model]", "toy")
    assert page.inner_html("#result") == "" and page.is_hidden("#says"), "it answered for another model"
    options(page)
    page.fill("[name=text]", " ".join(f"w{i}" for i in range(590)))
    page.select_option("[name=method]", "ih")
    page.click("#go")
    page.wait_for_selector("#cancel:visible")
    page.select_option("[name=model]", "tiny")
    assert page.is_hidden("#cancel") and not page.is_disabled("#go")
    page.fill("[name=text]", TEXT)
    page.select_option("[name=method]", "")
    assert ask(page) == "" and set(chances(page)) == {"LABEL_0", "LABEL_1", "LABEL_2"}


def test_back_and_reload(page, address):
    opened(page, address)
    page.fill("[name=text]", TEXT)
    assert ask(page) == ""
    was = chances(page)
    view(page, "table")
    page.click("#go")
    first = rows(page)
    page.locator(".many .open").first.click()
    page.click("text=Try changes to this text")
    assert settled(page) == "" and page.is_hidden("#table") and page.input_value("[name=text]") == first[0]
    page.go_back()
    page.wait_for_selector("#table:visible")
    assert page.locator(".many .open").all_inner_texts() == first and page.inner_html("#result") == ""
    page.go_back()
    assert settled(page) == "" and page.input_value("[name=text]") == TEXT and chances(page) == was
    page.reload()
    page.wait_for_selector("#ask[data-loaded]")
    assert settled(page) == "" and page.input_value("[name=text]") == TEXT and chances(page) == was


def test_a_closed_study_is_worked_on_no_longer(page, address):
    opened(page, address, "#view=explain&model=toy")
    page.fill("[name=text]", " ".join(f"w{i}" for i in range(590)))
    assert ask(page) == ""
    page.click("[data-study=whatif]")
    page.wait_for_function("() => document.querySelector('.study output').textContent")
    page.click(".study .close")
    page.wait_for_function(
        "async () => { const { jobs } = await (await fetch('/api/health')).json(); return jobs.working + jobs.waiting === 0; }"
    )


@pytest.mark.parametrize("text", ["これは とても 面白い 映画 です 。", "הסרט לא היה מצחיק", "🎬 👍🏽 fun"])
def test_words_of_any_script_are_shown_and_replaced_by_two(page, address, text):
    opened(page, address, "#view=explain&model=toy")
    page.fill("[name=text]", text)
    assert ask(page) == ""
    assert page.inner_text("#result .text").split() == text.split() or "👍" in text
    before = page.get_attribute("#result", "data-done")
    page.locator("#result .text .unit").nth(0).click()
    page.fill("#word [name=replacement]", "two words")
    page.keyboard.press("Enter")
    assert settled(page, before) == ""
    assert page.inner_text("#result .text").startswith("two words") or "two words" in page.inner_text("#result .text")
    assert page.locator("#result td.was", has_text="new").count() == 2
