"""pathlens rank: order documents by a query, and say why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pathlens.cli import app

EXAMPLES = """
Examples:

  pathlens rank minilm "How do I cook rice?" recipes.txt

  pathlens rank minilm "How do I cook rice?" ./documents --top 3 --why 1,2

  cat lines.txt | pathlens rank minilm "a query" - --one-sided --json -
"""


@app.command(epilog=EXAMPLES)
def rank(
    model: Annotated[str, typer.Argument(help="A sentence encoder: minilm, a folder, or a hub id.")],
    query: Annotated[str, typer.Argument(help="The query.")],
    documents: Annotated[
        str, typer.Argument(help="A folder, a file with one document a line, or - for stdin.")
    ],
    top: Annotated[int, typer.Option(help="Explain and show this many.")] = 5,
    why: Annotated[
        str | None, typer.Option(help="Two places, 1,2: why the first stands above the second.")
    ] = None,
    one_sided: Annotated[bool, typer.Option(help="Integrate the documents alone.")] = False,
    chunk: Annotated[bool, typer.Option(help="Cut documents that are too long at sentences.")] = False,
    layer: Annotated[int | None, typer.Option(help="0: word embeddings; k: states entering block k.")] = None,
    unit: Annotated[str, typer.Option(help="token, word or sentence.")] = "word",
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine",
    tolerance: Annotated[float, typer.Option(help="How exactly the scores must add up.")] = 1e-3,
    json_out: Annotated[str | None, typer.Option("--json", help="Write JSON to a file; - prints it.")] = None,
) -> None:
    """Order documents by similarity to a query; show which words met, and why one stands above another."""
    from pathlens.documents import read_documents
    from pathlens.rank import rank as verb

    texts = _lines() if documents == "-" else read_documents(documents)[1]
    places = parse_places(why, len(texts)) if why else None
    needed = max([top, *[place + 1 for place in places or ()]])
    found = verb(
        model,
        query,
        texts,
        top=needed,
        one_sided=one_sided,
        chunk=chunk,
        layer=layer,
        unit=unit,
        similarity=similarity,
        tolerance=tolerance,
    )
    give_ranking(found, top, json_out, found.why(*places) if places else None)


def _lines() -> list[str]:
    return [line.strip() for line in sys.stdin.read().split("\n") if line.strip()]


def parse_places(text: str, count: int) -> tuple[int, int]:
    """ "1,2" → (0, 1)."""
    from pathlens.errors import InputError

    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() and 1 <= int(part) <= count for part in parts):
        raise InputError(f"--why takes two places between 1 and {count}, as in 1,2; got {text!r}")
    first, second = (int(part) - 1 for part in parts)
    return first, second


def give_ranking(found: Any, top: int, json_out: str | None, reason: Any = None) -> None:
    """The order with the strongest meetings of words; or JSON."""
    if json_out is not None:
        body = found.to_dict()
        if reason is not None:
            body["why"] = reason.to_dict()
        text = json.dumps(body, ensure_ascii=False)
        if json_out == "-":
            typer.echo(text)
        else:
            Path(json_out).write_text(text, encoding="utf-8")
        return
    for place, hit in enumerate(found.hits[:top], 1):
        shown = hit.text if len(hit.text) <= 90 else hit.text[:87] + "…"
        typer.echo(f"{place:3}. {hit.score:+.4f}  {shown}")
        if hit.explanation is not None:
            typer.echo(f"       {_meetings(hit.explanation)}   [{_proof(hit.explanation)}]")
    if reason is not None:
        typer.echo(f"\n{reason.target}: {reason.similarity:+.4f}   [{_proof(reason)}]")
        reason.show()


def _meetings(explanation: Any, k: int = 4) -> str:
    """The strongest pairs of words (or words, read one-sided)."""
    parts = []
    for *names, score in explanation.top(k):
        parts.append(f"{'–'.join(names)} {score:+.3f}")
    return ", ".join(parts)


def _proof(explanation: Any) -> str:
    proof = explanation.certificate
    return f"adds up within {proof.gap:.0e}" if proof.converged else f"not settled, gap {proof.gap:.0e}"
