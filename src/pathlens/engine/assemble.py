"""After the integral: every unit named, every sum certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pathlens.engine.options import Compared
from pathlens.engine.phrases import idg, phrase_nodes
from pathlens.engine.prepare import Prepared
from pathlens.engine.solve import Solution
from pathlens.errors import InputError
from pathlens.explanation import record
from pathlens.explanation.base import Result, likeliest, percent
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.check import Belief
from pathlens.explanation.pair import Side, pair_of
from pathlens.text.adapter import Probabilities
from pathlens.types import About
from pathlens.units.trees import tree_groups

UNSURE = 0.2  # the likeliest class leads the next by less than this
ANOTHER = "To ask that, give a baseline where the model says something else"
FLAT = "nothing moves the output: every directional integral is 0, and v(whole text) = 1 by definition only"


@dataclass(frozen=True, eq=False)
class Order:
    """What a result is made for: the text as it was read, and what every result of the call says of itself."""

    prepared: Prepared
    tolerance: float
    meta: Mapping[str, Any]
    probabilities: Sequence[Probabilities | None] = ()  # what the model says at both ends of each case
    check: Belief | None = None  # where it was asked for


def certificate(solution: Solution, tolerance: float, scores: Float[Tensor, "U *out"]) -> Certificate:
    """For numbers: outputs, their change, what the scores sum to. For vectors: lengths of the same."""
    f_input, f_baseline, total = (
        float(value.norm() if solution.vector else value.sum())
        for value in (solution.f_end, solution.f_start, scores.sum(0))
    )
    return Certificate.judge(
        f_input=f_input,
        f_baseline=f_baseline,
        total=total,
        gap=solution.gap,
        size=float((solution.f_end - solution.f_start).norm()),
        bound=solution.bound,
        errors=solution.estimates().tolist(),
        **{"kind": "vector" if solution.vector else "total", **_facts(solution, tolerance)},
    )


def _facts(solution: Solution, tolerance: float) -> dict[str, Any]:
    """What every certificate of one text has in common; where each unit has its own sum, that is what counts."""
    facts = {"tolerance": tolerance, "nodes": solution.integral.nodes, "passes": solution.passes}
    return facts if solution.gaps is None else {**facts, "kind": "per token", "rows": solution.gaps.tolist()}


def meta_of(order: Order, solutions: Sequence[Solution]) -> dict[str, Any]:
    """What the result says of itself; `chosen` in values that ask for the same again (`pl.zoom` does)."""
    case = solutions[0].case
    baselines = [each.case.chosen.baseline for each in solutions]  # of every baseline or side, by name or text
    chosen: dict[str, Any] = {"target": case.chosen.target, "score": case.chosen.score or None}
    chosen |= {} if None in baselines else {"baselines": baselines}
    notes = [*(note for each in solutions for note in each.case.notes), *remarks(order.probabilities)]
    if solutions[0].shared > 1:
        notes.append(f"{solutions[0].shared} targets in one call: its passes are those of all of them together")
    return {
        **order.meta,
        **case.meta,
        **({} if (about := known_about(order.probabilities)) is None else {"about": about._asdict()}),
        **({"targets": targets} if (targets := _targets(order)) else {}),
        "chosen": {**order.meta["chosen"], **{name: value for name, value in chosen.items() if value is not None}},
        "texts": list(case.texts),
        "baseline": case.baseline if len(solutions) == 1 else f"{len(solutions)} baselines",
        "notes": list(dict.fromkeys(notes)),
        "history": [list(row) for row in solutions[0].integral.history],
    }


def _shared(order: Order, solutions: Sequence[Solution]) -> dict[str, Any]:
    """The fields that all results over the units of one text begin with."""
    case, units = solutions[0].case, solutions[0].units
    return {
        "method": order.prepared.method.name,
        "target": case.target_name,
        "meta": meta_of(order, solutions),
        "tokens": units.names,
        "offsets": units.offsets,
        "special": units.special,
        "check": order.check,
        "prediction": case.meta.get("prediction", ""),
        **spoken(order.probabilities),
    }


def spoken(probabilities: Sequence[Probabilities | None]) -> dict[str, Any]:
    """What the model says, as fields of a result; several cases of one text are several baselines."""
    known = [each for each in probabilities if each is not None]
    if not known or len(known) < len(probabilities):
        return {}
    text = known[0].text
    start = {name: float(np.mean([each.baseline[name] for each in known])) for name in text}
    of_words = known[0].about is not None and known[0].about.words
    predicted = likeliest(text) if len(text) > 1 or of_words else ""  # a label with no rival is not predicted
    return {"prediction": predicted, "probabilities": text, "baseline_probabilities": start}


def remarks(probabilities: Sequence[Probabilities | None]) -> list[str]:
    """Notes on what the model says: it is unsure, or its baseline has the answer already."""
    if not (fields := spoken(probabilities)):
        return []
    name, text, start = fields["prediction"], fields["probabilities"], fields["baseline_probabilities"]
    about = known_about(probabilities)
    if not name or (about and about.words):  # of very many words each is unlikely, and the baseline's own is not named
        return []
    notes, rest = [], [share for each, share in text.items() if each != name]
    if text[name] - max(rest) < UNSURE:
        notes.append(f"the model is unsure: {', '.join(f'{each} {percent(text[each])}' for each in ranked(text))}")
    if likeliest(start) == name:
        others = probabilities[0].others if probabilities[0] is not None else {}
        notes.append(
            f"the baseline itself says {name} ({percent(start[name])}), so the scores tell what moved the output from there, "
            f"not why it is {name}. {_another(name, others) if about is None else ANOTHER}"
        )
    return notes


def known_about(probabilities: Sequence[Probabilities | None]) -> About | None:
    """What the probabilities are of, the same for every baseline of one text."""
    return next((each.about for each in probabilities if each is not None), None)


def _targets(order: Order) -> dict[str, Any]:
    """What asks for each name that has a probability; nothing where all are explained at once."""
    if order.prepared.entry.vector:
        return {}
    return next((dict(each.targets) for each in order.probabilities if each is not None), {})


def _another(name: str, others: Mapping[str, Mapping[str, float]]) -> str:
    """A baseline that does not say `name` already; where there is none, the one that comes nearest to that."""
    if not others:
        return "To ask that, give as the baseline a text that the model calls something else"
    least = min(others, key=lambda each: others[each][name])
    answer = likeliest(others[least])
    if answer != name:
        return f"From {least!r} it says {answer} ({percent(others[least][answer])}): try {least!r} as the baseline"
    return (
        f"All of this model's own baselines say {name} ({least!r} is least sure, {percent(others[least][name])}); to ask why, "
        "give as the baseline a text that the model calls something else"
    )


def ranked(shares: Mapping[str, float], most: int = 3) -> list[str]:
    """The names with the largest shares, largest first."""
    return sorted(shares, key=lambda name: -shares[name])[:most]


def tokens(order: Order, solutions: Sequence[Solution]) -> record.Explanation:
    """One score per unit; several solutions are several baselines (expected gradients)."""
    results = [_tokens_of(order, each) for each in solutions]
    return results[0] if len(results) == 1 else _average(order, solutions, results)


def _tokens_of(order: Order, solution: Solution) -> record.Explanation:
    value = solution.spread()
    scores = value.sum(-1) if solution.by_coordinate else value
    return record.Explanation(
        **_shared(order, [solution]),
        segments=solution.units.segments,
        certificate=certificate(solution, order.tolerance, scores),
        scores=scores.numpy(),
        coordinates=value.numpy() if solution.by_coordinate else None,
        path=solution.path,
    )


def _average(order: Order, solutions: Sequence[Solution], results: Sequence[record.Explanation]) -> record.Explanation:
    """Expected gradients: the mean over baselines, with its standard error; errors and gaps are averaged too."""
    scores = np.stack([result.scores for result in results])
    certs = [result.certificate for result in results]
    mean = scores.mean(0)
    joined = Certificate.judge(
        f_input=certs[0].f_input,
        f_baseline=float(np.mean([c.f_baseline for c in certs])),
        total=float(mean.sum()),
        gap=None if certs[0].kind == "total" else max(c.gap for c in certs),
        tolerance=certs[0].tolerance,
        nodes=sum(c.nodes for c in certs),
        passes=sum(c.passes for c in certs),
        errors=np.mean([c.error_estimate for c in certs], axis=0),
        kind=certs[0].kind,
        rows=np.max([c.rows for c in certs], axis=0),
    )
    first = results[0]
    meta = meta_of(order, solutions)
    if first.path is not None:
        meta["notes"].append("each baseline has a path of its own; none of them is kept in the mean")
    coordinates = [each.coordinates for each in results if each.coordinates is not None]
    numbers = {"scores": mean, "standard_error": scores.std(0, ddof=1) / np.sqrt(len(scores))}
    numbers["coordinates"] = np.mean(coordinates, axis=0) if coordinates else None
    return first.derived(certificate=joined, meta=meta, path=None, **numbers)


def vectors(order: Order, solutions: Sequence[Solution]) -> record.VectorExplanation:
    """One vector per (output position, unit)."""
    (solution,) = solutions
    value = solution.spread()
    return record.VectorExplanation(
        **_shared(order, solutions),
        segments=solution.units.segments,
        certificate=certificate(solution, order.tolerance, value),
        vectors=value.transpose(0, 1).numpy(),
        outputs=solution.case.outputs,
        sources=solution.case.sources,
        f_input=solution.f_end.numpy(),
        f_baseline=solution.f_start.numpy(),
        path=solution.path,
    )


def pair(order: Order, solutions: Sequence[Solution]) -> record.PairExplanation:
    """Two texts' vectors → token × token, with the reference row and column."""
    method = order.prepared.method
    assert isinstance(method, Compared)
    a, b = map(side_of, solutions)
    baseline = " | ".join(dict.fromkeys(each.case.baseline for each in solutions))
    result = pair_of(a, b, method.measure(order.tolerance), {**meta_of(order, solutions), "baseline": baseline})
    return result.derived(method=method.name, path_a=solutions[0].path, path_b=solutions[1].path, check=order.check)


