"""Laws of the numbers: rules, paths, sums, packing, a slow twin, the round trip."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pathlens.doctor.examine import OTHER, Patient, language, left_out
from pathlens.doctor.record import FAILS, HOLDS
from pathlens.text.adapter import Case, Request, TextModel, Wrapped

Found = tuple[str, str, str]
ROUNDING = 2e-4  # relative to the largest score: float32 sums in another order
ADVICE_SUM = "raise max_nodes or n_steps, try baseline='pad' or 'mean', score='logprob', layer=1, or rule='split'"


def judged(size: float, limit: float, words: str, advice: str) -> Found:
    """Holds when `size` is at most `limit`."""
    said = f"{words} ({size:.1e}, allowed {limit:.1e})"
    return (HOLDS, said, "") if size <= limit else (FAILS, said, advice)


def case_of(patient: Patient, **choices: Any) -> Case:
    """The patient's text as a case."""
    return patient.subject.case(patient.text, patient.text_b, request=Request(**choices))


def rules(patient: Patient) -> Found:
    """Weights sum to 1, and to the stated degree a polynomial is exact."""
    from pathlens.quadrature import gauss, log_weight

    nodes, log = gauss(16), log_weight(16)
    worst = max(abs(float(nodes.weight @ nodes.t**k) - 1 / (k + 1)) for k in range(31))
    worst = max(worst, *(abs(float(log.weight @ log.t**k) - 1 / (k + 1) ** 2) for k in range(31)))
    return judged(worst, 1e-12, "Gauss rules integrate polynomials of degree 30", "reinstall numpy")


def paths(patient: Patient) -> Found:
    """Every path starts at the baseline, ends at the text, and held tokens never move."""
    from pathlens.path.line import line
    from pathlens.path.staircase import prefix, staircase

    with patient.model.quiet():
        ends = case_of(patient).ends
    units = torch.eye(len(ends.end), dtype=torch.bool)
    routes = {"line": line(ends), "prefix": prefix(ends, units), "staircase": staircase(ends, units, 2)}
    routes |= _word_routes(patient, ends, units)
    worst = 0.0
    for route in routes.values():
        first, last = (route.corner(int(i)) for i in (route.legs[0, 0], route.legs[-1, 1]))
        worst = max(worst, float((first - ends.start).abs().max()), float((last - ends.end).abs().max()))
        if ends.held.any():
            corners = [route.corner(i)[ends.held] for i in range(route.corners)]
            worst = max(worst, *(float((corner - ends.end[ends.held]).abs().max()) for corner in corners))
    return judged(worst, 1e-6, f"{', '.join(routes)} join baseline and text, held tokens rest", "report this")


def _word_routes(patient: Patient, ends: Any, units: torch.Tensor) -> dict[str, Any]:
    """DIG's and UDIG's routes, short ones, where there is a vocabulary to walk through."""
    from pathlens.engine.methods import route_of
    from pathlens.engine.options import DIG, UDIG

    if ends.vocabulary is None:
        return {}
    few = min(20, len(ends.vocabulary.table))
    return {each.name: route_of(each(steps=4, neighbours=few), ends, units) for each in (DIG, UDIG)}


def completeness(patient: Patient) -> Found:
    """IG's scores sum to F(x) − F(b) within the certificate's own bound, and the nodes suffice."""
    result = patient.explain()
    proof = result.certificate
    said = (
        f"IG sums to {proof.total:.6g}, the output changes by {proof.f_input - proof.f_baseline:.6g}, with "
        f"{proof.nodes} nodes; largest error estimate {max(proof.error_estimate, default=0):.1e}"
    )
    return judged(proof.gap, proof.bound, said, "") if proof.converged else (FAILS, said, ADVICE_SUM)


