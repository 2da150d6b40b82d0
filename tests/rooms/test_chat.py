"""Chats: every turn and passage is found exactly, the template's tokens are the tokenizer's own, sums still add up."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
import transformers as hf

import pathlens as pl
from pathlens.errors import InputError
from pathlens.studies.zoom import zoom
from pathlens.text.chat import as_chat, chat, chat_tokens
from pathlens.text.load import load
from pathlens.units.units import units
from tests.support.corpora import pathlens, refused
from tests.support.models import classifier, config, sharpen, tokenizer

PLAIN = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} </{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
STRIPS = PLAIN.replace("{{ m.content }}", "{{ m.content | trim }}")
MERGES = (  # the system's words go into the first user turn, after it
    "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]\n{{ m.content }}\n"
    "{% if loop.index0 == 1 and messages[0].role == 'system' %}({{ messages[0].content }})\n{% endif %}{% endif %}"
    "{% endfor %}"
)
TEMPLATES = {"plain": PLAIN, "strips": STRIPS, "merges": MERGES}
TURNS = [
    {"role": "system", "content": "  the plot was good . "},
    {"role": "user", "content": "the movie was good .\nthe movie was good .\nwho was it ?"},
    {"role": "assistant", "content": "a man ."},
    {"role": "user", "content": "\n who was it ? "},
]


def templated(template: str = PLAIN):
    made = deepcopy(tokenizer(decoder=True))
    made.chat_template = template
    return made


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_turn_is_found_even_the_same_words_twice(name):
    made = templated(TEMPLATES[name])
    prompt = chat(TURNS).prompt(made)
    assert prompt.text == made.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True)
    result = {name: prompt.text[slice(*span)] for name, span in prompt.turns.items()}
    assert result == {
        "system": TURNS[0]["content"].strip(),
        "user": TURNS[1]["content"],
        "assistant": "a man .",
        "user 2": "who was it ?",
    }
    assert prompt.turns["user 2"][0] > prompt.turns["assistant"][1]


def test_the_tokens_are_those_of_the_tokenizers_own_template():
    made = templated()
    tokens = chat_tokens(made, chat(TURNS, template="shown"), limit=None)
    expected = made.apply_chat_template(TURNS, tokenize=True, add_generation_prompt=True, return_dict=True)
    assert list(tokens.ids) == list(expected["input_ids"])
    assert all(segment == 0 for segment in tokens.segments)
    held = chat_tokens(made, chat(TURNS), limit=None)
    assert held.ids == tokens.ids
    words = [t for t, segment in zip(held.tokens, held.segments, strict=True) if segment == 0]
    assert words == " ".join(message["content"] for message in TURNS).split()


def test_passages_stand_where_the_caller_says_even_twice_the_same():
    passages = ["the movie was good .", "a man plays guitar .", "the movie was good ."]
    prompt = chat(system="the plot .", user="who was it ?", passages=passages).prompt(templated(STRIPS))
    spans = prompt.passages
    assert list(spans) == ["system", "passage 1", "passage 2", "passage 3", "question"]
    for k, text in enumerate(passages, 1):
        assert prompt.text[slice(*spans[f"passage {k}"])] == text
    assert spans["passage 1"] < spans["passage 2"] < spans["passage 3"]
    assert prompt.text[slice(*spans["question"])].strip() == "who was it ?"


def test_passages_are_found_in_the_callers_own_messages():
    given = chat(TURNS, passages={"first": "the movie was good .", "again": "the movie was good ."})
    prompt = given.prompt(templated(STRIPS))
    first, again = prompt.passages["first"], prompt.passages["again"]
    assert prompt.text[slice(*first)] == prompt.text[slice(*again)] == "the movie was good ."
    assert first[1] < again[0]
    assert list(prompt.passages) == ["system", "first", "again", "user", "assistant", "user 2"]
    assert prompt.text[slice(*prompt.passages["user"])].strip() == "who was it ?"
    with pytest.raises(InputError, match="a second time"):
        chat(TURNS[:1], passages=["the plot", "the plot"])
    with pytest.raises(InputError, match="overlap"):
        chat(TURNS, passages=["the movie was", "movie was good"])


@pytest.mark.parametrize("template", ["held", "shown"])
@pytest.mark.parametrize("unit", ["turn", "passage"])
def test_units_cover_every_token_once(unit, template):
    made = templated()
    given = chat(system="the plot .", user="who was it ?", passages=["a movie .", "a man ."], template=template)
    tokens = chat_tokens(made, given, limit=None)
    cut_units = units(unit, tokens.tokens, tokens.offsets, tokens.segments, tokens.texts, tokens.meta["spans"])
    assert (cut_units.members.sum(0) == 1).all()
    wanted = ["system", "user"] if unit == "turn" else ["system", "passage 1", "passage 2", "question"]
    assert list(cut_units.names) == ["template", *wanted]
    if unit == "passage":
        second = [tokens.tokens[i] for i in np.flatnonzero(cut_units.members[2])]
        assert second == ["a", "movie", "."]


def test_an_answer_begun_is_continued():
    made = templated()
    prompt = chat([*TURNS, {"role": "assistant", "content": "it was"}]).prompt(made)
    assert prompt.text.endswith("it was")
    assert prompt.turns["assistant 2"] == (len(prompt.text) - len("it was"), len(prompt.text))


def test_a_bare_list_of_messages_is_a_chat_and_a_list_of_texts_is_not():
    assert as_chat(TURNS).messages == tuple(TURNS)
    assert as_chat(["a", "b"]) == ["a", "b"] and as_chat("a") == "a" and as_chat([]) == []


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("", "no chat template"),
        ("{{ raise_exception('no system here') }}", "no system here"),
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "changes the messages"),
        ("{% for m in messages[1:] %}{{ m.content }}{% endfor %}", "leaves out message 0"),
        ("{% for m in messages + messages %}{{ m.content }}{% endfor %}", "repeats message 0"),
    ],
)
def test_templates_that_hide_a_message_are_refused_in_words(template, words):
    with pytest.raises(InputError, match=words):
        chat(TURNS).prompt(templated(template))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"user": " "}, "needs messages"),
        ({"messages": TURNS, "user": "x"}, "not both"),
        ({"messages": [{"role": "user"}]}, "message 0"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "must be a text"),
        ({"messages": [{"role": "user", "content": " "}]}, "empty"),
        ({"user": "x", "passages": "one text"}, "list of texts"),
        ({"user": "x", "passages": ["a", ""]}, "passage 2"),
        ({"user": "x", "template": "hidden"}, "held, shown"),
    ],
)
def test_bad_chats_are_refused_in_words(given, words):
    with pytest.raises(InputError, match=words):
        pl.chat(**given)


def test_marks_never_collide_with_the_text():
    hostile = "\ue000\ue001\ue0000\ue001 the \ue002"
    prompt = chat([{"role": "user", "content": hostile}]).prompt(templated())
    assert prompt.text[slice(*prompt.turns["user"])] == hostile.strip()


@pytest.mark.parametrize("method", ["ig", "sig"])
@pytest.mark.parametrize("template", ["held", "shown"])
def test_passages_add_up_and_equal_the_sum_of_their_tokens(method, template):
    """A classifier over a decoder reads a chat like any text: a reward model is one."""
    model = (classifier("llama")[0], templated())
    passages = ["a movie .", "a man ."]
    given = chat(system="the plot .", user="who was it ?", passages=passages, template=template, rest="moving")
    whole = pl.explain(model, given, method=method, unit="passage", target=1, tolerance=1e-4)
    assert whole.certificate.converged
    assert list(whole.tokens) == ["template", "system", "passage 1", "passage 2", "question"]
    if template == "held":
        assert whole.scores[0] == 0
    if method == "ig":
        tokens = pl.explain(model, given, method=method, target=1, tolerance=1e-4)
        for name, score in zip(whole.tokens[1:], whole.scores[1:], strict=True):
            low, high = whole.meta["spans"]["passage"][name]
            inside = [s for s, (a, b) in zip(tokens.scores, tokens.offsets, strict=True) if a < high and low < b]
            assert np.isclose(sum(inside), score, atol=2e-4 * abs(whole.certificate.total))
        assert np.isclose(whole.scores.sum(), tokens.scores.sum(), atol=2e-4 * abs(whole.certificate.total))


@pytest.mark.parametrize("method", ["ig", "sig", "secant"])
def test_passages_alone_move_and_the_rest_of_the_prompt_is_held(method):
    """F(b) is the same prompt, question and template with it, with nothing in the passages' place."""
    model = load((classifier("llama")[0], templated()))
    given = chat(system="the plot .", user="who was it ?", passages={"first": "a movie .", "second": "a man ."})
    result = pl.explain(model, given, method=method, unit="passage", target=1, tolerance=1e-4, baseline="pad")
    assert list(result.tokens) == ["rest", "first", "second"] and result.scores[0] == 0
    assert any(
        "only the passages move: system, question and the chat template" in note for note in result.meta["notes"]
    )
    prompt = given.prompt(model.tokenizer)
    read = model.tokenizer(prompt.text, return_offsets_mapping=True, add_special_tokens=False, return_tensors="pt")
    inside = [
        any(low < b and a < high for low, high in (prompt.passages["first"], prompt.passages["second"]))
        for a, b in read["offset_mapping"][0].tolist()
    ]
    ids = torch.where(torch.tensor(inside), model.tokenizer.pad_token_id, read["input_ids"][0])
    with torch.no_grad():
        rows = model.network.embed(ids)[None]
        blank = model.module.base_model(inputs_embeds=rows, attention_mask=read["attention_mask"]).last_hidden_state
        expected = float(model.module.score(blank[0, -1])[1])
    assert np.isclose(result.certificate.f_baseline, expected, atol=1e-5)
    if method != "sig":
        change = result.certificate.f_input - result.certificate.f_baseline
        assert np.isclose(result.scores.sum(), change, atol=result.certificate.bound)
    turns = pl.explain(model, given, method=method, unit="turn", target=1, tolerance=1e-4, baseline="pad")
    assert list(turns.tokens) == ["template", "system", "user"] and turns.scores[0] == 0 and np.all(turns.scores[1:])


