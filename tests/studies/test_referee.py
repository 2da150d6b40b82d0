"""The referee's own arithmetic: what it says of a method follows from the scores alone."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.referee import judge, planted, record, worker
from experiments.referee.peers import PEERS

scores = st.lists(st.integers(-3, 3), min_size=2, max_size=9)


@given(scores, st.data())
def test_auc_counts_pairs(values, data):
    """Against the double loop: a wanted word above another counts one, level with it one half."""
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    expected = np.array(values, dtype=float)
    pairs = [(a > b) + (a == b) / 2 for a in expected[wanted] for b in expected[~wanted]]
    value = judge.auc(expected, wanted)
    assert value == pytest.approx(np.mean(pairs)) if pairs else np.isnan(value)


@given(st.lists(st.text("ab,.", min_size=1, max_size=5), min_size=1, max_size=6), st.integers(0, 99))
def test_words_keep_the_sum_of_their_pieces(words, seed):
    """However a word is cut, its score is what its pieces have together; pieces of nothing ([CLS]) belong to no word."""
    text, chance = "  ".join(words), random.Random(seed)
    pieces, wanted = [(0, 0, 7.0)], []
    for start, end in record.words_of(text):
        cuts = sorted({start, end, *(chance.randint(start, end) for _ in range(2))})
        expected = [(a, b, chance.uniform(-1, 1)) for a, b in itertools.pairwise(cuts)]
        pieces += expected
        wanted.append(sum(value for *_, value in expected))
    assert record.at_words(text, pieces) == pytest.approx(wanted)


def test_people_who_agree_agree_fully():
    marks = [[0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]]
    assert judge.among_people(marks) == (1.0, 1.0)
    assert judge.with_people(np.array([0.0, 2.0, 1.0, -5.0]), marks) == (1.0, 1.0)
    assert judge.with_people(np.array([5.0, -2.0, -1.0, 4.0]), marks) == (0.0, 0.0)


@pytest.mark.parametrize("kind", sorted(planted.RULES))
def test_planted_words_stand_where_the_gold_says_and_decide(kind):
    """The label follows from the planted words by the rule alone, and they alone are gold."""
    chance = random.Random(0)
    asked = 0
    for _ in range(200):
        row = planted.RULES[kind].plant("the film is long and slow".split(), chance)
        words = row.text.split()
        gold = [words[k] for k in row.gold]
        assert [w for w in words if w in (planted.YES, planted.NO, planted.NEGATION)] == gold
        label = {
            "one": planted.YES in gold,
            "both": len(gold) == 2,
            "flip": (planted.YES in gold) != (planted.NEGATION in gold),
        }[kind]
        assert row.label == label
        asked += row.asked
    assert 50 < asked <= 200
    assert judge.precision(np.array([0.0, 3.0, -4.0, 1.0]), (1, 3)) == 1.0
    assert judge.precision(np.array([0.0, 3.0, -4.0, 1.0]), (1, 2)) == 0.5


def test_a_stopped_run_goes_on_behind_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "ROWS", tmp_path)
    items = [record.Item(n, "a b", 1) for n in range(3)]
    record.keep("exam", "ig, mask", [record.Answer(1, np.array([0.12345, -2.0]), 0.5, 41, 1e-4, {"pair": [0, 1]})])
    assert [item.number for item in record.missing("exam", "ig, mask", items)] == [0, 2]
    answer = record.answers_of("exam", "ig, mask")[1]
    assert answer.scores == pytest.approx([0.12345, -2.0], rel=1e-3) and answer.extra == {"pair": [0, 1]}
    assert (answer.cpu, answer.passes, answer.gap) == (0.5, 41, 1e-4)


def test_every_peer_has_a_worker():
    assert {peer.name for peer in PEERS} == set(worker.PEERS)
