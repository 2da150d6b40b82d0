"""Prompts of chats: messages through the tokenizer's own template, with every turn and passage found again.

    Chat (messages, passages inside them) → Prompt (the text the model reads, named spans of it) → Tokens

Spans are found by rendering twice: once with marks around every message, once without. The marks say where each
message went, so the same text twice, or a template that strips or reorders, cannot mislead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from pathlens.checks import whole_text
from pathlens.errors import InputError, first_line
from pathlens.text.options import RESTS, TEMPLATES
from pathlens.text.tokens import Tokens, tokenise
from pathlens.types import Span

BETWEEN = "\n\n"  # between passages, and before the question


@dataclass(frozen=True)
class MessageSpan:
    """A named stretch of one message, in characters of its content."""

    name: str
    message: int
    span: Span


@dataclass(frozen=True)
class Prompt:
    """What the model reads, and which characters of it are what.

    `turns` are whole messages; `passages` are the same characters in smaller pieces: passages, and what is left of
    each message (its `rest`). Everything else is the template's.
    """

    text: str
    turns: Mapping[str, Span]
    passages: Mapping[str, Span]
    template: str = "held"
    rest: frozenset[str] = frozenset()  # those of `passages` that stay where they are when passages are asked for

    def spans(self, level: str | None) -> dict[str, dict[str, Span]]:
        """Spans by the name of the unit (`unit="turn"`, `unit="passage"`), of the whole prompt, and of what is held at
        this level of units besides the template."""
        held = {name: span for name, span in self.passages.items() if name in self.rest and level == "passage"}
        moving = {name: span for name, span in self.passages.items() if name not in held}
        whole = {"prompt": (0, len(self.text))}
        return {"turn": dict(self.turns), "passage": moving, "prompt": whole} | ({"rest": held} if held else {})


@dataclass(frozen=True)
class Chat:
    """Messages and the passages inside them; what `pl.chat` makes and `pl.explain` takes as a text."""

    messages: tuple[Mapping[str, Any], ...]
    passages: tuple[MessageSpan, ...] = ()
    template: str = "held"
    options: Mapping[str, Any] = field(default_factory=dict)  # for the tokenizer's template
    question: str = ""  # the name of what is left of a message that was built around passages
    rest: str = "held"  # what is no passage, where passages are asked for

    def prompt(self, tokenizer: Any) -> Prompt:
        """The text the model reads, by the tokenizer's own template, and the spans of turns and passages in it."""
        marked, plain = (render(self, tokenizer, mark=mark) for mark in (True, False))
        places = _places(self, marked, plain)
        names = list(_numbered(str(message["role"]) for message in self.messages))
        turns = {names[k]: places[k] for k in sorted(places, key=places.__getitem__)}
        passages, rest = _pieces(self, places, names, plain)
        held = rest if self.rest == "held" and len(rest) < len(passages) else ()  # without passages, all of it moves
        return Prompt(plain, turns, passages, self.template, frozenset(held))