def side_of(solution: Solution, *, by_rows: bool = False) -> Side:
    """What one text's integral found, for any pair it may be in. `by_rows`: by its products with T rows, a list of numbers."""
    value, units, errors = solution.spread(), solution.units, solution.estimates()
    f_start, f_end = (each[:, 0][None] if by_rows else each for each in (solution.f_start, solution.f_end))
    if by_rows:
        value, errors = value[:, None, :, 0], errors.sum(1)
    coordinates = value[:, :, 0] if solution.by_coordinate else None  # (U, d, k)
    return Side(
        text=solution.case.texts[0] if solution.case.texts else "",
        tokens=units.names,
        offsets=units.offsets,
        special=units.special,
        vectors=(value[:, 0] if coordinates is None else coordinates.sum(1)).numpy(),
        reference=f_start[0].numpy(),
        embedding=f_end[0].numpy(),
        error=errors.numpy(),
        gap=solution.gap,
        nodes=solution.integral.nodes,
        passes=solution.passes,
        notes=solution.case.notes,
        baseline=solution.case.chosen.baseline,
        coordinates=None if coordinates is None else coordinates.numpy(),
    )


def continuation(order: Order, solutions: Sequence[Solution]) -> record.Continuation:
    """Sources × output tokens. Every column is judged by the same bound, the total by as many of them together."""
    if len(solutions) > 1:
        raise InputError("a continuation of several tokens takes one baseline; a list of baselines is for one token")
    (solution,) = solutions
    matrix, errors = solution.spread()[..., 0], solution.estimates()
    ends = torch.stack([solution.f_end, solution.f_start])[..., 0].double()
    each = zip(matrix.T, errors.T, ends.T, strict=True)
    columns = tuple(_column(order, solution, *of_column, solution.bound) for of_column in each)
    limit = len(columns) * solution.bound  # settled when every column is: then the total is within this
    total = _column(order, solution, matrix.sum(1), errors.sum(1), ends.sum(1), limit, columns)
    return record.Continuation(
        **_shared(order, solutions),
        segments=solution.units.segments,
        certificate=total,
        outputs=solution.case.outputs,
        output_offsets=solution.case.target.offsets,
        matrix=matrix.numpy(),
        certificates=columns,
        path=solution.path,
    )


