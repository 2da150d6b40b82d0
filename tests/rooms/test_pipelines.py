"""A pipeline is explained as it reads: what it prints is what is explained, or it is refused in one line."""

from __future__ import annotations

import pytest
import transformers as hf

import pathlens as pl
from pathlens.errors import ModelError
from tests.support import models
from tests.support.models import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
LONG = "the movie was not really funny but the actors were great and I liked it more than the last one . " * 2


def piped(**told):
    model, tokenizer = models.classifier("bert")
    return hf.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, **told)


@pytest.mark.parametrize("told", [{"truncation": True}, {}, {"truncation": "longest_first", "padding": True}])
def test_a_text_is_cut_where_the_pipeline_cuts_it(told):
    whole = piped(max_length=9, **told)
    said = {each["label"]: each["score"] for each in whole([LONG])[0]}
    result = pl.explain(whole, LONG, n_steps=2, check=False)
    assert dict(result.probabilities) == pytest.approx(said, abs=1e-6)
    assert (
        len(result.tokens) == 9 and result.meta["truncated"] and any("was cut" in note for note in result.meta["notes"])
    )
    short = pl.explain(whole, "a film", n_steps=2, check=False)
    assert not short.meta.get("truncated")


def test_a_pipeline_that_cuts_is_another_model():
    from pathlens.text.fingerprint import fingerprint

    assert fingerprint(pl.models.load(piped())) != fingerprint(pl.models.load(piped(truncation=True, max_length=9)))


@pytest.mark.parametrize(
    "told", [{"add_special_tokens": False}, {"padding": "max_length"}, {"truncation": "only_second"}]
)
def test_what_changes_the_ids_and_is_not_followed_is_refused(told):
    with pytest.raises(ModelError, match=f"{next(iter(told))}=.*changes the tokens"):
        pl.explain(piped(**told), TEXTS[0])


class Lowered(hf.TextClassificationPipeline):
    def preprocess(self, inputs, **told):
        return super().preprocess(inputs.replace("not ", ""), **told)


def test_a_pipeline_that_changes_its_texts_is_refused():
    model, tokenizer = models.classifier("bert")
    with pytest.raises(ModelError, match="reads the text as .* tokens that are not"):
        pl.explain(Lowered(model=model, tokenizer=tokenizer), "this was not good")


def test_a_pipeline_that_fills_gaps_is_told_its_tokenizers_options_in_a_dictionary():
    tokenizer = models.tokenizer()
    model = hf.BertForMaskedLM(models.config("bert")).eval()
    gap = f"the {tokenizer.mask_token} {LONG}"
    told = {"truncation": True, "max_length": 8}
    whole = hf.pipeline("fill-mask", model=model, tokenizer=tokenizer, tokenizer_kwargs=told, top_k=1)
    result = pl.explain(whole, gap, score="prob", n_steps=2, check=False)
    assert result.certificate.f_input == pytest.approx(whole(gap)[0]["score"], abs=1e-6)
