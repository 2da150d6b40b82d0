"""Answers: the sources alone share the whole change, whatever the method; offsets are the caller's own characters."""

from __future__ import annotations

import importlib
import json
import math
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
import transformers as hf

import pathlens as pl
from pathlens.errors import InputError, TooLongError
from pathlens.studies.answer import opened
from pathlens.studies.sources import read_sources
from pathlens.text.load import load
from pathlens.text.outputs import ReadOutputs
from pathlens.text.resumed import Resumed
from tests.support.corpora import pathlens, refused
from tests.support.models import DECODERS, config, sharpen, tokenizer

study = importlib.import_module("pathlens.studies.answer")  # the name in the room stands for the function
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} </{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
SOURCES = (
    "the movie was good . a man plays guitar .",
    "  the plot was bad . it was not funny . ",
    "who was it ? that man .",
)
QUESTION, ANSWER = "what was good ?", "it was a movie . the man plays ."
EXACT = {"secant": 1e-9, "sig": 0.0}


@cache
def model(name: str = "llama", template: bool = True):
    """In float64, where sums can be held to rounding."""
    torch.manual_seed(5)
    module = sharpen(hf.AutoModelForCausalLM.from_config(config(name)), 2.0).double().eval()
    words = deepcopy(tokenizer(decoder=True))
    words.chat_template = TEMPLATE if template else None
    return module, words


def ask(**choices):
    return pl.answer(model(), QUESTION, SOURCES, **{"answer": ANSWER, "redundant": False, **choices})


def logprob(prompt: str, message: str, out: tuple[tuple[int, int], ...] = (), name: str = "llama") -> float:
    """By the model itself: the tokens of `said` after the prompt, with these characters at rows of zeros."""
    module, words = model(name)
    both = words(prompt + message, add_special_tokens=False, return_offsets_mapping=True)
    before = len(words(prompt, add_special_tokens=False)["input_ids"])
    table = module.get_input_embeddings().weight
    rows = table[torch.tensor(both["input_ids"])].clone()
    for k, (start, end) in enumerate(both["offset_mapping"]):
        if any(low <= start and end <= high for low, high in out):
            rows[k] = 0.0
    with torch.no_grad():
        logits = module(inputs_embeds=rows[None]).logits[0].log_softmax(-1)
    return sum(float(logits[k - 1, both["input_ids"][k]]) for k in range(before, len(both["input_ids"])))


def places(texts=SOURCES):
    prompt = pl.chat(user=QUESTION, passages=texts).prompt(model()[1])
    return prompt.text, [prompt.passages[f"passage {k}"] for k in range(1, len(texts) + 1)]


@pytest.mark.parametrize("method", EXACT)
def test_the_sources_share_the_whole_change_and_nothing_else_has_any(method):
    result = ask(method=method)
    prompt, spans = places()
    change = logprob(prompt, ANSWER) - logprob(prompt, ANSWER, tuple(spans))
    certificate = result.certificate
    assert certificate.f_input == pytest.approx(logprob(prompt, ANSWER), abs=1e-6)
    assert certificate.f_input - certificate.f_baseline == pytest.approx(change, abs=1e-6)
    assert math.log(result.anyway) == pytest.approx(logprob(prompt, ANSWER, tuple(spans)), abs=1e-6)
    if method == "secant":
        assert result.matrix.sum() == pytest.approx(change, abs=1e-6)
        changes = [each.f_input - each.f_baseline for each in result.certificates]
        assert np.allclose(result.matrix.sum(1), changes, atol=1e-6)
        assert sum(changes) == pytest.approx(change, abs=1e-6)
    else:
        without = [logprob(prompt, ANSWER) - logprob(prompt, ANSWER, (span,)) for span in spans]
        assert np.allclose(result.source_scores, without, atol=1e-6)
    assert certificate.converged and result.matrix.shape == (2, 6)


def test_rows_are_sentences_of_the_answer_and_columns_characters_of_the_callers_texts():
    result = ask()
    assert result.sentences == ("it was a movie .", "the man plays .")
    assert result.parts == (
        *("the movie was good .", "a man plays guitar ."),
        *("the plot was bad .", "it was not funny ."),
        *("who was it ?", "that man ."),
    )
    assert result.sources == SOURCES and result.owners == (0, 0, 1, 1, 2, 2)
    assert np.allclose(result.by_source[:, 1], result.matrix[:, 2:4].sum(1))
    assert result.offsets[2] == (2, 20)  # blanks before the source count


def test_the_check_calls_parts_by_their_words():
    result = ask(unit="sentence")
    parts = {SOURCES[k][start:end].strip() for k, (start, end) in zip(result.owners, result.offsets, strict=True)}
    assert result.check.units and set(result.check.units) <= parts


def test_sentences_are_told_apart_by_teacher_forcing():
    prompt, _ = places()
    first, second = ask().certificates
    assert first.f_input == pytest.approx(logprob(prompt, "it was a movie ."), abs=1e-6)
    after = logprob(prompt, ANSWER) - logprob(prompt, "it was a movie .")
    assert second.f_input == pytest.approx(after, abs=1e-6)
    (here, anyway), _ = ask().odds
    assert (here, anyway) == pytest.approx((math.exp(first.f_input / 5), math.exp(first.f_baseline / 5))), "of a token"


@pytest.mark.parametrize("method", EXACT)
def test_zooming_keeps_every_sum_and_costs_what_was_said(method):
    coarse = ask(method=method, unit="source")
    assert coarse.matrix.shape == (2, 3)
    step = pl.zoom(model(), coarse, ["source 1", "source 2"])
    assert step.parts[:2] == ("the movie was good .", "a man plays guitar .") and len(step.parts) == 5
    fine = pl.zoom(model(), step, [1, 2], inside="word")
    assert fine.parts[1:6] == ("a", "man", "plays", "guitar", ".")
    for closer in (step, fine):
        assert np.allclose(closer.by_source, coarse.by_source, atol=1e-6)
    assert np.allclose(fine.matrix[:, 1:6].sum(1), step.matrix[:, 1], atol=1e-6)
    assert step.certificate.passes == coarse.passes_to_open([0, 1], "sentence")
    assert fine.certificate.passes == step.passes_to_open([1, 2], "word")


def test_zooming_opens_what_matters_by_default():
    result = ask()
    closer = opened(model(), result)
    assert len(closer.parts) > len(result.parts)
    kept = {part for u, part in enumerate(result.parts) if u not in result.strongest()}
    assert kept <= set(closer.parts)


@pytest.mark.parametrize("name", DECODERS)
def test_keys_and_values_kept_change_nothing(name):
    """Every corner from its first difference on equals the whole run; gemma's windows are run whole."""
    loaded = load(model(name))
    result = pl.answer(loaded, QUESTION, SOURCES, ANSWER, method="sig", redundant=False)
    whole = pl.explain(loaded, pl.chat(user=QUESTION, passages=SOURCES), method="sig", unit="passage", target=ANSWER)
    scores = dict(zip(whole.tokens, whole.scores, strict=True))
    assert np.allclose(result.source_scores, [scores[f"passage {k}"] for k in (1, 2, 3)], atol=1e-9)


def test_late_parts_are_run_from_where_they_differ():
    loaded = load(model())
    case = (
        pl.Explainer(loaded, method="sig", target=ANSWER, layer=0)
        .prepare(pl.chat(user=QUESTION, passages=SOURCES))
        .cases[0]
    )
    score = Resumed(loaded, ReadOutputs("logprob", None), case)
    moved = case.ends.end.clone()
    late = next(k for k, token in enumerate(case.tokens) if token == "that")
    moved[late] = case.ends.start[late]
    with torch.no_grad():
        score(case.ends.end[None], [case])
        after_text = score.tokens
        value = score(moved[None], [case])
    assert score.tokens - after_text == len(case) - late
    assert torch.allclose(value, ReadOutputs("logprob", None)(loaded.forward(moved[None], [case], 0), [case]))


def test_why_not_another_answer_is_one_number():
    other = "the man plays guitar !"
    prompt, spans = places()
    for method in EXACT:
        result = ask(method=method, contrast=other)
        now, anyway = (logprob(prompt, ANSWER, out) - logprob(prompt, other, out) for out in ((), tuple(spans)))
        assert result.certificate.f_input == pytest.approx(now, abs=1e-6)
        assert result.certificate.f_baseline == pytest.approx(anyway, abs=1e-6)
        assert result.matrix.shape == (1, 6) and result.sentences == (ANSWER,) and result.odds == ()
        assert result.contrast == other
        closer = pl.zoom(model(), result, ["source 2"], inside="word")
        assert np.allclose(closer.source_scores, result.source_scores, atol=1e-6)


def test_citations_follow_the_stated_threshold():
    result = ask()
    shares = np.array([[3.0, 0.0, 1.0, 0.0, 6.0, 0.0], [0.1, 0.0, 0.0, 0.0, -5.0, 0.0]])
    made = result.derived(matrix=shares)
    assert made.citations == ((3, 1), ())  # 6 and 3 of 10; 0.1 makes nothing twice as likely
    assert made.with_threshold(0.5).citations == ((3,), ())
    against = result.derived(matrix=np.array([[4.0, 0.0, 1.0, 0.0, -4.0, 0.0], [0.0] * 6]))
    assert against.citations == ((1,), ()), "what speaks against a sentence makes no other source count for more"
    assert made.with_threshold(0.1).citations == ((3, 1, 2), ())
    assert made.cited() == "it was a movie . [3] [1] the man plays ."
    for wrong in (0, 1.5, True, "x"):
        with pytest.raises(InputError, match="threshold"):
            made.with_threshold(wrong)


TWICE = ["the movie was good .", "the movie was good .", "a man plays guitar ."]


def test_sources_are_left_out_alone_and_together(monkeypatch):
    """What is lost without one, the other and both, by the model's own log-probabilities."""
    prompt, spans = places(tuple(TWICE))
    lost = []
    expected = study.lost_without
    monkeypatch.setattr(study, "lost_without", lambda *given: lost.append(expected(*given)) or lost[-1])
    pl.answer(model(), QUESTION, TWICE, ANSWER)  # the first two have all their words in common
    wanted = [logprob(prompt, ANSWER) - logprob(prompt, ANSWER, out) for out in (spans[:1], spans[1:2], spans[:2])]
    assert np.allclose(lost, [wanted], atol=1e-6)
    pl.answer(model(), QUESTION, TWICE, ANSWER, redundant=True)
    assert len(lost[1]) == 6  # three sources, three pairs
    pl.answer(model(), QUESTION, TWICE, ANSWER, redundant=False)
    assert len(lost) == 2


@pytest.mark.parametrize(
    ("lost", "same"), [((0.1, 0.2, 3.0), True), ((2.0, 0.2, 3.0), False), ((0.0, 0.0, 0.5), False)]
)
def test_two_sources_say_the_same_where_one_of_them_is_enough(monkeypatch, lost, same):
    monkeypatch.setattr(study, "lost_without", lambda *given: list(lost))
    result = pl.answer(model(), QUESTION, TWICE, ANSWER)
    assert result.repeats == (((0.0, 1.0, *lost),) if same else ())
    notes = "\n".join(result.meta["notes"])
    assert ("source 1 and source 2 say the same" in notes) == same
    assert "source 2 is the same text as source 1" in notes


def test_saved_drawn_and_loaded_like_the_others(tmp_path):
    result = ask()
    again = pl.load(result.save(tmp_path / "answer.json"))
    assert isinstance(again, pl.Answer)
    for name in ("answer", "sources", "owners", "offsets", "sentence_offsets", "lengths", "certificates", "citations"):
        assert getattr(again, name) == getattr(result, name), name
    assert np.array_equal(again.matrix, result.matrix) and again.certificate == result.certificate
    page = result.to_html(tmp_path / "answer.html").read_text("utf-8")
    assert pl.load(tmp_path / "answer.html").citations == result.citations
    assert page.count('role="option"') == 2 and page.count("data-units") == 6
    assert result.to_png(tmp_path / "answer.png").stat().st_size > 10_000
    closer = pl.zoom(model(), again, ["source 3"], inside="word")  # a saved one can be opened
    assert np.allclose(closer.source_scores, result.source_scores, atol=1e-6)
    assert len(result.to_dataframe()) == 12 and len(result.top(3)) == 3
    assert result.sentence(1).scores == pytest.approx(result.matrix[1])
    result.sentence(1).show()


def test_the_model_writes_the_answer_itself_where_none_is_given():
    result = pl.answer(model(), QUESTION, SOURCES, generate=6)
    prompt, _ = places()
    module, words = model()
    ids = words(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    expected = module.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=None)[0, ids.shape[1] :]
    assert result.answer.split() == words.decode(expected).split()
    assert sum(result.lengths) == 6


def test_chats_hold_sources_wherever_they_say():
    messages = [
        {"role": "system", "content": "the movie was good ."},
        {"role": "user", "content": "a man plays guitar . who ?"},
    ]
    inside = pl.chat(messages, passages={"film": "the movie was good .", "man": "a man plays guitar ."})
    result = pl.answer(model(), inside, answer="it was")
    assert result.names == ("film", "man") and result.question == "who ?"
    added = pl.answer(model(), messages, {"one": "it was not funny ."}, "it was")
    assert added.names == ("one",) and added.question == "a man plays guitar . who ?"
    assert "it was not funny .\n\na man plays guitar . who ?" in added.meta["texts"][0]
    with pytest.raises(InputError, match="names its passages already"):
        pl.answer(model(), inside, ["it was"], "it was")
    plain = pl.answer(model(template=False), QUESTION, SOURCES, ANSWER)  # a model without a template
    assert plain.certificate.converged and plain.parts == ask().parts


def test_sources_that_do_not_fit_are_counted_or_cut():
    module, words = model()
    short = deepcopy(words)
    short.model_max_length = 40
    with pytest.raises(TooLongError, match=r"have (\d+) tokens, (\d+) more than the model's 40"):
        pl.answer((module, short), QUESTION, SOURCES, ANSWER)
    result = pl.answer((module, short), QUESTION, SOURCES, ANSWER, truncation=True)
    assert result.sources == SOURCES and result.meta["tokens"] <= 40
    cut = [note for note in result.meta["notes"] if "was cut from" in note]
    assert cut and "tokens, after" in cut[0]
    assert all(
        end <= read
        for (_, end), k in zip(result.offsets, result.owners, strict=True)
        for read in [result.meta["read"][k]]
    )
    closer = pl.zoom((module, short), result, ["source 1"], inside="word")
    assert np.allclose(closer.source_scores, result.source_scores, atol=1e-6)
    short.model_max_length = 20
    with pytest.raises(TooLongError, match="no room for the sources"):
        pl.answer((module, short), QUESTION, SOURCES, ANSWER, truncation=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"answer": "  "}, "the answer is empty"),
        ({"answer": 3}, "the answer is empty"),
        ({"sources": ["a man .", " "]}, "source 2 is empty"),
        ({"sources": {"x": ""}}, "x is empty"),
        ({"sources": []}, "at least one"),
        ({"sources": "a man ."}, "list of texts"),
        ({"question": ""}, "the question must be"),
        ({"question": 7}, "the question must be"),
        ({"method": "ih"}, "method must be"),
        ({"unit": "token"}, "unit must be"),
        ({"layer": 2}, "leave layer out"),
        ({"threshold": 2}, "threshold is a share"),
        ({"contrast": ANSWER}, "same tokens"),
    ],
)
def test_bad_input_says_what_to_do(given, words):
    every = {"question": QUESTION, "sources": list(SOURCES), "answer": ANSWER, **given}
    with pytest.raises(InputError, match=words):
        pl.answer(model(), every.pop("question"), every.pop("sources"), every.pop("answer"), **every)


