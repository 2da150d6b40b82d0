"""pathlens rank: order documents by a query, and say why."""

from __future__ import annotations

from typing import Annotated

import typer

from pathlens.cli import app
from pathlens.cli import common as c

EXAMPLES = """
Examples:

  pathlens rank minilm "How do I cook rice?" recipes.txt

  pathlens rank minilm "How do I cook rice?" ./documents --top 3 --why 1,2 --html rank.html

  cat lines.txt | pathlens rank minilm "a query" - --one-sided --json -
"""


@app.command(epilog=EXAMPLES)
def rank(
    model: c.Encoder,
    query: Annotated[str, typer.Argument(help="The query.")],
    documents: Annotated[str, typer.Argument(help="A folder, a file with one document a line, or - for stdin.")],
    top: Annotated[int, typer.Option(help="Explain and show this many.", min=1)] = 5,
    why: c.Why = None,
    one_sided: c.OneSided = False,
    chunk: c.Chunk = False,
    layer: c.Layer = None,
    unit: c.Unit = "word",
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine",
    tolerance: c.Tolerance = 1e-3,
    json_out: c.JsonOut = None,
    html: c.HtmlOut = None,
    png: c.PngOut = None,
) -> None:
    """Order documents by similarity to a query; show which words met, and why one stands above another."""
    from pathlens.errors import InputError
    from pathlens.vectors.documents import read_documents
    from pathlens.vectors.rank import rank as verb

    if why is not None and one_sided:
        raise InputError("--why is the difference of two full explanations; leave --one-sided out")
    texts = c.read_lines() if documents == "-" else read_documents(documents)[1]
    places = c.parse_places(why, len(texts))
    with c.warnings_in_a_line():
        found = verb(
            model,
            query,
            texts,
            top=max([top, *[place + 1 for place in places or ()]]),
            one_sided=one_sided,
            chunk=chunk,
            layer=layer,
            unit=unit,
            similarity=similarity,
            tolerance=tolerance,
            show_progress=c.watched(),
        )
    c.give(found.with_reason(*places) if places else found, json_out, html, png)
