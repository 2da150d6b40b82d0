"""Secants on a hundred architectures: sums exact to rounding, forwards as backwards, and what cannot be followed named."""

from __future__ import annotations

import sys

import pytest
import torch

from pathlens.errors import SecantError
from pathlens.integrand.batch import Batch
from pathlens.integrand.secant import SecantScores, SecantVectors, watching_integrated
from pathlens.integrand.secant.segments import run_again
from pathlens.text.network import find_blocks, in_double, replaced_forwards
from tests.support import architectures
from tests.support.architectures import EVERY, LENGTH

INTEGRATED = {"qwen3_next": {"linalg_solve_triangular"}}  # operations without a rule, along their own line
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", EVERY)
def test_sums_are_exact_on_every_architecture(name):
    number, start, end = architectures.entered(name)
    with torch.no_grad():
        f_start, f_end = number(start), number(end)
    members = torch.eye(LENGTH)[None].expand(2, -1, -1)
    size = torch.maximum((f_end - f_start).abs(), torch.maximum(f_start.abs(), f_end.abs()))
    shares = {}
    with watching_integrated() as integrated:
        for way, integrand, score in (
            ("backwards", SecantScores(), number),
            ("forwards", SecantVectors(), lambda x: number(x)[:, None, None]),
        ):
            batch = Batch(score, end, end - start, members, torch.ones(2), start=start)
            values = integrand(batch).reshape(2, -1).double()
            assert torch.allclose(values[:, :2], torch.stack([f_start, f_end], 1).double(), rtol=1e-4, atol=1e-5)
            shares[way] = values[:, 2:]
    for way, values in shares.items():
        gap = (values.sum(1) - (f_end - f_start)).abs()
        assert float((gap / size).max()) <= 1e-5, way
        assert not values[:, 0].any(), "a held token has no share"
    largest = float(shares["forwards"].abs().max())
    assert torch.allclose(shares["forwards"], shares["backwards"], atol=2e-4 * largest)
    assert set(integrated) == INTEGRATED.get(name, set())


@pytest.mark.parametrize("name", EVERY)
def test_in_float64_nothing_is_left_even_of_a_change_that_is_far_smaller_than_the_outputs(name):
    """The look that a text gets whose rounding shows, here on every architecture: their own casts to float32 leave nothing."""
    model = architectures.build(name)
    number, start, end = architectures.entered(name, model)
    with torch.no_grad():
        before = number(start)
    with in_double(model, most=sys.maxsize) as taken:
        _, of_change = architectures.gaps(number, start.double(), end.double())
    assert taken and of_change <= 1e-10
    with torch.no_grad():
        assert torch.equal(number(start), before), "the model is as it was"


@pytest.mark.parametrize("name", EVERY)
def test_blocks_that_run_again_for_several_numbers_change_nothing(name):
    model = architectures.build(name)
    number, start, end = architectures.entered(name, model)
    blocks, _ = find_blocks(model)
    runs = [0]

    def counted(forward, *args, **kwargs):
        runs[0] += 1
        return run_again(forward, *args, **kwargs)

    def numbers(points):
        one = number(points)
        return torch.stack([one, torch.tanh(one / 10), one * one], 1)[..., None]

    members = torch.eye(LENGTH)[None].expand(2, -1, -1)
    batch = Batch(numbers, end, end - start, members, torch.ones(2), start=start)
    kept = SecantScores(outputs=3)(batch)
    with replaced_forwards(blocks, counted):
        again = SecantScores(outputs=3)(batch)
    assert bool(runs[0]) == bool(blocks), "blocks are known, and came by"
    scale = kept.abs().amax((1,), keepdim=True).clamp_min(1e-6)
    assert float(((again - kept) / scale).abs().max()) < 1e-5


@pytest.mark.parametrize("name", ["gpt_oss", "granitemoe", "phimoe"])
def test_routing_that_differs_is_named(name):
    number, start, end = architectures.entered(name)
    batch = Batch(number, end, end - start, torch.eye(LENGTH)[None].expand(2, -1, -1), torch.ones(2), start=start)
    with pytest.raises(SecantError, match=r"(topk|masked_fill) chooses"):
        SecantScores()(batch)
