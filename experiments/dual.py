"""Image and text: a tiny CLIP trained on drawn scenes, and whether its explanations point at the named object.

    python experiments/dual.py --out out/dual [--quick]

Scenes: two coloured shapes in different cells of a 3 × 3 grid; captions "a red circle and a blue square". CLIP's
architecture with a 2-layer ViT (6 × 6 patches) and a 2-layer text transformer, trained contrastively in a minute or
two. Then, on scenes drawn with another seed, for each named object (its colour and shape words together):
strongest patch inside its box; share of the positive attribution inside the box against the box's area; share of
the negative attribution that lies on the other object; and, with the two colours swapped in the caption, how often
the colour word's sum over the box falls. Writes a CSV, a picture and findings.txt.
"""

import argparse
import csv
import random
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast

import pathlens as pl

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square", "triangle")
SIZE, CELL, PATCH = 48, 16, 8
KINDS = list(product(COLOURS, SHAPES))


def tokenizer():
    words = ["<pad>", "<unk>", "<start>", "<end>", "a", "and", *COLOURS, *SHAPES]
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("<start>", 2), ("<end>", 3)]
    core.post_processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=special)
    named = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<start>", "eos_token": "<end>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **named)


def build(words):
    common = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {
        **common,
        "vocab_size": words,
        "max_position_embeddings": 12,
        "eos_token_id": 3,
        "bos_token_id": 2,
        "pad_token_id": 0,
    }
    vision = {**common, "image_size": SIZE, "patch_size": PATCH}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=32))


def scene(rng):
    """(pixels (3, 48, 48), [(colour, shape, cell), (colour, shape, cell)])."""
    kinds, cells = rng.sample(KINDS, 2), rng.sample(range(9), 2)
    image = Image.new("RGB", (SIZE, SIZE), "white")
    pen = ImageDraw.Draw(image)
    for (colour, shape), cell in zip(kinds, cells, strict=True):
        x, y = CELL * (cell % 3) + 1, CELL * (cell // 3) + 1
        box = (x, y, x + CELL - 3, y + CELL - 3)
        if shape == "circle":
            pen.ellipse(box, fill=colour)
        elif shape == "square":
            pen.rectangle(box, fill=colour)
        else:
            pen.polygon([(x, y + CELL - 3), (x + CELL - 3, y + CELL - 3), (x + CELL // 2, y)], fill=colour)
    pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 127.5 - 1
    return 1 - pixels, [(*kind, cell) for kind, cell in zip(kinds, cells, strict=True)]  # white is zero, the baseline


def caption(objects):
    return " and ".join(f"a {colour} {shape}" for colour, shape, *_ in objects)


def train(steps, seed):
    torch.manual_seed(seed)
    rng, words = random.Random(seed), tokenizer()
    model = build(len(words)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for step in range(1, steps + 1):
        seen, batch = set(), []
        while len(batch) < 48:
            pixels, objects = scene(rng)
            key = frozenset((colour, shape) for colour, shape, _ in objects)
            if key not in seen:  # no scene in a batch fits another's caption
                seen.add(key)
                batch.append((pixels, caption(objects)))
        ids = words([text for _, text in batch], return_tensors="pt", padding=True)["input_ids"]
        loss = model(pixel_values=torch.stack([p for p, _ in batch]), input_ids=ids, return_loss=True).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 200 == 0:
            print(f"  step {step}/{steps}  loss {loss.item():.3f}", flush=True)
    return model.eval(), words


def box_of(cell):
    """(6, 6) patches of a cell: four of them."""
    inside = np.zeros((SIZE // PATCH, SIZE // PATCH), dtype=bool)
    side = CELL // PATCH
    inside[side * (cell // 3) : side * (cell // 3 + 1), side * (cell % 3) : side * (cell % 3 + 1)] = True
    return inside


def measure(dual, rng):
    """One row per named object of one scene."""
    pixels, objects = scene(rng)
    side = SIZE // PATCH
    (c0, s0, _), (c1, s1, _) = objects
    swapped = f"a {c1} {s0} and a {c0} {s1}"
    upright, turned = pl.Explainer(dual, method="ij", tolerance=5e-3)([pixels, pixels], [caption(objects), swapped])
    rows = []
    for number, (_, _, cell) in enumerate(objects):
        words = (2, 3) if number == 0 else (6, 7)  # <start> a COLOUR SHAPE and a COLOUR SHAPE <end>
        patches = upright.matrix[1:, list(words)].sum(1).reshape(side, side)
        inside, other = box_of(cell), box_of(objects[1 - number][2])
        positive, negative = np.clip(patches, 0, None), np.clip(-patches, 0, None)
        colour = upright.matrix[1:, words[0]].reshape(side, side)[inside].sum()
        wrong = turned.matrix[1:, words[0]].reshape(side, side)[inside].sum()
        rows.append(
            {
                "inside": bool(inside[np.unravel_index(patches.argmax(), patches.shape)]),
                "energy": float(positive[inside].sum() / max(positive.sum(), 1e-12)),
                "area": float(inside.mean()),
                "negative_on_other": float(negative[other].sum() / max(negative.sum(), 1e-12)),
                "falls": bool(wrong < colour),
                "flips": bool(colour > 0 > wrong),
                "gap": upright.certificate.gap,
                "similarity": upright.similarity,
                "swapped_similarity": turned.similarity,
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/dual"))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--scenes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="300 steps, 20 scenes")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    model, words = train(300 if args.quick else args.steps, args.seed)
    dual = pl.DualEncoder.clip(model, words)
    rng = random.Random(args.seed + 1000)
    rows = [row for _ in range(20 if args.quick else args.scenes) for row in measure(dual, rng)]
    with (args.out / "scenes.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    text = (
        f"{len(rows)} named objects: strongest patch inside the object {mean['inside']:.0%} (area {mean['area']:.0%}); "
        f"positive attribution inside {mean['energy']:.0%}; negative attribution on the other object "
        f"{mean['negative_on_other']:.0%}; with colours swapped the colour word's sum over the object falls in "
        f"{mean['falls']:.0%} and turns from positive to negative in {mean['flips']:.0%}; similarity {mean['similarity']:.2f}, "
        f"swapped {mean['swapped_similarity']:.2f}; worst gap {max(row['gap'] for row in rows):.1e}"
    )
    print(text)
    (args.out / "findings.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
