"""What an editor shows of `pl.explain` is what the records of options say."""

import inspect
import re
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest

import pathlens as pl
from pathlens.checks import option_names, options_of
from pathlens.engine.options import EVERYONES, RECORDS, Compared, Method, Scores
from pathlens.engine.typed import ByScore, Options, SourceOptions, StudyOptions, VectorOptions, options_by_name
from pathlens.text import options as of_models
from pathlens.text.sentence import SentenceEncoder
from pathlens.vectors.why import SPLIT
from tests.support import models


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


def test_what_other_verbs_take_is_typed_as_explain_takes_it():
    """`pl.encode`, `pl.answer`, … leave some options out; a prompt may be one of each side there."""
    every = get_type_hints(Options)
    for some in (StudyOptions, VectorOptions, SourceOptions):
        typed = {name: kind for name, kind in get_type_hints(some).items() if name not in ("method", *SPLIT)}
        assert len(typed) > 10 and not {name for name, kind in typed.items() if every[name] != kind}
    compared = {name for record in RECORDS.values() if issubclass(record, Compared) for name in option_names(record)}
    assert compared - set(get_type_hints(VectorOptions)) == {"coordinates", "block", "hold", "gives"}, (
        "encode refuses these"
    )


def test_every_verb_says_by_name_what_it_takes():
    """Not `**choices: Any`: an editor shows the options, and a checker sees a slip."""
    verbs = {name: getattr(pl, name) for room in (pl, pl.studies) for name in room.__all__} | {"run": pl.corpus.run}
    vague = {
        name
        for name, verb in verbs.items()
        if inspect.isfunction(verb)
        for each in inspect.signature(verb).parameters.values()
        if each.kind is each.VAR_KEYWORD and not str(each.annotation).startswith("Unpack[")
    }
    assert vague == {"chat", "softplus_curve"}, (
        "what a template takes; a curve's `path` is a file, and no option of its method"
    )


def test_the_methods_with_a_score_for_each_unit_are_those_of_the_records():
    def promised(record: type) -> object:
        bases = (base for each in record.__mro__ for base in each.__dict__.get("__orig_bases__", ()))
        return next(get_args(base)[0] for base in bases if get_origin(base) is Method)

    assert set(get_args(ByScore)) == {name for name, record in RECORDS.items() if promised(record) == Scores}


@pytest.mark.parametrize("call", [pl.explain, pl.Explainer])
def test_python_shows_every_option_with_its_default(call):
    shown = inspect.signature(call).parameters
    assert {"method", "target", "baseline", "layer", "unit"} <= set(shown)
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    for name, each in options_by_name().items():
        if name in Options.__annotations__:
            assert shown[name].default is each.default or shown[name].default == each.default


