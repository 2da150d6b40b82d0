"""Any sentence encoder made exact: tuned for a while with e(x) = e'(x) − e'(r) in place (Moeller, Nikolaev, Padó, EMNLP 2023
and EACL 2024).

e(r) is zero, so the token × token matrix of a pair alone adds up to the similarity: no reference row, column or cell. r is
the text with one token (`[PAD]`) in place of every word, so e'(r) depends on the number of tokens alone and is kept as a
table. The loss is the squared difference of the cosine and the score of a pair.

`linear=True` leaves the encoder as it is and learns one matrix after the shift: every text is encoded once, so it takes as long
as that, and e(r) is zero all the same.

A training that was killed goes on from its last checkpoint and ends in the same weights: the order of the pairs and every
draw of a step follow from the seed and the step's number.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pathlens.checks import check_options, option
from pathlens.engine.progress import Progress
from pathlens.errors import InputError, StoreError
from pathlens.files import make_folder, read_text, write_json, write_whole
from pathlens.studies.tuner import Pair, Tuner, attach, detach
from pathlens.text.builtin import merge
from pathlens.text.sentence import shifted
from pathlens.text.shift import CODE, Shift

RATE_LORA, RATE_FULL, RATE_LINEAR = 5e-4, 2e-5, 2e-3  # of Adam, at the end of the warm-up
LINEAR_BATCH, LINEAR_EPOCHS = 128, 3  # of a matrix: more fits the pairs and not the language
WARMUP = 10  # one step in so many
CHECKPOINTS = 20  # in one training
TOGETHER = 20  # batches sorted by length among each other: little padding, and still an order of chance
HELD_OUT = 0.1  # of the pairs, when no test is given


@dataclass(frozen=True)
class Exact:
    """What was made, and Spearman's ρ with the scores of pairs that were not trained on."""

    folder: str
    reference: str
    pairs: int
    steps: int
    measured_on: str
    before: float  # the encoder as it came
    shifted: float  # the shift alone
    after: float

    def __str__(self) -> str:
        return (
            f"Spearman on {self.measured_on}: {self.before:.4f} before, {self.shifted:.4f} with the shift alone, "
            f"{self.after:.4f} after {self.steps} steps on {self.pairs} pairs: {self.folder}"
        )


@dataclass(frozen=True, kw_only=True)
class ExactOptions:
    """How an encoder is tuned; names as in `pl.exact`."""

    epochs: int = option(1, "Times through the pairs.", bounds=(1, None))
    steps: int | None = option(None, "In place of epochs: so many steps; 0: the shift alone.", bounds=(0, None))
    rank: int = option(16, "Of the LoRA on every linear layer; 0 tunes all weights.", bounds=(0, None))
    linear: bool = option(False, "One matrix after the shift, the encoder as it is.")
    rate: float | None = option(None, f"Of AdamW (default: {RATE_LORA:g}, for all weights {RATE_FULL:g}).")
    batch_size: int = option(16, "Pairs in a step.", bounds=(1, None))
    reference: str = option("pad", "The token that says nothing: pad, mask, unk, or one as written.")
    seed: int = option(0, "Of the order of pairs and every draw.")

    def __post_init__(self) -> None:
        check_options(self)
        if self.rate is not None and self.rate <= 0:
            raise InputError(f"rate must be a positive number, got {self.rate!r}")


