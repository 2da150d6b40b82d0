"""Which part of which source made the model say this: an answer explained to the sources alone.

    question and sources → prompt (the model's own template) → answer (written, or given) → log-probability of each sentence

Only the sources move; the question, the template and the answer's own beginning are held, so the sources share the whole
change. One look at both ends serves every sentence (`secant`), or one pass per part that is put back (`sig`).
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from pathlens.engine.explainer import Explainer, check_choices, loaded
from pathlens.engine.methods import entry_for
from pathlens.engine.options import SIG, AnswerOptions
from pathlens.engine.prepare import Prepared
from pathlens.engine.solve import Solution, solve
from pathlens.engine.typed import SourceOptions
from pathlens.errors import InputError, NumberError
from pathlens.explanation.answer import Answer, cut_into
from pathlens.explanation.base import shortened
from pathlens.explanation.certificate import warn_unsettled
from pathlens.explanation.record import Continuation
from pathlens.integrand import Value
from pathlens.integrate.drive import Ask
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits
from pathlens.path.staircase import left_out, within_groups
from pathlens.studies.sources import Part, Sources, kept_sources, read_sources
from pathlens.text.adapter import Case
from pathlens.text.causal import CausalLM
from pathlens.text.generator import end_ids
from pathlens.text.language import Score
from pathlens.text.outputs import Reading, ReadOutputs
from pathlens.text.resumed import Resumed
from pathlens.types import Points, Span
from pathlens.units.cuts import word_spans
from pathlens.units.units import Units, units

LONG = 256  # tokens; from here on a batch wins nothing, and rows that begin where they differ do
ALIKE = 0.5  # share of the shorter source's words that two sources have in common: then they may say the same


def answer(
    model: Any,
    question: Any,
    sources: Sequence[str] | Mapping[str, str] | None = None,
    answer: str | None = None,
    *,
    contrast: str | None = None,
    method: str = AnswerOptions.method,
    unit: str = AnswerOptions.unit,
    threshold: float = AnswerOptions.threshold,
    generate: int = AnswerOptions.generate,
    truncation: bool = AnswerOptions.truncation,
    redundant: bool | None = AnswerOptions.redundant,
    **choices: Unpack[SourceOptions],
) -> Answer:
    """Which part of which source made the model say this? Sentences of its answer × parts of the sources.

    model: a causal language model (`pl.explain` says how it may be given).
    question: a text, messages, or `pl.chat(...)`; sources are put before its last words by the user, through the model's own
        chat template. A chat that names its passages needs no `sources`.
    sources: texts, or {name: text}.
    answer: explained as it is given; None: what the model writes, each token the likeliest, at most `generate` of them.
    contrast: another answer: why not that? Then one number is explained, the difference of both log-probabilities.
    method: "secant" (exact in one pass for every sentence), "sig" (what leaving a source out changes), "ig".
    unit: what sources are cut into: "source", "sentence" or "word"; `pl.zoom(model, result)` opens the parts that matter.
    threshold: the share of what sources add to a sentence from which a source is cited.
    truncation: sources that do not fit are cut, the longest first; the result says where.
    redundant: sources that say the same, told by leaving both out: None checks those that share half their words, True
        every two, False none.
    choices: baseline, tolerance, memory_budget, sink, dtype … as in `pl.explain`.
    """
    AnswerOptions(  # each is one of its choices
        contrast=contrast, method=method, unit=unit, threshold=threshold,
        generate=generate, truncation=truncation, redundant=redundant,
    )  # fmt: skip
    if answer is not None and (not isinstance(answer, str) or not answer.strip()):
        raise InputError(
            f"the answer is empty ({answer!r}); give a text with words, or leave it out: the model writes one"
        )
    check_choices(method, {name: value for name, value in choices.items() if value is not None})
    one, others = _model(model, choices)
    read = read_sources(one, question, sources)
    texts = [text for text in (answer, contrast) if text is not None]
    needed = max([generate if answer is None else 0, *(len(_ids(one, text)) for text in texts)])
    read = read.fitting(one, needed, truncation)
    work = _AnswerTask(one, read, method, unit, float(threshold), {**others, "contrast": contrast})
    wanted = {"generate": generate} if answer is None else {"target": answer}
    parts = tuple((k, *span) for k, text in enumerate(read.shown) for span in cut_into(unit, text))
    result = work.explained(parts, wanted)
    pairs = _pairs(read.texts, redundant)
    return work.with_repeats(result, pairs) if pairs else result


def opened(
    model: Any, result: Answer, columns: Sequence[int] | None = None, inside: str | None = None, **choices: Any
) -> Answer:
    """The same answer with the chosen parts of its sources cut further (None: those that matter); sums are kept."""
    inside = inside or result.finer()
    chosen = result.strongest() if columns is None else tuple(columns)
    one, made = _model(model, {**result.origin.asked, **choices})
    work = _AnswerTask(one, kept_sources(result), result.method, inside, result.threshold, made)
    finer = work.explained(result.opened(chosen, inside), {"target": result.answer})
    was, now = result.certificate.f_input, finer.certificate.f_input
    if abs(was - now) > 1e-4 * max(1.0, abs(was)):
        raise InputError(
            f"this model gives the answer the log-probability {now:.6g} and the result says {was:.6g}: zoom with the model the "
            "result was made with (or the answer it wrote reads as other tokens: give it as answer='…' and zoom then)"
        )
    return finer.derived(repeats=result.repeats)


def _model(model: Any, choices: Mapping[str, Any]) -> tuple[CausalLM, dict[str, Any]]:
    one, others = loaded(model, choices)
    if not isinstance(one, CausalLM):
        raise InputError(f"answers come from a causal language model; {one.name!r} is {one.plain_kind}")
    if choices.get("target") is not None:
        raise InputError("target: what is explained is the answer; give its words as answer='…', or leave both out")
    if choices.get("layer"):
        raise InputError("only the sources move, which is so at the word embeddings alone; leave layer out")
    return one, others


def _ids(model: CausalLM, text: str) -> Sequence[int]:
    ids: Sequence[int] = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


@dataclass(frozen=True, eq=False)
class _AnswerTask:
    """One question with its sources, and how it is to be explained."""

    model: CausalLM
    sources: Sources
    method: str
    unit: str
    threshold: float
    choices: Mapping[str, Any]

    def explained(self, parts: Sequence[Part], wanted: Mapping[str, Any]) -> Answer:
        started = time.perf_counter()
        given = {**self.choices, **wanted, "score": "logprob", "layer": 0, "unit": "passage"}
        explainer = Explainer(self.model, method=self.method, **{k: v for k, v in given.items() if v is not None})
        prepared, read = self._held(explainer.prepare(self.sources.prompt), parts)
        (case,) = prepared.cases
        if "generate" in wanted and set(case.target.ids) <= end_ids(self.model.module, self.model.tokenizer):
            raise InputError("the model ends at once and says nothing to this question; give answer='…'").plainly(
                "The model says nothing to this question. Write the answer that is to be explained.", "reply"
            )
        solutions = _solved(self.model, explainer, prepared)
        seconds = time.perf_counter() - started
        (check,) = explainer.check([prepared], [solutions])
        continuation = explainer.assemble(prepared, solutions, seconds, check=check)
        assert isinstance(continuation, Continuation)
        warn_unsettled([continuation], depth=self.model.depth)
        return self._result(continuation, case, read)

    def _held(self, prepared: Prepared, parts: Sequence[Part]) -> tuple[Prepared, list[Part]]:
        """Only the sources' tokens move, units are their parts, and a sentence of the answer is one number; of each unit its part."""
        (case,) = prepared.cases
        cut, kept = self._units(case, parts)
        free = torch.as_tensor(cut.members.any(axis=0), device=case.ends.end.device)
        start = torch.where(free[:, None], case.ends.start, case.ends.end)
        reading = _by_sentence(case.target, str(case.meta["outputs"][0]))
        case = replace(case, ends=replace(case.ends, start=start, held=~free), target=reading, outputs=reading.outputs)
        read = ReadOutputs("logprob", len(reading.outputs))
        score: Any = Score(self.model, 0, read)
        entry = entry_for(prepared.method, case)
        if isinstance(prepared.method, SIG):
            score = Resumed(self.model, read, case)
            owners = torch.tensor([source for source, *_ in kept])
            entry = replace(entry, path=lambda method, ends, members: within_groups(ends, members, owners))
        case = replace(case, score=score, pack=(score, None))
        return replace(prepared, cases=(case,), units=(cut,), entry=entry), kept

    def _units(self, case: Case, parts: Sequence[Part]) -> tuple[Units, list[Part]]:
        """Parts of sources with their tokens, and which parts these are: one that has no token of its own is left out."""
        spans = case.meta["spans"]["passage"]
        members = np.zeros((len(parts), len(case)), dtype=bool)
        places = [self.sources.placed(part, spans) for part in parts]
        for source, text in enumerate(self.sources.shown):
            low, high = self.sources.placed((source, 0, len(text)), spans)
            numbers = [u for u, part in enumerate(parts) if part[0] == source]
            starts = [places[u][0] for u in numbers]
            for token, ((start, end), segment) in enumerate(zip(case.offsets, case.segments, strict=True)):
                if segment == 0 and start < min(end, high) and low < end:
                    last = bisect_right(starts, start)
                    members[_home(numbers[max(0, last - 1) : last + 1], places, start, end), token] = True
        kept = [u for u in range(len(parts)) if members[u].any()]
        if {parts[u][0] for u in kept} != set(range(len(self.sources.shown))):
            raise InputError("a source has no token of its own in the prompt; give sources with words").plainly(
                "One of the sources has no words. Leave it out, or write some.", "sources"
            )
        names, offsets = (self._words(parts[u]) for u in kept), (places[u] for u in kept)
        return Units(tuple(names), tuple(offsets), (0,) * len(kept), members[kept]), [parts[u] for u in kept]

    def _result(self, continuation: Continuation, case: Case, parts: Sequence[Part]) -> Answer:
        answer = continuation.origin.outputs[0]
        contrast = continuation.origin.outputs[1] if self.choices.get("contrast") is not None else ""
        lengths = tuple(np.bincount(case.target.part).tolist()) if not contrast else (len(case.target.ids),)
        asked = {k: v for k, v in self.choices.items() if isinstance(v, str | int | float | bool)}
        read = [len(text) for text in self.sources.shown]
        against = f" against {contrast!r}" if contrast else ""
        result = Answer(
            method=continuation.method,
            target=f"{answer!r}{against} (logprob)",
            certificate=continuation.certificate,
            check=continuation.check,
            meta={**continuation.meta, "unit": self.unit, "tokens": len(case), "asked": asked, "read": read},
            question=self.sources.question,
            answer=answer,
            names=self.sources.names,
            sources=self.sources.texts,
            owners=tuple(k for k, *_ in parts),
            offsets=tuple((start, end) for _, start, end in parts),
            sentence_offsets=continuation.output_offsets,
            lengths=lengths,
            matrix=np.ascontiguousarray(continuation.matrix.T),
            certificates=continuation.certificates,
            contrast=contrast,
            threshold=self.threshold,
        )
        notes = [*continuation.origin.notes, *self.sources.notes, *_doubts(result, self.model)]
        return result.derived(meta={**result.meta, "notes": notes})

    def _words(self, part: Part) -> str:
        source, start, end = part
        return shortened(self.sources.texts[source][start:end].strip())

    def with_repeats(self, result: Answer, pairs: Sequence[tuple[int, int]]) -> Answer:
        """What is lost without either of two sources, and without both."""
        given = {
            **self.choices,
            "target": result.answer,
            "score": "logprob",
            "layer": 0,
            "unit": "passage",
            "method": "sig",
        }
        explainer = Explainer(self.model, **{k: v for k, v in given.items() if v is not None})
        whole = tuple((k, 0, len(text)) for k, text in enumerate(self.sources.shown))
        prepared, _ = self._held(explainer.prepare(self.sources.prompt), whole)
        members = torch.as_tensor(prepared.units[0].members, device=prepared.cases[0].ends.end.device)
        singles = sorted({k for pair in pairs for k in pair})
        groups = [members[[k]].any(0) for k in singles] + [members[list(pair)].any(0) for pair in pairs]
        lost = lost_without(explainer, prepared.cases[0], torch.stack(groups))
        alone = dict(zip(singles, lost, strict=False))
        both = lost[len(singles) :]
        repeats = tuple(
            (float(a), float(b), alone[a], alone[b], each)
            for (a, b), each in zip(pairs, both, strict=True)
            if each > math.log(2) and max(alone[a], alone[b]) < each / 2
        )
        notes = [*result.origin.notes, *(_repeat_note(result.names, each) for each in repeats)]
        return result.derived(repeats=repeats, meta={**result.meta, "notes": notes})


