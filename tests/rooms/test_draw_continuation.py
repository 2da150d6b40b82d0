"""A continuation drawn: numbers are the result's, every text stays text, large ones stay light and quick."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

import pathlens as pl
from pathlens.draw import markup, page_of, terminal
from pathlens.draw.words import certificate_line
from tests.support import draw_samples as samples

NASTY = samples.NASTY
SAMPLES = {"small": samples.continuation, "passages": samples.passages, "long": samples.long_continuation}
each = pytest.mark.parametrize("name", SAMPLES)


class Tags(HTMLParser):
    """Elements of a page, and the attributes of those that have a given class."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def having(self, name):
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def block(result):
    """The one block of a continuation's page."""
    return page_of(result).blocks[0]


def shown(result, width=110) -> str:
    out = io.StringIO()
    terminal.show(result, console=Console(file=out, width=width, color_system=None))
    return out.getvalue()


@each
def test_the_page_carries_the_matrix_and_every_certificate(name):
    result = SAMPLES[name]()
    box = Tags(markup.document(result)).having("said")[0]
    raw = base64.b64decode(box["data-matrix"])
    matrix = np.frombuffer(raw, "<f4").reshape(result.matrix.shape)
    assert np.allclose(matrix, result.matrix, rtol=1e-6, atol=1e-12)
    facts = json.loads(box["data-view"])
    assert len(facts["lines"]) == len(result.outputs) + 1  # one per column, and the total's
    assert facts["lines"][-1] == certificate_line(result.certificate)
    assert len(facts["tokens"]) == len(result.tokens)


@each
def test_every_output_token_can_be_chosen_and_every_source_of_the_prompt_is_in_its_text(name):
    result = SAMPLES[name]()
    tags = Tags(markup.document(result))
    outputs = [int(t) for attrs in tags.having("out") for t in attrs["data-outputs"].split()]
    assert sorted(outputs) == list(range(len(result.outputs)))
    units = [int(u) for attrs in tags.having("unit") for u in (attrs.get("data-units") or "").split()]
    in_prompt = [u for u, segment in enumerate(result.segments) if segment == 0]
    assert sorted(units) == in_prompt


def test_an_output_token_is_its_own_source_only_where_the_result_says_so():
    result = samples.continuation()
    sources = block(result).sources
    for t, unit in enumerate(sources):
        assert result.offsets[unit] == result.output_offsets[t] and result.segments[unit] == 1
    coarse = samples.passages()
    assert block(coarse).sources == (4, 4)  # the whole answer is one source
    alone = coarse.derived(segments=(-1, 0, 0, 0, 0))
    assert block(alone).sources == (-1, -1)


def test_the_running_prompt_is_the_prompt():
    result = samples.passages()
    page = markup.document(result)
    text = re.search(r'<p class="text prompt"[^>]*>(.*?)</p>', page, re.DOTALL).group(1)
    assert unescape(re.sub("<[^>]*>", "", text)) == result.meta["texts"][0]
    outputs = re.search(r'<p class="outputs"[^>]*>(.*?)</p>', page, re.DOTALL).group(1)
    assert unescape(re.sub("<[^>]*>", "", outputs)) == result.meta["texts"][1]


def test_an_output_of_blanks_can_be_seen_chosen_and_read_aloud():
    """A line break alone has no letter to click, and no name."""
    page = markup.document(samples.broken())
    options = re.findall(
        r'<span class="out" role="option"[^>]*>(.*?)</span>(?=<span class="out"|</p>| )', page, re.DOTALL
    )
    shown = [unescape(re.sub("<[^>]*>", "", each)) for each in options]
    assert shown == ["Paris", ".", "↵\n\n", "The"]


def test_hostile_tokens_stay_text_everywhere():
    result = samples.continuation(f"what {NASTY} is", f"{NASTY} ]]> </script>")
    result = result.derived(tokens=(NASTY, *result.tokens[1:]), outputs=(NASTY, *result.outputs[1:]))
    page = markup.document(result)
    assert "<img" not in page and not [tag for tag, _ in Tags(page).tags if tag == "img"]
    assert NASTY in shown(result, 200)


