"""What all Hugging Face text models share: from a text to both ends of a path and a score between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from pathlens.checks import did_you_mean, plain_number
from pathlens.errors import InputError, ModelError, NumberError, PathlensError, first_line, setting
from pathlens.integrand.batch import out_of_memory
from pathlens.integrand.products import kept_products
from pathlens.text import baseline as baselines
from pathlens.text.adapter import Case, Chosen, Request, Scores, TextModel, collate
from pathlens.text.baseline import Baseline
from pathlens.text.block import block_case
from pathlens.text.chat import Chat, Prompt, chat_tokens
from pathlens.text.fingerprint import table_fingerprint
from pathlens.text.network import Network, accepted, check_layer, check_weights, named, refuse_unfit, unaltered
from pathlens.text.own_output import KnownOutput, compared
from pathlens.text.tokens import Tokens, check_belongs, check_ids, length_limit, tokenise
from pathlens.types import SCORES, Ends, Vocabulary

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Target:
    """What is explained: its name, how it is read from the model's output, and what that needs of this text."""

    name: str
    read: Callable[[Any, Sequence[Case]], Scores]  # equal readers may share a batch
    value: Any = None
    outputs: tuple[str, ...] = ()
    again: int | str | tuple[Any, ...] | None = None  # the target to ask for, to have this one
    score: str = ""  # where it is one of SCORES


