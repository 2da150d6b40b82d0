"""An answer beside its sources: choose a sentence, and the sources are shaded by what made it likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pathlens.draw import palette, words
from pathlens.draw.blocks import Bar, Bars, Block, Listing, Page, Running, Texts
from pathlens.draw.grid import Grid
from pathlens.draw.palette import LOWERS_WORD, RAISES_WORD
from pathlens.draw.results import CHOICES, adds_up, full_color, page_of_result, proofs
from pathlens.draw.words import Stretch, visible
from pathlens.explanation.answer import Answer
from pathlens.explanation.base import percent

SHORT = 2_400  # characters of all sources that a terminal and a picture still show whole
PARTS = 8  # otherwise the strongest parts
LETTERS = 220  # of a part in a list
NAME = 60  # of a part beside its bar


@dataclass(frozen=True, eq=False)
class Answered(Block):
    """The answer's sentences to choose from, and the sources; the blocks inside say the same where nothing can be chosen."""

    media = ("page",)
    question: str
    sentences: tuple[Stretch, ...]  # the answer; `units` are its sentences
    cited: tuple[str, ...]  # "[1] [3]" of each sentence
    sources: tuple[tuple[str, tuple[Stretch, ...]], ...]  # heading and text; `units` are columns of the matrix
    cells: Grid  # every part × every sentence
    grid: Grid  # sources × sentences
    bars: Bars
    facts: Mapping[str, Any]  # for the script


def answer(result: Answer) -> Page:
    """The answer with its citations, sources × sentences, the sources shaded by part."""
    totals = result.matrix.sum(axis=0)
    limit = palette.limit(totals)
    rows = tuple(f"[{k}] {name}" for k, name in enumerate(result.names, 1))
    columns = tuple(words.cut(visible(f"{n}. {sentence}"), 28) for n, sentence in enumerate(result.sentences, 1))
    values = result.by_source.T
    grid = Grid(rows, columns, values, additive=adds_up(result), between="→", corner="from ↓  to →")
    names = _names(result)
    cells = replace(grid, rows=names, values=result.matrix.T)
    grid = replace(grid, title="source × sentence of the answer")
    cited = tuple(" ".join(f"[{k}]" for k in each) for each in result.citations)
    sources = tuple(_source(result, k, totals, limit) for k in range(len(result.sources)))
    bars = Bars(tuple(map(Bar, names, map(float, totals))), additive=adds_up(result))
    block = Answered(
        question=result.question,
        sentences=_sentences(result),
        cited=cited,
        sources=sources,
        cells=cells,
        grid=grid,
        bars=bars,
        facts=_facts(result, names, columns),
        inside=(_sentence_list(result, cited), grid, *_shown(result, sources, totals, limit)),
    )
    legend = (
        f"{RAISES_WORD} raises the log-probability of what was said, {LOWERS_WORD} lowers it; only the sources move; "
        f"cited: at least {100 * result.threshold:.0f} % of what sources add to a sentence, and twice as likely with it; "
        f"full colour in the table is {full_color(grid.limit)}, the largest |cell|, in the sources {full_color(limit)}, the largest part."
    )
    asked = Texts((("", result.question),), title="the question")
    return page_of_result(
        result, (asked, Texts((("", _anyway(result)),), title="without the sources"), block), legend, grid.limit
    )


def _names(result: Answer) -> tuple[str, ...]:
    """Parts with their source: "[2] It rings at dawn." """
    every = zip(result.owners, result.parts, strict=True)
    return tuple(words.cut(visible(f"[{owner + 1}] {part}"), NAME) for owner, part in every)


def _source(result: Answer, k: int, totals: np.ndarray, limit: float) -> tuple[str, tuple[Stretch, ...]]:
    """Heading and running text of one source; what the model did not read is said."""
    here = [owner == k for owner in result.owners]
    text = words.stretches(result.sources[k], result.parts, result.offsets, totals, here, limit)
    score = palette.number(float(result.source_scores[k]), palette.decimals(limit))
    return f"[{k + 1}] {result.names[k]}  {score}", text


def _sentences(result: Answer) -> tuple[Stretch, ...]:
    values = result.matrix.sum(axis=1)
    every = (True,) * len(result.sentences)
    limit = palette.limit(values)
    return words.stretches(result.answer, result.sentences, result.sentence_offsets, values, every, limit)


def _sentence_list(result: Answer, cited: tuple[str, ...]) -> Listing:
    """Sentence by sentence: citations, and how likely a token is with the sources and without."""
    odds = result.odds or ((None, None),) * len(cited)
    table = tuple(
        (sentence, sources or "no source", *(None if each is None else percent(each) for each in pair))
        for sentence, sources, pair in zip(result.sentences, cited, odds, strict=True)
    )
    columns = ("what it said", "cited", "a token's probability", "without the sources")
    return Listing(columns, table)


def _shown(result: Answer, sources: Any, totals: np.ndarray, limit: float) -> tuple[Block, ...]:
    """The sources where nothing scrolls: whole where they are short, otherwise their strongest parts."""
    if sum(map(len, result.sources)) <= SHORT:
        return tuple(Running((text,), limit, title=heading) for heading, text in sources)
    order = np.argsort(-np.abs(totals), kind="stable")[:PARTS]
    parts = {u: words.cut(visible(result.parts[u]), LETTERS) for u in order}
    table = tuple((f"[{result.owners[u] + 1}]", part, float(totals[u])) for u, part in parts.items())
    title = f"the {len(order)} strongest of {len(totals)} parts of the sources"
    return (Listing(("source", "part", "score"), table, limit=limit, title=title),)


def _anyway(result: Answer) -> str:
    """What the model would have said without the sources: probabilities at the baseline."""
    certificate, count = result.certificate, sum(result.lengths)
    if result.contrast:
        return (
            f"It is e^{certificate.f_input:.4g} times as likely as {result.contrast!r:.80} with the sources, and "
            f"e^{certificate.f_baseline:.4g} times without them."
        )
    # the probability of a whole answer is next to nothing even where it was sure: a token's is said beside it
    each, anyway = (percent(float(np.exp(value / count))) for value in (certificate.f_input, certificate.f_baseline))
    return (
        f"Without the sources the model gives this answer a probability of {percent(result.anyway)}, on average {anyway} "
        f"for each token; with them {each} for each token."
    )


def _facts(result: Answer, names: tuple[str, ...], columns: tuple[str, ...]) -> dict[str, Any]:
    """What the script needs besides the matrix, as for a continuation."""
    certificates = (*result.certificates, result.certificate)
    return {
        "tokens": names,
        "outputs": columns,
        "whole": "the whole answer",
        **proofs(result, certificates),
        "ends": [f"{each.f_input:.4g}, without the sources {each.f_baseline:.4g}" for each in certificates],
        "score": "log-probability",
        "digits": palette.decimals(palette.limit(result.matrix), 4),
        "additive": adds_up(result),
        "bars": CHOICES,
    }
