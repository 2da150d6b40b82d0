"""One page per kind of result: its blocks, what the colours mean, and whether it adds up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pathlens.draw import palette, words
from pathlens.draw.blocks import (
    ADDS_UP,
    ROUGH,
    UNIT_BY_UNIT,
    Bar,
    Bars,
    Block,
    Cell,
    Chart,
    Charts,
    Links,
    Listing,
    Page,
    Phrases,
    Proof,
    Running,
    Sum,
    Texts,
)
from pathlens.draw.grid import REFERENCE, Continued, Grid, links_between, links_inside
from pathlens.draw.palette import LENGTH_WORD, LOWERS_WORD, RAISES_WORD
from pathlens.draw.words import Stretch, visible
from pathlens.explanation import base, record
from pathlens.explanation.certificate import Certificate

TITLE = 160  # letters of a target in a heading; a continuation's may be a page long
LINKS = 300  # pairs kept for arcs, strongest first, so that 500 tokens stay light
MOST = 4_000_000  # bytes of arrays inside a page; larger results are saved as files, not mailed as pages
WHOLE = "the whole continuation"
COLORS = f"{RAISES_WORD} raises what is explained, {LOWERS_WORD} lowers it"
QUIET = 0.1  # a reference that adds at most this to a cosine is one number beside the pairs of tokens
FOLDED = 64  # rows or columns of a table that is there twice; the data in a page has all of it
CHOICES = 15  # bars of a chosen output token
WORD_PATHS, STEPS = 30, 4  # of paths through words: tokens listed, and words of each on its way


def explanation(result: record.Explanation) -> Page:
    """Running text, and a bar for each unit."""
    bars = Bars(_scored(result), additive=adds_up(result), title="unit by unit")
    what = "contributions to the change from the baseline"
    if result.difference:
        what = "those of {} less those of {}".format(*(visible(name) for name, _ in result.difference))
    numbers = f"numbers are {what}, they {_verb(result)} {_change(result)}"
    if not adds_up(result) and not result.difference:
        numbers = "a number is the change when that token alone is put back; the numbers have no common sum"
    legend = f"{_colors(result)}; {numbers}; full colour is {full_color(bars.limit)}, the largest |value|."
    return page_of_result(result, (*texts(result), bars, *_word_path(result)), legend, bars.limit)


def _word_path(result: record.Explanation) -> tuple[Listing, ...]:
    """The words that each token's path goes through, where it goes through words."""
    moving = [token for token in getattr(result.path, "tokens", ()) if token.words]
    if not moving:
        return ()
    rows: list[tuple[Cell, ...]] = []
    for token in moving[:WORD_PATHS]:
        steps = np.linspace(0, len(token.words) - 1, STEPS).round().astype(int)
        rows.append((token.baseline, *(token.words[k] for k in steps), token.word))
    left = f", the first {WORD_PATHS} of {len(moving)} tokens" if len(moving) > WORD_PATHS else ""
    columns = ("from the baseline", "→", "", "", "", "to the text")[: STEPS + 2]
    return (Listing(columns, tuple(rows), title=f"the words on the way{left}", where=("page", "figure")),)


def pair(result: record.PairExplanation) -> Page:
    """Both texts, the table with its reference, the strongest pairs."""
    sides = zip((result.tokens_a, result.tokens_b), (result.offsets_a, result.offsets_b), result.added, strict=True)
    named = []
    for name, text, (tokens, offsets, special) in zip("AB", words.texts_of(result), sides, strict=False):
        here = words.drawn(offsets, special)
        parts = words.stretches(text, tokens, offsets, np.zeros(len(tokens)), here, 1.0)
        named.append((name, "".join(part.text for part in parts)))
    grid, folded = _pair_grids(result)
    pairs = links_between(result.matrix, LINKS)
    shown = _shown(result.added[0], pairs, 0), _shown(result.added[1], pairs, 1)
    links = Links(result.tokens_a, result.tokens_b, pairs, "×", shown=shown, title="strongest pairs")
    full = palette.limit(result.matrix)
    beyond = not _quiet(result) and palette.limit(result.full_matrix) > full
    legend = (
        f"{_colors(result)}; {_pair_sum(result)}; full colour is {full_color(full)}, the largest |contribution| of two "
        f"{_unit(result)}s{'; larger ones, with the reference, have that colour too' if beyond else ''}."
    )
    both = Texts(tuple(named), title="the two texts, A and B")
    page = page_of_result(result, (both, grid, links), legend, full)
    details = (*folded, *_rounds(result, ", first text"))
    return dataclasses.replace(page, details=details)


