"""The benchmarks' own laws: rows are whole, kept rows are not measured twice, literal transcriptions equal ours."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import pathlens as pl
from benchmarks import __main__ as command
from benchmarks import (
    current,
    generators,
    gradients,
    hessians,
    machine,
    measure,
    memory,
    report,
    table,
    texts,
    word_paths,
)
from benchmarks.growth import flops
from benchmarks.limit import executed
from benchmarks.sequential import KnownNeighbours
from pathlens.integrand.batch import any_derivative
from pathlens.quadrature import gauss
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support.models import TEXTS, classifier
from tests.support.models import encoder as minilm_like
from tests.support.twins import gradients as twins
from tests.support.twins import hessians as twins_of_hessians
from tests.support.twins import jacobians
from tests.support.twins.word_paths import others
from tests.support.words import make_vocabulary

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def some_row(**more):
    return measure.row("work", "against", goal=2.0, ours=1.0, theirs=3.0, errors=(1e-4, 2e-4), **more)


# rows


def test_a_row_has_the_fields_of_the_table_and_a_verdict():
    whole = report.complete(some_row())
    assert list(whole)[: len(measure.FIELDS)] == list(measure.FIELDS)
    assert whole["ratio"] == 3.0 and whole["met"] is True
    json.dumps(whole, allow_nan=False)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [({}, True), ({"ratio": 1.9}, False), ({"ratio": 1.9, "sense": "at most"}, True), ({"ratio": 2.1, "sense": "at most"}, False)],
)  # fmt: skip
def test_a_goal_is_a_floor_unless_it_is_a_ceiling(more, verdict):
    assert measure.met(some_row(**more)) is verdict


def test_no_speed_makes_up_for_scores_that_are_not_what_the_row_says():
    assert measure.met(some_row(holds=True)) is True and measure.met(some_row(holds=False)) is False


def test_a_row_beside_another_has_no_goal_and_no_verdict():
    assert measure.met({**some_row(), "goal": None}) is None


def test_a_row_that_lacks_a_field_is_refused():
    broken = some_row()
    del broken["theirs_error"]
    with pytest.raises(ValueError, match="theirs_error"):
        report.complete(broken)


def test_numbers_json_cannot_hold_become_null():
    assert report.plain({"a": float("nan"), "b": [np.float64(1.5), float("inf")]}) == {"a": None, "b": [1.5, None]}


def test_sides_take_turns():
    order = []
    both = measure.alternate(3, lambda: order.append("ours") or 1, lambda: order.append("theirs") or 2)
    assert order == ["ours", "theirs"] * 3 and (both.ours, both.theirs) == (1, 2)
    _, (first, second) = measure.in_pieces([[1, 2], [3]], lambda piece: piece, lambda piece: [-x for x in piece])
    assert first == [1, 2, 3] and second == [-1, -2, -3]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_an_exponent_is_recovered(power):
    sizes = [4, 8, 16, 64]
    assert measure.exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power, abs=1e-9)
    assert 1 < measure.exponent([32, 512], [flops(32), flops(512)]) < 2


# the command


def test_every_row_of_the_table_can_be_made_by_its_name():
    for entry in table.ENTRIES:
        module, function = entry.maker.split(":")
        assert callable(getattr(import_module(f"benchmarks.{module}"), function))
        assert entry.section in report.ABOUT
        assert table.find([entry.name]) == [entry]
    with pytest.raises(SystemExit, match="nonsense"):
        table.find(["nonsense"])


def test_a_kept_row_is_not_measured_again_unless_asked(tmp_path):
    class Entry:
        name, calls = "one", 0

        def make(self, quick):
            self.calls += 1
            return [some_row(ours_share=self.calls)]

    entry = Entry()
    first, _, about = command.measured(entry, tmp_path, quick=True, fresh=False)
    again, spent, same = command.measured(entry, tmp_path, quick=True, fresh=False)
    assert (again, spent, same, entry.calls) == (first, 0.0, about, 1)
    command.measured(entry, tmp_path, quick=True, fresh=True)
    assert entry.calls == 2
    command.measured(entry, tmp_path, quick=False, fresh=False)  # small work says nothing of large
    assert entry.calls == 3


class _Reading:
    """A text's profile, and captum itself: the error at n nodes, by reading it off and by running it."""

    def __init__(self, read, run) -> None:
        self.read, self.run = read, run

    def by_gauss(self, n):
        return self.read[n]

    def one_by_one(self, texts, n):
        return [self.run[n]] * len(texts)

    def error(self, number, scores):
        return scores


