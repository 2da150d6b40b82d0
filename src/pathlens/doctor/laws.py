"""The laws: of the numbers (rules, paths, sums, packing, a slow twin) and of the machine (kernels, number formats)."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pathlens.doctor.patient import FAILS, HOLDS, Check, Law, Patient, left_out, within_limit
from pathlens.engine.methods import route_of
from pathlens.engine.options import DIG, UDIG
from pathlens.errors import ModelError, PathlensError, first_line
from pathlens.explanation.store import load
from pathlens.path.line import line
from pathlens.path.staircase import prefix, staircase
from pathlens.quadrature import gauss, log_weight
from pathlens.text.adapter import Altered, Case
from pathlens.text.language import LanguageModel
from pathlens.text.network import check_weights
from pathlens.text.options import GeneratorOptions
from pathlens.text.own_output import far
from pathlens.types import RULES, SCORES

EIGHT: dict[str, Any] = {"n_steps": 8, "rule": "gauss"}  # enough where runs are compared with each other
MOST_PARAMETERS = 400_000_000  # a copy of a larger model may not fit beside it
DRIFT = 1e-3  # of the largest score, from float32 to float64
HALF_DRIFT = 0.15  # … from half the digits to float32
OTHER, SHORT = "A short text.", "not really funny"


def furthest(*pairs: tuple[Any, Any]) -> float:
    """The largest difference within any of the pairs of arrays."""
    return max(float(np.abs(np.asarray(one) - np.asarray(two)).max()) for one, two in pairs)


def rules(patient: Patient) -> Check:
    """Weights sum to 1, and to the stated degree a polynomial is exact."""
    nodes, log = gauss(16), log_weight(16)
    worst = max(abs(float(nodes.weight @ nodes.t**k) - 1 / (k + 1)) for k in range(31))
    worst = max(worst, *(abs(float(log.weight @ log.t**k) - 1 / (k + 1) ** 2) for k in range(31)))
    return within_limit(worst, 1e-12, "Gauss rules integrate polynomials of degree 30", "reinstall numpy")


def paths(patient: Patient) -> Check:
    """Every path starts at the baseline, ends at the text, and held tokens never move."""
    ends = patient.case().ends
    units = torch.eye(len(ends.end), dtype=torch.bool)
    routes = {"line": line(ends), "prefix": prefix(ends, units), "staircase": staircase(ends, units, 2)}
    if ends.vocabulary is not None:
        few = min(20, len(ends.vocabulary.table))
        routes |= {each.name: route_of(each(steps=4, neighbours=few), ends, units) for each in (DIG, UDIG)}
    worst = 0.0
    for route in routes.values():
        first, last = (route.corner(int(i)) for i in (route.legs[0, 0], route.legs[-1, 1]))
        worst = max(worst, float((first - ends.start).abs().max()), float((last - ends.end).abs().max()))
        if ends.held.any():
            corners = [route.corner(i)[ends.held] for i in range(route.corners)]
            worst = max(worst, *(float((corner - ends.end[ends.held]).abs().max()) for corner in corners))
    return within_limit(worst, 1e-6, f"{', '.join(routes)} join baseline and text, held tokens rest", "report this")


def completeness(patient: Patient) -> Check:
    """IG's scores sum to F(x) − F(b) within the certificate's own bound, and the nodes suffice."""
    proof = patient.explain().certificate
    measured = (
        f"IG sums to {proof.total:.6g}, the output changes by {proof.f_input - proof.f_baseline:.6g}, with "
        f"{proof.nodes} nodes; largest error estimate {max(proof.error_estimate, default=0):.1e}"
    )
    if not proof.converged:
        return Check(FAILS, measured, _for_sums(patient))
    return within_limit(proof.gap, proof.bound, measured, "")


def _for_sums(patient: Patient) -> str:
    """What helps where a sum is off: of each remedy only where this model has it."""
    if patient.half:
        return f"load it with dtype=torch.float32: in {patient.model.dtype_name} rounding alone is larger than the tolerance"
    deeper = "layer=1, " if patient.has_layers else ""
    classes = not patient.model.two_texts_are_a_pair() and "logprob" in getattr(patient.model, "scores", SCORES)
    logprob = "score='logprob', " if classes and patient.predicted.chosen.score != "logprob" else ""
    return f"raise max_nodes or n_steps, try baseline='pad' or 'mean', {logprob}{deeper}or rule='split'"


def per_token(patient: Patient) -> Check:
    """SIG's score of a token is F(x) − F(x without it). It is no integral: a model may start it elsewhere (`Request.integral`)."""
    scores, case = patient.explain(method="sig").scores[:6], patient.case(integral=False)
    whole, alone = patient.value(case.ends.end, case), []
    for i in range(len(scores)):
        without = case.ends.end.clone()
        without[i] = case.ends.start[i]
        alone.append(whole - patient.value(without, case))
    advice = "is dropout or another random part on?"
    worst, limit = furthest((alone, scores)), patient.rounding(scores)
    return within_limit(worst, limit, "SIG equals leaving each token out", advice)


