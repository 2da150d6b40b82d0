"""An index of 100,000 documents, built and asked: `python experiments/index.py [STEP …] [--count N]`.

Steps, in this order when none is named; rows of each are kept in experiments/rows/index/STEP-COUNT.json, and a step whose
row is there is not done again (`--fresh` does it). The index lies in out/index and goes on where it stopped.

    plain     the build with vectors only, beside SentenceTransformer.encode of a sample of the same texts, before and after
    search    k = 10 with explanations, beside encoding the ten hits; sums against the store's scores; recall of its index
    stored    explanations stored in 4 bits: kB a document, and documents a second beside the integral (method="ij")
    million   ten vectors for each document (1,000,000): the search alone
    figures   the table of docs/why-this-hit.md, from the rows that are kept

Documents: sentences of SST-2, Rotten Tomatoes, STS-B, IMDb, XQuAD and MultiSpanQA with 5 to 40 words, each once; then, until
there are enough, the first half of one and the second half of another, drawn with seed 0. The million: ten vectors around
each document's, v + 0.3 ‖v‖ g / √k with g normal, seed 0. CPU seconds of the whole process, one torch thread, niced.
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
BEGIN, END = "<!-- figures: experiments/index.py figures -->", "<!-- /figures -->"
QUERIES = 20
SAMPLE = 1024  # texts of the plain encoder's own speed
STORED = 512  # documents of the stored build
INTEGRALS = 8  # documents of the slow one


def sentences(data: Path) -> list[str]:
    """Every sentence once, in a fixed order."""
    from pathlens.units.cuts import sentence_spans

    collected: list[str] = []
    for name in ("train", "dev", "test"):
        lines = (data / f"sst2-sentences/{name}.tsv").read_text(encoding="utf-8").split("\n")[1:]
        collected += [max(line.split("\t"), key=len) for line in lines if line]
        rows = (data / f"stsbenchmark/sts-{name}.csv").read_text(encoding="utf-8").split("\n")
        collected += [cell for row in rows if row for cell in row.split("\t")[5:7]]
    for name in ("pos", "neg"):
        collected += (data / f"rt-polarity/rt-polarity.{name}").read_text(encoding="cp1252").split("\n")
    passages = [row["text"] for row in csv.DictReader((data / "imdb/texts.csv").open(encoding="utf-8"))]
    squad = json.loads((data / "squad/xquad.en.json").read_text(encoding="utf-8"))["data"]
    passages += [part["context"] for article in squad for part in article["paragraphs"]]
    spans = json.loads((data / "multispanqa/valid-first-half.json").read_text(encoding="utf-8"))["data"]
    passages += [" ".join(item["context"]) for item in spans]
    collected += [text[a:b] for text in passages for a, b in sentence_spans(text.replace("<br />", " "))]
    return [text for text in dict.fromkeys(map(str.strip, collected)) if 5 <= len(text.split()) <= 40]


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
        took, hits = spent(lambda query=query: index.search(query, 10))
        encode, _ = spent(lambda hits=hits: model.encode([hit.text for hit in hits]))
        one_by_one = index.search(query, 10, exact=True)
        same = {hit.document for hit in hits} & {hit.document for hit in one_by_one}
        hit_rate.append(len(same) / 10)
        for hit in hits:
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
    from pathlens.vectors.table import IndexRow, Table

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
                    IndexRow(
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
            took, hits = spent(lambda vector=vector: table.nearest(vector, 10, "cosine", version))
            wall.append(time.perf_counter() - begun)
            seconds.append(took)
            exact = table.nearest(vector, 10, "cosine", version, exact=True)
            recall.append(len({row.document for row in hits} & {row.document for row in exact}) / 10)
            for row in hits:
                cosine = float(vector @ row.vector / np.linalg.norm(vector) / np.linalg.norm(row.vector))
                worst = max(worst, abs(cosine - row.score))
    return {
        "vectors": table.count(),
        "write_seconds": written,
        "search_seconds_median": statistics.median(seconds),
        "search_wall_median": statistics.median(wall),
        "worst_score": worst,
        "recall_at_10": statistics.mean(recall),
        "memory_mib": memory.thirds(),
    }


GOALS = """
plain | of_encode | plain build, documents a second over those of `SentenceTransformer.encode` | {:.0%} | ≥ 80 %
search | ratio_median | k = 10 with explanations, over encoding the ten hits (median of 20 queries) | {:.2f} × | ≤ 5 ×
search | extra_bytes_per_document | the same, bytes stored for it a document | {:.0f} | 0
search | worst_sum | the same, largest difference of a sum and the store's score | {:.1e} | ≤ 1e-5
search | recall_at_10 | the same, share of the exact ten that the index of neighbours finds | {:.2f} |
search | open_seconds | opening the index, CPU seconds | {:.4f} |
search | memory_mib | memory of 60 searches, largest of each third, MiB (the model and torch in it) | {} | flat
stored | explanation_bytes_per_document | `compact` explanations, bytes a document | {:.0f} | ≤ 3000
stored | times | the same, documents a second over those of `method="ij"` (the default before) | {:.1f} × | ≥ 20 ×
stored | worst_sum | the same, largest difference of a sum and the store's score | {:.1e} | ≤ 1e-5
million | search_seconds_median | search alone, k = 10, CPU seconds | {:.3f} |
million | worst_score | the same, largest difference of a score and the vectors' own cosine | {:.1e} | ≤ 1e-5
million | recall_at_10 | the same, share of the exact ten found | {:.2f} |
"""  # of a row: where it is kept, its field, what it is, how it is written, and its goal


def figures(rows: Path) -> None:
    """The table of the page, from the rows that are kept; of several counts the largest."""
    lines = ["| what | documents | figure | goal |", "|---|---|---|---|"]
    for line in GOALS.strip().splitlines():
        step, field, what, form, goal = (cell.strip() for cell in line.split("|"))
        kept = sorted(rows.glob(f"{step}-*.json"), key=lambda file: int(file.stem.split("-")[1]))
        if not kept:
            lines.append(f"| {what} | | not measured | {goal} |")
            continue
        row = json.loads(kept[-1].read_text(encoding="utf-8"))
        count = row.get("vectors") or row["documents"]
        lines.append(f"| {what} | {count:,} | {form.format(row[field])} | {goal} |")
    page = ROOT / "docs/why-this-hit.md"
    head, rest = page.read_text(encoding="utf-8").split(f"{BEGIN}\n")
    tail = rest.split(f"{END}\n")[1]
    page.write_text(head + f"{BEGIN}\n" + "\n".join(lines) + f"\n{END}\n" + tail, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help="plain, search, stored, million; none: all; or figures")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=ROOT / "out/index")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    choice = parser.parse_args()
    if choice.steps == ["figures"]:
        return figures(choice.rows)
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
        file = choice.rows / f"{step}-{choice.count}.json"
        if file.exists() and not choice.fresh:
            print(f"{step}: kept")
            continue
        row = {"count": choice.count, **steps[step]()}
        file.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        figures(choice.rows)
        print(step, json.dumps({name: value for name, value in row.items() if name != "queries"}), flush=True)


if __name__ == "__main__":
    main()
