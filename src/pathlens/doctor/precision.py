"""Laws of the machine: attention kernels, number formats, second derivatives."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pathlens.doctor.examine import Patient, language, left_out
from pathlens.doctor.laws import ROUNDING, Found, case_of, judged
from pathlens.doctor.record import FAILS, HOLDS
from pathlens.errors import PathlensError
from pathlens.text.language import LanguageModel
from pathlens.text.network import Network

MOST_PARAMETERS = 400_000_000  # a copy of a larger model may not fit beside it
DRIFT = {"float64": 1e-3, "bfloat16": 0.15}  # of the largest score, against float32
SHORT = "not really funny"


def kernels(patient: Patient) -> Found:
    """The score does not depend on the attention kernel."""
    model = language(patient)
    if model is None:
        return left_out("no attention here")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    usual = patient.explain(n_steps=8, rule="gauss").scores
    found = {}
    with sdpa_kernel(SDPBackend.MATH):
        found["math"] = patient.explain(n_steps=8, rule="gauss").scores
    if hasattr(model.network.module, "set_attn_implementation"):
        with _attention(model.network.module, "eager"):
            found["eager"] = patient.explain(n_steps=8, rule="gauss").scores
    worst = max(float(np.abs(usual - each).max()) for each in found.values())
    limit = 5 * ROUNDING * max(1.0, float(np.abs(usual).max()))
    return judged(worst, limit, f"{' and '.join(found)} attention give the same scores",
                  "load the model with attn_implementation='eager'")  # fmt: skip


@contextmanager
def _attention(module: Any, name: str) -> Iterator[None]:
    before = getattr(module.config, "_attn_implementation", "sdpa")
    module.set_attn_implementation(name)
    try:
        yield
    finally:
        module.set_attn_implementation(before)


def drift(patient: Patient) -> Found:
    """How far scores move in other number formats."""
    model = language(patient)
    if model is None:
        return left_out("only for models made of a network and a tokenizer")
    if sum(p.numel() for p in model.whole().parameters()) > MOST_PARAMETERS:
        return left_out("the model is too large to copy; load it twice with dtype= and compare")
    usual = patient.explain(n_steps=8, rule="gauss").scores
    size = max(float(np.abs(usual).max()), 1e-6)
    own = str(model.network.dtype).removeprefix("torch.")
    moved, loose = {}, []
    for name, allowed in DRIFT.items():
        if name == own:
            continue
        try:
            scores = patient.explain(model=recast(model, getattr(torch, name)), n_steps=8, rule="gauss").scores
            moved[name] = float(np.abs(scores - usual).max()) / size
        except PathlensError as error:
            loose.append(f"{name}: {error}")
            continue
        if not moved[name] <= allowed:
            loose.append(f"{name} moves scores by {moved[name]:.0%}")
    said = f"from {own}, scores move by " + ", ".join(f"{v:.1e} in {k}" for k, v in moved.items())
    advice = "explain in float32 (load with dtype=torch.float32)" + (": " + "; ".join(loose) if loose else "")
    return (FAILS, said, advice) if loose else (HOLDS, said, "")


def recast(model: LanguageModel, dtype: torch.dtype) -> LanguageModel:
    """A copy of the model in another number format; the model itself is not touched."""
    if hasattr(model, "sentence_transformer"):
        return type(model)(copy.deepcopy(model.sentence_transformer).to(dtype), name=model.name)
    new = copy.copy(model)
    new.__dict__.pop("vocabulary", None)
    new.module = copy.deepcopy(model.module).to(dtype)
    new.network = Network(new.body(), new.whole())
    return new


def second(patient: Patient) -> Found:
    """Second derivatives exist, and rows of the interactions sum to IG."""
    text = SHORT if isinstance(patient.text, str) else patient.text
    try:
        result = patient.explain(text, method="ih")
    except PathlensError as error:
        return FAILS, str(error), "methods of the first order (ig, sig, vaig, ij) are not touched by this"
    proof = result.certificate
    rows = float(np.abs(np.nansum(result.matrix, axis=1) - result.scores).max())
    said = f"interactions of {len(result.tokens)} tokens, rows equal IG within {rows:.1e}, {proof.nodes} nodes"
    if proof.converged:
        return HOLDS, f"{said} (gap {proof.gap:.1e})", ""
    return FAILS, f"{said} (gap {proof.gap:.1e})", "ReLU inside? use softplus=…, or raise n_steps"


def finite(patient: Patient) -> Found:
    """No weight and no output is NaN."""
    model = language(patient)
    if model is None:
        return left_out("no weights to look at")
    from pathlens.text.network import check_weights

    check_weights(model.whole())
    with model.quiet():
        case_of(patient)
    return HOLDS, "weights and output are finite", ""


LAWS = (
    ("8 finite numbers", finite),
    ("8 attention kernels", kernels),
    ("8 precision drift", drift),
    ("5 second derivatives", second),
)
