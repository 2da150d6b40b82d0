"""Reading [CLS] alone: the last block computed for the first token only gives the same scores, for less work."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
import transformers as hf
from torch.utils.flop_counter import FlopCounterMode
from transformers.modeling_outputs import SequenceClassifierOutput

import pathlens as pl
from pathlens.text.load import load
from tests.support.models import ARCHITECTURES, TEXTS, classifier, config, sharpen, tokenizer


def with_and_without(name: str, **choices):
    """The same explanation as it is, and with every token of the last block computed."""
    short, full = load(classifier(name)), load(classifier(name))
    full.read_first = list  # none
    return pl.explain(short, TEXTS, **choices), pl.explain(full, TEXTS, **choices), short


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("layer", [0, 2, 3])
def test_scores_do_not_change(name, layer):
    ours, full, _ = with_and_without(name, n_steps=9, layer=layer)
    for one, other in zip(ours, full, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-5 * np.abs(other.scores).max())
        assert one.certificate.f_input == pytest.approx(other.certificate.f_input, rel=1e-5)


@pytest.mark.parametrize(
    "choices", [{"method": "ih", "n_steps": 6}, {"method": "vaig", "n_steps": 6}, {"method": "sig"}]
)
def test_second_order_and_forward_mode_too(choices):
    ours, full, _ = with_and_without("bert", **choices)
    for one, other in zip(ours, full, strict=True):
        result, wanted = (getattr(each, "matrix", getattr(each, "vectors", None)) for each in (one, other))
        result, wanted = (one.scores, other.scores) if result is None else (result, wanted)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["bert", "distilbert", "deberta-v2"])
def test_keys_and_values_are_computed_for_every_token_and_the_rest_is_not(name):
    model = load(classifier(name))
    last = model.network.blocks[-1]
    names = {part: path for path, part in last.named_modules()}
    assert len(model.read_first()) == 4
    assert not any("key" in names[part] or "value" in names[part] for part in model.read_first())


def test_less_work_is_done():
    model = load(classifier("bert"))
    pl.explain(model, TEXTS[0], n_steps=9)  # what a model is asked once is not counted
    counts = []
    for chosen in (model.read_first(), []):
        model.read_first = chosen.copy
        with FlopCounterMode(display=False) as counter:
            pl.explain(model, TEXTS[0], n_steps=9)
        counts.append(counter.get_total_flops())
    assert counts[0] < counts[1]


def test_nothing_is_left_on_the_model_and_decoders_are_as_they_were():
    model = load(classifier("bert"))
    pl.explain(model, TEXTS[0], n_steps=3)
    assert not any("forward" in part.__dict__ for part in model.module.modules())
    assert not any(part._forward_hooks for part in model.module.modules())
    assert load(classifier("llama")).read_first() == []


def test_a_layer_read_at_every_token_is_left_alone():
    """A head that averages all tokens reads them all."""
    module, words = classifier("distilbert", labels=2)
    plain = load((module, words))

    def averaging(input_ids, attention_mask):
        hidden = module.distilbert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = module.classifier(torch.relu(module.pre_classifier(hidden.mean(1))))
        return SequenceClassifierOutput(logits=logits)

    plain.network.module.forward = averaging
    try:
        assert plain.read_first() == []
    finally:
        del plain.network.module.__dict__["forward"]


class AtTheMark(hf.BertPreTrainedModel):
    """Reads the state of the first "plot" of a text; of its first token where there is none."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = hf.BertModel(config)
        self.classifier = torch.nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        states = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state
        place = (input_ids == tokenizer().convert_tokens_to_ids("plot")).int().argmax(1)
        return SequenceClassifierOutput(logits=self.classifier(states[torch.arange(len(states)), place]))


class LoudestHead(torch.nn.Module):
    """Reads the token whose state has the largest first number: their lengths are all alike after a LayerNorm."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    @staticmethod
    def loudness(states):
        return states[..., 0]

    def forward(self, states):
        loudest = self.loudness(states).argmax(1)
        return self.head(states[torch.arange(len(states)), loudest][:, None])


def margin(module, text):
    """By how much the token that `LoudestHead` reads is louder than the next."""
    with torch.no_grad():
        states = module.base_model(**tokenizer()(text, return_tensors="pt")).last_hidden_state
    first, second = LoudestHead.loudness(states)[0].topk(2).values
    return float(first - second)


def logit(module, text):
    inputs = tokenizer()(text, return_tensors="pt")
    with torch.no_grad():
        return float(module(inputs.input_ids, attention_mask=inputs.attention_mask).logits[0, 0])


def test_a_users_own_head_may_read_another_token_in_every_text():
    torch.manual_seed(1)
    module = sharpen(AtTheMark(config("bert", num_labels=3))).eval()
    explainer = pl.Explainer((module, tokenizer()), target=0)
    for text in ("the movie was good .", "the movie was a good plot ."):
        assert explainer(text).certificate.f_input == pytest.approx(logit(module, text), abs=1e-5)


def test_a_model_that_is_changed_between_two_calls_is_read_as_it_is():
    """Its setting, its head, a hook: whatever the first text was read by."""
    text = "the movie was a good plot ."
    for name, change in {
        "modernbert": lambda module: setattr(module.config, "classifier_pooling", "mean"),
        "roberta": lambda module: setattr(module, "classifier", LoudestHead(module.classifier)),
        "bert": lambda module: module.bert.encoder.register_forward_hook(
            lambda part, given, states: type(states)(last_hidden_state=states[0].flip(1))
        ),
    }.items():
        module = deepcopy(classifier(name)[0])
        if name == "modernbert":
            module.config.classifier_pooling = "cls"
        explainer = pl.Explainer((module, tokenizer()), target=0, method="ig", n_steps=2, tolerance=9)
        assert name != "roberta" or margin(module, text) > 1e-3, "rounding would choose"
        before = explainer(text).certificate.f_input
        assert before == pytest.approx(logit(module, text), abs=1e-5)
        change(module)
        after = explainer(text).certificate.f_input
        assert after == pytest.approx(logit(module, text), abs=1e-5) != pytest.approx(before, abs=1e-3)


def test_the_layers_are_looked_for_once():
    model = load(classifier("bert"))
    pl.explain(model, TEXTS[0])
    first = model.read_first()
    pl.explain(model, TEXTS[1])
    assert model.read_first() is first and len(first) == 4
    assert len(load("sentiment").read_first()) == 4
