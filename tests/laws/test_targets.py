"""All classes of a text in one call: the numbers of separate calls, from shared passes."""

from __future__ import annotations

import copy
import inspect
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import transformers as hf

import pathlens as pl
from pathlens.engine.methods import METHODS
from tests.support import methods, models
from tests.support.models import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
SCORED = [
    *((name, {"n_steps": 4} if entry.rules == ("log",) else {}) for name, entry in METHODS.items() if not entry.vector),
    ("ig", {"n_steps": 5}), ("ig", {"rule": "split", "tolerance": 0.1}), ("ig", {"score": "prob", "unit": "word"}),
    ("sig", {"context": "prefix"}), ("secant", {"layer": 1}), ("sig", {"coordinates": True, "n_steps": 3}),
    ("ig", {"baseline": ["mask", "pad"]}),
]  # fmt: skip


@contextmanager
def counted(module: torch.nn.Module):
    """Rows that go through the model."""
    seen: list[int] = []
    hook = module.base_model.register_forward_hook(lambda *call: seen.append(len(call[-1][0])))
    try:
        yield seen
    finally:
        hook.remove()


@pytest.mark.parametrize(("method", "options"), SCORED, ids=str)
def test_all_classes_at_once_are_as_one_by_one(method, options):
    model = models.classifier("bert")
    options = {**methods.needs(method), **options}
    together = pl.explain(model, TEXTS[0], method=method, target="all", **options)
    assert isinstance(together, pl.Results) and len(together) == 3
    for number, result in enumerate(together):
        alone = pl.explain(model, TEXTS[0], method=method, target=number, **options)
        assert result.target == alone.target and result.tokens == alone.tokens
        size = np.abs(methods.numbers(alone)).max()
        assert np.abs(methods.numbers(result) - methods.numbers(alone)).max() <= 2e-5 * size
        assert result.certificate.nodes == alone.certificate.nodes and not result.altered
        assert result.certificate.converged == alone.certificate.converged
        assert result.meta["chosen"]["target"] == number and result.probabilities == alone.probabilities
        assert result.check.units == alone.check.units
        assert result.check.actual == pytest.approx(alone.check.actual, abs=1e-5)


@pytest.mark.parametrize(("method", "most"), [("sig", 1 / 2), ("secant", 2 / 3), ("ig", 0.8)])
def test_forward_passes_are_shared(method, most):
    """Of three classes: once where the points are the same, and never more than apart."""
    model = models.classifier("bert")
    module = model[0]
    how = {"method": method, "check": False, **({"n_steps": 12} if method == "ig" else {})}
    pl.explain(model, TEXTS[0], **how)  # the first of a kind is compared with the model's own output
    with counted(module) as together:
        pl.explain(model, TEXTS[0], target="all", **how)
    with counted(module) as apart:
        for number in range(3):
            pl.explain(model, TEXTS[0], target=number, **how)
    assert sum(together) <= most * sum(apart)


def test_several_texts_give_every_class_of_each_in_order():
    model = models.classifier("bert")
    every = pl.explain(model, TEXTS[:2], method="secant", target="all")
    assert [result.text for result in every] == [text for text in TEXTS[:2] for _ in range(3)]
    assert [result.meta["chosen"]["target"] for result in every] == [0, 1, 2] * 2
    alone = pl.explain(model, TEXTS[1], method="secant", target="all")
    for one, other in zip(every[3:], alone, strict=True):
        assert np.allclose(one.scores, other.scores, atol=1e-6)


def test_a_list_for_one_text_asks_for_each_and_for_several_texts_one_each():
    model = models.classifier("bert")
    two = pl.explain(model, TEXTS[0], method="secant", target=[2, "LABEL_0"])
    assert [result.meta["chosen"]["target"] for result in two] == [2, 0]
    paired = pl.explain(model, TEXTS[:2], method="secant", target=[2, 0])
    assert [result.text for result in paired] == TEXTS[:2]
    assert [result.meta["chosen"]["target"] for result in paired] == [2, 0]
    with pytest.raises(pl.errors.InputError, match="empty"):
        pl.explain(model, TEXTS[0], target=[])
    with pytest.raises(pl.errors.InputError, match="LABEL_9.*not a label"):
        pl.explain(model, TEXTS[0], method="secant", target=["LABEL_1", "LABEL_9"])


def test_a_tagger_has_no_classes_of_a_text():
    with pytest.raises(pl.errors.InputError, match="target of a tagger"):
        pl.explain(models.tagger(), TEXTS[0], target="all")


@pytest.mark.parametrize("target", ["all", [0, 2]])
def test_a_method_of_the_whole_output_takes_no_list_of_classes(target):
    with pytest.raises(pl.errors.InputError, match="explains the whole output at once.*leave target out"):
        pl.explain(models.classifier("bert"), TEXTS[0], method="vaig", target=target)


def first_number(vector):
    return vector[:, 0]


