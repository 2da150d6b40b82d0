"""Before the integral: a model, a text and what was chosen → cases, units, trees, and how exact each must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.checks import whole_text
from pathlens.engine.methods import Entry, entry_for
from pathlens.engine.options import IH, IJ, Accuracy, CommonOptions, Compared, Embedded, Method, OfBlock
from pathlens.errors import InputError, or_error, setting
from pathlens.explanation.pair import Measure
from pathlens.explanation.record import Explanation, Interactions, PhraseTree
from pathlens.integrate.memory import Limits
from pathlens.text.adapter import Case, Request, TextModel, Wanted, in_batches, texts_of
from pathlens.text.language import function_name
from pathlens.text.options import ModelOptions
from pathlens.text.softplus import prepared
from pathlens.types import PROMPT_UNITS, RULES, SIMILARITIES
from pathlens.units.brackets import RIGHT_BRANCHING, Treebank
from pathlens.units.parse import parser
from pathlens.units.trees import Tree, read_tree
from pathlens.units.units import Opened, Units, units


@dataclass(frozen=True, eq=False, kw_only=True)
class Choices(CommonOptions):
    """What a call chose besides the method."""

    model: TextModel
    accuracy: Accuracy
    limits: Limits
    options: ModelOptions  # of the model kind

    def request(self, method: Method[Any] | None = None) -> Request:
        """What is asked of every text, in the words of the model's room; a case adds its baseline.

        Without a method: what is asked of the model alone, its output at the word embeddings.
        """
        unit = self.unit.unit if isinstance(self.unit, Opened) else self.unit
        level = unit if isinstance(unit, str) and unit in PROMPT_UNITS else None
        common = {"target": self.target, "score": self.score, "truncation": self.truncation}
        plain = Request(**common, level=level, options=self.options)
        if method is None:
            return plain
        entry = entry_for(method)
        of_block = method if isinstance(method, OfBlock) else OfBlock()
        embedded = method if isinstance(method, Embedded) else Embedded()
        hold = of_block.hold or ()
        held = (hold,) if isinstance(hold, str) else tuple(hold)
        one = replace(plain, layer=self.layer_of(method), integral=entry.integrates, vector=entry.vector)
        each = method.by_output and not method.by_coordinate
        return replace(one, each_output=each, block=of_block.block, hold=held, norm=embedded.norm)

    def layer_of(self, method: Method[Any]) -> int | None:
        """The layer asked for, else the model's default for integrals; words and blocks begin where they must."""
        of_block = isinstance(method, OfBlock) and method.block is not None
        fixed = not entry_for(method).integrates or method.through_words or of_block
        return self.layer if self.layer is not None or fixed else self.model.default_layer


@dataclass(frozen=True, eq=False)
class Prepared:
    """One text read for one method: everything that is known before the integral. A case per baseline or side."""

    method: Method[Any]
    entry: Entry
    cases: tuple[Case, ...]
    units: tuple[Units, ...]
    limits: tuple[float | None, ...]  # how exact each must be, where its own change does not say
    tree: Tree | None = None  # the phrases of this text, where the method asks for them
    rows: tuple[int, ...] | None = None  # the units whose interactions were asked for, where not all


Given = tuple[Method[Any], Any, Any, Any]  # a method, a text, a second one or None, a tree or None


def prepare(choices: Choices, given: Sequence[Given]) -> list[Prepared | Exception]:
    """Read texts, or pairs, each for a method that goes with it (`check_method`); a text that cannot be read gives its error.

    They are read together, so a model that runs to find its targets runs for many at once.
    """
    asked = [or_error(_asked, choices, *each[:3]) for each in given]
    by_model: dict[TextModel, list[Wanted]] = {}
    for each in asked:
        for model, wanted in [] if isinstance(each, Exception) else each:
            by_model.setdefault(model, []).append(wanted)
    cases = {model: iter(model.cases(wanted)) for model, wanted in by_model.items()}
    read: list[list[Case | Exception] | Exception] = [
        each if isinstance(each, Exception) else [next(cases[model]) for model, _ in each] for each in asked
    ]
    return [or_error(_prepared, choices, each, text_cases) for each, text_cases in zip(given, read, strict=True)]


