"""A run against the in-memory loop, and memory over many rows.

    python benchmarks/corpus.py throughput     # `run` against `Explainer.run`: same texts, same process
    python benchmarks/corpus.py memory         # RSS after 10 000 and after 100 000 generated rows
    python benchmarks/corpus.py rates          # rows per second for ig and sig on SST-2 dev, by the command line

CPU time of the process is compared, not wall time: what else the machine does does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
DATA = Path(os.environ.get("PATHLENS_DATA", "../shared/data")) / "sst2-glue" / "dev.tsv"
WORDS = "a film that is never dull but hardly moving and really quite good with some bad acting in the plot".split()


def throughput(rows: int, rounds: int, methods: list[str]) -> dict[str, float]:
    """Both loops in turns over the same rows: CPU seconds of `run` over those of the in-memory loop, median of rounds."""
    import statistics

    from pathlens.corpus import Source, run
    from pathlens.corpus.reading import rows as read
    from pathlens.engine.explainer import Explainer

    source = Source(str(DATA), text="sentence")
    texts = [(row.text, None) for row in read(source, limit=rows)]
    figures: dict[str, float] = {"rows": rows}
    for method in methods:
        explainer = Explainer("sentiment", method=method, check=False)
        explainer.run(texts[:4])  # warm
        loop, whole = [], []
        for _ in range(rounds):
            start = time.process_time()
            explainer.run(texts)
            loop.append(time.process_time() - start)
            with tempfile.TemporaryDirectory() as folder:
                start, clock = time.process_time(), time.perf_counter()
                run("sentiment", source, folder, limit=rows, method=method)
                whole.append(time.process_time() - start)
                wall = time.perf_counter() - clock
            print(
                f"{method}: in memory {loop[-1]:.2f} s, run {whole[-1]:.2f} s of CPU ({wall:.1f} s of wall)", flush=True
            )
        ratios = [b / a for a, b in zip(loop, whole, strict=True)]
        figures |= {
            f"{method}_ratio": statistics.median(ratios),
            f"{method}_rows_per_cpu_second": rows / statistics.median(whole),
        }
    return figures


def generate(path: Path, rows: int) -> None:
    chosen = random.Random(0)
    with path.open("w", encoding="utf-8") as stream:
        stream.write("text\tlabel\n")
        for _ in range(rows):
            stream.write(" ".join(chosen.choices(WORDS, k=chosen.randint(3, 12))) + f"\t{chosen.randint(0, 3)}\n")


def tiny(folder: Path) -> Path:
    """A BERT small enough for 100 000 explanations; its weights are random."""
    import torch
    import transformers as hf
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(WORDS))]
    raw = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
                                           sep_token="[SEP]", mask_token="[MASK]")  # fmt: skip
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=len(names), **size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def memory(rows: int) -> dict[str, float]:
    """Bytes held after a tenth of the rows, and after all of them."""
    from pathlens.corpus import Source, run

    held: dict[int, int] = {}

    def watch(counts) -> None:
        for mark in (rows // 10, rows):
            if counts.rows >= mark and mark not in held:
                held[mark] = resident()

    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        generate(where / "texts.tsv", rows)
        started = time.perf_counter()
        made = run(str(tiny(where / "model")), Source(str(where / "texts.tsv")), where / "out", n_steps=2,
                   batch_size=256, rows_per_shard=2048, tell=watch)  # fmt: skip
        seconds = time.perf_counter() - started
    assert made.tally.rows == rows and made.tally.failed == 0, made
    first, last = held[rows // 10], held[rows]
    return {"rows": rows, "MiB_after_a_tenth": first / 2**20, "MiB_after_all": last / 2**20,
            "MiB_grown": (last - first) / 2**20, "MiB_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "seconds": seconds}  # fmt: skip


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def rates(methods: list[str], out: Path) -> dict[str, float]:
    """Rows per second of wall time and of CPU time, as a user runs it."""
    figures = {}
    for method in methods:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pathlens", "run", "sentiment", str(DATA), "--text", "sentence",
             "--method", method, "--out", str(out / method), "--overwrite"], check=True, capture_output=True, text=True,
        )  # fmt: skip
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(done.stdout.strip(), flush=True)
        figures |= {f"{method}_rows_per_second": 872 / wall, f"{method}_rows_per_cpu_second": 872 / cpu}
        print(json.dumps(figures), flush=True)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("throughput", "memory", "rates"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=["ig", "sig"])
    parser.add_argument("--out", type=Path, default=Path("out/corpus"))
    given = parser.parse_args()
    if given.what == "throughput":
        print(json.dumps(throughput(given.rows or 128, given.rounds, given.methods)))
    elif given.what == "memory":
        print(json.dumps(memory(given.rows or 100_000)))
    else:
        print(json.dumps(rates(given.methods, given.out)))