UNREAD = [  # model, second text, method, choices: nothing would look at one of them
    ("minilm", "great !", None, {"target": 1}, "target=1.*has no target"),
    ("minilm", "great !", "ij", {"target": first_number}, "target=first_number.*has no target"),
    ("minilm", "great !", "secant", {"target": "LABEL_1"}, "target='LABEL_1'.*has no target"),
    ("minilm", "great !", None, {"score": "prob"}, "score='prob'.*leave score out"),
    ("minilm", "great !", "ig", {"score": "logit"}, "score='logit'.*leave score out"),
    ("minilm", None, "vaig", {"score": "prob"}, "score='prob'.*leave score out"),
    ("minilm", None, "vaig", {"target": first_number}, "target=first_number.*leave target out"),
    ("minilm", "great !", "vaig", {}, "second would not be looked at"),
    ("minilm", "great !", "ig", {"target": first_number}, "second would not be looked at"),
    ("sentiment", None, "vaig", {"target": 1}, "target=1.*leave target out"),
    ("sentiment", None, "vaig", {"score": "prob"}, "score='prob'.*leave score out"),
    ("sentiment", None, "secant", {"gives": "vectors", "target": 1}, "target=1.*leave target out"),
    ("sentiment", None, "ig", {"target": first_number, "score": "prob"}, "score='prob'.*function.*leave score out"),
    ("chooser", "great !", None, {"target": 1}, "target=1.*has no target.*other choice as text_b"),
    ("chooser", "great !", "secant", {"target": "zzz"}, "target='zzz'.*has no target.*other choice as text_b"),
    ("chooser", "great !", "ig", {"target": "all"}, "target='all'.*has no target.*other choice as text_b"),
    ("chooser", "great !", "ig", {"target": ["zzz"]}, "target='zzz'.*has no target.*other choice as text_b"),
]


@pytest.fixture(scope="module")
def chooser():
    return models.sharpen(hf.BertForMultipleChoice(models.config("bert"))).eval(), models.tokenizer()


@pytest.mark.parametrize(("model", "second", "method", "choices", "words"), UNREAD)
def test_a_choice_that_nothing_would_look_at_is_refused(model, second, method, choices, words, request):
    with pytest.raises(pl.errors.InputError, match=words) as refusal:
        pl.explain(request.getfixturevalue(model), TEXTS[0], second, method=method, **choices)
    assert "\n" not in str(refusal.value)


def test_a_choice_takes_no_target_for_each_text_of_a_list_either(chooser):
    with pytest.raises(pl.errors.InputError, match="text 0: target=0.*has no target"):
        pl.explain(chooser, TEXTS[:2], ["great !", "awful ."], target=[0, 1])


def test_a_function_of_one_vector_and_a_gap_of_several_are_still_answered(minilm, chooser):
    assert pl.explain(chooser, TEXTS[0], "great !", target=first_number, check=False).target == "first_number"
    assert pl.explain(minilm, TEXTS[1], method="sig", target=first_number, check=False).target == "first_number"
    filler = hf.BertForMaskedLM(models.config("bert")).eval(), models.tokenizer()
    text = "the [MASK] was not [MASK]"
    vectors = pl.explain(filler, text, method="vaig", target=(5, None), n_steps=2, check=False)
    assert vectors.target == "all words of the gap"
    with pytest.raises(pl.errors.InputError, match="every word of the gap is explained at once.*\\(5, None\\)"):
        pl.explain(filler, text, method="vaig", target=(5, "good"), n_steps=2)


LABELS = ["good", "bad", "very funny"]


@pytest.fixture(scope="module")
def zero_shot():
    model, tokenizer = copy.deepcopy(models.classifier("bert"))  # others share it
    model.config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    return hf.pipeline("zero-shot-classification", model=model, tokenizer=tokenizer)


@pytest.mark.parametrize("choices", [{}, {"score": "prob"}, {"score": "prob", "multi_label": True}], ids=str)
def test_all_labels_of_a_zero_shot_pipeline_in_one_call(zero_shot, choices):
    """Each as by itself, and the probabilities are those the pipeline prints."""
    texts = TEXTS[:2]
    asked = {"method": "sig", "candidate_labels": LABELS, **choices}
    every = pl.explain(zero_shot, texts, target="all", **asked)
    assert [result.text for result in every] == [text for text in texts for _ in LABELS]
    for text, some in zip(texts, (every[:3], every[3:]), strict=True):
        printout = zero_shot(text, candidate_labels=LABELS, multi_label=bool(choices.get("multi_label")))
        printed = dict(zip(printout["labels"], printout["scores"], strict=True))
        for label, result in zip(LABELS, some, strict=True):
            alone = pl.explain(zero_shot, text, target=label, **asked)
            assert result.target == alone.target and result.meta["chosen"]["target"] == label
            assert np.allclose(result.scores, alone.scores, atol=1e-6)
            if "score" in choices:
                assert result.certificate.f_input == pytest.approx(printed[label], abs=1e-6)


