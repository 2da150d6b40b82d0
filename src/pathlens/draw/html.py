"""Results as HTML: a fragment for notebooks, a self-contained page to send.

No network, no library: style and a few lines of script travel inside. Without the script everything is still
there except the slider. `python -m pathlens.draw.html` writes every view to pathlens-views.html.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from pathlens.draw import arcs, assets, continuation, embed, markup, palette, pixels, rounds, tables, view
from pathlens.draw.markup import Markup, element, level
from pathlens.explanation.continuation import Continuation
from pathlens.explanation.record import (
    Explanation,
    Interactions,
    PairExplanation,
    PhraseTree,
    Result,
    VectorExplanation,
)


def fragment(result: Result, *, unit: str | None = None) -> str:
    """HTML for a notebook cell or another page: style, picture, legend, certificate, script."""
    return f"{_style()}{_article(view.check(result, unit))}<script>{_script()}</script>"


def page(result: Result, path: str | Path | None = None, *, unit: str | None = None) -> str:
    """A self-contained page, also written to `path` when given.

    The result itself travels along as JSON (`embed.extract` reads it back), unless it is too large.
    """
    title = view.heading(result)[0]
    data = embed.script(result)
    said = [] if data else ["too large to travel inside the page; save() keeps the numbers"]
    text = _page(title, [_article(view.check(result, unit), said)], data)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _page(title: str, articles: Sequence[Markup], data: str = "") -> str:
    script = _script()
    # only our own script may run and nothing may be fetched, even if some text got past the escaping
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    head = markup.join(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{rules}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", None, title),
            Markup(_style()),
            Markup("<style>body{margin:0;background:Canvas}@media (prefers-color-scheme:dark)"),
            Markup(f"{{body{{background:{palette.DARK}}}}}.pathlens{{margin:0 auto}}</style>"),
        ]
    )
    body = markup.join([*articles, Markup(data), Markup(f"<script>{script}</script>")])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _style() -> str:
    return f"<style>{assets.style()}</style>"


def _script() -> str:
    return assets.script()


def _article(result: Result, said: Sequence[str] = ()) -> Markup:
    title, how = view.heading(result)
    head = element("header", None, element("h1", None, title), element("p", None, how) if how else "")
    words = list(said)
    sections = [
        element("section", None, element("h2", None, name) if name else "", *content)
        for name, *content in _sections(result, words)
    ]
    return element("article", {"class": "pathlens"}, head, *sections, _foot(result, words))


def _foot(result: Result, said: Sequence[str]) -> Markup:
    certificate = result.certificate
    mark = "✓ " if certificate.converged else "✗ "
    rough = "" if certificate.converged else " rough"
    found = [*said, *view.notes(result)]
    return element(
        "footer", None, _scale(result),
        element("p", {"class": "legend"}, palette.legend(result)),
        element("p", {"class": f"certificate{rough}"}, element("strong", None, mark),
                palette.certificate_line(certificate)),
        element("ul", {"class": "notes"}, *[element("li", None, note) for note in found]) if found else "",
        rounds.rounds(result) or "",
    )  # fmt: skip


def _scale(result: Result) -> Markup:
    """The colours from one end to the other, with the numbers at the ends."""
    full = palette.full(result)
    digits = palette.decimals(full)
    signed = not isinstance(result, VectorExplanation)
    steps = range(-8 if signed else 0, 9)
    swatches = [element("u", {"class": level(k, 8, signed=signed)}) for k in steps]
    low = palette.number(-full, digits) if signed else "0"
    ends = [element("span", None, low), element("span", None, palette.number(full, digits, sign=signed))]
    return element("p", {"class": "scale", "aria-hidden": "true"}, ends[0], element("b", None, *swatches), ends[1])


def _sections(result: Result, said: list[str]) -> list[tuple]:
    if isinstance(result, PairExplanation):
        return _pair(result, said)
    if isinstance(result, Interactions):
        return _interactions(result, said)
    if isinstance(result, VectorExplanation):
        return _block(result, said)
    if isinstance(result, PhraseTree):
        return _phrases(result, said)
    if isinstance(result, Continuation):
        return continuation.sections(result, said)
    assert isinstance(result, Explanation)
    return _explanation(result)


def _texts(result: Explanation | Interactions | PhraseTree) -> list[Markup]:
    limit = palette.limit(result.scores)
    found = [markup.running(p, result.tokens, result.scores, limit) for p in view.paragraphs(result)]
    extra = view.outside(result)
    if extra:
        digits = palette.decimals(limit)
        shown = [
            element("span", {"class": f"unit {level(float(result.scores[i]), limit)}".strip()},
                    f"{view.visible(result.tokens[i])} {palette.number(float(result.scores[i]), digits)}")
            for i in extra
        ]  # fmt: skip
        found.append(element("p", {"class": "outside"}, "outside the text: ", *_spaced(shown)))
    return found


def _spaced(parts: Sequence[Markup]) -> list[object]:
    return [piece for part in parts for piece in (part, " ")]


def _explanation(result: Explanation) -> list[tuple]:
    named = view.scored(result)
    additive = result.certificate.kind != "per token"
    texts = _texts(result)
    bars = markup.bars(named, palette.limit(result.scores), additive=additive)
    name = "the strongest units" if len(named) > markup.BARS else "unit by unit"
    return [*([("", *texts)] if texts else []), (name, bars)]


def _pair(result: PairExplanation, said: list[str]) -> list[tuple]:
    texts = [
        element("p", {"class": "text plain", "dir": "auto"}, "".join(piece.text for piece in pieces))
        for pieces in view.paragraphs(result)
    ]
    table = _table(result, said, "A ↓ B →", "×")
    return [("the two texts, A and B", *texts), ("strongest pairs", arcs.between(result)), table]


def _interactions(result: Interactions, said: list[str]) -> list[tuple]:
    texts = _texts(result)
    full = palette.short(palette.limit(result.scores))
    said.append(f"the running text is coloured by score, the sum of a row; full colour there is {full}")
    table = _table(result, said, "", "with")
    return [("", *texts), ("strongest pairs, both halves summed", arcs.inside(result)), table]


def _table(
    result: PairExplanation | Interactions | VectorExplanation, said: list[str], corner: str, word: str
) -> tuple:
    whole = tables.grid(result)
    table, drawn = markup.matrix(whole, corner=corner, between=word)
    said += drawn.notes
    name = "out × in" if isinstance(result, VectorExplanation) else "token × token"
    if drawn is whole:
        return name, table
    words = element("p", {"class": "outside"}, "every cell, one pixel each; below, the strongest lines")
    return name, words, pixels.picture(whole), table


def _block(result: VectorExplanation, said: list[str]) -> list[tuple]:
    grid = tables.grid(result)
    if len(grid.rows) > 1:
        return [_table(result, said, "out ↓ in →", "←")]
    said += grid.notes
    named = list(zip(grid.columns, map(float, grid.values[0]), strict=True))
    return [("length of each contribution", markup.bars(named, grid.limit, signed=False, additive=False))]


def _phrases(result: PhraseTree, said: list[str]) -> list[tuple]:
    drawn, left_out = markup.tree(result.nodes)
    if left_out:
        said.append(f"{left_out} phrases of smaller value are not shown")
    if result.tree:
        said.append(f"tree: {result.tree}")
    return [("", drawn)]


if __name__ == "__main__":
    from pathlens.draw.sample import every

    Path("pathlens-views.html").write_text(_page("every view", [_article(result) for result in every()]), "utf-8")