def per_token(patient: Patient) -> Found:
    """SIG's score of a token is F(x) − F(x without it)."""
    result = patient.explain(method="sig")
    with patient.model.quiet(), torch.no_grad():
        case = case_of(patient)
        ends = case.ends
        whole = float(case.score(ends.end[None], [case])[0])
        worst = 0.0
        for i in range(min(len(ends.end), 6)):
            without = ends.end.clone()
            without[i] = ends.start[i]
            alone = whole - float(case.score(without[None], [case])[0])
            worst = max(worst, abs(alone - float(result.scores[i])))
    limit = ROUNDING * max(1.0, abs(whole))
    return judged(worst, limit, "SIG equals leaving each token out", "is dropout or another random part on?")


def linear(patient: Patient) -> Found:
    """On a linear function of this text's embeddings every rule is exact."""
    from pathlens.engine.explainer import Explainer

    with patient.model.quiet():
        case = case_of(patient)
    slope = torch.randn(case.ends.end.shape, generator=torch.Generator().manual_seed(0)).to(case.ends.end)
    flat = replace(case, score=lambda points, cases: (points * slope[: points.shape[1]]).sum((1, 2)), pack="linear")
    wanted = (case.ends.delta * slope).sum(-1).double().cpu().numpy()
    worst = 0.0
    for rule in ("gauss", "midpoint", "trapezoid", "left", "split"):
        given = _Given(patient.subject, flat)
        scores = Explainer(given, method="ig", rule=rule, n_steps=2)(patient.text).scores
        worst = max(worst, float(np.abs(scores - wanted).max()))
    limit = 1e-5 * max(1.0, float(np.abs(wanted).max()))
    return judged(worst, limit, "five rules with 2 nodes on a linear function", "report this")


def orders(patient: Patient) -> Found:
    """Second order, vectors and pairs sum to what the first order says."""
    said, worst = [], 0.0
    if patient.pair:
        pair = patient.explain(method="ij")
        worst = pair.certificate.gap
        said.append(f"IJ with its reference sums to the similarity {pair.similarity:.4f}")
        limit = patient.tolerance * max(abs(pair.similarity), 0.1)
    elif not _gives_vectors(patient):
        return left_out("this kind of model gives one number, no vector")
    else:
        vector = patient.explain(method="vaig")
        worst, limit = (
            vector.certificate.gap,
            max(vector.certificate.bound, patient.tolerance * vector.certificate.f_input),
        )
        said.append("VAIG's vectors sum to the change of the whole output")
    return judged(worst, max(limit, 1e-5), "; ".join(said), ADVICE_SUM)


def _gives_vectors(patient: Patient) -> bool:
    """Does the model kind answer a request for its whole output?"""
    with patient.model.quiet(), torch.no_grad():
        case = case_of(patient, vector=True)
        return case.score(case.ends.end[None], [case]).ndim == 3


def packing(patient: Patient) -> Found:
    """Alone = in a batch = in chunks of one = in another order."""
    if not isinstance(patient.text, str):
        return left_out("one given input: there is nothing to pack with it")
    near = f"{patient.text} Indeed."  # nearly as long, so that both share batches and one is padded
    alone, batch = patient.explain().scores, patient.explain([near, patient.text])[1].scores
    fixed = {"n_steps": 8, "rule": "gauss"}
    usual = patient.explain(**fixed).scores
    turned = patient.explain([patient.text, OTHER, near], **fixed)[0].scores
    single = patient.explain(internal_batch_size=1, **fixed).scores
    worst = float(np.abs(alone - batch).max())
    worst = max(worst, *(float(np.abs(usual - each).max()) for each in (turned, single)))
    size = float(np.abs(alone).max())
    limit = max(ROUNDING * max(1.0, size), patient.tolerance * size)
    return judged(worst, limit, "alone, in a batch, in another order and row by row agree",
                  "the model mixes rows or looks at padding: explain with internal_batch_size=1")  # fmt: skip


