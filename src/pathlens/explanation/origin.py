"""How a result was made, as fields with types: the one place that knows the names in `meta` and what is meant without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pathlens.types import About, Span


@dataclass(frozen=True)
class Origin:
    """Read from `meta`, which keeps whatever a model adds; files of every schema give the same fields."""

    model: str = ""
    kind: str = ""  # of the model
    dtype: str = ""
    texts: tuple[Any, ...] = ()  # strings, or what stands for a picture
    outputs: tuple[str, ...] = ()  # what a generator wrote or was asked about
    baseline: str = ""
    layer: int | None = None
    unit: str = ""  # as asked for; nothing said is "token"
    score: str = ""
    similarity: str = ""
    context: str = "full"  # of `sig`
    one_sided: bool = False  # of two texts, only one is explained
    sink: bool = False  # is the first token of a decoder held?
    notes: tuple[str, ...] = ()
    history: tuple[tuple[int, float, float], ...] = ()  # (nodes, gap, largest error) after each round
    features: tuple[float, ...] = ()  # the values in a row of a table
    row: int | None = None  # of a data set, by its number
    chosen: Mapping[str, Any] | None = None  # the choices, as `pl.explain` takes them; older files do not say
    compared_with: Any = None  # the other text of a one-sided explanation, or what stands for a picture
    is_difference: bool = False  # of two hits of a ranking
    difference: tuple[tuple[str, float], ...] = ()  # of two results: what each is called, and what its numbers sum to
    rows: tuple[int, ...] | None = None  # of interactions: the units whose rows were asked for, where not all were
    spans: Mapping[str, Mapping[str, Span]] = field(default_factory=dict)  # parts of a chat's prompt, by level and name
    template: str = "held"  # of a chat
    asked: Mapping[str, Any] = field(default_factory=dict)  # choices of `pl.answer`
    read: tuple[int, ...] = ()  # characters of each source that were read
    about: About | None = None  # what the probabilities are of
    targets: Mapping[str, Any] = field(
        default_factory=dict
    )  # of each name with a probability the target that asks for it
    moved: float | None = None  # by softplus: how far the output is from the model's own

    @staticmethod
    def of(meta: Mapping[str, Any]) -> Origin:
        notes, layer, spans = meta.get("notes") or (), meta.get("layer"), meta.get("spans") or {}
        return Origin(
            **{name: str(meta.get(name) or "") for name in ("model", "kind", "dtype", "unit", "score", "similarity")},
            texts=tuple(meta.get("texts") or ()),
            outputs=tuple(map(str, meta.get("outputs") or ())),
            baseline="" if meta.get("baseline") is None else str(meta["baseline"]),
            layer=None if layer is None else int(layer),
            context=str(meta.get("context") or "full"),
            one_sided=bool(meta.get("one_sided")),
            sink="sink" in meta,
            notes=(notes,) if isinstance(notes, str) else tuple(map(str, notes)),
            history=tuple(tuple(row) for row in meta.get("history") or () if len(row) == 3),
            features=tuple(map(float, meta.get("features") or ())),
            row=meta.get("row"),
            chosen=meta.get("chosen"),
            compared_with=meta.get("compared_with"),
            is_difference=bool(meta.get("is_difference", "columns_above" in meta)),  # older files have the place alone
            difference=tuple((str(name), float(total)) for name, total in meta.get("difference", ())),
            rows=tuple(map(int, meta["rows"])) if "rows" in meta else None,
            spans={level: {n: (int(a), int(b)) for n, (a, b) in each.items()} for level, each in spans.items()},
            template=str(meta.get("template") or "held"),
            asked=meta.get("asked") or {},
            read=tuple(map(int, meta.get("read") or ())),
            about=About(**about) if (about := meta.get("about")) else None,
            targets=meta.get("targets") or {},
            moved=softened["moved"] if isinstance(softened := meta.get("softplus"), Mapping) else None,
        )