@dataclass(frozen=True)
class Score:
    """points (B, S, d) → numbers (B,) or vectors (B, out, k), through the model from a layer upwards."""

    model: LanguageModel
    layer: int
    read: Callable[[Any, Sequence[Case]], Scores]

    def __call__(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Scores:
        return self.read(self.output(points, cases), cases)

    def output(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Any:
        """What is read."""
        return self.model.forward(points, cases, self.layer)

    def lean(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Scores:
        """The same, keeping less for the reverse pass; where no blocks are known, just the same."""
        with self.model.network.checkpointing():
            return self(points, cases)

    def check(self, case: Case) -> None:
        """An error that says why, where the model's output at the text itself is NaN."""
        self.model.output_at(case, self.layer)


@dataclass(frozen=True, eq=False)
class Draft:
    """A text read, its target not yet known."""

    case: Case  # from the word embeddings
    tokens: Tokens
    request: Request
    ends: Ends  # at the layer asked for
    layer: int

    @property
    def context(self) -> dict[str, Shaped[Tensor, "1 S ..."]]:
        return {name: value[None] for name, value in self.case.context.items()}


class LanguageModel(TextModel):
    """A Hugging Face model and its tokenizer. Subclasses say what the output is and which target is meant."""

    decoder = False
    cut_at: int | None = None  # a pipeline cuts longer texts to so many tokens, and says nothing
    witness: Callable[..., Sequence[int]] | None = None  # a pipeline's own ids of a text, or of two
    token_axis = False  # has the output one entry per token? Then whole outputs are not padded to another text's length

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        if tokenizer is None:
            raise ModelError("a text model needs its tokenizer: pass (model, tokenizer)")
        refuse_unfit(module)
        self.module = self.user = module  # `user`: as it was given, where `module` is what a wrapper is around
        self.tokenizer = tokenizer
        self.enter()
        self.name = name or str(getattr(module, "name_or_path", "") or type(module).__name__)
        self.doubts = check_belongs(tokenizer, module, self.network.embedding.weight.shape[0])
        self.limit = length_limit(module, tokenizer)
        if self.kind in ("sequence classification", "token classification"):  # others' labels say nothing
            named = getattr(getattr(module, "config", None), "id2label", None) or {}
            self.labels = tuple(str(named[i]) for i in sorted(named))

    def enter(self) -> None:
        """The module as a network, nothing of which has been seen yet."""
        self.network = Network(self.body(), self.whole())
        self.known: dict[Any, KnownOutput] = {}  # kinds of requests
        self.two_stacks = getattr(getattr(self.module, "config", None), "is_encoder_decoder", False) and self.writes()
        if self.two_stacks:
            self.network.blocks, self.network.depth = [], 0  # two stacks: a layer of which?
        self.depth = self.network.depth

    def writes(self) -> bool:
        """Has an encoder–decoder a decoder? T5's encoder alone says it is one too."""
        return any(name.split(".")[-1] == "decoder" for name, _ in self.module.named_modules())

    def body(self) -> nn.Module:
        """The part that is entered."""
        return self.module

    def whole(self) -> nn.Module:
        """Everything that takes part: put into evaluation mode while a text is explained."""
        return self.module

    def output(self, raw: Any, cases: Sequence[Case]) -> Any:
        """What readers and a caller's own target function get, from the body's raw output: its logits."""
        return raw.logits

    @abstractmethod
    def target(self, tokens: Tokens, output: Any, request: Request) -> Target:
        """The target of one text, fixed before the path begins; `output` is that of the text itself, one row.

        None where `predicts` says that it is not needed.
        """

    @property
    def scores(self) -> tuple[str, ...]:
        """What can be read of a class, a word or an answer."""
        return SCORES

    @property
    def packs(self) -> bool | None:
        """May texts of different lengths share a batch? None: no two have been seen yet."""
        every = self.known.values()
        if any(each.by_length for each in every):
            return False
        return True if any(each.first is None for each in every) else None

    @property
    def dtype_name(self) -> str:
        return str(self.network.dtype).removeprefix("torch.")

    def forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Any:
        return self.output(self.network.run(points, collate(cases, points), layer), cases)

    @torch.no_grad()
    def plain_forward(self, points: Float[Tensor, "B S d"], cases: Sequence[Case], layer: int) -> Any:
        """The same where nothing is differentiated: by the weights as the run has laid them out."""
        with kept_products():
            return self.forward(points, cases, layer)

    def states(self, rows: Float[Tensor, "S d"], draft: Case, layer: int) -> Float[Tensor, "S k"]:
        """The hidden states of a layer, from the text's rows."""
        return self.network.states(rows[None], collate([draft], rows[None]), layer)[0]

    def plain_output(self, draft: Case) -> Any:
        """The output as a user has it: token ids into the model as it is, nothing replaced, one text alone."""
        return self.own_output(self.ask(draft.context), draft)

    def reworded(self, draft: Case, ids: Int[Tensor, " S"]) -> Case:
        """The same with other ids in place of the text's, for `plain_output`."""
        return replace(draft, context={**draft.context, "input_ids": ids})

    def own_output(self, raw: Any, draft: Case) -> Any:
        """What readers get, from the whole model's raw output."""
        return self.output(raw, [draft])

    def ask(self, inputs: Mapping[str, Shaped[Tensor, "S ..."]], **more: int) -> Any:
        """The user's own model, called with what it takes of the inputs (S, …) of one text, and with more."""
        takes = accepted(self.module)
        known: dict[str, Any] = {name: value[None] for name, value in inputs.items() if name in takes}
        # a cache is for a text that goes on; with one some skip their masks
        extra = {"use_cache": False} if "use_cache" in takes else {}
        with unaltered(self.network.altered), torch.no_grad():
            return named(self.user(**known, **extra, **more))

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        if isinstance(text, Chat | Prompt):
            return chat_tokens(self.tokenizer, text, limit=self.limit, level=request.level)
        limit, truncation = self.cut(request)
        tokens = tokenise(self.tokenizer, text, text_b, limit=limit, truncation=truncation)
        if self.witness is not None and not request.truncation:
            check_ids(tokens, self.witness(text) if text_b is None else self.witness(text, text_b))
        return tokens

    def cut(self, request: Request) -> tuple[int | None, bool]:
        """How many tokens a text may have, and whether a longer one is cut."""
        return (self.limit, request.truncation) if self.cut_at is None else (self.cut_at, True)

    def usual_baseline(self, request: Request) -> str | None:
        """Where the path starts when no baseline is named, where that hangs on the request; None: `start_rows` knows."""
        return None

    def start_rows(self, choice: Any, tokens: Tokens, held: Bool[Tensor, " S"]) -> Baseline:
        """The word embeddings where the path starts; None: this kind's default."""
        if choice is None:
            choice = baselines.default_name(self.tokenizer, self.decoder)
        return baselines.word_rows(choice, tokens, held, self.network, self.tokenizer)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The table of word embeddings, for paths through words."""
        table = self.network.embed(torch.arange(self.network.embedding.weight.shape[0]))
        words = self.tokenizer.convert_ids_to_tokens
        special = frozenset(i for i in self.tokenizer.all_special_ids if i is not None)
        return Vocabulary(table, lambda number: str(words(int(number))), table_fingerprint(table), special)

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        draft = self.draft(text, text_b, request)
        if request.block is not None:
            return block_case(self.network, draft.case, draft.ends, draft.context, request)
        return self.finished(draft, self.output_of(draft) if self.predicts(request) else None)

    def draft(self, text: Any, text_b: Any, request: Request) -> Draft:
        """Everything that is known of a text before the model has run on it."""
        tokens = self.tokenise(text, text_b, request)
        layer = check_layer(request.layer, self.network.depth, two_stacks=self.two_stacks)
        held = torch.tensor([segment < 0 for segment in tokens.segments], device=self.network.device)
        context = {name: value.to(self.network.device) for name, value in tokens.context.items()}
        context["input_ids"] = torch.tensor(tokens.ids, device=self.network.device)
        end = self.network.embed(torch.tensor(tokens.ids))
        at_layer = isinstance(request.baseline, Tensor) and layer > 0
        choice = self.usual_baseline(request) if request.baseline is None else request.baseline
        start = self.start_rows(None if at_layer else choice, tokens, held)
        case = Case(
            ends=Ends(start.rows, end, held, tokens.ids, start.ids, _Lazy(lambda: self.vocabulary)),
            score=_not_yet,
            pack=None,
            texts=tokens.texts,
            tokens=tokens.tokens,
            offsets=tokens.offsets,
            segments=tokens.segments,
            context=context,
            baseline="tensor" if at_layer else start.name,
            baseline_kind=start.kind,
            chosen=Chosen(baseline=None if at_layer else start.given),
            notes=(*self.doubts, *tokens.notes, *start.notes),
            meta=tokens.meta,
        )
        with self.in_our_words(layer):
            ends = self._ends_at(layer, case, request.baseline if at_layer else None)
        return Draft(case, tokens, request, ends, layer)

    def output_of(self, draft: Draft) -> Any:
        """What the target is found by: the model's output at the text."""
        return self.output_at(draft.case)

    def predicts(self, request: Request) -> bool:
        """Does the target hang on the model's output for the text?"""
        return not callable(request.target)

    def finished(self, draft: Draft, output: Any) -> Case:
        """The case with its target; `output` is the model's for the text, one row, where `predicts` asks for it."""
        tokens, request, layer = draft.tokens, draft.request, draft.layer
        if callable(request.target):
            target = self.function_target(tokens, request.target)
        else:
            target = self.target(tokens, output, request)
        score = Score(self, layer, target.read)
        whole = request.vector or callable(request.target)
        length = len(tokens) if self.token_axis and whole else None
        chosen = replace(draft.case.chosen, target=target.again, score=target.score)
        asked = replace(draft.case, target=target.value)
        about: dict[str, Any] = {
            "target_name": target.name,
            "outputs": target.outputs,
            "output": output,
            "chosen": chosen,
        }
        case = replace(asked, ends=draft.ends, score=score, pack=(score, length), **about)
        return with_drift(compared(self, asked, case, layer))

    @contextmanager
    def in_our_words(self, layer: int = 0) -> Iterator[None]:
        """An architecture that fails does so in one line that says what it is and what to do."""
        try:
            yield
        except Exception as error:
            if isinstance(error, PathlensError) or out_of_memory(error):
                raise
            name = type(self.user).__name__
            if layer:
                raise ModelError(
                    f"layer={layer} cannot be entered in {name}: its blocks hand on more than one row of states for each token, "
                    "or in another order; use layer=0 (the word embeddings)"
                ).plainly(f"Layer {layer} cannot be entered in this model; use 0.", "layer") from error
            raise ModelError(
                f"{name} cannot read this text: does model(**tokenizer(text, return_tensors='pt'))? "
                f"({type(error).__name__}: {first_line(error)})"
            ).plainly("This model cannot read this text.", "text") from error

    def _ends_at(self, layer: int, draft: Case, given: Shaped[Tensor, "..."] | None) -> Ends:
        """Both ends as hidden states of the layer; at layer 0 they are vocabulary rows, above it nothing is held."""
        if layer == 0:
            return draft.ends
        end = self.states(draft.ends.end, draft, layer)
        free = torch.zeros_like(draft.ends.held)
        if given is not None:
            return Ends(baselines.given_rows(given, end, free).rows, end, free)
        start = self.states(draft.ends.start, draft, layer)
        return Ends(start, end, free)

    def output_at(self, case: Case, layer: int = 0) -> Any:
        """The model's output at the text itself, one row, checked for NaN."""
        with self.in_our_words(layer):
            output = self.plain_forward(case.ends.end[None], [case], layer)
        return self.checked(output)

    def checked(self, output: Any) -> Any:
        for value in output if isinstance(output, tuple) else (output,):
            if isinstance(value, Tensor) and not torch.isfinite(value).all():
                check_weights(self.module)
                raise NumberError(
                    f"the model's output is NaN or infinite in {self.dtype_name}: half precision overflows here; load it "
                    "with dtype=torch.float32 (or torch.bfloat16, whose range is wider)"
                    if self.network.dtype in HALF
                    else "the model's output for this text is NaN or infinite although its weights are finite"
                )
        return output

    def function_target(self, tokens: Tokens, function: Callable[[Any], Tensor]) -> Target:
        """A caller's function of the output as the target."""
        return Target(function_name(function), OwnFunction(function))


@dataclass(frozen=True)
class OwnFunction:
    """A caller's target: model output → (B,)."""

    function: Callable[[Any], Tensor]

    def __call__(self, output: Any, cases: Sequence[Case]) -> Float[Tensor, " B"]:
        value = self.function(output)
        if not isinstance(value, Tensor) or value.shape != (len(cases),):
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"the target function must give one number per row, shape ({len(cases)},); it gave {shape}"
            )
        return value


def function_name(function: Any) -> str:
    return str(getattr(function, "__name__", "own function"))


class _Lazy(Vocabulary):
    """A vocabulary that is read only when a path asks for it."""

    def __init__(self, make: Callable[[], Vocabulary]) -> None:
        object.__setattr__(self, "_make", make)

    def __getattribute__(self, name: str) -> Any:
        if name in ("table", "words", "fingerprint", "special"):
            return getattr(object.__getattribute__(self, "_make")(), name)
        return object.__getattribute__(self, name)


def _not_yet(points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Scores:
    raise RuntimeError("the case is still being prepared")


def with_drift(case: Case) -> Case:
    """In half precision: the case with its drift stated, so that nobody trusts a share below it. Otherwise as it is.

    Drift: the change of the output when every coordinate of the input moves by one unit of rounding, up and down by
    turns, and one unit of rounding of the output itself, below which no change is seen. Scores are summed in float64
    whatever the model runs in; this is what summing cannot mend.
    """
    end = case.ends.end
    if end.dtype not in HALF:
        return case
    unit = torch.finfo(end.dtype).eps
    turns = 1 - 2 * (torch.arange(end.numel(), device=end.device) % 2).reshape(end.shape)
    moved = (end.double() * (1 + unit * turns)).to(end.dtype)
    with torch.no_grad():
        output = case.score(end[None], [case])
        change = case.score(moved[None], [case]) - output
    drift = float((change.float().abs() + unit * output.float().abs()).norm())
    note = f"the model runs in {str(end.dtype).removeprefix('torch.')}: rounding alone moves the output by about {drift:.2g}"
    return case.noted(note, drift=drift)


def form(
    logits: Float[Tensor, "B C"], index: Int[Tensor, " B"], score: str, each: bool | None = None
) -> Float[Tensor, " B"]:
    """The chosen class's logit, log-probability or probability; a sigmoid's where labels do not exclude `each` other.

    None: they do, where there are several.
    """
    rows = torch.arange(logits.shape[0], device=logits.device)
    if score == "logit":
        return logits[rows, index]
    if logits.shape[1] == 1 if each is None else each:
        raw = torch.nn.functional.logsigmoid(widened(logits[rows, index]))
    else:
        raw = torch.log_softmax(widened(logits), dim=-1)[rows, index]
    return raw if score == "logprob" else raw.exp()


def widened(logits: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """In single precision at least: half of it is too coarse for a logarithm of a sum."""
    return logits if logits.dtype == torch.float64 else logits.float()


def choose_label(wanted: Any, labels: dict[int, str], predicted: int, what: str = "target") -> int:
    """An index or a label's name → the index; None → the predicted one."""
    if wanted is None:
        return predicted
    wanted = plain_number(wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, int | str):
        raise InputError(f"{what} must be an index or a label's name, got {wanted!r}; labels: {_list(labels)}")
    if isinstance(wanted, str):
        same = [i for i, name in labels.items() if name.lower() == wanted.lower()]
        if not same:
            hint = did_you_mean(wanted, labels.values())
            raise InputError(
                f"{setting(**{what: wanted})} is not a label of this model; labels: {_list(labels)}{hint}"
            ).plainly(f"“{wanted}” is none of this model's classes: {_names(labels)}{hint or '.'}", "target")
        return same[0]
    if not -len(labels) <= wanted < len(labels):
        raise InputError(
            f"{setting(**{what: wanted})} is out of range: the model has {len(labels)} labels: {_list(labels)}"
        ).plainly(f"The model has no class number {wanted}; it has {_names(labels)}.", "target")
    return wanted % len(labels)


def _list(labels: dict[int, str]) -> str:
    return _names({i: f"{i} {name!r}" for i, name in labels.items()})


def _names(labels: dict[int, str]) -> str:
    names = [name for _, name in sorted(labels.items())]
    return ", ".join(names[:12]) + (f" … ({len(names)} in all)" if len(names) > 12 else "")


def labels_of(module: nn.Module, count: int) -> dict[int, str]:
    given = getattr(getattr(module, "config", None), "id2label", None) or {}
    return {i: str(given.get(i, given.get(str(i), f"LABEL_{i}"))) for i in range(count)}
