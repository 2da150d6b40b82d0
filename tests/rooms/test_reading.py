"""Texts of a chunk are read together: the same targets as alone, in fewer runs of the model, and each error in its place."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.errors import InputError, NumberError
from pathlens.text.adapter import Request, in_batches
from pathlens.text.load import load
from tests.support import models, sweep

TEXTS = ["the movie was good", "not funny at all .", "a man plays music .", "great !", "the plot was really not good ."]
KINDS = {
    "classifier": (lambda: models.classifier("bert"), [None] * 5),
    "decoder with a head": (lambda: models.classifier("gpt2"), [None] * 5),
    "tagger": (models.tagger, [None] * 5),
    "answerer": (
        models.answerer,
        ["a man plays music .", "the plot was good .", "it was a movie", "great !", "not at all"],
    ),
}


class Runs:
    """How often, and with how many rows, a module was run."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.rows: list[int] = []
        self.hook = module.register_forward_pre_hook(self.note, with_kwargs=True)

    def note(self, module, args, named):
        self.rows.append(len(named["input_ids"]))


@pytest.mark.parametrize("kind", KINDS)
def test_together_they_have_the_targets_they_have_alone(kind):
    make, others = KINDS[kind]
    model = load(make())
    wanted = [(text, other, Request()) for text, other in zip(TEXTS, others, strict=True)]
    with model.quiet():
        alone = [model.case(text, other, request=request) for text, other, request in wanted]
        runs = Runs(model.network.module)
        together = model.cases(wanted)
        runs.hook.remove()
    assert sum(runs.rows) == len(TEXTS) and len(runs.rows) < len(TEXTS)
    for one, case in zip(alone, together, strict=True):
        assert (one.target, one.target_name, one.pack, one.tokens) == (
            case.target,
            case.target_name,
            case.pack,
            case.tokens,
        )
        assert torch.equal(one.ends.start, case.ends.start) and torch.equal(one.ends.end, case.ends.end)


def without_padding_token():
    module, words = models.in_double(models.classifier("gpt2"))
    module.config.pad_token_id = None
    return module, words


PACKED = {
    "classifier": (lambda: models.in_double(models.classifier("bert")), None, {}),
    "decoder that knows no padding": (without_padding_token, None, {}),
    "tagger": (lambda: models.in_double(models.tagger()), None, {"target": (2, "PER"), "score": "prob"}),
    "answerer": (lambda: models.in_double(models.answerer()), "what was it ?", {"score": "logprob"}),
    "sentence encoder": (lambda: models.in_double(models.encoder("bert")), None, {"method": "vaig"}),
}


@pytest.mark.parametrize("kind", PACKED)
def test_texts_of_different_lengths_share_a_batch(kind):
    """Padding changes nothing in these. If it did, each text would be run alone and still be right, but slow."""
    make, question, choices = PACKED[kind]
    model, texts = load(make()), ["the movie was not really funny , but moving", "the movie was not really funny , but"]
    both = (texts,) if question is None else ([question] * 2, texts)
    pl.explain(model, *both, n_steps=2, tolerance=1, **choices)
    assert model.packs is True


def test_a_text_that_cannot_be_read_does_not_end_the_others():
    model = load(models.classifier("bert"))
    result = pl.Explainer(model, method="secant").run([(text, None) for text in (TEXTS[0], "", TEXTS[1])])
    assert isinstance(result[1], InputError)
    for number, text in ((0, TEXTS[0]), (2, TEXTS[1])):
        assert np.allclose(result[number].scores, pl.explain(model, text, method="secant").scores, atol=1e-6)


def test_a_text_whose_output_is_not_a_number_is_found_among_the_others():
    made, tokenizer = models.classifier("bert")
    broken = type(made)(made.config).eval()
    broken.load_state_dict(made.state_dict())
    with torch.no_grad():
        broken.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids("funny")] = float("nan")
    good, bad = pl.Explainer((broken, tokenizer), method="sig").run([(text, None) for text in TEXTS[:2]])
    assert isinstance(bad, NumberError) and "weight" in str(bad)
    assert np.allclose(good.scores, pl.explain((made, tokenizer), TEXTS[0], method="sig").scores, atol=1e-6)


@pytest.mark.parametrize(
    "choice", [{"method": "ig"}, {"method": "ig", "target": " good film"}, {"method": "ih"}], ids=str
)
def test_padding_without_a_finite_derivative_is_nothing_to_a_text(choice):
    """Gemma 3n takes norms of its rows, and padding is zeros."""
    pair = sweep.build("gemma3n_text", "write")
    explainer = pl.Explainer(pair, **{"target": " good", "n_steps": 2, "check": False, **choice})
    for one, text in zip(explainer([sweep.TEXT, sweep.OTHER]), (sweep.TEXT, sweep.OTHER), strict=True):
        assert np.allclose(one.scores, explainer(text).scores, atol=1e-5)


class NoSlope(torch.autograd.Function):
    """x, with a derivative that is not a number where `bad`."""

    @staticmethod
    def forward(ctx, x, bad):
        ctx.save_for_backward(bad)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope.masked_fill(ctx.saved_tensors[0], torch.nan), None


def test_a_word_without_a_derivative_is_an_error_of_its_text_alone():
    """It is in the shorter one, which is padded."""
    made, tokenizer = models.classifier("bert")
    model, word = copy.deepcopy(made), tokenizer.convert_tokens_to_ids("plot")

    def spoil(_, args, given, rows):
        return NoSlope.apply(rows, (given["input_ids"] == word)[..., None])

    model.bert.embeddings.register_forward_hook(spoil, with_kwargs=True)
    explainer = pl.Explainer((model, tokenizer), n_steps=2, check=False, method="ig", target=1)
    good, bad = explainer.run([(text, None) for text in ("the movie was not really funny .", "the plot was funny .")])
    assert isinstance(bad, NumberError) and "derivative" in str(bad)
    assert np.isfinite(good.scores).all()


@pytest.mark.parametrize("target", [None, " man"])
def test_a_generator_runs_its_prompt_no_more_often_than_it_must(target):
    """Once to find the next token, where none is given; the secants' own two runs come after."""
    model = load(models.generator())
    with model.quiet():
        model.case("a man", request=Request(target=target))  # a model's first text is compared with its own output
        seen = []
        hook = model.module.register_forward_pre_hook(lambda *_: seen.append(1))
        model.case("the movie", request=Request(target=target))
        hook.remove()
    assert len(seen) == (1 if target is None else 0)


def test_batches_hold_little_padding_and_every_case_once():
    model = load(models.classifier("bert"))
    cases = [model.case(text, request=Request()) for text in (*TEXTS, " ".join(TEXTS * 3))]
    batches = list(in_batches(cases))
    assert sorted(id(case) for some in batches for case in some) == sorted(map(id, cases))
    assert all(len(some[-1]) <= 1.25 * len(some[0]) for some in batches)
