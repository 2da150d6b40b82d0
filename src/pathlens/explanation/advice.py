"""The warning for results that did not meet their tolerance: how far they are off, and the ways out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from pathlens.errors import ConvergenceWarning
from pathlens.explanation.record import Result
from pathlens.path.words.record import WordPath


def warn_unsettled(results: Sequence[Result]) -> None:
    loose = [result for result in results if not result.certificate.converged]
    if not loose:
        return
    worst = max(loose, key=lambda result: result.certificate.relative_gap)
    cert = worst.certificate
    many = f"{len(loose)} of {len(results)} results have" if len(results) > 1 else "the result has"
    largest = max(cert.error_estimate, default=0.0)
    ways = "another baseline (baseline='pad' or 'mean'), score='logprob', a deeper layer (layer=1), a looser tolerance, or rule='split'"
    if "score" in worst.meta and "outputs" in worst.meta:
        ways = generators_ways(worst)
    if isinstance(getattr(worst, "path", None), WordPath):  # it lives at the embeddings, and has its own way
        ways = "leave rule and n_steps out (nodes are then placed where they are needed), another baseline, or a looser tolerance"
    if worst.method == "ih":  # it has the straight line alone, and nodes of its own
        ways = (
            "leave n_steps out (nodes are then placed where they are needed), another baseline, score='logprob', a deeper "
            "layer (layer=1), a looser tolerance, or, for a model with ReLU, softplus=10"
        )
    warnings.warn(
        f"{many} not settled within tolerance {cert.tolerance:g} (gap {cert.gap:.2g}, largest error estimate {largest:.2g}, "
        f"{cert.nodes} nodes). Ways out: raise max_nodes or n_steps, {ways}.{_precision(worst)}",
        ConvergenceWarning,
        stacklevel=4,
    )


def generators_ways(result: Result) -> str:
    """What helps on a decoder and was not done yet (docs/generation.md); `sig` always does, it has no integral."""
    meta = result.meta
    deeper = next((layer for layer in (1, 2, 4) if layer > int(meta.get("layer", 0))), int(meta.get("layer", 0)) + 1)
    ways = [f"layer={deeper}"]
    if meta.get("score") != "logprob":
        ways.append("score='logprob'")
    if "sink" not in meta and meta.get("kind") == "causal language model":
        ways.append("a held first token (leave sink=None out)")
    if meta.get("baseline") != "mean":
        ways.append("baseline='mean'")
    return ", ".join([*ways, "a looser tolerance, or method='sig' (differences of outputs, exact)"])


def _precision(result: Result) -> str:
    dtype = result.meta.get("dtype", "")
    if dtype not in ("float16", "bfloat16"):
        return ""
    return (
        f" The model runs in {dtype}, whose rounding alone can exceed the tolerance: load it with dtype=torch.float32."
    )
