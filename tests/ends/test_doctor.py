"""The doctor examines the model, not the rounding of one processor."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers as hf
from transformers import BertForSequenceClassification

import pathlens as pl
from pathlens.doctor import examine
from pathlens.doctor.laws import drift, entrance
from pathlens.doctor.patient import Patient
from pathlens.errors import ConvergenceWarning, InputError, ModelError
from pathlens.text.load import load
from pathlens.text.network import Network
from pathlens.text.options import GeneratorOptions
from tests.support import models, sweep
from tests.support.models import classifier, generator

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


@pytest.mark.parametrize("make, name", [("translator", "t5"), ("generator", "gpt2"), ("classifier", "bert")])
def test_the_models_own_output_is_asked_for_in_every_way(make, name):
    model = load(getattr(models, make)(name))
    verdict = entrance(Patient(model, TEXT))
    assert verdict.state == "holds" and "prob" in verdict.measured
    assert ("a contrast" in verdict.measured) == (model.options is GeneratorOptions)
    assert verdict.measured.count("layer") == model.network.depth
    assert ("two texts" in verdict.measured) == (make == "classifier")


@pytest.mark.parametrize("name, head", [("flaubert", "classify"), ("xlm", "embed")])
def test_a_layer_that_is_refused_is_told_and_no_alarm(name, head):
    """What would be wrong there is never computed; everything else of the model holds."""
    diagnosis = examine(sweep.build(name, head), sweep.TEXT)
    (check_6,) = [check for check in diagnosis.checks if check.law == "6 the model's own output"]
    assert check_6.state == "holds" and "layer 1, 2 cannot be entered and is refused" in check_6.measured, check_6
    assert all(check.state != "fails" for check in diagnosis.checks if check.law.startswith(("4", "6", "7"))), diagnosis


@pytest.mark.parametrize("method", ["ig", "ih"])
def test_the_last_layer_of_a_model_whose_blocks_give_lists_is_entered_with_several_rows(method):
    result = pl.explain(sweep.build("openai-gpt", "write"), TEXT, target=" good", layer=2, method=method, n_steps=32)
    assert result.certificate.gap < 1e-3


def test_what_the_models_own_code_raises_is_said_in_our_words():
    """It fails in the midst of a law, on two rows at once: a sentence of ours with theirs in brackets."""
    made, tokenizer = classifier("bert")
    module = copy.deepcopy(made)

    def fail(_, given, output):
        if len(output) > 4:
            raise RuntimeError("view size is not compatible")

    module.classifier.register_forward_hook(fail)
    failed = [check for check in examine((module, tokenizer), TEXT).checks if check.state == "fails"]
    assert failed and any("(RuntimeError: view size is not compatible)" in check.measured for check in failed)
    assert not any(check.measured.startswith("RuntimeError") for check in failed)


def test_a_model_that_says_something_else_of_two_rows_is_found():
    """Every layer is entered with two, for what is read of a text is one row."""
    made, tokenizer = classifier("bert")
    module = copy.deepcopy(made)
    module.classifier.register_forward_hook(lambda _, given, out: out * len(out))
    with pytest.raises(ModelError, match="^two rows of one text do not give what one row gives"):
        entrance(Patient(load((module, tokenizer)), TEXT))


def test_advice_is_given_once_and_names_no_layer_where_there_is_none():
    """T5 has two stacks of blocks, and here ReLU's kinks: no integral settles, for one cause."""
    pair = sweep.build("t5", "classify")
    checks = examine(pair, sweep.TEXT).checks
    failed = [check for check in checks if check.state == "fails"]
    assert failed and not any("layer=" in check.advice for check in checks)
    advice = [check.advice for check in failed if check.advice]
    assert len(set(advice)) == len(advice) and any(each.startswith("as for '3 completeness'") for each in advice)
    with pytest.raises(InputError, match=r"^layer=1: this model has two stacks of blocks"):
        pl.explain(pair, sweep.TEXT, layer=1)
    with pytest.warns(ConvergenceWarning) as warned:
        pl.explain(pair, sweep.TEXT, method="ig", n_steps=2)
    assert not any("layer" in str(each.message) for each in warned)