def exact(
    model: Any,
    pairs: Iterable[Sequence[Any]],
    out: str | Path,
    *,
    test: Iterable[Sequence[Any]] | None = None,
    epochs: int = ExactOptions.epochs,
    steps: int | None = ExactOptions.steps,
    rank: int = ExactOptions.rank,
    linear: bool = ExactOptions.linear,
    rate: float | None = ExactOptions.rate,
    batch_size: int = ExactOptions.batch_size,
    reference: str = ExactOptions.reference,
    seed: int = ExactOptions.seed,
    show_progress: bool = False,
) -> Exact:
    """Tune a sentence encoder with the shift in place and write it as a sentence-transformers folder.

    pairs: (text, text, score); scores from 0 up are divided by the largest, those within −1 … 1 stay.
    test: pairs to measure on; without them a tenth of `pairs`, drawn by the seed, is held out.
    epochs, steps: how often it goes through the pairs; a number of steps stands in place of it.
    rank: of the LoRA on every linear layer; 0 tunes all weights.
    linear: learn one matrix after the shift instead, the encoder as it is (rank, epochs, steps and batch_size are not asked).
    rate: of AdamW (5e-4 for a LoRA, 2e-5 for all weights).
    reference: the token that says nothing: "pad", "mask", "unk", or one as it is written.

    Calling it again after a kill goes on where it stopped. `pl.explain(out, a, b)` takes the folder; elsewhere it is
    `SentenceTransformer(out, trust_remote_code=True)`, because the folder brings the few lines that subtract the shift.
    """
    ExactOptions(  # each is one of its choices
        epochs=epochs, steps=steps, rank=rank, linear=linear, rate=rate,
        batch_size=batch_size, reference=reference, seed=seed,
    )  # fmt: skip
    rows, scale = checked(pairs)
    draw = random.Random(seed)
    if test is None:
        draw.shuffle(rows)
        cut = max(2, round(HELD_OUT * len(rows)))
        rows, held, measured_on = rows[cut:], rows[:cut], f"{cut} pairs held out"
    else:
        held = checked(test, scale)[0]
        measured_on = f"{len(held)} test pairs"
    if linear:
        epochs, steps, rank, batch_size = LINEAR_EPOCHS, None, 0, LINEAR_BATCH
    settings = {"epochs": epochs, "steps": steps, "rank": rank, "rate": rate, "batch_size": batch_size, "seed": seed}
    settings |= {"linear": linear}
    tuner = Tuner.of(model, reference)
    run = Training(Path(out), tuner, rows, held, {**settings, "reference": tuner.reference})
    return run.complete(measured_on, show_progress)


def checked(pairs: Iterable[Sequence[Any]], scale: float | None = None) -> tuple[list[Pair], float]:
    """Two texts and a number each, the numbers divided by what makes the largest 1 (or by what was said)."""
    rows: list[Pair] = []
    for number, row in enumerate(pairs):
        try:
            a, b, score = row
            rows.append((a, b, float(score)))
        except (TypeError, ValueError) as error:
            raise InputError(f"pair {number} must be (text, text, score), got {row!r}") from error
        if not all(isinstance(text, str) and text.strip() for text in (a, b)) or not np.isfinite(rows[-1][2]):
            raise InputError(f"pair {number} needs two texts and a finite score, got {row!r}")
    if len(rows) < 2:
        raise InputError(f"there must be at least two pairs, got {len(rows)}")
    scores = [score for *_, score in rows]
    if scale is None:
        scale = max(1.0, *scores)
    if min(scores) < (0.0 if scale > 1 else -1.0) or max(scores) > scale:
        raise InputError(
            f"scores must lie between 0 and the largest of the training pairs ({scale:g}), or between −1 and 1; here they go "
            f"from {min(scores):g} to {max(scores):g}"
        )
    return [(a, b, score / scale) for a, b, score in rows], scale