def chat(
    messages: Sequence[Mapping[str, Any]] | None = None,
    *,
    system: str | None = None,
    user: str | None = None,
    passages: Mapping[str, str] | Iterable[str] | None = None,
    template: str = "held",
    rest: str = "held",
    **options: Any,
) -> Chat:
    """A prompt for a chat model, to be given to `pl.explain` as its text.

    Either `messages`, a list of {"role", "content"} as chat templates take them, or `user` (and `system`).
    passages: retrieved texts, a list or {name: text}. With `user` they are put before it, a blank line between them;
        with `messages` they are found in the messages (a text listed twice is found twice).
    template: "held" keeps the template's own tokens where they are along the path, "shown" explains them too.
    rest: with `unit="passage"`, "held" keeps everything but the passages where it is, template and all: the question is
        asked of the same prompt with and without them. "moving": every turn moves too, each with its own score.
    options go to the tokenizer's `apply_chat_template` (`enable_thinking=False`, …).

    `unit="turn"` and `unit="passage"` then ask which message, which passage.
    """
    if template not in TEMPLATES:
        raise InputError(f"template must be one of {', '.join(TEMPLATES)}, got {template!r}")
    if rest not in RESTS:
        raise InputError(f"rest must be one of {', '.join(RESTS)}, got {rest!r}")
    listed = _listed(passages)
    if messages is not None:
        if user is not None or system is not None:
            raise InputError("give either messages or user (and system), not both")
        checked = _checked(messages)
        return Chat(checked, tuple(_placed(checked, listed)), template, options, rest=rest)
    if not isinstance(user, str) or not user.strip():
        raise InputError(f"a chat needs messages, or user='the question', got user={user!r}")
    if system is not None and not isinstance(system, str):
        raise InputError(f"system must be a text, got {type(system).__name__}")
    before = [] if system is None else [{"role": "system", "content": system}]
    asked = Chat(_checked([*before, {"role": "user", "content": user}]), (), template, options, rest=rest)
    return with_passages(asked, listed)


def with_passages(given: Chat, listed: Mapping[str, str]) -> Chat:
    """The same chat with passages before the words of its last message by the user, a blank line between them."""
    number = max((k for k, message in enumerate(given.messages) if message["role"] == "user"), default=-1)
    if number < 0:
        raise InputError("the chat has no message of the user's to put passages before; add the question")
    if not listed:
        return given
    at, spans = 0, []
    for name, text in listed.items():
        spans.append(MessageSpan(name, number, (at, at + len(text))))
        at += len(text) + len(BETWEEN)
    asked = given.messages[number]
    full = {**asked, "content": BETWEEN.join([*listed.values(), asked["content"]])}
    messages = (*given.messages[:number], full, *given.messages[number + 1 :])
    return replace(given, messages=messages, passages=tuple(spans), question="question")


def as_chat(text: Any) -> Any:
    """A bare list of messages as a chat; anything else as it is."""
    messages = isinstance(text, list) and text and all(isinstance(each, Mapping) for each in text)
    return chat(text) if messages else text


def chat_tokens(tokenizer: Any, given: Chat | Prompt, *, limit: int | None, level: str | None = None) -> Tokens:
    """The tokens of a chat's prompt; with `template="held"` those of the template alone count as special, and where
    passages are asked for (`level`) all but theirs.

    A chat is never cut: its end is what makes the model answer.
    """
    prompt = given.prompt(tokenizer) if isinstance(given, Chat) else given
    tokens = tokenise(tokenizer, prompt.text, None, limit=limit, truncation=False, special=False)
    spans = prompt.spans(level)
    tokens = replace(tokens, meta={**tokens.meta, "template": given.template, "spans": spans})
    if given.template == "shown" and "rest" not in spans:
        return tokens
    moving = spans["passage" if "rest" in spans else "turn"].values()
    outside = [not any(start < high and low < end for low, high in moving) for start, end in tokens.offsets]
    if "rest" not in spans:
        return tokens.holding(outside).noted("the chat template's own tokens are held")
    held = ", ".join(spans["rest"])
    return tokens.holding(outside).noted(
        f"only the passages move: {held} and the chat template are held (with the option rest at moving they move too)"
    )


def render(given: Chat, tokenizer: Any, *, mark: bool = False) -> str:
    """The tokenizer's template on the messages, with or without marks around their contents."""
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "this tokenizer has no chat template; give the prompt as a text, and name its parts with "
            "unit={name: (start, end)}"
        ).plainly(
            "This model knows no chats. Empty system prompt, passages and chat template; write it all as one prompt.",
            "text",
        )
    last = given.messages[-1]["role"] == "assistant"  # a prefilled answer is continued, not followed by a new turn
    turn = {"continue_final_message": True} if last else {"add_generation_prompt": True}
    messages = [
        {**message, "content": _mark(given, k, message["content"]) if mark else message["content"]}
        for k, message in enumerate(given.messages)
    ]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **turn, **given.options))
    except Exception as error:  # a template is a program of its own and may raise anything
        raise InputError(f"the tokenizer's chat template refused these messages: {first_line(error)}").plainly(
            f"The model's chat template refuses this: {first_line(error)}", "system"
        ) from error


