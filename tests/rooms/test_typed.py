"""What an editor shows of `pl.explain` is what the records of options say."""

import inspect
from typing import get_type_hints

import pytest

import pathlens as pl
from pathlens.checks import options_of
from pathlens.engine.options import EVERYONES, RECORDS
from pathlens.engine.typed import Options, options_by_name
from pathlens.text import options as of_models


def written() -> dict[str, list[object]]:
    """Name → the types it has in the records that are ours."""
    kinds = [
        each for each in vars(of_models).values() if isinstance(each, type) and issubclass(each, of_models.ModelOptions)
    ]
    named: dict[str, list[object]] = {}
    for record in (*EVERYONES, of_models.LoadOptions, *RECORDS.values(), *kinds):
        for each in options_of(record):
            named.setdefault(each.name, []).append(each.type)
    return named


def test_every_option_is_typed_as_its_record_has_it():
    typed, records = get_type_hints(Options), written()
    assert set(typed) == set(records), "an option of a record that no editor shows, or the other way round"
    for name, kinds in records.items():
        assert typed[name] in kinds, name


@pytest.mark.parametrize("call", [pl.explain, pl.Explainer])
def test_python_shows_every_option_with_its_default(call):
    shown = inspect.signature(call).parameters
    assert {"method", "target", "baseline", "layer", "unit"} <= set(shown)
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    for name, each in options_by_name().items():
        if name in Options.__annotations__:
            assert shown[name].default is each.default or shown[name].default == each.default


@pytest.mark.slow
def test_a_checker_sees_slips_and_results(tmp_path):
    """mypy on what a user writes: a misspelt option is an error, and each method gives its own result."""
    from mypy import api

    (tmp_path / "typed.py").write_text(
        "import pathlens as pl\n"
        "one = pl.explain('sentiment', 'x', method='idg', baseline='mask')\n"
        "reveal_type(one)\n"
        "reveal_type(pl.explain('sentiment', ['x'], method='ih', layer=1))\n"
        "reveal_type(pl.explain('sentiment', 'x', method=pl.UDIG(steps=3), unit='word'))\n"
        "pl.explain('sentiment', 'x', basline='mask')\n"
        "pl.explain('sentiment', 'x', layer='two')\n"
        "class Mine(pl.TextModel): ...\n"
        "def own(model: Mine) -> None:\n"
        "    pl.explain(model, 'x', an_option_of_mine=1)\n"
    )
    said, _, _ = api.run(["--config-file", "pyproject.toml", "--follow-imports=silent", str(tmp_path / "typed.py")])
    shown = {int(line.split(":")[1]): line for line in said.splitlines() if "Revealed type" in line}
    wrong = {int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line}
    assert "PhraseTree" in shown[3] and "Results[pathlens.explanation.record.Interactions]" in shown[4]
    assert "Explanation" in shown[5] and wrong == {6, 7}, said