def _pair_grids(result: record.PairExplanation) -> tuple[Grid, tuple[Grid, ...]]:
    """The pairs of tokens, and folded away the same with its reference; with it at once where it adds much."""
    special = (result.special_a, result.special_b)
    rows, columns = (REFERENCE, *result.tokens_a), (REFERENCE, *result.tokens_b)
    full = Grid(rows, columns, result.full_matrix, edge=1, corner="A ↓  B →", title=_by(result))
    full = full.without_zeros(*((False, *flags) if flags else () for flags in special))
    if not _quiet(result):
        return full, ()
    pairs = Grid(result.tokens_a, result.tokens_b, result.matrix, corner="A ↓  B →", title=_by(result))
    whole = dataclasses.replace(full, title="with the reference row and column")
    return pairs.without_zeros(*special), (whole,) if max(full.values.shape) <= FOLDED else ()


def _quiet(result: record.PairExplanation) -> bool:
    """Does the reference add so little that one number says it?"""
    scale = 1.0 if result.origin.similarity != "dot" else abs(result.similarity)
    full = result.full_matrix
    parts = (full[0, 0], full[0, 1:].sum(), full[1:, 0].sum())  # large ones may cancel: they are shown, not hidden
    return max(map(abs, parts)) <= QUIET * scale


def _pair_sum(result: record.PairExplanation) -> str:
    """What the numbers add up to: pairs of tokens, and what is left."""
    if _quiet(result):
        rest = palette.short(result.rest)
        return (
            f"numbers are contributions to the similarity: pairs of {_unit(result)}s {palette.short(result.core)}, the rest (pairs "
            f"with the reference) {rest}, and they {_verb(result)} {palette.short(result.similarity)}"
        )
    return f"numbers are contributions to the similarity, with the reference row and column they {_verb(result)} {palette.short(result.similarity)}"


def interactions(result: record.Interactions) -> Page:
    """Running text by score, the table, the strongest pairs with both halves summed."""
    grid = Grid(result.tokens, result.tokens, result.matrix, between="with", title=_by(result))
    grid = grid.without_zeros(result.special, result.special)
    pairs = links_inside(result.matrix, LINKS)
    shown = _shown(result.added, pairs, 0, 1)
    links = Links(result.tokens, (), pairs, "with", shown=(shown, ()), title="strongest pairs, both halves summed")
    full = palette.limit(result.matrix)
    whole = f", everything to {_change(result)}" if adds_up(result) else ""
    legend = (
        f"{_colors(result)}; a cell is how two {_unit(result)}s act together, the diagonal a {_unit(result)} by itself; a row "
        f"sums to the {_unit(result)}'s score{whole}; full colour is {full_color(full)}, the largest |cell|."
    )
    top = palette.short(palette.limit(result.scores))
    note = f"the running text is coloured by score, the sum of a row; full colour there is {top}"
    return page_of_result(result, (*texts(result), grid, links), legend, full, notes=(note,))


def vectors(result: record.VectorExplanation) -> Page:
    """Lengths, output × input; of a single output a bar for each unit."""
    outputs = result.outputs or tuple(map(str, range(len(result.vectors))))
    units = result.tokens
    if len(set(result.sources)) > 1:  # a block with several inputs: which of them each unit belongs to
        units = tuple(f"{token} ({source})" for token, source in zip(units, result.sources, strict=True))
    norms = result.norms
    grid = Grid(outputs, units, norms, signed=False, corner="out ↓  in →", between="←", title="out × in")
    grid = grid.without_zeros((), result.special)
    legend = (
        f"{LENGTH_WORD} is the length of a {_unit(result)}'s contribution to {_target(result)} (no sign); full colour is "
        f"{full_color(palette.limit(norms))}, the longest; the vectors add up, their lengths do not."
    )
    if len(outputs) > 1:
        every = tuple(range(len(outputs))), tuple(range(len(units)))
        links = Links(outputs, units, links_between(norms, LINKS), "←", False, every, title="strongest pairs")
        return page_of_result(result, (grid, links), legend, palette.limit(norms), signed=False)
    bars = Bars(tuple(map(Bar, grid.columns, grid.values[0].tolist())), False, title="length of each contribution")
    return page_of_result(result, (bars,), legend, palette.limit(norms), signed=False, notes=grid.notes)


