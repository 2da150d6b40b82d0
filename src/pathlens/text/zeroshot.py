"""Zero-shot classification: does this text entail "This example is sports."?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from pathlens.errors import InputError, ModelError, setting
from pathlens.text.adapter import Case, Probabilities, Request, starts_of, texts_of
from pathlens.text.heads import Classifier
from pathlens.text.language import Draft, Target, form, labels_of
from pathlens.text.options import HypothesisOptions, ModelOptions, labels_in
from pathlens.text.tokens import Tokens

TEMPLATE = "This example is {}."  # the pipeline's


@dataclass(frozen=True, eq=False)
class Candidates:
    """The text with the hypothesis of every label, at the word embeddings, in the labels' order."""

    labels: tuple[str, ...]
    cases: tuple[Case, ...]
    asked: int  # the place of the label that is asked about
    alone: bool  # each label by itself, against its contradiction
    probable: bool  # a probability is asked for

    @property
    def together(self) -> bool:
        """Labels share the probability that is asked for: none is read without the others."""
        return self.probable and not self.alone

    def tail(self, points: Float[Tensor, "S d"], label: int) -> Float[Tensor, "T d"]:
        """A point of the path with another label's hypothesis after the text, both of which are held but the text."""
        return torch.cat([points[: self.text], self.cases[label].ends.end[self.text :].to(points.dtype)])

    @property
    def pathway(self) -> tuple[Any, ...]:
        """Equal where the same labels are read at the same two ends, whichever of them is asked about."""
        ends = (
            rows.float().cpu().numpy().tobytes() for each in self.cases for rows in (each.ends.start, each.ends.end)
        )
        return self.labels, self.alone, *ends

    @property
    def text(self) -> int:
        """How many tokens stand before the hypothesis."""
        return max(i for i, segment in enumerate(self.cases[self.asked].segments) if segment == 0) + 1


@dataclass(frozen=True, eq=False)
class Posed(Tokens):
    """A text with one hypothesis, and what is asked of it."""

    candidates: Candidates | None = None


