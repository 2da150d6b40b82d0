"""Exact Siamese encoders (Moeller, Nikolaev, Padó, EMNLP 2023): all-MiniLM-L6-v2 tuned with the shift in place.

    python experiments/train_exact_encoder.py --data ../shared/data --out out/exact

    e(x) = (e'(x) − e'(r)) / c        r = [CLS] [PAD] … [SEP] of the text's length, attended

is zero at its own reference, so the token × token matrix of `ij` sums to the prediction with nothing left over.
Three models by default: `shifted-cosine`, `plain-cosine` (the control: same tuning, no shift) and `shifted-dot`.
Loss: mean squared error of the similarity against score / 5, on STS-B train. c is 1 under the cosine and, under
the dot product, the mean length of the untuned shifted embeddings: a fixed number, so that tuning starts in range.

A LoRA on every linear layer is trained and written as plain float16 tensors (`<out>/<name>.safetensors`, a few
MB) with the shift, the scale and the figures in its header; `load_exact` gives the encoder back.
"""

import argparse
import csv
import json
import random
import sys
import time
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from safetensors.torch import save_file
from scipy.stats import spearmanr
from torch.nn.functional import cosine_similarity, mse_loss
from transformers import AutoModel, AutoTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.train_sentiment import TARGETS, base_folder, export, merge

MODELS = {  # name -> (shifted, similarity)
    "shifted-cosine": (True, "cosine"),
    "plain-cosine": (False, "cosine"),
    "shifted-dot": (True, "dot"),
}
MAX_LENGTH = 64


def read_stsb(folder, part):
    """[(sentence, sentence, score / 5)] of "train", "dev" or "test"."""
    with (Path(folder) / "stsbenchmark" / f"sts-{part}.csv").open(encoding="utf-8") as stream:
        rows = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row[5].strip(), row[6].strip(), float(row[4]) / 5) for row in rows]