def test_output_tokens_that_share_a_character_and_those_without_any():
    """A byte-level emoji in three tokens, then an end-of-text token: all four can be chosen, nothing is lost."""
    result = samples.continuation(
        "say", "😀", outputs=("�", "�", "😀", "<|end|>"), output_offsets=((0, 1), (0, 1), (0, 1), (0, 0)),
        matrix=np.ones((2, 4)), tokens=("<s>", "say"), offsets=((0, 0), (0, 3)), special=(True, False),
        segments=(-1, 0), certificates=(samples.certificate(2.0),) * 4,
    )  # fmt: skip
    chosen = [attrs["data-outputs"] for attrs in Tags(markup.document(result)).having("out")]
    assert chosen == ["0 1 2", "3"]


def test_five_hundred_by_a_hundred_is_a_light_page_and_a_short_print():
    result = samples.long_continuation()
    page = markup.document(result)
    assert len(Tags(page).tags) < 1500 and len(page) < 2_000_000
    printed = shown(result)
    assert printed.count("\n") < 140
    assert "the table of 601 × 100 does not fit here" in printed and "first 60 of 100" in printed


@pytest.mark.parametrize("width", [60, 110])
def test_the_terminal_prints_the_numbers_of_the_table(width):
    result = samples.passages()
    printed = shown(result, width)
    for value in result.matrix[1:4].ravel():
        assert f"{value:+.2f}" in printed
    assert "+5.80" in printed and "every output token adds up by itself" in " ".join(printed.split())


def test_unsettled_columns_are_marked():
    loose = {"converged": False, "gap": 0.9, "relative_gap": 0.2}
    bad = samples.certificate(3.7, f_input=0.5 + 3.7 + 0.9, **loose)
    result = samples.passages().derived(certificates=(bad, samples.certificate(2.1)))
    assert "1 of 2 settled" in shown(result)
    facts = block(result).facts
    assert facts["settled"] == [False, True, True] and "NOT settled" in facts["lines"][0]
    long = samples.long_continuation()
    total = float(long.matrix[:, 0].sum())
    bad = samples.certificate(total, f_input=0.5 + total + 0.9, **loose)
    long = long.derived(certificates=(bad, *long.certificates[1:]))
    assert "✗" in shown(long)


def test_sig_promises_no_sum():
    single = samples.certificate(5.8, kind="per token")
    result = samples.passages().derived(method="sig", certificate=single, certificates=(single, single))
    assert "no common sum" in page_of(result).proof.legend and not block(result).facts["additive"]
    assert not any("adds up by itself" in note for note in page_of(result).notes)
    lines = [line.split() for line in shown(result).splitlines()]
    assert not any(line[:1] == ["sum"] for line in lines), "the table has no sums of columns"


@each
def test_pictures_are_written(name, tmp_path):
    result = SAMPLES[name]()
    for kind in ("png", "svg"):
        file = result.to_png(tmp_path / f"a.{kind}")
        assert file.stat().st_size > 5000


def test_a_saved_page_opens_again(tmp_path):
    result = samples.passages()
    result.to_html(tmp_path / "a.html")
    again = pl.load(tmp_path / "a.html")
    assert np.array_equal(again.matrix, result.matrix) and again.outputs == result.outputs
    assert block(again).grid.columns == result.outputs


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here (apt-get install chromium)")
class TestInABrowser:
    @pytest.fixture(scope="class")
    def browser(self):
        sync_api = pytest.importorskip("playwright.sync_api")
        with sync_api.sync_playwright() as driver:
            flags = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
            made = driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            yield made
            made.close()

    @pytest.fixture
    def open(self, browser, tmp_path):
        trouble: list[str] = []
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))

        def go(result):
            result.to_html(tmp_path / "a.html")
            page.goto(f"file://{tmp_path / 'a.html'}")
            page.wait_for_selector(".said[data-live]")
            return page

        yield go
        page.close()
        assert not trouble, trouble

    def test_a_click_colours_the_prompt_by_that_token(self, open):
        result = samples.continuation()
        page = open(result)
        bars = "() => Object.fromEntries([...document.querySelectorAll('.strongest tr')].map(r => [r.cells[0].innerText, +r.cells[1].innerText]))"
        assert abs(page.evaluate(bars)["sum"] - result.matrix.sum()) < 0.006
        page.click(".out >> nth=2")
        shares = page.evaluate(bars)
        assert abs(shares["sum"] - result.matrix[:, 2].sum()) < 0.006
        column = dict(zip(result.tokens, result.matrix[:, 2], strict=True))
        assert abs(shares["capital"] - column["capital"]) < 0.006
        strongest = page.locator(".prompt .unit.n24").inner_text()
        assert strongest == "of" and "“of” (3 of 5)" in page.inner_text(".chosen")
        assert page.inner_text(".chosen").endswith("✓ adds up"), "how closely is folded away"
        assert certificate_line(result.certificates[2]) in page.locator(".diagnostics").text_content()
        assert page.is_hidden(".diagnostics .certificate >> nth=-1")
        page.click(".out >> nth=2")
        assert "whole continuation" in page.inner_text(".chosen")
        page.click(".matrix thead th[scope=col] >> nth=0")
        assert "“Paris” (1 of 5)" in page.inner_text(".chosen")

    def test_the_keyboard_alone(self, open):
        page = open(samples.continuation())
        page.focus(".outputs")
        for key, facts in (
            ("ArrowRight", "(1 of 5)"),
            ("End", "(5 of 5)"),
            ("ArrowLeft", "(4 of 5)"),
            ("Escape", "whole"),
        ):
            page.keyboard.press(key)
            assert facts in page.inner_text(".chosen")

    def test_five_hundred_by_a_hundred_answers_without_growing(self, open):
        page = open(samples.long_continuation())
        count = "document.querySelectorAll('*').length"
        before = page.evaluate(count)
        page.locator(".pixelbox").click(position={"x": 5, "y": 5})
        assert "(1 of 100)" in page.inner_text(".chosen")
        page.focus(".outputs")
        page.keyboard.press("End")
        assert "(100 of 100)" in page.inner_text(".chosen")
        assert page.evaluate(count) <= before < 1500

    def test_hostile_and_japanese_text_is_only_text(self, open):
        page = open(samples.passages())
        page.click(".out >> nth=0")
        assert page.locator("img").count() == 0 and NASTY in page.inner_text(".prompt")
        assert "東京タワーは赤い。" in page.inner_text(".prompt") and "青い" in page.inner_text(".chosen")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here (apt-get install chromium)")
