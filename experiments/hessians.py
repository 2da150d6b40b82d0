"""The experiments of Integrated Hessians: `python experiments/hessians.py xor`, … (see docs/hessians.md).

Each writes CSV tables, PNG pictures and a paragraph of findings to a folder of its own under --out.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

STUDIES = ("xor", "softplus", "retrain", "runtime", "sentiment", "negation", "sentences", "drugs", "tabular")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=(*STUDIES, "all"))
    parser.add_argument("--quick", action="store_true", help="fewer seeds and rows: minutes become seconds")
    parser.add_argument("--out", type=Path, default=Path("out/hessians"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the public data sets are")
    parser.add_argument("--heart", type=Path, help="heart_disease.tab of the orange3 package, for `tabular`")
    parser.add_argument(
        "--resume", action="store_true", help="`retrain`, `negation`, `sentences`: keep the rows already written"
    )
    parser.add_argument("--templates", type=int, help="`negation`: only so many of the 380 pairs of adjectives")
    parser.add_argument("--threads", type=int, default=2)
    choice = parser.parse_args()
    import torch

    torch.set_num_threads(choice.threads)
    for study in STUDIES if choice.study == "all" else (choice.study,):
        module = import_module(f"experiments.hessian_studies.{study}")
        more = {
            "retrain": {"resume": choice.resume},
            "sentiment": {"data": choice.data},
            "negation": {"data": choice.data, "resume": choice.resume, "templates": choice.templates},
            "sentences": {"data": choice.data, "resume": choice.resume},
            "tabular": {"heart": choice.heart},
        }.get(study, {})
        module.run(choice.out, quick=choice.quick, **more)


if __name__ == "__main__":
    main()
