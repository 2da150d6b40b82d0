"""Law 10, honest errors: on problems with exact answers an estimate never understates by more than its stated factor.

What is held is the estimate itself: the largest true error of a result is at most FACTOR times the largest error
estimate, however small both are; rounding alone is allowed besides. Single tokens' estimates are not held one by one: a
token whose sums agree by chance has a small one, and only the largest decides `converged`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.engine.methods import METHODS, route_of
from pathlens.engine.options import build
from pathlens.text.adapter import Request
from pathlens.types import RULES
from tests.support import models
from tests.support.bank import BANK, TEXT, BankModel, Term, along, interactions, scores
from tests.support.methods import needs

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")

FACTOR = 2.0  # of a run to a tolerance, whatever the problem
FIXED = 3.0  # of a given number of nodes, 16 or more, on the bank: nothing is added where they miss a feature
KINKED = 4.0  # of Integrated Hessians across a kink: its second derivative is at one point, which no node meets
OTHER = "six seven eight nine ten"
BASELINES = [None, [0.3, 0.1, -0.2, 0.4, 0.2], [-0.5, 0.2, 0.1, -0.1, 0.3]]
HELD: set[str] = set()
problems = pytest.mark.parametrize("problem", BANK)


def held(*methods: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of these methods; one that no test is of fails the last test but one."""
    HELD.update(methods)
    return pytest.mark.parametrize("method", methods)


def check(errors: np.ndarray, certificate: Any, factor: float) -> None:
    rounding = 1e-12 * max(1.0, abs(certificate.f_input))
    ratio = float(np.max(errors)) / (max(certificate.error_estimate) + rounding)
    assert ratio <= factor, f"the largest error is {ratio:.2g} times what the certificate says ({certificate})"


@problems
@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-2}, {"tolerance": 1e-6}, {"max_nodes": 30}], ids=str)
@held("ig", "idg")
def test_ig_to_a_tolerance(method, problem, options):
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, method=method, **options)
    check(np.abs(result.scores - scores(BANK[problem], *model.ends())), result.certificate, FACTOR)


@problems
@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-6}, {"n_steps": 64}], ids=str)
@held("dig", "udig")
def test_paths_through_words(method, problem, options):
    model, options = BankModel(BANK[problem]), {**needs(method), **options}
    result = pl.explain(model, TEXT, method=method, **options)
    words = build(method, needs(method))
    route = route_of(words, model.case(TEXT, request=Request()).ends)
    corners = np.stack([route.corner(each)[:, 0].numpy() for each in range(route.corners)])
    assert len(corners) > 3, "a straight line would be nothing but IG"
    factor = FIXED if "n_steps" in options else FACTOR
    check(np.abs(result.scores - along(BANK[problem], corners)), result.certificate, factor)


@problems
@held("secant")
def test_secants_have_no_error_but_rounding(method, problem):
    """Each term is one operation of one number, so that the secant rule's share is the integral's."""
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, method=method, gives="scores")
    check(np.abs(result.scores - scores(BANK[problem], *model.ends())), result.certificate, FACTOR)


@problems
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "adaptive"])
def test_ig_by_every_rule_until_two_runs_agree(problem, rule):
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, rule=rule)
    check(np.abs(result.scores - scores(BANK[problem], *model.ends())), result.certificate, FACTOR)


@problems
@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "adaptive"])
def test_ig_with_given_nodes(problem, rule, n):
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, rule=rule, n_steps=n)
    errors = np.abs(result.scores - scores(BANK[problem], *model.ends()))
    check(errors, result.certificate, FIXED)


@problems
@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-6}, {"n_steps": 24}], ids=str)
@held("sig")
def test_sig_by_coordinate(method, problem, options):
    """Without coordinates its scores are differences of outputs, and nothing is estimated (its slow twin)."""
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, method=method, coordinates=True, **options)
    start, end = model.ends()
    points = [end, *(np.where(np.arange(len(end)) == token, start, end) for token in range(len(end)))]
    whole, *without = (sum(term.at(float(point @ term.direction)) for term in BANK[problem]) for point in points)
    check(
        np.abs(result.scores - (whole - np.array(without))),
        result.certificate,
        FIXED if "n_steps" in options else FACTOR,
    )


@problems
def test_expected_gradients(problem):
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, baseline=[None if b is None else np.array(b)[:, None] for b in BASELINES])
    exact = np.mean([scores(BANK[problem], *model.ends(TEXT, baseline)) for baseline in BASELINES], axis=0)
    check(np.abs(result.scores - exact), result.certificate, FACTOR)


@problems
@pytest.mark.parametrize("n", [None, 32])
@held("ih")
def test_integrated_hessians_row_by_row(method, problem, n):
    model = BankModel(BANK[problem])
    result = pl.explain(model, TEXT, method=method, n_steps=n)
    errors = np.linalg.norm(result.matrix - interactions(BANK[problem], *model.ends()), axis=1)
    kinked = "kink" in problem
    check(errors, result.certificate, KINKED if kinked else FACTOR if n is None else FIXED)
    assert not (kinked and result.certificate.converged), "what no node meets shows in the row sums at least"


def vectors(model: BankModel, text: str) -> np.ndarray:
    """(S + 1, k): the reference's own vector, then each token's exact share of the change."""
    start, end = model.ends(text)
    reference = [sum(term.at(float(start @ term.direction)) for term in each) for each in model.problems]
    return np.vstack([reference, np.stack([scores(each, start, end) for each in model.problems], axis=1)])


