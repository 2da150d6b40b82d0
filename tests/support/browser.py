"""A real browser on the page: Chromium, headless, no network; what a test does there, and axe-core's look at every view."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import contextmanager
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
from tests.rooms.test_chat import generator  # noqa: E402
from tests.support.models import answerer, classifier, encoder, filler, tagger  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)>"
TEXT = "the movie was not really funny , but moving ."


@contextmanager
def serving(models):
    import socket

    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # who comes before the server is up waits, and is not refused
    app = make_app(models, limits=ServerLimits(units=600))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def address():
    models = {
        "tiny": load(classifier("bert")),
        "encoder": load(encoder("bert")),
        "writer": load(generator()),
        "toy": pl.ToyModel(),
        "tagger": load(tagger()),
        "filler": load(filler()),
        "answerer": load(answerer()),
    }
    with serving(models) as made:
        yield made


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
    made.set_default_timeout(300_000)  # a hang, on any machine
    made.trouble = trouble
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
    page.wait_for_selector("#ask[data-loaded]")


def settled(page, before="") -> str:
    """Wait for an answer other than the one before; give what went wrong, or ""."""
    page.wait_for_function(
        "before => { const done = document.getElementById('result').dataset.done; "
        "return (done && done !== before) || !document.getElementById('wrong').hidden; }",
        arg=before,
    )
    return page.inner_text("#wrong") if page.is_visible("#wrong") else ""


def ask(page) -> str:
    page.wait_for_selector("#go:not([disabled])")
    before = page.get_attribute("#ask", "data-answered")
    page.click("#go")
    page.wait_for_function("before => document.getElementById('ask').dataset.answered !== before", arg=before)
    return settled(page)


def opened(page, address, link=""):
    """The page as it greets: with its example explained."""
    ready(page, address, link)
    assert settled(page) == ""


def view(page, name):
    page.click(f"#tab-{name}")
    assert page.get_attribute(f"#tab-{name}", "aria-selected") == "true"


def options(page):
    if not page.locator("details.options").get_attribute("open"):
        page.click("details.options > summary")


def numbers(page) -> list[float]:
    return [float(v) for v in page.locator("#result .bars tr:not(.sum) .value").all_inner_texts()]


def chances(page) -> dict[str, str]:
    every = page.locator("#says .class").all()
    return {each.locator("b").inner_text(): each.locator(".chance").inner_text() for each in every}


IMPACTS = ("critical", "serious", "moderate", "minor")
SEEN: dict[str, object] = {}


def accessible(page, name):
    """axe-core finds no fault of any weight; `PATHLENS_AXE=1` writes what it found of every view into axe.json."""
    from axe_playwright_python.sync_playwright import Axe

    facts = Axe().run(page).response
    faults = facts["violations"]
    SEEN["axe-core"] = facts["testEngine"]["version"]
    SEEN[name] = {impact: sum(v["impact"] == impact for v in faults) for impact in IMPACTS} | {
        "rules": len(facts["passes"])
    }
    if os.environ.get("PATHLENS_AXE"):
        file = Path(__file__).with_name("axe.json")
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted({**kept, **SEEN}.items())]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    assert not faults, (name, [f"{v['impact']} {v['id']}: {v['nodes'][0]['html'][:200]}" for v in faults])


def shot(page, name):
    """A screenshot to look at, when a folder for them is named."""
    if folder := os.environ.get("PATHLENS_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def looked_at(page, name):
    """Shot and checked in both themes, on a wide screen and on a phone; nothing sticks out sideways, on a small one either."""
    before = page.viewport_size
    for screen, size in {"wide": (1600, 1000), "phone": (390, 844)}.items():
        page.set_viewport_size({"width": size[0], "height": size[1]})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            shot(page, f"{name}-{scheme}-{screen}")
            accessible(page, f"{name} {scheme} {screen}")
    page.set_viewport_size({"width": 360, "height": 740})
    fits = "() => document.documentElement.scrollWidth <= window.innerWidth"
    page.wait_for_function(fits)  # what is placed by a script moves with the next frame
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(before)
