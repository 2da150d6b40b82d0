"""How far can the scores be believed? Methods × metrics over many texts, with controls and intervals.

>>> import pathlens as pl
>>> pl.evaluate("sentiment", ["Not really funny, but moving.", "A dull film."], methods=["ig", "sig"]).show()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pathlens.engine.progress import Progress
from pathlens.errors import InputError
from pathlens.metrics import fidelity, steadiness
from pathlens.metrics.agreement import spearman
from pathlens.metrics.bootstrap import DRAWS
from pathlens.metrics.contenders import GRADIENT, Way, ways
from pathlens.metrics.deletion import curves
from pathlens.metrics.protocol import SHARE, SHARES, Protocol, find_protocol
from pathlens.metrics.record import HIGHER, LOWER, SIG_NOTE, Column, Curve, Evaluation, Randomised
from pathlens.metrics.scoring import OF_THE_TEXT, Judged, score_texts
from pathlens.text.adapter import Request, TextModel
from pathlens.text.load import load

METHODS = (GRADIENT, "ig", "sig")
EXTRAS = ("infidelity", "wae", "max-sensitivity", "stability", "randomisation")
FORWARD_TEXTS = 32  # texts whose edited versions are packed together


def evaluate(
    model: Any,
    texts: Sequence[Any],
    texts_b: Sequence[Any] | None = None,
    *,
    methods: Sequence[str] = METHODS,
    baselines: Sequence[str | None] = (None,),
    protocol: str = "default",
    reference: str | Sequence[str] | None = None,
    shares: Sequence[float] = SHARES,
    extra: Sequence[str] = (),
    labels: Sequence[Any] | None = None,
    method_options: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    show_progress: bool = False,
    **choices: Any,
) -> Evaluation:
    """Log-odds, comprehensiveness and sufficiency of methods, beside random scores and leave-one-out.

    model, choices: as in `pl.explain` (a classifier, a tagger or a question answerer; with texts_b: pairs).
    methods: ig, sig, dig, udig, gradient-x-input; every one with every one of `baselines`.
    protocol: "default" (special tokens are never deleted or counted, k at least 1) or "paper" (as published).
    reference: what replaces tokens in log-odds: mask, pad, … or several (default: the model's default baseline).
    shares: of the tokens, for the curves; AOPC is their mean. The table itself is at 20 %.
    extra: "infidelity", "wae", "max-sensitivity", "stability", "randomisation"; the last three explain again.
    labels: the true ones (names or indices): the model's accuracy on these texts is noted.
    method_options: per method, e.g. {"udig": {"rule": "left"}}.

    Limits: metrics that delete tokens favour scores made by deleting them (sig, leave-one-out).
    """
    asked = find_protocol(protocol)
    if seed < 0:
        raise InputError(f"seed must be a whole number from 0 upwards, got {seed}")
    _check(extra, EXTRAS, "extra")
    _check_choices(choices)
    if isinstance(texts, str) or isinstance(texts_b, str):
        raise InputError("texts and texts_b are lists of texts, one each per example; put a single text into [ ]")
    if not texts:
        raise InputError("there are no texts to evaluate on")
    for name, given in (("texts_b", texts_b), ("labels", labels)):
        if given is not None and len(given) != len(texts):
            raise InputError(f"{name} has {len(given)} entries for {len(texts)} texts")
    if reference is not None and not reference:
        raise InputError("reference: name at least one token that replaces others (mask, pad, …), or leave it out")
    loaded = load(model)
    rows = ways(methods, baselines, method_options)
    pairs = list(zip(texts, texts_b if texts_b is not None else [None] * len(texts), strict=True))
    with Progress(len(pairs) * len(rows), show_progress) as tick:
        judged, failed = score_texts(loaded, rows, pairs, reference=reference, seed=seed, choices=choices, tick=tick)
    found = judge(rows, judged, asked, shares=shares, seed=seed, draws=draws)
    found = add_extras(found, loaded, rows, judged, extra, choices, seed)
    notes = [*found.notes, *_told(failed, judged, rows), *_accuracy(loaded, judged, labels)]
    meta = {"model": loaded.name, "kind": loaded.kind, **_known(choices)}
    return replace(found, notes=tuple(notes), meta=meta)


def judge(
    rows: Sequence[Way],
    judged: Sequence[Judged],
    protocol: Protocol,
    *,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    draws: int = DRAWS,
) -> Evaluation:
    """Scores → the deletion metrics, completeness and rank agreement. Forward passes alone."""
    grid = tuple(sorted({*_checked_shares(shares), SHARE}))
    at = grid.index(SHARE)
    chosen = [grid.index(float(share)) for share in shares]
    found = []
    for start in range(0, len(judged), FORWARD_TEXTS):
        some = judged[start : start + FORWARD_TEXTS]
        found += curves([j.subject for j in some], [j.table for j in some], grid, protocol)
    references = tuple(judged[0].subject.rows)
    drawn = [
        *((f"log-odds ({name})", LOWER, [c.log_odds[name] for c in found]) for name in references),
        ("comprehensiveness", HIGHER, [c.comprehensiveness for c in found]),
        ("sufficiency", LOWER, [c.sufficiency for c in found]),
    ]
    lines = [(name, better, np.stack(values, axis=1)) for name, better, values in drawn]
    gaps = np.array([[fidelity.completeness(j.scores[w].certificate) for j in judged] for w in range(len(rows))])
    columns = [
        *(Column(name, better, values[..., at]) for name, better, values in lines),
        *(Column(f"AOPC {name}", better, values[..., chosen].mean(-1)) for name, better, values in lines),
        Column("gap Δ", LOWER, gaps[..., 0]),
        Column("gap Δ %, median", LOWER, gaps[..., 1], median=True),
    ]
    notes = [
        f"log-odds replace tokens by the reference {' and '.join(references)}; published ones use pad in two papers and mask in the third, so they do not compare",
        SIG_NOTE,
        f"protocol {protocol.name}: {protocol.words}",
    ]
    return Evaluation(
        ways=tuple(way.label for way in rows),
        columns=tuple(columns),
        curves=tuple(
            Curve(name, better, tuple(grid[i] for i in chosen), values[..., chosen]) for name, better, values in lines
        ),
        agreement=_agreement(judged),
        protocol=protocol.name,
        references=references,
        share=SHARE,
        texts=len(judged),
        seed=seed,
        draws=draws,
        notes=tuple(notes),
    )


def add_extras(
    found: Evaluation,
    model: TextModel,
    rows: Sequence[Way],
    judged: Sequence[Judged],
    extra: Sequence[str],
    choices: Mapping[str, Any],
    seed: int = 0,
) -> Evaluation:
    """The metrics that were asked for by name."""
    pairs, tables = [j.pair for j in judged], [j.table for j in judged]
    columns = list(found.columns)
    with model.quiet():
        if "infidelity" in extra:
            name = found.references[0]
            row = judged[0].subject.rows[name]
            plain, scaled = fidelity.infidelity([j.case for j in judged], row, name, tables, seed)
            columns += [Column(f"infidelity ({name})", LOWER, plain), Column("infidelity, scaled", LOWER, scaled)]
        if "wae" in extra:
            columns.append(Column("WAE", LOWER, _wae(model, rows, judged, choices)))
        for name, better in (("max-sensitivity", LOWER), ("stability", HIGHER)):
            if name in extra:
                values = [_steady(name, way, w, model, judged, choices, seed) for w, way in enumerate(rows)]
                columns.append(Column(name, better, np.stack(values)))
        randomised = None
        if "randomisation" in extra:
            before = [[table[w] for table in tables] for w in range(len(rows))]
            targets = [j.case.target for j in judged]
            stages, values = steadiness.randomisation(rows, model, pairs, targets, before, choices, seed=seed)
            randomised = Randomised(stages, values)
    return replace(found, columns=tuple(columns), randomised=randomised)


def _steady(
    name: str, way: Way, w: int, model: TextModel, judged: Sequence[Judged], choices: Mapping[str, Any], seed: int
) -> np.ndarray:
    pairs, before = [j.pair for j in judged], [j.scores[w].values for j in judged]
    if name == "max-sensitivity":
        return steadiness.max_sensitivity(way, model, pairs, before, choices, seed=seed)
    left_out = [j.scores[1].values for j in judged]  # the second control
    return steadiness.stability(way, model, pairs, before, left_out, choices)


def _wae(model: TextModel, rows: Sequence[Way], judged: Sequence[Judged], choices: Mapping[str, Any]) -> np.ndarray:
    from pathlens.path.words.options import path_cache

    cache = path_cache(None)
    asked = {name: choices[name] for name in OF_THE_TEXT if name in choices}
    found = np.full((len(rows), len(judged)), np.nan)
    for w, way in enumerate(rows):
        for n, one in enumerate(judged):
            if way.method in ("ig", "dig", "udig"):
                case = model.case(*one.pair, request=Request(baseline=way.baseline, **asked))
                found[w, n] = fidelity.word_approximation_error(way, case, cache)
    return found


def _agreement(judged: Sequence[Judged]) -> np.ndarray:
    """Mean Spearman over texts, on real tokens; the diagonal is 1."""
    count = len(judged[0].scores)
    found = np.eye(count)
    for a in range(count):
        for b in range(a):
            each = []
            for one in judged:
                real = ~np.array(one.case.special)
                each.append(spearman(one.scores[a].values[real], one.scores[b].values[real]))
            each = [value for value in each if np.isfinite(value)]
            found[a, b] = found[b, a] = float(np.mean(each)) if each else np.nan
    return found


def baseline_sensitivity(found: Evaluation) -> dict[str, float]:
    """Per method, the mean rank agreement of its rows with different baselines: 1 means the baseline does not matter."""
    groups: dict[str, list[int]] = {}
    for number, label in enumerate(found.ways):
        groups.setdefault(label.split(", ")[0], []).append(number)
    return {
        method: float(np.nanmean([found.agreement[a, b] for a in own for b in own if a < b]))
        for method, own in groups.items()
        if len(own) > 1
    }


def _told(failed: Mapping[int, Exception], judged: Sequence[Judged], rows: Sequence[Way]) -> list[str]:
    notes = []
    if failed:
        first = min(failed)
        notes.append(f"{len(failed)} texts are left out of every row; the first is text {first}: {failed[first]}")
    for w, way in enumerate(rows):
        own = [j.scores[w].certificate for j in judged]
        loose = sum(1 for c in own if c is not None and not c.converged)
        if loose:
            notes.append(f"{way.label}: {loose} of {len(own)} texts not settled within the tolerance")
    return notes


def _accuracy(model: TextModel, judged: Sequence[Judged], labels: Sequence[Any] | None) -> list[str]:
    """A note, or why there is none: stars from 1 to 5 are no labels of a model that knows two."""
    if labels is None:
        return []
    given = [j for j in judged if labels[j.number] is not None and str(labels[j.number]).strip()]
    names = _label_names(model)
    strange = [labels[j.number] for j in given if not _is_label(labels[j.number], names)] if names else []
    if not given or strange:
        why = f"{len(strange)} of {len(given)} given labels are none of the model's ({', '.join(names)}), the first is {strange[0]!r}" if given else "no label is given"  # fmt: skip
        return [f"accuracy is not told: {why}"]
    right = [_same(labels[j.number], j.case.target, j.case.target_name) for j in given]
    without = f"; {len(judged) - len(given)} texts have no label" if len(given) < len(judged) else ""
    return [f"the model names the given label for {sum(right)} of {len(right)} texts ({np.mean(right):.3f}){without}"]


def _label_names(model: TextModel) -> list[str]:
    """The classes of a classifier in their order; none for other models."""
    config = getattr(getattr(model, "module", None), "config", None)
    if model.kind != "sequence classification" or not getattr(config, "id2label", None):
        return []
    return [str(config.id2label[i]) for i in sorted(config.id2label)]


def _is_label(label: Any, names: Sequence[str]) -> bool:
    said = str(label).strip().lower()
    return said in [name.lower() for name in names] or said in map(str, range(len(names)))


def _same(label: Any, target: Any, name: str) -> bool:
    said = str(label).strip().lower()
    return said in (str(target), name.split(" (")[0].lower())


def _known(choices: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in choices.items() if isinstance(v, str | int | float | bool)}


def _check(given: Sequence[str], known: Sequence[str], what: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(f"{what}: {', '.join(map(str, unknown))} is not known; there is {', '.join(known)}")


def _check_choices(choices: Mapping[str, Any]) -> None:
    for name in ("unit", "method", "baseline"):
        if name in choices:
            instead = {"unit": "metrics delete tokens, so the unit is the token", "method": "use methods=[…]",
                       "baseline": "use baselines=[…]"}[name]  # fmt: skip
            raise InputError(f"{name}: {instead}")


def _checked_shares(shares: Sequence[float]) -> list[float]:
    if not shares or any(not 0 < float(share) <= 1 for share in shares):
        raise InputError(f"shares of the tokens lie above 0 and at most at 1, got {list(shares)!r}")
    return [float(share) for share in shares]