def phrases(result: record.PhraseTree) -> Page:
    """The tree of phrases."""
    tree = Phrases(result.nodes)
    legend = (
        f"{_colors(result)}; a phrase's number is its value (the whole text has 1), the sum of its own dividend and "
        f"those of the phrases inside it; the sign is that of its own integral; the shade is its own dividend alone, "
        f"full colour {full_color(tree.limit)}, the largest."
    )
    return page_of_result(
        result, (tree,), legend, tree.limit, notes=(f"tree: {visible(result.tree)}",) if result.tree else ()
    )


def continuation(result: record.Continuation) -> Page:
    """What was said, the prompt it was said to, the strongest sources, source × output token."""
    additive, full, limit = adds_up(result), palette.limit(result.matrix), palette.limit(result.scores)
    cells = Grid(result.tokens, result.outputs, result.matrix, additive=additive, corner="from ↓  to →", between="→")
    block = Continued(
        prompt=tuple(part for segment, part in _paragraphs(result, limit).items() if segment != 1),
        spoken=_spoken(result),
        sources=_own_sources(result),
        grid=dataclasses.replace(cells, title="source × output token").without_zeros(result.special, ()),
        cells=cells,
        bars=Bars(_scored(result), additive=additive),
        facts=_facts(result),
    )
    each = (
        f"a cell is what a source adds to an output token; a column sums to that token's change, everything "
        f"{'to' if result.settled else 'should sum to'} {_change(result)}"
        if additive
        else "a cell is the change of an output token when that source alone is put back; columns have no common sum"
    )
    raised = f"{RAISES_WORD} raises an output token's score, {LOWERS_WORD} lowers it"
    legend = (
        f"{_colors(result) if result.difference else raised}; {each}; full colour in the table is "
        f"{full_color(full)}, the largest |cell|."
    )
    return page_of_result(result, (block,), legend, full, notes=_column_notes(result))


# ---------------------------------------------------------------- what pages share


def title_of(result: base.Result) -> str:
    """ "ig · positive": the method, and what is explained; of a difference the names of both."""
    if result.difference:
        return " − ".join(visible(name) for name, _ in result.difference)
    return f"{result.method} · {words.cut(visible(str(result.target)), TITLE)}" if result.target else result.method


def texts(result: record.Explanation | record.Interactions | record.PhraseTree) -> tuple[Running, ...]:
    """The running text of a result; none for results that have no text."""
    here = words.drawn(result.offsets, result.added)
    if not any(here):
        return ()
    scored = zip(result.tokens, map(float, result.scores), here, strict=True)
    outside = tuple((token, score) for token, score, inside in scored if not inside and score != 0)
    limit = palette.limit(result.scores)
    return (Running(tuple(_paragraphs(result, limit).values()), limit, outside),)


def _claim(result: base.Result) -> str:
    """What a tick says of a result, in a word or two."""
    if isinstance(result, record.PhraseTree):
        return f"{words.beneath(result)} under it adds up"
    return ADDS_UP if adds_up(result) else UNIT_BY_UNIT


def sum_of(result: base.Result, name: str = "") -> Sum:
    """The certificate in words, held against the numbers that stand beside it now."""
    gap, claim = result.certificate.gap, _claim(result)
    short = f"within {gap:.0e}" if gap else "exactly" if claim != UNIT_BY_UNIT else ""
    shown, altered = visible(name) if name else "", bool(result.altered)
    return Sum(result.settled, words.proof_line(result), shown, altered, claim=claim, short=short)


def check_of(result: base.Result, name: str = "") -> tuple[Sum, ...]:
    """The check of belief in words, where there was one."""
    check = result.check
    if check is None or result.altered:
        return ()
    return (Sum(check.agrees, words.check_line(check, result), visible(name) if name else "", open=not check.applies),)


def proofs(result: base.Result, certificates: Sequence[Certificate]) -> dict[str, Any]:
    """For a script: every certificate in a word, in words, and whether it holds; none does in a result that was altered."""
    if result.altered:
        count = len(certificates)
        return {"claims": ["altered"] * count, "lines": [words.proof_line(result)] * count, "settled": [False] * count}
    settled = [bool(each.converged) for each in certificates]
    return {
        "claims": [_claim(result) if each else ROUGH for each in settled],
        "lines": [words.certificate_line(each) for each in certificates],
        "settled": settled,
    }