class Encoder:
    """Mean-pooled embeddings of token ids, with or without the shift."""

    def __init__(self, model, tokenizer, shifted, scale=1.0):
        self.model, self.tokenizer, self.shifted, self.scale = model, tokenizer, shifted, scale

    def __call__(self, rows):
        """(B, k) for B lists of ids."""
        lengths = sorted({len(row) for row in rows}) if self.shifted else []
        blank, first, last = (self.tokenizer.pad_token_id, self.tokenizer.cls_token_id, self.tokenizer.sep_token_id)
        references = [[first, *[blank] * (n - 2), last] for n in lengths]
        pooled = self._pool([*rows, *references])
        if not self.shifted:
            return pooled / self.scale
        place = {n: len(rows) + i for i, n in enumerate(lengths)}
        return (pooled[: len(rows)] - pooled[[place[len(row)] for row in rows]]) / self.scale

    def _pool(self, rows):
        width = max(len(row) for row in rows)
        ids = torch.tensor([row + [self.tokenizer.pad_token_id] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def similarity(a, b, kind):
    return cosine_similarity(a, b) if kind == "cosine" else (a * b).sum(-1)


@torch.no_grad()
def spearman(encoder, pairs, kind, size=64):
    """Rank correlation of the model's similarities with the gold scores."""
    encoder.model.eval()
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    similarities = torch.zeros(len(pairs))
    for start in range(0, len(order), size):
        some = order[start : start + size]
        vectors = encoder([pairs[i][0] for i in some] + [pairs[i][1] for i in some])
        similarities[some] = similarity(vectors[: len(some)], vectors[len(some) :], kind)
    return float(spearmanr(similarities.numpy(), [gold for *_, gold in pairs]).statistic)


def batches(pairs, size, rng):
    """Shuffled batches of pairs of similar length: sorted within chunks of 20 batches."""
    pairs, out = list(pairs), []
    rng.shuffle(pairs)
    for start in range(0, len(pairs), 20 * size):
        chunk = sorted(pairs[start : start + 20 * size], key=lambda row: len(row[0]) + len(row[1]))
        out += [chunk[i : i + size] for i in range(0, len(chunk), size)]
    rng.shuffle(out)
    return out


def train(name, data, tokenizer, args):
    """One model: tuned, written, loaded back, measured."""
    shifted, kind = MODELS[name]
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    base = AutoModel.from_pretrained(base_folder(), dtype=torch.float32)
    encoder = Encoder(base, tokenizer, shifted)
    if kind == "dot":
        with torch.no_grad():
            encoder.scale = float(encoder([row[0] for row in data["train"][:64]]).norm(dim=1).mean())
    untuned = spearman(encoder, data["test"], kind)
    encoder.model = get_peft_model(base, LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=TARGETS))
    parameters = [p for p in encoder.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=args.lr, weight_decay=0.01)
    steps = args.epochs * -(-len(data["train"]) // args.batch)
    warmup = max(1, steps // 10)
    factor = [min((i + 1) / warmup, (steps - i) / max(1, steps - warmup)) for i in range(steps)] + [0.0]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor.__getitem__)
    start, losses = time.time(), []
    for _ in range(args.epochs):
        encoder.model.train()
        for batch in batches(data["train"], args.batch, rng):
            with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
                vectors = encoder([row[0] for row in batch] + [row[1] for row in batch])
            similarities = similarity(vectors[: len(batch)], vectors[len(batch) :], kind)
            loss = mse_loss(similarities, torch.tensor([gold for *_, gold in batch]))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if len(losses) % 60 == 0:
                mean = sum(losses[-60:]) / 60
                print(f"  {name} step {len(losses)}/{steps}  loss {mean:.4f}  {time.time() - start:.0f} s", flush=True)
    path = args.out / f"{name}.safetensors"
    header = {"format": "pathlens-exact-1", "shifted": json.dumps(shifted), "similarity": kind}
    header |= {"scale": repr(encoder.scale), "epochs": str(args.epochs), "seed": str(args.seed)}
    tensors = export(encoder.model)
    save_file(tensors, path, header)
    encoder.model = merge(AutoModel.from_pretrained(base_folder(), dtype=torch.float32), read(path)[0])
    figures = {part: spearman(encoder, data[part], kind) for part in ("dev", "test")}
    save_file(tensors, path, header | {f"spearman_{part}": f"{value:.4f}" for part, value in figures.items()})
    row = {"model": name, "untuned_test": untuned, **figures, "seconds": time.time() - start}
    print(json.dumps(row), flush=True)
    return row


def read(path):
    """(tensors, header) of a written adapter."""
    with safe_open(str(path), framework="pt") as stream:
        return {key: stream.get_tensor(key) for key in stream.keys()}, stream.metadata()  # noqa: SIM118


def load_exact(path):
    """A written adapter → the encoder `pl.explain` takes: `Shifted` around MiniLM, or MiniLM alone (the control)."""
    from sentence_transformers import SentenceTransformer

    from pathlens.text.sentence import SentenceTransformerEncoder
    from pathlens.text.shifted import Shifted

    tensors, header = read(path)
    model = SentenceTransformer(str(base_folder()), device="cpu")
    merge(model[0].auto_model, tensors)
    encoder = SentenceTransformerEncoder(model, name=Path(path).stem)
    return Shifted(encoder, scale=float(header["scale"])) if json.loads(header["shifted"]) else encoder


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="holds stsbenchmark/")
    parser.add_argument("--out", type=Path, default=Path("out/exact"))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="for training")
    parser.add_argument("--limit", type=int, help="this many pairs of every part only, to try the script")
    return parser.parse_args()


def main():
    args = arguments()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(base_folder())

    def encode(text):
        return tokenizer(text, truncation=True, max_length=MAX_LENGTH)["input_ids"]

    data = {}
    for part in ("train", "dev", "test"):
        rows = read_stsb(args.data, part)[: args.limit]
        data[part] = [(encode(a), encode(b), gold) for a, b, gold in rows]
    print(f"{len(data['train'])} pairs to train on, {len(data['test'])} to test on")
    plain = Encoder(AutoModel.from_pretrained(base_folder(), dtype=torch.float32), tokenizer, shifted=False)
    print(f"off the shelf, cosine: {spearman(plain, data['test'], 'cosine'):.4f}", flush=True)
    rows = [train(name, data, tokenizer, args) for name in args.models]
    with (args.out / "spearman.csv").open("a", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