def test_each_label_of_one_text_has_a_headline_of_its_own(zero_shot):
    """Without candidates a label is read alone, so what the model says of one is not what it says of the next."""
    for text in TEXTS[:2]:
        for label, result in zip(LABELS[:2], pl.explain(zero_shot, text, target=LABELS[:2]), strict=True):
            alone = pl.explain(zero_shot, text, target=label)
            assert list(result.probabilities) == [label] and result.headline.startswith(f"{label} is ")
            assert result.probabilities == pytest.approx(alone.probabilities, abs=1e-6)
            assert result.baseline_probabilities == pytest.approx(alone.baseline_probabilities, abs=1e-6)
            assert result.headline == alone.headline


def test_all_labels_are_the_pipelines_own_where_it_has_some(zero_shot):
    classifier = hf.pipeline(
        "zero-shot-classification", model=zero_shot.model, tokenizer=zero_shot.tokenizer, candidate_labels=LABELS[:2]
    )
    every = pl.explain(classifier, TEXTS[0], method="sig", target="all")
    assert [result.meta["chosen"]["target"] for result in every] == LABELS[:2]
    one = pl.explain(classifier, TEXTS[0], method="sig", target="all", candidate_labels=["all", "good"])
    assert one.meta["chosen"]["target"] == "all"  # a label that is called so
    with pytest.raises(pl.errors.InputError, match="there is none: give them as candidate_labels"):
        pl.explain(zero_shot, TEXTS[0], target="all")


def test_a_pipeline_that_reads_entailment_elsewhere_than_its_model_says_is_refused(zero_shot):
    config = zero_shot.model.config
    before = config.label2id
    try:
        config.label2id = {"entailment": 0, "neutral": 1, "contradiction": 2}
        with pytest.raises(pl.errors.ModelError, match="reads entailment at 0 .*id2label has it at 2"):
            pl.explain(zero_shot, TEXTS[0], target="good")
    finally:
        config.label2id = before


# ---- verbs that take a single target

TEXT = TEXTS[0]


def corpus_of(model, folder, **choices):
    (folder / "texts.csv").write_text(f'text\n"{TEXT}"\n')
    return pl.corpus.run(model, pl.corpus.Source(str(folder / "texts.csv"), text="text"), folder / "out", **choices)


OF_ONE_TARGET = {
    "compare": lambda model, folder, **target: pl.compare(model, TEXT, methods=["ig", "sig"], **target),
    "evaluate": lambda model, folder, **target: pl.evaluate(model, TEXTS[:2], methods=["sig"], **target),
    "whatif": lambda model, folder, **target: pl.studies.whatif(model, TEXT, **target),
    "layers": lambda model, folder, **target: pl.studies.layers(model, TEXT, **target),
    "nodes": lambda model, folder, **target: pl.studies.nodes(model, TEXT, counts=(2,), **target),
    "softplus_curve": lambda model, folder, **target: pl.studies.softplus_curve(model, TEXT, [10], **target),
    "pathview": lambda model, folder, **target: pl.studies.pathview(model, TEXT, methods=["ig"], **target),
    "zoom": lambda model, folder, **target: pl.zoom(model, pl.explain(model, TEXT, unit="word"), [1], **target),
    "run": corpus_of,
}
WITHOUT = {"answer", "exact", "hybrid"}  # theirs is the answer that is given, or a similarity


def test_every_verb_with_choices_is_asked():
    """A new one that takes what `explain` takes is put into one of both lists."""
    studies = [name for name in pl.studies.__all__ if inspect.isfunction(getattr(pl.studies, name))]
    listed = {*OF_ONE_TARGET, *WITHOUT}
    for name in studies:
        kinds = [each.kind for each in inspect.signature(getattr(pl.studies, name)).parameters.values()]
        assert inspect.Parameter.VAR_KEYWORD not in kinds or name in listed, name


@pytest.mark.parametrize("target", ["all", [0, 2], ["LABEL_1"], np.array([0, 1])], ids=str)
@pytest.mark.parametrize("verb", OF_ONE_TARGET)
def test_a_verb_of_one_target_refuses_several_before_it_works(verb, target, tmp_path):
    pair = models.classifier("bert")
    explained = {"zoom": 1}.get(verb, 0)  # the result that is opened
    with counted(pair[0]) as passes:
        if explained:
            pl.explain(pair, TEXT, unit="word")
        before = sum(passes)
        with pytest.raises(pl.InputError, match=r"^target=.* takes one target, not several; ask for one of "):
            OF_ONE_TARGET[verb](pair, tmp_path, target=target)
        assert sum(passes) <= 2 * before, "the model ran"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", OF_ONE_TARGET)
def test_a_class_that_is_called_all_is_one_target(verb, tmp_path):
    module, tokenizer = models.classifier("bert")
    module = copy.deepcopy(module)
    module.config.id2label = {0: "none", 1: "some", 2: "all"}
    OF_ONE_TARGET[verb]((module, tokenizer), tmp_path, target="all")


def test_an_answer_has_no_target():
    with pytest.raises(pl.InputError, match="^target: what is explained is the answer"):
        pl.answer(models.generator(), "what", [TEXT], "good", target="all")
