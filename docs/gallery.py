"""Make the gallery: `python docs/gallery.py` writes docs/gallery/*.png, one picture per view."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image

import pathlens as pl
from pathlens.metrics.evaluate import evaluate
from pathlens.report import Report
from pathlens.studies.compare import compare
from pathlens.studies.layers import layers as layer_study
from pathlens.studies.nodes import nodes as node_study
from pathlens.studies.pathview import pathview
from pathlens.studies.whatif import whatif

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
    found = pl.rank("minilm", "Someone makes music.", DOCUMENTS, unit="word", tolerance=0.01)
    found.with_reason(0, 1).to_png(path)


def evaluation(path: Path) -> None:
    evaluate("sentiment", REVIEWS, methods=["ig", "sig"], extra=[], draws=200, tolerance=0.01).to_png(path)


def words(path: Path) -> None:
    Report.of(pl.Explainer("sentiment", unit="word", tolerance=0.01)(REVIEWS), title="five reviews").to_png(path)


def tabular(path: Path) -> None:
    torch.manual_seed(0)
    rows = torch.randn(60, 3)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    names = ["age", "income", "years at address"]
    results = pl.explain(pl.Tabular(network, features=names), list(rows))
    Report.of(results, title="sixty rows of a table").to_png(path)


def said(path: Path) -> None:
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
    "compare": lambda path: compare("sentiment", TEXT, methods=["ig", "sig", "udig"]).to_png(path),
    "whatif": lambda path: whatif("sentiment", TEXT).to_png(path),
    "path": lambda path: pathview("sentiment", TEXT).to_png(path),
    "layers": layers,
    "nodes": nodes,
    "rank": rank,
    "evaluation": evaluation,
    "words": words,
    "tabular": tabular,
    "said": said,
    "answer": answer,
    "japanese": lambda path: pl.explain(pl.ToyModel(), "面白くはないが 、 とても 感動 した 。").to_png(path),
}


def main(names: list[str]) -> None:
    """All views, or those named."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(__file__).parent / "gallery"
    folder.mkdir(exist_ok=True)
    if strange := sorted(set(names) - set(VIEWS)):
        sys.exit(f"no view {', '.join(strange)}; views: {', '.join(VIEWS)}")
    for name in names or VIEWS:
        file = folder / f"{name}.png"
        VIEWS[name](file)
        Image.open(file).convert("RGB").quantize(SHADES).save(file, optimize=True)
        size = file.stat().st_size
        assert size < LARGEST, f"{file.name} has {size} bytes"
        sys.stdout.write(f"{file.name} {size // 1000} kB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