def _prepared(choices: Choices, given: Given, read: list[Case | Exception] | Exception) -> Prepared:
    method, *_, tree = given
    cases: list[Case] = []
    for case in [read] if isinstance(read, Exception) else read:
        if isinstance(case, Exception):
            raise case
        cases.append(prepared(case, choices.softplus, second_order=entry_for(method).rule == "log"))
    entry = entry_for(method, cases[0])
    wanted = by_side(choices.unit, "units") if entry.sides == 2 else (choices.unit,) * len(cases)
    groups = tuple(units_of(case, unit, choices.model.kind) for case, unit in zip(cases, wanted, strict=True))
    phrases = tree_of(cases[0], tree, choices.unit) if entry.result is PhraseTree else None
    limits: tuple[float | None, ...] = (None,) * len(cases)
    if isinstance(method, Compared) and entry.sides == 2:
        if isinstance(method, IJ) and method.coordinates:
            _check_room(cases, choices.limits.bytes(cases[0].ends.end.device))
        limits = pair_limits(cases, method.measure(choices.accuracy.tolerance))
    rows = chosen_rows(method, groups[0].names) if isinstance(method, IH) else None
    return Prepared(method, entry, tuple(cases), groups, limits, phrases, rows)


def for_target(choices: Choices, prepared: Prepared, given: Given) -> Prepared:
    """A text that was read, asked about another target (`choices.target`); read anew only where it must be."""
    request = choices.request(prepared.method)
    cases = [None if choices.softplus else choices.model.retargeted(case, request) for case in prepared.cases]
    if all(cases):
        return replace(prepared, cases=tuple(case for case in cases if case is not None))
    (read,) = prepare(choices, [given])
    if isinstance(read, Exception):
        raise read
    return read


def prepare_side(choices: Choices, method: Method[Any], text: Any, place: int = 0) -> Prepared:
    """Read one text of a pair on its own: the first (place 0) or the second. Its vectors belong to no pair yet."""
    whole_text("text", text)
    request = replace(choices.request(method), baseline=by_side(choices.baseline, "baselines")[place])
    case = prepared(choices.model.sides()[place].case(text, request=request), choices.softplus, second_order=False)
    group = units_of(case, by_side(choices.unit, "units")[place], choices.model.kind)
    return Prepared(method, entry_for(method), (case,), (group,), (None,))


def by_side(given: Any, what: str) -> tuple[Any, ...]:
    """One choice for both texts, or a tuple with one for each: that of the first and of the second."""
    sides = given if isinstance(given, tuple) else (given, given)
    if len(sides) != 2:
        raise InputError(f"a tuple of {what} has one for each text, two in all; got {len(sides)}")
    return sides


def check_method(choices: Choices, method: Method[Any], entry: Entry, text_b: Any) -> None:
    """Do the method, the model, the rule and the number of texts go together?"""
    model, rule = choices.model, choices.accuracy.rule
    if entry.sides == 2 and not model.two_texts_are_a_pair():
        raise InputError(
            f"{setting(method=entry.name)} compares the vectors of two texts, and {model.name!r} is a {model.kind} "
            f"model; use a sentence encoder, or {setting(method='ig')} with both texts as one input"
        )
    if rule is not None and rule not in entry.rules:
        known = ", ".join(each for each in entry.rules if each in RULES) or "none: leave rule out"
        raise InputError(f"{setting(rule=rule)} is not for {entry.name}; it takes {known}")
    if entry.in_one_pass and choices.accuracy.n_steps is not None:
        given = setting(n_steps=choices.accuracy.n_steps)
        raise InputError(f"{given}: secants are exact in one pass and have no nodes; leave n_steps out")
    if entry.sides == 2 and text_b is None:
        raise InputError(f"{setting(method=entry.name)} needs two texts: explain(model, text, text_b)")
    _refuse_unread(choices, entry, text_b)
    idle = {name: value for name, value in method.given().items() if name in ("similarity", "norm")}
    if idle and not model.two_texts_are_a_pair():
        raise InputError(
            f"{setting(**idle)}: {model.name!r} is a {model.kind} model and compares no vectors; leave {' and '.join(idle)} out"
        )


def _refuse_unread(choices: Choices, entry: Entry, text_b: Any) -> None:
    """A choice that nothing would look at is refused: whoever made it would read the answer to another question."""
    model, target, score = choices.model, choices.target, choices.score
    encodes, name = model.two_texts_are_a_pair(), setting(method=entry.name)
    asked = setting(f"target={shown(target)}")
    if score is not None and encodes:
        raise InputError(
            f"{setting(score=score)}: {model.name!r} gives vectors and has neither logits nor probabilities; leave score out "
            "(similarity= says how two texts are compared)"
        ).plainly("This model compares texts and has no probabilities. Leave the score out.", "score")
    if score is not None and (entry.vector or callable(target)):
        what = f"{name} explains the whole output" if entry.vector else "target is a function of the output"
        raise InputError(f"{setting(score=score)}: {what}, as it is; leave score out").plainly(
            "The whole output is explained, as it is. Leave the score out.", "score"
        )
    if target is not None and entry.sides == 2:
        raise InputError(
            f"{asked}: {name} explains the similarity of two texts and has no target; leave target out, or give "
            f"one text and a function of its vector with {setting(method='ig')}"
        ).plainly("Two texts are compared here, and that has no target. Empty it.", "target")
    if target is not None and entry.vector and not model.places_vector:
        raise InputError(
            f"{asked}: {name} explains the whole output at once and has no target; leave target out, "
            f"or ask for one with {setting(method='ig')}"
        ).plainly("This method explains every class at once. Empty the target, or choose another method.", "target")
    if encodes and text_b is not None and entry.sides == 1 and (entry.vector or callable(target)):
        what = f"{name} explains the vector" if entry.vector else f"{asked} is a function of the vector"
        raise InputError(
            f"{what} of one text, and the second would not be looked at: leave it out, or compare both with {setting(method='ij')}"
        ).plainly("One text's vector is explained here. Empty the second text, or choose another method.", "text_b")


