"""A pipeline is explained as it reads: what it prints is what is explained, or it is refused in one line."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn

import pathlens as pl
from pathlens.errors import InputError, ModelError
from tests.support import models
from tests.support.models import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
LONG = "the movie was not really funny but the actors were great and I liked it more than the last one . " * 2


def piped(**choices):
    model, tokenizer = models.classifier("bert")
    return hf.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, **choices)


@pytest.mark.parametrize("choices", [{"truncation": True}, {}, {"truncation": "longest_first", "padding": True}])
def test_a_text_is_cut_where_the_pipeline_cuts_it(choices):
    whole = piped(max_length=9, **choices)
    printed = {each["label"]: each["score"] for each in whole([LONG])[0]}
    result = pl.explain(whole, LONG, n_steps=2, check=False)
    assert dict(result.probabilities) == pytest.approx(printed, abs=1e-6)
    assert (
        len(result.tokens) == 9 and result.meta["truncated"] and any("was cut" in note for note in result.meta["notes"])
    )
    short = pl.explain(whole, "a film", n_steps=2, check=False)
    assert not short.meta.get("truncated")


def test_a_pipeline_that_cuts_is_another_model():
    from pathlens.text.fingerprint import fingerprint

    assert fingerprint(pl.models.load(piped())) != fingerprint(pl.models.load(piped(truncation=True, max_length=9)))


@pytest.mark.parametrize(
    "choices", [{"add_special_tokens": False}, {"padding": "max_length"}, {"truncation": "only_second"}]
)
def test_what_changes_the_ids_and_is_not_followed_is_refused(choices):
    with pytest.raises(ModelError, match=f"{next(iter(choices))}=.*changes the tokens"):
        pl.explain(piped(**choices), TEXTS[0])


class Lowered(hf.TextClassificationPipeline):
    def preprocess(self, inputs, **choices):
        return super().preprocess(inputs.replace("not ", ""), **choices)


def test_a_pipeline_that_changes_its_texts_is_refused():
    model, tokenizer = models.classifier("bert")
    with pytest.raises(ModelError, match="reads the text as .* tokens that are not"):
        pl.explain(Lowered(model=model, tokenizer=tokenizer), "this was not good")


def test_a_pipeline_that_fills_gaps_is_told_its_tokenizers_options_in_a_dictionary():
    tokenizer = models.tokenizer()
    model = hf.BertForMaskedLM(models.config("bert")).eval()
    gap = f"the {tokenizer.mask_token} {LONG}"
    choices = {"truncation": True, "max_length": 8}
    whole = hf.pipeline("fill-mask", model=model, tokenizer=tokenizer, tokenizer_kwargs=choices, top_k=1)
    result = pl.explain(whole, gap, score="prob", n_steps=2, check=False)
    assert result.certificate.f_input == pytest.approx(whole(gap)[0]["score"], abs=1e-6)


def test_a_pipeline_that_chooses_among_some_words_is_asked_about_those():
    model, tokenizer = hf.BertForMaskedLM(models.config("bert")).eval(), models.tokenizer()
    gap = f"the {tokenizer.mask_token} was not really funny"
    free = hf.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=len(tokenizer))(gap)
    last = [each["token_str"] for each in free[-2:]]  # those it would never choose by itself
    filler = hf.pipeline("fill-mask", model=model, tokenizer=tokenizer, targets=last)
    printed = {each["token_str"]: each["score"] for each in filler(gap)}
    result = pl.explain(filler, gap, score="prob", n_steps=2, check=False)
    assert result.target == f"{filler(gap)[0]['token_str']!r} in the gap (prob)"
    assert result.certificate.f_input == pytest.approx(filler(gap)[0]["score"], abs=1e-6)
    every = pl.explain(filler, gap, score="prob", target="all", n_steps=2, check=False)
    assert {each.target: each.certificate.f_input for each in every} == {
        f"{word!r} in the gap (prob)": pytest.approx(share, abs=1e-6) for word, share in printed.items()
    }


def test_two_texts_are_compared_with_the_pipelines_own_ids():
    model, tokenizer = models.classifier("bert")

    class Swapped(hf.TextClassificationPipeline):
        def preprocess(self, inputs, **options):
            turned = {"text": inputs["text_pair"], "text_pair": inputs["text"]} if isinstance(inputs, dict) else inputs
            return super().preprocess(turned, **options)

    with pytest.raises(ModelError, match="reads the text as .* tokens that are not"):
        pl.explain(Swapped(model=model, tokenizer=tokenizer), TEXTS[0], TEXTS[1])
    whole = piped(function_to_apply="none")
    printed = {each["label"]: each["score"] for each in whole({"text": TEXTS[0], "text_pair": TEXTS[1]})}
    for label, logit in printed.items():
        result = pl.explain(whole, TEXTS[0], TEXTS[1], target=label, n_steps=2, check=False)
        assert result.certificate.f_input == pytest.approx(logit, abs=1e-5)


ACTIVATIONS = [None, nn.Sigmoid(), nn.Softmax(dim=-1), nn.Identity(), nn.Tanh(), nn.Softmax(dim=0), torch.tanh]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Classifiers with one label and with three."""
    made = {}
    for labels in (1, 3):
        model, tokenizer = models.classifier("bert", labels=labels)
        made[labels] = tmp_path_factory.mktemp(f"labels{labels}")
        model.save_pretrained(made[labels])
        tokenizer.save_pretrained(made[labels])
    return made


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_cross_encoders_probability_is_what_it_predicts(folders, labels, activation):
    """Where it predicts none, none is given: its logits are."""
    from sentence_transformers import CrossEncoder

    cross = CrossEncoder(str(folders[labels]), device="cpu", activation_fn=activation)
    pair, how = (TEXTS[1], TEXTS[0]), {"n_steps": 2, "check": False}
    predicted = np.atleast_1d(cross.predict([pair])[0])
    logits = np.atleast_1d(cross.predict([pair], activation_fn=nn.Identity())[0])
    for number in range(labels):
        target = {} if labels == 1 else {"target": number}
        plain = pl.explain(cross, *pair, **target, **how)
        assert plain.certificate.f_input == pytest.approx(float(logits[number]), abs=1e-5)
        if isinstance(cross.activation_fn, nn.Sigmoid) or getattr(cross.activation_fn, "dim", 0) == -1:
            shared = pl.explain(cross, *pair, score="prob", **target, **how)
            assert shared.certificate.f_input == pytest.approx(float(predicted[number]), abs=1e-6)
            if labels > 1:
                assert list(plain.probabilities.values()) == pytest.approx(predicted.tolist(), abs=1e-6)
        else:
            assert not plain.probabilities
            with pytest.raises(
                InputError, match="this CrossEncoder predicts .*so it has no prob; ask for score='logit'"
            ):
                pl.explain(cross, *pair, score="prob", **target, **how)