def test_an_answer_that_is_never_said_is_refused_and_an_unlikely_one_noted():
    module, words = deepcopy(model()[0]), model()[1]
    plays = words.convert_tokens_to_ids("plays")

    def never(layer, given, output):
        output = output.clone()
        output[..., plays] = -math.inf
        return output

    module.lm_head.register_forward_hook(never)
    with pytest.raises(InputError, match="probability 0"):
        pl.answer((module, words), QUESTION, SOURCES, ANSWER, method="sig")
    odd = ask()
    chance = -math.log(len(words))
    unlikely = [c.f_input / n < chance for c, n in zip(odd.certificates, odd.lengths, strict=True)]
    assert sum("all but impossible" in note for note in odd.meta["notes"]) == sum(unlikely)


def test_a_model_that_says_nothing_is_told_from_one_that_answers():
    module, words = deepcopy(model()[0]), model()[1]

    def silent(layer, given, output):
        output = output.clone()
        output[..., words.eos_token_id] += 1e3
        return output

    module.lm_head.register_forward_hook(silent)
    with pytest.raises(InputError, match="says nothing to this question"):
        pl.answer((module, words), QUESTION, SOURCES)


def test_another_model_cannot_open_a_result():
    with pytest.raises(InputError, match="zoom with the model"):
        pl.zoom(model("qwen2"), ask(), ["source 1"])


