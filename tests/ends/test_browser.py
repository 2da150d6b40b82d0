"""The page in a real browser: type, choose, wait, read, hover, scrub, export. Chromium, headless, no network."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

import pathlens as pl

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip(
        "browser tests were skipped: no chromium here (Debian: apt-get install chromium)", allow_module_level=True
    )
sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests were skipped: playwright is not installed")

from pathlens.serve.app import make_app  # noqa: E402
from pathlens.serve.tasks import ServerLimits  # noqa: E402
from pathlens.text.load import load  # noqa: E402
from pathlens.types import TEXT_UNITS  # noqa: E402
from tests.support.models import classifier, encoder  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)>"
TEXT = "the movie was not really funny , but moving ."


@pytest.fixture(scope="module")
def address():
    import socket

    import uvicorn

    models = {"tiny": load(classifier("bert")), "encoder": load(encoder("bert")), "toy": pl.ToyModel()}
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(make_app(models, limits=ServerLimits(units=600)), log_level="error", access_log=False)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as driver:
        made = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"],
        )
        yield made
        made.close()


@pytest.fixture
def page(browser, address):
    """A page that fails the test on any script error, alert, or request that leaves the server."""
    trouble: list[str] = []
    made = browser.new_page(viewport={"width": 1200, "height": 900})
    made.set_default_timeout(60_000)
    made.on("pageerror", lambda error: trouble.append(str(error)))
    made.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    made.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    made.on(
        "request",
        lambda r: trouble.append(r.url) if not r.url.startswith((address, "data:", "blob:", "file:")) else None,
    )
    yield made
    made.close()
    assert not trouble, trouble


def ready(page, address, link=""):
    page.goto(address + link)
    page.wait_for_selector("#ask[data-ready]")


def ask(page) -> str:
    """Press the button, wait for the picture, give what the status says."""
    before = page.get_attribute("#result", "data-done") or ""
    page.click("#go")
    page.wait_for_function(
        "before => (document.getElementById('result').dataset.done || '') !== before "
        "|| document.getElementById('state').classList.contains('wrong')",
        arg=before,
    )
    return page.inner_text("#state")


def shot(page, name):
    """A screenshot to look at, when a folder for them is named."""
    if folder := os.environ.get("PATHLENS_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def test_the_form_offers_what_the_method_takes(page, address):
    ready(page, address)
    for method, taken in {"ig": [], "idg": ["tree"], "vaig": ["block"], "secant": ["block"]}.items():
        page.select_option("[name=method]", method)
        assert [name for name in ("tree", "block") if page.is_visible(f"[name={name}]")] == taken, method
    assert page.locator("[name=unit] option:not([hidden])").all_inner_texts() == list(TEXT_UNITS)
    page.fill("[name=text]", TEXT)
    page.fill("[name=block]", "bert.encoder.layer.0")
    assert ask(page).startswith("done") and "block=bert.encoder.layer.0" in page.get_attribute("#permalink", "href")


def test_type_choose_wait_read_and_hover(page, address):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    page.select_option("[name=method]", "ig")
    page.fill("[name=target]", "LABEL_1")
    page.fill("[name=baseline]", "pad")
    assert ask(page).startswith("done")
    wanted = pl.explain(load(classifier("bert")), TEXT, method="ig", target="LABEL_1", baseline="pad")
    values = [float(v) for v in page.locator("#result .bars tr:not(.sum) .value").all_inner_texts()]
    kept = [s for s, special in zip(wanted.scores, wanted.special, strict=True) if not special]
    assert len(values) == len(kept) and max(abs(a - b) for a, b in zip(values, kept, strict=True)) < 0.06
    unit = page.locator("#result .text .unit", has_text="funny")
    unit.hover()
    tip = unit.evaluate("node => getComputedStyle(node, '::after').content")
    assert "funny" in tip and any(c.isdigit() for c in tip)
    assert page.locator("#result .text").first.inner_text().strip() == TEXT
    shot(page, "explain")


def test_wrong_input_is_said_in_words(page, address):
    ready(page, address)
    page.fill("[name=target]", "nobody")
    page.fill("[name=text]", TEXT)
    assert "nobody" in ask(page)
    assert not page.is_disabled("#go")


def test_a_pair_has_arcs_and_a_slider(page, address):
    ready(page, address)
    page.select_option("[name=model]", "encoder")
    page.fill("[name=text]", "a man plays guitar")
    page.fill("[name=text_b]", "the film was funny")
    assert ask(page).startswith("done")
    visible = page.locator("#result .arc[display=inline]")
    many = visible.count()
    page.locator("#result input.top").evaluate("node => { node.value = 3; node.dispatchEvent(new Event('input')); }")
    assert visible.count() == 3 < many
    assert page.locator("#result .matrix tr.edge th").text_content() == "(reference)"  # folded where it is quiet
    shot(page, "pair")


def test_compare_shows_agreement_and_disagreement(page, address):
    ready(page, address)
    page.click("[role=tab][data-view=compare]")
    page.fill("[name=text]", TEXT)
    page.check("[name=bases][value=mask]")
    page.check("[name=bases][value=pad]")
    assert ask(page).startswith("done")
    text = page.inner_text("#result")
    assert "Spearman" in text and "Kendall" in text and "ig · mask" in text and "sig · pad" in text
    shot(page, "compare")


def test_what_if_predicted_beside_actual(page, address):
    ready(page, address)
    page.click("[role=tab][data-view=whatif]")
    page.fill("[name=text]", TEXT)
    assert ask(page).startswith("done")
    assert page.locator("#result circle").count() == 10
    page.select_option("#edit [name=unit_at]", label="4 not")
    page.select_option("#edit [name=kind]", "replace")
    page.fill("#edit [name=replacement]", "very")
    before = page.get_attribute("#result", "data-done")
    page.click("#add")
    page.wait_for_function("b => document.getElementById('result').dataset.done !== b", arg=before)
    row = page.locator("#result .listing tbody tr").inner_text()
    assert "not → very" in row and len(page.locator("#result .listing td.number").all()) == 3
    shot(page, "whatif")


def test_scrubbing_the_path_changes_what_is_read(page, address):
    ready(page, address)
    page.click("[role=tab][data-view=path]")
    page.fill("[name=text]", TEXT)
    assert ask(page).startswith("done")
    place = page.locator("#result .place")
    last, words = place.inner_text(), page.locator("#result .near").first.inner_text()
    slider = page.locator("#result input.along")
    slider.focus()
    page.keyboard.press("Home")
    assert place.inner_text().startswith("0 %") and place.inner_text() != last
    assert (
        page.locator("#result .near").first.inner_text() != words
        and "[MASK]" in page.locator("#result .near").first.inner_text()
    )
    assert page.locator("#result svg.track").count() == 3
    shot(page, "path")


def test_layers_and_rank(page, address):
    ready(page, address)
    page.click("[role=tab][data-view=layers]")
    page.fill("[name=text]", "not funny")
    assert ask(page).startswith("done")
    assert page.locator("#result .panels .bars").count() == 3 and page.locator("#result .curve").count()
    shot(page, "layers")
    page.click("[role=tab][data-view=nodes]")
    assert ask(page).startswith("done")
    assert "allowed" in page.inner_text("#result") and page.locator("#result .curve").count() == 5
    shot(page, "nodes")
    page.click("[role=tab][data-view=rank]")
    page.select_option("[name=model]", "encoder")
    page.fill("[name=documents]", "the film was good\nmusic plays")
    assert ask(page).startswith("done")
    assert page.locator("#result .ranking > section > details").count() == 2
    page.fill("[name=why]", "1,2")
    assert ask(page).startswith("done")
    assert "stands above 2." in page.locator("#result .ranking > section > h2").inner_text()
    shot(page, "rank")


def test_exports_and_permalink(page, address, tmp_path):
    ready(page, address)
    page.fill("[name=text]", TEXT)
    ask(page)
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


def test_hostile_text_stays_text_everywhere(page, address, tmp_path):
    ready(page, address)
    page.select_option("[name=model]", "toy")
    page.fill("[name=text]", f"{HOSTILE} fine")
    page.fill("[name=baseline]", HOSTILE)
    for view in ("explain", "compare", "whatif", "path"):
        page.click(f"[role=tab][data-view={view}]")
        assert ask(page).startswith("done"), view
        assert page.locator("#result img").count() == 0
        assert "onerror" in page.inner_text("#result")
    from pathlens.report import Report

    Report.of([pl.explain(pl.ToyModel(), f"{HOSTILE} fine")], title=HOSTILE).to_html(tmp_path / "r.html")
    page.goto(f"file://{tmp_path / 'r.html'}")
    assert page.locator("img").count() == 0 and HOSTILE in page.inner_text("body")


def test_keyboard_alone_and_phone_width(page, address):
    page.set_viewport_size({"width": 360, "height": 740})
    ready(page, address)
    page.fill("[name=text]", TEXT)
    page.focus("[name=text]")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result[data-done]")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out sideways"
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.view") == "compare"
    page.locator("#result .unit").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "movie"
    shot(page, "phone")


def test_five_hundred_tokens_are_drawn(page, address):
    ready(page, address)
    page.select_option("[name=model]", "toy")
    page.fill("[name=text]", " ".join(f"w{i}" for i in range(500)))
    assert ask(page).startswith("done")
    assert page.locator("#result .text .unit").count() == 500


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
