"""The built-in `minilm-exact`: MiniLM made exact on pairs of STS-B train, written as a small adapter.

    python experiments/minilm_exact.py --data ../shared/data            # makes it, then measures it
    python experiments/minilm_exact.py --data ../shared/data --lora     # a LoRA, one epoch: about ten processor minutes

`pl.exact` and nothing else: the first PAIRS of seed 0, one matrix after the shift (`linear`), its figures on the whole of STS-B
test, looked at once. Penalty, epochs and reference were explored on 2,000 of these pairs and the other 500 (rows/exact-shift.csv).
The asset holds the matrix (or the LoRA) in 16 bits and the table of what the reference says at every length in 32.
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

HERE = Path(__file__).parent
ASSET = HERE.parent / "src" / "pathlens" / "assets" / "minilm-exact" / "adapter.safetensors"
COLUMNS = ("5", "6", "4")  # of STS-B's own files
PAIRS, WATCHED = 2500, 100  # tuned on; of dev, watched meanwhile
KEPT = ("reference", "pairs", "steps", "seed", "rank", "linear")


def make(folder: Path, out: Path, lora: bool) -> dict[str, torch.Tensor]:
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
    return tensors


def measure(folder: Path, matrix: torch.Tensor, table: torch.Tensor) -> None:
    """As it came, the shift alone, and the matrix on it: every text encoded once."""
    pairs = checked(read_pairs(folder / "sts-test.csv", COLUMNS))[0]
    tuner, gold = Tuner.of("minilm", "pad"), np.array([score for *_, score in pairs])
    plain = tuner.sides(pairs, False)
    lengths = [len(row) for row in tuner.ids([a for a, *_ in pairs]) + tuner.ids([b for _, b, _ in pairs])]
    moved = plain - table[lengths]
    rows = {"as it came": plain, "the shift alone": moved, "tuned": moved @ matrix.float().T}
    correlations = {name: f"{spearman(tuner.cosines(vectors).numpy(), gold):.4f}" for name, vectors in rows.items()}
    file = HERE / "rows" / "minilm-exact.json"
    file.write_text(
        json.dumps({"test pairs": len(pairs), "tuned on": PAIRS, "Spearman": correlations}, indent=1) + "\n"
    )
    print(file.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", help="holds stsbenchmark/")
    parser.add_argument("--out", type=Path, default=Path("out/minilm-exact"), help="where it works")
    parser.add_argument("--lora", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tensors = make(args.data / "stsbenchmark", args.out, args.lora)
    if not args.lora:
        measure(args.data / "stsbenchmark", tensors["matrix"], tensors["shift.table"])


if __name__ == "__main__":
    main()
