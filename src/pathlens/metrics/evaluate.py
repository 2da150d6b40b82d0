"""How far can the scores be believed? Methods × metrics over many texts, with controls and intervals.

>>> import pathlens as pl
>>> pl.evaluate("sentiment", ["Not really funny, but moving.", "A dull film."], methods=["ig", "sig"]).show()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from pathlens.checks import listed
from pathlens.engine.explainer import check_choices, loaded
from pathlens.engine.progress import Progress
from pathlens.engine.typed import Options
from pathlens.errors import InputError
from pathlens.explanation.certificate import Certificate
from pathlens.metrics.contenders import GRADIENT, Contender, ScoredText, contenders, score_texts
from pathlens.metrics.deletion import PROTOCOLS, SHARE, SHARES, Protocol, curves
from pathlens.metrics.extras import EXTRAS, Trial, add_extras
from pathlens.metrics.record import HIGHER, LOWER, SIG_NOTE, Column, Curve, Evaluation
from pathlens.metrics.statistics import DRAWS, spearman
from pathlens.text.adapter import TextModel
from pathlens.text.chat import as_list

METHODS = (GRADIENT, "ig", "sig", "secant")
FORWARD_TEXTS = 32  # texts whose edited versions are packed together
INSTEAD = {  # choices of `pl.explain` that an evaluation makes itself
    "unit": "metrics delete tokens, so the unit is the token",
    "method": "use methods=[…]",
    "baseline": "use baselines=[…]",
}


def evaluate(
    model: Any,
    texts: Sequence[Any],
    texts_b: Sequence[Any] | None = None,
    *,
    methods: str | Sequence[str] = METHODS,
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
    **choices: Unpack[Options],
) -> Evaluation:
    """Log-odds, comprehensiveness and sufficiency of methods, beside random scores and leave-one-out.

    model, choices: as in `pl.explain` (a classifier, a tagger or a question answerer; with texts_b: pairs).
    methods: any with a score per token, and gradient-x-input; every one with every one of `baselines`.
    protocol: "default" (special tokens are never deleted or counted, k at least 1) or "paper" (as published).
    reference: what replaces tokens in log-odds: mask, pad, … or several (default: the model's default baseline).
    shares: of the tokens, for the curves; AOPC is their mean. The table itself is at 20 %.
    extra: "infidelity", "wae", "max-sensitivity", "stability", "randomisation"; the last three explain again.
    labels: the true ones (names or indices): the model's accuracy on these texts is noted.
    method_options: per method, e.g. {"udig": {"rule": "left"}}.

    Limits: metrics that delete tokens favour scores made by deleting them (sig, leave-one-out).
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol={protocol!r} is not known; protocols: {', '.join(PROTOCOLS)}")
    if seed < 0:
        raise InputError(f"seed must be a whole number from 0 upwards, got {seed}")
    unknown = [name for name in extra if name not in EXTRAS]
    if unknown:
        raise InputError(f"extra: {', '.join(map(str, unknown))} is not known; there is {', '.join(EXTRAS)}")
    for name in INSTEAD:
        if name in choices:
            raise InputError(f"{name}: {INSTEAD[name]}")
    texts, texts_b, labels = as_list(texts), as_list(texts_b), as_list(labels)
    if isinstance(texts, str) or isinstance(texts_b, str):
        raise InputError("texts and texts_b are lists of texts, one each per example; put a single text into [ ]")
    if not texts:
        raise InputError("there are no texts to evaluate on")
    for name, given in (("texts_b", texts_b), ("labels", labels)):
        if given is not None and len(given) != len(texts):
            raise InputError(f"{name} has {len(given)} entries for {len(texts)} texts")
    if reference is not None and not reference:
        raise InputError("reference: name at least one token that replaces others (mask, pad, …), or leave it out")
    rows = contenders(listed(methods) or (), baselines, method_options)
    check_choices(None, choices)
    one, named = loaded(model, choices)
    pairs = list(zip(texts, texts_b if texts_b is not None else [None] * len(texts), strict=True))
    with Progress(len(pairs) * len(rows), show_progress) as tick:
        scored, failures = score_texts(one, rows, pairs, reference=reference, seed=seed, choices=named, tick=tick)
    evaluation = judge(rows, scored, PROTOCOLS[protocol], shares=shares, seed=seed, draws=draws)
    evaluation = add_extras(evaluation, Trial(one, rows, scored, named, seed), extra)
    notes = (*evaluation.notes, *_troubles(failures, scored, rows), *_accuracy(one, scored, labels))
    plain = {name: value for name, value in named.items() if isinstance(value, str | int | float | bool)}
    return replace(evaluation, notes=notes, meta={"model": one.name, "kind": one.kind, **plain})


def judge(
    rows: Sequence[Contender],
    texts: Sequence[ScoredText],
    protocol: Protocol,
    *,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    draws: int = DRAWS,
) -> Evaluation:
    """Scores → the deletion metrics, completeness and rank agreement. Forward passes alone."""
    if not shares or any(not 0 < float(share) <= 1 for share in shares):
        raise InputError(f"shares of the tokens lie above 0 and at most at 1, got {list(shares)!r}")
    grid = tuple(sorted({*map(float, shares), SHARE}))
    at, chosen = grid.index(SHARE), [grid.index(float(share)) for share in shares]
    references, asked = texts[0].references, tuple(grid[i] for i in chosen)
    changes = []
    for start in range(0, len(texts), FORWARD_TEXTS):
        some = texts[start : start + FORWARD_TEXTS]
        tables = [text.table for text in some]
        changes += curves([text.likelihood for text in some], references, tables, grid, protocol)
    lines = [
        (name, HIGHER if name == "comprehensiveness" else LOWER, np.stack([each[name] for each in changes], axis=1))
        for name in changes[0]
    ]
    gaps = np.array([[completeness(text.scores[w].certificate) for text in texts] for w in range(len(rows))])
    columns = [
        *(Column(name, better, values[..., at], curve=name) for name, better, values in lines),
        *(
            Column(f"AOPC {name}", better, values[..., chosen].mean(-1), curve=name, over_shares=True)
            for name, better, values in lines
        ),
        Column("gap Δ", LOWER, gaps[..., 0]),
        Column("gap Δ %, median", LOWER, gaps[..., 1], median=True),
    ]
    notes = (
        f"log-odds replace tokens by the reference {' and '.join(references)}; published ones use pad in two papers and mask in the third, so they do not compare",
        SIG_NOTE,
        f"protocol {protocol.name}: {protocol.words}",
    )
    return Evaluation(
        contenders=tuple(contender.label for contender in rows),
        columns=tuple(columns),
        curves=tuple(Curve(name, better, asked, values[..., chosen]) for name, better, values in lines),
        agreement=_agreement(texts),
        protocol=protocol.name,
        references=tuple(references),
        share=SHARE,
        texts=len(texts),
        seed=seed,
        draws=draws,
        notes=notes,
    )


def completeness(certificate: Certificate | None) -> tuple[float, float]:
    """|Δ| and |Δ %| of Σ scores = F(x) − F(b); NaN where no such sum is claimed (SIG adds up token by token)."""
    if certificate is None or certificate.kind != "total":
        return float("nan"), float("nan")
    change = certificate.f_input - certificate.f_baseline
    gap = abs(certificate.total - change)
    return gap, 100 * gap / abs(change) if change else float("nan")


def _agreement(texts: Sequence[ScoredText]) -> np.ndarray:
    """Mean Spearman over texts, on real tokens; the diagonal is 1."""
    tables = [text.table[:, ~np.array(text.case.special)] for text in texts]
    agreement = np.eye(len(tables[0]))
    for a in range(len(agreement)):
        for b in range(a):
            rho = [spearman(table[a], table[b]) for table in tables]
            known = [value for value in rho if np.isfinite(value)]
            agreement[a, b] = agreement[b, a] = float(np.mean(known)) if known else np.nan
    return agreement


def _troubles(failures: Mapping[int, Exception], texts: Sequence[ScoredText], rows: Sequence[Contender]) -> list[str]:
    notes = []
    if failures:
        first = min(failures)
        notes.append(f"{len(failures)} texts are left out of every row; the first is text {first}: {failures[first]}")
    for w, contender in enumerate(rows):
        proofs = [text.scores[w].certificate for text in texts]
        loose = sum(1 for proof in proofs if proof is not None and not proof.converged)
        if loose:
            notes.append(f"{contender.label}: {loose} of {len(proofs)} texts not settled within the tolerance")
    return notes


def _accuracy(model: TextModel, texts: Sequence[ScoredText], labels: Sequence[Any] | None) -> list[str]:
    """A note, or why there is none: stars from 1 to 5 are no labels of a model that knows two."""
    if labels is None:
        return []
    given = {text.number: str(labels[text.number]).strip().lower() for text in texts if labels[text.number] is not None}
    given = {number: label for number, label in given.items() if label}
    if not given:
        return ["accuracy is not told: no label is given"]
    names = model.labels if model.kind == "sequence classification" else ()
    known = {*(name.lower() for name in names), *map(str, range(len(names)))}
    strange = [labels[number] for number, label in given.items() if names and label not in known]
    if strange:
        why = f"{len(strange)} of {len(given)} given labels are none of the model's ({', '.join(names)})"
        return [f"accuracy is not told: {why}, the first is {strange[0]!r}"]
    targets = {text.number: text.case.target for text in texts}
    right = [
        label in (str(targets[number]), names[targets[number]].lower() if names else None)
        for number, label in given.items()
    ]
    without = f"; {len(texts) - len(given)} texts have no label" if len(given) < len(texts) else ""
    return [f"the model names the given label for {sum(right)} of {len(right)} texts ({np.mean(right):.3f}){without}"]
