"""An index of 100,000 documents, built and asked: `python experiments/index.py [STEP …] [--count N]`.

Steps, in this order when none is named; rows of each are kept in experiments/rows/index/STEP.json, and a step whose row is
there for the same count is not done again (`--fresh` does it). The index lies in out/index and goes on where it stopped.

    plain     the build with vectors only, beside SentenceTransformer.encode of a sample of the same texts, before and after
    search    k = 10 with explanations, beside encoding the ten hits; sums against the store's scores; recall of its index
    stored    explanations stored in 4 bits: kB a document, and documents a second beside the integral (method="ij")
    million   1,000,000 vectors: the search alone

Documents: sentences of SST-2, Rotten Tomatoes, STS-B, IMDb, XQuAD and MultiSpanQA with 5 to 40 words, each once; then, until
there are enough, the first half of one and the second half of another, drawn with seed 0. The million: ten vectors around
each document's, v + 0.3 ‖v‖ g / √k with g normal, seed 0. CPU seconds of the whole process, one torch thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch comes in
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "experiments/rows/index"
QUERIES = 20
SAMPLE = 1024  # texts of the plain encoder's own speed
STORED = 512  # documents of the stored build
INTEGRALS = 8  # documents of the slow one


def sentences(data: Path) -> list[str]:
    """Every sentence once, in a fixed order."""
    from pathlens.units.cuts import sentence_spans

    found: list[str] = []
    for name in ("train", "dev", "test"):
        lines = (data / f"sst2-sentences/{name}.tsv").read_text(encoding="utf-8").split("\n")[1:]
        found += [max(line.split("\t"), key=len) for line in lines if line]
        rows = (data / f"stsbenchmark/sts-{name}.csv").read_text(encoding="utf-8").split("\n")
        found += [cell for row in rows if row for cell in row.split("\t")[5:7]]
    for name in ("pos", "neg"):
        found += (data / f"rt-polarity/rt-polarity.{name}").read_text(encoding="cp1252").split("\n")
    passages = [row["text"] for row in csv.DictReader((data / "imdb/texts.csv").open(encoding="utf-8"))]
    squad = json.loads((data / "squad/xquad.en.json").read_text(encoding="utf-8"))["data"]
    passages += [part["context"] for article in squad for part in article["paragraphs"]]
    spans = json.loads((data / "multispanqa/valid-first-half.json").read_text(encoding="utf-8"))["data"]
    passages += [" ".join(item["context"]) for item in spans]
    found += [text[a:b] for text in passages for a, b in sentence_spans(text.replace("<br />", " "))]
    return [text for text in dict.fromkeys(map(str.strip, found)) if 5 <= len(text.split()) <= 40]


def documents(data: Path, count: int) -> list[str]:
    draw, every = random.Random(0), sentences(data)
    draw.shuffle(every)
    made = dict.fromkeys(every[:count])
    while len(made) < count:
        a, b = (draw.choice(every).split() for _ in range(2))
        made.setdefault(" ".join(a[: len(a) // 2] + b[len(b) // 2 :]))
    return list(made)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = cpu()
    value = work()
    return cpu() - begun, value


class Watch:
    """Memory of this process, looked at every second."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.wait(1.0):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.seen.append(pages * resource.getpagesize() / 2**20)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        self._thread.join()

    def thirds(self) -> list[float]:
        """The largest of each third of the time, in MiB: flat where they are alike."""
        size = max(1, len(self.seen) // 3)
        return [round(max(self.seen[n : n + size])) for n in range(0, 3 * size, size) if self.seen[n : n + size]]


def own_encoder() -> Any:
    from sentence_transformers import SentenceTransformer

    from pathlens.text.builtin import minilm_folder

    return SentenceTransformer(str(minilm_folder()), device="cpu")


def plain(texts: list[str], folder: Path) -> dict[str, Any]:
    from pathlens.vectors.index import build

    model, draw = own_encoder(), random.Random(1)
    sample = draw.sample(texts, min(SAMPLE, len(texts)))
    resumed = (folder / "building.json").exists()
    before, _ = spent(lambda: model.encode(sample))
    with Watch() as memory:
        took, made = spent(lambda: build(texts, folder, "minilm", storage="plain"))
    after, _ = spent(lambda: model.encode(sample))
    encode = statistics.mean([before, after]) / len(sample)
    return {
        "documents": len(texts),
        "resumed": resumed,
        "build_seconds": took,
        "per_second": len(texts) / took,
        "encode_per_second": 1 / encode,
        "of_encode": encode * len(texts) / took,
        "bytes_per_document": made["bytes_per_document"],
        "memory_mib": memory.thirds(),
        "words_mean": statistics.mean(len(text.split()) for text in texts),
    }


def questions(data: Path) -> list[str]:
    spans = json.loads((data / "multispanqa/valid-first-half.json").read_text(encoding="utf-8"))["data"]
    asked = [" ".join(item["question"]) for item in spans]
    return asked[:: len(asked) // QUERIES][:QUERIES]


def search(data: Path, folder: Path) -> dict[str, Any]:
    from pathlens.vectors.index import Index

    model = own_encoder()
    begun = cpu()
    index = Index.open(folder)
    opened = cpu() - begun
    rows, worst, hit_rate = [], 0.0, []
    for number, query in enumerate(questions(data)):
        if number == 0:
            index.search(query, 10)  # the model is loaded, and its weights compared with those of the build
        took, found = spent(lambda query=query: index.search(query, 10))
        encode, _ = spent(lambda found=found: model.encode([hit.text for hit in found]))
        one_by_one = index.search(query, 10, exact=True)
        same = {hit.document for hit in found} & {hit.document for hit in one_by_one}
        hit_rate.append(len(same) / 10)
        for hit in found:
            worst = max(worst, abs(hit.certificate.f_baseline + float(hit.scores.sum()) - hit.score))
        rows.append({"search": took, "encode": encode, "ratio": took / encode})
    with Watch() as memory:
        for query in questions(data) * 3:
            index.search(query, 10)
    return {
        "documents": len(index),
        "open_seconds": opened,
        "queries": rows,
        "ratio_median": statistics.median(row["ratio"] for row in rows),
        "ratio_of_sums": sum(row["search"] for row in rows) / sum(row["encode"] for row in rows),
        "worst_sum": worst,
        "recall_at_10": statistics.mean(hit_rate),
        "extra_bytes_per_document": 0,
        "memory_mib": memory.thirds(),
    }


def stored(data: Path, texts: list[str], folder: Path) -> dict[str, Any]:
    from pathlens.vectors.index import Index, build

    some = texts[:STORED]
    took, made = spent(lambda: build(some, folder / "stored", "minilm", storage="compact"))
    slow, _ = spent(lambda: build(some[:INTEGRALS], folder / "integrals", "minilm", method="ij"))
    bare = build(some, folder / "bare", "minilm", storage="plain")
    files = sum(part["bytes"] for part in made["parts"])
    index, worst = Index.open(folder / "stored"), 0.0
    for query in questions(data):
        for hit in index.search(query, 10):
            worst = max(worst, abs(float(hit.explanation.full_matrix.sum()) - hit.score))
    fast, late = len(some) / took, INTEGRALS / slow
    return {
        "documents": len(some),
        "per_second": fast,
        "ij_documents": INTEGRALS,
        "ij_per_second": late,
        "times": fast / late,
        "explanation_bytes_per_document": files / len(some),
        "more_than_plain": made["bytes_per_document"] - bare["bytes_per_document"],
        "worst_sum": worst,
    }


def million(data: Path, folder: Path, times: int) -> dict[str, Any]:
    import numpy as np

    from pathlens.vectors.encode import SideEncoder
    from pathlens.vectors.index import Index
    from pathlens.vectors.table import Row, Table

    index = Index.open(folder)
    table, made = Table(str(folder / "million"), "embeddings-0"), 0
    draw = np.random.default_rng(0)
    if "embeddings-0" not in table.names() or table.count() != times * len(index):
        table.create(384)
        begun = cpu()
        for part in index.manifest["parts"]:
            rows = index.table.part(part["part"])
            for copy in range(times):
                noise = draw.normal(size=(len(rows), 384)).astype(np.float32)
                more = [
                    Row(
                        part["part"] * times + copy,
                        row.slot,
                        made + n,
                        row.name,
                        row.start,
                        row.text,
                        row.vector + 0.3 * np.linalg.norm(row.vector) * noise[n] / np.sqrt(384),
                    )
                    for n, row in enumerate(rows)
                ]
                table.add(more)
                made += len(more)
        table.settle("cosine", made)
        table.forget()
        written = cpu() - begun
    else:
        written = None
    encoder, version = SideEncoder.of("minilm", method="secant"), table.version
    seconds, wall, recall, worst = [], [], [], 0.0
    with Watch() as memory:
        for query in questions(data):
            vector = encoder.embed_all([query])[0]
            begun = time.perf_counter()
            took, found = spent(lambda vector=vector: table.nearest(vector, 10, "cosine", version))
            wall.append(time.perf_counter() - begun)
            seconds.append(took)
            exact = table.nearest(vector, 10, "cosine", version, exact=True)
            recall.append(len({row.document for row in found} & {row.document for row in exact}) / 10)
            for row in found:
                own = float(vector @ row.vector / np.linalg.norm(vector) / np.linalg.norm(row.vector))
                worst = max(worst, abs(own - row.score))
    return {
        "vectors": table.count(),
        "write_seconds": written,
        "search_seconds_median": statistics.median(seconds),
        "search_wall_median": statistics.median(wall),
        "worst_score": worst,
        "recall_at_10": statistics.mean(recall),
        "memory_mib": memory.thirds(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help="plain, search, stored, million; none: all")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=ROOT / "out/index")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    choice = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    os.nice(10)
    folder = choice.out / str(choice.count)
    texts = documents(choice.data, choice.count)
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "plain": lambda: plain(texts, folder),
        "search": lambda: search(choice.data, folder),
        "stored": lambda: stored(choice.data, texts, choice.out),
        "million": lambda: million(choice.data, folder, 10),
    }
    choice.rows.mkdir(parents=True, exist_ok=True)
    for step in choice.steps or steps:
        file = choice.rows / f"{step}.json"
        if file.exists() and not choice.fresh and json.loads(file.read_text())["count"] == choice.count:
            print(f"{step}: kept")
            continue
        row = {"count": choice.count, **steps[step]()}
        file.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        print(step, json.dumps({name: value for name, value in row.items() if name != "queries"}), flush=True)


if __name__ == "__main__":
    main()