def test_a_chat_without_passages_moves_as_a_whole():
    model = (classifier("llama")[0], templated())
    for rest in ("held", "moving"):
        result = pl.explain(model, chat(TURNS[:2], rest=rest), unit="passage", method="sig", target=1)
        assert list(result.tokens) == ["template", "system", "user"]
    with pytest.raises(InputError, match="rest must be one of held, moving, got 'still'"):
        chat(TURNS, rest="still")


def test_units_of_a_chat_need_a_chat():
    with pytest.raises(InputError, match="pl.chat"):
        pl.explain(classifier("llama"), "the movie was good", unit="passage")


def test_a_passage_is_opened_and_its_tokens_sum_to_it():
    model = (classifier("llama")[0], templated())
    given = chat(system="the plot .", user="who was it ?", passages=["a movie .", "a man plays music ."])
    whole = pl.explain(model, given, unit="passage", target=1, tolerance=1e-4)
    near = zoom(model, whole, ["passage 2"])
    assert list(near.tokens) == ["rest", "passage 1", "a", "man", "plays", "music", "."]
    allowed = 2e-4 * abs(whole.certificate.total)
    assert np.isclose(near.scores[2:].sum(), whole.scores[2], atol=allowed)
    assert np.allclose(near.scores[:2], whole.scores[:2], atol=allowed)
    free = pl.explain(model, replace(given, rest="moving"), unit="passage", target=1, tolerance=1e-4)
    assert list(zoom(model, free, ["question"]).tokens[-5:]) == ["passage 2", "who", "was", "it", "?"]
    assert near.target == whole.target and near.certificate.converged
    words = zoom(model, whole, [1, 2], inside="word")
    assert np.isclose(words.scores.sum(), whole.scores.sum(), atol=allowed)
    prompt = whole.meta["texts"][0]
    low, high = near.offsets[3]
    assert prompt[low:high] == "man"