def linear(patient: Patient) -> Check:
    """On a linear function of this text's embeddings every rule is exact."""
    case = patient.case()
    slope = torch.randn(case.ends.end.shape, generator=torch.Generator().manual_seed(0)).to(case.ends.end)
    flat = replace(case, score=lambda points, cases: (points * slope[: points.shape[1]]).sum((1, 2)), pack="linear")
    wanted = (case.ends.delta * slope).sum(-1).double().cpu().numpy()
    model = Altered(patient.subject, lambda *_: flat)
    names = [rule for rule in RULES if rule != "adaptive"]
    runs = [patient.explain(model=model, rule=rule, n_steps=2).scores for rule in names]
    limit = (0.1 if patient.half else 1e-5) * max(1.0, float(np.abs(wanted).max()))
    worst = furthest(*((scores, wanted) for scores in runs))
    return within_limit(worst, limit, f"{len(names)} rules with 2 nodes on a linear function", "report this")


def orders(patient: Patient) -> Check:
    """Vectors and pairs sum to what the first order says."""
    if patient.model.two_texts_are_a_pair():
        pair = patient.explain(method="ij")
        limit = max(patient.tolerance * max(abs(pair.similarity), 0.1), 1e-5)
        words = f"IJ with its reference sums to the similarity {pair.similarity:.4f}"
        return within_limit(pair.certificate.gap, limit, words, _for_sums(patient))
    with patient.model.quiet(), torch.no_grad():
        case = patient.case(vector=True)
        if case.score(case.ends.end[None], [case]).ndim != 3:
            return left_out("this kind of model gives one number, no vector")
    proof = patient.explain(method="vaig").certificate
    limit = max(proof.bound, patient.tolerance * proof.f_input, 1e-5)
    return within_limit(proof.gap, limit, "VAIG's vectors sum to the change of the whole output", _for_sums(patient))


def packing(patient: Patient) -> Check:
    """Alone = in a batch = in chunks of one = in another order."""
    if not isinstance(patient.text, str):
        return left_out("one given input: there is nothing to pack with it")
    near = f"{patient.text} Indeed."  # nearly as long, so that both share batches and one is padded
    alone, batch = patient.explain().scores, patient.explain([near, patient.text])[1].scores
    usual = patient.explain(**EIGHT).scores
    turned = patient.explain([patient.text, patient.like(OTHER), near], **EIGHT)[0].scores
    single = patient.explain(internal_batch_size=1, **EIGHT).scores
    limit = max(patient.rounding(alone), patient.tolerance * float(np.abs(alone).max()))
    advice = "the model mixes rows or looks at padding: explain with internal_batch_size=1"
    worst = furthest((alone, batch), (usual, turned), (usual, single))
    return within_limit(worst, limit, "alone, in a batch, in another order and row by row agree", advice)


def padding(patient: Patient) -> Check:
    """The output of a text does not change when it is padded for a batch."""
    if patient.language is None:
        return left_out("this kind of model is never padded")
    if isinstance(patient.text, str):  # two lengths show whether this model's texts may share a batch
        with patient.model.quiet():
            patient.model.case(f"{patient.text} Indeed.", patient.text_b, request=patient.request())
    if patient.language.packs is False:
        return left_out("padding would change this model's output, so only texts of one length are put into one batch")
    rows = patient.case().ends.end
    alone, padded = patient.value(rows), patient.value(torch.nn.functional.pad(rows, (0, 0, 0, 7)))
    advice = "the model ignores its attention mask: explain one text at a time"
    return within_limit(abs(alone - padded), patient.rounding(alone), "7 padded positions change nothing", advice)