def refuse_distance(model: TextModel) -> None:
    """A model that compares its vectors by a distance is not explained by another measure without a word."""
    if model.similarity in (None, *SIMILARITIES):
        return
    raise InputError(
        f"{model.name!r} compares texts by the {model.similarity} distance, which pairs of words do not add up to; say which of "
        f"its vectors' other measures to explain: {setting(similarity='cosine')} or {setting(similarity='dot')}"
    ).plainly(f"This model compares texts by the {model.similarity} distance. Choose cosine or dot.", "similarity")


def shown(target: Any) -> str:
    """A target for an error's line: a function by its name."""
    return function_name(target) if callable(target) else repr(target)


def _asked(choices: Choices, method: Method[Any], text: Any, text_b: Any) -> list[tuple[TextModel, Wanted]]:
    """What one text asks of its model, once for each baseline; a pair, of the model of each side."""
    whole_text("text", text)  # here too: a model kind may read its texts in a manner of its own
    whole_text("text_b", text_b)
    entry, request, baseline = entry_for(method), choices.request(method), choices.baseline
    table = choices.model.kind == "tabular" and isinstance(baseline, Tensor | np.ndarray)
    many = isinstance(baseline, list) or (table and baseline.ndim == np.ndim(text) + 1)  # a background sample
    each_baseline = list(baseline) if many else [baseline]
    if not each_baseline:
        raise InputError("the list of baselines is empty; give at least one")
    if entry.sides == 2:
        if many:
            raise InputError(f"{setting(method=entry.name)} takes one baseline, not a list")
        sides = zip(choices.model.sides(), (text, text_b), by_side(baseline, "baselines"), strict=True)
        return [(model, (each, None, replace(request, baseline=side))) for model, each, side in sides]
    if many and entry.result not in (Explanation, Interactions):
        raise InputError(
            f"{setting(method=entry.name)} takes one baseline; a list of baselines is for scores, of ig, sig, ih or secant"
        )
    return [(choices.model, (text, text_b, replace(request, baseline=each))) for each in each_baseline]


def units_of(case: Case, unit: Any, kind: str = "") -> Units:
    """What the text is cut into; rows of a block and features of a table stand alone."""
    if case.sources and unit != "token":
        raise InputError(
            f"a block's inputs are explained by token; unit must be 'token' with {setting('block=...')}"
        ).plainly("Parts of the model are explained by token. Choose the unit token, or empty the part.", "unit")
    if not case.texts and unit != "token" and kind == "tabular":
        raise InputError("a tabular model has features, not words; unit must be 'token'")
    if case.sources or not case.texts:
        return Units(case.tokens, case.offsets, case.segments, np.eye(len(case), dtype=bool))
    return units(unit, case.tokens, case.offsets, case.segments, case.texts, case.meta.get("spans"))


def embeddings_of(cases: Sequence[Case]) -> list[Float[np.ndarray, "k"]]:
    """e(text) of each, in float64; cases that may share a batch do."""
    vectors: dict[int, np.ndarray] = {}
    by_pack: dict[Any, list[Case]] = {}
    for case in cases:
        by_pack.setdefault(case.pack, []).append(case)
    with torch.no_grad():
        for group in by_pack.values():
            for some in in_batches(group):
                rows = some[0].score(texts_of(some), some)[:, 0].double().cpu().numpy()
                vectors |= {id(case): row for case, row in zip(some, rows, strict=True)}
    return [vectors[id(case)] for case in cases]


def pair_limits(cases: Sequence[Case], measure: Measure) -> tuple[float, float]:
    """How exact each side's vectors must be, in lengths, for this pair: its similarity is known before the integral."""
    e_a, e_b = embeddings_of(cases)
    if e_a.shape != e_b.shape:
        raise InputError(
            f"the two sides' embeddings have {len(e_a)} and {len(e_b)} coordinates; they must live in one space to be compared"
        )
    measure.scale(e_a, e_b)  # a length of zero is named by its place
    return measure.length_limit(e_a, e_b), measure.length_limit(e_b, e_a)


