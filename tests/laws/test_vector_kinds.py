"""Vectors of architectures that forward mode finds hard, against the plain loop: ids in, rows moved by a hook, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.quadrature import gauss
from tests.support import sweep

KINDS = [("mra", "embed"), ("mixtral", "write"), ("gpt_oss", "write"), ("bloom", "write"), ("led", "translate")]


def loop(model, ids, number, out):
    """Σ w J(point) δ, token by token, one output coordinate after the other."""
    held = [i for i, token in enumerate(ids) if token in (2, 3)]
    start = sweep.looked_up(model, [token if i in held else 1 for i, token in enumerate(ids)])
    end, nodes = sweep.looked_up(model, ids), gauss(3)
    total = torch.zeros(out, end.shape[1], dtype=torch.float64)
    for t, weight in zip(nodes.t, nodes.weight, strict=True):
        point = (start + float(t) * (end - start)).requires_grad_()
        value = number(point)
        for k in range(out):
            (slope,) = torch.autograd.grad(value[k], point, retain_graph=True)
            total[k] += float(weight) * (slope * (end - start)).sum(-1)[0].double()
    return total.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name, head", KINDS)
def test_vectors_are_those_of_the_plain_loop(name, head):
    model, tokenizer = pair = sweep.build(name, head)
    encoded = tokenizer(sweep.TEXT, return_tensors="pt")
    ids = encoded["input_ids"]

    def number(rows):
        with sweep.moved(model, (ids, rows)):
            if head == "translate":
                start = torch.tensor([[model.config.decoder_start_token_id]])
                return model(**encoded, decoder_input_ids=start, use_cache=False).logits[0, -1]
            raw = model(**encoded)
        return raw.logits[0, -1] if head == "write" else raw[0][0].mean(0)

    result = pl.explain(pair, sweep.TEXT, method="vaig", n_steps=3, rule="gauss", baseline="unk", tolerance=9)
    with torch.no_grad():
        out = len(number(sweep.looked_up(model, ids[0].tolist())))
    wanted = loop(model, ids[0].tolist(), number, out)
    vectors = result.vectors[0, : ids.shape[1]].T  # (k, S); a decoder's opening is held and adds nothing
    np.testing.assert_allclose(vectors, wanted, atol=1e-3 * np.abs(wanted).max())
