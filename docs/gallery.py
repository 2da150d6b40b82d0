"""Make the gallery: `python docs/gallery.py` writes docs/gallery/*.png, one picture per view, and docs/images/page.png.

The last one is the page of `pathlens serve` as it opens: it takes Chromium and playwright. The words of every picture are kept
in docs/gallery/words.json, without numbers: a test draws some of them again, and fails where their words have changed.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import uvicorn
from PIL import Image

import pathlens as pl
from pathlens.draw import page_of
from pathlens.metrics.evaluate import evaluate
from pathlens.report import Report
from pathlens.serve.app import make_app
from pathlens.studies.compare import compare
from pathlens.studies.layers import layers as layer_study
from pathlens.studies.nodes import nodes as node_study
from pathlens.studies.pathview import pathview
from pathlens.studies.whatif import whatif
from pathlens.text.load import load

TEXT = "Not really funny, but moving."
PAIR = "A man plays a guitar.", "Someone makes music."
TREE = "(S (X (X Not really funny) ,) (X but moving) .)"
DOCUMENTS = ["Boil the rice in water.", "He plays an old guitar.", "The river is wide."]
REVIEWS = ["A fine film.", "A dull film.", "Funny and moving.", "Not funny, but moving.", "Dull and too long."]
SOURCES = [
    "The towers of Velmora are painted blue. They were built by Osric in 1402.",
    "The towers of Tarkis are painted red. Farmers near Tarkis mostly grow rice.",
    "The old bell of Kalton is made of silver. It rings at dawn.",
]
LARGEST = 200_000  # bytes of a picture
WORDS = Path(__file__).parent / "gallery" / "words.json"
DARK = ("secant", "ij")  # the README's, once more for dark pages
SHADES = 256  # of a picture: a scale of colours keeps its steps, and it takes two fifths of the room


def explained(method: str, model: str = "sentiment", texts: tuple[str, ...] = (TEXT,), **choices) -> Callable[[], Any]:
    return lambda: pl.explain(model, *texts, method=method, **choices)


def layers() -> Any:
    return layer_study("sentiment", TEXT, layers=range(6))


def nodes() -> Any:
    return node_study("sentiment", TEXT, counts=[4, 8, 16, 32, 64], rules=["gauss", "midpoint", "left"])


def rank() -> Any:
    ranking = pl.rank("minilm", "Someone makes music.", DOCUMENTS, unit="word", tolerance=0.01)
    return ranking.with_reason(0, 1)


def evaluation() -> Any:
    return evaluate("sentiment", REVIEWS, methods=["secant", "ig", "sig"], extra=[], draws=200, tolerance=0.01)


def words() -> Any:
    return Report.of(pl.Explainer("sentiment", unit="word", tolerance=0.01)(REVIEWS), title="five reviews")


def tabular() -> Any:
    torch.manual_seed(0)
    rows = torch.randn(60, 3)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    names = ["age", "income", "years at address"]
    results = pl.explain(pl.Tabular(network, features=names), list(rows))
    return Report.of(results, title="sixty rows of a table")


def announce() -> Any:
    return pl.explain("smollm", "The capital of France is", generate=2, tolerance=0.05)


def answer() -> Any:
    return pl.answer("smollm", "What color are the towers of Velmora, and who built them?", SOURCES)


VIEWS: dict[str, Callable[[], Any]] = {
    "ig": explained("ig"),
    "sig": explained("sig"),
    "dig": explained("dig"),
    "udig": explained("udig"),
    "secant": explained("secant"),
    "idg": explained("idg", tree=TREE),
    "ih": explained("ih", texts=("Not really funny.",)),
    "vaig": explained("vaig", model="minilm", texts=(PAIR[0],)),
    "ij": explained("ij", model="minilm", texts=PAIR),
    "compare": lambda: compare("sentiment", TEXT, methods=["secant", "ig", "sig"]),
    "whatif": lambda: whatif("sentiment", TEXT),
    "path": lambda: pathview("sentiment", TEXT),
    "layers": layers,
    "nodes": nodes,
    "rank": rank,
    "evaluation": evaluation,
    "words": words,
    "tabular": tabular,
    "said": announce,
    "answer": answer,
    "japanese": lambda: pl.explain(pl.ToyModel(), "面白くはないが 、 とても 感動 した 。"),
}


NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")


def without_numbers(lines: list[str]) -> list[str]:
    """Words alone: the last digits of a number differ from machine to machine."""
    return [NUMBER.sub("#", " ".join(line.split())) for line in lines if line.strip()]


def words_of(thing: Any) -> list[str]:
    """What a picture says besides its numbers: headings, legend, certificate, notes."""
    shown = page_of(thing)
    proofs = [f"{each.mark} {each.line}" for each in (*shown.proof.diagnostics, *shown.proof.checks)]
    titles = [block.title for block in shown.on("figure")]
    return without_numbers(
        [shown.headline, shown.title, shown.subtitle, *titles, shown.proof.legend, *proofs, *shown.notes]
    )


def page(path: Path) -> None:
    """In a light theme, at the width of a laptop, when its first example is done."""
    from playwright.sync_api import sync_playwright

    listener = socket.create_server(("127.0.0.1", 0))
    app = make_app({name: load(name) for name in ("sentiment", "minilm")})
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    running = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    running.start()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 920}, color_scheme="light")
        shown.goto("http://{}:{}/".format(*listener.getsockname()))
        shown.wait_for_selector("#result[data-done]", timeout=240_000)
        shown.screenshot(path=path)
        words = shown.inner_text("body").split("\n")
        browser.close()
    server.should_exit = True
    running.join(10)
    return without_numbers(words)


def small(file: Path) -> None:
    Image.open(file).convert("RGB").quantize(SHADES, kmeans=2).save(file, optimize=True)
    size = file.stat().st_size
    assert size < LARGEST, f"{file.name} has {size} bytes"
    sys.stdout.write(f"{file.name} {size // 1000} kB\n")


def main(names: list[str]) -> None:
    """All views, or those named."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(__file__).parent / "gallery"
    folder.mkdir(exist_ok=True)
    every = (*VIEWS, "page")
    if strange := sorted(set(names) - set(every)):
        sys.exit(f"no view {', '.join(strange)}; views: {', '.join(every)}")
    kept = json.loads(WORDS.read_text(encoding="utf-8")) if WORDS.exists() else {}
    for name in names or every:
        file = (folder.with_name("images") if name == "page" else folder) / f"{name}.png"
        if name == "page":
            kept[name] = page(file)
        else:
            thing = VIEWS[name]()
            thing.to_png(file)
            kept[name] = words_of(thing)
            if name in DARK:
                small(thing.to_png(folder.with_name("images") / f"{name}-dark.png", dark=True))
        WORDS.write_text(json.dumps(kept, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        small(file)


if __name__ == "__main__":
    main(sys.argv[1:])