@pytest.mark.parametrize("name", ["xlnet", "longformer", "squeezebert", "funnel"])
def test_a_refused_layer_is_one_line_in_our_words(name):
    with pytest.raises(ModelError, match="^layer=1 cannot be entered in .*: .*use layer=0") as refused:
        pl.explain(sweep.build(name, "classify"), sweep.TEXT, layer=1)
    assert "\n" not in str(refused.value) and "Error" not in str(refused.value)


@pytest.mark.parametrize(
    "name, head",
    [("roberta", "write"), ("bart", "translate"), ("openai-gpt", "write"), ("gemma", "write"), ("llama", "write")],
)
def test_no_false_alarm(name, head):
    diagnosis = examine(sweep.build(name, head), sweep.TEXT)
    assert diagnosis.healthy, [check for check in diagnosis.checks if check.state == "fails"]


def test_a_model_with_a_layer_and_a_score_of_its_own_for_integrals_is_asked_the_same_throughout():
    """As `smollm`: differences of log-probabilities are no check of a probability's integral."""
    model = load(generator())
    model.default_layer, model.default_score = 1, "prob"
    diagnosis = examine(model, "the movie was not really funny")
    assert diagnosis.healthy, [check for check in diagnosis.checks if check.state == "fails"]
    assert sum(check.state == "holds" for check in diagnosis.checks) == len(diagnosis.checks)


def entailing():
    model, tokenizer = copy.deepcopy(classifier("bert"))  # others share it
    model.config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    model.config.label2id = {label: number for number, label in model.config.id2label.items()}
    return {"model": model, "tokenizer": tokenizer}


def filler():
    torch.manual_seed(0)
    return models.sharpen(hf.BertForMaskedLM(models.config("bert"))).eval(), models.tokenizer()


def chooser():
    torch.manual_seed(0)
    return models.sharpen(hf.BertForMultipleChoice(models.config("bert"))).eval(), models.tokenizer()


ODD_KINDS = {
    "masked": filler,
    "masked, some words": lambda: hf.pipeline(
        "fill-mask", **dict(zip(("model", "tokenizer"), filler(), strict=True)), targets=["good", "bad"]
    ),
    "multiple choice": chooser,
    "zero-shot": lambda: hf.pipeline("zero-shot-classification", **entailing()),
    "zero-shot, labels": lambda: hf.pipeline(
        "zero-shot-classification", **entailing(), candidate_labels=["good", "very bad"]
    ),
    "logits alone": lambda: hf.pipeline("text-classification", **entailing(), function_to_apply="none"),
    "padding changes it": lambda: sweep.build("xlnet", "classify"),
}


@pytest.mark.parametrize("make", ODD_KINDS.values(), ids=ODD_KINDS)
def test_no_false_alarm_of_a_kind_that_must_be_asked_in_its_own_way(make):
    diagnosis = examine(make())
    assert diagnosis.healthy, [check for check in diagnosis.checks if check.state == "fails"]
    assert sum(check.state == "holds" for check in diagnosis.checks) >= 14, diagnosis.checks
    (plain,) = [check for check in diagnosis.checks if check.law == "6 the model's own output"]
    scores = load(make()).scores
    assert all(score in plain.measured for score in scores) and ("prob" in scores) == ("prob" in plain.measured)


@pytest.mark.parametrize("name", ["masked", "multiple choice", "zero-shot", "zero-shot, labels"])
def test_no_false_all_clear_of_these_kinds(name, monkeypatch):
    """Entered with other rows than its own, each says something else, in one cause."""
    model, usual = ODD_KINDS[name](), Network.call

    def wrong(self, embeds, context, written=None):
        return usual(self, 1.1 * embeds, context, written)

    monkeypatch.setattr(Network, "call", wrong)
    diagnosis = examine(model)
    failed = [check for check in diagnosis.checks if check.state == "fails"]
    assert failed and any("itself gives" in check.measured for check in failed)
    assert len({check.measured for check in failed}) == len(failed)


