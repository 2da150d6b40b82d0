"""A text as the tokenizer sees it, with characters for every token and names that people can read."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import accumulate, groupby, takewhile
from typing import Any, Self

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from pathlens.checks import whole_text
from pathlens.errors import InputError, ModelError, TooLongError, setting
from pathlens.text.network import text_config
from pathlens.text.unknown import unknown_places
from pathlens.types import Span

BROKEN = "\N{REPLACEMENT CHARACTER}"  # what a decoder gives for bytes that are no whole character


def with_parts(names: Sequence[str], places: Sequence[tuple[int, Span]]) -> tuple[str, ...]:
    """Tokens in a row that share the very same characters are parts of them: "日[1/2]", "日[2/2]".

    `places` are (segment, characters); special tokens (segment −1) and tokens without characters are left alone.
    """
    result = list(names)
    for (segment, (start, end)), group in groupby(range(len(names)), key=lambda i: places[i]):
        members = list(group)
        if segment >= 0 and end > start and len(members) > 1:
            for part, i in enumerate(members, 1):
                result[i] = f"{names[i]}[{part}/{len(members)}]"
    return tuple(result)


def trimmed(text: str, start: int, end: int) -> Span:
    """The span without blanks in front, unless it is nothing but blanks."""
    first = start
    while first < end and text[first].isspace():
        first += 1
    return (first, end) if first < end else (start, end)


def decoded(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> tuple[str, tuple[Span, ...]]:
    """The text of `ids` as it reads after `before`, and the characters of each token.

    Decoded from ever longer prefixes: a tokenizer may drop or add blanks at the start of a text, and a token may end
    in the middle of a character, which then belongs to it and to the tokens that complete it.
    """
    start = len(_decode(tokenizer, before))
    whole = _decode(tokenizer, [*before, *ids])[start:]
    spans, done = [], 0
    for count in range(1, len(ids) + 1):
        text = _decode(tokenizer, [*before, *ids[:count]])[start:]
        sound = len(text.rstrip(BROKEN))
        broken = sound < len(text) and (not whole.startswith(text) or not whole[sound:].strip(BROKEN))
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, whole, strict=False)))
        reached = sound if broken else same  # a piece may end in a sign that more is to come
        end = min(len(whole), max(reached, done) + (1 if broken else 0))
        spans.append(trimmed(whole, done, max(end, done)))
        done = max(done, reached)
    return whole, tuple(spans)


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


NO_LIMIT = 1_000_000  # tokenizers without a limit report a huge number


@dataclass(frozen=True, eq=False)
class Tokens:
    """S tokens of one text or pair."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]  # characters of each token, leading space left out; (0, 0) for special ones
    segments: tuple[int, ...]  # 0: first text, 1: second text, -1: special
    context: Mapping[str, Shaped[Tensor, "S ..."]]  # attention_mask, token_type_ids
    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def noted(self, note: str, **meta: Any) -> Self:
        """The same with a note for people, and what it says for programs."""
        return replace(self, notes=(*self.notes, note), meta={**self.meta, **meta})

    def holding(self, held: Sequence[bool]) -> Self:
        """The same with these tokens held along every path, as special ones are."""
        segments = tuple(-1 if hold else segment for hold, segment in zip(held, self.segments, strict=True))
        offsets = tuple((0, 0) if hold else span for hold, span in zip(held, self.offsets, strict=True))
        return replace(self, segments=segments, offsets=offsets)


def tokenise(
    tokenizer: Any, text: str, text_b: str | None, *, limit: int | None, truncation: bool, special: bool = True
) -> Tokens:
    """Tokens with offsets, checked: text given, something besides special tokens, not too long."""
    texts = _checked(text, text_b)
    encoded = _encode(tokenizer, texts, special=special)
    notes: tuple[str, ...] = ()
    meta: dict[str, Any] = {}
    length = len(encoded["input_ids"])
    if limit is not None and length > limit:
        if not truncation:
            raise TooLongError(
                f"the text has {length} tokens and the model takes {limit}: shorten it, explain parts of it, or pass "
                f"{setting(truncation=True)} to cut it (the result will say that it was cut)"
            ).plainly(
                f"The text has {length} tokens, and this model reads up to {limit}. Shorten it, or explain its parts one by one.",
                "text",
            )
        encoded = _encode(tokenizer, texts, special=special, limit=limit)
        notes = (f"the text was cut from {length} to {limit} tokens",)
        meta = {"truncated": True, "tokens_before": length}
    ids = tuple(encoded["input_ids"])
    segments, spans = _places(tokenizer, encoded, texts)
    keep = {getattr(tokenizer, f"{name}_token_id", None) for name in ("mask", "unk")}
    empty = set(getattr(tokenizer, "all_special_ids", ())) - keep
    if all(segment < 0 or token in empty for segment, token in zip(segments, ids, strict=True)):
        raise InputError(
            f"nothing to explain in {text!r}: it has no tokens besides special ones; give a text with words"
        ).plainly(f"There is nothing to explain in “{text}”. Write a text with words.", "text")
    offsets = tuple(
        (0, 0) if segment < 0 else trimmed(texts[segment], start, end)
        for (start, end), segment in zip(spans, segments, strict=True)
    )
    names = tuple(
        texts[segment][start:end] if segment >= 0 and end > start else str(tokenizer.convert_ids_to_tokens(token))
        for token, segment, (start, end) in zip(ids, segments, offsets, strict=True)
    )
    names = with_parts(names, list(zip(segments, offsets, strict=True)))
    unknown = _unknown(tokenizer, ids, names, segments)
    if unknown:
        shown = ", ".join(map(repr, unknown))
        notes = (*notes, f"the model does not know {shown}: it read {tokenizer.unk_token} in that place")
        meta = {**meta, "unknown": unknown}
    context = {n: torch.tensor(encoded[n]) for n in ("attention_mask", "token_type_ids") if n in encoded}
    context.setdefault("attention_mask", torch.ones(len(ids), dtype=torch.long))
    return Tokens(ids, names, offsets, segments, context, texts, notes, meta)