def test_a_cross_encoder_cuts_texts_and_is_found_by_its_folder(folders, tmp_path):
    from sentence_transformers import CrossEncoder

    cross = CrossEncoder(str(folders[3]), device="cpu", max_length=8, activation_fn=nn.Softmax(dim=-1))
    pair = TEXTS[2], TEXTS[0]
    cross.save_pretrained(str(tmp_path))
    for model, loaded in ((cross, cross), (str(tmp_path), CrossEncoder(str(tmp_path), device="cpu"))):
        result = pl.explain(model, *pair, target=1, score="prob", n_steps=2, check=False)
        assert result.certificate.f_input == pytest.approx(float(loaded.predict([pair])[0][1]), abs=1e-6)
    assert len(pl.explain(cross, *pair, n_steps=2, check=False).tokens) == 8


def test_a_cross_encoder_with_a_prompt_or_more_modules_is_refused(folders):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    prompted = CrossEncoder(str(folders[1]), device="cpu", prompts={"q": "great "}, default_prompt_name="q")
    with pytest.raises(ModelError, match="its prompt 'q'.*default_prompt_name=None"):
        pl.explain(prompted, TEXTS[0], TEXTS[1])
    body = Transformer(str(folders[1]))
    last = Dense(32, 1, module_input_name="sentence_embedding", module_output_name="scores")
    longer = CrossEncoder(modules=[body, Pooling(32), last], device="cpu")
    with pytest.raises(ModelError, match="goes through Pooling, Dense after its transformer"):
        pl.explain(longer, TEXTS[0], TEXTS[1])