def test_a_text_that_this_kind_does_not_take_is_the_askers_mistake():
    for make, text, words in (
        (filler, "no gap here", "write \\[MASK\\]"),
        (ODD_KINDS["zero-shot"], "", "the text to examine with is empty"),
    ):
        with pytest.raises(InputError, match=words):
            examine(make(), text)


def test_half_precision_is_one_cause():
    module, tokenizer = classifier("bert")
    checks = examine((copy.deepcopy(module).to(torch.bfloat16), tokenizer), TEXT).checks
    advice = [check.advice for check in checks if check.state == "fails"]
    assert advice and advice[0].startswith("load it with dtype=torch.float32")
    assert all(each == "as for '3 completeness'" for each in advice[1:])


def test_a_model_that_cannot_run_in_float64_is_no_alarm():
    """The kernel of its experts takes no float64; what else is wrong in a copy is still an alarm."""
    pair = sweep.build("mixtral", "write")
    verdict = drift(Patient(load(pair), TEXT))
    assert verdict.state == "left out" and verdict.measured.startswith("this model cannot run in float64 (")
    module, tokenizer = classifier("bert")
    spoilt = copy.deepcopy(module)
    spoilt.classifier.register_forward_hook(lambda _, given, out: out / (out.dtype != torch.float64))
    verdict = drift(Patient(load((spoilt, tokenizer)), TEXT))
    assert verdict.state == "fails" and "float64" in verdict.measured


def test_a_model_that_is_coarse_in_bfloat16_is_warned_of_and_holds_as_it_is():
    drift = next(check for check in examine(sweep.build("mamba", "write"), sweep.TEXT).checks if "drift" in check.law)
    assert drift.state == "holds" and "do not load it in bfloat16" in drift.measured


def test_small_scores_are_not_let_off(monkeypatch):
    """A difference of a hundredth of the scores is seen, also where they are small beside 1."""
    module, tokenizer = classifier("bert")
    usual = BertForSequenceClassification.forward

    def loose(self, *args, **kwargs):
        output = usual(self, *args, **kwargs)
        output.logits = output.logits * (1 + 0.01 * (len(output.logits) > 4))  # a model that mixes its rows
        return output

    monkeypatch.setattr(BertForSequenceClassification, "forward", loose)
    scores = pl.explain((module, tokenizer), TEXT, n_steps=4, internal_batch_size=1, check=False).scores
    assert abs(scores).max() < 0.05, "the example is one of small scores"
    checks = {check.law: check.state for check in examine((module, tokenizer), TEXT).checks}
    assert "fails" in (checks["6 batch = single"], checks["7 slow twin"])


def test_positions_that_are_not_the_models_own_are_seen(monkeypatch):
    """RoBERTa counts positions from its padding: entered without its ids it says something else, and all-clear is not given."""
    pair = sweep.build("roberta", "write")
    usual = Network.call

    def wrong(self, embeds, context, written=None):
        return usual(self, embeds, {**context, "position_ids": torch.arange(embeds.shape[1])[None]}, written)

    monkeypatch.setattr(Network, "call", wrong)
    diagnosis = examine(pair, sweep.TEXT)
    assert not diagnosis.healthy and any("itself gives" in check.measured for check in diagnosis.checks)
    causes = [check.measured for check in diagnosis.checks if check.state == "fails"]
    assert len(causes) == len(set(causes)), "one cause is said once"


class Hidden(BertForSequenceClassification):
    """Looks its words up where nobody sees it."""

    def forward(self, input_ids, attention_mask=None):
        rows = torch.nn.functional.embedding(input_ids, self.get_input_embeddings().weight)
        return super().forward(inputs_embeds=rows, attention_mask=attention_mask)


def test_one_cause_is_said_once():
    diagnosis = examine((Hidden(models.config("bert")).eval(), models.tokenizer()), TEXT)
    (failed,) = [check for check in diagnosis.checks if check.state == "fails"]
    again = [check for check in diagnosis.checks if check.measured == f"the same as of {failed.law!r}"]
    assert "does not look its words up" in failed.measured and len(again) > 5