def padding(patient: Patient) -> Found:
    """The output of a text does not change when it is padded for a batch."""
    if language(patient) is None:
        return left_out("this kind of model is never padded")
    with patient.model.quiet(), torch.no_grad():
        case = case_of(patient)
        alone = float(case.score(case.ends.end[None], [case])[0])
        wide = torch.nn.functional.pad(case.ends.end, (0, 0, 0, 7))
        padded = float(case.score(wide[None], [case])[0])
    return judged(abs(alone - padded), ROUNDING * max(1.0, abs(alone)), "7 padded positions change nothing",
                  "the model ignores its attention mask: explain one text at a time")  # fmt: skip


def entrance(patient: Patient) -> Found:
    """Entering by embeddings gives the output that entering by ids gives."""
    model = language(patient)
    if model is None:
        return left_out("this kind of model has no ids")
    with model.quiet(), torch.no_grad():
        case = case_of(patient)
        context = {name: value[None] for name, value in case.context.items()}
        by_rows = model.network.call(case.ends.end[None], context)
        ids = torch.tensor([case.ends.ids], device=case.ends.end.device) if case.ends.ids else None
        if ids is None:
            return left_out("the text has rows that are no words")
        known = {name: value for name, value in context.items() if name in model.network.accepts}
        by_ids = model.network.module(input_ids=ids, **known)
    first, second = (_tensor(output) for output in (by_ids, by_rows))
    size = float((first - second).abs().max()) / max(1.0, float(first.abs().max()))
    return judged(size, ROUNDING, "inputs_embeds and input_ids give the same output",
                  "the model changes its embeddings after the lookup; write a model kind (docs/extending.md)")  # fmt: skip


def twin(patient: Patient) -> Found:
    """IG with 8 Gauss nodes equals the paper's sum, written out as a loop."""
    from pathlens.quadrature import gauss

    fast = patient.explain(n_steps=8, rule="gauss").scores
    with patient.model.quiet():
        case = case_of(patient)
        total = torch.zeros(len(case), dtype=torch.float64)
        for t, weight in zip(*(getattr(gauss(8), name) for name in ("t", "weight")), strict=True):
            point = (case.ends.start + float(t) * case.ends.delta)[None].detach().requires_grad_()
            with torch.enable_grad():
                (slope,) = torch.autograd.grad(case.score(point, [case]).sum(), point)
            total += float(weight) * (slope[0] * case.ends.delta).sum(-1).double().cpu()
    worst = float(np.abs(fast - total.numpy()).max())
    return judged(worst, ROUNDING * max(1.0, float(np.abs(fast).max())), "the engine equals a plain loop",
                  "the model keeps state between calls: load it again")  # fmt: skip


def round_trip(patient: Patient) -> Found:
    """Saved and loaded, a result is the same to the last bit."""
    from pathlens.explanation.store import load

    result = patient.explain(n_steps=2, rule="gauss")
    with tempfile.TemporaryDirectory() as folder:
        again = load(result.save(Path(folder) / "result.json"))
        page = Path(folder) / "result.html"
        result.to_html(page)
        from_page = load(page)
    same = all(np.array_equal(result.scores, each.scores) for each in (again, from_page))
    return (
        (HOLDS, "JSON and page give the same numbers back", "") if same else (FAILS, "numbers changed", "report this")
    )


class _Given(Wrapped):
    """The model with one prepared case for every text."""

    def __init__(self, model: TextModel, case: Case) -> None:
        super().__init__(model)
        self.prepared = case

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        return self.prepared


def _tensor(output: Any) -> torch.Tensor:
    for name in ("logits", "start_logits", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    return output[0] if isinstance(output, tuple) else output


LAWS = (
    ("1 rules", rules),
    ("2 paths", paths),
    ("3 completeness", completeness),
    ("3 completeness per token", per_token),
    ("4 linear model", linear),
    ("5 orders agree", orders),
    ("6 batch = single", packing),
    ("6 padding", padding),
    ("6 entrance by embeddings", entrance),
    ("7 slow twin", twin),
    ("9 round trip", round_trip),
)