def entrance(patient: Patient) -> Check:
    """What is explained is what the model itself gives for the text's ids, whatever is asked of it.

    A deeper layer that cannot be entered is refused when it is asked for: that is said here, and is no failure.
    """
    model = patient.language
    if model is None:
        return left_out("this kind of model has no ids")
    tried, closed = [], []
    for name, text_b, choices in _requests(patient, model):
        try:
            with model.quiet():  # an error with both numbers if not
                case = model.case(patient.text, text_b, request=patient.request(**choices))
        except PathlensError:
            if "layer" not in choices:
                raise
            closed.append(str(choices["layer"]))
        else:
            with model.quiet():
                _check_rows(case)
            tried.append(name)
    measured = f"the model's own output for the text's ids is what is explained: {', '.join(tried)}"
    refused = f"; layer {', '.join(closed)} cannot be entered and is refused" if closed else ""
    return Check(HOLDS, measured + refused)


def _check_rows(case: Case) -> None:
    """Two rows give what one gives, wherever the model is entered: what is read of a text is one row."""
    rows = case.ends.end[None]
    with torch.no_grad():
        one, both = case.score(rows, [case]), case.score(rows.repeat(2, 1, 1), [case, case])
    if far(one.expand_as(both), both, both, rows):
        raise ModelError("two rows of one text do not give what one row gives: the model mixes the rows of a batch")


def _requests(patient: Patient, model: LanguageModel) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """What can be asked of this kind, each once: a name, the second text, the choices."""
    second, pair = patient.text_b, model.two_texts_are_a_pair()
    yield "the default", second, {"vector": pair}
    if pair:
        yield "a pair", second, {}
    elif second is None and model.kind == "sequence classification" and isinstance(patient.text, str):
        yield "two texts", OTHER, {}
    for layer in range(1, model.network.depth + 1):
        yield f"layer {layer}", second, {"layer": layer, "vector": pair}
    if not pair:
        yield from ((score, second, {"score": score}) for score in model.scores)
    if model.options is GeneratorOptions:
        number = min(20, model.network.embedding.weight.shape[0] - 1)  # any token will do
        word = str(model.tokenizer.decode([number])).strip() or "a"
        contrast = GeneratorOptions(contrast=f" {word} {word} {word}")
        yield "a contrast", second, {"target": f" {word} {word}", "score": None, "options": contrast}


def twin(patient: Patient) -> Check:
    """IG with 8 Gauss nodes equals the paper's sum, written out as a loop."""
    fast, case, nodes = patient.explain(**EIGHT).scores, patient.case(), gauss(8)
    total = torch.zeros(len(case), dtype=torch.float64)
    with patient.model.quiet(), torch.enable_grad():
        for t, weight in zip(nodes.t, nodes.weight, strict=True):
            point = (case.ends.start + float(t) * case.ends.delta)[None].detach().requires_grad_()
            (slope,) = torch.autograd.grad(case.score(point, [case]).sum(), point)
            total += float(weight) * (slope[0] * case.ends.delta).sum(-1).double().cpu()
    advice = "the model keeps state between calls: load it again"
    return within_limit(furthest((fast, total)), patient.rounding(fast), "the engine equals a plain loop", advice)


def round_trip(patient: Patient) -> Check:
    """Saved and loaded, a result is the same to the last bit."""
    result = patient.explain(n_steps=2, rule="gauss")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "result.html"
        result.to_html(page)
        again: list[Any] = [load(result.save(Path(folder) / "result.json")), load(page)]
    if all(np.array_equal(result.scores, each.scores) for each in again):
        return Check(HOLDS, "JSON and page give the same numbers back")
    return Check(FAILS, "numbers changed", "report this")


def finite(patient: Patient) -> Check:
    """No weight and no output is NaN."""
    if patient.language is None:
        return left_out("no weights to look at")
    check_weights(patient.language.whole())
    patient.case()
    return Check(HOLDS, "weights and output are finite")


def kernels(patient: Patient) -> Check:
    """The score does not depend on the attention kernel."""
    if patient.language is None:
        return left_out("no attention here")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    parts, usual = patient.language.whole().modules(), patient.explain(**EIGHT).scores
    module = next((part for part in parts if hasattr(part, "set_attn_implementation")), None)
    scores = {}
    with sdpa_kernel(SDPBackend.MATH):
        scores["math"] = patient.explain(**EIGHT).scores
    if module is not None:
        with _attention(module, "eager"):
            scores["eager"] = patient.explain(**EIGHT).scores
    worst = furthest(*((usual, each) for each in scores.values()))
    words, advice = " and ".join(scores), "load the model with attn_implementation='eager'"
    return within_limit(worst, 5 * patient.rounding(usual), f"{words} attention give the same scores", advice)


