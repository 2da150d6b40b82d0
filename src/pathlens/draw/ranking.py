"""A ranking: every hit with its score and the words that met, and why one stands above another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathlens.draw import canvas, embed, listing, pictures, view
from pathlens.draw.listing import Listing
from pathlens.draw.markup import Markup, element
from pathlens.draw.sheet import article_of, write_page
from pathlens.explanation.store import many_to_dict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pathlens.vectors.rank import Hit, Ranking

MEETINGS = 4  # pairs of words named per hit
LONG = 160  # characters of a document on one line
STYLE = listing.STYLE + (
    ".pathlens.ranking details{margin:.3rem 0;border-top:1px solid var(--line);padding-top:.3rem}"
    ".pathlens.ranking summary{cursor:pointer;overflow-wrap:anywhere}.pathlens.ranking .pathlens{padding:.6rem 0 .6rem 1rem}"
    ".pathlens.ranking summary b{font-variant-numeric:tabular-nums;margin-right:.4em}"
    ".pathlens.ranking .met{display:block;color:var(--dim);font-size:.88rem}"
)


def title(found: Ranking) -> str:
    """What was asked."""
    return f"documents by similarity to “{view.visible(_cut(found.query))}”"


def explained(found: Ranking) -> list[Hit]:
    """Hits that have an explanation: only these are drawn."""
    return [hit for hit in found.hits if hit.explanation is not None]


def shown(found: Ranking) -> tuple[list[Hit], int]:
    """Hits to list, down to the last one explained (all when none is), and how many come after them."""
    last = max((k for k, hit in enumerate(found.hits) if hit.explanation is not None), default=len(found.hits))
    kept = list(found.hits[: last + 1])
    return kept, len(found.hits) - len(kept)


def meetings(explanation: Any) -> str:
    """The strongest pairs of words (or words, read one-sided)."""
    if explanation is None:
        return "not explained"
    parts = [f"{'–'.join(view.visible(name) for name in names)} {score:+.3f}" for *names, score in explanation.top(MEETINGS)]  # fmt: skip
    return ", ".join(parts)


def proof(explanation: Any) -> str:
    """The certificate in a few words."""
    if explanation is None:
        return ""
    told = explanation.certificate
    return f"adds up within {told.gap:.0e}" if told.converged else f"not settled, gap {told.gap:.0e}"


def table(found: Ranking) -> Listing:
    """One row per hit: place, score, text, words that met, proof."""
    hits, left = shown(found)
    rows = tuple(
        (str(place), f"{hit.score:+.4f}", _cut(hit.text), meetings(hit.explanation), proof(hit.explanation))
        for place, hit in enumerate(hits, 1)
    )
    columns = ("", "score", "document", "words that met", "")
    return Listing(title(found), columns, rows, notes=tuple(_left(left)))


def why_title(found: Ranking) -> str:
    """The question the reason answers, with places as they are shown and the first words of both."""
    above, how, below = found.order(*(found.places or (0, 0)))
    first, second = (view.visible(_cut(found.hits[place - 1].text, 60)) for place in (above, below))
    return f"why {above}. “{first}” stands {how} {below}. “{second}”"


def _cut(text: str, long: int = LONG) -> str:
    return text if len(text) <= long else text[: long - 1] + "…"


def _left(count: int) -> list[str]:
    return [f"scored and not explained: {count} more"] if count else []


def show(found: Ranking, *, console: Any = None, width: int | None = None) -> None:
    """Two lines per hit, which read well at any width; then why one stands above another."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console(width=width)
    hits, left = shown(found)
    console.print(Text(title(found), "bold"))
    for place, hit in enumerate(hits, 1):
        console.print(Text(f"{place:3}. {hit.score:+.4f}  {view.visible(_cut(hit.text))}"))
        if hit.explanation is not None:
            console.print(Text(f"       {meetings(hit.explanation)}   [{proof(hit.explanation)}]", "dim"))
    for note in _left(left):
        console.print(Text(f"· {note}", "dim"))
    if (reason := found.reason) is not None:
        console.print(Text(f"\n{why_title(found)}: {reason.similarity:+.4f}", "bold"))
        reason.show(console=console)


def article(found: Ranking) -> Markup:
    """Folded hits as a part of a page, the first one open; the reason on top when there is one."""
    hits, left = shown(found)
    parts = []
    if (reason := found.reason) is not None:
        line = element("summary", None, element("b", None, f"{reason.similarity:+.4f}"), why_title(found))
        parts.append(element("details", {"open": "open"}, line, article_of(reason)))
    for place, hit in enumerate(hits, 1):
        met = element("span", {"class": "met"}, meetings(hit.explanation), f"  [{proof(hit.explanation)}]" if hit.explanation else "")  # fmt: skip
        line = element("summary", {"dir": "auto"}, element("b", None, f"{place}. {hit.score:+.4f}"), _cut(hit.text), met)  # fmt: skip
        opened = "open" if place == 1 and found.places is None else None
        inner = article_of(hit.explanation) if hit.explanation is not None else ""
        parts.append(element("details", {"open": opened}, line, inner))
    return element(
        "article", {"class": "pathlens ranking"},
        element("header", None, element("h1", None, title(found)),
                element("p", None, "Open a document to see which words of it met which words of the query.")),
        *parts,
        element("ul", {"class": "notes"}, *[element("li", None, note) for note in _left(left)]) if left else "",
    )  # fmt: skip


def page(found: Ranking, path: str | Path | None = None) -> str:
    """A self-contained page; `pl.load` reads the explanations back."""
    results = [hit.explanation for hit in explained(found) if hit.explanation is not None]
    reason = found.reason
    data = embed.data_element(many_to_dict([*results, *([reason] if reason else [])], query=found.query))
    return write_page(title(found), [article(found)], path, data=data, style=STYLE)


def figure(found: Ranking) -> Figure:
    """The order as a table; below it the reason when there is one, else the first hit's own picture."""
    sheet = canvas.Sheet(11.0)
    made = table(found)
    sheet.words(made.title, size=13, color=canvas.INK, weight="bold", after=0.1)
    listing.table(sheet, made)
    for note in made.notes:
        sheet.words("· " + note, size=8)
    best = next((hit.explanation for hit in explained(found)), None)
    reason = found.reason
    if reason is not None:
        sheet.words(why_title(found), size=11, color=canvas.INK, weight="bold")
    if (below := reason or best) is not None:
        pictures.onto(below, sheet)
    return sheet.figure()


def save(found: Ranking, path: str | Path) -> Path:
    """Write the picture."""
    return canvas.save(figure(found), path)
