"""The verb: a model, a text, and why."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from functools import cache, partial
from importlib.metadata import version
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Unpack, overload

import torch

from pathlens.checks import did_you_mean, given, option_names, taken, whole_number
from pathlens.engine.assemble import Order, assemble
from pathlens.engine.belief import Solved, check
from pathlens.engine.finer import compared, finer
from pathlens.engine.methods import entry_for
from pathlens.engine.options import (
    EVERYONES,
    IDG,
    IG,
    RECORDS,
    SIG,
    Accuracy,
    CommonOptions,
    Method,
    R,
    Resources,
    Scores,
    Secants,
    build,
    not_an_option,
)
from pathlens.engine.prepare import (
    Choices,
    Prepared,
    check_method,
    for_target,
    prepare,
    prepare_side,
    refuse_distance,
    tree_source,
    trees_for,
)
from pathlens.engine.progress import Progress, shown
from pathlens.engine.solve import Solution, solve, solve_targets
from pathlens.engine.typed import (
    ByScore,
    Many,
    NoVectors,
    One,
    Options,
    OtherOptions,
    PlainOptions,
    Several,
    shows_options,
)
from pathlens.errors import InputError, PathlensError, or_error, setting
from pathlens.explanation.base import Result
from pathlens.explanation.certificate import warn_unsettled
from pathlens.explanation.check import Belief
from pathlens.explanation.record import Interactions, PairExplanation, PhraseTree, Results, VectorExplanation
from pathlens.integrand.products import kept_layouts
from pathlens.integrate.memory import Limits
from pathlens.path.words.options import WordOptions
from pathlens.path.words.store import path_cache
from pathlens.text.adapter import Probabilities, TextModel
from pathlens.text.chat import as_chat, as_list, is_column
from pathlens.text.load import load
from pathlens.text.network import ONE_AT_A_TIME
from pathlens.text.options import LoadOptions, kinds_of_options
from pathlens.types import SIMILARITIES, brief

if TYPE_CHECKING:  # for the signatures alone
    from pathlens.engine.typed import Encoder


class Explainer(Generic[R]):
    """A model and choices, used for many texts: `Explainer(model, method="ig")(texts)`.

    See `pl.explain` for what the choices mean. Nothing of a result is kept here, and nothing on the model. In parts,
    for those who build on it: `prepare` reads a text, `solve` takes the integrals of many, `assemble` makes a result.
    """

    # fmt: off
    @overload
    def __init__(self: Explainer[Any], model: Any, *, method: Any = ..., target: Several, **choices: Unpack[OtherOptions]) -> None: ...
    @overload
    def __init__(self: Explainer[R], model: Any, *, method: Method[R], **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[Scores], model: Any, *, method: ByScore, **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[PhraseTree], model: Any, *, method: Literal["idg"], **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[Interactions], model: Any, *, method: Literal["ih"], **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[VectorExplanation], model: Any, *, method: Literal["vaig"], **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[PairExplanation], model: Any, *, method: Literal["ij"], **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[Secants], model: Any, *, method: Literal["secant"], **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[PairExplanation], model: Encoder, *, method: None = ..., **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[VectorExplanation], model: Any, *, method: None = ..., gives: Literal["vectors"], block: str | None = ..., target: Any = ..., **choices: Unpack[PlainOptions]) -> None: ...
    @overload
    def __init__(self: Explainer[VectorExplanation], model: Any, *, method: None = ..., gives: str = ..., block: str, target: Any = ..., **choices: Unpack[PlainOptions]) -> None: ...
    @overload
    def __init__(self: Explainer[Scores | PairExplanation], model: Any, *, method: None = ..., target: Any = ..., gives: NoVectors = ..., block: None = ..., **choices: Unpack[PlainOptions]) -> None: ...
    @overload
    def __init__(self: Explainer[Any], model: Any, *, method: str | Method[Any] | None = ..., **choices: Unpack[Options]) -> None: ...
    @overload
    def __init__(self: Explainer[Any], model: TextModel, *, method: Any = ..., **choices: Any) -> None: ...  # a kind with options of its own
    # fmt: on
    def __init__(self, model: Any, *, method: str | Method[Any] | None = None, **choices: Any) -> None:
        check_choices(method, choices)
        self.model, named = loaded(model, choices)
        common, accuracy, room = taken(CommonOptions, named), taken(Accuracy, named), taken(Resources, named)
        if self.model.similarity in SIMILARITIES:
            named.setdefault("similarity", self.model.similarity)
        counted = vars(self.model).setdefault("counted", {})
        limits, options = Limits(room.internal_batch_size, room.memory_budget, counted), self.model.read_options(named)
        self.choices = Choices(**vars(common), model=self.model, accuracy=accuracy, limits=limits, options=options)
        self._options = named
        self._built: dict[str, Method[Any]] = {}
        self.method = None if method is None else self._build(method)

    def __repr__(self) -> str:
        method = self.method.name if self.method else "the model's own method"
        choices = {**given(self.choices.accuracy), **self._options}
        plain = {name: value for name, value in choices.items() if isinstance(value, str | int | float)}
        return brief(self, self.model.name, method, ", ".join(f"{name}={value!r}" for name, value in plain.items()))

    def asking(self, method: Method[Any], **choices: Any) -> Explainer[Any]:
        """The same explainer with another method, and some of its `Choices` (model, target, …) made anew."""
        other = copy(self)
        other.choices = replace(self.choices, **choices)
        other.model, other.method, other._built = other.choices.model, method, {method.name: method}
        return other

    def _build(self, method: str | Method[Any]) -> Method[Any]:
        """The record of a method with this call's options; what it does not take must be an option of the model kind."""
        bare = build(method)
        if bare.name not in self._built:
            names, of_model = option_names(bare), option_names(self.model.options)
            named = {name: value for name, value in self._options.items() if name in names or name not in of_model}
            record = build(bare, named, others=(*of_model, *_others()))
            if isinstance(record, WordOptions):  # words met in several texts are searched once
                record = build(record, {"cache": path_cache(record.cache)})
            if isinstance(record, IDG):
                record = replace(record, tree=tree_source(record.tree))
            self._built[bare.name] = record
        return self._built[bare.name]

    def method_for(self, text_b: Any = None) -> Method[Any]:
        """The method as it is used for one text, or for two: an error where it does not go with the model or the rule."""
        pair = self.model.two_texts_are_a_pair() and text_b is not None
        method = self.method or self._build(self._default(pair))
        method = method.settled(encoder=self.model.two_texts_are_a_pair(), two_texts=text_b is not None)
        check_method(self.choices, method, entry_for(method), text_b)
        if text_b is not None and "similarity" not in self._options and getattr(method, "similarity", None) is None:
            refuse_distance(self.model)
        return method

    def _default(self, pair: bool) -> str:
        """The model kind's own method (a sentence encoder's is for two texts); an integral where one was spoken of."""
        accuracy, default = self.choices.accuracy, self.model.default_method
        along = set(self._options) & set(option_names(IG)) - set(option_names(RECORDS[default]))  # which path, say
        named = bool({"n_steps", "max_nodes", "rule"} & set(given(accuracy)) or along)
        usual = pair or not self.model.two_texts_are_a_pair()
        return default if usual and (pair or not named) else "ig"

    # fmt: off
    @overload  # nobody knows what the method gives: `Any` alone is a `Never` too
    def __call__(self: Explainer[Never], text: Any, text_b: Any = ..., *, show_progress: bool = ..., batch_size: int = ...) -> Any: ...
    @overload  # where two texts may be a pair, one alone is none
    def __call__(self: Explainer[Scores | PairExplanation], text: Many, text_b: None = ..., *, show_progress: bool = ..., batch_size: int = ...) -> Results[Scores]: ...
    @overload
    def __call__(self: Explainer[Scores | PairExplanation], text: One, text_b: None = ..., *, show_progress: bool = ..., batch_size: int = ...) -> Scores: ...
    @overload
    def __call__(self, text: Many, text_b: Any = ..., *, show_progress: bool = ..., batch_size: int = ...) -> Results[R]: ...
    @overload
    def __call__(self, text: One, text_b: Any = ..., *, show_progress: bool = ..., batch_size: int = ...) -> R: ...
    @overload
    def __call__(self, text: Any, text_b: Any = ..., *, show_progress: bool = ..., batch_size: int = ...) -> Any: ...
    # fmt: on
    def __call__(
        self, text: Any, text_b: Any = None, *, show_progress: bool = False, batch_size: int = 64, **misplaced: Any
    ) -> Any:
        """One text gives a result; several (a list, a column, any iterable) a list of them. `batch_size`: texts worked on
        together."""
        if misplaced:
            raise self._misplaced(list(misplaced))
        whole_number("batch_size", batch_size)
        text, text_b = as_chat(as_list(text)), as_list(text_b)
        many = isinstance(text, list)
        if many and is_column(self.choices.target):
            one = self._asked_for(list(as_list(self.choices.target)))
            return one(text, text_b, show_progress=show_progress, batch_size=batch_size)
        texts = [as_chat(each) for each in text] if many else [text]
        others = text_b if isinstance(text_b, list) else [text_b] * len(texts)
        if len(others) != len(texts):
            raise InputError(f"{len(texts)} texts and {len(others)} second texts were given; they go in pairs")
        if texts:
            self.method_for(others[0])  # a wrong choice is not the first text's fault
        targets = self._targets(many)
        of_each = many and isinstance(self.choices.target, list) and not targets
        work, trees = self._with_targets if of_each else partial(self._run, targets), self._tree
        how: dict[str, Any] = {"total": len(texts), "show_progress": show_progress, "batch_size": batch_size}
        how["trees"] = trees_for(trees, len(texts)) if many else None
        results = work(list(zip(texts, others, strict=True)), **how)
        for number, result in enumerate(results):
            if isinstance(result, Exception):
                if many and isinstance(result, PathlensError):
                    raise type(result)(f"text {number // max(len(targets), 1)}: {result}") from result
                raise result
        warn_unsettled([result for result in results if isinstance(result, Result)], depth=self.model.depth)
        return Results(results) if many or targets else results[0]

    def _misplaced(self, names: Sequence[str]) -> InputError:
        """Options given to the call, where they would come too late."""
        records = (*RECORDS.values(), *kinds_of_options(), self.model.options)
        known = (*_others(), *(name for record in records for name in option_names(record)))
        strange = [name for name in names if name not in known]
        given = "…" if strange else ", ".join(f"{name}=…" for name in names)
        return InputError(
            f"{', '.join(names)}: the call of an explainer takes texts, show_progress and batch_size; options belong to "
            f"pl.Explainer(model, {given}) or to pl.explain(model, text, {given})"
            f"{did_you_mean(strange[0], known) if strange else ''}"
        )

    def _targets(self, many: bool) -> tuple[Any, ...]:
        """Targets that every text is asked about: all classes, or those in a list for one text; none: each text has one."""
        target = self.choices.target
        if isinstance(target, str) and target == "all":
            return self.model.every_target(self.choices.options)
        if not many and isinstance(target, list):
            if not target:
                raise InputError(f"the list of targets is empty; give at least one, or {setting(target='all')}")
            return tuple(target)
        return ()

    def of_one_target(self, verb: str) -> Explainer[R]:
        """Itself, for a verb that takes a single target: several are refused before any work starts."""
        target = self.choices.target
        if isinstance(target, list) or is_column(target) or self._targets(many=False):
            classes = self.model.labels if isinstance(target, str) else ()
            came = setting(target=target) if isinstance(target, str | list) else setting("target=…")
            one = f"one of {', '.join(map(repr, classes[:12]))}" if classes else "one of them"
            raise InputError(
                f"{came}: {verb} takes one target, not several; ask for {one} (explain gives a result for each)"
            ).plainly(f"Choose one class: {', '.join(classes[:12])}." if classes else "Choose one target.", "target")
        return self

    def _targets_of(
        self, each: Sequence[Explainer[Any]], wanted: Sequence[tuple[tuple[Any, Any], Any]], tick: Progress
    ) -> list[Result | Exception]:
        """Text by text a result for each target; the targets of one text share their forward passes."""
        started, choices = time.perf_counter(), self.choices
        with self.at_work():
            groups = [self._read_for(each, (*pair, tree)) for pair, tree in wanted]
            ready = [group for group in groups if not isinstance(group, Exception)]
            solved = solve_targets(self.model, ready, choices.accuracy, choices.limits, tick, tick.points)
            solved = [self._looked_at(*each) for each in zip(ready, solved, strict=True)]
            probabilities = [self._says(group) for group in ready]
            checks = [self.check(group, solutions) for group, solutions in zip(ready, solved, strict=True)]
        seconds = (time.perf_counter() - started) / len(wanted)
        whole = iter(zip(ready, solved, probabilities, checks, strict=True))
        results: list[Result | Exception] = []
        for group in groups:
            if isinstance(group, Exception):
                results += [group] * len(each)
                continue
            read, solutions, spoken, checked = next(whole)
            for one, text, outcome, about, belief in zip(each, read, solutions, spoken, checked, strict=True):
                results.append(one._made(text, outcome, seconds, about, belief))
        return results

    def _says(self, texts: Sequence[Prepared]) -> list[list[Probabilities | None]]:
        """What the model says, asked once for all of these, whose targets may be what it is asked about; of each its cases."""
        known = iter(self.model.says([case for each in texts for case in each.cases]))
        return [list(islice(known, len(each.cases))) for each in texts]

    def _made(self, text: Prepared, outcome: Solved, *about: Any) -> Result | Exception:
        return or_error(self.assemble, text, outcome, *about)

    def _asked_for(self, target: Any) -> Explainer[Any]:
        """The same with a target of its own."""
        one = copy(self)
        one.choices = replace(self.choices, target=target)
        return one

    def _read_for(self, each: Sequence[Explainer[Any]], given: tuple[Any, Any, Any]) -> list[Prepared] | Exception:
        """One text for every target: read once, and anew only where a target needs it."""
        (first,) = each[0]._read([given])
        if isinstance(first, Exception):
            return first
        others = [or_error(for_target, one.choices, first, (first.method, *given)) for one in each[1:]]
        failed = next((error for error in others if isinstance(error, Exception)), None)
        return failed or [first, *(read for read in others if not isinstance(read, Exception))]

    def _with_targets(
        self, pairs: Sequence[tuple[Any, Any]], *, trees: Sequence[Any] | None, total: int, **how: Any
    ) -> list[Result | Exception]:
        """`run` with a target of each text's own: texts that share one are worked on together."""
        targets = self.choices.target
        if len(targets) != total:
            raise InputError(f"{total} texts and {len(targets)} targets were given; a list of targets has one per text")
        results: dict[int, Result | Exception] = {}
        for target in [each for k, each in enumerate(targets) if each not in targets[:k]]:
            places = [k for k, each in enumerate(targets) if each == target]
            one = self._asked_for(target)
            chosen_trees = None if trees is None else [trees[k] for k in places]
            outcomes = one.run([pairs[k] for k in places], trees=chosen_trees, total=len(places), **how)
            results |= zip(places, outcomes, strict=True)
        return [results[k] for k in range(total)]

    @property
    def _tree(self) -> Any:
        return self.method.tree if isinstance(self.method, IDG) else None

    def run(
        self,
        pairs: Iterable[tuple[Any, Any]],
        *,
        trees: Iterable[Any] | None = None,
        total: int | None = None,
        show_progress: bool = False,
        batch_size: int = 64,
    ) -> list[Result | Exception]:
        """Results in order; a text that cannot be explained gives its error in its place, the others go on.

        `trees`: for idg, one per text; otherwise the option `tree` serves every text.
        """
        how: dict[str, Any] = {"show_progress": show_progress, "batch_size": batch_size}
        return self._run((), pairs, trees=trees, total=total, **how)

    def _run(
        self,
        targets: Sequence[Any],
        pairs: Iterable[tuple[Any, Any]],
        *,
        trees: Iterable[Any] | None,
        total: int | None,
        show_progress: bool,
        batch_size: int,
    ) -> list[Result | Exception]:
        """A few texts at a time; with targets, each is asked about all of them."""
        work = partial(self._targets_of, [self._asked_for(target) for target in targets]) if targets else self._chunk
        wanted = zip(pairs, repeat(self._tree) if trees is None else trees, strict=False)
        results: list[Result | Exception] = []
        with Progress(total, show_progress) as tick:
            while chunk := list(islice(wanted, batch_size)):
                results += work(chunk, tick)
        return results

    def _chunk(self, wanted: Sequence[tuple[tuple[Any, Any], Any]], tick: Progress) -> list[Result | Exception]:
        started = time.perf_counter()
        with self.at_work():
            read = self._read([(*pair, tree) for pair, tree in wanted])
            ready = [each for each in read if isinstance(each, Prepared)]
            solutions = self.solve(ready, tick, tick.points)
            solved = iter(zip(solutions, self._says(ready), self.check(ready, solutions), strict=True))
        seconds = (time.perf_counter() - started) / len(wanted)
        results: list[Result | Exception] = []
        for each in read:
            if isinstance(each, Exception):
                results.append(each)
                continue
            outcome, spoken, checked = next(solved)
            results.append(self._made(each, outcome, seconds, spoken, checked))
        return results

    def read(self, pairs: Sequence[tuple[Any, Any]]) -> list[Prepared | Exception]:
        """Many texts (text, second text or None) read together; one that cannot be gives its error in its place."""
        with self.at_work():
            return self._read([(*pair, None) for pair in pairs])

    def _read(self, wanted: Sequence[tuple[Any, Any, Any]]) -> list[Prepared | Exception]:
        """Texts (text, second text, tree) read together, each for its method, or its error."""
        methods = [or_error(self.method_for, text_b) for _, text_b, _ in wanted]
        asked = [(m, *each) for m, each in zip(methods, wanted, strict=True) if not isinstance(m, Exception)]
        read = iter(prepare(self.choices, asked))
        return [method if isinstance(method, Exception) else next(read) for method in methods]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Held around all work: one at a time, the model in evaluation mode, gradients where the caller forbids them, and
        weights laid out once for whatever is asked inside."""
        laid_out = kept_layouts(self.choices.limits.for_weights())
        with ONE_AT_A_TIME, torch.inference_mode(False), self.model.quiet(), laid_out:
            yield

    def prepare(self, text: Any, text_b: Any = None) -> Prepared:
        """Read one text (or pair): its cases, one per baseline or side, with their units; nothing is integrated yet."""
        with self.at_work():
            (read,) = self._read([(as_chat(text), text_b, self._tree)])
        if isinstance(read, Exception):
            raise read
        return read

    def prepare_side(self, text: Any, place: int = 0) -> Prepared:
        """Read one text of a pair on its own: as the first (place 0) or the second (1). For `ij` and its like."""
        with self.at_work():
            return prepare_side(self.choices, self.method_for(""), text, place)

    def solve(
        self,
        prepared: Sequence[Prepared],
        done: Callable[[Any], None] | None = None,
        watch: Callable[[int], None] | None = None,
    ) -> list[Solved]:
        """The integrals of prepared texts, many in a batch: a solution per case, or the text's error in its place.

        `done` is called at every text's end, `watch` after every batch; the bar that is shown hears of both where they are not given.
        """
        if done is None and (bar := shown()) is not None:
            done, watch = lambda _: bar.early(), bar.points
        how = self.choices.accuracy, self.choices.limits
        with self.at_work():
            return self._looked_at(prepared, solve(prepared, *how, done, watch))

    def _looked_at(self, prepared: Sequence[Prepared], solved: Sequence[Solved]) -> list[Solved]:
        """Solutions that were held against the model, and those that rounding spoilt in float64."""
        how = self.choices.accuracy, self.choices.limits
        return finer(self.model, prepared, compared(self.model, prepared, solved), *how)

    def check(self, prepared: Sequence[Prepared], solved: Sequence[Solved]) -> list[Belief | None]:
        """Of texts that are solved: does the model do what the scores predict of the strongest units? None where not asked."""
        if not self.choices.check:
            return [None] * len(prepared)
        with self.at_work():
            return check(prepared, solved, self.choices.limits)

    def assemble(
        self,
        prepared: Prepared,
        solved: Sequence[Solution] | Exception,
        seconds: float = 0.0,
        probabilities: Sequence[Probabilities | None] | None = None,
        check: Belief | None = None,
    ) -> Result:
        """The result of one prepared and solved text; where it could not be solved, its error is raised.

        `probabilities`: the model's at both ends of each case, if known. `check`: of these solutions (`Explainer.check`).
        """
        if isinstance(solved, Exception):
            raise solved
        if probabilities is None:
            with self.at_work():
                probabilities = self.model.says(prepared.cases)
        meta = self.describe(prepared.method, seconds)
        return assemble(Order(prepared, self.choices.accuracy.tolerance, meta, probabilities, check), solved)

    def describe(self, method: Method[Any] | None = None, seconds: float = 0.0) -> dict[str, Any]:
        """What every result of this explainer says of itself (`result.meta`): model, layer, unit, rule, options, versions."""
        from pathlens import __version__

        method = method or self.method or self._build(self._default(False))
        choices, entry, options = self.choices, entry_for(method), method.given()
        n_steps = choices.accuracy.n_steps
        exact = entry.telescopes and not method.by_coordinate
        rule = "differences" if exact else choices.accuracy.rule or entry.rule
        if n_steps is not None and not exact:
            rule = f"{'gauss' if rule == 'adaptive' else rule}, {n_steps}"
        chosen = {**given(choices.options), **options, "softplus": choices.softplus}
        chosen = {name: value for name, value in chosen.items() if name not in ("cache", "tree")}
        plain = {name: value for name, value in chosen.items() if isinstance(value, str | int | float | bool)}
        asked = {"method": method.name, "layer": choices.layer, "truncation": choices.truncation}
        return {
            "model": self.model.name,
            "kind": self.model.kind,
            **({"dtype": self.model.dtype_name} if self.model.dtype_name else {}),
            "layer": choices.layer_of(method) or 0,
            "unit": choices.unit if isinstance(choices.unit, str) else "spans",
            "rule": rule,
            **plain,
            **({"context": method.context} if isinstance(method, SIG) else {}),
            "chosen": {**asked, **({} if choices.check else {"check": False}), **asdict(choices.accuracy), **plain},
            "seconds": seconds,
            "versions": {"pathlens": __version__, "torch": torch.__version__, "transformers": _version("transformers")},
        }


_version = cache(version)  # it reads a file


def loaded(model: Any, choices: Mapping[str, Any]) -> tuple[TextModel, dict[str, Any]]:
    """The model, loaded as the choices say (dtype, device, …), and what else is chosen: verbs explain with it more than once."""
    others = dict(choices)
    return load(model, **given(taken(LoadOptions, others))), others


def check_choices(
    method: str | Method[Any] | None, choices: Mapping[str, Any], verb: Callable[..., Any] | None = None
) -> None:
    """Whatever is wrong with choices and can be said before there is a model: nobody waits for one to learn of a slip.

    verb: whose options besides these may have been meant.
    """
    named = dict(choices)
    for record in EVERYONES:
        taken(record, named)
    of_methods = RECORDS.values() if method is None else [type(build(method))]
    by_method = dict.fromkeys(name for record in of_methods for name in option_names(record))
    of_models = {name for kind in kinds_of_options() for name in option_names(kind)} | {*option_names(LoadOptions)}
    asked = {name: value for name, value in named.items() if name not in of_models or name in by_method}
    if method is not None:
        build(method, asked, others=(*_others(verb), *sorted({*of_models, *by_method})))
    elif unknown := [name for name in asked if name not in by_method]:
        raise not_an_option(unknown, by_method, (*_others(verb), *sorted(of_models)), "")


def _others(verb: Callable[..., Any] | None = None) -> tuple[str, ...]:
    """What may be given by name besides the options of methods and models."""
    called = inspect.signature(verb or Explainer.__call__).parameters.values()
    records = (name for record in (*EVERYONES, LoadOptions) for name in option_names(record))
    return ("method", *records, *(each.name for each in called if each.kind is each.KEYWORD_ONLY))


shows_options(Explainer.__init__)
