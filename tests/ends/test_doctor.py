"""The doctor examines the model, not the rounding of one processor."""

from __future__ import annotations

import copy

import torch

from pathlens.doctor import examine
from tests.support.models import classifier

TEXT = "the movie was not really funny , but moving ."


def test_a_class_that_other_rounding_would_choose_is_no_drift():
    """In bfloat16 the two classes tie and the other one is predicted; the scores of the same class barely move."""
    module, tokenizer = classifier("bert", labels=2)
    with torch.no_grad():
        head = module.classifier
        head.weight[1] *= 0.1
        head.weight[0] = -head.weight[1]
        head.bias.copy_(torch.tensor([256.0, 256.9]))  # bfloat16 has 256 and 258 and nothing between
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        assert int(module(**inputs).logits.argmax()) == 1
        other = copy.deepcopy(module).to(torch.bfloat16)(**inputs)
        assert int(other.logits.argmax()) == 0, "the example is one where the class turns"
    drift = next(check for check in examine((module, tokenizer), TEXT).checks if check.law == "8 precision drift")
    assert drift.state == "holds", (drift.measured, drift.advice)
