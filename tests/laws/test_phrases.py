"""IDG: its arithmetic against the definition, and the axioms of its paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathlens.engine.phrases import idg, phrase_nodes, values
from pathlens.units.trees import read_tree, tree_groups


@st.composite
def problems(draw):
    """A random tree as a family of sets over n tokens, with scores and squared lengths."""
    count = draw(st.integers(1, 7))
    spans = {(0, count)} | {(k, k + 1) for k in range(count)}
    for _ in range(draw(st.integers(0, 5))):
        low = draw(st.integers(0, count - 1))
        spans.add((low, draw(st.integers(low + 1, count))))
    groups = np.array([[low <= k < high for k in range(count)] for low, high in sorted(spans)])
    number = st.floats(-10, 10).map(lambda x: round(x, 3))
    scores = np.array(draw(st.lists(number, min_size=count, max_size=count)))
    square = np.array(draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 4.0]), min_size=count, max_size=count)))
    return groups, np.where(square > 0, scores, 0.0), square


def slow_idg(groups, scores, square):
    """The definition, loop by loop."""
    family = {tuple(np.flatnonzero(row)) for row in groups}
    signed = {}
    for group in family:
        length = sum(square[i] for i in group) ** 0.5
        signed[group] = sum(scores[i] for i in group) / length if length > 0 else 0.0
    whole = sum(abs(x) for x in signed.values())
    gathered = []
    for row in groups:
        group = tuple(np.flatnonzero(row))
        value = sum(abs(signed[other]) for other in family if set(other) <= set(group)) / whole
        gathered.append((signed[group], abs(signed[group]) / whole, value))
    return np.array(gathered).T


@given(problems())
@settings(deadline=None, max_examples=60)
def test_idg_is_its_definition(problem):
    result = idg(*problem)
    if result.flat:
        return
    signed, dividend, value = slow_idg(*problem)
    assert np.allclose(result.signed, signed) and np.allclose(result.dividend, dividend)
    assert np.allclose(result.value, value)


@given(problems(), st.data())
@settings(deadline=None, max_examples=60)
def test_idg_axioms(problem, data):
    groups, scores, square = problem
    result = idg(groups, scores, square)
    assert (result.dividend >= 0).all() and (result.value >= 0).all(), "non-negativity"
    whole = groups.all(axis=1)
    assert np.allclose(result.value[whole], 1), "v(all) = 1"
    if result.flat:
        return
    count = groups.shape[1]
    assert values(np.zeros((1, count), bool), groups, result.dividend) == 0, "v(∅) = 0"
    subset = st.lists(st.booleans(), min_size=count, max_size=count).map(np.array)
    one, other = data.draw(subset), data.draw(subset)
    small, large, rest = values(np.array([one & other, one, other & ~one]), groups, result.dividend)
    (both,) = values(np.array([one | other]), groups, result.dividend)
    assert small <= large + 1e-12 and large <= both + 1e-12, "monotonicity"
    assert both >= large + rest - 1e-12, "superadditivity of disjoint sets"
    assert ((result.value > 0) | (result.signed == 0)).all(), "sensitivity: what moves the output counts"
    silent = ~(groups & (scores != 0)).any(axis=1)
    assert (result.value[silent] == 0).all(), "sensitivity: what does nothing is worth nothing"


@given(problems(), st.randoms())
@settings(deadline=None, max_examples=30)
def test_idg_symmetry(problem, random):
    """Renaming tokens renames the answer; two tokens alike in M, score and length are worth the same."""
    groups, scores, square = problem
    order = list(range(groups.shape[1]))
    random.shuffle(order)
    result, other = idg(groups, scores, square), idg(groups[:, order], scores[order], square[order])
    assert np.allclose(result.value, other.value) and np.allclose(result.signed, other.signed)
    alike = idg(
        np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), np.array([2.0, 2.0, -1.0]), np.array([4.0, 4.0, 1.0])
    )
    assert alike.value[1] == alike.value[2]


def test_a_group_given_twice_counts_once():
    groups = np.array([[True, True], [True, False], [False, True]])
    scores, square = np.array([1.0, 2.0]), np.ones(2)
    once, twice = idg(groups, scores, square), idg(groups[[0, 0, 1, 1, 2]], scores, square)
    assert np.allclose(twice.value, once.value[[0, 0, 1, 1, 2]])


def test_where_nothing_moves_the_whole_is_worth_one_and_it_says_so():
    groups = np.array([[False, True, True], [False, True, False], [False, False, True]])
    for scores, square in (([0.0, 0.0, 0.0], [0.0, 1.0, 1.0]), ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])):
        result = idg(groups, np.array(scores), np.array(square))
        assert result.flat and result.value.tolist() == [1, 0, 0] and result.signed.tolist() == [0, 0, 0]


def test_the_papers_family_with_single_coordinates_is_its_definition():
    draw = np.random.default_rng(0)
    delta, scores = draw.normal(size=(3, 4)), draw.normal(size=(3, 4))
    delta[0, 0] = scores[0, 0] = 0.0
    groups = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=bool)
    result = idg(groups, scores.sum(axis=1), (delta**2).sum(axis=1), scores, delta)
    single = np.zeros((3, 4))
    for i in range(3):
        for j in range(4):
            single[i, j] = abs(scores[i, j] / delta[i, j]) if delta[i, j] else 0.0
    signed = [scores[row].sum() / np.sqrt((delta[row] ** 2).sum()) for row in groups]
    whole = single.sum() + np.abs(signed).sum()
    for k, row in enumerate(groups):
        inside = sum(abs(signed[t]) for t, other in enumerate(groups) if not (other & ~row).any())
        assert result.value[k] == pytest.approx((inside + single[row].sum()) / whole)
    assert result.value[0] == pytest.approx(1) and result.dividend.sum() < 1


def test_a_token_of_one_coordinate_is_counted_once():
    groups = np.array([[1, 1], [1, 0]], dtype=bool)
    result = idg(groups, np.array([1.0, 3.0]), np.ones(2), np.array([[1.0], [3.0]]), np.ones((2, 1)))
    whole = 4 / np.sqrt(2) + 1 + 3
    assert result.value.tolist() == pytest.approx([1.0, 1 / whole])


def test_phrases_of_a_sentence_from_one_run():
    tree = read_tree("(S (NP (DT The) (NN film)) (VP (VBZ is) (ADJP (RB not) (JJ bad))))", "The film is not bad")
    offsets = [(0, 0), *tree.words, (0, 0)]
    groups = tree_groups(tree, offsets, [True, *[False] * 5, True])
    scores = np.array([0, 0.1, 0.3, 0.0, -2.0, -1.0, 0])
    result = idg(groups.members, scores, np.array([0, 1.0, 1, 1, 1, 1, 0]))
    phrases = phrase_nodes(tree.text, groups, result)
    assert phrases[0].text == "The film is not bad" and phrases[0].value == pytest.approx(1)
    adjective = next(phrase for phrase in phrases if phrase.text == "not bad")
    assert adjective.label == "ADJP" and adjective.signed == pytest.approx(-3 / np.sqrt(2))
    assert [phrases[k].text for k in adjective.children] == ["not", "bad"]
    assert adjective.value == pytest.approx(adjective.dividend + sum(phrases[k].value for k in adjective.children))