def page_of_result(
    result: base.Result,
    blocks: tuple[Block, ...],
    legend: str,
    full: float,
    *,
    signed: bool = True,
    notes: Sequence[str] = (),
) -> Page:
    origin, certificate = result.origin, result.certificate
    named = {"baseline": origin.baseline, "layer": origin.layer, "score": origin.score, "unit": origin.unit}
    how = [origin.model] if origin.model else []
    how += [f"{name} {value}" for name, value in named.items() if value not in (None, "")]
    if certificate.kind in ("total", "per token") and not result.headline_has_output:
        how.append(f"output {certificate.f_input:.4g}, at the baseline {certificate.f_baseline:.4g}")
    return Page(
        title_of(result),
        visible(" · ".join(how)) if how else "",
        blocks,
        (*notes, *_own_notes(result)),
        Proof(visible(legend), full, signed, (sum_of(result),), check_of(result)),
        _rounds(result),
        partial(_data, result),
        **head_of(result),
    )


def head_of(result: base.Result) -> dict[str, Any]:
    """What the model says, for the top of a page: in a sentence, and class by class."""
    classes = classes_of(result.probabilities, result.baseline_probabilities)
    return {"headline": visible(result.headline) if result.headline else "", "classes": classes}


def classes_of(text: Mapping[str, float], start: Mapping[str, float]) -> tuple[tuple[str, str, str], ...]:
    """Rows of a table: name, probability at the text, at the baseline; the likeliest first."""
    order = sorted(text.items(), key=lambda each: -each[1])
    ends = {name: base.percent(start[name]) if name in start else "" for name in text}
    return tuple((visible(name), base.percent(share), ends[name]) for name, share in order)


def _data(result: base.Result) -> dict[str, Any] | None:
    arrays = [value for value in vars(result).values() if isinstance(value, np.ndarray)]
    return result.to_dict() if sum(array.nbytes for array in arrays) <= MOST else None


def _own_notes(result: base.Result) -> list[str]:
    """The result's own notes as one-line sentences, and how far a mean over baselines can be trusted."""
    notes = [visible(note) for note in result.origin.notes]
    spread = getattr(result, "standard_error", None)
    if spread is not None and np.size(spread):
        notes.append(f"means over a sample of baselines, standard error up to {float(np.nanmax(spread)):.2g}")
    return notes


def _rounds(result: base.Result, of: str = "") -> tuple[Charts, ...]:
    """Error estimate and gap after each round; nothing where one round was enough.

    of: what the rounds are of, where that is not the result itself and its bound has other units.
    """
    history = result.origin.history
    if len(history) < 2:
        return ()
    series = {
        "largest error estimate of a unit": [(n, error) for n, _, error in history],
        "gap of the sum": [(n, gap) for n, gap, _ in history],
    }
    bound = result.certificate.bound
    ticks = tuple((float(row[0]), str(row[0])) for row in history)
    chart = Chart(series, "nodes" + of, "error", "", True, None if of else bound, f"allowed {bound:.1e}", ticks)
    return (Charts((chart,), title="error against nodes"),)


def _unit(result: base.Result) -> str:
    return result.origin.unit or "token"


def _by(result: base.Result) -> str:
    return f"{_unit(result)} × {_unit(result)}"


def adds_up(result: base.Result) -> bool:
    """Have all units one sum? SIG's full reading has one for each."""
    return result.certificate.kind != "per token"


def _target(result: base.Result) -> str:
    about = result.origin.about
    if result.origin.outputs or (about is not None and about.words):  # what a model writes has quotes around it already
        return result.target
    return f"“{result.target}”" if result.target else "the target"


def _colors(result: base.Result) -> str:
    if result.difference:
        one, other = (visible(name) for name, _ in result.difference)
        return f"{RAISES_WORD}: more in {one}, {LOWERS_WORD}: more in {other}"
    return f"{RAISES_WORD} raises {_target(result)}, {LOWERS_WORD} lowers it"


def _verb(result: base.Result) -> str:
    if result.difference:
        return "sum to"
    return "sum to" if result.settled else "should sum to"