def _home(near: Sequence[int], places: Sequence[Span], start: int, end: int) -> int:
    """The part a token belongs to, of the two it may touch: where it has most of its characters; blanks go forward."""
    return max(near, key=lambda u: (min(end, places[u][1]) - max(start, places[u][0]), u))


def _by_sentence(reading: Reading, answer: str) -> Reading:
    """The same tokens as one number a sentence of the answer; with a contrast, as one."""
    tokens = [k for k, sign in enumerate(reading.sign) if sign > 0]
    if len(tokens) < len(reading.sign):
        whole = (0, len(answer))
        return replace(reading, part=(0,) * len(reading.ids), outputs=(answer,), offsets=(whole,))
    names, offsets = [reading.outputs[k] for k in tokens], [reading.offsets[k] for k in tokens]
    cut = units("sentence", names, offsets, [0] * len(tokens), [answer])
    part = tuple(int(each) for each in cut.members.argmax(axis=0))
    return replace(reading, part=part, outputs=cut.names, offsets=cut.offsets)


def _solved(model: CausalLM, explainer: Explainer[Any], prepared: Prepared) -> tuple[Solution, ...]:
    choices, (case,) = explainer.choices, prepared.cases
    with explainer.at_work():
        (solutions,) = solve([prepared], choices.accuracy, _limits(choices.limits, case))
        if isinstance(solutions, NumberError):
            _check_possible(model, case)
    if isinstance(solutions, Exception):
        raise solutions
    return solutions


