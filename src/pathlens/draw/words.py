"""Text as it is drawn: safe labels, running text cut into pieces, the certificate in plain words."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size

from pathlens.draw import palette
from pathlens.draw.palette import short
from pathlens.explanation.base import Result
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.check import Belief
from pathlens.explanation.record import PhraseTree
from pathlens.types import Span


@dataclass(frozen=True)
class Stretch:
    """A stretch of running text: `units` that sit on it (none: text between units), their summed value, a tip.

    Several units share a stretch when their characters overlap (the byte pieces of one emoji).
    """

    text: str
    units: tuple[int, ...] = ()
    value: float = 0.0
    tip: str = ""


def visible(text: str) -> str:
    """A label on one line: control characters as pictures, so none can act on a terminal or a page."""
    if not text:
        return "∅"
    shown = "".join(map(_safe, text.replace("\n", "↵").replace("\t", "⇥")))
    return shown if shown.strip() else shown.replace(" ", "␣")


def printable(text: str) -> str:
    """Running text: line breaks and tabs stay, other control characters become pictures."""
    return "".join(c if c in "\n\t" else _safe(c) for c in text.replace("\r\n", "\n"))


def _safe(char: str) -> str:
    kind = unicodedata.category(char)
    if kind == "Cc":
        return chr(0x2400 + ord(char)) if ord(char) < 32 else "␡" if ord(char) == 127 else "�"
    # half a surrogate pair cannot be written; an override of direction would reorder what stands beside it
    return "�" if kind == "Cs" or "\u202a" <= char <= "\u202e" or "\u2066" <= char <= "\u2069" else char


def cut(text: str, letters: int) -> str:
    """At most that many characters, ended by … where cut."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def fit(text: str, columns: int) -> str:
    """A label of at most that many columns, ended by … where cut (wide characters take two)."""
    label = visible(text)
    return label if cell_len(label) <= columns else set_cell_size(label, columns - 1).rstrip() + "…"


def texts_of(result: Result) -> list[str | None]:
    """The texts as given, padded with None."""
    return [text if isinstance(text, str) else None for text in result.origin.texts] + [None, None]


def drawn(offsets: Sequence[Span], added: Sequence[bool]) -> list[bool]:
    """Which units stand in the text: not added by the tokenizer, and with characters of their own."""
    return [not flag and end > start for (start, end), flag in zip(offsets, added, strict=True)]


def stretches(
    text: str | None,
    names: Sequence[str],
    offsets: Sequence[Span],
    values: np.ndarray,
    here: Sequence[bool],
    limit: float,
) -> tuple[Stretch, ...]:
    """A text cut into what units stand on and what lies between; rebuilt from the units where it was not kept.

    here: which of the units are drawn.
    """
    order = sorted((i for i, inside in enumerate(here) if inside), key=lambda i: offsets[i])
    if not order:
        return ()
    if text is None or max(offsets[i][1] for i in order) > len(text):
        text, offsets = _rebuilt(names, offsets, order)
    parts: list[Stretch] = []
    at, k, digits = 0, 0, palette.decimals(limit, 4)
    while k < len(order):
        start, end = offsets[order[k]]
        members = [order[k]]
        while k + 1 < len(order) and offsets[order[k + 1]][0] < end:
            k += 1
            members.append(order[k])
            end = max(end, offsets[order[k]][1])
        # a decoder's token often owns the blank before it: colour the word, not the blank
        covered = text[start:end]
        start += (len(covered) - len(covered.lstrip())) if covered.strip() else 0
        parts += [Stretch(text[at:start])] if start > at else []
        value = float(sum(values[i] for i in members))
        tip = " ".join(f"{visible(names[i])} {palette.number(float(values[i]), digits)}" for i in members)
        tip = tip if len(members) == 1 else f"{palette.number(value, digits)} = {tip}"  # their sum first
        parts.append(Stretch(text[start:end], tuple(members), value, tip))
        at, k = end, k + 1
    return (*parts, *([Stretch(text[at:])] if at < len(text) else []))


def _rebuilt(tokens: Sequence[str], offsets: Sequence[Span], units: Sequence[int]) -> tuple[str, list[Span]]:
    """A text from tokens alone: a blank wherever the offsets leave room for one."""
    text, spans, end = "", list(offsets), None
    for i in units:
        word = tokens[i].removeprefix("##") or tokens[i]
        text += " " if end is not None and offsets[i][0] > end else ""
        spans[i] = (len(text), len(text) + len(word))
        text, end = text + word, offsets[i][1]
    return text, spans


