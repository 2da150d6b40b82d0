"""Which source has the answer? Real questions with five contexts each, and the 50 made-up ones with three.

    python experiments/answers.py run [--sets xquad passages] [--methods secant sig …] [--questions 100] [--minutes 50]
    python experiments/answers.py tables      # from the rows that are there

XQuAD: a question, the context that holds its answer, and four contexts of other articles, the right one in each place
equally often; the reference answer is the target. A question counts when the right context has the highest score of the
five, and again when inside it the sentence with the answer has the highest. `passages`: see passages.py. The model used
its source where `sig` says so: leaving the right context out costs the answer more than any other, and half its
probability. One row per question and method goes to experiments/rows/answers as it is found: a run that was stopped goes on.

Contenders: secant, sig (sources first, then the sentences of the right one), ig (16 Gauss nodes; at the word embeddings a
decoder's integral has not settled by then, the row says how far it is off), gradient × input, attention (mean over layers
and heads, from where the answer is read), and the peers inseq (input × gradient, its defaults) and context-cite (its 64
ablations, contexts as its sources), where they are installed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from experiments.passages import questions as made_up
from experiments.passages import wilson
from pathlens.text.load import load
from pathlens.units.cuts import sentence_spans

DATA = Path(__file__).resolve().parents[1] / "../shared/data/squad/xquad.en.json"
ROWS = Path(__file__).parent / "rows" / "answers" / "rows.jsonl"
CONTEXTS = 5
NODES = 16  # of ig: a node at 900 tokens costs a dozen seconds
USED = math.log(2)


@dataclass(frozen=True)
class Asked:
    """A question, its sources, and where the answer is."""

    number: int
    sources: tuple[str, ...]
    question: Any  # a text, or a chat that names its sources
    answer: str
    at: int  # the source that has it
    place: int  # and the character

    def explained(self, model: Any, **choices: Any) -> pl.Answer:
        sources = list(self.sources) if isinstance(self.question, str) else None
        return pl.answer(model, self.question, sources, self.answer, redundant=False, **choices)

    def chat(self) -> Any:
        if not isinstance(self.question, str):
            return self.question
        return pl.chat(user=self.question, passages=list(self.sources))

    def sentence(self) -> int:
        """Which sentence of its source."""
        ends = [end for _, end in sentence_spans(self.sources[self.at])]
        return next(k for k, end in enumerate(ends) if self.place < end)


@dataclass(frozen=True)
class Reading:
    """A score for every source, and for every sentence of the right one."""

    scores: np.ndarray
    sentences: np.ndarray
    passes: int
    relative_gap: float | None = None


def xquad(count: int, seed: int = 0) -> list[Asked]:
    """The same ones for the same seed."""
    draw = random.Random(seed)
    articles = json.loads(DATA.read_text(encoding="utf-8"))["data"]
    every = [(a, p, q) for a, article in enumerate(articles) for p in article["paragraphs"] for q in p["qas"]]
    draw.shuffle(every)
    asked = []
    for number, (article, paragraph, question) in enumerate(every[:count]):
        others = draw.sample([k for k in range(len(articles)) if k != article], CONTEXTS - 1)
        texts = [draw.choice(articles[k]["paragraphs"])["context"] for k in others]
        texts.insert(number % CONTEXTS, paragraph["context"])
        reply = question["answers"][0]
        asked.append(
            Asked(number, tuple(texts), question["question"], reply["text"], number % CONTEXTS, reply["answer_start"])
        )
    return asked


def passages(count: int, seed: int = 0) -> list[Asked]:
    every = made_up(min(count, 50), seed)
    return [
        Asked(k, q.passages, q.chat(), q.answer, q.at, q.passages[q.at].find(q.answer)) for k, q in enumerate(every)
    ]


def by_pathlens(model: Any, asked: Asked, **choices: Any) -> Reading:
    result = asked.explained(model, **choices)
    scores = result.source_scores
    passes, gap = result.certificate.passes, result.certificate.relative_gap
    if choices["method"] == "sig":
        result = pl.zoom(model, result, [result.names[asked.at]], inside="sentence")
        passes += result.certificate.passes
    inside = [u for u, owner in enumerate(result.owners) if owner == asked.at]
    return Reading(scores, result.matrix[:, inside].sum(0), passes, gap)


def spread(model: Any, asked: Asked, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the prompt's tokens, summed by source and by sentence of the right one."""
    prompt = asked.chat().prompt(model.tokenizer)
    offsets = model.tokenizer(prompt.text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    spans = [span for name, span in prompt.passages.items() if name.startswith("passage")]
    middle = np.array([(start + end) / 2 for start, end in offsets])

    def total(low: int, high: int) -> float:
        return float(values[: len(middle)][(middle >= low) & (middle <= high)].sum())

    start = spans[asked.at][0]
    inside = [total(start + low, start + high) for low, high in sentence_spans(asked.sources[asked.at])]
    return np.array([total(*span) for span in spans]), np.array(inside)


def by_attention(model: Any, asked: Asked) -> Reading:
    prompt = asked.chat().prompt(model.tokenizer).text
    before = len(model.tokenizer(prompt, add_special_tokens=False)["input_ids"])
    ids = model.tokenizer(prompt + asked.answer, add_special_tokens=False, return_tensors="pt")["input_ids"]
    usual = model.module.config._attn_implementation
    model.module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            layers = model.module(input_ids=ids, output_attentions=True, use_cache=False).attentions
    finally:
        model.module.set_attn_implementation(usual)
    values = sum(layer[0, :, before - 1 : -1].mean((0, 1)) for layer in layers) / len(layers)
    return Reading(*spread(model, asked, values.double().numpy()), 1)


def by_inseq(model: Any, asked: Asked) -> Reading:
    """Input × gradient as inseq gives it: token scores of every output token, L2 norms by its default aggregation."""
    import inseq

    prompt = asked.chat().prompt(model.tokenizer).text
    peer = inseq.load_model(model.module, "input_x_gradient", tokenizer=model.tokenizer)
    out = peer.attribute(prompt, prompt + asked.answer, show_progress=False)
    table = out.sequence_attributions[0].target_attributions
    values = table.norm(dim=-1) if table.ndim == 3 else table
    values = torch.nan_to_num(values).sum(1).double().numpy()
    return Reading(*spread(model, asked, values), len(model.tokenizer(asked.answer)["input_ids"]))


def by_context_cite(model: Any, asked: Asked) -> Reading:
    """Its Lasso over 64 random subsets of the contexts; sentences of the right one are not asked for."""
    from context_cite import ContextCiter
    from context_cite.context_partitioner import BaseContextPartitioner

    class Contexts(BaseContextPartitioner):
        num_sources = property(lambda self: len(asked.sources))

        def split_context(self) -> None: ...

        def get_source(self, index: int) -> str:
            return asked.sources[index]

        def get_context(self, mask: Any = None) -> str:
            kept = [t for k, t in enumerate(asked.sources) if mask is None or mask[k]]
            return "\n\n".join(kept)

    whole = "\n\n".join(asked.sources)
    citer = ContextCiter(
        model.module, model.tokenizer, whole, str(asked.question), partitioner=Contexts(whole),
        prompt_template="{context}\n\n{query}",
    )  # fmt: skip
    _, prompt = citer._get_prompt_ids(return_prompt=True)
    citer._cache["output"] = prompt + asked.answer  # a given answer in place of a generated one
    scores = np.asarray(citer.get_attributions(as_dataframe=False, verbose=False), dtype=float)
    return Reading(scores, np.zeros(0), citer.num_ablations)


CONTENDERS: dict[str, Callable[[Any, Asked], Reading]] = {
    "secant": lambda model, asked: by_pathlens(model, asked, method="secant"),
    "sig": lambda model, asked: by_pathlens(model, asked, method="sig", unit="source"),
    "gradient × input": lambda model, asked: by_pathlens(model, asked, method="ig", rule="right", n_steps=1),
    "ig": lambda model, asked: by_pathlens(model, asked, method="ig", rule="gauss", n_steps=NODES),
    "attention": by_attention,
    **({"inseq": by_inseq} if find_spec("inseq") else {}),
    **({"context-cite": by_context_cite} if find_spec("context_cite") else {}),
}
SETS = {"xquad": xquad, "passages": passages}


def row_of(model: Any, which: str, asked: Asked, method: str) -> dict[str, Any]:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row says how far an integral is off
        results = CONTENDERS[method](model, asked)
    return {
        "set": which,
        "number": asked.number,
        "method": method,
        "at": asked.at,
        "first": bool(np.argmax(results.scores) == asked.at),
        "sentence": bool(np.argmax(results.sentences) == asked.sentence()) if len(results.sentences) else None,
        "scores": results.scores.round(5).tolist(),
        "sentences": results.sentences.round(5).tolist(),
        "passes": results.passes,
        "relative_gap": results.relative_gap,
        "seconds": round(time.process_time() - started, 2),
        "answer": asked.answer,
    }


def read_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def run(given: argparse.Namespace) -> None:
    seen = {(row["set"], row["number"], row["method"]) for row in read_rows()}
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    model, started = load(given.model), time.monotonic()
    with ROWS.open("a", encoding="utf-8") as stream:
        for which in given.sets:
            for asked in SETS[which](given.questions):
                for method in given.methods:
                    if (which, asked.number, method) in seen or time.monotonic() - started > 60 * given.minutes:
                        continue
                    row = row_of(model, which, asked, method)
                    stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                    stream.flush()
                    print(which, asked.number, method, row["first"], row["sentence"], row["seconds"], flush=True)


def share(hits: list[bool]) -> str:
    low, high = wilson(sum(hits), len(hits))
    return f"{sum(hits)} of {len(hits)} [{low:.2f}, {high:.2f}]" if hits else "–"


def tables() -> Iterator[str]:
    rows = read_rows()
    for which in SETS:
        mine = [row for row in rows if row["set"] == which]
        used = {
            row["number"]
            for row in mine
            if row["method"] == "sig" and row["first"] and row["scores"][row["at"]] >= USED
        }
        yield f"\n{which}: the model used its source, by sig, in {len(used)} questions\n"
        yield "| method | right source first | where it was used | right sentence in it | CPU s | passes | worst relative gap |"
        yield "|---|---|---|---|---|---|---|"
        for method in CONTENDERS:
            of_method = [row for row in mine if row["method"] == method]
            if of_method:
                inside = [row["sentence"] for row in of_method if row["sentence"] is not None]
                gaps = [row["relative_gap"] for row in of_method if row["relative_gap"] is not None]
                cells = [method, share([row["first"] for row in of_method])]
                cells += [share([row["first"] for row in of_method if row["number"] in used]), share(inside)]
                cells += [f"{np.median([row[name] for row in of_method]):.4g}" for name in ("seconds", "passes")]
                yield f"| {' | '.join([*cells, f'{max(gaps):.1e}' if gaps else ''])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("--model", default="smollm")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this long; a later run goes on")
    given = parser.parse_args()
    if given.what == "run":
        run(given)
    print("\n".join(tables()))


if __name__ == "__main__":
    main()