def _change(result: base.Result) -> str:
    if result.difference:
        sums = " − ".join(f"{palette.short(total)} ({visible(name)})" for name, total in result.difference)
        return f"{palette.short(result.certificate.total)} = {sums}"
    return palette.short(result.certificate.f_input - result.certificate.f_baseline)


def full_color(full: float) -> str:
    """The value that has the full colour, for a legend."""
    return palette.number(full, palette.decimals(full), sign=False)


def _scored(result: record.Explanation | record.Continuation) -> tuple[Bar, ...]:
    """A bar for each unit: all but special tokens without a score."""
    every = enumerate(zip(result.tokens, result.scores.tolist(), result.added, strict=True))
    return tuple(Bar(name, value, unit=k) for k, (name, value, flag) in every if value != 0 or not flag)


def _shown(special: Sequence[bool], pairs: Sequence[Any], *ends: int) -> tuple[int, ...]:
    """Tokens on a line: those of the text, and special ones where a pair ends."""
    met = {pair[end] for pair in pairs for end in ends}
    return tuple(i for i, flag in enumerate(special) if not flag or i in met)


def _paragraphs(result: Any, limit: float) -> dict[int, tuple[Stretch, ...]]:
    """Segment → its running text."""
    here = words.drawn(result.offsets, result.added)
    kept = words.texts_of(result)
    paragraphs = {}
    for segment in sorted({s for s, flag in zip(result.homes, here, strict=True) if flag and s >= 0}):
        inside = [flag and s == segment for s, flag in zip(result.homes, here, strict=True)]
        text = kept[segment] if segment < len(kept) else None
        paragraphs[segment] = words.stretches(text, result.tokens, result.offsets, result.scores, inside, limit)
    return paragraphs


# ---------------------------------------------------------------- a continuation


def _spoken(result: record.Continuation) -> tuple[Stretch, ...]:
    """The continuation as running text; `units` are output tokens, values what they add to later ones."""
    inside = [end > start for start, end in result.output_offsets]
    values = np.array([result.scores[unit] if unit >= 0 else 0.0 for unit in _own_sources(result)])
    text, limit = words.texts_of(result)[1], palette.limit(result.scores)
    return words.stretches(text, result.outputs, result.output_offsets, values, inside, limit)


def _own_sources(result: record.Continuation) -> tuple[int, ...]:
    """For each output token, the source that it belongs to once it has been said; −1 for none."""
    places = enumerate(zip(result.offsets, result.homes, strict=True))
    spoken = [(low, high, unit) for unit, ((low, high), segment) in places if segment == 1 and high > low]
    home = lambda start, end: next((unit for low, high, unit in spoken if low < end and start < high), -1)  # noqa: E731
    return tuple(home(start, end) for start, end in result.output_offsets)


def _column_notes(result: record.Continuation) -> list[str]:
    """How the single output tokens add up, and on which scale the text is coloured."""
    notes, columns = [], result.certificates
    if columns and adds_up(result):
        settled = sum(each.converged for each in columns)
        worst = max(range(len(columns)), key=lambda t: abs(columns[t].gap))
        some = f"{settled} of {len(columns)} settled (output tokens by themselves); worst “{visible(result.outputs[worst])}”"
        notes.append("every output token adds up by itself" if settled == len(columns) else some)
    full = palette.short(palette.limit(result.scores))
    return [*notes, f"the running text is coloured by {WHOLE} until a token is chosen; full colour there is {full}"]


def _ends(result: record.Continuation, each: Certificate) -> str:
    """The output at both ends; a difference has none of its own."""
    if result.difference:
        return f"sums differ by {each.total:.4g}"
    return f"{each.f_input:.4g}, at the baseline {each.f_baseline:.4g}"


def _facts(result: record.Continuation) -> dict[str, Any]:
    """What the script needs besides the matrix; every text already safe to be shown on one line."""
    certificates = (*result.certificates, result.certificate)
    return {
        "tokens": [visible(token) for token in result.tokens],
        "outputs": [visible(output) for output in result.outputs],
        "whole": WHOLE,
        **proofs(result, certificates),
        "ends": [_ends(result, each) for each in certificates],
        "score": result.origin.score or "output",
        "digits": palette.decimals(palette.limit(result.matrix), 4),
        "additive": adds_up(result),
        "bars": CHOICES,
    }
