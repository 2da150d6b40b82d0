"""Models with a head: which class has this text (or pair), which tag this token, which span is the answer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pathlens.checks import plain_number
from pathlens.errors import InputError, ModelError, or_error
from pathlens.text import baseline as baselines
from pathlens.text.adapter import (
    Case,
    Probabilities,
    Request,
    Wanted,
    in_batches,
    index_of,
    starts_of,
    texts_of,
    within,
)
from pathlens.text.language import Draft, LanguageModel, Score, Target, choose_label, form, labels_of, widened
from pathlens.text.network import Forward, Network, evaluation_mode, replaced_forwards, text_config
from pathlens.text.options import ModelOptions
from pathlens.text.tokens import Tokens
from pathlens.types import About

LENGTHS = 4096  # kinds of baselines kept


@dataclass(frozen=True)
class ReadClass:
    """Logits → the class each row asks for."""

    score: str
    each: bool | None = None  # labels do not exclude each other; None: they do, where there are several

    def __call__(self, output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        return form(output, index_of(cases, output.device), self.score, self.each)


@dataclass(frozen=True)
class ReadClasses:
    """Logits → several classes of each row."""

    one: ReadClass

    def __call__(self, output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, "B T 1"]:
        wanted = index_of(cases, output.device).T
        return torch.stack([form(output, index, self.one.score, self.one.each) for index in wanted], 1)[..., None]


def read_all(output: Float[Tensor, "B C"], cases: Sequence[Case]) -> Float[Tensor, "B 1 C"]:
    """All logits as one vector."""
    return output[:, None]


class Headed(LanguageModel):
    """A model whose head decides what is explained: many texts are read in shared batches, not one after the other."""

    default_method = "secant"  # docs/secants.md: nowhere less faithful than integrals, and about a fifth of their time

    def cases(self, wanted: Sequence[Wanted]) -> list[Case | Exception]:
        """Together, unless padding changes this model's output, which the first two lengths show.

        Those are read once more then: what a text's numbers are must not hang on what was read before it.
        """
        if len(wanted) == 1 or any(request.block is not None for *_, request in wanted):
            return super().cases(wanted)
        for each in wanted:
            if self.packs is not None:
                break
            super().cases([each])
        if self.packs is False:
            return super().cases(wanted)
        drafts = [or_error(self.draft, *each) for each in wanted]
        asked = [each.case for each in drafts if isinstance(each, Draft) and self.predicts(each.request)]
        outputs = self._outputs(asked)
        return [
            each if isinstance(each, Exception) else or_error(self._with_output, each, outputs.get(id(each.case)))
            for each in drafts
        ]

    def _with_output(self, draft: Draft, output: Any) -> Case:
        if isinstance(output, Exception):
            raise output
        return self.finished(draft, output if output is None else self.checked(output))

    @torch.no_grad()
    def says(self, cases: Sequence[Case]) -> list[Probabilities | None]:
        """At the place that is asked about; baselines that several targets or texts share run once."""
        known = [case for case in cases if isinstance(case.score, Score) and self.chooses(case)]
        once = {_start_of(case): case for case in known}
        layer = max((case.score.layer for case in known if isinstance(case.score, Score)), default=0)  # one in a call
        starts: dict[Any, Any] = {}
        for some in [[case] for case in once.values()] if self.packs is False else in_batches([*once.values()]):
            output = self.plain_forward(starts_of(some), some, layer)
            starts |= {_start_of(case): self._row(output, row, case) for row, case in enumerate(some)}
        at = {id(case): self.chosen_from(case, case.output, starts[_start_of(case)]) for case in known}
        return [at.get(id(case)) for case in cases]

    def chooses(self, case: Case) -> bool:
        """Does the target ask about one place, where the model chooses among tags or spans?"""
        return False

    def chosen_from(self, case: Case, text: Any, start: Any) -> Probabilities:
        """What it chooses there, from its outputs at the text and at the baseline, one row each."""
        raise NotImplementedError

    def _row(self, output: Any, row: int, case: Case) -> Any:
        """Of a batch of outputs one text's, as long as that is."""
        parts = output if isinstance(output, tuple) else (output,)
        rows = tuple(p[row : row + 1, : len(case)] if self.token_axis else p[row : row + 1] for p in parts)
        return rows if isinstance(output, tuple) else rows[0]

    def _outputs(self, cases: Sequence[Case]) -> dict[int, Any]:
        """The model's output for each text, one row of its own length."""
        outputs: dict[int, Any] = {}
        for some in in_batches(cases):
            output = or_error(self.plain_forward, texts_of(some), some, 0)
            if isinstance(output, Exception):  # find the one that fails: each text alone
                outputs |= {id(case): or_error(self.output_at, case) for case in some}
                continue
            outputs |= {id(case): self._row(output, row, case) for row, case in enumerate(some)}
        return outputs