@problems
@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-6}, {"n_steps": 24}], ids=str)
@held("vaig")
def test_vectors(method, problem, options):
    model = BankModel(BANK[problem], BANK["cubic"], BANK["sigmoids"])
    result = pl.explain(model, TEXT, method=method, **options)
    errors = np.linalg.norm(result.vectors[0] - vectors(model, TEXT)[1:], axis=1)
    check(errors, result.certificate, FIXED if "n_steps" in options else FACTOR)


@problems
@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-6}, {"n_steps": 24}], ids=str)
@held("ij")
def test_pairs_by_the_sums_of_rows_and_columns(method, problem, options):
    model = BankModel(BANK[problem], BANK["cubic"], BANK["sigmoids"])
    result = pl.explain(model, TEXT, OTHER, method=method, **options)
    a, b = vectors(model, TEXT), vectors(model, OTHER)
    exact = a @ b.T / (np.linalg.norm(a.sum(0)) * np.linalg.norm(b.sum(0)))
    off = result.full_matrix - exact
    errors = np.concatenate([np.abs(off.sum(1))[1:], np.abs(off.sum(0))[1:]])
    check(errors, result.certificate, FIXED if "n_steps" in options else FACTOR)


@problems
def test_a_list_of_numbers_each_by_its_own(problem):
    model = BankModel(BANK[problem], BANK["cubic"], BANK["kink"])
    result = pl.explain(model, TEXT, method="ig")
    assert isinstance(result, pl.Continuation)
    for column, (each, certificate) in enumerate(zip(model.problems, result.certificates, strict=True)):
        check(np.abs(result.matrix[:, column] - scores(each, *model.ends())), certificate, FACTOR)


KINDS = {"kink": torch.relu, "corner": torch.abs, "step": lambda s: torch.tanh(60 * s)}


def drawn(draw: np.random.Generator, kind: str, most: float) -> Term:
    """A bend anywhere on the path, in a direction whose tokens cancel: the largest share is `most` of the term's change."""
    end = np.array(BankModel.texts[TEXT])
    while True:
        direction = draw.normal(size=len(end))
        change = float(direction @ end)
        if most / 2 <= np.abs(direction * end / change).max() <= most:
            break
    place = float(draw.uniform(0.02, 0.98))
    return Term(1.0, lambda s: KINDS[kind](s / change - place), tuple(map(float, direction)), (place * change,))


@pytest.mark.parametrize("most", [0.6, 1.0, 1.5, 3.0, 8.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-4])
def test_ig_across_any_bend_where_tokens_cancel(tolerance, kind, most):
    """What the whole sum misses is known, and a token may be off by a multiple of it."""
    draw = np.random.default_rng(0)
    for _ in range(25):
        model = BankModel((drawn(draw, kind, most),))
        result = pl.explain(model, TEXT, method="ig", tolerance=tolerance, check=False)
        check(np.abs(result.scores - scores(model.problems[0], *model.ends())), result.certificate, FACTOR)


@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-5}, {"rule": "gauss", "n_steps": 32}], ids=str)
def test_ig_of_mixed_bends(options):
    draw = np.random.default_rng(1)
    for _ in range(25):
        kinds = draw.choice(list(KINDS), size=3)
        terms = [
            drawn(draw, kind, float(most)) for kind, most in zip(kinds, draw.uniform(0.6, 2.0, size=3), strict=True)
        ]
        model = BankModel(tuple(terms))
        result = pl.explain(model, TEXT, method="ig", check=False, **options)
        factor = FIXED if "n_steps" in options else FACTOR
        check(np.abs(result.scores - scores(model.problems[0], *model.ends())), result.certificate, factor)


def test_every_method_of_the_table_is_held():
    assert set(METHODS) == HELD


def test_the_bank_is_right():
    """Its closed forms add up: shares to the change of the output, rows of interactions to the shares."""
    for problem in BANK.values():
        model = BankModel(problem)
        start, end = model.ends()
        matrix = interactions(problem, start, end)
        exact = scores(problem, start, end)
        change = sum(term.at(float(end @ term.direction)) - term.at(float(start @ term.direction)) for term in problem)
        assert exact.sum() == pytest.approx(change) and matrix.sum(1) == pytest.approx(exact, abs=1e-9)
        assert np.abs(exact).max() > 0.05


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("context", ["full", "prefix"])
def test_sig_in_half_precision_says_what_rounding_makes_of_single_scores(architecture, context):
    """Two outputs are subtracted, and each of them is rounded: estimates of 0 would call turned signs settled."""
    module, tokenizer = models.classifier(architecture)
    half, whole = ((deepcopy(module).to(dtype), tokenizer) for dtype in (torch.bfloat16, torch.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pl.explain(half, models.TEXTS[0], method="sig", target=0, context=context, check=False)
    exact = pl.explain(whole, models.TEXTS[0], method="sig", target=0, context=context, check=False)
    off = np.abs(result.scores - exact.scores)
    assert off.max() > exact.certificate.bound, "rounding that cannot be seen tests nothing"
    assert (off <= np.array(result.certificate.error_estimate)).all() and not result.certificate.converged
    assert exact.certificate.converged and not any(exact.certificate.error_estimate)