def test_sentences_and_given_spans_of_a_plain_text_are_opened_too():
    model, text = classifier("bert"), "the movie was funny . i was not . great !"
    for unit in ("sentence", {"first": (0, 21), "last": (34, 41)}):
        whole = pl.explain(model, text, unit=unit, target=2, tolerance=1e-4)
        chosen = int(np.argmax(np.abs(whole.scores)))
        near = zoom(model, whole, [chosen])
        kept = [name for k, name in enumerate(whole.tokens) if k != chosen and not whole.special[k]]
        inside = [s for name, s in zip(near.tokens, near.scores, strict=True) if name not in kept]
        assert np.isclose(sum(inside), whole.scores[chosen], atol=2e-4 * abs(whole.certificate.total))


def test_what_cannot_be_opened_is_refused_in_words():
    model = (classifier("llama")[0], templated())
    given = chat(user="who was it ?", passages=["a movie .", "a man ."])
    whole = pl.explain(model, given, unit="passage")
    with pytest.raises(InputError, match="'passage 9' is not a unit.*passage 1"):
        zoom(model, whole, ["passage 9"])
    with pytest.raises(InputError, match="moves as one"):
        zoom(model, pl.explain(model, given, unit="passage", method="sig"), ["passage 1"])
    with pytest.raises(InputError, match="in a list"):
        zoom(model, whole)
    odd = pl.explain(model, given, unit="passage", baseline=torch.zeros(32))
    with pytest.raises(InputError, match="say baseline="):
        zoom(model, odd, ["passage 1"])


# ---------------------------------------------------------------- generators


@cache
def generator():
    torch.manual_seed(3)
    model = hf.AutoModelForCausalLM.from_config(config("llama"))
    return sharpen(model, 3.0).eval(), templated()


def rag(**more):
    return chat(system="the plot .", user="who was it ?", passages=["a movie .", "a man plays music ."], **more)


