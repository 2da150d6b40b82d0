"""Train a small question answerer: a span head and the top blocks of all-MiniLM-L6-v2, on part of XQuAD.

    python experiments/train_qa.py --data ../shared/data --out out/qa [--epochs 6]

XQuAD (English) is 1190 questions on 240 paragraphs of SQuAD's development set: far too little to learn to read, enough
for a model whose answers can be explained. Paragraphs, not questions, are held out (every fifth). Every passage is cut to
three sentences, one of which holds the answer (which one differs from question to question): that makes the task easier
and an explanation affordable. The script says how weak the model is all the same: exact match and F1 on the held-out
part, SQuAD's own measures, over cut passages. Nothing is chosen on the held-out part.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import cross_entropy

from pathlens.text.builtin import minilm_folder
from pathlens.text.heads import best_span

LONGEST = 256  # tokens; longer passages are left out
SENTENCES = 3  # kept of a passage


def read(data: Path) -> list[dict[str, Any]]:
    """Questions with their paragraph's number, context, answer and its first character."""
    body = json.loads((data / "squad" / "xquad.en.json").read_text(encoding="utf-8"))
    rows, number = [], 0
    for article in body["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answer = question["answers"][0]
                context, start = cut(paragraph["context"], answer["answer_start"], len(rows))
                if context[start : start + len(answer["text"])] != answer["text"]:
                    continue  # a few answers run over the cut
                rows.append({"paragraph": number, "question": question["question"], "context": context,
                             "answer": answer["text"], "start": start})  # fmt: skip
            number += 1
    return rows


def cut(passage: str, start: int, number: int) -> tuple[str, int]:
    """Three sentences around the answer, and where it starts there; question `number` decides how many come before."""
    bounds = [0, *(mark.end() for mark in re.finditer(r"[.!?]['\")]*\s+(?=[A-Z\"'(])", passage)), len(passage)]
    sentence = max(i for i, bound in enumerate(bounds[:-1]) if bound <= start)
    first = max(0, min(sentence - number % SENTENCES, len(bounds) - 1 - SENTENCES))
    low, high = bounds[first], bounds[min(first + SENTENCES, len(bounds) - 1)]
    return passage[low:high].rstrip(), start - low


def split(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every fifth paragraph is held out, with all its questions."""
    return [r for r in rows if r["paragraph"] % 5], [r for r in rows if not r["paragraph"] % 5]


def encode(tokenizer: Any, row: dict[str, Any]) -> dict[str, Any] | None:
    """Token ids with the answer's first and last token; None where it does not fit."""
    batch_encoding = tokenizer(row["question"], row["context"], return_offsets_mapping=True, verbose=False)
    if len(batch_encoding["input_ids"]) > LONGEST:
        return None
    first, last = row["start"], row["start"] + len(row["answer"])
    inside = [
        i for i, ((low, high), part) in enumerate(zip(batch_encoding["offset_mapping"], batch_encoding.sequence_ids(0), strict=True))
        if part == 1 and low < last and high > first
    ]  # fmt: skip
    if not inside:
        return None
    return {
        "ids": batch_encoding["input_ids"],
        "types": batch_encoding["token_type_ids"],
        "place": (inside[0], inside[-1]),
    }


def collate(batch: list[dict[str, Any]]) -> tuple[torch.Tensor, ...]:
    width = max(len(one["ids"]) for one in batch)
    pad = lambda name: torch.tensor([one[name] + [0] * (width - len(one[name])) for one in batch])  # noqa: E731
    mask = torch.tensor([[1] * len(one["ids"]) + [0] * (width - len(one["ids"])) for one in batch])
    return pad("ids"), pad("types"), mask, torch.tensor([one["place"] for one in batch])


def normalise(text: str) -> str:
    """SQuAD's: lower case, no punctuation, no articles, single blanks."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(reply: str, true: str) -> float:
    one, other = normalise(reply).split(), normalise(true).split()
    same = sum((Counter(one) & Counter(other)).values())
    return 2 * same / (len(one) + len(other)) if same else float(one == other)


@torch.no_grad()
def measure(model: Any, tokenizer: Any, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Exact match and F1, and how many questions were short enough."""
    model.eval()
    exact, overlap = [], []
    for row in rows:
        batch_encoding = tokenizer(
            row["question"], row["context"], return_offsets_mapping=True, return_tensors="pt", verbose=False
        )
        offsets = batch_encoding.pop("offset_mapping")[0].tolist()
        if batch_encoding["input_ids"].shape[1] > LONGEST:
            continue
        output = model(**batch_encoding)
        segments = [-1 if part is None else part for part in batch_encoding.sequence_ids(0)]
        start, end = best_span(output.start_logits[0], output.end_logits[0], segments)
        reply = row["context"][offsets[start][0] : offsets[end][1]]
        exact.append(normalise(reply) == normalise(row["answer"]))
        overlap.append(f1(reply, row["answer"]))
    count = len(exact)
    return {"questions": count, "exact_match": sum(exact) / count, "f1": sum(overlap) / count}


def train(model: Any, rows: list[dict[str, Any]], args: argparse.Namespace) -> tuple[int, float]:
    """A fixed number of steps with a falling learning rate (nothing hangs on the clock); the steps and the last loss."""
    rng, started = random.Random(args.seed), time.time()
    model.requires_grad_(False)
    for part in (*model.bert.encoder.layer[-args.blocks :], model.qa_outputs):
        part.requires_grad_(True)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.lr, weight_decay=0.01)
    steps = args.epochs * -(-len(rows) // args.batch)
    done, loss = 0, torch.tensor(0.0)
    model.train()
    for _ in range(args.epochs):
        order = sorted(rng.sample(rows, len(rows)), key=lambda one: len(one["ids"]) // 32)
        chunks = [order[i : i + args.batch] for i in range(0, len(order), args.batch)]
        rng.shuffle(chunks)
        for chunk in chunks:
            for group in optimizer.param_groups:
                group["lr"] = args.lr * min(1.0, (done + 1) / 20) * (1 - done / steps)
            ids, types, mask, place = collate(chunk)
            with torch.autocast("cpu", torch.bfloat16):
                output = model(input_ids=ids, token_type_ids=types, attention_mask=mask)
            loss = sum(
                cross_entropy(logits.float().masked_fill(mask == 0, -1e4), place[:, side])
                for side, logits in enumerate((output.start_logits, output.end_logits))
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            done += 1
            if done % 50 == 0:
                print(
                    f"  step {done}/{steps}  loss {float(loss.detach()):.3f}  {time.time() - started:.0f} s", flush=True
                )
    return done, float(loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="holds squad/")
    parser.add_argument("--out", type=Path, default=Path("out/qa"))
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--blocks", type=int, default=4, help="blocks trained, from the top")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(args.seed)
    folder = minilm_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertForQuestionAnswering.from_pretrained(folder, dtype=torch.float32)
    learned, held = split(read(args.data))
    encoded = [one for one in (encode(tokenizer, row) for row in learned) if one is not None]
    print(f"{len(encoded)} of {len(learned)} questions to train on, {len(held)} held out", flush=True)
    before = measure(model, tokenizer, held[:40])
    done, loss = train(model, encoded, args)
    args.out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    figures = {"held_out": measure(model, tokenizer, held), "untrained_head_first_40": before,
               "train_first_100": measure(model, tokenizer, learned[:100]),
               "steps": done, "last_loss": loss, "questions": len(encoded), "seed": args.seed}  # fmt: skip
    (args.out / "figures.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