@contextmanager
def _attention(module: Any, name: str) -> Iterator[None]:
    before = getattr(module.config, "_attn_implementation", "sdpa")
    module.set_attn_implementation(name)
    try:
        yield
    finally:
        module.set_attn_implementation(before)


def drift(patient: Patient) -> Check:
    """How far scores of the same class, token or span move in other number formats.

    In a finer one they must not; what a coarser one would do to them is said, and is no fault of the model as it is.
    """
    model = patient.language
    if model is None:
        return left_out("only for models made of a network and a tokenizer")
    if sum(p.numel() for p in model.whole().parameters()) > MOST_PARAMETERS:
        return left_out("the model is too large to copy; load it twice with dtype= and compare")
    usual = patient.explain(**EIGHT).scores
    size = max(float(np.abs(usual).max()), 1e-6)
    here = str(model.network.dtype).removeprefix("torch.")
    finer, coarser = ("float32", None) if patient.half else ("float64", "bfloat16")
    moved: dict[str, float] = {}
    remarks = []
    for name in (each for each in (finer, coarser) if each not in (None, here)):
        try:
            scores = patient.explain(model=recast(model, getattr(torch, str(name))), **EIGHT).scores
        except Exception as error:  # what the copy's own code says of this format is no fault of the model as it is
            foreign = error.__cause__ if isinstance(error, PathlensError) else error
            if name == finer and foreign is not None:
                return left_out(f"this model cannot run in {name} ({first_line(foreign)})")
            if name == finer:
                return Check(FAILS, f"{name}: {error}")
            remarks.append(f"in {name} it fails: {first_line(error)}")
            continue
        moved[str(name)] = furthest((scores, usual)) / size
    measured = f"from {here}, scores move by " + ", ".join(f"{v:.1e} in {k}" for k, v in moved.items())
    if not moved.get(finer, 0.0) <= (HALF_DRIFT if patient.half else DRIFT):
        return Check(FAILS, measured, f"load it with dtype=torch.{finer}")
    if moved.get(str(coarser), 0.0) > HALF_DRIFT:
        remarks.append(f"do not load it in {coarser}")
    return Check(HOLDS, "; ".join([measured, *remarks]))


def recast(model: LanguageModel, dtype: torch.dtype) -> LanguageModel:
    """A copy of the model in another number format; the model itself is not touched."""
    encoder = getattr(model, "sentence_transformer", None)
    if encoder is not None:
        kind: Any = type(model)
        again: LanguageModel = kind(copy.deepcopy(encoder).to(dtype), name=model.name)
        return again
    new = copy.copy(model)
    new.__dict__.pop("vocabulary", None)
    new.module = new.user = copy.deepcopy(model.module).to(dtype)
    new.enter()
    return new


def second(patient: Patient) -> Check:
    """Second derivatives exist, and rows of the interactions sum to IG."""
    try:
        result = patient.explain(patient.like(SHORT) if isinstance(patient.text, str) else patient.text, method="ih")
    except PathlensError as error:
        return Check(FAILS, str(error), "methods of the first order (ig, sig, vaig, ij) are not touched by this")
    proof, rows = result.certificate, furthest((np.nansum(result.matrix, axis=1), result.scores))
    words = f"interactions of {len(result.tokens)} tokens, rows equal IG within {rows:.1e}"
    measured = f"{words}, {proof.nodes} nodes (gap {proof.gap:.1e})"
    if proof.converged:
        return Check(HOLDS, measured)
    advice = _for_sums(patient) if patient.half else "ReLU inside? use softplus=…, or raise n_steps"
    return Check(FAILS, measured, advice)


LAWS: tuple[tuple[str, Law], ...] = (
    ("1 rules", rules),
    ("2 paths", paths),
    ("3 completeness", completeness),
    ("3 completeness per token", per_token),
    ("4 linear model", linear),
    ("5 orders agree", orders),
    ("6 batch = single", packing),
    ("6 padding", padding),
    ("6 the model's own output", entrance),
    ("7 slow twin", twin),
    ("9 round trip", round_trip),
    ("8 finite numbers", finite),
    ("8 attention kernels", kernels),
    ("8 precision drift", drift),
    ("5 second derivatives", second),
)
