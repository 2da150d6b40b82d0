"""The verb: a model, a text, and why."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pathlens.engine.assemble import Order, Part, finish
from pathlens.engine.assemble_pair import Measure, check_room, pair_limits
from pathlens.engine.assemble_phrases import tree_of, tree_source, trees_for
from pathlens.engine.methods import RULES, Method, Settings, find_method, for_case, moving_of
from pathlens.engine.progress import Progress
from pathlens.engine.solve import work
from pathlens.errors import InputError, PathlensError
from pathlens.explanation.advice import warn_unsettled
from pathlens.explanation.record import Result
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits
from pathlens.path.words.options import path_cache
from pathlens.text.adapter import Case, Request, TextModel
from pathlens.text.chat import as_chat
from pathlens.text.load import load
from pathlens.text.network import ONE_AT_A_TIME
from pathlens.text.softplus import prepared
from pathlens.units.groups import Units, units
from pathlens.units.named import LEVELS, named_units
from pathlens.units.trees import Tree

EVERYONES_OPTIONS = ("softplus",)  # besides those of the method and of the model kind


LEAST_NODES = 21  # the adaptive driver's first look: three cells of seven nodes
MOST_NODES = 100_000  # more only fill the memory: no score changes any more
LOADING = ("pooling", "dtype", "device_map")  # passed on when the model is loaded


@dataclass(frozen=True, eq=False)
class _Asked:
    """One result to be made: its jobs, one per baseline and side."""

    jobs: list[Job]
    units: list[Units]
    tree: Tree | None = None


class Explainer:
    """A model and choices, used for many texts: `Explainer(model, method="ig")(texts)`.

    See `pl.explain` for what the choices mean. Nothing of a result is kept here, and nothing on the model.
    """

    def __init__(
        self,
        model: Any,
        *,
        method: str | None = None,
        target: Any = None,
        baseline: Any = None,
        layer: int | None = None,
        unit: Any = "token",
        score: str | None = None,
        tolerance: float = 1e-3,
        n_steps: int | None = None,
        rule: str | None = None,
        truncation: bool = False,
        internal_batch_size: int | None = None,
        memory_budget: int | None = None,
        max_nodes: int = 512,
        **options: Any,
    ) -> None:
        self.model: TextModel = load(model, **{n: options.pop(n) for n in LOADING if n in options})
        self.method = None if method is None else find_method(method)
        if not (isinstance(tolerance, int | float) and tolerance > 0):
            raise InputError(f"tolerance must be a positive number, got {tolerance!r}")
        _whole_numbers(
            n_steps=n_steps, internal_batch_size=internal_batch_size, max_nodes=max_nodes, memory_budget=memory_budget
        )
        if rule is not None and rule not in (*RULES, "log"):
            raise InputError(f"rule={rule!r} is not known; rules: {', '.join(RULES)}")
        if max(n_steps or 0, max_nodes) > MOST_NODES:
            raise InputError(
                f"at most {MOST_NODES} nodes fit a text, got {max(n_steps or 0, max_nodes)}; "
                "leave n_steps out and a tolerance finds the number it needs"
            )
        if max_nodes < LEAST_NODES:
            raise InputError(f"max_nodes must be at least {LEAST_NODES}, got {max_nodes}; for fewer nodes use n_steps")
        if self.model.similarity is not None:
            options.setdefault("similarity", self.model.similarity)
        if "tree" in options:
            options["tree"] = tree_source(options["tree"])
        self.baseline = baseline
        self.unit = unit
        self.layer = layer
        self.options = options
        self.limits = Limits(internal_batch_size, memory_budget)
        paths = path_cache(options.get("cache"))  # words met in several texts are searched once
        self.settings = Settings(float(tolerance), n_steps, rule, max_nodes, {**options, "cache": paths})
        self.request = Request(
            target=target,
            score=score,
            layer=layer,
            truncation=truncation,
            hold=_names(options.get("hold")),
            options=options,
        )

    def __call__(self, text: Any, text_b: Any = None, *, show_progress: bool = False, batch_size: int = 64) -> Any:
        """One text gives a result; a list of texts a list of results. `batch_size`: texts worked on together."""
        _whole_numbers(batch_size=batch_size)
        text = as_chat(text)
        many = isinstance(text, list)
        texts = [as_chat(each) for each in text] if many else [text]
        others = text_b if isinstance(text_b, list) else [text_b] * len(texts)
        if len(others) != len(texts):
            raise InputError(f"{len(texts)} texts and {len(others)} second texts were given; they go in pairs")
        results = self.run(
            zip(texts, others, strict=True),
            trees=trees_for(self.options.get("tree"), len(texts)) if many else None,
            total=len(texts),
            show_progress=show_progress,
            batch_size=batch_size,
        )
        for number, result in enumerate(results):
            if isinstance(result, Exception):
                if many and isinstance(result, PathlensError):
                    raise type(result)(f"text {number}: {result}") from result
                raise result
        warn_unsettled(results)
        return results if many else results[0]

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
        results: list[Result | Exception] = []
        each_tree = repeat(self.options.get("tree")) if trees is None else iter(trees)
        with Progress(total, show_progress) as tick:
            chunk: list[tuple[Any, Any, Any]] = []
            for pair in pairs:
                chunk.append((*pair, next(each_tree, None)))
                if len(chunk) == batch_size:
                    results += self._chunk(chunk, tick)
                    chunk = []
            results += self._chunk(chunk, tick)
        return results

    def _chunk(self, wanted: Sequence[tuple[Any, Any, Any]], tick: Progress) -> list[Result | Exception]:
        started = time.perf_counter()
        with (
            ONE_AT_A_TIME,
            torch.inference_mode(False),
            self.model.quiet(),
        ):  # a caller's inference mode would forbid every gradient
            asked = [self._asked(*each) for each in wanted]
            jobs = [job for one in asked if isinstance(one, tuple) for job in one[1].jobs]
            for job in jobs:
                job.watch = tick.points
            last = {id(one[1].jobs[-1]) for one in asked if isinstance(one, tuple)}
            run(jobs, self.limits, lambda job: tick(job) if id(job) in last else None)
        seconds = time.perf_counter() - started
        return [self._result(one, seconds / len(wanted)) for one in asked]

    def _asked(self, text: Any, text_b: Any, tree: Any) -> tuple[Method, _Asked] | Exception:
        try:
            method = self._method(text_b)
            second = method.rule == "log"
            cases = [prepared(case, self.options, second_order=second) for case in self._cases(method, text, text_b)]
            method = for_case(method, cases[0])
            if isinstance(self.unit, tuple) and method.sides == 2 and len(self.unit) != 2:
                raise InputError(f"a tuple of units has one for each text, two in all; got {len(self.unit)}")
            wanted = self.unit if isinstance(self.unit, tuple) and method.sides == 2 else (self.unit,) * len(cases)
            groups = [self._units(case, unit) for case, unit in zip(cases, wanted, strict=True)]
            read = tree_of(cases[0], tree, self.unit) if method.finish == "phrases" else None
            limits = self._limits(method, cases)
            jobs = [
                Job(case, moving_of(case, own)[0], work(case, own, method, self.settings, limit))
                for case, own, limit in zip(cases, groups, limits, strict=True)
            ]
            return method, _Asked(jobs, groups, read)
        except Exception as error:  # one bad text must not end the others; the caller decides what to do with it
            return error

    def _method(self, text_b: Any) -> Method:
        if self.method is not None:
            method = self.method
        elif self.model.two_texts_are_a_pair() and text_b is not None:
            method = find_method("ij")
        else:
            method = find_method("ig")
        if method.sides == 2 and not self.model.two_texts_are_a_pair():
            raise InputError(
                f"method={method.name!r} compares the vectors of two texts, and {self.model.name!r} is a {self.model.kind} "
                "model; use a sentence encoder, or method='ig' with both texts as one input"
            )
        if self.settings.rule is not None and self.settings.rule not in method.rules:
            raise InputError(
                f"rule={self.settings.rule!r} is not for {method.name}; it takes {', '.join(method.rules)}"
            )
        if method.sides == 2 and text_b is None:
            raise InputError(f"method={method.name!r} needs two texts: explain(model, text, text_b)")
        unknown = [
            name for name in self.options if name not in (*method.options, *self.model.options, *EVERYONES_OPTIONS)
        ]
        if unknown:
            raise InputError(
                f"{', '.join(unknown)}: not an option of {method.name}; it takes "
                f"{', '.join(method.options) or 'no options of its own'} besides everyone's"
            )
        return method

    def _cases(self, method: Method, text: Any, text_b: Any) -> list[Case]:
        request = replace(
            self.request,
            vector=method.vector,
            block=self.options.get("block"),
            layer=self._layer(method),
            each_output=method.by_output and not self.options.get("coordinates"),
        )
        many = isinstance(self.baseline, list) or _is_sample(self.baseline, self.model, text)
        choices = list(self.baseline) if many else [self.baseline]
        if not choices:
            raise InputError("the list of baselines is empty; give at least one")
        if method.sides == 2:
            if many:
                raise InputError(f"method={method.name!r} takes one baseline, not a list")
            sides = self.baseline if isinstance(self.baseline, tuple) else (self.baseline, self.baseline)
            if len(sides) != 2:
                raise InputError(f"a tuple of baselines has one for each text, two in all; got {len(sides)}")
            return [
                model.case(each, request=replace(request, baseline=side))
                for model, each, side in zip(self.model.sides(), (text, text_b), sides, strict=True)
            ]
        if many and method.finish not in ("tokens", "interactions"):
            raise InputError(f"method={method.name!r} takes one baseline; a list of baselines is for ig, sig and ih")
        return [self.model.case(text, text_b, request=replace(request, baseline=each)) for each in choices]

    def _layer(self, method: Method) -> int | None:
        """The layer asked for, else the model's default for integrals; words and blocks begin where they must."""
        held = method.telescopes or method.through_words(self.options) or self.options.get("block") is not None
        return self.layer if self.layer is not None or held else self.model.default_layer

    def _limits(self, method: Method, cases: Sequence[Case]) -> list[float | None]:
        """How exact each side must be; for two sides it depends on how similar they are, which is known already."""
        if method.sides == 1:
            return [None] * len(cases)
        measure = Measure.of(self.options, self.settings.tolerance)
        if self.options.get("coordinates"):
            check_room(cases, self.limits.bytes(cases[0].ends.end.device))
        return list(pair_limits(cases, measure))

    def _units(self, case: Case, unit: Any) -> Units:
        if case.sources:
            if unit != "token":
                raise InputError("a block's inputs are explained by token; unit must be 'token' with block=...")
            return _own_units(case)
        if not case.texts:
            if unit != "token" and self.model.kind == "tabular":
                raise InputError("a tabular model has features, not words; unit must be 'token'")
            return _own_units(case)
        if isinstance(unit, str) and unit in LEVELS:
            spans = case.meta.get("spans", {})
            return named_units(unit, spans, case.tokens, case.offsets, case.segments, case.texts)
        return units(unit, case.tokens, case.offsets, case.segments, case.texts)

    def _result(self, asked: tuple[Method, _Asked] | Exception, seconds: float) -> Result | Exception:
        if isinstance(asked, Exception):
            return asked
        method, one = asked
        failed = next((job.error for job in one.jobs if job.error is not None), None)
        if failed is not None:
            return failed
        parts = [Part(job.case, own, job.result, job.passes) for job, own in zip(one.jobs, one.units, strict=True)]
        try:
            return finish(Order(method, self.settings, self._meta(method, seconds), one.tree), parts)
        except PathlensError as error:
            return error

    def _meta(self, method: Method, seconds: float) -> dict[str, Any]:
        import transformers

        from pathlens import __version__

        exact = method.telescopes and not self.options.get("coordinates")
        rule = "differences" if exact else self.settings.rule or method.rule
        known = {
            name: value
            for name, value in self.options.items()
            if isinstance(value, str | int | float | bool) and name not in ("cache", "tree")
        }
        context = {"context": self.options.get("context", "full")} if method.name == "sig" else {}
        return {
            "model": self.model.name,
            "kind": self.model.kind,
            **({"dtype": self.model.dtype_name} if self.model.dtype_name else {}),
            "layer": self._layer(method) or 0,
            "unit": self.unit if isinstance(self.unit, str) else "spans",
            "rule": rule
            if self.settings.n_steps is None or exact
            else f"{'gauss' if rule == 'adaptive' else rule}, {self.settings.n_steps}",
            **known,
            **context,
            "seconds": seconds,
            "versions": {"pathlens": __version__, "torch": torch.__version__, "transformers": transformers.__version__},
        }