class Classifier(Headed):
    """`AutoModelForSequenceClassification` and kin.

    A decoder reads its answer at its last token. One that knows no padding takes no batches: its body runs alone, and
    the head is applied here to the token it would have found. The logits are the same.
    """

    kind = "sequence classification"
    function: str | None = (
        None  # what makes probabilities of logits, where a pipeline or a regression says it: sigmoid, softmax, none
    )
    bare = (  # why there are no probabilities where it is none, and what to do
        "this model or its pipeline gives logits as they are (function_to_apply='none', or config.problem_type='regression')",
        "pass a pipeline with function_to_apply='sigmoid' or 'softmax'",
    )

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        self.decoder = isinstance(getattr(module, "score", None), nn.Module) and hasattr(module, "base_model")
        self.headless = self.decoder and getattr(text_config(module), "pad_token_id", None) is None
        self.other_baselines: tuple[Any, dict[Any, dict[str, dict[str, float]]]] = (None, {})
        self.first_layers: tuple[Any, list[nn.Linear]] = (None, [])
        if getattr(module.config, "problem_type", None) == "regression":  # quantities: no shares of classes
            self.function = "none"
        super().__init__(module, tokenizer, name=name)

    def body(self) -> nn.Module:
        body: nn.Module = getattr(self.module, "base_model", self.module)
        return body if self.headless else self.module

    def own_output(self, raw: Any, draft: Case) -> Float[Tensor, "..."]:
        logits: Tensor = raw.logits
        return logits

    def read_first(self) -> list[nn.Linear]:
        """Layers whose results are read at the first token alone ([CLS]); a decoder reads its last.

        Kept for as long as the parts of the model and its settings are what they were.
        """
        if self.decoder:
            return []
        state = _pooling_state(self.network)
        if state != self.first_layers[0]:
            self.first_layers = state, linears_of_the_first_token(self.network)
        return self.first_layers[1]

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Any:
        again = self.network.runs_again  # then blocks run a second time in the reverse pass, as they are there
        with replaced_forwards([] if again else self.read_first(), _for_the_first_token):
            return super().forward(points, cases, layer)

    def output(self, raw: Any, cases: Sequence[Case]) -> Float[Tensor, "..."]:
        logits: Tensor
        if self.headless:
            hidden, head = raw.last_hidden_state, self.module.get_submodule("score")
            last = torch.tensor([case.meta.get("read_at", len(case) - 1) for case in cases], device=hidden.device)
            logits = head(hidden[torch.arange(len(cases), device=hidden.device), last])
        else:
            logits = raw.logits
        return logits

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        """A decoder reads its answer at the last token that is not padding, also where the text ends in that token."""
        tokens = super().tokenise(text, text_b, request)
        pad = getattr(self.module.config, "pad_token_id", None)
        read_at = max((i for i, token in enumerate(tokens.ids) if token != pad), default=len(tokens) - 1)
        if not self.decoder or read_at == len(tokens) - 1:
            return tokens
        note = f"the model reads its answer at token {read_at}: what follows is its padding token"
        return tokens.noted(note, read_at=read_at)

    def target(self, tokens: Tokens, output: Float[Tensor, "..."], request: Request) -> Target:
        if output.ndim != 2:
            raise ModelError(f"expected one row of logits per text, the model gave shape {tuple(output.shape)}")
        labels = labels_of(self.module, output.shape[1])
        if request.vector:
            return Target("all logits", read_all, outputs=("logits",))
        index = choose_label(request.target, labels, int(output[0].argmax()))
        score = request.score or "logit"
        named = len(labels) > 1 or request.target is not None
        name = f"{labels[index] if named else 'score'} ({score})"
        if score not in self.scores:
            reason, remedy = self.bare
            raise InputError(f"{reason}, so it has no {score}; ask for score='logit', or {remedy}")
        return Target(name, ReadClass(score, self.each), index, again=index if named else None, score=score)

    @property
    def each(self) -> bool | None:
        """Do labels not exclude each other? None: they do, where there are several."""
        if self.function is not None:
            return self.function == "sigmoid"
        return getattr(self.module.config, "problem_type", None) == "multi_label_classification" or None

    @property
    def scores(self) -> tuple[str, ...]:
        return ("logit",) if self.function == "none" else super().scores

    def settings(self) -> tuple[str | int | float, ...]:
        return super().settings() if self.function is None else (*super().settings(), self.function)

    def every_target(self, options: ModelOptions) -> tuple[Any, ...]:
        named = self.kind == "sequence classification" and "all" not in (label.lower() for label in self.labels)
        return tuple(range(len(self.labels))) if named else ()

    def retargeted(self, case: Case, request: Request) -> Case | None:
        """In half precision a case also says how far its own output drifts: that is measured anew."""
        known = _reads_class(case) is not None and case.output is not None and "drift" not in case.meta
        if not known or request.target is None or callable(request.target):
            return None
        labels = labels_of(self.module, case.output.shape[1])
        index = choose_label(request.target, labels, int(case.output[0].argmax()))
        name = f"{labels[index]} ({request.score or 'logit'})"
        return replace(case, target=index, target_name=name, chosen=replace(case.chosen, target=index))

    def together(self, cases: Sequence[Case]) -> Case | None:
        read = _reads_class(cases[0])
        if read is None or any(case.pack != cases[0].pack for case in cases):
            return None
        score = replace(cases[0].score, read=ReadClasses(read))  # type: ignore[type-var]
        targets, names = (tuple(getattr(case, name) for case in cases) for name in ("target", "target_name"))
        return replace(cases[0], score=score, pack=(score, None), target=targets, outputs=names)

    def output_of(self, draft: Draft) -> Float[Tensor, "rows C"]:
        """With a second row at the baseline, which `says` asks for next: a single short text's two rows cost what one does."""
        if draft.layer or self.packs is False:
            known: Float[Tensor, "rows C"] = super().output_of(draft)
            return known
        ends = draft.case.ends
        with self.in_our_words():
            both = torch.stack([ends.end, ends.start])
            output: Float[Tensor, "rows C"] = self.plain_forward(both, [draft.case] * 2, 0)
        self.checked(output[:1])  # a baseline that is not a number is told as one
        return output

    def says(self, cases: Sequence[Case]) -> list[Probabilities | None]:
        """At the text as it was read; baselines that several texts share (as many tokens, the same ones held) run once."""
        known = [case for case in cases if isinstance(case.score, Score) and case.output is not None]
        starts = {_start_of(case): self._probabilities(case.output[1]) for case in known if len(case.output) > 1}
        alike = {_start_of(case): case for case in known if _start_of(case) not in starts}
        layer = max((case.score.layer for case in known if isinstance(case.score, Score)), default=0)  # one in a call
        for some in [[case] for case in alike.values()] if self.packs is False else in_batches([*alike.values()]):
            output = self.plain_forward(starts_of(some), some, layer)
            starts |= {_start_of(case): self._probabilities(row) for case, row in zip(some, output, strict=True)}
        some_classes = self.function != "none"  # logits as they are say nothing of classes, and one alone is a score
        classes = [some_classes and case in known and case.output.shape[1] > 1 for case in cases]
        both = zip(cases, classes, strict=True)
        self._forget_other_baselines()
        return [self._both_ends(case, starts[_start_of(case)]) if named else None for case, named in both]

    def _forget_other_baselines(self) -> None:
        """Where the weights are others by now."""
        weights = [(each.data_ptr(), each._version) for each in self.module.parameters() if not each.is_inference()]
        if self.other_baselines[0] != weights or len(self.other_baselines[1]) > LENGTHS:
            self.other_baselines = weights, {}

    def _both_ends(self, case: Case, start: dict[str, float]) -> Probabilities:
        text = self._probabilities(case.output[0])
        same = max(text, key=text.__getitem__) == max(start, key=start.__getitem__)
        targets = {name: i for i, name in labels_of(self.module, case.output.shape[1]).items()}
        return Probabilities(text, start, self._elsewhere(case) if same else {}, targets=targets)

    def _elsewhere(self, case: Case) -> dict[str, dict[str, float]]:
        """What the model says at its other baselines: one batch for each length of text, kept as long as the weights are."""
        ids, held = case.context["input_ids"], torch.tensor(case.special, device=self.network.device)
        key = (case.segments, tuple(ids[held].tolist()))
        if key not in self.other_baselines[1]:
            names = baselines.own_names(self.tokenizer)
            starts = [baselines.named_rows(n, ids.cpu(), held, self.network, self.tokenizer).rows for n in names]
            points = torch.stack(starts)
            some = points.split(1 if self.packs is False else len(names))
            output = torch.cat([self.plain_forward(rows, [case] * len(rows), 0) for rows in some])
            known = [(name, row) for name, row in zip(names, output, strict=True) if torch.isfinite(row).all()]
            self.other_baselines[1][key] = {name: self._probabilities(row) for name, row in known}
        return {name: shares for name, shares in self.other_baselines[1][key].items() if name != case.chosen.baseline}

    def _probabilities(self, logits: Float[Tensor, " C"]) -> dict[str, float]:
        shares = logits.double().sigmoid() if self.each else logits.double().softmax(-1)
        return {name: float(shares[i]) for i, name in labels_of(self.module, len(shares)).items()}