def _unknown(tokenizer: Any, ids: Sequence[int], names: Sequence[str], segments: Sequence[int]) -> list[str]:
    """What of the text became the unknown token, each once."""
    unk, word = getattr(tokenizer, "unk_token_id", None), getattr(tokenizer, "unk_token", None)
    lost = [n for i, n, s in zip(ids, names, segments, strict=True) if i == unk and s >= 0 and n != word]
    return list(dict.fromkeys(lost))


def _checked(text: Any, text_b: Any) -> tuple[str, ...]:
    for name, value in (("text", text), ("text_b", text_b)):
        if value is None and name == "text_b":
            continue
        if not isinstance(value, str):
            raise InputError(f"{name} must be a string, got {type(value).__name__}: {value!r}")
        whole_text(name, value)
        if not value.strip():
            raise InputError(f"{name} is empty ({value!r}); give a text with words")
    return (text,) if text_b is None else (text, text_b)


def _encode(tokenizer: Any, texts: tuple[str, ...], *, special: bool, limit: int | None = None) -> Any:
    fast = getattr(tokenizer, "is_fast", False)
    cut = {"truncation": True, "max_length": limit} if limit is not None else {"truncation": False}
    given = {"return_offsets_mapping": fast, "return_special_tokens_mask": not fast}
    try:
        return tokenizer(*texts, add_special_tokens=special, padding=False, verbose=False, **given, **cut)
    except (TypeError, AttributeError) as error:
        raise ModelError(
            f"the tokenizer ({type(tokenizer).__name__}) could not be called on the text: {error}; pass the Hugging "
            "Face tokenizer that belongs to the model"
        ) from error


def spans_of(tokenizer: Any, encoded: Any, text: str) -> list[Span]:
    """The characters of every token of one text without special tokens."""
    if "offset_mapping" in encoded:
        return list(encoded["offset_mapping"])
    return found_again(tokenizer, list(encoded["input_ids"]), text)


def _places(tokenizer: Any, encoded: Any, texts: tuple[str, ...]) -> tuple[tuple[int, ...], list[Span]]:
    """Every token's text (−1: special) and characters; worked out from the pieces where the tokenizer does not say."""
    if "offset_mapping" in encoded:
        return tuple(-1 if part is None else part for part in encoded.sequence_ids(0)), list(encoded["offset_mapping"])
    ids, added = list(encoded["input_ids"]), encoded["special_tokens_mask"]
    first = len(tokenizer(texts[0], add_special_tokens=False, verbose=False)["input_ids"])
    segments, seen = [], 0
    for special in added:
        if special:
            segments.append(-1)
            seen = max(seen, first) if seen else 0  # what stands after the first text, also a cut one, ends it
        else:
            segments.append(0 if seen < first else len(texts) - 1)
            seen += 1
    spans: list[Span] = [(0, 0)] * len(ids)
    for number, text in enumerate(texts):
        indices = [i for i, segment in enumerate(segments) if segment == number]
        for i, span in zip(indices, found_again(tokenizer, [ids[i] for i in indices], text), strict=True):
            spans[i] = span
    return tuple(segments), spans