def _limits(given: Limits, case: Case) -> Limits:
    """Rows of a long prompt one by one: each begins where it differs."""
    alone = isinstance(case.score, Resumed) and len(case) >= LONG and given.rows is None
    return replace(given, rows=1) if alone else given


def _check_possible(model: CausalLM, case: Case) -> None:
    """An error that says so, where a token of the answer has the probability 0."""
    with torch.no_grad():
        output = model.forward(case.ends.end[None], [case], 0)
    reading = case.target
    for place, token in zip(reading.at, reading.ids, strict=True):
        logits = output.logits[0, int(torch.searchsorted(output.at, place))]
        if logits[token] == -math.inf:
            name = model.tokenizer.decode([token])
            raise InputError(
                f"the model gives {name!r} the probability 0 where the answer has it: nothing explains what it never says"
            ).plainly(f"The model never says “{name}” here, so nothing explains it.", "reply")


def lost_without(explainer: Explainer[Any], case: Case, groups: Tensor) -> list[float]:
    """F(x) − F(x without the group), of the whole answer; groups are memberships (G, S)."""

    def values() -> Generator[Ask, Tensor, Tensor]:
        none = torch.zeros_like(groups[:1])
        route = left_out(case.ends, torch.cat([none, groups]))
        count = len(groups) + 1
        outputs = yield Ask(Points(route, np.arange(count), np.zeros(count), np.eye(count)), Value())
        return outputs.flatten(1).sum(1)

    job = Job(case, groups, values())
    with explainer.at_work():
        run([job], _limits(explainer.choices.limits, case))
    if job.error is not None:
        raise job.error
    return (job.result[0] - job.result[1:]).tolist()