def _checked(messages: Any) -> tuple[Mapping[str, Any], ...]:
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise InputError(f"messages must be a list of {{'role', 'content'}}, got {type(messages).__name__}")
    checked = tuple(messages)
    for k, message in enumerate(checked):
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise InputError(f"message {k} must have 'role' and 'content', got {message!r:.80}")
        if not isinstance(message["content"], str):
            kind = type(message["content"]).__name__
            raise InputError(f"message {k}: content must be a text, got {kind}; pictures and tools are not explained")
        whole_text(f"message {k}", message["content"])
    if not any(message["content"].strip() for message in checked):
        raise InputError("the messages are empty; give at least one with words")
    return checked


def _listed(passages: Any) -> dict[str, str]:
    """Passages by name, in their order; unnamed ones are numbered."""
    if passages is None:
        return {}
    if isinstance(passages, str) or not isinstance(passages, Iterable):
        raise InputError(f"passages must be a list of texts or {{name: text}}, got {type(passages).__name__}")
    numbered = ((f"passage {k}", text) for k, text in enumerate(passages, 1))
    listed = {str(name): text for name, text in (passages.items() if isinstance(passages, Mapping) else numbered)}
    for name, text in listed.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{name} must be a text with words, got {text!r:.60}")
        whole_text(name, text)
    return {name: text.strip() for name, text in listed.items()}


def _placed(messages: Sequence[Mapping[str, Any]], listed: Mapping[str, str]) -> Iterator[MessageSpan]:
    """Each passage where it stands in the messages; a text listed again is looked for after its last place."""
    after: dict[str, tuple[int, int]] = {}
    taken: list[MessageSpan] = []
    for name, text in listed.items():
        first, at = after.get(text, (0, 0))
        for k in range(first, len(messages)):
            start = messages[k]["content"].find(text, at if k == first else 0)
            if start >= 0:
                break
        else:
            again = "a second time " if text in after else ""
            raise InputError(f"{name} does not occur {again}in the messages: {text!r:.60}")
        after[text] = (k, start + len(text))
        span = (start, start + len(text))
        for other in taken:
            if other.message == k and other.span[0] < span[1] and span[0] < other.span[1]:
                raise InputError(f"{name} and {other.name} overlap in message {k}; a token can be in one only")
        taken.append(MessageSpan(name, k, span))
    yield from taken


def _marks(given: Chat) -> tuple[str, str]:
    """Two characters that occur in no message, from those that no standard gives a meaning."""
    used = set("".join(message["content"] for message in given.messages))
    first, second = [c for c in map(chr, range(0xE000, 0xF8FF)) if c not in used][:2]
    return first, second


def _mark(given: Chat, number: int, content: str) -> str:
    first, second = _marks(given)
    return f"{first}{number}{second}{content}{second}{number}{first}" if content.strip() else content


def _places(given: Chat, marked: str, plain: str) -> dict[int, Span]:
    """The characters of the prompt that each message's content takes, blanks at its ends left out."""
    first, second = _marks(given)
    slot = re.compile(f"{first}(\\d+){second}(.*?){second}\\1{first}", re.DOTALL)
    order = [int(place.group(1)) for place in slot.finditer(marked)]
    wanted = [k for k, message in enumerate(given.messages) if message["content"].strip()]
    for k in wanted:
        if order.count(k) != 1:
            how = "leaves out" if k not in order else "repeats"
            raise InputError(
                f"the tokenizer's chat template {how} message {k} ({given.messages[k]['role']}), so it cannot be "
                "explained as a turn; give the prompt as a text, and name its parts with unit={name: (start, end)}"
            )
    between = slot.split(marked)[::3]  # what lies between, the number and the content taken out
    pattern = _loose(between[0])
    for k, literal in zip(order, between[1:], strict=True):
        pattern += f"({re.escape(given.messages[k]['content'].strip())}){_loose(literal)}"
    match = re.fullmatch(pattern, plain)
    if match is None:
        raise InputError(
            "the tokenizer's chat template changes the messages themselves, so they cannot be found in the prompt; give "
            "the prompt as a text, and name its parts with unit={name: (start, end)}"
        )
    return {k: match.span(group) for group, k in enumerate(order, 1)}


