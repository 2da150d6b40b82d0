"""Why is this hit here? The texts that any search returned, explained against the query; nothing was stored for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Unpack

import numpy as np

from pathlens.engine.explainer import loaded
from pathlens.engine.prepare import by_side
from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError
from pathlens.vectors.documents import as_list
from pathlens.vectors.encode import OF_MANY, SideEncoder
from pathlens.vectors.meet import Query, reasons
from pathlens.vectors.rank import Hit, Ranking

TEXTS = ("text", "page_content", "content", "document", "passage", "body")  # where stores keep a hit's text
SCORES = ("score", "_score", "similarity", "_relevance_score", "distance", "_distance")  # and what they say of it
BESIDE = ("node", "document", "payload", "metadata", "fields", "_source", "entity")  # or one step further in
OFF = 0.01  # a store's score may be this far from the model's: stores round their vectors
SPLIT = ("prompt", "prompt_name")  # may differ for queries and documents


@dataclass(frozen=True)
class GivenHit:
    """A hit as it came: its text, and the store's own score where it has one."""

    text: str
    score: float | None = None


def why(
    encoder: Any,
    query: Any,
    hits: Sequence[Any],
    *,
    pairs: bool = False,
    show_progress: bool = False,
    **choices: Unpack[VectorOptions],
) -> Ranking:
    """One explanation a hit, in the hits' order: `result[0].scores`, `.spans`, `.sentences`, `.certificate`.

    encoder: the model that made the store's vectors.
    hits: what a search returned: texts, (text, score), dictionaries, or objects with a text and maybe a score
        (LangChain documents, LlamaIndex nodes, rows of LanceDB, …), also mixed.
    pairs: token × token, in `.matrix`; by default every token of the hit stands against the whole query.
    Other choices as in `pl.encode`: method ("secant" by default), unit, baseline, layer; prompt and prompt_name for
        both texts, or a tuple with the query's and the hits'.

    `result.why(0, 1)` says why the first hit stands above the second. A hit longer than the model takes is cut, as it was
    when the store's vector was made, and a note says so. A store's score that is not the model's similarity, nor a usual
    distance made of it, is named in the hit's `notes`: another model made the vectors, or the text has changed.
    """
    read_hits = [_read(hit, number) for number, hit in enumerate(as_list(hits, "hits"))]
    one, named = loaded(encoder, choices)
    asked = Query.of(encoder_of(one, 0, named), query)
    second = encoder_of(one, 1, named)
    texts, names = [each.text for each in read_hits], [f"hit {number}" for number in range(len(read_hits))]
    made = reasons(asked, second, texts, names, pairs=pairs, show_progress=show_progress)
    explained = [
        Hit(number, each.text, reason.certificate.f_input, reason, given=each.score)  # of a pair its similarity
        for number, (each, reason) in enumerate(zip(read_hits, made, strict=True))
    ]
    form, doubts = _compare([hit.given for hit in explained], [hit.score for hit in explained])
    notes = [(*reason.origin.notes, *doubt) for reason, doubt in zip(made, doubts, strict=True)]
    noted = tuple(replace(hit, notes=each) for hit, each in zip(explained, notes, strict=True))
    meta = second.about(made[0].origin.baseline) | {"ordered": "given", "given": form}
    return Ranking(query if isinstance(query, str) else "(picture)", noted, meta)


def encoder_of(model: Any, place: int, choices: Mapping[str, Any]) -> SideEncoder:
    """The encoder of queries (place 0) or of hits (1), a prompt for each of them taken apart."""
    named = {n: by_side(value, n + "s")[place] if n in SPLIT else value for n, value in choices.items()}
    return SideEncoder.of(model, place, **{"method": OF_MANY, "truncation": True, **named})


def _read(hit: Any, number: int) -> GivenHit:
    """A text and maybe a score, from whatever a search returned."""
    score = None
    if isinstance(hit, tuple | list) and len(hit) == 2 and isinstance(hit[1], Real):
        hit, score = hit[0], float(hit[1])
    text = hit if isinstance(hit, str) else _named(hit, TEXTS, str)
    if text is None:
        known = ", ".join(map(repr, TEXTS[:3]))
        raise InputError(
            f"hit {number} is a {type(hit).__name__} with no text in it; give a text, (text, score), or something with {known}"
        )
    if not text.strip():
        raise InputError(f"hit {number} has an empty text ({text!r}); leave it out")
    if score is None and not isinstance(hit, str):
        score = _named(hit, SCORES, Real)
    if score is not None and not np.isfinite(float(score)):
        raise InputError(f"hit {number} has the score {score}; a score is a finite number, or left out")
    return GivenHit(text, None if score is None else float(score))


def _named(thing: Any, names: Sequence[str], kind: type[Any]) -> Any:
    """The first of these entries or attributes that is of this kind; else of what stands one step further in."""

    def entry(holder: Any, name: str) -> Any:
        return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)

    for holder in (thing, *(entry(thing, name) for name in BESIDE)):
        values = (entry(holder, name) for name in names) if holder is not None and not isinstance(holder, str) else ()
        for value in values:
            if isinstance(value, kind) and not isinstance(value, bool):
                return value
    return None


FORMS = {  # what stores make of the cosine; each a whole description
    "the similarity": lambda s: s,
    "1 − the similarity": lambda s: 1 - s,
    "the squared distance of unit vectors": lambda s: 2 - 2 * s,
    "the distance of unit vectors": lambda s: np.sqrt(np.maximum(2 - 2 * s, 0)),
    "the similarity, moved to 0 … 1": lambda s: (1 + s) / 2,
    "1 / (1 + the squared distance of unit vectors)": lambda s: 1 / (3 - 2 * s),
}


def _compare(given: Sequence[float | None], ours: Sequence[float]) -> tuple[str, list[tuple[str, ...]]]:
    """What the store's scores are made of, and for every hit a note where its score is not the model's."""
    known = np.array([value is not None for value in given])
    if not known.any():
        return "", [()] * len(ours)
    theirs, similarities = np.array([value or 0.0 for value in given]), np.array(ours)
    off = {name: np.abs(theirs - form(similarities)) for name, form in FORMS.items()}
    best = min(FORMS, key=lambda name: float(np.median(off[name][known])))
    if float(np.median(off[best][known])) > OFF:
        best = next(iter(FORMS))
    notes: list[tuple[str, ...]] = []
    for value, mine, away, is_known in zip(theirs, similarities, off[best], known, strict=True):
        note = (
            f"the store says {value:.4f}, and this model's similarity is {mine:.4f}: its vectors are of another model or of "
            "another text, or it scores in a way of its own"
        )
        notes.append((note,) if is_known and away > OFF * max(1.0, abs(mine)) else ())
    return best, notes
