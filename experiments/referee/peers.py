"""Peers in environments of their own: their packages first, ours (torch, transformers) behind them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.referee.exams import FOLDER, folder_of
from experiments.referee.record import Answer, Item, at_words

WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Peer:
    """A name in worker.py's table, and what has to be installed for it."""

    name: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()  # installed without what they ask for

    @property
    def environment(self) -> Path:
        return FOLDER / "peers" / re.split("[=<>]", (*self.alone, *self.packages)[0])[0]

    def python(self) -> Path:
        """Made on first use; torch stays the project's own, whatever a peer asks for."""
        folder = self.environment
        python = folder / "bin" / "python"
        if not (folder / "ready").exists():
            venv.create(folder, with_pip=False, clear=True)
            site = next(folder.glob("lib/python*/site-packages"))
            (site / "project.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
            install = [python, "-m", "pip", "install", "--quiet", "--prefer-binary", "torch==2.13.0"]
            for packages in (("--no-deps", *self.alone), self.packages):
                if len(packages) > packages.count("--no-deps"):
                    done = subprocess.run([*install, *packages], capture_output=True, text=True)
                    if done.returncode:
                        raise RuntimeError(f"{self.name} does not install: {done.stderr.strip().splitlines()[-1]}")
            (folder / "ready").touch()
        return python

    def __call__(self, items: Sequence[Item]) -> list[Answer]:
        (model,) = {item.model for item in items}
        with tempfile.TemporaryDirectory() as folder:
            asked, out = Path(folder) / "items.jsonl", Path(folder) / "answers.jsonl"
            lines = [{"number": i.number, "text": i.text, "target": i.target} for i in items]
            asked.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            command = [self.python(), WORKER, self.name, "--model", folder_of(model), "--items", asked, "--out", out]
            done = subprocess.run(list(map(str, command)), stderr=subprocess.PIPE, text=True)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                raise RuntimeError(f"{self.name}: {done.stderr.strip().splitlines()[-1]}")
            facts = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        texts = {item.number: item.text for item in items}
        return [
            Answer(f["number"], at_words(texts[f["number"]], f["pieces"]), f["cpu"], f["passes"], f.get("gap"))
            for f in facts
        ]


CAPTUM = ("captum==0.9.0",)
PEERS = (
    *(Peer(f"captum {name}", CAPTUM) for name in ("IG", "GradientShap", "DeepLift", "occlusion", "LIME", "KernelShap")),
    Peer("shap partition", ("shap",)),
    Peer("lime", ("lime",)),
    Peer("shapiq KernelSHAP", ("shapiq",)),
    Peer("lxt AttnLRP", ("tabulate", "transformers==4.48.3", "huggingface_hub<1"), ("lxt==0.6.1",)),
    Peer("gim", ("gim-explain",)),
)