def _column(
    order: Order,
    solution: Solution,
    scores: Float[Tensor, "U"],
    errors: Float[Tensor, "U"],
    ends: Float[Tensor, "2"],
    limit: float,
    parts: Sequence[Certificate] = (),
) -> Certificate:
    return Certificate.judge(
        f_input=float(ends[0]),
        f_baseline=float(ends[1]),
        total=float(scores.sum()),
        gap=None if solution.gaps is None else 0.0,  # SIG's full reading: no total to compare with
        bound=limit,
        errors=errors.tolist(),
        parts=parts,
        **_facts(solution, order.tolerance),
    )


def interactions(order: Order, solutions: Sequence[Solution]) -> record.Interactions:
    """One matrix; several solutions are several baselines (expected Hessians).

    Each baseline is the same for both integrals, so the rows of the mean are expected gradients.
    """
    rows, units = order.prepared.rows, solutions[0].units
    matrices = np.stack([interaction_matrix(solution, rows) for solution in solutions])
    matrix = matrices.mean(0)
    scores = torch.stack([each.placed(each.integral.extra.get("ig", each.integral.value)) for each in solutions])
    shared = _shared(order, solutions)
    if rows is None:
        shared["meta"]["asymmetry"] = float(np.abs(matrix - matrix.T).max(initial=0.0))
    else:
        shown = ", ".join(repr(units.names[row]) for row in rows[:8]) + (" …" if len(rows) > 8 else "")
        shared["meta"]["rows"] = list(rows)
        note = f"only the interactions of {shown} were asked for; the others are not a number (NaN)"
        shared["meta"]["notes"].append(note)
    return record.Interactions(
        **shared,
        segments=units.segments,
        certificate=_of_rows(order, solutions, matrix, scores.mean(0).numpy()),
        matrix=matrix,
        scores=scores.mean(0).numpy(),
        standard_error=matrices.std(0, ddof=1) / np.sqrt(len(solutions)) if len(solutions) > 1 else None,
    )