CALLS = {  # what a user writes → what a checker says of it; each is also called, and gives just that
    "pl.explain(m, 'a film')": "Explanation | Continuation",
    "pl.explain(m, ['a film', 'fun'])": "Results[Explanation | Continuation]",
    "pl.explain(m, ('a film', 'fun'), show_progress=False)": "Results[Explanation | Continuation]",
    "pl.explain(m, (text for text in ['a film']), batch_size=1)": "Results[Explanation | Continuation]",
    "pl.explain(m, 'a film', target='all')": "Results[Explanation | Continuation]",
    "pl.explain(m, 'a film', target=[0, 1], layer=0)": "Results[Explanation | Continuation]",
    "pl.explain(m, 'a film', target=0)": "Explanation | Continuation",
    "pl.explain(m, 'a film', 'fun')": "Explanation | Continuation | PairExplanation",
    "pl.explain(m, ['a film'], 'fun')": "Results[Explanation | Continuation | PairExplanation]",
    "pl.explain(m, 'a film', method='ig', target='all')": "Results[Explanation | Continuation]",
    "pl.explain(m, 'a film', method='secant', target=[0])": "Results[Explanation | Continuation | VectorExplanation | PairExplanation]",
    "pl.explain(m, 'a film', method='idg', tree='right-branching')": "PhraseTree",
    "pl.explain(m, 'a film', method='ih', target='all')": "Results[Interactions]",
    "pl.explain(m, ['a film'], method='ih', layer=1)": "Results[Interactions]",
    "pl.explain(m, 'a film', method=pl.IH(pairs=[(1, 2)]))": "Interactions",
    "pl.explain(m, 'a film', method=pl.IH(), target='all')": "Results[Interactions]",
    "pl.explain(m, ('a film', 'fun'), method=pl.SIG())": "Results[Explanation | Continuation]",
    "pl.explain(m, 'a film', method='vaig')": "VectorExplanation",
    "pl.explain(m, 'a film', gives='vectors')": "VectorExplanation",
    "pl.explain(m, ['a film', 'fun'], gives='vectors', batch_size=1)": "Results[VectorExplanation]",
    "pl.explain(m, 'a film', gives='scores', target=0)": "Explanation | Continuation",
    "pl.explain(m, 'a film', gives='scores', target='all')": "Results[Explanation | Continuation]",
    "pl.explain(m, 'a film', block='bert.encoder.layer.0')": "VectorExplanation",
    "pl.explain(m, ['a film'], block='bert.encoder.layer.0', gives='auto')": "Results[VectorExplanation]",
    "pl.explain(m, 'a film', block='bert.encoder.layer.0', gives='vectors', hold=None)": "VectorExplanation",
    "pl.explain(m, 'a film', 'fun', block='bert.encoder.layer.0')": "VectorExplanation",
    "pl.explain(m, 'a film', gives=str('vectors'))": "Any",
    "pl.explain(e, 'a film', 'fun')": "PairExplanation",
    "pl.explain(e, ['a film'], ['fun'])": "Results[PairExplanation]",
    "pl.explain(e, 'a film', 'fun', method='ij', n_steps=2)": "PairExplanation",
    "pl.explain(m, np.array(['a film']))": "Any",
    "pl.Explainer(m, method='ih')('a film')": "Interactions",
    "pl.Explainer(m, method='ih')(('a film', 'fun'))": "Results[Interactions]",
    "pl.Explainer(m, method='ih', target='all')('a film')": "Any",
    "pl.Explainer(m)('a film')": "Explanation | Continuation",
    "pl.Explainer(m)(['a film'])": "Results[Explanation | Continuation]",
    "pl.Explainer(m, tolerance=1e-2)('a film', 'fun')": "Explanation | Continuation | PairExplanation",
    "pl.Explainer(m, target='all')('a film')": "Any",
    "pl.Explainer(m, gives='vectors')('a film')": "VectorExplanation",
    "pl.Explainer(m, block='bert.encoder.layer.0')(['a film'])": "Results[VectorExplanation]",
    "pl.Explainer(m, gives='scores', block=None)('a film')": "Explanation | Continuation",
    "pl.Explainer(m, gives=str('vectors'))('a film')": "Any",
    "pl.Explainer(e)('a film', 'fun')": "PairExplanation",
    "pl.Explainer(e)(['a film'], ['fun'])": "Results[PairExplanation]",
    "pl.Explainer(e, target=lambda vector: vector[..., 0])('a film')": "Explanation | Continuation",
}
SLIPS = (
    *("pl.explain(m, 'x', basline='mask')", "pl.explain(m, 'x', layer='two')", "pl.Explainer(m, show_progress=True)"),
    *("pl.explian(m, 'x')", "pl.corpus.sumarise('x')", "pl.models.laod('x')"),
    *("pl.compare(m, 'x', basline='mask')", "pl.rank(e, 'x', ['y'], layer='two')", "pl.whatif(m, 'x', topp=1)"),
    *("pl.answer(m, 'x', ['y'], sinck=True)", "pl.evaluate(m, ['x'], seeed=1)", "pl.encode(e, ['x'], target=0)"),
)
FILE = """
from typing import Any
import numpy as np
import pathlens as pl
class Mine(pl.TextModel): ...
def shown(m: tuple[Any, Any], e: pl.SentenceEncoder, mine: Mine) -> None:
    pl.explain(mine, "x", an_option_of_mine=1)
    explainer = pl.Explainer(m)
    prepared = explainer.prepare("x")
    explainer.assemble(prepared, explainer.solve([prepared])[0])
"""