def found_again(tokenizer: Any, ids: list[int], text: str) -> list[Span]:
    """The characters of every token, by the text they decode to: letter by letter, but for case, accents and blanks."""
    written, places = decoded(tokenizer, (), ids)
    ours, theirs = _letters(text), _letters(written)
    if getattr(tokenizer, "unk_token_id", None) in ids:
        pieces = [None if n == tokenizer.unk_token_id else written[a:b] for n, (a, b) in zip(ids, places, strict=True)]
        spans_around = _around_unknown(pieces, text, ours)
        if spans_around is not None:
            return spans_around
    where: dict[int, Span] = {}
    matcher = SequenceMatcher(None, [c for c, _ in ours], [c for c, _ in theirs], autojunk=False)
    for _, i, j, k, m in matcher.get_opcodes():
        same = j - i == m - k
        for n in range(k, m):
            if i < j:  # letters that read otherwise (an unknown word) stand for the whole stretch
                low, high = (ours[i + n - k][1],) * 2 if same else (ours[i][1], ours[j - 1][1])
                start, end = where.get(theirs[n][1], (low, high + 1))
                where[theirs[n][1]] = min(start, low), max(end, high + 1)
    spans, done = [], 0
    for start, end in places:
        parts = [where[n] for n in range(start, end) if n in where]
        blank = start < end and text[done : done + 1].isspace()
        spans.append((min(a for a, _ in parts), max(b for _, b in parts)) if parts else (done, done + blank))
        done = spans[-1][1]
    for n in reversed(range(len(spans) - 1)):
        if places[n][0] == places[n][1]:  # the first bytes of a character belong to it, as the last one does
            spans[n] = spans[n + 1]
    return spans


def _around_unknown(pieces: Sequence[str | None], text: str, letters: Sequence[tuple[str, int]]) -> list[Span] | None:
    """The characters of every piece where some are unknown; None: the pieces do not read as the text does."""
    read = [None if piece is None else "".join(letter for letter, _ in _letters(piece)) for piece in pieces]
    word = list(accumulate(character.isspace() for character in text))  # blanks before
    spans = unknown_places(read, [letter for letter, _ in letters], [word[place] for _, place in letters])
    if spans is None or any(start == end for start, end in spans):
        return None
    return [(letters[start][1], letters[end - 1][1] + 1) for start, end in spans]


def _letters(text: str) -> list[tuple[str, int]]:
    """Letters without case, accents and blanks, each with its place."""
    plain = ((i, unicodedata.normalize("NFKD", character).casefold()) for i, character in enumerate(text))
    every = ((letter, i) for i, letters in plain for letter in letters)
    return [each for each in every if not each[0].isspace() and not unicodedata.combining(each[0])]


def length_limit(module: nn.Module, tokenizer: Any) -> int | None:
    """The longest input the model takes: what the tokenizer says, and what its table of positions holds."""
    limits = []
    stated = getattr(tokenizer, "model_max_length", None)
    if stated and stated < NO_LIMIT:
        limits.append(int(stated))
    known = ("position_embeddings", "wpe", "embed_positions")
    embeddings = ((name, part) for name, part in module.named_modules() if isinstance(part, nn.Embedding))
    table = next((part for name, part in embeddings if name.rsplit(".", 1)[-1] in known), None)
    if table is not None:
        used = table.padding_idx + 1 if table.padding_idx is not None else 0  # RoBERTa's first rows are no positions
        limits.append(table.num_embeddings - used)
    positions = getattr(text_config(module), "max_position_embeddings", None)
    if positions and positions > 0:  # a table may have rows that are no positions
        limits.append(int(positions))
    return min(limits, default=None)


def check_ids(tokens: Tokens, others: Sequence[int]) -> None:
    """Refuse a text that a pipeline reads as other tokens: another input is another explanation."""
    if list(tokens.ids) != list(others):
        at = next((i for i, (a, b) in enumerate(zip(tokens.ids, others, strict=False)) if a != b), None)
        where = "their number differs" if at is None else f"they differ from token {at} on"
        raise ModelError(
            f"this model itself reads the text as {len(others)} tokens that are not the tokenizer's own {len(tokens)} ({where}): it does "
            "something to its texts that pathlens does not follow; pass (model, tokenizer)"
        )


def check_belongs(tokenizer: Any, module: nn.Module, rows: int) -> tuple[str, ...]:
    """Refuse a tokenizer that cannot be this model's; a doubtful one is noted.

    Sizes may differ a little (tables are padded to round numbers); ids past the table, or special tokens that
    the model's own config places elsewhere in a vocabulary of another size, are another model's.
    """
    size = len(tokenizer)
    config = text_config(module)
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "mask_token_id")
    both = {name: (getattr(config, name, None), getattr(tokenizer, name, None)) for name in names}
    clash = [name for name, (one, other) in both.items() if isinstance(one, int) and other not in (None, one)]
    disagree = f"disagree on {', '.join(clash)}" if clash else ""
    far = rows - size > max(1000, 0.05 * rows)
    if size > rows or (far and (clash or size < rows / 4)):
        raise ModelError(
            f"the tokenizer does not belong to this model: it has {size} words, the model's table {rows}"
            f"{', and they ' + disagree if clash else ''}; load both from the same place: "
            "AutoTokenizer.from_pretrained(<the model's own folder or id>)"
        )
    doubt = f"the tokenizer and the model's config {disagree}" if clash else ""
    doubt = f"the tokenizer has {size} words and the model's table {rows}" if far else doubt
    return (f"{doubt}: check that they belong together",) if doubt else ()