def test_captums_nodes_of_a_block_are_those_with_which_captum_itself_gets_there():
    """A reading may be off by a hair, and more nodes may be worse for a text."""
    within, over = 0.9 * gradients.WITHIN, 1.1 * gradients.WITHIN
    one = _Reading({1: over, 2: within, 3: over, 4: within, 5: within}, {2: over, 4: within, 5: within})
    assert gradients.smallest_gauss({0: one}, one) == 2
    assert gradients.nodes_of_block(one, ["a"], one, {0: one}) == 4


@pytest.mark.parametrize("theirs, holds", [(0.9, True), (1.1, False)])
def test_a_block_holds_where_both_sides_are_as_exact_as_it_states(monkeypatch, theirs, holds):
    small = {1: 0.5 * gradients.WITHIN, 8: 0.5 * gradients.WITHIN}  # 8: to be warm
    side, model = _Reading(small, small), load(classifier("bert"))
    monkeypatch.setattr(gradients, "load", lambda name: model)
    monkeypatch.setattr(gradients, "sentences", lambda: [TEXTS[k % 3] for k in range(104)])
    monkeypatch.setattr(gradients, "CaptumLoop", lambda model: side)
    monkeypatch.setattr(gradients, "hardest", lambda model, texts, exact, count: dict.fromkeys(range(len(texts)), side))
    monkeypatch.setattr(gradients.Exact, "error", lambda exact, number, scores: float(np.max(scores)))
    scores = iter([[0.5 * gradients.WITHIN] * 4, [theirs * gradients.WITHIN] * 4])
    monkeypatch.setattr(gradients.Exact, "errors", lambda exact, results: np.array(next(scores)))
    (made,) = gradients.blocks(quick=True)
    assert made["holds"] is holds and made["theirs_error"] == pytest.approx(theirs * gradients.WITHIN)


def test_a_page_without_rows_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--page", "--fresh", "--keep", str(tmp_path)])
    monkeypatch.setattr(report, "write", None)  # it would fail
    monkeypatch.chdir(Path.cwd())
    assert command.main() == 1
    assert "nothing to show" in capsys.readouterr().err


def test_a_run_with_a_failed_row_leaves_the_page_as_it_was(tmp_path, monkeypatch, capsys):
    """Say, without the data: rows that still work must not stand as the whole table."""

    class Entry:
        section = table.ENTRIES[0].section

        def __init__(self, name):
            self.name = name

        def make(self, quick):
            if self.name == "bad":
                raise RuntimeError("no data")
            return [some_row()]

    monkeypatch.setattr(table, "find", lambda names: [Entry("good"), Entry("bad")])
    monkeypatch.setattr("sys.argv", ["benchmarks", "--keep", str(tmp_path)])
    monkeypatch.setattr(report, "write", None)  # it would fail
    assert command.main() == 1
    assert "no figures for bad" in capsys.readouterr().err and (tmp_path / "good.json").exists()


def test_rows_of_several_days_are_told_apart():
    monday, tuesday = ({"machine": "one", "date": day} for day in ("Monday", "Tuesday"))
    assert machine.together({"ig": monday, "sig": monday}) == monday
    assert machine.together({"ig": monday, "sig": tuesday})["date"] == "Monday (ig); Tuesday (sig)"


def test_a_row_that_fails_leaves_nothing_behind(tmp_path):
    class Entry:
        name = "bad"

        def make(self, quick):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        command.measured(Entry(), tmp_path, quick=True, fresh=False)
    assert not list(tmp_path.iterdir())


