"""Time and peak memory of one explanation on `smollm` by the length of the prompt, one process for each.

    python experiments/decoder_lengths.py --tokens 20 200 2000 --nodes 16 --out out/decoders/lengths.jsonl
    python experiments/decoder_lengths.py --tokens 2000 --method sig --parts 4

Seconds and CPU seconds are of the explanation alone, memory is the process's peak (the model's 540 MB included). With
`--nodes 0` the driver decides; with `--parts N` the units are N passages of about equal length, else tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pathlens as pl
from pathlens.text.load import load

SENTENCES = "The red box holds a key. The blue box holds a coin. The green box holds a ring. "


def prompt_of(model, tokens: int) -> str:
    """Sentences repeated, cut so that with the held token the prompt has `tokens` tokens."""
    text = SENTENCES * (tokens // 10 + 2)
    spans = model.tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return text[: spans[tokens - 2][1]]


def passages_of(text: str, parts: int) -> dict[str, tuple[int, int]]:
    """The text cut into named spans at blanks, so that no token is in two."""
    ends = [0, *(text.index(" ", len(text) * k // parts) for k in range(1, parts)), len(text)]
    return {f"passage {k}": (ends[k - 1], ends[k]) for k in range(1, parts + 1)}


def one(tokens: int, nodes: int, method: str, parts: int) -> dict:
    model = load("smollm")
    text = prompt_of(model, tokens)
    started, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unit = passages_of(text, parts) if parts else "token"
        result = pl.explain(model, text, method=method, unit=unit, n_steps=nodes or None)
    cert = result.certificate
    return {
        "tokens": tokens,
        "method": method,
        "layer": result.meta["layer"],
        "score": result.meta["score"],
        "units": len(result.tokens),
        "nodes": cert.nodes,
        "passes": cert.passes,
        "settled": cert.converged,
        "relative_gap": cert.relative_gap,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu": round(time.process_time() - cpu, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[20, 200, 2000])
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--method", default="ig")
    parser.add_argument("--parts", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/decoders/lengths.jsonl"))
    options = parser.parse_args()
    if len(options.tokens) == 1:
        row = one(options.tokens[0], options.nodes, options.method, options.parts)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(row)
        return
    for tokens in options.tokens:
        more = ["--nodes", str(options.nodes), "--method", options.method, "--parts", str(options.parts)]
        more += ["--out", str(options.out)]
        subprocess.run([sys.executable, __file__, "--tokens", str(tokens), *more], check=True)


if __name__ == "__main__":
    main()