def interaction_matrix(solution: Solution, rows: tuple[int, ...] | None) -> Float[np.ndarray, "U U"]:
    """Rows not asked for hold their mirrored entries, NaN elsewhere."""
    count, moving = len(solution.units), solution.moving.cpu().numpy()
    full = np.zeros((count, count))
    full[np.ix_(_integrated(solution, rows), moving)] = solution.integral.value.numpy()
    if rows is not None and len(moving):
        asked, other = np.array(rows), np.setdiff1d(np.arange(count), rows)
        full[np.ix_(other, other)] = np.nan
        full[np.ix_(other, asked)] = full[np.ix_(asked, other)].T
    return full


def _integrated(solution: Solution, rows: tuple[int, ...] | None) -> Int[np.ndarray, "R"]:
    """Units whose rows were integrated: those asked for that move at all, in the order of the integral's rows."""
    moving = solution.moving.cpu().numpy()
    return moving if rows is None else moving[np.isin(moving, rows)]


def _of_rows(
    order: Order, solutions: Sequence[Solution], matrix: Float[np.ndarray, "U U"], scores: Float[np.ndarray, "U"]
) -> Certificate:
    """Total: ΣΓ against F(x) − F(b). Rows: each row's sum against IG. A restricted result has only the rows."""
    rows = order.prepared.rows
    taken = np.arange(len(matrix)) if rows is None else np.array(rows, dtype=int)
    gaps = np.abs(matrix[taken].sum(1) - scores[taken])
    errors = np.zeros((len(solutions), len(matrix)))
    for of_solution, solution in zip(errors, solutions, strict=True):
        of_solution[_integrated(solution, rows)] = solution.integral.error.numpy()
    return Certificate.judge(
        f_input=float(solutions[0].f_end),
        f_baseline=float(np.mean([float(solution.f_start) for solution in solutions])),
        total=float(matrix[taken].sum()),
        gap=None if rows is None else float(gaps.max(initial=0.0)),
        tolerance=order.tolerance,
        nodes=sum(solution.integral.nodes for solution in solutions),
        passes=sum(solution.passes for solution in solutions),
        errors=errors.mean(0),
        kind="total" if rows is None else "per token",
        rows=gaps,
    )


def phrases(order: Order, solutions: Sequence[Solution]) -> record.PhraseTree:
    """Tokens, words, constituents and the whole share the value; with `coordinates=True` single coordinates too.

    Special tokens are in no group, so what they carry (at a layer above the embeddings) is in no phrase.
    """
    (solution,) = solutions
    case, tree, by_coordinate = solution.case, order.prepared.tree, solution.by_coordinate
    assert tree is not None
    groups = tree_groups(tree, case.offsets, case.special)
    delta = torch.where(case.ends.held[:, None], 0.0, case.ends.delta.double()).cpu().numpy()
    square = np.square(delta).sum(axis=1)
    value = solution.spread()
    scores = value.sum(-1) if by_coordinate else value
    plain = idg(groups.members, scores.numpy(), square)
    shown = idg(groups.members, scores.numpy(), square, value.numpy(), delta) if by_coordinate else plain
    shared, family_note = _shared(order, solutions), ""
    if shown.flat:
        shared["meta"]["notes"].append(FLAT)
    elif by_coordinate:
        share = 100 * (1 - float(shown.dividend.sum()))
        family_note = f"single coordinates share the value, as in the paper, and take {share:.1f} % of the value"
        shared["meta"]["notes"].append(family_note)
    return record.PhraseTree(
        **shared,
        certificate=certificate(solution, order.tolerance, scores),
        nodes=phrase_nodes(tree.text, groups, shown),
        scores=scores.numpy(),
        tree=tree.source,
        family="phrases and coordinates" if by_coordinate else "phrases",
        family_note=family_note,
        plain=phrase_nodes(tree.text, groups, plain) if by_coordinate else (),
    )


MAKERS: Mapping[type[Result], Callable[[Order, Sequence[Solution]], Result]] = {
    record.Explanation: tokens, record.VectorExplanation: vectors, record.PairExplanation: pair,
    record.Interactions: interactions, record.PhraseTree: phrases, record.Continuation: continuation,
}  # fmt: skip


def assemble(order: Order, solutions: Sequence[Solution]) -> Result:
    """The result of one text; one solution per baseline, or per side of a pair."""
    return MAKERS[order.prepared.entry.result](order, solutions)
