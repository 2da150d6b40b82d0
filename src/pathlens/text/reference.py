"""The quiet reference of a sentence encoder: rows at which the model says nearly nothing, at any length.

    e(a)·e(b) = Σ_ij V_a,i · V_b,j + (what e(r_a) and e(r_b) add)

so the shorter e(r) is, the more of the similarity the pairs of words carry. A reference is a property of the model: the
quietest tokens of a search through its vocabulary, and from there rows learned by a few steps of Adam on ‖e(r)‖² over
several lengths, held near the tokens they came from. Found once, and kept in the user's cache by the model's fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.errors import StoreError
from pathlens.files import make_folder, user_cache, write_whole
from pathlens.text.adapter import Case, Request
from pathlens.text.fingerprint import fingerprint

if TYPE_CHECKING:
    from pathlens.text.sentence import SentenceEncoder

FORMAT = 1  # of a kept reference; it changes with what is searched for
LENGTHS = ((2, 4, 8), (16, 32))  # tokens of a text, run together by size; e(r) changes slowly between them
FIRST, THEN = (4,), (2, 8, 24)  # lengths of the search's first look, and of the second at the best of it
LOOKS, BEST = 512, 24  # tokens looked at first, evenly over the vocabulary, and those looked at again
WIDE = 1.5  # of the vocabulary's median length: longer rows are not looked at
STEPS, RATE = 80, 0.1  # of Adam; the length of its first step, relative to the tokens'
# (rows, tie) to try, from the most faithful to the quietest: places that differ can cancel each other, equal ones cannot; the
# tie holds the rows near their tokens (nearer is more faithful, further away quieter: docs/siamese.md)
TRIES = ((1, 0.3), (8, 0.03))
ASSORTED, STRIDE = 64, 7919  # tokens far from each other in the vocabulary, as a text of no meaning
HALF = 0.5  # of the quietest token's: what learning must reach to be worth leaving the vocabulary for
SMALL = 0.1  # ‖e(r)‖² of a quiet reference, relative to that of a text
TOGETHER = 4096  # tokens in one pass of the search
KEPT = "references"  # folder of the built-in ones, and of the user's


@dataclass(frozen=True, eq=False)
class Reference:
    """Rows that stand, one after the other and again from the first, where nothing is said."""

    rows: Float[Tensor, "K d"]
    tokens: tuple[str, ...]  # the quietest of the vocabulary, where learning began
    loudness: float  # mean ‖e(r)‖² over lengths, relative to a text's
    learned: bool

    @property
    def name(self) -> str:
        return f"quiet, {'learned from' if self.learned else 'the tokens'} “{' '.join(self.tokens)}”"

    def over(self, length: int) -> Float[Tensor, "S d"]:
        """The rows of so many places."""
        return cycled(self.rows, length)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know where it is not quiet."""
        if self.loudness <= SMALL:
            return ()
        share = f"{self.loudness:.2g} of a text's"
        return (f"no quiet reference was found for this model (its squared length is {share}): the rest is not small",)


def reference_of(model: SentenceEncoder) -> Reference:
    """The model's own: built in, kept from before, or found now and kept."""
    mark = fingerprint(model)
    name = f"{mark}-{FORMAT}.json"
    built_in, cache = resources.files("pathlens") / "assets" / KEPT / name, user_cache()
    for file in (built_in, *(() if cache is None else (cache / KEPT / name,))):
        if (kept := _read(file, model)) is not None:
            return kept
    reference = find(model)
    if cache is not None:
        with suppress(StoreError):  # a cache that cannot be written is done without
            write(reference, cache / KEPT / name)
    return reference


def write(reference: Reference, path: Path) -> None:
    """As JSON: the row in as many digits as float32 has."""
    rows = [[float(f"{value:.9g}") for value in row] for row in reference.rows.float().tolist()]
    facts = {"tokens": reference.tokens, "loudness": reference.loudness, "learned": reference.learned, "rows": rows}
    make_folder(path.parent)
    write_whole(path, json.dumps(facts, ensure_ascii=False).encode())


