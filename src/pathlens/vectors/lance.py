"""A LanceDB table asked, and its answers explained: `ask(table, "minilm", "a question")`. Nothing is stored for it."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from pathlens.engine.explainer import loaded
from pathlens.engine.typed import VectorOptions
from pathlens.errors import InputError
from pathlens.vectors.rank import Ranking
from pathlens.vectors.why import encoder_of, why


def ask(
    table: Any, encoder: Any, query: str, k: int = 5, *, text: str = "text", **choices: Unpack[VectorOptions]
) -> Ranking:
    """The k rows nearest to the query, in the table's order, each with its explanation (`pl.why`).

    table: of LanceDB, with vectors that `encoder` made. text: the column that holds the texts.
    """
    one, named = loaded(encoder, choices)
    side = encoder_of(one, 0, named)
    (vector,), _ = side.embed([query], ["the query"])
    if getattr(side.model, "normalised", False):
        vector = vector / np.linalg.norm(vector)
    rows = table.search(vector.astype(np.float32)).limit(k).to_list()
    if not rows:
        raise InputError("the table found no row; is it empty?")
    if text not in rows[0]:
        raise InputError(f"text={text!r} is no column of this table; it has {', '.join(rows[0])}")
    scores = [row.get("_distance", row.get("_score")) for row in rows]
    hits = [row[text] if score is None else (row[text], score) for row, score in zip(rows, scores, strict=True)]
    return why(one, query, hits, **named)
