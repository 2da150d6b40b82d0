"""Make the gallery: `python docs/gallery.py` writes docs/gallery/*.png, one picture per view, and docs/images/page.png.

The last one is the page of `pathlens serve` as it opens: it takes Chromium and playwright.
"""

from __future__ import annotations

import shutil
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

import pathlens as pl
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
SHADES = 128  # of a picture: flat colours and letters need no more, and it takes a third of the room


def explained(
    method: str, model: str = "sentiment", texts: tuple[str, ...] = (TEXT,), **choices
) -> Callable[[Path], object]:
    return lambda path: pl.explain(model, *texts, method=method, **choices).to_png(path)


def layers(path: Path) -> None:
    layer_study("sentiment", TEXT, layers=range(6)).to_png(path)


def nodes(path: Path) -> None:
    node_study("sentiment", TEXT, counts=[4, 8, 16, 32, 64], rules=["gauss", "midpoint", "left"]).to_png(path)


def rank(path: Path) -> None:
    ranking = pl.rank("minilm", "Someone makes music.", DOCUMENTS, unit="word", tolerance=0.01)
    ranking.with_reason(0, 1).to_png(path)


def evaluation(path: Path) -> None:
    evaluate("sentiment", REVIEWS, methods=["secant", "ig", "sig"], extra=[], draws=200, tolerance=0.01).to_png(path)


def words(path: Path) -> None:
    Report.of(pl.Explainer("sentiment", unit="word", tolerance=0.01)(REVIEWS), title="five reviews").to_png(path)


def tabular(path: Path) -> None:
    torch.manual_seed(0)
    rows = torch.randn(60, 3)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    names = ["age", "income", "years at address"]
    results = pl.explain(pl.Tabular(network, features=names), list(rows))
    Report.of(results, title="sixty rows of a table").to_png(path)


def announce(path: Path) -> None:
    pl.explain("smollm", "The capital of France is", generate=2, tolerance=0.05).to_png(path)


def answer(path: Path) -> None:
    pl.answer("smollm", "What color are the towers of Velmora, and who built them?", SOURCES).to_png(path)


VIEWS: dict[str, Callable[[Path], object]] = {
    "ig": explained("ig"),
    "sig": explained("sig"),
    "dig": explained("dig"),
    "udig": explained("udig"),
    "secant": explained("secant"),
    "idg": explained("idg", tree=TREE),
    "ih": explained("ih", texts=("Not really funny.",)),
    "vaig": explained("vaig", model="minilm", texts=(PAIR[0],)),
    "ij": explained("ij", model="minilm", texts=PAIR),
    "compare": lambda path: compare("sentiment", TEXT, methods=["secant", "ig", "sig"]).to_png(path),
    "whatif": lambda path: whatif("sentiment", TEXT).to_png(path),
    "path": lambda path: pathview("sentiment", TEXT).to_png(path),
    "layers": layers,
    "nodes": nodes,
    "rank": rank,
    "evaluation": evaluation,
    "words": words,
    "tabular": tabular,
    "said": announce,
    "answer": answer,
    "japanese": lambda path: pl.explain(pl.ToyModel(), "面白くはないが 、 とても 感動 した 。").to_png(path),
}


def page(path: Path) -> None:
    """In a light theme, at the width of a laptop, when its first example is done."""
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
        browser.close()
    server.should_exit = True
    running.join(10)


def main(names: list[str]) -> None:
    """All views, or those named."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(__file__).parent / "gallery"
    folder.mkdir(exist_ok=True)
    every = {**{name: (make, folder) for name, make in VIEWS.items()}, "page": (page, folder.with_name("images"))}
    if strange := sorted(set(names) - set(every)):
        sys.exit(f"no view {', '.join(strange)}; views: {', '.join(every)}")
    for name in names or every:
        make, place = every[name]
        file = place / f"{name}.png"
        make(file)
        Image.open(file).convert("RGB").quantize(SHADES).save(file, optimize=True)
        size = file.stat().st_size
        assert size < LARGEST, f"{file.name} has {size} bytes"
        sys.stdout.write(f"{file.name} {size // 1000} kB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