@pytest.mark.parametrize("template", ["held", "shown"])
def test_which_passage_made_each_output_token(template):
    prompt = rag(template=template, rest="moving")
    result = pl.explain(generator(), prompt, unit="passage", target="the man is funny", tolerance=1e-3)
    names = ["template", "system", "passage 1", "passage 2", "question"]
    assert list(result.tokens[:5]) == names and result.outputs == ("the", "man", "is", "funny")
    assert result.certificate.converged
    for t, certificate in enumerate(result.certificates):
        change = certificate.f_input - certificate.f_baseline
        assert abs(result.matrix[:, t].sum() - change) <= certificate.bound
    answer = [k for k, segment in enumerate(result.segments) if segment == 1]
    assert np.all(result.matrix[answer, 0] == 0)  # nothing was said before the first token
    if template == "held":
        assert np.all(result.matrix[0] == 0)


def test_a_continuations_passage_is_opened():
    whole = pl.explain(generator(), rag(), unit="passage", target="the man is funny")
    near = zoom(generator(), whole, ["passage 2"])
    opened = [k for k, name in enumerate(near.tokens) if name in ("a", "man", "plays", "music", ".")]
    assert len(opened) == 5
    allowed = 3 * whole.certificates[0].bound
    assert np.allclose(near.matrix[opened].sum(0), whole.matrix[2], atol=allowed)
    assert near.target == whole.target and np.allclose(near.matrix.sum(0), whole.matrix.sum(0), atol=allowed)
    generated = pl.explain(generator(), rag(rest="moving"), unit="passage", generate=3)
    assert zoom(generator(), generated, ["question"]).outputs == generated.outputs
    against = pl.explain(generator(), rag(), unit="passage", target="man", contrast="movie")
    again = zoom(generator(), against, ["passage 1"])
    assert again.target == against.target
    assert np.isclose(again.scores.sum(), against.scores.sum(), atol=2 * against.certificate.bound)


def test_sig_over_passages_is_leave_one_out_with_a_pass_each():
    result = pl.explain(generator(), rag(rest="moving"), unit="passage", method="sig", target="man")
    assert result.certificate.converged and result.certificate.gap == 0
    assert result.certificate.passes <= 4 + 4  # four parts of the prompt, and the ends of the path
    one = pl.explain(generator(), rag(), unit="turn", method="sig", target="man")
    assert set(one.tokens) == {"template", "system", "user"}
    assert np.isclose(one.scores[1], result.scores[1])  # the system turn is the same unit in both


def test_the_command_line_takes_messages_and_passages(tmp_path, monkeypatch, capfd):
    model, made = generator()
    model.save_pretrained(tmp_path / "m")
    made.save_pretrained(tmp_path / "m")
    folder, out = str(tmp_path / "m"), tmp_path / "r.json"
    asked = ["--passage", "a movie .", "--passage", "a man .", "--target", "the man", "--json", str(out)]
    done = pathlens(monkeypatch, capfd, "explain", folder, "who was it ?", "--system", "the plot .", *asked)
    assert done[0] == 0, done
    result = pl.load(out)
    assert "passage 2" in result.tokens and result.outputs == ("the", "man")
    (tmp_path / "c.json").write_text(json.dumps(TURNS))
    asked = ["--unit", "turn", "--generate", "2", "--template", "shown", "--json", str(out)]
    done = pathlens(monkeypatch, capfd, "explain", folder, "--chat", tmp_path / "c.json", *asked)
    assert done[0] == 0, done
    assert {"user", "user 2", "assistant"} <= set(pl.load(out).tokens)
    for wrong, words in (
        (["explain", folder], "give a text"),
        (["explain", folder, "--passage", "a movie"], "go with a question"),
        (["explain", folder, "x", "--chat", str(tmp_path / "c.json")], "either"),
        (["explain", folder, "--chat", str(tmp_path / "m" / "config.json")], "must hold"),
    ):
        refused(pathlens(monkeypatch, capfd, *wrong), words)


def test_chats_together_are_explained_as_alone():
    """Prompts of different lengths share batches; a list of lists of messages is a list of chats."""
    chats = [rag(), chat(TURNS), [{"role": "user", "content": "who was it ?"}]]
    choices = {"unit": "turn", "target": "man", "tolerance": 1e-4}
    together = pl.explain(generator(), chats, **choices)
    for one, given in zip(together, chats, strict=True):
        alone = pl.explain(generator(), given, **choices)
        assert one.tokens == alone.tokens
        assert np.allclose(one.scores, alone.scores, atol=1e-4)


def test_an_answer_in_the_same_text_is_not_taken_for_the_template():
    """Methods with one number read prompt and answer as one text; passages stay what they are."""
    result = pl.explain(generator(), rag(), method="ih", unit="passage", target="the man", tolerance=1e-2)
    assert list(result.tokens) == ["rest", "passage 1", "passage 2", "the"]
    assert np.all(result.matrix[0] == 0)