def proof_line(result: Result) -> str:
    """Whether a result adds up, in plain words: of one that is not as it was made, that."""
    altered = result.altered
    under = f"{beneath(result)} under it " if isinstance(result, PhraseTree) else ""
    return f"altered: {altered}" if altered else f"{under}{certificate_line(result.certificate)}"


def beneath(tree: PhraseTree) -> str:
    """What a tree's phrases were summed from."""
    return "the integral" if tree.certificate.nodes else "the sum of the secants"  # they take no nodes


def check_line(check: Belief, result: Result) -> str:
    """The check of belief in plain words: what was asked, and no more; of several units together nothing is said of each.

    The scores of a tree are not in view, its phrases are: which they are, and their values, is in the line.
    """
    if not check.applies:
        return f"not checked against the model: {check.reason}"
    named = ", ".join(f"“{visible(unit)}”" for unit in check.units)
    verdict = "agrees" if check.agrees else "does not agree"
    several = len(check.units) > 1
    if check.vector:
        off = f"a change of length {check.predicted:.3g}, the model makes one of {check.actual:.3g}, {check.difference:.2g} apart"
    else:
        off = f"a change of {check.predicted:+.3g}, the model makes it {check.actual:+.3g}"
    where = "are at the baseline together" if several else "is at the baseline"
    scores = f"the scores {_under(result, check.units)}" if isinstance(result, PhraseTree) else "the scores"
    return f"{verdict} when {named} {where}: {scores} predict {off}" + ("; none was tried alone" if several else "")


def _under(tree: PhraseTree, units: Sequence[str]) -> str:
    """The scores that a tree was made of; of units of one name the strongest, for these are the ones that were tried."""
    order, values = [int(i) for i in np.argsort(-np.abs(tree.scores), kind="stable")], []
    for unit in units:
        place = next((i for i in order if tree.tokens[i] == unit), None)
        if place is not None:
            order.remove(place)
            values.append(f"{tree.scores[place]:+.3g}")
    by = "integral" if tree.certificate.nodes else "secants"
    return f"of the {by} under the tree" + (f" ({', '.join(values)})" if values else "")


def in_short(result: Result) -> str:
    """Of a result that has not settled, what keeps it in a few words: its sum, or single numbers. Nothing of one that has."""
    proof = result.certificate
    if result.altered:
        return "✗ altered"
    if proof.converged:
        return ""
    if proof.gap > proof.bound:
        return f"not settled: the sum is off by {proof.gap:.0e}, {proof.bound:.0e} allowed"
    off = f" by {max(proof.error_estimate):.0e}" if proof.error_estimate else ""
    return f"the sum is within {proof.gap:.0e}, but single numbers may be off{off}, {proof.bound:.0e} allowed"


def certificate_line(certificate: Certificate) -> str:
    """The certificate in plain words: what adds up to what, how closely, and at what cost."""
    c = certificate
    change, relative = c.f_input - c.f_baseline, abs(c.relative_gap)
    # where the change itself is next to nothing, a percentage of it says nothing
    gap = f"gap {abs(c.gap):.1g}" + (f", {_percent(relative)}" if relative < 10 else "")
    both = " of ".join(_near(value, c.gap) for value in (c.total, c.f_input if c.kind == "matrix" else change))
    rows = f", rows within {max(map(abs, c.rows)):.1g}" if c.rows else ""
    sums = {
        "per token": f"every token by itself (worst gap {abs(c.gap):.1g}), no common sum: the total {short(c.total)} is not "
        f"meant to equal the change {short(change)}",
        "matrix": f"all cells with the reference, {both} ({gap})",
        "vector": f"the vectors sum to the output's change, length {short(abs(c.total))} ({gap})",
    }.get(c.kind, f"{both} ({gap}{rows})")
    nodes = f"{c.nodes} node{'' if c.nodes == 1 else 's'}, " if c.nodes else ""
    cost = f"{nodes}{c.passes} pass{'' if c.passes == 1 else 'es'}"
    if c.converged:
        return f"{'exact' if c.kind == 'per token' and c.gap == 0 else 'adds up'}: {sums}, settled, {cost}"
    worst = max(map(abs, c.error_estimate), default=0.0)
    single = f"; a single number may be off by {worst:.1g}" if worst > 0 else ""
    return f"NOT settled: adds up only roughly: {sums}, {cost}; asked for {_percent(c.tolerance)}{single}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.1 else f"{100 * share:.1g}%"


def _near(value: float, gap: float) -> str:
    """Enough decimals to see a gap, between 4 and 7."""
    places = 4 if gap == 0 or not math.isfinite(gap) else min(max(-math.floor(math.log10(abs(gap))), 4), 7)
    text = f"{value:.{places}f}"
    return text.lstrip("-") if float(text) == 0 else text
