"""What an attention block does, by vectors: contributions against attention weights, block by block of MiniLM.

For every block z → u of `minilm`, VAIG gives the vector c_{j←i} that input token i contributes to output token j.
This study asks, over sentences:

1. how well attention weights, and norm-weighted attention, rank the lengths ‖c_{j←i}‖ (Spearman, per layer);
2. how much of the contribution stays at the token's own position;
3. how far the chain of blocks, multiplied through as a roll-out, agrees with the whole model's own vectors.

    python experiments/blocks.py --data ../shared/data --out out/blocks [--texts 40]
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pathlens as pl
from experiments import plots
from pathlens.draw import canvas
from pathlens.text.block import find_block, record_call
from pathlens.text.load import load


def sentences(folder: Path, count: int, longest: int) -> list[str]:
    """First sentences of STS-B test pairs, every k-th, of at most `longest` words."""
    with (folder / "stsbenchmark" / "sts-test.csv").open(encoding="utf-8") as stream:
        candidates = [line.rstrip("\n").split("\t")[5] for line in stream]
    candidates = [text for text in dict.fromkeys(candidates) if 5 <= len(text.split()) <= longest]
    return candidates[:: max(1, len(candidates) // count)][:count]


def attention_of(model, layer: int, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Attention weights and norm-weighted attention, both (S, S), averaged or summed over heads.

    weight(j, i) = mean over heads of softmax(q_j · k_i / √d); norm(j, i) = ‖Σ over heads of weight · W_out v_i‖.
    """
    block = find_block(model.network, f"encoder.layer.{layer}.attention")
    tokens = model.tokenizer(text, return_tensors="pt")
    embeds = model.network.embed(tokens["input_ids"][0])
    context = {name: tokens[name] for name in ("attention_mask", "token_type_ids")}
    call = record_call(model.network, block, embeds, context, "attention")
    states = call.arguments["hidden_states"][:1]
    part, heads = block.self, block.self.num_attention_heads

    def split(layer: torch.nn.Module) -> torch.Tensor:
        return layer(states)[0].unflatten(-1, (heads, -1)).transpose(0, 1)  # (heads, S, width)

    with torch.no_grad():
        query, key, value = split(part.query), split(part.key), split(part.value)
        weight = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
        out = block.output.dense.weight.unflatten(1, (heads, -1))  # (d, heads, width)
        moved = torch.einsum("hiw,dhw->hid", value, out)
        summed = torch.einsum("hji,hid->jid", weight, moved)
    return weight.mean(0).numpy(), summed.norm(dim=-1).numpy()


def row_correlation(a: np.ndarray, b: np.ndarray, *, others_only: bool) -> float:
    """Mean over output tokens of the rank correlation across input tokens."""
    candidates = []
    for row in range(len(a)):
        keep = np.arange(len(a)) != row if others_only else np.ones(len(a), dtype=bool)
        value = spearmanr(a[row, keep], b[row, keep]).statistic
        candidates.append(0.0 if np.isnan(value) else value)
    return float(np.mean(candidates))


def study(model, text: str) -> tuple[list[dict[str, float]], dict[str, float]]:
    """One row per layer, and the roll-out's agreement, for one text."""
    rows, chain = [], None
    for layer in range(model.network.depth):
        name = f"encoder.layer.{layer}.attention"
        with torch.no_grad():
            block = pl.explain(model, text, method="vaig", block=name, baseline="mask")
            alone = pl.explain(model, text, method="vaig", block=f"{name}.self")
            whole = pl.explain(model, text, method="vaig", block=f"encoder.layer.{layer}")
        weight, normed = attention_of(model, layer, text)
        norms = block.norms
        rows.append(
            {
                "layer": layer,
                "weights_vs_block": row_correlation(weight, norms, others_only=True),
                "norm_weighted_vs_block": row_correlation(normed, norms, others_only=True),
                "weights_vs_attention": row_correlation(weight, alone.norms, others_only=False),
                "norm_weighted_vs_attention": row_correlation(normed, alone.norms, others_only=False),
                "own_share_block": float(np.trace(norms) / norms.sum()),
                "own_share_attention": float(np.trace(alone.norms) / alone.norms.sum()),
                "own_share_weights": float(np.trace(weight) / weight.sum()),
                "gap": block.certificate.relative_gap,
                "converged": float(block.certificate.converged and alone.certificate.converged),
            }
        )
        step = whole.norms / whole.norms.sum(1, keepdims=True)
        chain = step if chain is None else step @ chain
    vectors = pl.explain(model, text, method="vaig")
    inner = ~np.array(vectors.special)
    lengths = vectors.norms[0][inner]
    rolled = chain.mean(0)[inner]
    agreement = spearmanr(lengths, rolled).statistic if inner.sum() > 2 else np.nan
    top = float(np.argmax(lengths) == np.argmax(rolled))
    chance = 1 / inner.sum()
    return rows, {"rollout_spearman": float(agreement), "rollout_same_top": top, "chance_same_top": chance}


