"""Run the blocks of other libraries on coming-from.md, beside ours, and keep what ran and how far the numbers agree.

    python docs/peers.py captum inseq        (a peer that is not named keeps its row)

Writes docs/peers.json (for each peer its version, the checksum of its block as it was run, and the agreement where both sides
compute the same number) and the table on the page. Needs the peer beside pathlens: pip install captum shap inseq lit-nlp. A test asks that every block on the page is the one that ran: a block that was changed has to be
run again before it can stand there.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, ROWS = HERE / "coming-from.md", HERE / "peers.json"
PACKAGES = {"captum": "captum", "shap": "shap", "inseq": "inseq", "LIT": "lit-nlp"}
BLOCK = re.compile(r"^<!-- peer: (?P<peer>\w+) -->\n+```py\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)


def peer_blocks(text: str) -> dict[str, str]:
    """Peer → its block on the page."""
    return {blocks["peer"]: blocks["code"] for blocks in BLOCK.finditer(text)}


def checksum(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def setup() -> dict[str, Any]:
    """What the reader has: a classifier, a writer, texts."""
    from pathlens.text.load import load

    classifier, writer = load("sentiment"), load("smollm")
    return {
        "model": classifier.module,
        "tokenizer": classifier.tokenizer,
        "writer": writer.module,
        "writer_tokenizer": writer.tokenizer,
        "text": "Not really funny, but moving.",
        "texts": ["Not really funny, but moving.", "A dull mess."],
    }


def agreement(peer: str, names: dict[str, Any]) -> dict[str, float]:
    """The same number on both sides, where there is one."""
    import pathlens as pl

    pair = (names["model"], names["tokenizer"])
    if peer == "captum":
        ours = pl.explain(pair, names["text"], target="positive")
        theirs = names["scores"][0].detach().numpy()
        return {
            "largest_difference": float(abs(theirs - ours.scores).max()),
            "largest_score": float(abs(ours.scores).max()),
        }
    if peer == "shap":  # of probabilities: what the values add up to must be the model's own output
        ours = pl.explain(pair, names["text"], target="positive", method="secant")
        values = names["values"]
        label = list(values.output_names).index("positive")
        total = float(values.base_values[0][label] + values.values[0][:, label].sum())
        return {"difference_of_outputs": abs(total - ours.probabilities["positive"])}
    if peer == "LIT":
        results = pl.explain(pair, names["texts"], method="secant")
        theirs = [row["probabilities"][1] for row in names["rows"]]
        ours = [result.probabilities["positive"] for result in results]
        return {"difference_of_outputs": max(abs(a - b) for a, b in zip(theirs, ours, strict=True))}
    return {}


COMPARED = {
    "captum": "scores: at most {largest_difference:.2g} apart, the largest is {largest_score:.2g}",
    "shap": "its values sum to the probability, as ours reports it: {difference_of_outputs:.0e} apart",
    "inseq": "not compared: another baseline and another score",
    "LIT": "probabilities: {difference_of_outputs:.0e} apart; it computes no scores here",
}
TABLE = re.compile(r"(?<=<!-- peers -->\n).*?(?=<!-- /peers -->)", re.DOTALL)


def table(rows: dict[str, Any]) -> str:
    """What ran, as the page shows it."""
    lines = [f"| {peer} | {rows[peer]['version']} | {COMPARED[peer].format(**rows[peer])} |" for peer in COMPARED]
    return "\n".join(["", "| their block | version that ran | beside ours |", "|---|---|---|", *lines, "", ""])


def main(peers: list[str]) -> None:
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    blocks = peer_blocks(PAGE.read_text(encoding="utf-8"))
    for peer in peers:
        names = setup()
        exec(compile(blocks[peer], f"{PAGE.name}, {peer}", "exec"), names)
        agreed = {name: float(f"{value:.2g}") for name, value in agreement(peer, names).items()}
        rows[peer] = {"version": version(PACKAGES[peer]), "block": checksum(blocks[peer]), **agreed}
        ROWS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(TABLE.sub(lambda _: table(rows), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(PACKAGES))