def says(file, body: str) -> list[str]:
    """What mypy says, line by line, of a user's file."""
    from mypy import api

    file.write_text(body)
    spoken, _, _ = api.run(["--config-file", "pyproject.toml", "--follow-imports=silent", str(file)])
    return [line.partition(":")[2] for line in spoken.splitlines()]


def plainly(kind: str) -> str:
    """A type without the modules its names are of."""
    return re.sub(r"[\w.]+\.(?=\w)", "", kind)


@pytest.mark.slow
def test_a_checker_sees_what_comes_back_and_what_is_misspelt(tmp_path):
    first = FILE.count("\n") + 1
    lines = [*(f"    reveal_type({call})" for call in CALLS), *(f"    {call}" for call in SLIPS)]
    spoken = says(tmp_path / "typed.py", FILE + "\n".join(lines) + "\n")
    shown = {int(line.split(":")[0]): plainly(line.split('"')[1]) for line in spoken if "Revealed type" in line}
    wrong = {int(line.split(":")[0]) for line in spoken if ": error:" in line}
    assert dict(zip(CALLS, shown.values(), strict=True)) == CALLS
    assert wrong == {first + len(CALLS) + k for k in range(len(SLIPS))}, spoken


@pytest.mark.parametrize("call", CALLS)
def test_what_a_checker_says_comes_back(call):
    encoder = SentenceEncoder(*models.encoder("bert"), pooling="mean")
    given = {"pl": pl, "np": np, "m": models.classifier("bert"), "e": encoder}
    made, kinds = eval(call, given), re.findall(r"\w+", CALLS[call])
    assert kinds == ["Any"] or ("Results" in kinds) == isinstance(made, pl.Results)
    each = made if isinstance(made, pl.Results) else [made]
    assert kinds == ["Any"] or all(type(one).__name__ in kinds for one in each)


OFFERED = (
    *(f"pl.{name}" for room in (pl, pl.models, pl.studies) for name in room.__all__),
    *(f"pl.{room}.{name}" for room in ("models", "studies", "corpus") for name in getattr(pl, room).__all__),
    "pl.models.load",  # `pl.load` is another
)


@pytest.mark.slow
def test_a_checker_gives_every_name_what_python_gives(tmp_path):
    """At the door and in its rooms: the type of the very object that Python has under this name, and no Any."""
    objects = {name: eval(name, {"pl": pl}) for name in OFFERED}
    given = {name: each for name, each in objects.items() if hasattr(each, "__qualname__")}  # no module, no version
    lines = ["import pathlens as pl"]
    for k, (name, each) in enumerate(given.items()):
        lines += [
            f"from {each.__module__} import {each.__qualname__} as _{k}",
            f"reveal_type({name})",
            f"reveal_type(_{k})",
        ]
    spoken = says(tmp_path / "door.py", "\n".join(lines) + "\n")
    kinds = [line.split('"')[1] for line in spoken if "Revealed type" in line]
    assert len(given) > 80 and len(kinds) == 2 * len(given), spoken
    shown = dict(zip(given, zip(kinds[::2], kinds[1::2], strict=True), strict=True))
    assert not {name: pair for name, pair in shown.items() if pair[0] != pair[1]}
    vague = {name: kind for name, (kind, _) in shown.items() if kind == "Any" or kind.endswith("-> Any")}
    assert {name.rpartition(".")[2] for name in vague} == {"option"}, (
        vague
    )  # a field takes whatever its annotation says