@dataclass(frozen=True)
class ReadEntailment:
    """Logits → entailment's; as a probability against contradiction alone, as the pipeline does for a label by itself."""

    score: str
    entails: int
    contradicts: int

    def __call__(self, output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        both = output[:, [self.contradicts, self.entails]]
        return form(both, torch.ones(len(both), dtype=torch.long, device=both.device), self.score)


@dataclass(frozen=True)
class ReadShare:
    """Logits of every label's hypothesis → one label's share among the labels, as the pipeline does by default."""

    score: str
    entails: int
    count: int  # of labels: only texts with as many share a batch

    def __call__(self, output: Float[Tensor, "B K C"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        asked = torch.tensor([case.target.asked for case in cases], device=output.device)
        return form(output[..., self.entails], asked, self.score, False)


class ZeroShot(Classifier):
    """A `zero-shot-classification` pipeline. Target: the label, in words (default: the likeliest of the candidates).

    Its hypothesis is held along the path. Probabilities are the pipeline's: among several labels a softmax of what each
    entails, unless `multi_label`; of one label alone entailment against contradiction.
    """

    kind = "zero-shot classification"
    options = HypothesisOptions
    places_vector = True  # the label is part of the input
    defaults = HypothesisOptions()  # what the pipeline was told

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        super().__init__(module, tokenizer, name=name)
        labels = labels_of(module, int(getattr(module.config, "num_labels", 0)))
        self.entails = next((i for i, label in labels.items() if label.lower().startswith("entail")), -1)
        if self.entails < 0:
            raise ModelError(
                f"zero-shot classification needs a model with a label 'entailment'; this one has {', '.join(labels.values())}"
            )
        self.contradicts = len(labels) - 1 if self.entails == 0 else 0  # as the pipeline takes it

    @classmethod
    def piped(cls, pipeline: Any) -> ZeroShot:
        """With the labels, the sentence and the mode the pipeline was made with."""
        made = cls(pipeline.model, pipeline.tokenizer)
        count = int(pipeline.model.config.num_labels)
        if getattr(pipeline, "entailment_id", made.entails) % count != made.entails:
            raise ModelError(
                f"this pipeline reads entailment at {pipeline.entailment_id} (config.label2id), and config.id2label has it at "
                f"{made.entails}: set label2id so that both say the same"
            )
        before, after = (getattr(pipeline, f"_{when}_params", {}) for when in ("preprocess", "postprocess"))
        hypothesis, labels = before.get("hypothesis_template"), before.get("candidate_labels")
        made.defaults = HypothesisOptions(
            hypothesis=hypothesis, candidate_labels=labels, multi_label=after.get("multi_label")
        )
        return made

    def _asked(self, request: Request) -> tuple[str, tuple[str, ...], bool]:
        """Sentence, candidate labels, and whether each stands alone; what is not given is the pipeline's."""
        given = request.options_of(HypothesisOptions)
        template = given.hypothesis or self.defaults.hypothesis or TEMPLATE
        listed = given.candidate_labels or self.defaults.candidate_labels
        alone_asked = () if request.target is None else (str(request.target),)
        labels = alone_asked if listed is None else labels_in(listed)
        alone = self.defaults.multi_label if given.multi_label is None else given.multi_label
        return template, labels, bool(alone) or len(labels) == 1

    def every_target(self, options: ModelOptions) -> tuple[Any, ...]:
        """Every candidate label, unless one of them is called "all" itself."""
        given = options if isinstance(options, HypothesisOptions) else self.defaults
        chosen = given.candidate_labels or self.defaults.candidate_labels
        if chosen is None:
            raise InputError(
                f"{setting(target='all')} asks for every candidate label, and there is none: give them as candidate_labels=['sports', …]"
            )
        labels = labels_in(chosen)
        return () if "all" in labels else labels

    def draft(self, text: Any, text_b: Any, request: Request) -> Draft:
        _, labels, alone = self._asked(request)
        if request.target is None and labels:
            likeliest = labels[0] if len(labels) == 1 else self._likeliest(text, labels, alone, request)
            request = replace(request, target=likeliest)
        draft = super().draft(text, text_b, request)
        if callable(request.target) or request.vector:
            return draft
        plain = replace(request, layer=None)
        cases = tuple(super(ZeroShot, self).draft(text, None, replace(plain, target=each)).case for each in labels)
        probable = request.score in ("prob", "logprob")
        candidates = Candidates(labels, cases, labels.index(str(request.target)), alone, probable)
        if candidates.together and draft.layer:
            raise InputError(
                f"the share of one label among several is read from every hypothesis at once, at {setting(layer=0)}; got {setting(layer=draft.layer)}. "
                f"Ask for {setting(score='logit')}, or multi_label=True"
            )
        return replace(draft, tokens=Posed(**vars(draft.tokens), candidates=candidates))

    @torch.no_grad()
    def _likeliest(self, text: Any, labels: Sequence[str], alone: bool, request: Request) -> str:
        drafts = [super(ZeroShot, self).draft(text, None, replace(request, target=each, layer=None)) for each in labels]
        logits = torch.cat([self.output_at(each.case) for each in drafts])
        return labels[int(self._shares(logits, alone).argmax())]

    def _shares(self, logits: Float[Tensor, "K C"], alone: bool) -> Float[Tensor, " K"]:
        """Of every label's hypothesis → what the pipeline prints."""
        if alone:
            return logits[:, [self.contradicts, self.entails]].double().softmax(-1)[:, 1]
        return logits[:, self.entails].double().softmax(-1)

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        template, labels, _ = self._asked(request)
        if text_b is not None or not isinstance(request.target, str) or not request.target.strip():
            raise InputError(
                f"zero-shot classification takes one text and the label in words: {setting(target='sports')} (and "
                "candidate_labels=['sports', 'politics'] for its share among several)"
            )
        if request.target not in labels:
            raise InputError(
                f"{setting(target=request.target)} is not one of the candidate labels: {', '.join(labels)}"
            )
        hypothesis = template.format(request.target)
        pair = super().tokenise(text, hypothesis, request)
        held = pair.holding([segment != 0 for segment in pair.segments])
        return replace(held.noted(f"the hypothesis {hypothesis!r} is part of the input and held"), texts=(text,))

    def target(self, tokens: Tokens, output: Float[Tensor, "..."], request: Request) -> Target:
        if request.vector:
            return super().target(tokens, output, request)
        assert isinstance(tokens, Posed) and tokens.candidates is not None
        posed, score = tokens.candidates, request.score or "logit"
        label = posed.labels[posed.asked]
        read: Any = ReadEntailment(score, self.entails, self.contradicts)
        if posed.together:
            read = ReadShare(score, self.entails, len(posed.labels))
        return Target(f"{label} ({score})", read, posed, again=label, score=score)

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Any:
        """Logits (B, C); where labels are read together, of every label's hypothesis (B, K, C)."""
        posed = [case.target for case in cases]
        if not (isinstance(posed[0], Candidates) and posed[0].together):
            return super().forward(points, cases, layer)
        every = []
        for label in range(len(posed[0].labels)):
            rows = [each.tail(row[: len(case)], label) for row, each, case in zip(points, posed, cases, strict=True)]
            every.append(super().forward(pad_sequence(rows, batch_first=True), [p.cases[label] for p in posed], 0))
        return torch.stack(every, dim=1)

    def plain_output(self, draft: Case) -> Any:
        if not (isinstance(draft.target, Candidates) and draft.target.together):
            return super().plain_output(draft)
        return torch.stack([super(ZeroShot, self).plain_output(each) for each in draft.target.cases], dim=1)

    def reworded(self, draft: Case, ids: Int[Tensor, " S"]) -> Case:
        """Before every hypothesis that is read."""
        draft, posed, again = super().reworded(draft, ids), draft.target, super().reworded
        if not (isinstance(posed, Candidates) and posed.together):
            return draft
        tails = [each.context["input_ids"][posed.text :] for each in posed.cases]
        rows = [torch.cat([ids[: posed.text], tail]) for tail in tails]
        cases = tuple(again(each, row) for each, row in zip(posed.cases, rows, strict=True))
        return replace(draft, target=replace(posed, cases=cases))

    @torch.no_grad()
    def says(self, cases: Sequence[Case]) -> list[Probabilities | None]:
        """What the pipeline prints: of every candidate label, at the text and at the baseline.

        Cases of one text that ask about one label each of the same ones are answered once.
        """
        asked = [case.target if isinstance(case.target, Candidates) else None for case in cases]
        once = {each.pathway: each for each in asked if each is not None}
        answers = {pathway: self._of_labels(each) for pathway, each in once.items()}
        return [None if each is None else answers[each.pathway] for each in asked]

    def _of_labels(self, posed: Candidates) -> Probabilities:
        ends = [self._each(posed, points(posed.cases)) for points in (texts_of, starts_of)]
        text, start = (dict(zip(posed.labels, shares.tolist(), strict=True)) for shares in ends)
        return Probabilities(text, start, targets={label: label for label in posed.labels})

    def _each(self, posed: Candidates, points: Float[Tensor, "K S d"]) -> Float[Tensor, " K"]:
        rows = zip(points, posed.cases, strict=True)
        logits = torch.cat([super(ZeroShot, self).forward(row[None, : len(case)], [case], 0) for row, case in rows])
        return self._shares(logits, posed.alone)
