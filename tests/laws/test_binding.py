"""A certificate is of the numbers it stands beside: whoever changes one of them, in memory or in a file, is seen."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pathlens as pl
from pathlens.corpus.folder import results as results_of_run
from pathlens.corpus.schema import result_of
from pathlens.explanation.binding import seal
from pathlens.explanation.store import from_dict
from pathlens.report import Report
from pathlens.text.load import load
from tests.support import draw_samples, methods, models
from tests.support.methods import EVERY
from tests.support.models import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
DRAWN = (
    draw_samples.small, draw_samples.small_pair, draw_samples.interactions, draw_samples.block, draw_samples.phrases,
    draw_samples.continuation, draw_samples.answer,
)  # fmt: skip


def arrays(result: Any) -> dict[str, np.ndarray]:
    return {name: value for name, value in vars(result).items() if isinstance(value, np.ndarray)}


def force(array: np.ndarray, change: Callable[[np.ndarray], None]) -> None:
    """What nobody does by accident: the lock is opened before the change."""
    array.setflags(write=True)
    change(array)
    array.setflags(write=False)


def strongest_plus_one(array: np.ndarray) -> None:
    place = np.unravel_index(np.nanargmax(np.abs(array)), array.shape)
    array[place] += 1.0


@pytest.mark.parametrize("method", EVERY)
def test_numbers_are_read_only_and_a_forced_change_is_seen(method, tmp_path):
    result = methods.explain(method, methods.model_for(method), TEXTS[0])
    assert result.altered == "" and result.settled and "altered" not in repr(result)
    assert arrays(result)
    for array in arrays(result).values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 99
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert not any(array.flags.writeable for array in arrays(twin).values()) and twin.settled
    shown = {"PairExplanation": "full_matrix", "Interactions": "matrix", "VectorExplanation": "vectors"}
    force(getattr(result, shown.get(type(result).__name__, "scores")), strongest_plus_one)
    assert result.altered and not result.settled and result.certificate.converged
    assert "✗ altered" in repr(result)
    assert method == "sig" or result.words().altered
    assert pl.load(result.save(tmp_path / "kept.json")).altered == result.altered  # a new seal on old sins
    with pytest.raises(pl.errors.StoreError, match=r"kept\.json.* is altered.*strict"):
        pl.load(tmp_path / "kept.json", strict=True)


def swap(array: np.ndarray) -> None:
    """Two entries change places: every sum over all of them stays."""
    flat = torch.from_numpy(array).view(-1)  # it writes through, whatever the array's flags say
    largest, smallest = int(np.nanargmax(array)), int(np.nanargmin(array))
    flat[[largest, smallest]] = flat[[smallest, largest]].clone()


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("make", DRAWN)
def test_a_change_that_keeps_the_sum_is_seen(make, tmp_path):
    for name in arrays(make()):
        result = make()
        assert result.settled and not result.altered
        swap(getattr(result, name))
        assert result.altered and not result.settled and "✗ altered" in repr(result), name
        for later in (
            pickle.loads(pickle.dumps(result)),
            copy.deepcopy(result),
            result.derived(),
            result.derived(meta={}),
        ):
            assert later.altered, name
        assert pl.load(result.save(tmp_path / "kept.json")).altered, name
    for name, value in {"target": "another", "certificate": draw_samples.certificate(9.0), "seal": "0"}.items():
        result = make()
        object.__setattr__(result, name, value)
        assert result.altered, name
        assert replace(make(), **{name: value}).altered, f"{name}: dataclasses.replace reseals nothing"
    fine = make().derived(target="another")
    assert fine.settled and not fine.altered and not pl.load(fine.save(tmp_path / "fine.json"), strict=True).altered


def test_what_a_result_says_of_itself_is_read_only():
    shares: dict = {"yes": 0.7, "no": 0.3}
    meta = {"texts": ["good"], "chosen": {"method": "ig"}, "notes": ["first"], "seconds": 1.0}
    result = draw_samples.small().derived(meta=meta, prediction="yes", probabilities=shares)
    meta["texts"].append("more")
    meta["chosen"]["method"] = shares["yes"] = "other"
    assert not result.altered and result.meta["texts"] == ["good"] and result.probabilities == {"yes": 0.7, "no": 0.3}
    for twin in (result, pickle.loads(pickle.dumps(result)), copy.deepcopy(result), from_dict(result.to_dict())):
        for place in (twin.meta, twin.meta["chosen"], twin.probabilities):
            for write in (
                lambda it: it.update(a=1), lambda it: it.pop("a"), lambda it: it.__setitem__("a", 1),
                lambda it: it.clear(), lambda it: it.setdefault("a", 1), lambda it: it.popitem(),
            ):  # fmt: skip
                with pytest.raises(TypeError, match="read-only"):
                    write(place)
        assert json.loads(json.dumps(dict(twin.meta)))["chosen"] == {"method": "ig"} and not twin.altered
    dict.__setitem__(result.probabilities, "yes", 0.9)
    assert result.altered
    noted = result.derived(probabilities=shares, edited="")
    assert not noted.altered
    noted.meta["notes"].append("second")
    assert noted.altered


@pytest.mark.parametrize("make", DRAWN)
def test_the_tick_goes_everywhere_when_a_number_was_changed(make, capsys, tmp_path):
    whole, result = make(), make()
    for array in arrays(result).values():
        force(array, strongest_plus_one)
    for each, expected in ((whole, False), (result, True)):
        each.show(width=200)
        terminal, page = capsys.readouterr().out, each.to_html()
        assert ("✗ altered: " in terminal) is expected and ("adds up: " in terminal) is not expected
        assert ("<summary>✗ altered ·" in page) is expected
        assert ("✗ altered" in each.to_png(tmp_path / "a.svg").read_text(encoding="utf-8")) is expected
        report = Report.of([each])
        assert report.rows()[0]["mark"] == ("✗ altered" if expected else "✓")
        assert (">✗ altered</td>" in report.to_html()) is expected


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("unit", ["token", "word"])
def test_what_is_made_of_a_result_holds_too(method, unit):
    """Sums by word, differences, several baselines: none is taken for an alteration."""
    model = methods.model_for(method)
    result = methods.explain(method, model, TEXTS[0], **({} if method == "idg" else {"unit": unit}))
    assert not result.altered
    if method != "sig":
        assert not result.words().altered
    if isinstance(result, pl.Explanation | pl.Interactions):
        assert not (result - result).altered
        several = methods.explain(method, model, TEXTS[0], baseline=["mask", "pad"])
        assert not several.altered


def leaves(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number, word and yes or no of a saved result, with the way to it."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            yield from leaves(each, (*way, key))
        elif each is not None:
            yield (*way, key), each


def edited(body: dict[str, Any], way: tuple[Any, ...]) -> dict[str, Any]:
    copy = json.loads(json.dumps(body))
    *above, last = way
    home = copy
    for key in above:
        home = home[key]
    was = home[last]
    home[last] = not was if isinstance(was, bool) else was + 1 if isinstance(was, int | float) else was + "x"
    return copy


FREE = ("pathlens", "kind", "seal", "arrays")  # of the file, not of what it says
OF_THE_RUN = ("seconds", "versions")


@pytest.mark.parametrize("make", DRAWN)
def test_any_edit_of_a_file_is_seen(make):
    """Every single leaf: scores, certificate, tokens, text, baseline, notes."""
    body = json.loads(json.dumps(make().to_dict()))
    assert not from_dict(body).altered
    places = [way for way, _ in leaves(body) if way[0] not in FREE and way[1:2] not in [(name,) for name in OF_THE_RUN]]
    assert len(places) > 30
    for way in places[:: max(1, len(places) // 60)] + [way for way in places if way[0] in ("certificate", "meta")]:
        try:
            altered = from_dict(edited(body, way)).altered
        except pl.errors.StoreError:  # it does not even fit together any more
            continue
        assert altered, way


def test_a_file_without_its_seal_is_not_trusted(tmp_path):
    body = draw_samples.small().to_dict()
    del body["seal"]
    (tmp_path / "a.json").write_text(json.dumps(body))
    assert "no seal" in pl.load(tmp_path / "a.json").altered
    with pytest.raises(pl.errors.StoreError, match="no seal"):
        pl.load(tmp_path / "a.json", strict=True)


def test_which_row_of_a_run_a_result_is_of_is_sealed(tmp_path):
    """Also where a file had neither."""
    (tmp_path / "texts.csv").write_text("name,text\n" + "".join(f'r{k},"{text}"\n' for k, text in enumerate(TEXTS)))
    source = pl.corpus.Source(str(tmp_path / "texts.csv"), text="text", id="name")
    pl.corpus.run(models.classifier("bert"), source, tmp_path / "run", method="secant")
    for body in (next(iter(results_of_run(tmp_path / "run"))).to_dict(), draw_samples.small().to_dict()):
        assert not from_dict(body).altered
        for name, value in (("row", 12345), ("id", "another review")):
            assert (
                from_dict({**body, "meta": {**body["meta"], name: value}}).altered
                == "the file was edited after it was written"
            )


def test_a_file_of_the_first_schema_is_loaded_and_sealed_anew():
    """It left the row open; what it sealed is still sealed, and nothing of a newer file is open by it."""
    result = draw_samples.small().derived(meta={**draw_samples.small().meta, "row": 3})
    body = {**result.to_dict(), "pathlens": 1, "seal": seal(result, schema=1)}
    loaded = from_dict(body)
    assert not loaded.altered and loaded.seal == result.seal
    assert from_dict({**body, "target": "another"}).altered
    assert from_dict({**result.to_dict(), "pathlens": 1, "meta": {**body["meta"], "row": 4}}).altered


def test_pages_and_reports_are_sealed_result_by_result(tmp_path):
    results = [draw_samples.small(), draw_samples.small_pair()]
    for path in (Path(tmp_path / "a.html"), Path(tmp_path / "a.json")):
        (Report.of(results).to_html if path.suffix == ".html" else Report.of(results).save)(path)
        assert [each.altered for each in pl.load(path, strict=True)] == ["", ""]
        text = path.read_text(encoding="utf-8")
        assert text.count("-1.42") >= 1
        place = text.rindex("-1.42")
        path.write_text(text[:place] + "-1.43" + text[place + 5 :], encoding="utf-8")
        assert [bool(each.altered) for each in pl.load(path)] == [True, False]
        with pytest.raises(pl.errors.StoreError, match="altered"):
            pl.load(path, strict=True)


def test_large_arrays_beside_the_file_are_sealed_too(tmp_path):
    from safetensors.numpy import load_file, save_file

    result = draw_samples.long_pair(200)
    result.save(tmp_path / "a.json")
    assert not pl.load(tmp_path / "a.json", strict=True).altered
    numbers = load_file(tmp_path / "a.safetensors")
    numbers["full_matrix"][3, 4], numbers["full_matrix"][4, 3] = (
        numbers["full_matrix"][4, 3],
        numbers["full_matrix"][3, 4],
    )
    save_file(numbers, tmp_path / "a.safetensors")  # the sum is as it was
    assert "edited" in pl.load(tmp_path / "a.json").altered


def test_rows_of_a_corpus_are_sealed(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pathlens.corpus import Source, run

    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    folder = tmp_path / "run"
    run(load(models.classifier("bert")), Source(str(tmp_path / "texts.txt")), folder, method="secant")
    assert [each.altered for each in results_of_run(folder)] == [""] * len(TEXTS)
    (shard,) = folder.glob("part-*.parquet")
    table = pq.read_table(shard)
    scores = table.column("scores").to_pylist()
    scores[1] = scores[1][::-1]  # the sum is as it was
    place = table.schema.get_field_index("scores")
    pq.write_table(table.set_column(place, "scores", pa.array(scores, table.schema.field(place).type)), shard)
    with pytest.raises(pl.errors.StoreError, match="damaged"):  # the shard's own checksum
        list(results_of_run(folder))
    rows = table.to_pylist()  # and, wherever a row may have gone, its own seal
    assert [bool(result_of(row).altered) for row in rows] == [False] * len(TEXTS)
    rows[1]["scores"] = scores[1]
    assert [bool(result_of(row).altered) for row in rows] == [False, True, *[False] * (len(TEXTS) - 2)]


def test_a_certificate_that_says_more_than_its_numbers_is_seen():
    """Each claim by itself, without the seal: a total, a gap, a tick above its own bound."""
    whole = draw_samples.explanation("one two three", [1.0, -2.0, 3.0])
    honest = replace(whole.certificate, bound=1e-4)
    assert not whole.derived(certificate=honest).altered
    for lie in (
        {"total": honest.total + 0.1}, {"f_input": honest.f_input + 0.1}, {"f_baseline": 0.0}, {"gap": 0.0},
    ):  # fmt: skip
        assert whole.derived(certificate=replace(honest, **lie)).altered, lie