def _pairs(texts: Sequence[str], redundant: bool | None) -> list[tuple[int, int]]:
    """Two sources that are worth leaving out together."""
    if redundant is False:
        return []
    every = list(combinations(range(len(texts)), 2))
    if redundant:
        return every
    words = [{text[slice(*span)].lower() for span in word_spans(text)} for text in texts]
    return [(a, b) for a, b in every if len(words[a] & words[b]) >= ALIKE * min(len(words[a]), len(words[b]))]


def _repeat_note(names: Sequence[str], repeat: tuple[float, ...]) -> str:
    a, b, one, two, both = repeat
    return (
        f"{names[int(a)]} and {names[int(b)]} say the same: without either the answer's log-probability falls by {one:.2f} "
        f"and {two:.2f}, without both by {both:.2f}"
    )


def _doubts(result: Answer, model: CausalLM) -> list[str]:
    """An answer that the model itself would hardly give is explained all the same, and said to be one."""
    if result.contrast:
        return []
    chance = -math.log(model.network.embedding.weight.shape[0])
    worse = [
        sentence
        for sentence, each, count in zip(result.sentences, result.certificates, result.lengths, strict=True)
        if each.f_input / count < chance
    ]
    return [
        f"the model finds {sentence!r:.60} all but impossible: less likely than any token by chance"
        for sentence in worse
    ]
