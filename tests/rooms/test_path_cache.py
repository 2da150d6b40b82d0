"""Paths are searched once: in memory, on disk, whatever happens to the files; and the neighbour graph."""

import numpy as np
import pytest
import torch

from pathlens.path.words.neighbours import NeighbourGraph, NeighbourSearch
from pathlens.path.words.store import PathCache
from tests.support.twins.word_paths import others as slow_others
from tests.support.words import corners_of, dig, make_ends, make_vocabulary, udig


class Counted(NeighbourSearch):
    """A search that counts the lines it was asked for."""

    asked = 0

    def nearest_on_lines(self, start, end, shares, count):
        self.asked += len(start)
        return super().nearest_on_lines(start, end, shares, count)


class CountingCache(PathCache):
    counted = None

    def search(self, vocabulary):
        self.counted = self.counted or Counted(vocabulary.table)
        return self.counted


def test_a_repeated_word_costs_no_search():
    vocabulary, cache = make_vocabulary(1), CountingCache()
    ends = make_ends(vocabulary, [5, 6, 5, 5], [0] * 4)
    first = udig(ends, steps=4, neighbours=5, cache=cache)
    search = cache.search(vocabulary)
    assert search.asked == 2
    again = udig(make_ends(vocabulary, [6, 5], [0, 0]), steps=4, neighbours=5, cache=cache)
    assert search.asked == 2
    assert again.detail.tokens == (first.detail.tokens[1], first.detail.tokens[0])
    assert torch.equal(again.corner(2)[1], first.corner(2)[0])
    udig(ends, steps=4, neighbours=5, strategy="greedy", cache=cache)
    assert search.asked == 4, "other settings, other paths"


def test_dig_searches_a_word_once_whoever_passes_it():
    vocabulary, cache = make_vocabulary(2), CountingCache()
    dig(make_ends(vocabulary, range(5, 25), [0] * 20), steps=6, neighbours=8, cache=cache)
    assert cache.search(vocabulary).asked <= len(vocabulary.table)


def test_paths_come_back_from_disk(tmp_path):
    vocabulary = make_vocabulary(3)
    ends = make_ends(vocabulary, [5, 6], [0, 1])
    first = udig(ends, steps=4, neighbours=5, cache=PathCache(tmp_path))
    later = CountingCache(tmp_path)
    again = udig(ends, steps=4, neighbours=5, cache=later)
    assert later.search(vocabulary).asked == 0
    assert again.detail == first.detail and torch.equal(corners_of(again), corners_of(first))
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_damaged_cache_file_is_ignored_and_written_anew(tmp_path):
    vocabulary = make_vocabulary(4)
    ends = make_ends(vocabulary, [5], [0])
    want = udig(ends, steps=4, neighbours=5, cache=PathCache(tmp_path)).detail
    (file,) = tmp_path.rglob("*.npz")
    whole = file.read_bytes()
    flipped = bytes([whole[-200] ^ 255])
    for damage in (b"", b"nonsense", whole[: len(whole) // 2], whole[:-200] + flipped + whole[-199:]):
        file.write_bytes(damage)
        assert udig(ends, steps=4, neighbours=5, cache=PathCache(tmp_path)).detail == want
        assert CountingCache(tmp_path).get((vocabulary.fingerprint, "udig-maxcount-m4-k5", "0"), ["5"], 4)


def test_two_caches_on_one_folder_add_to_each_other(tmp_path):
    vocabulary = make_vocabulary(5)
    one, two = PathCache(tmp_path), PathCache(tmp_path)
    for cache, word in ((one, 5), (two, 6), (one, 7)):
        udig(make_ends(vocabulary, [word], [0]), steps=4, neighbours=5, cache=cache)
    third = CountingCache(tmp_path)
    udig(make_ends(vocabulary, [5, 6, 7], [0] * 3), steps=4, neighbours=5, cache=third)
    assert third.search(vocabulary).asked == 0


def test_memory_keeps_no_more_than_its_capacity():
    cache = PathCache(capacity=3)
    udig(make_ends(make_vocabulary(6), range(5, 15), [0] * 10), steps=3, neighbours=5, cache=cache)
    assert len(cache) == 3


def test_the_neighbour_graph_can_be_stopped_and_goes_on(tmp_path):
    vocabulary = make_vocabulary(7, size=50)
    table = vocabulary.table.double().numpy()

    def stop_at_twenty(done, total):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NeighbourGraph(NeighbourSearch(vocabulary.table), 6, tmp_path, block=10).build(stop_at_twenty)
    seen = []
    graph = NeighbourGraph(Counted(vocabulary.table), 6, tmp_path, block=10)
    assert graph.build(lambda done, total: seen.append((done, total))) == 30
    assert seen == [(10, 50), (20, 50), (30, 50), (40, 50), (50, 50)]
    (tmp_path / "others-6-10" / "block-000001.npz").write_bytes(b"damaged")
    assert graph.build() == 10 and graph.build() == 0

    asked = graph.search.asked
    rows = graph.rows(np.arange(50))
    assert graph.search.asked == asked, "all of it is on disk"
    for i in range(50):
        assert rows[i].tolist() == slow_others(table, i, 6)


@pytest.mark.parametrize("neighbours", [1, 7, 49])
def test_the_neighbour_graph_is_scikit_learns(neighbours):
    """The authors' graph: K rows, none of them the word itself."""
    from sklearn.neighbors import kneighbors_graph

    table = torch.randn(50, 6, generator=torch.Generator().manual_seed(9))  # no two rows alike: their order is not said
    theirs = kneighbors_graph(table.double().numpy(), neighbours, mode="distance")
    ours = NeighbourGraph(NeighbourSearch(table), neighbours).rows(np.arange(50))
    assert ours.shape == (50, neighbours)
    for word in range(50):
        assert set(ours[word]) == set(theirs[word].tocoo().col) and word not in ours[word]


def test_equal_rows_are_neighbours_and_a_word_still_is_none_of_its_own():
    table = torch.cat([torch.zeros(4, 3), torch.eye(3)])
    near = NeighbourGraph(NeighbourSearch(table), 2).rows(np.arange(7))
    assert near[:4].tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]
    assert near[4:].tolist() == [[0, 1]] * 3


def test_dig_reads_a_graph_that_was_built(tmp_path):
    vocabulary, cache = make_vocabulary(8), CountingCache(tmp_path)
    cache.graph(vocabulary, 8).build()
    asked = cache.search(vocabulary).asked
    route = dig(make_ends(vocabulary, [4, 5], [0, 0]), steps=5, neighbours=8, cache=cache)
    assert cache.search(vocabulary).asked == asked
    assert route.detail == dig(make_ends(vocabulary, [4, 5], [0, 0]), steps=5, neighbours=8).detail