def interval(values: list[float], seed: int = 0) -> tuple[float, float, float]:
    """Mean with a 95 % bootstrap interval."""
    array = np.array([v for v in values if not np.isnan(v)])
    draws = np.random.default_rng(seed).choice(array, (2000, len(array))).mean(1)
    return float(array.mean()), *map(float, np.quantile(draws, [0.025, 0.975]))


def write(out: Path, table: list[list[dict[str, float]]], chains: list[dict[str, float]]) -> str:
    """CSV per layer and for the roll-out, two pictures, and what was found, in words."""
    out.mkdir(parents=True, exist_ok=True)
    layers = range(len(table[0]))
    measures = [name for name in table[0][0] if name != "layer"]
    means = {m: [interval([text[k][m] for text in table]) for k in layers] for m in measures}
    with (out / "blocks.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["layer", *(f"{m}{end}" for m in measures for end in ("", "_low", "_high"))])
        for k in layers:
            writer.writerow([k, *(f"{value:.4f}" for m in measures for value in means[m][k])])
    rollout = {name: interval([chain[name] for chain in chains]) for name in chains[0]}
    with (out / "rollout.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["measure", "mean", "low", "high"])
        writer.writerows([name, *(f"{v:.4f}" for v in value)] for name, value in rollout.items())
    pictures(out, means, list(layers))
    text = words(means, rollout, len(table))
    (out / "findings.txt").write_text(text, encoding="utf-8")
    return text


def pictures(out: Path, means: dict[str, list[tuple[float, float, float]]], layers: list[int]) -> None:
    for name, chosen in {
        "correlation": [
            "weights_vs_attention",
            "norm_weighted_vs_attention",
            "weights_vs_block",
            "norm_weighted_vs_block",
        ],
        "own_share": ["own_share_block", "own_share_attention", "own_share_weights"],
    }.items():
        lines = {label.replace("_", " "): [m[0] for m in means[label]] for label in chosen}
        drawn = plots.curve(
            layers, lines, xlabel="layer", ylabel=name.replace("_", " "), title="attention blocks of minilm"
        )
        canvas.save(drawn, out / f"{name}.png")


def words(means: dict, rollout: dict, texts: int) -> str:
    def over(name: str) -> str:
        values = [value[0] for value in means[name]]
        return f"{min(values):.2f} to {max(values):.2f}"

    agreement, low, high = rollout["rollout_spearman"]
    return (
        f"Over {texts} sentences and all layers: attention weights rank the lengths of the attention's own contributions "
        f"with Spearman {over('weights_vs_attention')}, norm-weighted attention with {over('norm_weighted_vs_attention')}. "
        f"For the block with its residual and normalisation, other positions only: {over('weights_vs_block')} and "
        f"{over('norm_weighted_vs_block')}. The share that stays at the own position is {over('own_share_block')} for the block, "
        f"{over('own_share_attention')} for the attention alone and {over('own_share_weights')} by attention weights. "
        f"The roll-out of block lengths agrees with the whole model's vectors at Spearman {agreement:.2f} "
        f"({low:.2f} to {high:.2f}); the strongest token is the same in {rollout['rollout_same_top'][0]:.0%} of sentences "
        f"(chance {rollout['chance_same_top'][0]:.0%}). Share of block integrals settled: "
        f"{np.mean([value[0] for value in means['converged']]):.1%}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("out/blocks"))
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--longest", type=int, default=14, help="words")
    parser.add_argument("--threads", type=int, default=1)
    choices = parser.parse_args()
    torch.set_num_threads(choices.threads)
    model = load("minilm")
    table, chains = [], []
    for number, text in enumerate(sentences(choices.data, choices.texts, choices.longest)):
        rows, chain = study(model, text)
        table.append(rows)
        chains.append(chain)
        print(f"{number + 1}: {text}", flush=True)
    print(write(choices.out, table, chains))


if __name__ == "__main__":
    main()
