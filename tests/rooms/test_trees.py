"""Trees over a text, and their groups of tokens."""

import importlib.util
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pathlens as pl
from pathlens.errors import InputError, MissingError, StoreError
from pathlens.units.brackets import bracketed_text, read_bracketed
from pathlens.units.cuts import word_spans
from pathlens.units.trees import read_tree, right_branching, tree_groups

SST = "(3 (2 It) (4 (4 (2 's) (3 (2 a) (4 (3 lovely) (2 film)))) (2 .)))"


def shown(tree):
    """(label, text) of every node."""
    return [(node.label, tree.text[node.span[0] : node.span[1]]) for node in tree.nodes]


def check_shape(tree):
    """One root over the text, children inside their parents, left to right, every node reached once."""
    assert tree.text[slice(*tree.nodes[0].span)] == tree.text.strip()
    seen = [0]
    for node in tree.nodes:
        seen += node.children
        spans = [tree.nodes[k].span for k in node.children]
        assert all(node.span[0] <= low and high <= node.span[1] and (low, high) != node.span for low, high in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert sorted(seen) == list(range(len(tree.nodes)))
    assert len({node.span for node in tree.nodes}) == len(tree.nodes)


# ---- reading trees


def test_sst_brackets_over_their_own_text_and_over_untokenised_text():
    text = bracketed_text(SST)
    assert text == "It 's a lovely film ."
    tree = read_tree(SST, text)
    check_shape(tree)
    assert tree.source == "bracketed"
    assert shown(tree)[:3] == [("3", text), ("2", "It"), ("4", "'s a lovely film .")]
    assert ("3", "a lovely film") in shown(tree)
    other = read_tree(SST, "it’s a lovely film.")
    assert [label for label, _ in shown(other)] == [label for label, _ in shown(tree)]


def test_penn_brackets_with_escapes_traces_and_a_bare_outer_bracket():
    penn = (
        "( (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ does) (RB n't) (VP (VB like) (NP (-NONE- *T*-1))"
        " (PRN (-LRB- -LRB-) (NP (NN milk)) (-RRB- -RRB-)))) (`` ``) (UH yes) ('' '') (. .)) )"
    )
    tree = read_tree(penn, 'The cat doesn\'t like (milk) "yes".')
    check_shape(tree)
    nodes = shown(tree)
    assert ("PRN", "(milk)") in nodes and ("RB", "n't") in nodes and ("``", '"') in nodes
    assert ("NP+NN", "milk") in nodes, "a unary chain is one node, outer label first"
    assert tree.words[0] == (0, 3) and len(tree.words) == 12


def test_a_chain_of_unary_brackets_over_everything_is_one_node():
    tree = read_tree("(ROOT (S (VP (VB Go))))", "Go")
    assert shown(tree) == [("ROOT+S+VP+VB", "Go")]


@pytest.mark.parametrize(
    ("tree", "text", "message"),
    [
        ("(S (A a) (B b)", "a b", "never closed\n.*\n  \\^"),
        ("(S (A a)) (B b)", "a b", "second tree"),
        ("a b", "a b", "outside of every bracket"),
        ("(S (A a)) b", "a b", "outside of every bracket"),
        ("()", "a b", "no leaves"),
        ("(S (A a) (C c))", "a b", "leaf 'c' is not what the text has here\n  a b\n    \\^"),
        ("(S (A a) (B b) (C c))", "a b", "text ends before the tree does, at its leaf 'c'"),
        ("(A a)", "a b", "tree ends before the text does; 'b'"),
        ([(0, 6), (3, 9)], "some more text", "cross.*\n.*\n {5}\\^\\^\\^"),
        ([(0, 99)], "some text", "not inside the text of 9"),
        ([(4, 5)], "some text", "holds nothing"),
        ([("x", 2)], "some text", "got \\('x', 2\\)"),
        ([4], "some text", "got 4"),
        ((0, 4, [(0, 9)]), "some text", "not inside its parent|not the whole"),
        ((0, 4, []), "some text", "covers \\(0, 4\\), not the whole text \\(0, 9\\)\n  some text\n       \\^"),
        (7, "some text", "cannot read a tree from int"),
        ("right-branching", "  ", "empty"),
    ],
)
def test_wrong_trees_are_refused_with_the_place(tree, text, message):
    with pytest.raises(InputError, match=r"(?s)" + message):
        read_tree(tree, text)


def test_spans_flat_nested_and_named():
    text = "not a bad film"
    flat = read_tree([(0, 14), (4, 14, "NP"), (6, 14)], text)
    nested = read_tree((0, 14, [(0, 3), (4, 14, [(6, 14, [])])]), text)
    named = read_tree({"span": (0, 14), "children": [{"span": (4, 14), "label": "NP"}]}, text)
    for tree in (flat, nested, named):
        check_shape(tree)
        assert tree.source == "spans"
    assert ("NP", "a bad film") in shown(flat) and ("", "bad film") in shown(nested)
    assert shown(named)[2] == ("NP", "a bad film")
    assert [text[slice(*word)] for word in flat.words] == ["not", "a", "bad", "film"]


def test_a_span_inside_a_word_cuts_it():
    tree = read_tree([(0, 2)], "undo it")
    assert [tree.text[slice(*word)] for word in tree.words] == ["un", "do", "it"]


@given(st.text("ab .!\n日本", min_size=1, max_size=40))
@settings(deadline=None, max_examples=50)
def test_right_branching_is_a_tree_over_any_text(text):
    assume(text.strip())
    tree = right_branching(text)
    check_shape(tree)
    leaves = [node.span for node in tree.nodes if not node.children]
    assert leaves == list(word_spans(text)) and tree.source == "right-branching"


def test_right_branching_joins_each_word_with_all_that_follows():
    assert [text for _, text in shown(right_branching("a b c"))] == ["a b c", "a", "b c", "b", "c"]


class FakeToken:
    """The part of a spaCy token that a tree is read from."""

    def __init__(self, text, idx, head, dep):
        self.text, self.idx, self.head, self.dep_ = text, idx, head, dep
        self.subtree = []


class FakeDoc:
    vocab = None

    def __init__(self, text, words, heads, parsed=True):
        self.text, self.parsed, at = text, parsed, 0
        self.tokens = []
        for word, head in zip(words, heads, strict=True):
            at = text.index(word, at)
            self.tokens.append(FakeToken(word, at, head, f"dep{head}"))
            at += len(word)
        for k, token in enumerate(self.tokens):
            token.subtree = [other for i, other in enumerate(self.tokens) if k in self._up(i, heads)]

    def _up(self, i, heads):
        path = [i]
        while heads[path[-1]] != path[-1]:
            path.append(heads[path[-1]])
        return path

    def __iter__(self):
        return iter(self.tokens)

    def has_annotation(self, name):
        return self.parsed


def test_dependencies_give_phrases():
    text = "The old cat sat on the mat."
    doc = FakeDoc(text, ["The", "old", "cat", "sat", "on", "the", "mat", "."], [2, 2, 3, 3, 3, 6, 4, 3])
    tree = read_tree(doc, text)
    check_shape(tree)
    assert tree.source == "dependencies"
    assert {"The old cat", "on the mat", "the mat"} <= {phrase for _, phrase in shown(tree)}
    with pytest.raises(InputError, match=r"another text, from here on\n.*\n {6}\^"):
        read_tree(doc, "The new cat sat on the mat.")
    with pytest.raises(InputError, match="run a pipeline with a parser"):
        read_tree(FakeDoc(text, ["The"], [0], parsed=False), text)


def test_broken_subtrees_are_no_phrases():
    text = "a hearing is scheduled today on it"
    doc = FakeDoc(text, text.split(), [1, 3, 3, 3, 3, 1, 5])  # "on it" hangs on "hearing"
    tree = read_tree(doc, text)
    check_shape(tree)
    assert "on it" in {phrase for _, phrase in shown(tree)}


def test_trees_by_file(tmp_path):
    file = tmp_path / "trees.txt"
    file.write_text(SST + "\n\n( (S\n  (NP (NN Cats))\n  (VP (VB sleep))) )\n" + "(A a)\n", encoding="utf-8")
    trees = list(read_bracketed(file))
    assert [bracketed_text(tree) for tree in trees] == ["It 's a lovely film .", "Cats sleep", "a"]
    with pytest.raises(StoreError, match="neither a tree in brackets"):
        list(read_bracketed(tmp_path / "absent.txt"))


# ---- groups of tokens


def make_groups(tree, tokens):
    """Groups over the tokens (given as text pieces in order), between two special ones."""
    offsets, at = [(0, 0)], 0
    for token in tokens:
        at = tree.text.index(token, at)
        offsets.append((at, at + len(token)))
        at += len(token)
    offsets.append((0, 0))
    return tree_groups(tree, offsets, [True, *[False] * len(tokens), True])


def test_groups_are_tokens_words_constituents_and_the_whole_each_once():
    tree = read_tree("(S (A un) (B (C likely) (D end)))", "unlikely end")
    groups = make_groups(tree, ["un", "like", "ly", "end"])
    sets = {tuple(np.flatnonzero(row)) for row in groups.members}
    assert sets == {(1, 2, 3, 4), (1,), (2, 3, 4), (2, 3), (2,), (3,), (4,)}
    assert len(sets) == len(groups.members), "a set: the word 'un' and its token are one group"
    assert not groups.members[:, [0, -1]].any(), "special tokens are in no group"
    assert groups.members[0].sum() == 4 and groups.group[0] == 0
    leaves = [tree.text[slice(*node.span)] for node in groups.nodes if not node.children]
    assert leaves == ["un", "likely", "end"], "leaves are words, not tokens"


def test_a_token_over_a_border_belongs_where_its_middle_is():
    tree = read_tree("(S (A (X aa) (Y bb)) (B cccc))", "aa bbcccc")
    groups = make_groups(tree, ["aa", " bbc", "ccc"])
    assert {tuple(np.flatnonzero(row)) for row in groups.members} == {(1, 2, 3), (1, 2), (1,), (2,), (3,)}


def test_nodes_of_the_same_tokens_are_one_and_empty_ones_vanish():
    tree = read_tree("(S (A (X a) (Y .)) (B b))", "a. b")
    groups = make_groups(tree, ["a.", "b"])
    assert [(node.label, node.children) for node in groups.nodes] == [("S", (1, 2)), ("A+X", ()), ("B", ())]
    assert len(groups.members) == 3
    one = make_groups(read_tree("(S (A a))", "a"), ["a"])
    assert one.members.tolist() == [[False, True, False]] and len(one.nodes) == 1


def test_a_text_of_special_tokens_has_no_tree():
    with pytest.raises(InputError, match="all of them are special"):
        tree_groups(right_branching("a"), [(0, 0)], [True])


def test_without_a_parser_idg_says_what_to_install_and_guesses_no_tree(monkeypatch):
    """Neither spaCy itself nor spaCy without a model of a language: never a shape that was not asked for."""
    from pathlens.units import parse

    real = importlib.util.find_spec
    for missing in (("spacy",), parse.PIPELINES):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *a, m=missing: None if name in m else real(name, *a)
        )
        parse.pipeline.cache_clear()
        with pytest.raises(MissingError, match=r"no parser is installed: pip install 'pathlens\[parse\]'"):
            pl.explain(pl.ToyModel(), "a fine film", method="idg")
        shaped = pl.explain(pl.ToyModel(), "a fine film", method="idg", tree="right-branching")
        assert shaped.tree == "right-branching"  # asked for by name
    parse.pipeline.cache_clear()
