"""The built-in `minilm-exact`: MiniLM made exact on STS-B train by `pl.exact`, written as a small adapter.

    python experiments/minilm_exact.py --data ../shared/data --lora       # makes the one that is built in, then measures it
    python experiments/minilm_exact.py --data ../shared/data              # one matrix after the shift, on PAIRS of the pairs
    python experiments/minilm_exact.py --data ../shared/data --measure    # only its figures

The LoRA takes one epoch of all pairs in the order of seed 0. The matrix's penalty, epochs and reference were explored on 2,000 pairs
of STS-B train and 500 others (rows/exact-shift.csv). Both are measured on the whole of STS-B test, as a user loads the built-in model
(rows/minilm-exact.json). The asset holds the factors (or the matrix) in 16 bits and the table of what the reference says at
every length in 32.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import pathlens as pl
from pathlens.metrics.statistics import spearman
from pathlens.studies.exact import checked, read_pairs
from pathlens.studies.tuner import Tuner
from pathlens.text.load import load

HERE = Path(__file__).parent
ASSET = HERE.parent / "src" / "pathlens" / "assets" / "minilm-exact" / "adapter.safetensors"
COLUMNS = ("5", "6", "4")  # of STS-B's own files
PAIRS, WATCHED = 2500, 100  # tuned on; of dev, watched meanwhile
KEPT = ("reference", "pairs", "steps", "seed", "rank", "linear")


def make(folder: Path, out: Path, lora: bool) -> None:
    train, dev = (read_pairs(folder / f"sts-{part}.csv", COLUMNS) for part in ("train", "dev"))
    random.Random(0).shuffle(train)
    random.Random(0).shuffle(dev)
    pairs = train if lora else train[:PAIRS]
    print(pl.exact("minilm", pairs, out, test=dev[:WATCHED], linear=not lora, show_progress=True), flush=True)
    tensors = load_file(out / "adapter.safetensors") if lora else {}
    tensors["shift.table"] = load_file(out / "2_Shift" / "model.safetensors")["table"]
    if not lora:
        tensors["matrix"] = load_file(out / "3_Dense" / "model.safetensors")["linear.weight"].half()
    facts = json.loads((out / "exact.json").read_text("utf-8"))
    ASSET.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, ASSET, {name: str(facts[name]) for name in KEPT})
    ASSET.chmod(0o644)  # safetensors writes it for its owner only
    shutil.rmtree(out)


def measure(folder: Path, lora: bool) -> None:
    """As it came, the shift alone, and the built-in model as a user loads it, on pairs that nothing was chosen by."""
    pairs = checked(read_pairs(folder / "sts-test.csv", COLUMNS))[0]
    tuner, gold = Tuner.of("minilm", "pad"), np.array([score for *_, score in pairs])
    built_in = load("minilm-exact").sentence_transformer
    texts = [a for a, *_ in pairs] + [b for _, b, _ in pairs]
    rows = {
        "as it came": tuner.sides(pairs, False),
        "the shift alone": tuner.sides(pairs, True),
        "built in": torch.from_numpy(built_in.encode(texts, convert_to_numpy=True)),
    }
    correlations = {name: f"{spearman(tuner.cosines(vectors).numpy(), gold):.4f}" for name, vectors in rows.items()}
    made = {"test pairs": len(pairs), "tuned on": "all of STS-B train, a LoRA" if lora else f"{PAIRS} pairs, a matrix"}
    file = HERE / "rows" / "minilm-exact.json"
    file.write_text(json.dumps({**made, "Spearman": correlations}, indent=1) + "\n")
    print(file.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="holds stsbenchmark/")
    parser.add_argument("--out", type=Path, default=Path("out/minilm-exact"), help="where it works")
    parser.add_argument("--lora", action="store_true", help="a LoRA on all pairs, as the built-in one; else one matrix")
    parser.add_argument("--measure", action="store_true", help="only what is built in, on STS-B test")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not args.measure:
        make(args.data / "stsbenchmark", args.out, args.lora)
    measure(args.data / "stsbenchmark", args.lora)


if __name__ == "__main__":
    main()
