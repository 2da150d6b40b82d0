"""What users slip on is said in our words, not in a library's."""

from __future__ import annotations

import copy
import json

import pytest

import pathlens as pl
from pathlens.errors import InputError, StoreError
from pathlens.text.load import load
from pathlens.text.options import HypothesisOptions
from tests.support import models


@pytest.mark.parametrize("sentence", ["{} or {}", "{} or {x}", "{} }", "{} {0}", "{} {.x}"])
def test_a_hypothesis_with_other_braces_is_refused(sentence):
    with pytest.raises(InputError, match="no other braces"):
        HypothesisOptions(hypothesis=sentence)
    HypothesisOptions(hypothesis="It is about {}.")


@pytest.mark.parametrize(
    "body",
    [
        {"pathlens": "1", "kind": "Explanation"},
        {"pathlens": 1, "kind": "Collection", "items": None},
        {"pathlens": 1, "kind": "Ranking", "hits": [1]},
        {"pathlens": 1, "kind": "Ranking", "hits": {}},
        {"pathlens": 1, "kind": ["a"]},
    ],
)
def test_a_damaged_file_is_a_store_error(tmp_path, body):
    file = tmp_path / "result.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(StoreError):
        pl.load(file)


def test_a_mixed_adapter_is_opened():
    import peft

    model, tokenizer = models.classifier("bert")
    mixed = peft.PeftMixedModel(copy.deepcopy(model), peft.LoraConfig(target_modules=["query"])).eval()
    assert load((mixed, tokenizer)).kind == "sequence classification"
    result = pl.explain((mixed, tokenizer), "a good film", target=0, check=False)
    expected = mixed(**tokenizer("a good film", return_tensors="pt")).logits[0, 0].item()
    assert result.certificate.f_input == pytest.approx(expected, abs=1e-5)