def read_pairs(file: str | Path, columns: Sequence[str] = ("0", "1", "2")) -> list[Pair]:
    """Rows of a table (tab- or comma-separated): two texts and a score, by number from 0 or by name in the first line."""
    lines = read_text(file).split("\n")
    tabs = "\t" in lines[0]
    table = csv.reader(lines, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    cells = [row for row in table if any(cell.strip() for cell in row)]
    if not cells:
        raise InputError(f"{str(file)!r} holds no pairs")
    if len(columns) != 3:
        raise InputError(f"--columns names two texts and a score, as in 0,1,2; got {','.join(columns)}")
    first = [cell.strip() for cell in cells[0]]
    unknown = [name for name in columns if not (int(name) < len(first) if name.isdigit() else name in first)]
    if unknown:
        raise InputError(f"{str(file)!r} has no column {unknown[0]!r}; its first line is {first}")
    places = [int(name) if name.isdigit() else first.index(name) for name in columns]
    if not _is_number(first[places[2]]):
        cells = cells[1:]  # a line of names
    rows = []
    for number, row in enumerate(cells):
        if max(places) >= len(row) or not _is_number(row[places[2]]):
            raise InputError(f"row {number} of {str(file)!r} has no number in column {columns[2]}: {row}")
        rows.append((row[places[0]].strip(), row[places[1]].strip(), float(row[places[2]])))
    return rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(eq=False)
class Training:
    """One training: its checkpoints stand beside the folder it will be."""

    out: Path
    tuner: Tuner
    pairs: list[Pair]
    held: list[Pair]
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise StoreError(f"{str(self.out)!r} is there already; give a folder that is not")
        self.work = self.out.with_name(f"{self.out.name}.training")
        description = json.dumps([self.tuner.mark, self.settings, self.pairs, self.held])
        self.mark = hashlib.sha256(description.encode()).hexdigest()
        per_epoch = -(-len(self.pairs) // self.settings["batch_size"])
        asked = self.settings["steps"]
        self.steps: int = self.settings["epochs"] * per_epoch if asked is None else asked

    def complete(self, measured_on: str, show_progress: bool) -> Exact:
        tuner, rank = self.tuner, self.settings["rank"]
        kept = self._read()
        correlations = kept["told"] if kept else [tuner.spearman(self.held, moved) for moved in (False, True)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings["seed"])
            if self.settings["linear"]:
                self._solve(show_progress)
                return self._finished(measured_on, correlations, {})
            trained = attach(tuner.body, rank) if rank else [p for p in tuner.body.parameters() if p.requires_grad]
            self._train(trained, kept, correlations, show_progress)
        factors = detach(tuner.body) if rank else {}
        if rank:
            merge(tuner.body, {name: tensor.float() for name, tensor in factors.items()})
        return self._finished(measured_on, correlations, factors)

    def _finished(self, measured_on: str, correlations: list[float], factors: dict[str, Tensor]) -> Exact:
        tuner = self.tuner
        after = tuner.spearman(self.held, True)
        before, untuned = correlations
        about = Exact(str(self.out), tuner.reference, len(self.pairs), self.steps, measured_on, before, untuned, after)
        self._save(factors, about)
        return about

    def _solve(self, show_progress: bool) -> None:
        """One matrix W: Adam on the loss + ‖W − 1‖² / k over vectors that are made once, a batch's pairs drawn by the seed."""
        with Progress(2 * len(self.pairs), show_progress) as bar:
            a, b = self.tuner.sides(self.pairs, True, bar=bar).chunk(2)
        wanted = torch.tensor([score for *_, score in self.pairs])
        one = torch.eye(a.shape[1])
        matrix = one.clone().requires_grad_()
        adam, size = torch.optim.Adam([matrix], lr=self.settings["rate"] or RATE_LINEAR), self.settings["batch_size"]
        for _ in range(self.settings["epochs"]):
            for some in torch.randperm(len(wanted)).split(size):
                cosines = self.tuner.cosines(torch.cat([a[some], b[some]]) @ matrix.T)
                away = (matrix - one).square().sum() / len(one)
                adam.zero_grad()
                (nn.functional.mse_loss(cosines, wanted[some]) + away).backward()
                adam.step()
        self.tuner.matrix = matrix.detach().half().float()  # as it is kept

    def _train(
        self, trained: list[nn.Parameter], kept: dict[str, Any] | None, correlations: list[float], show_progress: bool
    ) -> None:
        rate = self.settings["rate"] or (RATE_LORA if self.settings["rank"] else RATE_FULL)
        adam = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01)
        warm, first = max(1, self.steps // WARMUP), 0
        if kept:
            first = kept["step"]
            adam.load_state_dict(kept["adam"])
            with torch.no_grad():
                for parameter, value in zip(trained, kept["trained"], strict=True):
                    parameter.copy_(value)
        every, losses = max(1, self.steps // CHECKPOINTS), []
        with Progress(self.steps * self.settings["batch_size"], show_progress) as bar:
            bar.advance(first * self.settings["batch_size"], skipped=True)
            for step, batch in enumerate(islice(self._batches(), self.steps)):
                if step < first:
                    continue
                torch.manual_seed(self.settings["seed"] * 1_000_003 + step)
                factor = min((step + 1) / warm, (self.steps - step) / max(1, self.steps - warm))
                adam.param_groups[0]["lr"] = rate * factor
                losses.append(self.take_step(batch, trained, adam))
                bar.advance(len(batch), f"loss {np.mean(losses[-50:]):.4f}")
                if (step + 1) % every == 0 and step + 1 < self.steps:
                    self._write({"step": step + 1, "trained": trained, "adam": adam.state_dict(), "told": correlations})

    def take_step(self, batch: Sequence[tuple[list[int], list[int], float]], trained: Any, adam: Any) -> float:
        self.tuner.encoder.train()
        cosines = self.tuner.cosines(self.tuner.shifted([row[0] for row in batch] + [row[1] for row in batch]))
        loss = nn.functional.mse_loss(cosines, torch.tensor([row[2] for row in batch], device=cosines.device))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        adam.step()
        return float(loss.detach())

    def _batches(self) -> Iterator[list[tuple[list[int], list[int], float]]]:
        """Epoch after epoch; pairs of like length together, so that little is padding."""
        left, right = self.tuner.ids([a for a, *_ in self.pairs]), self.tuner.ids([b for _, b, _ in self.pairs])
        rows = list(zip(left, right, (score for *_, score in self.pairs), strict=True))
        size = self.settings["batch_size"]
        for epoch in count():
            draw, batches = random.Random(f"{self.settings['seed']} {epoch}"), []
            draw.shuffle(rows)
            for start in range(0, len(rows), TOGETHER * size):
                alike = sorted(rows[start : start + TOGETHER * size], key=lambda row: len(row[0]) + len(row[1]))
                batches += [alike[i : i + size] for i in range(0, len(alike), size)]
            draw.shuffle(batches)
            yield from batches

    def _read(self) -> dict[str, Any] | None:
        """The last checkpoint of this very training."""
        file = self.work / "checkpoint.pt"
        if not file.exists():
            return None
        kept: dict[str, Any] = torch.load(file, weights_only=True)
        if kept["mark"] != self.mark:
            raise StoreError(
                f"{str(self.work)!r} holds an unfinished training of other pairs, settings or weights; remove it, or give "
                "another folder"
            )
        return kept

    def _write(self, state: dict[str, Any]) -> None:
        make_folder(self.work)
        stream = io.BytesIO()
        torch.save({**state, "trained": [value.detach() for value in state["trained"]], "mark": self.mark}, stream)
        write_whole(self.work / "checkpoint.pt", stream.getvalue())

    def _save(self, factors: dict[str, Tensor], about: Exact) -> None:
        """The folder in one step, then the checkpoints go."""
        encoder, fresh = self.tuner.encoder, self.work / "model"
        whole = shifted(encoder, Shift(self.tuner.table(), self.tuner.reference), self.tuner.matrix)
        shutil.rmtree(fresh, ignore_errors=True)
        make_folder(self.work)
        whole.save(str(fresh), create_model_card=False)
        listed = json.loads((fresh / "modules.json").read_text("utf-8"))
        for part in listed:  # the code beside the model, not the one of an installed pathlens
            part["type"] = part["type"].replace(Shift.__module__, CODE.removesuffix(".py"))
        write_json(fresh / "modules.json", listed)
        write_json(fresh / "exact.json", {**self.settings, **asdict(about), "made_of": self.tuner.name})
        (fresh / "README.md").write_text(_card(about, self.tuner.name), encoding="utf-8")
        if factors:
            save_file(factors, str(fresh / "adapter.safetensors"))
        if self.out.exists():
            self.out.rmdir()
        fresh.replace(self.out)
        shutil.rmtree(self.work)


def _card(about: Exact, name: str) -> str:
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
---
An exact sentence encoder, made of {name} by `pathlens exact`: e(x) = e'(x) − e'(r), r = the text with {about.reference} in place
of every word. {str(about).rpartition(":")[0]}.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("this folder", trust_remote_code=True)  # {CODE} beside it: the subtraction; nothing else is needed
```
`pl.explain("this folder", a, b)` explains a pair of texts: the matrix alone adds up to their similarity.
"""