def _reads_class(case: Case) -> ReadClass | None:
    """How a case reads its class from the logits, where that is all it does."""
    return case.score.read if isinstance(case.score, Score) and isinstance(case.score.read, ReadClass) else None


def _start_of(case: Case) -> tuple[Any, ...]:
    """Equal where two texts begin their paths alike."""
    return case.segments, case.ends.start.float().cpu().numpy().tobytes()


# ---- a classifier that reads [CLS] alone
#
# Its last block need not be computed for the other tokens: their keys and values are needed, but queries, the attention's
# output and the feed-forward part count at the first token only. That is five sixths of the last block, a seventh of a
# model with six, in every pass forward and back.
#
# One pass shows where a head read these ids, and no more: a head of a user's own may look for a place in every text (a mark
# among the ids, the largest state). Those of the libraries do not, so the shortcut is theirs.

ROWS, TOKENS = 2, 5  # of the pass that finds out
LIBRARIES = ("pathlens", "peft", "torch", "transformers")


def _around_the_end(network: Network) -> list[nn.Module]:
    """All parts but the blocks below the last one: what a text's answer is read by, and what is changed after the fact."""
    below, left, parts = {*network.blocks[:-1]}, [network.module], list[nn.Module]()
    while left:
        part = left.pop()
        if part not in below:
            parts.append(part)
            left += filter(None, part._modules.values())
    return parts


