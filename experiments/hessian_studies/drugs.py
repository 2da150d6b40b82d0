"""A drug-combination analogue: planted synergies and antagonisms, some of them switched by a pathway.

200 patients × 50 pairs of 40 drugs; a row is two-hot over drugs plus 60 expression features in 6 pathways. Each
patient's pairs are drawn from a pool of 200 (with 50 pairs for all patients, 40 single effects explain nearly every
pair effect, and no method could tell them apart). 30 of the pool interact, half of them synergistically; 6 of the 30
do so in proportion to the mean of one pathway.
Passes when |Γ| finds planted pairs with AUC ≥ .9, the sign agrees in ≥ .95, and ≥ 5 of 6 pathways are recovered.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.hessian_studies.nets import Many, error_of, train
from experiments.hessian_studies.writing import Folder
from pathlens.integrand import Batch, Hessian
from pathlens.quadrature import rule

DRUGS, GENES, PATHWAYS, POOL, PLANTED, SWITCHED = 40, 60, 6, 200, 30, 6


@dataclass(frozen=True)
class Trial:
    """x (N, 100), y (N,), and per row which pair it holds; strengths of the pairs, and who switches them."""

    x: Tensor
    y: Tensor
    pair: Tensor  # (N,) index into `pairs`
    pairs: np.ndarray  # (200, 2)
    strength: np.ndarray  # (200,) 0 where nothing was planted
    pathway: np.ndarray  # (200,) −1 where no pathway switches
    activity: np.ndarray  # (N, 6) mean of each pathway's genes


def simulate(seed: int, patients: int) -> Trial:
    rng = np.random.default_rng(seed)
    every = np.array(list(combinations(range(DRUGS), 2)))
    pairs = every[rng.choice(len(every), POOL, replace=False)]
    strength, pathway = np.zeros(POOL), np.full(POOL, -1)
    strength[:PLANTED] = np.where(np.arange(PLANTED) % 2, -1.0, 1.0) * rng.uniform(1.0, 2.0, PLANTED)
    pathway[:SWITCHED] = rng.permutation(PATHWAYS)
    tone = rng.normal(size=(patients, PATHWAYS))
    genes = 0.7 * np.repeat(tone, GENES // PATHWAYS, axis=1) + 0.7 * rng.normal(size=(patients, GENES))
    activity = genes.reshape(patients, PATHWAYS, -1).mean(2)
    alone, drift = 0.5 * rng.normal(size=DRUGS), 0.1 * rng.normal(size=GENES)
    who = np.repeat(np.arange(patients), 50)
    which = np.concatenate([rng.choice(POOL, 50, replace=False) for _ in range(patients)])
    x = np.zeros((len(who), DRUGS + GENES))
    x[np.arange(len(who)), pairs[which, 0]] = 1
    x[np.arange(len(who)), pairs[which, 1]] = 1
    x[:, DRUGS:] = genes[who]
    switch = np.where(pathway[which] >= 0, 1 + 1.5 * activity[who, pathway[which]], 1.0)
    y = x[:, :DRUGS] @ alone + genes[who] @ drift + strength[which] * switch + 0.1 * rng.normal(size=len(who))
    order = rng.permutation(len(who))
    tensor = lambda a: torch.tensor(a[order], dtype=torch.float32)  # noqa: E731
    return Trial(tensor(x), tensor(y), torch.tensor(which[order]), pairs, strength, pathway, activity[who][order])


def run(out: Path, *, quick: bool = False) -> None:
    folder = Folder(out, "drugs")
    trial = simulate(0, 40 if quick else 200)
    net = Many((DRUGS + GENES, 64, 64, 1), 1, seed=0, act=lambda x: functional.softplus(x, beta=10.0))
    cut = int(0.9 * len(trial.x))
    y = (trial.y - trial.y.mean())[None]
    net = train(net, trial.x[:cut], y[:, :cut], epochs=20 if quick else 40, rate=2e-3)
    error = float(error_of(net, trial.x[cut:], y[:, cut:]) / y.var())
    gamma = pair_interactions(net.one(0), trial)
    rows = [judge(k, gamma, trial) for k in range(POOL)]
    folder.table("pairs.csv", rows)
    planted = np.array([row["planted"] for row in rows])
    area = auc(np.abs([row["gamma"] for row in rows]), planted)
    agree = np.mean([np.sign(row["gamma"]) == np.sign(row["strength"]) for row in rows if row["planted"]])
    recovered = [row["recovered"] == row["pathway"] for row in rows if row["pathway"] >= 0]
    picture(folder, gamma, trial)
    good = area >= 0.9 and agree >= 0.95 and sum(recovered) >= 5
    folder.say(
        f"Test error of the net, as a share of the variance: {error:.3f}. AUC of |Γ| for planted pairs {area:.3f} (goal .9), "
        f"sign agreement {agree:.3f} (goal .95), switching pathway recovered in {sum(recovered)} of {len(recovered)} (goal 5 of 6): "
        f"{'all held' if good else 'NOT all held'}."
    )


def pair_interactions(net: nn.Module, trial: Trial, nodes: int = 16) -> np.ndarray:
    """Γ between the two drugs of every row; units are drug a, drug b and the genes, so one product a node is enough.

    The baseline has no drugs and the same genes: the genes do not move, they only set the stage.
    """
    a, b = (torch.tensor(trial.pairs[trial.pair.numpy(), side]) for side in (0, 1))
    start = trial.x.clone()
    start[:, :DRUGS] = 0
    members = torch.zeros(len(trial.x), 2, trial.x.shape[1])
    members[torch.arange(len(a)), 0, a] = 1
    members[torch.arange(len(b)), 1, b] = 1
    points, total = rule("log")(nodes), np.zeros(len(trial.x))
    for u, weight in zip(points.t, points.weight, strict=True):
        for rows in torch.arange(len(total)).split(4096):
            place = torch.lerp(start[rows], trial.x[rows], float(u))[..., None]
            step = (trial.x - start)[rows][..., None]
            t = torch.full((len(rows),), float(u), dtype=torch.float64)
            value = Hessian((0,))(Batch(lambda p: net(p[..., 0]), place, step, members[rows], t))
            total[rows.numpy()] += weight * value[:, 0, 1].numpy()
    return total


def judge(k: int, gamma: np.ndarray, trial: Trial) -> dict[str, object]:
    inside = trial.pair.numpy() == k
    link = [np.corrcoef(gamma[inside], trial.activity[inside, p])[0, 1] for p in range(PATHWAYS)]
    return {
        "pair": k,
        "planted": bool(trial.strength[k] != 0),
        "strength": float(trial.strength[k]),
        "gamma": float(gamma[inside].mean()),
        "spread": float(gamma[inside].std()),
        "pathway": int(trial.pathway[k]),
        "recovered": int(np.argmax(np.abs(link))),
        "correlation": float(np.max(np.abs(link))),
    }


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """The chance that a planted pair scores above one that is not."""
    above = score[label][:, None] - score[~label][None]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def picture(folder: Folder, gamma: np.ndarray, trial: Trial) -> None:
    from experiments import plots
    from pathlens.draw import canvas

    inside = trial.pair.numpy() == 0
    activity = trial.activity[inside, trial.pathway[0]]
    drawn = plots.dependence(activity, gamma[inside], f"activity of pathway {trial.pathway[0]}")
    canvas.save(drawn, folder.path("switched_pair.png"))
    means = {f"{a}×{b} ({s:+.1f})": float(gamma[trial.pair.numpy() == k].mean())
             for k, ((a, b), s) in enumerate(zip(trial.pairs[:30], trial.strength[:30], strict=True))}  # fmt: skip
    folder.bars("planted.png", means, "Mean Γ of the planted pairs (planted strength in brackets)")