def test_the_served_page_explains_a_generator():
    """Choose a generator, give a question and passages, wait, click an output token, read its sources."""
    import socket
    import threading

    import uvicorn

    from pathlens.serve.app import make_app
    from pathlens.text.load import load
    from tests.rooms.test_chat import generator
    from tests.support.models import classifier

    sync_api = pytest.importorskip("playwright.sync_api")
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    models = {"reader": load(classifier("bert")), "writer": load(generator())}
    server = uvicorn.Server(uvicorn.Config(make_app(models), log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    trouble: list[str] = []
    try:
        with sync_api.sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            page = browser.new_page(viewport={"width": 1100, "height": 900})
            page.on("pageerror", lambda error: trouble.append(str(error)))
            page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
            page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/")
            page.wait_for_selector("#ask[data-loaded]")
            page.wait_for_selector("#result[data-done]")
            page.click("details.options > summary")
            assert page.is_hidden("[name=passages]") and page.is_visible("[name=second]")
            page.select_option("[name=model]", "writer")
            assert page.is_visible("[name=passages]") and page.is_hidden("[name=second]")
            assert page.inner_text("[data-name=text]") == "Prompt"
            page.fill("[name=text]", "who was it ?")
            page.fill("[name=passages]", f"a movie {NASTY} .\n\na man plays music .")
            page.fill("[name=words]", "the man is funny")
            page.select_option("[name=unit]", "passage")
            before = page.get_attribute("#result", "data-done")
            page.click("#go")
            page.wait_for_function(
                "b => document.getElementById('result').dataset.done !== b && document.getElementById('result').dataset.done"
                " || !document.getElementById('wrong').hidden",
                arg=before,
            )
            assert page.is_hidden("#wrong"), page.inner_text("#wrong")
            page.click(".out >> nth=1")
            assert "“man” (2 of 4)" in page.inner_text(".chosen")
            assert "passage 2" in page.inner_text(".strongest") and NASTY in page.inner_text(".prompt")
            assert page.locator("#result img").count() == 0
            shot = os.environ.get("PATHLENS_SCREENSHOTS")
            if shot:
                page.screenshot(path=f"{shot}/generator.png", full_page=True)
            page.fill("[name=words]", "")
            page.fill("[name=generate]", "3")
            before = page.get_attribute("#result", "data-done")
            page.click("#go")
            page.wait_for_function(
                "b => { const now = document.getElementById('result').dataset.done; return now && now !== b; }",
                arg=before,
            )
            assert page.locator(".out").count() == 3
            link = page.get_attribute("#permalink", "href")
            assert "passages=" in link and "generate=3" in link
            browser.close()
    finally:
        server.should_exit = True
        thread.join(10)
    assert not trouble, trouble