def explain(
    model: Any, text: Any, text_b: Any = None, *, show_progress: bool = False, batch_size: int = 64, **choices: Any
) -> Any:
    """Why did the model say that? Signed scores that add up to the output's change, with a certificate.

    model: a folder or hub id, (model, tokenizer), a pipeline, a SentenceTransformer, a CrossEncoder, a plain
        nn.Module with tensors, or a built-in name ("minilm", "sentiment", "smollm").
    text, text_b: one text or a pair; lists give a list of results. A chat model also takes `pl.chat(...)` or messages.
    method: "ig" (default), "sig", "vaig", "ij" (default for a sentence encoder with two texts), …: `pl.methods()`.
    target: class index or label; "start", "end", "span"; (token index, label); or a function of the output. Of a
        generator: a continuation (" Paris"), a token id, or None for the predicted next token; then also contrast
        (" London": why not that), generate (so many tokens of its own), sink (the token held in front, or None).
    baseline: "mask" (default where there is one), "pad", "unk", "eos", "zero", "mean", a text, a tensor, or a
        list of these (expected gradients).
    layer: 0 word embeddings (default; integrals on "smollm": 2), k the states that enter block k.
    unit: "token", "word", "sentence", a list of character spans, or {name: (start, end)}; "turn" or "passage" of a chat.
    score: "logit" (default), "logprob" (default of generators), "prob" (default of a single token on "smollm").
    tolerance: how exactly the scores must add up, relative to the output's change (default 1e-3).
    n_steps: fixes the number of nodes; rule: "adaptive" (default), "gauss", "midpoint", "trapezoid", "left",
        "right", "split" (forward passes alone).
    truncation, internal_batch_size, memory_budget (bytes), max_nodes, and the method's own options by name;
        pooling ("mean", "cls", "last") for a bare encoder; dtype and device_map for a folder or hub id.
    """
    return Explainer(model, **choices)(text, text_b, show_progress=show_progress, batch_size=batch_size)


def _whole_numbers(**values: Any) -> None:
    for name, value in values.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            unit = " (bytes)" if name == "memory_budget" else ""
            raise InputError(f"{name} must be a whole number{unit} of at least 1, got {value!r}")


def _names(hold: Any) -> tuple[str, ...]:
    return (hold,) if isinstance(hold, str) else tuple(hold or ())


def _is_sample(baseline: Any, model: TextModel, row: Any) -> bool:
    """A table's background sample, with one dimension more than a row, is a list of baselines."""
    return model.kind == "tabular" and isinstance(baseline, Tensor | np.ndarray) and baseline.ndim == np.ndim(row) + 1


def _own_units(case: Case) -> Units:
    count = len(case)
    return Units(case.tokens, case.offsets, case.segments, case.special, np.eye(count, dtype=bool))
