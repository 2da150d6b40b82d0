"""Real tables: scikit-learn's breast cancer, and Cleveland heart disease where its file is given (--heart).

Expected gradients and expected Hessians, background = training rows. Asked: are features that measure the same
thing redundant (negative interactions where their own effects agree)? Does maximal heart rate × sex flip its sign?
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from experiments.hessian_studies.nets import Many, Single, table_interactions
from experiments.hessian_studies.writing import Folder


@dataclass(frozen=True)
class Table:
    name: str
    features: list[str]
    raw: np.ndarray  # (N, F)
    label: np.ndarray  # (N,) 0 or 1


def run(out: Path, *, quick: bool = False, heart: Path | None = None) -> None:
    folder = Folder(out, "tabular")
    lines = [study(folder, breast_cancer(), quick=quick)]
    if heart is not None and heart.exists():
        lines.append(study(folder, heart_disease(heart), quick=quick))
    else:
        lines.append(
            "Heart disease was not run: its file ships in the orange3 package (Orange/datasets/heart_disease.tab); "
            "install it elsewhere with pip install --no-deps --target FOLDER orange3 and pass --heart FILE."
        )
    folder.say("\n\n".join(lines))


def breast_cancer() -> Table:
    from sklearn.datasets import load_breast_cancer

    dataset = load_breast_cancer()
    return Table("breast cancer", [str(name) for name in dataset.feature_names], dataset.data, 1 - dataset.target)


def heart_disease(file: Path) -> Table:
    """Orange's tab format: names, kinds, roles; numbers as they are, two-valued and ordered words as numbers."""
    import pandas

    frame = pandas.read_csv(file, sep="\t", skiprows=[1, 2]).dropna()
    label = frame.pop("diameter narrowing").astype(float).to_numpy()
    columns = {}
    for name, column in frame.items():
        if pandas.api.types.is_numeric_dtype(column):
            columns[name] = column.astype(float)
        elif column.nunique() == 2:
            columns[f"{name} = {sorted(column.unique())[1]}"] = (column == sorted(column.unique())[1]).astype(float)
        else:
            columns |= {f"{name} = {value}": (column == value).astype(float) for value in sorted(column.unique())}
    table = pandas.DataFrame(columns)
    return Table("heart disease", list(table.columns), table.to_numpy(float), (label > 0).astype(float))


def fit(x: torch.Tensor, y: torch.Tensor, seed: int = 0) -> Single:
    """F–32–16–1 with softplus (β = 10), logistic loss, weight decay."""
    net = Many((x.shape[1], 32, 16, 1), 1, seed=seed, act=lambda v: functional.softplus(v, beta=10.0))
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    for _ in range(300):
        loss = functional.binary_cross_entropy_with_logits(net(x[None])[0], y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.one(0)


def study(folder: Folder, table: Table, *, quick: bool) -> str:
    order = np.random.default_rng(0).permutation(len(table.raw))
    cut = int(0.8 * len(order))
    mean, spread = table.raw[order[:cut]].mean(0), table.raw[order[:cut]].std(0)
    x = torch.tensor((table.raw[order] - mean) / np.where(spread > 0, spread, 1), dtype=torch.float32)
    y = torch.tensor(table.label[order], dtype=torch.float32)
    net = fit(x[:cut], y[:cut])
    accuracy = float(((net(x[cut:]) > 0).float() == y[cut:]).float().mean())
    rows = x[: 60 if quick else 300]
    gamma = expected(net, rows, x[:cut], rounds=1 if quick else 6)
    scores = gamma.sum(2)
    tag = table.name.replace(" ", "_")
    np.savetxt(
        folder.path(f"{tag}_mean_interactions.csv"), gamma.mean(0), delimiter=",", header=",".join(table.features)
    )
    top = draw(folder, table, rows, gamma, scores, (table.raw[order])[: len(rows)], tag)
    words = [f"{table.name}: test accuracy {accuracy:.3f}; strongest pairs by mean |Γ|: {top}."]
    words.append(
        redundancy(table, gamma, scores)
        if table.name == "breast cancer"
        else heart_rate(table, gamma, table.raw[order])
    )
    return " ".join(words)


def expected(net: Single, rows: torch.Tensor, background: torch.Tensor, *, rounds: int, nodes: int = 16) -> np.ndarray:
    """Expected Hessians, (N, F, F): at every node and round another baseline, the same in both integrals."""
    draw = torch.Generator().manual_seed(0)
    total = 0
    for _ in range(rounds):
        starts = background[torch.randint(len(background), (nodes, len(rows)), generator=draw)]
        total = total + table_interactions(net, rows, starts, nodes=nodes)
    return (total / rounds).numpy()


def strongest(table: Table, gamma: np.ndarray, count: int = 5) -> list[tuple[int, int]]:
    size = np.abs(gamma).mean(0)
    i, j = np.triu_indices(len(table.features), 1)
    best = np.argsort(-size[i, j])[:count]
    return [(int(i[k]), int(j[k])) for k in best]


def draw(folder, table, rows, gamma, scores, raw, tag) -> str:
    from experiments import plots
    from pathlens.draw import canvas

    canvas.save(plots.summary(raw, scores, table.features, title=f"{table.name}: expected gradients"),
                 folder.path(f"{tag}_summary.png"))  # fmt: skip
    best = strongest(table, gamma)
    for number, (i, j) in enumerate(best[:2]):
        drawn = plots.dependence(
            raw[:, i], 2 * gamma[:, i, j], table.features[i], other=raw[:, j], other_name=table.features[j]
        )
        drawn.axes[0].set_ylabel(f"interaction with {table.features[j]}")
        canvas.save(drawn, folder.path(f"{tag}_dependence_{number + 1}.png"))
    return "; ".join(f"{table.features[i]} × {table.features[j]} {np.abs(gamma[:, i, j]).mean():.3f}" for i, j in best)


def redundancy(table: Table, gamma: np.ndarray, scores: np.ndarray) -> str:
    """Where two size features push the same way, does their interaction push back?"""
    size = [k for k, name in enumerate(table.features) if name.split()[-1] in ("radius", "perimeter", "area")]
    rest = [k for k in range(len(table.features)) if k not in size]

    def share(group: list[int]) -> float:
        i, j = (np.array(side) for side in zip(*[(a, b) for a in group for b in group if a < b], strict=True))
        same = np.sign(scores[:, i]) == np.sign(scores[:, j])
        against = np.sign(gamma[:, i, j]) == -np.sign(scores[:, i])
        return float(against[same].mean())

    return (
        f"Where two features' scores agree in sign, their interaction pushes the other way in {share(size):.2f} of the cases "
        f"among the 9 size features and {share(rest):.2f} among the others (0.5: no redundancy)."
    )


def heart_rate(table: Table, gamma: np.ndarray, raw: np.ndarray) -> str:
    i = table.features.index("max HR")
    j = next(k for k, name in enumerate(table.features) if name.startswith("gender"))
    rate, male, strength = raw[: len(gamma), i], raw[: len(gamma), j] > 0, gamma[:, i, j]
    parts = []
    for low, high in ((0, 130), (130, 150), (150, 160), (160, 175), (175, 300)):
        inside = (rate >= low) & (rate < high) & male
        parts.append(
            f"{low}–{high}: {strength[inside].mean():+.4f} ({inside.sum()})" if inside.any() else f"{low}–{high}: none"
        )
    return f"Max HR × sex, mean Γ of men by heart rate (rows): {', '.join(parts)}."