def _loose(literal: str) -> str:
    """A pattern for the template's own text; templates that strip messages may move blanks at its ends."""
    return rf"\s*{re.escape(literal.strip())}\s*" if literal.strip() else r"\s*"


def _pieces(
    given: Chat, places: Mapping[int, Span], names: Sequence[str], text: str
) -> tuple[dict[str, Span], list[str]]:
    """Passages, and the rest of every message, left to right; and the names of the latter."""
    pieces: list[tuple[str, Span]] = []
    passages: set[Span] = set()
    for k, (start, end) in places.items():
        content = given.messages[k]["content"]
        shift = start - (len(content) - len(content.lstrip()))
        at = start
        for passage in sorted((p for p in given.passages if p.message == k), key=lambda p: p.span):
            low, high = (max(start, min(end, place + shift)) for place in passage.span)
            pieces += [(given.question or names[k], (at, low)), (passage.name, (low, high))]
            passages.add((low, high))
            at = high
        pieces.append((given.question or names[k] if at > start else names[k], (at, end)))
    kept = sorted(((name, span) for name, span in pieces if text[slice(*span)].strip()), key=lambda each: each[1])
    named = dict(zip(_numbered(name for name, _ in kept), (span for _, span in kept), strict=True))
    return named, [name for name, span in named.items() if span not in passages]


def _numbered(names: Iterable[str]) -> Iterator[str]:
    """Names made different: the second "user" is "user 2"."""
    seen: set[str] = set()
    for name in names:
        different, k = name, 1
        while different in seen:
            k += 1
            different = f"{name} {k}"
        seen.add(different)
        yield different


# ---- what people give where several texts or targets are meant


def as_list(text: Any) -> Any:
    """Several texts as a list: of a pandas Series, a numpy array, a column of a data set, a tuple, a generator. One text, a
    chat, a picture and numbers (a row of a table) stay as they are."""
    if (names := getattr(text, "columns", getattr(text, "column_names", None))) is not None:
        listed = ", ".join(map(repr, list(names)[:6]))
        raise InputError(f"a whole table was given; give the column with the texts, table[name], of {listed}")
    kind = getattr(getattr(text, "dtype", None), "kind", "")
    if kind in ("U", "O") and getattr(text, "shape", None) == ():  # numpy's, around one text
        text = text.item()
    if hasattr(text, "to_pylist"):  # pyarrow's, whose items are no strings
        text = text.to_pylist()
    one = isinstance(text, str | bytes | list | Mapping | Chat | Prompt | Tensor)
    if one or not isinstance(text, Iterable) or kind in ("i", "u", "f", "b"):
        return text
    each = list(text)
    texts = all(isinstance(item, str | Chat | Prompt) for item in each)
    return each if texts or not isinstance(text, tuple) else text


def is_column(target: Any) -> bool:
    """Targets of several texts that are no list: an array, a Series, a column of a data set, a tuple of labels, a generator.
    (2, "LOC") is one tag."""
    if isinstance(target, tuple):
        return len(target) > 1 and all(isinstance(each, str) for each in target)
    if hasattr(target, "tolist"):
        return getattr(target, "ndim", 1) == 1
    one = isinstance(target, str | bytes | list | Mapping | set | frozenset) or callable(target)  # a set has no order
    return not one and isinstance(target, Iterable)