def _check_room(cases: Sequence[Case], budget: int) -> None:
    """Refuse a coordinate-by-coordinate matrix that would not fit, before anything is computed."""
    sizes = [case.ends.end.numel() for case in cases]
    needed = 4 * sizes[0] * sizes[1]
    if needed > budget:
        shapes = " × ".join(f"{tuple(case.ends.end.shape)}" for case in cases)
        raise InputError(
            f"{setting(coordinates=True)} would need {needed / 2**30:.1f} GiB ({shapes} numbers of 4 bytes), more than the budget of "
            f"{budget / 2**30:.1f} GiB; explain shorter texts, raise memory_budget, or leave coordinates out"
        )


def tree_of(case: Case, tree: Any, unit: Any = "token") -> Tree:
    """The tree of one text, read before any work is done; a spaCy pipeline, or any parser, is called with the text."""
    if unit != "token":
        raise InputError(
            f"{setting(unit=unit)}: idg gives every token, word and phrase at once; leave unit out, and give spans as {setting('tree=...')}"
        )
    if len(case.texts) != 1 or case.sources:
        what = "no text" if not case.texts else f"{len(case.texts)} texts as one input"
        raise InputError(
            f"idg reads the phrases of one text, and this input has {what}; use {setting(method='ig')}"
        ).plainly(
            "Phrases are read in one text, and there are two. Empty the second, or choose another method.", "method"
        )
    (text,) = case.texts
    tree = parser() if tree is None else tree
    is_parser = callable(tree) and not isinstance(tree, str | Tree)
    try:
        return read_tree(tree(text) if is_parser else tree, text)
    except InputError as error:  # it points at the place, in words that anybody reads
        error.plainly(str(error), "tree")
        raise


def tree_source(tree: Any) -> Any:
    """A file's name becomes its trees, read once; a bracketed tree, spans or a parser stay what they are."""
    given = isinstance(tree, str) and (tree == RIGHT_BRANCHING or tree.lstrip().startswith("("))
    return Treebank(tree) if isinstance(tree, str | Path) and not given else tree


def trees_for(tree: Any, count: int) -> list[Any] | None:
    """One tree per text of a list; a parser, the right-branching shape, or None (spaCy's parse) serves all of them."""
    if tree is None or callable(tree) or (isinstance(tree, str) and tree == RIGHT_BRANCHING):
        return None
    if not isinstance(tree, list) or len(tree) != count:
        came = f"{len(tree)} trees" if isinstance(tree, list) else f"one {type(tree).__name__}"
        raise InputError(f"{count} texts need a list of {count} trees (None for a text without one), got {came}")
    return tree


def chosen_rows(method: IH, names: Sequence[str]) -> tuple[int, ...] | None:
    """Units whose row is wanted: `interaction_index` (one or several), or enough rows to cover `pairs`.

    A pair needs the row of one of its two units only (the matrix is symmetric): units that are in most of the
    pairs still open are taken first.
    """
    single, pairs = method.interaction_index, method.pairs
    if single is not None:
        wanted = list(single) if isinstance(single, Iterable) and not isinstance(single, str) else [single]
        if not wanted:
            raise InputError("interaction_index is empty; give one unit or several, by index or name")
        return tuple(sorted({_index(each, names) for each in wanted}))
    if pairs is None:
        return None
    open_pairs = {_pair(each, names) for each in pairs} if isinstance(pairs, Iterable) else set()
    if not open_pairs:
        raise InputError(f"pairs must be a list of at least one pair of units, got {pairs!r}")
    rows: set[int] = set()
    while open_pairs:
        members = list(chain.from_iterable(sorted(open_pairs)))
        best = max(sorted(set(members)), key=members.count)
        rows.add(best)
        open_pairs = {pair for pair in open_pairs if best not in pair}
    return tuple(sorted(rows))


def _pair(pair: Any, names: Sequence[str]) -> tuple[int, int]:
    if isinstance(pair, str) or not isinstance(pair, Iterable) or len(ends := tuple(pair)) != 2:
        raise InputError(f"pairs must be a list of two units each, by index or name, got {pair!r}")
    return _index(ends[0], names), _index(ends[1], names)


def _index(unit: Any, names: Sequence[str]) -> int:
    if isinstance(unit, str):
        places = [i for i, name in enumerate(names) if name == unit]
        if len(places) == 1:
            return places[0]
        problem = "is there more than once: give its index" if places else "is not there"
        raise InputError(f"the unit {unit!r} {problem}; units: {', '.join(f'{i} {n!r}' for i, n in enumerate(names))}")
    if not isinstance(unit, int | np.integer) or isinstance(unit, bool) or not -len(names) <= unit < len(names):
        raise InputError(f"a unit is an index from 0 to {len(names) - 1} or a name, got {unit!r}")
    return int(unit) % len(names)