def _pooling_state(network: Network) -> tuple[Any, ...]:
    """Equal as long as nothing was put in another's place, hooked in, or set to pool otherwise."""
    settings = vars(getattr(network.module, "config", None) or object)
    pooling = [(name, str(value)) for name, value in settings.items() if "pool" in name or "summary" in name]
    return (pooling, [(part, _hooked(part)) for part in _around_the_end(network)])


def _hooked(part: nn.Module) -> list[Any]:
    """What a user hooked into it; hooks of the libraries watch."""
    hooks = (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    return [hook for hook in hooks if getattr(hook, "__module__", "").split(".")[0] not in LIBRARIES]


def _of_libraries(part: nn.Module) -> bool:
    """Does it run as its library wrote it? (accelerate's forward only brings its weights)"""
    replaced = "forward" in vars(part) and not hasattr(part, "_hf_hook")
    return type(part).__module__.split(".")[0] in LIBRARIES and not replaced and not _hooked(part)


def linears_of_the_first_token(network: Network) -> list[nn.Linear]:
    """Linear layers of the last block whose results matter at the first token alone.

    Found by a gradient, for any architecture of the libraries: that of the output by the layer's result is exactly zero at
    every other token, and not at the first.
    """
    if not network.blocks or len(network.blocks) != network.depth:
        return []
    if not all(map(_of_libraries, _around_the_end(network))):
        return []
    linears = [part for part in network.blocks[-1].modules() if type(part) is nn.Linear]
    results: dict[nn.Linear, list[Tensor]] = {part: [] for part in linears}
    hooks = [part.register_forward_hook(lambda part, _, result: results[part].append(result)) for part in linears]
    ids = torch.arange(ROWS * TOKENS).reshape(ROWS, TOKENS) % network.embedding.weight.shape[0]
    mask = torch.ones(ROWS, TOKENS, dtype=torch.long, device=network.device)
    try:
        with torch.inference_mode(False), torch.enable_grad(), evaluation_mode(network.whole):
            points = network.embed(ids).clone().requires_grad_()
            value = network.call(points, {"input_ids": ids.to(points.device), "attention_mask": mask}).logits
            weight = torch.linspace(1.0, 2.0, value.numel(), device=value.device, dtype=value.dtype)
            once = [part for part in linears if len(results[part]) == 1 and results[part][0].shape[:-1] == ids.shape]
            if not once:
                return []
            total = (value.flatten() * weight).sum()
            slopes = torch.autograd.grad(total, [results[part][0] for part in once], allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    known = [(part, slope) for part, slope in zip(once, slopes, strict=True) if slope is not None]
    return [part for part, slope in known if bool(slope[:, 0].any()) and not bool(slope[:, 1:].any())]


def _for_the_first_token(original: Forward, states: Float[Tensor, "B S d"]) -> Float[Tensor, "B S k"]:
    """Zeros for the others, which nobody reads."""
    return nn.functional.pad(original(states[:, :1]), (0, 0, 0, states.shape[1] - 1))


# ---- answers at tokens


@dataclass(frozen=True)
class ReadTag:
    """Logits → the tag at the token each row asks for; target = (token, label)."""

    score: str

    def __call__(self, output: Float[Tensor, "B S C"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        token, label = index_of(cases, output.device).T
        return form(output[torch.arange(len(cases), device=output.device), token], label, self.score)


def read_tags(output: Float[Tensor, "B S C"], cases: Sequence[Case]) -> Float[Tensor, "B S C"]:
    """Logits as they are: one vector per token."""
    return output


def at_token(case: Case, place: int, name: str, **more: Any) -> About:
    """What is read at one token of a text."""
    return About(name, end=max(end for _, end in case.offsets[: place + 1]), **more)


class Tagger(Headed):
    """`AutoModelForTokenClassification`. Target: (token index, label); default: the surest tag that is not O."""

    kind = "token classification"
    token_axis = True

    def target(self, tokens: Tokens, output: Float[Tensor, "1 S C"], request: Request) -> Target:
        labels = labels_of(self.module, output.shape[-1])
        if request.vector:
            return Target("all tags", read_tags, outputs=tokens.tokens)
        sure = output[0].double().log_softmax(-1)  # probabilities of sure tags round to 1 and would tie
        place, wanted = self._place(tokens, sure, labels, request.target)
        label = choose_label(wanted, labels, int(sure[place].argmax()), "the target's label")
        score = request.score or "logit"
        name = f"{labels[label]} at token {place} {tokens.tokens[place]!r} ({score})"
        return Target(name, ReadTag(score), (place, label), again=(place, label), score=score)

    def chooses(self, case: Case) -> bool:
        return isinstance(case.score, Score) and isinstance(case.score.read, ReadTag)

    def chosen_from(self, case: Case, text: Float[Tensor, "1 S C"], start: Float[Tensor, "1 S C"]) -> Probabilities:
        place, _ = case.target
        names = labels_of(self.module, text.shape[-1])
        ends = [output[0, place].double().softmax(-1).tolist() for output in (text, start)]
        here, there = ({name: shares[i] for i, name in names.items()} for shares in ends)
        targets = {name: (place, i) for i, name in names.items()}
        return Probabilities(here, there, about=at_token(case, place, f"token '{case.tokens[place]}'"), targets=targets)

    def _place(
        self, tokens: Tokens, sure: Float[Tensor, "S C"], labels: dict[int, str], wanted: Any
    ) -> tuple[int, Any]:
        if wanted is None:
            tagged = sure.clone()
            tagged[[i for i, s in enumerate(tokens.segments) if s < 0]] = -torch.inf
            tagged[:, [i for i, name in labels.items() if name == "O"]] = -torch.inf
            best = int(tagged.argmax())
            return best // len(labels), best % len(labels)
        wanted = tuple(map(plain_number, wanted)) if isinstance(wanted, tuple | list) else plain_number(wanted)
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            wanted = (wanted, None)
        if not (isinstance(wanted, tuple | list) and len(wanted) == 2 and isinstance(wanted[0], int)):
            raise InputError(f"target of a tagger is (token index, label), got {wanted!r}").plainly(
                f"“{wanted}” is no place. Give the number of a token, counted from 0.", "target"
            )
        if not 0 <= wanted[0] < len(tokens):
            raise InputError(
                f"target={tuple(wanted)!r}: token index {wanted[0]} is out of range; the text has {len(tokens)} tokens: "
                + ", ".join(f"{i} {t!r}" for i, t in enumerate(tokens.tokens[:40]))
            ).plainly(f"There is no token {wanted[0]}: the text has {len(tokens)}, counted from 0.", "target")
        return wanted[0], wanted[1]


Logits = tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]  # of the start and of the end of an answer
LONGEST_ANSWER = 64  # tokens; the usual limit when the best span is sought


@dataclass(frozen=True)
class ReadSpan:
    """Logits of the start and of the end → start, end, or their sum at the span each row asks for."""

    which: str
    score: str

    def __call__(self, output: Logits, cases: Sequence[Case]) -> Float[Tensor, " B"]:
        sides = zip(("start", "end"), output, index_of(cases, output[0].device).T, strict=True)
        parts = [self._read(logits, place, cases) for name, logits, place in sides if self.which in (name, "span")]
        total = torch.stack(parts).sum(0)
        return total.exp() if self.score == "prob" else total

    def _read(
        self, logits: Float[Tensor, "B S"], index: Int[Tensor, " B"], cases: Sequence[Case]
    ) -> Float[Tensor, " B"]:
        rows = torch.arange(len(index), device=logits.device)
        if self.score == "logit":
            return logits[rows, index]
        real = widened(logits).masked_fill(~within(cases, logits), -torch.inf)  # padding is no answer
        return torch.log_softmax(real, dim=-1)[rows, index]


def read_both(output: Logits, cases: Sequence[Case]) -> Float[Tensor, "B 2 S"]:
    """Logits of the start and of the end: two vectors."""
    return torch.stack(output, dim=1)


class Answerer(Headed):
    """`AutoModelForQuestionAnswering`: text = question, text_b = passage.

    Target: "span" (default, the sum of both logits at the predicted span), "start" or "end".
    """

    kind = "question answering"
    token_axis = True

    def output(self, raw: Any, cases: Sequence[Case]) -> Logits:
        if not isinstance(getattr(raw, "start_logits", None), Tensor):
            raise ModelError(
                f"{type(self.module).__name__} gives no logits of an answer's start and end for every token"
            )
        return raw.start_logits, raw.end_logits

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        if text_b is None:
            raise InputError("question answering needs two texts: explain(model, question, passage)")
        return super().tokenise(text, text_b, request)

    def target(self, tokens: Tokens, output: Logits, request: Request) -> Target:
        if request.vector:
            return Target("start and end logits", read_both, outputs=("start", "end"))
        which = "span" if request.target is None else request.target
        if which not in ("start", "end", "span"):
            raise InputError(f'target of question answering is "start", "end" or "span", got {which!r}')
        start, end = best_span(output[0][0], output[1][0], tokens.segments)
        first, last = tokens.offsets[start][0], tokens.offsets[end][1]
        score = request.score or "logit"
        name = f"{which} of the answer {tokens.texts[1][first:last]!r} ({score})"
        return Target(name, ReadSpan(which, score), (start, end), again=which, score=score)

    def chooses(self, case: Case) -> bool:
        return isinstance(case.score, Score) and isinstance(case.score.read, ReadSpan)

    def chosen_from(self, case: Case, text: Logits, start: Logits) -> Probabilities:
        """The likeliest answers; of those with the same words, the likelier place."""
        inside = torch.tensor([segment == 1 for segment in case.segments], device=text[0].device)
        first = torch.tensor(
            -1 if self.tokenizer.cls_token_id is None else self.tokenizer.cls_token_id, device=inside.device
        )
        readable = inside | (case.context["input_ids"].to(inside.device) == first)
        ends = [shares_of_spans(logits, inside, readable) for logits in (text, start)]
        most = min(int((ends[0] > 0).sum()), 4 * SPANS)
        spans: dict[str, tuple[int, int]] = {}
        for a, b in (case.target, *(divmod(int(i), len(inside)) for i in ends[0].flatten().topk(most).indices)):
            spans.setdefault(case.texts[1][case.offsets[a][0] : case.offsets[b][1]], (a, b))
        here, there = ({name: float(shares[span]) for name, span in [*spans.items()][:SPANS]} for shares in ends)
        return Probabilities(here, there, about=About(words=True, asked=next(iter(spans))))


SPANS = 5  # answers whose probabilities are kept


def shares_of_spans(logits: Logits, inside: Bool[Tensor, " S"], readable: Bool[Tensor, " S"]) -> Float[Tensor, "S S"]:
    """P(start) × P(end) of every span, as the usual pipeline has it: each a softmax over the passage and [CLS]."""
    start, end = (each[0].double().masked_fill(~readable, -torch.inf).softmax(-1) for each in logits)
    return (start[:, None] * end[None, :]).masked_fill(~_spans(inside), 0.0)


def _spans(inside: Bool[Tensor, " S"]) -> Bool[Tensor, "S S"]:
    """Which starts and ends make a span of the passage, start before end."""
    place = torch.arange(len(inside), device=inside.device)
    ahead = place[None, :] - place[:, None]
    return inside[:, None] & inside[None, :] & (ahead >= 0) & (ahead < LONGEST_ANSWER)


def best_span(start: Float[Tensor, " S"], end: Float[Tensor, " S"], segments: Sequence[int]) -> tuple[int, int]:
    """The span of the passage with the largest sum of logits, start before end."""
    inside = torch.tensor([segment == 1 for segment in segments], device=start.device)
    if not inside.any():
        raise InputError("no token of the passage is left after truncation; shorten the question or split the passage")
    sums = widened(start)[:, None] + widened(end)[None, :]
    best = int(sums.masked_fill(~_spans(inside), -torch.inf).argmax())
    return best // len(segments), best % len(segments)