def _read(file: Any, model: SentenceEncoder) -> Reference | None:
    """What `write` wrote; a damaged file counts as absent."""
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        rows = torch.tensor(facts["rows"], dtype=torch.float32)
        kept = Reference(rows, tuple(map(str, facts["tokens"])), float(facts["loudness"]), bool(facts["learned"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    fits = rows.ndim == 2 and rows.shape[1:] == model.network.embedding.weight.shape[1:] and torch.isfinite(rows).all()
    return kept if fits else None


def find(model: SentenceEncoder) -> Reference:
    """Search, then learn: seconds, and the same on every run."""
    with model.quiet(), torch.inference_mode(False):
        blanks = BlankTexts.of(model)
        ids = quietest_tokens(blanks)
        names, tokens = tuple(map(str, model.tokenizer.convert_ids_to_tokens(ids))), blanks.table[ids]
        assorted = blanks.table[torch.arange(ASSORTED) * STRIDE % len(blanks.table)]
        size = blanks.loudness(assorted) or 1.0  # of a text
        for count, tie in TRIES:
            rows = learn(blanks, tokens[:count], size, tie)
            if (loudness := blanks.loudness(rows) / size) <= SMALL:
                return Reference(rows, names[:count], loudness, learned=True)
        alone = blanks.loudness(tokens[:1]) / size
        if loudness <= HALF * alone:  # not quiet, and still far quieter than any token: the note says so
            return Reference(rows, names[:count], loudness, learned=True)
        return Reference(tokens[:1], names[:1], alone, learned=False)


def cycled(rows: Float[Tensor, "K d"], length: int) -> Float[Tensor, "S d"]:
    """One after the other, and again from the first."""
    return rows[torch.arange(length, device=rows.device) % len(rows)]


@dataclass(frozen=True, eq=False)
class BlankTexts:
    """The encoder with given rows at the free places of texts of several lengths."""

    model: SentenceEncoder
    cases: dict[int, Case]  # by length
    table: Float[Tensor, "V d"]

    @staticmethod
    def of(model: SentenceEncoder) -> BlankTexts:
        request = Request(vector=True, baseline="zero", truncation=True)
        lengths = sorted({*chain(*LENGTHS), *FIRST, *THEN})
        cases = {length: model.case(" ".join(["a"] * length), request=request) for length in lengths}
        return BlankTexts(model, cases, model.network.embed(torch.arange(len(model.network.embedding.weight))))

    def square(self, rows: Float[Tensor, "*B d"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        """‖e‖² of every case with `rows` (broadcast to cases × places) where nothing is held."""
        like, longest = cases[0].ends.end, max(map(len, cases))
        kept = like.new_zeros((len(cases), longest, like.shape[-1]))
        free = torch.zeros((len(cases), longest, 1), dtype=torch.bool, device=like.device)
        for number, case in enumerate(cases):
            kept[number, : len(case)] = case.ends.end
            free[number, : len(case), 0] = ~case.ends.held
        output: Tensor = self.model.forward(torch.where(free, rows.to(kept), kept), cases, 0)
        return output.float().square().sum(-1)

    def mean_square(self, rows: Float[Tensor, "K d"]) -> Float[Tensor, ""]:
        """‖e‖² of these rows, again and again, over all lengths."""
        groups = [[self.cases[length] for length in group] for group in LENGTHS]
        return torch.cat([self.square(cycled(rows, max(map(len, some))), some) for some in groups]).mean()

    def loudness(self, rows: Float[Tensor, "K d"]) -> float:
        with torch.no_grad():
            return float(self.mean_square(rows))

    def of_tokens(self, ids: Int[Tensor, " n"], lengths: Sequence[int]) -> Float[Tensor, " n"]:
        """Σ ‖e‖² over lengths of texts that are one token alone, each of these."""
        total = torch.zeros(len(ids))
        for case in (self.cases[length] for length in lengths):
            some = ids.split(max(1, TOGETHER // len(case)))
            total += torch.cat([self.square(self.table[part][:, None], [case] * len(part)).cpu() for part in some])
        return total


def quietest_tokens(blanks: BlankTexts) -> list[int]:
    """The quietest tokens: marks (they mean little) and an even sample of the rest at one length, the best at several.

    Tokens of ordinary length only: those the tokenizer adds by itself are often twice as long as a word.
    """
    model, count = blanks.model, len(blanks.table)
    names = model.tokenizer.convert_ids_to_tokens(list(range(count)))
    marks = [i for i, name in enumerate(names) if name and len(name) <= 2 and not any(map(str.isalnum, name))]
    even = [int(k * count / LOOKS) for k in range(LOOKS)]
    lengths = blanks.table.float().norm(dim=1)
    usual = lengths <= WIDE * lengths.median()
    usual[[i for i in model.tokenizer.all_special_ids if i is not None and i < count]] = False
    ids = torch.tensor([i for i in sorted({*marks[:LOOKS], *even}) if usual[i]] or [int(lengths.argmin())])
    with torch.no_grad():
        best = ids[blanks.of_tokens(ids, FIRST).argsort(stable=True)[:BEST]]
        return [int(i) for i in best[blanks.of_tokens(best, THEN).argsort(stable=True)[: TRIES[-1][0]]]]


def learn(blanks: BlankTexts, tokens: Float[Tensor, "K d"], size: float, tie: float) -> Float[Tensor, "K d"]:
    """Adam on mean ‖e(r)‖² / ‖e(text)‖² + tie · ‖r − tokens‖² / ‖tokens‖²; the best of its steps counts."""
    energy = float(tokens.float().square().sum()) or 1.0
    rows = tokens.float().clone().requires_grad_()
    adam = torch.optim.Adam([rows])
    best, least = tokens, float("inf")
    for step in range(STEPS):
        adam.param_groups[0]["lr"] = RATE * (energy / rows.numel()) ** 0.5 * (1 - step / STEPS)
        with torch.enable_grad():
            loss = blanks.mean_square(rows) / size + tie * (rows - tokens).square().sum() / energy
            (rows.grad,) = torch.autograd.grad(loss, rows)
        if (value := loss.item()) < least:
            best, least = rows.detach().clone(), value
        adam.step()
    return best
