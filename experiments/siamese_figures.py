"""Pictures of experiments/siamese.py."""

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt


def draw_errors(rows, path):
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
    for axis, name in zip(axes, dict.fromkeys(row["rule"] for row in rows), strict=True):
        for layer in range(6):
            members = [row for row in rows if row["layer"] == layer and row["rule"] == name]
            x, y = [r["nodes"] for r in members], [r["median_error"] for r in members]
            axis.loglog(x, y, "o-", markersize=3, color=plt.cm.viridis(layer / 5.5), label=f"layer {layer}")
        axis.set(title=name, xlabel="nodes")
        axis.set_xticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
        axis.minorticks_off()
    axes[0].set_ylabel(f"|sum − similarity|, median of {rows[0]['pairs']}")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_shares(shares, path):
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4))
    titles = {
        "of_prediction": "top 5 % / prediction",
        "of_positive": "top 5 % / positive mass",
        "negative": "share negative",
    }
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        for model in dict.fromkeys(row["model"] for row in shares):
            members = sorted((row for row in shares if row["model"] == model), key=lambda row: row["layer"])
            x, y = [row["layer"] for row in members], np.array([row[name] for row in members])
            low, high = (np.array([row[f"{name}_{end}"] for row in members]) for end in ("low", "high"))
            axis.errorbar(
                x, y, [np.maximum(y - low, 0), np.maximum(high - y, 0)], fmt="o-", markersize=3, capsize=2, label=model
            )
        axis.set(title=title, xlabel="layer")
        axis.set_ylim(bottom=0)
    axes[1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_curves(rows, title, path):
    """Cumulative share of the prediction against the top q % of token pairs, one line a layer."""
    figure, axis = plt.subplots(figsize=(5, 3.6))
    for layer in sorted({row["layer"] for row in rows}):
        members = [row for row in rows if row["layer"] == layer]
        x, y = [row["percent"] for row in members], [row["of_prediction"] for row in members]
        axis.plot(x, y, "o-", markersize=3, color=plt.cm.viridis(layer / 6.5), label=f"layer {layer}")
    axis.axhline(1.0, color="0.7", linewidth=0.8)
    axis.set(xscale="log", xlabel="top q % of token pairs", ylabel="share of the prediction", title=title)
    axis.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axis.minorticks_off()
    axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_relations(rows, steps, title, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    some = rows[:10][::-1]
    left.barh([r["relation"] for r in some], [r["share"] for r in some], label="top 5 %")
    left.plot([r["base"] for r in some], range(len(some)), "k|", markersize=12, label="all pairs")
    left.set(xlabel="share", title=title)
    left.legend(fontsize=7)
    right.plot([s["relations"] for s in steps], [s["spearman"] for s in steps], "o-")
    right.set(ylabel="Spearman with gold", title="only these relations summed")
    right.tick_params(axis="x", rotation=60, labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