def test_the_page_says_what_was_missed_and_why(tmp_path):
    section = table.ENTRIES[0].section
    rows = [some_row(), {**some_row(why="there is a reason"), "work": "slow | work", "ratio": 1.0}]
    about = machine.description()
    report.write({section: rows}, about, quick=False, folder=tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "1 of 2 goals are met" in page and "There is a reason." in page and "slow \\| work" in page
    assert about["commit"] in page and about["date"] in page and "captum" in page


def test_the_machine_is_described_without_its_name():
    import getpass
    import platform

    output = " ".join(machine.description().values())
    assert platform.node() not in output.split() and str(Path.cwd()) not in output
    assert getpass.getuser() not in output.split()


def test_what_lies_in_the_tree_was_written_by_the_command():
    """Whole rows, and the page has every one that the code still makes, with its figures; of others that they are left out."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    (left_out,) = [line for line in page.split("\n") if line.startswith("- left out")] or [""]
    count = 0
    for entry in table.ENTRIES:
        rows = report.kept(names=[entry.name])
        old = current.outdated(entry, rows)
        count += len(rows) - len(old)
        for row in rows:
            assert report.complete(row) == row
            line = " | ".join(cell.replace("|", "\\|") for cell in report.cells(row)).strip()
            assert (line in page) == (row not in old), f"{entry.name}: python -m benchmarks --page"
            assert (row["work"] in left_out) == (row in old)
            if row["met"] is False and row not in old:
                assert "What was missed" in page
    assert count > 50


@pytest.mark.parametrize(
    "change", [{"goal": 7.0}, {"goal": None}, {"work": "another work"}, {"against": "at most 9 s"}]
)
@pytest.mark.parametrize("name", ["startup", "ig-lengths", "secants-pairs", "idg"])
def test_a_row_that_the_code_no_longer_makes_is_known(name, change):
    (entry,) = table.find([name])
    rows = [row for row in report.kept(names=[name]) if row["goal"] is not None]
    known = [row for row in rows if row not in current.outdated(entry, rows)]
    assert known and current.outdated(entry, [{**row, **change} for row in known]) == [
        {**row, **change} for row in known
    ]


def test_what_is_left_out_of_the_page_is_named_on_it(tmp_path, monkeypatch):
    file = tmp_path / "startup.json"
    rows = [report.complete({**some_row(), "work": f"work {k}"}) for k in range(2)]
    file.write_text(json.dumps({"rows": rows, "quick": False, "about": machine.description()}), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["benchmarks", "--page", "--keep", str(tmp_path)])
    monkeypatch.setattr(current, "outdated", lambda entry, rows: rows[1:])
    monkeypatch.setattr(report, "write", partial(report.write, folder=tmp_path))
    monkeypatch.chdir(Path.cwd())
    assert command.main() == 0
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| work 0 |" in page and "| work 1 |" not in page and re.search(r"- left out.*: work 1 \(startup\)", page)


# texts


def test_a_text_of_a_length_has_it(monkeypatch):
    model = load(classifier("bert"))
    monkeypatch.setattr(texts, "sentences", lambda: tuple(TEXTS * 30))
    for count in (8, 20, 64):
        assert texts.tokens_in(model, texts.of_length(model, count)) == count


@pytest.mark.parametrize("count", [1, 3, 8])
def test_units_cover_the_text(count):
    text = " ".join(TEXTS)
    parts = memory.spans(text, count)
    assert len(parts) == count and parts[0][0] == 0 and parts[-1][1] == len(text)
    assert all(low < high for low, high in parts)


@pytest.mark.parametrize("goal", [0.5, 0.03, 0.0101, 1e-9])
def test_steps_are_found_to_within_a_sixteenth(goal):
    asked = []

    def gap(steps):
        asked.append(steps)
        return 1.0 / steps

    result = generators.steps_needed(gap, goal)
    if goal > 1e-3:
        assert result == generators.FIRST or gap(result) <= goal < gap(result * 15 // 16 - 1)
    else:
        assert result == generators.MOST
    assert len(set(asked)) < 14


# literal transcriptions


def test_sig_is_the_outputs_own_changes():
    model = load(classifier("bert"))
    case = model.case(TEXTS[0], request=Request())
    exact = twins.sequential_differences(
        lambda point: case.score(point[None], [case])[0], case.ends.start, case.ends.end
    )
    np.testing.assert_allclose(pl.explain(model, TEXTS[0], method="sig").scores, exact, atol=1e-5)


@pytest.mark.parametrize("name", ["udig-maxcount", "udig-greedy", "dig-greedy", "dig-maxcount"])
def test_the_search_row_finds_the_definitions_words(name, monkeypatch):
    vocabulary = make_vocabulary(3, size=600, width=8)
    monkeypatch.setattr(word_paths, "MASK", 5)
    row = word_paths.compare(name, vocabulary, (17, 200, 431), rounds=1)
    assert "; the same words" in row["against"] and row["ours_error"] == 0
    report.complete(row)


def test_known_neighbours_are_the_definitions():
    table = make_vocabulary(1, size=60).table.double().numpy()
    graph = KnownNeighbours(table, 9)
    for word in (0, 7, 59):
        assert list(graph[word].tocoo().col) == others(table, word, 9)


def test_flops_of_a_call_are_counted_with_attention():
    left, right = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    assert executed(lambda: torch.randn(6, 7) @ torch.randn(7, 8)) == 2 * 6 * 7 * 8
    assert executed(lambda: attend(left, right, right)) == 2 * (2 * 2 * 3 * 5 * 5 * 4)


def test_the_papers_vectors_in_one_batch_are_those_of_the_literal_twin():
    encoder = load(minilm_like())
    case = encoder.case(TEXTS[1], request=Request(vector=True))
    nodes = gauss(3)

    def embed(points):
        return case.score(points, [case] * len(points))[:, 0]

    with encoder.quiet():
        ends = case.ends
        literal = jacobians.integrated_jacobian(
            lambda point: embed(point[None])[0], ends.start, ends.end, nodes.t, nodes.weight
        )
        result = jacobians.vectors_by_coordinate(embed, ends.start, ends.end, nodes.t, nodes.weight)
    np.testing.assert_allclose(
        result, torch.einsum("ksd,sd->sk", literal, ends.delta.double()), atol=1e-6 * float(result.abs().max())
    )


@pytest.mark.parametrize("end_points", [True, False])
def test_the_timed_grid_is_the_published_estimate(end_points):
    model = load(classifier("bert"))
    bench = hessians.Bench(model, TEXTS[0])
    case = bench.case
    with model.quiet(), any_derivative():
        literal = twins_of_hessians.published_estimate(
            lambda point: case.score(point[None], [case])[0], case.ends.start, case.ends.end, 2, end_points=end_points
        )
    result, _ = bench.sums(*twins_of_hessians.published_grid(2, end_points=end_points))
    moving = np.ix_(bench.moving, bench.moving)
    np.testing.assert_allclose(np.squeeze(result), literal.numpy()[moving], atol=1e-5)


FIRST_PAGE = (  # rows of the first page's table, in order: how the work and the peer begin
    ("secants, 100 SST-2 sentences", "captum's IG"),
    ("secants, next token, smollm, 64 tokens", "captum's IG"),
    ("secants, one pair, MiniLM, 15 and 14 tokens", "k reverse passes"),
    ("IG, 100 SST-2 sentences", "captum one by one, n_steps = 102"),
    ("IG, 10 texts of 8 to 200 tokens, 50 nodes", "captum"),
    ("SIG token scores, 24 tokens", "time-interpret, 50 steps"),
    ("SIG token scores, 24 tokens", "captum's FeatureAblation"),
    ("DIG, authors' settings, left rule, 14 tokens", "time-interpret"),
)


def test_figures_of_the_calibration_are_those_of_its_rows():
    """Nodes now and before, errors over the bound: a line a split, in the rows' order."""
    page = (FOLDER.parent / "docs" / "methods" / "ig.md").read_text(encoding="utf-8")
    rows = json.loads((FOLDER / "calibration.json").read_text(encoding="utf-8"))
    shown = re.findall(r"^\| (\d+) [^|]+ \| ([\d.]+) \| ([\d.]+) \| (\.\d+) / (\.\d+) \| (\d+) \|$", page, re.MULTILINE)
    measured = []
    for split in dict.fromkeys(row["split"] for row in rows):
        of_split = [row for row in rows if row["split"] == split]
        nodes, before, errors = (np.array([row[key] for row in of_split]) for key in ("nodes", "nodes_before", "error"))
        figures = (
            f"{len(of_split)} {nodes.mean():.1f} {before.mean():.1f}",
            f"{np.median(errors):.3f}",
            f"{errors.max():.2f}",
        )
        measured.append((*figures[0].split(), figures[1][1:], figures[2][1:], str((errors > 1).sum())))
    assert shown == measured
    (fresh,) = (row for row in report.kept() if "fresh prompts" in row["work"])
    assert (
        f"{before.mean() / nodes.mean():.2f}" == f"{fresh['ratio']:.2f}" and f"{fresh['ratio']:.2f} times fewer" in page
    )


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_figures_of_the_first_page_are_the_measured_ones(name):
    rows = report.kept()
    page = (FOLDER.parent / name).read_text(encoding="utf-8")
    shown = re.findall(r"^\| [^|]+ \| [^|]+ \| ([\d.]+) \|$", page, re.MULTILINE)
    measured = []
    for work, peer in FIRST_PAGE:
        (ratio,) = (row["ratio"] for row in rows if row["work"].startswith(work) and row["against"].startswith(peer))
        measured.append(f"{ratio:.3g}" if ratio < 1000 else f"{ratio:.0f}")
    assert shown == measured
