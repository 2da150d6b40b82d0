"""Sources before a question: the prompt they make, where each stands in it, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pathlens.errors import InputError, TooLongError, setting
from pathlens.explanation.answer import Answer
from pathlens.explanation.base import Result
from pathlens.text.causal import CausalLM
from pathlens.text.chat import BETWEEN, Chat, Prompt, as_chat, chat, with_passages
from pathlens.types import Span
from pathlens.units.cuts import sentence_spans

Part = tuple[int, int, int]  # (source, start, end), in characters of the caller's own text


@dataclass(frozen=True, eq=False)
class Sources:
    """The caller's own texts, as much of each as the model reads, and the prompt they are part of."""

    question: str
    names: tuple[str, ...]
    texts: tuple[str, ...]
    shown: tuple[str, ...]  # the beginning of each text that is read
    prompt: Chat | Prompt  # a prompt where the tokenizer has no template
    bare: Chat | None = None  # without the sources; None: they stand where the caller put them
    notes: tuple[str, ...] = ()

    def placed(self, part: Part, spans: Mapping[str, Sequence[int]]) -> Span:
        """Characters of a source as characters of the prompt, which holds it without the blanks around it."""
        source, *span = part
        low, high = spans[self.names[source]]
        text = self.shown[source]
        shift = low - (len(text) - len(text.lstrip()))
        start, end = (min(high, max(low, place + shift)) for place in span)
        return start, end

    def fitting(self, model: CausalLM, needed: int, truncation: bool) -> Sources:
        """These sources, or with truncation as much of them as leaves room for `needed` tokens of an answer."""
        if model.limit is None:
            return self
        made, most = self, max(_count(model, text) for text in self.shown)
        while (over := _length(model, made.prompt) + needed - model.limit) > 0:
            if not truncation or made.bare is None:
                raise TooLongError(
                    f"sources, question and answer have {over + model.limit} tokens, {over} more than the model's "
                    f"{model.limit}; give fewer or shorter sources, or {setting(truncation=True)} to cut those given as sources=… (the result says where)"
                )
            counts = [_count(model, text) for text in made.shown]
            most = _level(counts, sum(counts) - over)
            if most < 1:
                raise TooLongError(
                    f"the question and the answer alone leave no room for the sources: {over} tokens too many of the "
                    f"model's {model.limit}; ask less, or give a shorter answer"
                )
            shown = tuple(_beginning(model, text, most) for text in made.shown)
            made = replace(made, shown=shown, prompt=_prompt(model, made, shown))
        cut = tuple(
            f"{name} was cut from {_count(model, text)} to {_count(model, short)} tokens, after {short[-40:]!r}"
            for name, text, short in zip(self.names, self.texts, made.shown, strict=True)
            if len(short) < len(text)
        )
        return replace(made, notes=(*self.notes, *cut))


def read_sources(model: CausalLM, question: Any, sources: Any) -> Sources:
    """A question, messages or a chat, and the texts it is to be answered from; of a chat also its own passages."""
    asked = as_chat(question)
    if isinstance(asked, str):
        asked = chat(user=asked) if asked.strip() else asked
    if not isinstance(asked, Chat):
        raise InputError(f"the question must be a text, messages or pl.chat(...), got {question!r:.60}")
    if asked.passages:
        if sources is not None:
            raise InputError("the chat names its passages already; give sources there or here, not in both places")
        return _own_passages(asked)
    names, texts = _listed(sources)
    last = [message["content"] for message in asked.messages if message["role"] == "user"]
    made = Sources(last[-1] if last else "", names, texts, texts, asked, asked, _same(names, texts))
    return replace(made, prompt=_prompt(model, made, texts))


def _own_passages(asked: Chat) -> Sources:
    """A chat that holds its sources is read as it stands."""
    names = tuple(each.name for each in asked.passages)
    texts = tuple(asked.messages[each.message]["content"][slice(*each.span)] for each in asked.passages)
    last = str(next(message["content"] for message in reversed(asked.messages) if message["role"] == "user"))
    for text in texts:
        last = last.replace(text, "")
    return Sources(last.strip(), names, texts, texts, asked, notes=_same(names, texts))


def kept_sources(result: Answer) -> Sources:
    """The sources and the prompt of an answer that was explained before."""
    shown = tuple(text[:end] for text, end in zip(result.sources, result.origin.read, strict=True))
    return Sources(result.question, result.names, result.sources, shown, kept_prompt(result))


def kept_prompt(result: Result) -> Prompt:
    """A chat's prompt with its spans, as a result says them."""
    origin = result.origin
    turns, passages, rest = (dict(origin.spans.get(level, {})) for level in ("turn", "passage", "rest"))
    return Prompt(origin.texts[0], turns, passages | rest, origin.template, frozenset(rest))


def _listed(sources: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if isinstance(sources, str) or not isinstance(sources, Mapping | Sequence) or not sources:
        raise InputError(f"sources must be a list of texts or {{name: text}}, at least one; got {sources!r:.60}")
    named = dict(sources) if isinstance(sources, Mapping) else {f"source {k}": t for k, t in enumerate(sources, 1)}
    for name, text in named.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{name} is empty ({text!r:.40}); leave it out, or give a text with words")
    return tuple(map(str, named)), tuple(named.values())


def _same(names: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    first: dict[str, str] = {}
    notes = []
    for name, text in zip(names, texts, strict=True):
        if text.strip() in first:
            notes.append(f"{name} is the same text as {first[text.strip()]}; the model reads it twice")
        first.setdefault(text.strip(), name)
    return tuple(notes)


def _prompt(model: CausalLM, made: Sources, shown: Sequence[str]) -> Chat | Prompt:
    stripped = {name: text.strip() for name, text in zip(made.names, shown, strict=True)}
    assert made.bare is not None
    whole = with_passages(made.bare, stripped)
    if getattr(model.tokenizer, "chat_template", None):
        return whole
    text, spans, turns = "", {}, {}  # without a template: the messages, a blank line between them
    for number, message in enumerate(whole.messages):
        text += BETWEEN if text else ""
        for each in whole.passages if message is whole.messages[whole.passages[0].message] else ():
            spans[each.name] = (len(text) + each.span[0], len(text) + each.span[1])
        turns[f"{message['role']} {number}"] = (len(text), len(text) + len(message["content"]))
        text += message["content"]
    return Prompt(text + "\n", turns, spans)


def _length(model: CausalLM, prompt: Chat | Prompt) -> int:
    text = prompt.text if isinstance(prompt, Prompt) else prompt.prompt(model.tokenizer).text
    return _count(model, text) + 1  # a token held in front


def _count(model: CausalLM, text: str) -> int:
    return len(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _level(counts: Sequence[int], room: int) -> int:
    """The largest m with Σ min(count, m) ≤ room: the longest are cut first, to one length."""
    most = max(counts)
    while most > 0 and sum(min(count, most) for count in counts) > room:
        most -= 1
    return most


def _beginning(model: CausalLM, text: str, most: int) -> str:
    """The first `most` tokens of a text, back to the end of a sentence where one ends among them."""
    offsets = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
        "offset_mapping"
    ]
    if len(offsets) <= most:
        return text
    end = offsets[most - 1][1]
    ends = [high for _, high in sentence_spans(text) if high <= end]
    return text[: ends[-1]] if ends else text[:end]
