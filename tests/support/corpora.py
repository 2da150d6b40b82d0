"""What the corpus tests share: a tiny model as a folder, generated texts, the command line called in this process."""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pathlens.corpus.shard import read_rows
from tests.support.models import WORDS, classifier, encoder


@cache
def _saved(where: Path, kind: str) -> Path:
    model, tokenizer = classifier("bert") if kind == "classifier" else encoder("bert")
    model.save_pretrained(where / kind)
    tokenizer.save_pretrained(where / kind)
    return where / kind


def saved(tmp_path_factory: Any, kind: str = "classifier") -> Path:
    """A model's folder, written once a session."""
    return _saved(Path(tmp_path_factory.getbasetemp()), kind)


def texts(count: int, seed: int = 0, shortest: int = 2, longest: int = 9) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS[:-4], k=chosen.randint(shortest, longest))) for _ in range(count)]


def table(path: Path, count: int, seed: int = 0) -> Path:
    """A TSV with the columns name, text, label."""
    lines = [f"n{k}\t{text}\t{'xyz'[k % 3]}" for k, text in enumerate(texts(count, seed))]
    path.write_text("\n".join(["name\ttext\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def pathlens(monkeypatch: Any, capfd: Any, *arguments: Any) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command, called in this process."""
    from transformers.utils import logging

    from pathlens.cli import main

    logging.disable_progress_bar()  # the command itself does so before anything is imported
    capfd.readouterr()
    monkeypatch.setattr(sys, "argv", ["pathlens", *map(str, arguments)])
    try:
        main()
        code: Any = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    output = capfd.readouterr()
    return int(code), output.out, output.err


def refused(done: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one clear line."""
    code, _, message = done
    lines = message.strip().splitlines()
    assert code == 2 and len(lines) == 1 and lines[0].startswith("pathlens: "), done
    for word in words:
        assert word in lines[0], message


def same_rows(one: Path, two: Path, tolerance: float = 1e-6) -> int:
    """Two runs have the same rows, each once, with scores alike; gives their number."""
    first, second = (sorted(read_rows(folder), key=lambda row: row["row"]) for folder in (one, two))
    assert [row["row"] for row in first] == [row["row"] for row in second]
    assert len({row["row"] for row in first}) == len(first)
    for a, b in zip(first, second, strict=True):
        for name in ("id", "text", "error", "target", "tokens", "offsets", "label", "kind"):
            assert a.get(name) == b.get(name), (name, a["row"])
        for name in ("scores", "matrix", "f_input", "f_baseline", "total", "gap"):
            assert (a[name] is None) == (b[name] is None)
            if a[name] is not None:
                np.testing.assert_allclose(a[name], b[name], rtol=0, atol=tolerance)
    return len(first)
