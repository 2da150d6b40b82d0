"""Unknown pieces of a tokenizer that says no places stand where they stood, or for their whole stretch."""

from __future__ import annotations

import random

import pytest
import transformers as hf

from pathlens.text.tokens import tokenise
from pathlens.text.unknown import unknown_places


@pytest.fixture(scope="module")
def letter_tokenizer(tmp_path_factory):
    words = tmp_path_factory.mktemp("words") / "v.txt"
    words.write_text("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] 猫 が 好 き a は".split()), encoding="utf-8")
    return hf.BertJapaneseTokenizer(str(words), word_tokenizer_type="basic", subword_tokenizer_type="character")


@pytest.mark.parametrize("text", ["A cat", "猫が好き", "犬は猫が好き", "cat a", "xx a yy", "a A b", "Ça va"])
def test_a_tokenizer_of_letters_gives_every_letter_its_own(letter_tokenizer, text):
    read = tokenise(letter_tokenizer, text, None, limit=None, truncation=False)
    inner = [text[start:end] for (start, end), segment in zip(read.offsets, read.segments, strict=True) if segment >= 0]
    assert inner == [letter for letter in text if not letter.isspace()]


def readings(pieces, text):
    """Every way to divide the text, in a loop."""
    if not pieces:
        return [[]] if not text else []
    first, rest = pieces[0], pieces[1:]
    sizes = range(1, len(text) + 1) if first is None else [len(first)] if text.startswith(first) else []
    return [[size, *more] for size in sizes for more in readings(rest, text[size:])]


def test_a_piece_gets_what_every_reading_gives_it_and_else_the_stretch():
    dice, sure, shared = random.Random(0), 0, 0
    for _ in range(300):
        text = "".join(dice.choices("ab", k=dice.randint(1, 7)))
        pieces = [dice.choice([None, None, "a", "b"]) for _ in range(dice.randint(1, 5))]
        result, every = unknown_places(pieces, text, [0] * len(text)), readings(pieces, text)
        if not every:
            continue  # another reading is of a cut text
        places = [{(sum(sizes[:n]), sum(sizes[: n + 1])) for sizes in every} for n in range(len(pieces))]
        for span, possible in zip(result, places, strict=True):
            assert span[0] <= min(a for a, _ in possible) and span[1] >= max(b for _, b in possible)
            if len(every) == 1:
                assert {span} == possible
            sure += len(possible) == 1
            shared += len(possible) > 1
    assert sure > 50 and shared > 50


def test_an_unknown_word_stays_within_its_blanks():
    assert unknown_places([None, None], "foobar", [0, 0, 0, 1, 1, 1]) == [(0, 3), (3, 6)]
    assert unknown_places([None, None, "a"], "foobara", [0, 0, 0, 0, 0, 0, 1]) == [(0, 6), (0, 6), (6, 7)]
    assert unknown_places([None, "b"], "xyzbqq", [0, 0, 0, 1, 2, 2]) == [(0, 3), (3, 4)], "a text that was cut"
    assert unknown_places(["q"], "x", [0]) is None