def test_other_models_are_refused():
    with pytest.raises(InputError, match="causal language model"):
        pl.answer("sentiment", QUESTION, SOURCES)


def test_read_sources_keeps_the_callers_words():
    read = read_sources(load(model()), QUESTION, list(SOURCES))
    assert read.texts == SOURCES and read.names == ("source 1", "source 2", "source 3")


@pytest.mark.slow
def test_smollm_cites_the_source_that_has_it(tmp_path, monkeypatch, capfd):
    texts = {
        "velmora.txt": "The towers of Velmora are painted blue. They were built by Osric.",
        "tarkis.txt": "The towers of Tarkis are painted red. Farmers near Tarkis mostly grow rice.",
        "kalton.txt": "The old bell of Kalton is made of silver. It rings at dawn.",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    asked, words = "What is the bell of Kalton made of?", "It is made of silver."
    files = [part for name in texts for part in ("--source", tmp_path / name)]
    code, out, _ = pathlens(monkeypatch, capfd, "answer", "smollm", asked, *files, "--answer", words, "--json", "-")
    content = json.loads(out)
    assert code == 0 and content["names"] == list(texts)
    assert np.argmax(np.array(content["matrix"]).sum(0)) == 4
    assert content["certificate"]["relative_gap"] < 1e-4


def test_the_command_says_what_is_wrong(tmp_path, monkeypatch, capfd):
    missing = tmp_path / "none.txt"
    refused(pathlens(monkeypatch, capfd, "answer", "smollm", QUESTION, "--source", missing), "none.txt")
