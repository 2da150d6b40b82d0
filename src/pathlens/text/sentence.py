"""Sentence encoders: a text becomes one vector, through the encoder's own modules; and the shifted encoder around one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pathlens.errors import InputError, MissingError, ModelError, NumberError
from pathlens.integrand.secant.both import end_of
from pathlens.text import shift
from pathlens.text.adapter import BUSY_TOKENS, WASTE, Case, Request, Scores, Wrapped, within
from pathlens.text.baseline import Baseline, default_name, given_rows
from pathlens.text.language import LanguageModel, Score, Target
from pathlens.text.options import POOLINGS, EncoderOptions, ModelOptions, PromptedOptions
from pathlens.text.own_output import far
from pathlens.text.reference import Reference, reference_of
from pathlens.text.shift import CODE, Shift
from pathlens.text.static import StaticTable, static_tokenizer
from pathlens.text.tokens import Tokens

NO_COSINE = "an embedding has length zero, so the cosine is not defined; use similarity='dot'"


@dataclass(frozen=True)
class ReadEmbedding:
    """The embedding as a vector score."""

    norm: str = "outside"

    def __call__(self, output: Float[Tensor, "B k"], cases: Sequence[Case]) -> Float[Tensor, "B 1 k"]:
        vector = torch.nn.functional.normalize(output, dim=-1) if self.norm == "inside" else output
        return vector[:, None]


@dataclass(frozen=True)
class ReadSimilarity:
    """Similarity with a fixed vector, the embedding of the second text."""

    similarity: str

    def __call__(self, output: Float[Tensor, "B k"], cases: Sequence[Case]) -> Float[Tensor, " B"]:
        other = torch.stack([case.target for case in cases]).to(output)
        product = (output * other).sum(-1)
        return product / output.norm(dim=-1) / other.norm(dim=-1) if self.similarity == "cosine" else product


@dataclass(frozen=True)
class ReadAgainst:
    """Similarity with a fixed vector (k,), or with each of T rows (T, k), the text's own length held as it is at the text.

    For secants, which run both ends at once: so it is linear in the embedding, and no run is needed to know the length.
    """

    similarity: str

    def __call__(self, output: Float[Tensor, "B e"], cases: Sequence[Case]) -> Scores:
        rows = torch.stack([case.target for case in cases]).to(end_of(output))
        value: Tensor = (output * rows).sum(-1) if rows.ndim == 2 else (output[:, None] * rows).sum(-1)[..., None]
        if self.similarity == "dot":
            return value
        length = end_of(output).detach().norm(dim=-1)
        if bool((length == 0).any()):
            raise NumberError(NO_COSINE)
        cosine: Tensor = value / length.reshape([-1] + [1] * (value.ndim - 1))
        return cosine


class SentenceEncoder(LanguageModel):
    """A body and a head (pooling and what follows). The embedding is taken before a trailing Normalize.

    With two texts and `ig`, the similarity is explained with the second text fixed; `ij` explains both.
    """

    kind = "sentence encoder"
    default_method = "ij"
    options: type[ModelOptions] = EncoderOptions

    def __init__(self, module: nn.Module, tokenizer: Any, *, pooling: str = "mean", name: str | None = None) -> None:
        if pooling not in POOLINGS:
            raise InputError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
        self.pooling = pooling
        super().__init__(module, tokenizer, name=name)

    def settings(self) -> tuple[str, ...]:
        return (self.pooling,)

    def two_texts_are_a_pair(self) -> bool:
        return True

    def output(self, raw: Any, cases: Sequence[Case]) -> Float[Tensor, "B k"]:
        states = self.read_states(raw)
        return self.head(states, within(cases, states), cases)

    def read_states(self, raw: Any) -> Float[Tensor, "B S d"]:
        """The states of the tokens, from the body's raw output."""
        states: Tensor | None = raw[0] if isinstance(raw, tuple) else getattr(raw, "last_hidden_state", None)
        if states is None:
            given = ", ".join(raw) if isinstance(raw, Mapping) else type(raw).__name__
            raise ModelError(
                f"{type(self.user).__name__} gives {given} and no states of the text's tokens (last_hidden_state), so it is no "
                "encoder of texts; give the encoder inside it, or write a model kind (docs/extending.md)"
            )
        return states

    def head(
        self, states: Float[Tensor, "B S d"], mask: Bool[Tensor, "B S"], cases: Sequence[Case]
    ) -> Float[Tensor, "B k"]:
        return self.pooled(states, mask, cases[0].meta.get("prompt_length"))  # one prompt per batch: see `case`

    def pooled(
        self, states: Float[Tensor, "B S d"], mask: Bool[Tensor, "B S"], prompt_length: int | None
    ) -> Float[Tensor, "B k"]:
        """Mean, first token or last token of the states."""
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
        weight = mask.to(states.dtype)[..., None]
        return (states * weight).sum(1) / weight.sum(1)

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        """The second text is not part of the input: it only fixes what is compared with."""
        if request.block is not None and request.baseline is None:  # a block's own output is not the embedding
            request = replace(request, baseline=default_name(self.tokenizer, self.decoder))
        if text_b is not None and request.target is None and not request.vector and request.block is None:
            request = replace(request, target=("similarity", self.embed(text_b, request)))
            return compared(super().case(text, None, request=request), text_b)
        return super().case(text, None, request=request)

    def predicts(self, request: Request) -> bool:
        """Only to see that a cosine is defined."""
        return super().predicts(request) and not request.vector and not _held(request)

    @cached_property
    def quiet_reference(self) -> Reference:
        """Where the embedding is nearly nothing: the default baseline."""
        return reference_of(self)

    def start_rows(self, choice: Any, tokens: Tokens, held: Bool[Tensor, " S"]) -> Baseline:
        if choice is not None and not (isinstance(choice, str) and choice == "quiet"):
            return super().start_rows(choice, tokens, held)
        quiet = self.quiet_reference
        rows = given_rows(quiet.over(len(tokens)), self.network.embed(torch.tensor(tokens.ids)), held)
        return replace(rows, name=quiet.name, given="quiet", notes=quiet.notes)

    def embed(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        """e(text), before a trailing Normalize."""
        case = self.case(text, request=replace(request, target=None, vector=True, layer=None, baseline="zero"))
        with torch.no_grad():
            vector: Tensor = self.forward(case.ends.end[None], [case], 0)[0]
        return vector

    def embed_all(self, texts: Sequence[Any], request: Request) -> Float[Tensor, "N k"]:
        """e(text) of many texts, from token ids as the model's own users have them: no path, no reference.

        One by one where this kind reads its states otherwise, or where padding changes what the model says.
        """
        one_by_one = partial(super().embed_all, texts, request)
        usual = type(self).output is SentenceEncoder.output
        if not usual or getattr(self.head, "__func__", None) is not SentenceEncoder.head:
            return one_by_one()
        prompt = self.prompt(request)
        cut = {"truncation": True, "max_length": self.limit} if request.truncation and self.limit else {}
        ids = self.tokenizer([prompt + text for text in texts], verbose=False, **cut)["input_ids"]
        held = self._first_after(prompt, texts[0]) if prompt else None
        embeddings: dict[int, Tensor] = {}
        with torch.inference_mode():
            for some in _by_length(ids):
                longest = len(ids[some[-1]])
                rows = torch.tensor([ids[n] + [self.network.pad] * (longest - len(ids[n])) for n in some])
                lengths = torch.tensor([len(ids[n]) for n in some])
                mask = (torch.arange(longest) < lengths[:, None]).to(self.network.device)
                raw = self.module(input_ids=rows.to(self.network.device), attention_mask=mask.long())
                vectors = self.pooled(self.read_states(raw), mask, held).cpu()
                if not embeddings:  # the shortest text of a padded batch
                    alone = self.embed(texts[some[0]], request).cpu()
                    if far(alone, vectors[0], alone, alone):
                        return one_by_one()
                embeddings |= zip(some, vectors, strict=True)
        return torch.stack([embeddings[number] for number in range(len(ids))])

    def _first_after(self, prompt: str, text: str) -> int:
        """Where the text's own tokens begin."""
        offsets = self.tokenizer(prompt + text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
        return next((number for number, (_, end) in enumerate(offsets) if end > len(prompt)), len(offsets))

    def prompt(self, request: Request) -> str:
        """What is put before every text."""
        return ""

    def target(self, tokens: Tokens, output: Float[Tensor, "1 k"] | None, request: Request) -> Target:
        target = embedding_target(request, None if output is None else output[0])
        if target is not None:
            cosine = (
                target.value is not None
                and target.value.ndim == 1
                and request.options_of(EncoderOptions).similarity == "cosine"
            )
            if cosine and output is not None and (float(output.norm()) == 0 or float(target.value.norm()) == 0):
                raise NumberError(NO_COSINE)
            return target
        if request.target is not None:
            raise InputError(
                f"target={request.target!r}: a sentence encoder has no classes; give text_b to explain a similarity, a "
                "function of the embedding (B, k) → (B,), or method='vaig' for the whole vector"
            )
        raise InputError(
            "a sentence encoder gives a vector, not a number: pass a second text (text_b=...) to explain their "
            "similarity, or method='vaig' to explain the vector itself"
        )


class PooledEncoder(SentenceEncoder):
    """An encoder that says itself which vector is the text's (DPR's two); compared by the dot product, as it was trained."""

    similarity = "dot"

    def settings(self) -> tuple[str, ...]:
        return ("pooled",)

    def output(self, raw: Any, cases: Sequence[Case]) -> Float[Tensor, "B k"]:
        vector: Tensor = raw.pooler_output
        return vector


class SentenceTransformerEncoder(SentenceEncoder):
    """A `SentenceTransformer` with its own modules: transformer, then pooling, Dense, Normalize, in their order.

    A prompt (`prompt=`, `prompt_name=` or the model's default) is part of the input and held in place.
    """

    options = PromptedOptions

    def __init__(self, model: Any, *, name: str | None = None, parts: Sequence[Any] | None = None) -> None:
        """parts: those of one route, where the model has several."""
        self.sentence_transformer = model
        first, *after = list(model if parts is None else parts)
        self.normalised = bool(after) and type(after[-1]).__name__ == "Normalize"  # does the model itself end in one?
        stated = getattr(model, "similarity_fn_name", None)
        self.similarity = "dot" if stated == "dot" and not self.normalised else None  # of unit vectors: the cosine
        self.after = after[:-1] if self.normalised else after
        exact = [part for part in self.after if type(part).__name__ == Shift.__name__ and hasattr(part, "reference")]
        self.shift: Shift | None = exact[0] if exact else None  # of an exact encoder: what says nothing is its own
        self.static = type(first).__name__ == "StaticEmbedding"
        if self.static:
            super().__init__(StaticTable(first), static_tokenizer(first), name=name or "static embedding")
        elif hasattr(first, "auto_model"):
            super().__init__(first.auto_model, first.tokenizer, name=name)
        else:
            raise ModelError(
                f"a {type(model).__name__} that begins with {type(first).__name__} has no word embeddings and no transformer "
                "after them, which pathlens needs for its path; explain a model that begins with a Transformer"
            )
        longest = getattr(first, "max_seq_length", None)
        if longest is not None and longest != float("inf"):
            self.limit = min(longest, self.limit or longest)

    def whole(self) -> nn.Module:
        whole: nn.Module = self.sentence_transformer
        return whole

    def settings(self) -> tuple[str, ...]:
        """The modules after the transformer as they describe themselves, and where the vector is cut."""
        described = [
            (type(part).__name__, sorted(part.get_config_dict().items(), key=str))
            for part in self.after
            if hasattr(part, "get_config_dict")
        ]
        return repr(described), str(self.normalised), str(self.truncated)

    @property
    def truncated(self) -> int | None:
        """How many numbers of the vector the model keeps."""
        kept: int | None = getattr(self.sentence_transformer, "truncate_dim", None)
        return kept

    def read_states(self, raw: Any) -> Float[Tensor, "B S d"]:
        """Of a sparse encoder: a number for every word."""
        logits: Tensor | None = getattr(raw, "logits", None)
        return super().read_states(raw) if logits is None else logits

    def pooled(
        self, states: Float[Tensor, "B S d"], mask: Bool[Tensor, "B S"], prompt_length: int | None
    ) -> Float[Tensor, "B k"]:
        features: dict[str, Any] = {"token_embeddings": states, "attention_mask": mask.long()}
        if prompt_length is not None:
            features["prompt_length"] = prompt_length
        if self.static:
            features["sentence_embedding"] = super().pooled(states, mask, prompt_length)
        with _nothing_overwritten(self.after):
            for module in self.after:
                features = module(features)
        embedding: Tensor = features["sentence_embedding"]
        return embedding[..., : self.truncated]

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        if self.shift is not None and text_b is not None and request.baseline in (None, self.shift.reference):
            refuse_cosine_from_zero(request)
        case = super().case(text, text_b, request=request)
        return replace(case, pack=(case.pack, case.meta.get("prompt_length")))

    def start_rows(self, choice: Any, tokens: Tokens, held: Bool[Tensor, " S"]) -> Baseline:
        """An exact encoder starts at the reference it subtracts."""
        exact = choice is None and self.shift is not None
        return super().start_rows(self.shift.reference if exact and self.shift else choice, tokens, held)

    def prompt(self, request: Request) -> str:
        model = self.sentence_transformer
        options = request.options_of(PromptedOptions)
        if options.prompt is not None:
            return options.prompt
        name = model.default_prompt_name if options.prompt_name is None else options.prompt_name
        if name is not None and (not isinstance(name, str) or name not in model.prompts):
            raise InputError(f"prompt_name={name!r} is not a prompt of this model; it has {', '.join(model.prompts)}")
        return str(model.prompts[name]) if name is not None else ""

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        prompt = self.prompt(request)
        if not prompt or not isinstance(text, str) or not text.strip():
            return super().tokenise(text, None, request)
        whole = super().tokenise(prompt + text, None, request)
        cut = len(prompt)
        held = whole.holding([end <= cut for _, end in whole.offsets])
        if 0 not in held.segments:
            raise InputError(f"nothing to explain in {text!r}: it has no tokens besides the prompt's")
        offsets = tuple((max(0, start - cut), max(0, end - cut)) for start, end in held.offsets)
        note = f"the prompt {prompt!r} is part of the input and held"
        held = held.noted(note, prompt=prompt, prompt_length=held.segments.index(0))
        return replace(held, offsets=offsets, texts=(text,))


def _by_length(ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Numbers of texts that are run together: little padding, and no more tokens than a processor is quick with."""
    some: list[int] = []
    for number in sorted(range(len(ids)), key=lambda each: len(ids[each])):
        length = len(ids[number])
        if some and (length > WASTE * len(ids[some[0]]) or (len(some) + 1) * length > BUSY_TOKENS):
            yield some
            some = []
        some.append(number)
    if some:
        yield some


@contextmanager
def _nothing_overwritten(parts: Sequence[Any]) -> Iterator[None]:
    """SPLADE's pooling writes over what a gradient needs, unless it is in training; it has nothing random."""
    pooled = [part for part in parts if type(part).__name__ == "SpladePooling" and not part.training]
    for part in pooled:
        part.training = True
    try:
        yield
    finally:
        for part in pooled:
            part.training = False


def compared(case: Case, text_b: Any) -> Case:
    """Says what it is compared with, where that is a text: so that it can be asked for again."""
    return replace(case, meta={**case.meta, "compared_with": text_b}) if isinstance(text_b, str) else case


def embedding_target(request: Request, embedding: Float[Tensor, " k"] | None = None) -> Target | None:
    """The vector itself, or its similarity with the second text's; None where neither is asked for.

    `("against", vector)`: the similarity with the vector, both lengths fixed, so that it is linear in the embedding;
    `embedding` is the text's. `("scaled", vector)`: the same with the vector divided already. `("rows", (T, k))`: each row of a
    text's vectors (they are divided by its length already) against the embedding: T numbers.
    """
    if request.vector:
        name = "embedding" if request.norm == "outside" else "normalised embedding"
        return Target(name, ReadEmbedding(request.norm), outputs=("embedding",))
    if isinstance(request.target, tuple) and request.target[0] == "similarity":
        kind = request.options_of(EncoderOptions).similarity
        return Target(f"{kind} similarity with the second text", ReadSimilarity(kind), request.target[1])
    if isinstance(request.target, tuple) and request.target[0] in ("against", "scaled", "rows"):
        kind, vector = request.options_of(EncoderOptions).similarity, request.target[1]
        if request.target[0] == "rows":
            held = kind if _held(request) else "dot"  # along a path the length is that at its end, known beforehand
            rows = vector / _length(embedding) if held != kind and embedding is not None else vector
            names = tuple(map(str, range(len(vector))))
            return Target(f"{kind} similarity with the query's rows", ReadAgainst(held), rows, outputs=names)
        if _held(request):
            unit = vector / _length(vector) if kind == "cosine" else vector
            return Target(f"{kind} similarity with the query", ReadAgainst(kind), unit)
        if request.target[0] == "against" and embedding is not None:
            vector = against(vector, embedding, kind)
        return Target(f"{kind} similarity with the query", ReadSimilarity("dot"), vector)
    return None


def _held(request: Request) -> bool:
    """Is the text's length read where it is needed, with both ends at hand?"""
    against = isinstance(request.target, tuple) and request.target[0] in ("against", "rows")
    return against and not request.integral


def _length(vector: Float[Tensor, " k"]) -> float:
    length = float(vector.norm())
    if length == 0:
        raise NumberError(NO_COSINE)
    return length


def against(vector: Float[Tensor, " k"], embedding: Float[Tensor, " k"], similarity: str) -> Float[Tensor, " k"]:
    """What the embedding of a text is multiplied by to give its similarity with `vector`, the lengths being fixed."""
    if vector.shape != embedding.shape:
        raise InputError(
            f"the query's vector has {len(vector)} numbers and this text's {len(embedding)}; they must be of one space"
        )
    length = float(vector.norm()) * float(embedding.norm())
    if similarity == "cosine" and length == 0:
        raise NumberError(NO_COSINE)
    return vector / length if similarity == "cosine" else vector


def refuse_cosine_from_zero(request: Request) -> None:
    """With the second text fixed, the path of an exact encoder starts where it has no direction."""
    kind = request.options_of(EncoderOptions).similarity
    if not request.vector and request.target is None and request.block is None and kind == "cosine":
        raise InputError(
            "a shifted embedding has length zero at its reference, so the cosine is not defined where the path starts; use "
            "method='ij' or 'secant' (the norm is taken outside), or similarity='dot'"
        )


def open_modules(source: str, *, sparse: bool = False, **options: Any) -> Any:
    """A SentenceTransformer or SparseEncoder by folder or hub id; the only place that needs the package."""
    try:
        import sentence_transformers as package
    except ImportError as error:
        raise MissingError('sentence encoders need a package: pip install "pathlens[sentence]"') from error
    if _brings_our_code(Path(source)):
        options |= {"trust_remote_code": True}
    return (package.SparseEncoder if sparse else package.SentenceTransformer)(source, **options)


def shifted(encoder: Any, shift: Shift, matrix: Float[Tensor, "k k"] | None = None) -> Any:
    """A SentenceTransformer with the shift, and a matrix where there is one, before a last Normalize; modules are shared."""
    from sentence_transformers.sentence_transformer.modules import Dense

    parts, more = list(encoder), list[Any]([shift])
    if matrix is not None:
        wide, narrow = matrix.shape
        more.append(Dense(narrow, wide, bias=False, activation_function=nn.Identity()))
        more[-1].linear.weight.data.copy_(matrix)
    at = next((i for i, part in enumerate(parts) if type(part).__name__ == "Normalize"), len(parts))
    settings = {name: getattr(encoder, name) for name in ("prompts", "default_prompt_name", "truncate_dim")}
    return type(encoder)(modules=[*parts[:at], *more, *parts[at:]], device="cpu", **settings)


def _brings_our_code(folder: Path) -> bool:
    """An exact encoder's folder, with no other code in it than our own, letter by letter."""
    beside, source = folder / CODE, Path(shift.__file__)
    if not beside.is_file() or beside.read_bytes() != source.read_bytes():
        return False
    listed = [str(part["type"]) for part in json.loads((folder / "modules.json").read_text("utf-8"))]
    return all(name.startswith(("sentence_transformers.", f"{CODE.removesuffix('.py')}.")) for name in listed)


Reads = ReadEmbedding | ReadSimilarity | ReadAgainst


@dataclass(frozen=True)
class ReadShifted:
    """The shifted embedding, then what is read from it; `target` of a case: (its shift, what else)."""

    read: Reads
    scale: float

    def __call__(self, output: Float[Tensor, "B k"], cases: Sequence[Case]) -> Scores:
        shift = torch.stack([case.target[0] for case in cases]).to(output)
        plain = isinstance(self.read, ReadEmbedding)
        inner = cases if plain else [replace(case, target=case.target[1]) for case in cases]
        return self.read((output - shift) / self.scale, inner)


class Shifted(Wrapped):
    """The exact model of the paper: the same encoder with the embedding of the text's own reference subtracted.

        e(x) = (e'(x) − e'(r)) / c

    is zero at r, so the reference row and column of `ij` are zero and the token × token matrix alone sums to the
    prediction (Moeller, Nikolaev, Padó: An Attribution Method for Siamese Encoders, EMNLP 2023).

    Limits: the wrapper changes what the model predicts. Around an untuned encoder the similarities are worse
    (STS-B Spearman .79 for MiniLM instead of .82); tune with the shift in place, experiments/train_exact_encoder.py.

    reference: a baseline by name or text; "pad" is the paper's: [CLS] [PAD] … [SEP] of the text's length, attended.
    scale: c, a fixed number every embedding is divided by (for dot products).
    """

    inner: SentenceEncoder

    def __init__(self, encoder: SentenceEncoder, *, reference: str = "pad", scale: float = 1.0) -> None:
        if not isinstance(encoder, SentenceEncoder):
            raise InputError(
                f"Shifted wraps a sentence encoder, got {type(encoder).__name__}; pass pl.SentenceEncoder(model, tokenizer)"
            )
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < float("inf"):
            raise InputError(f"scale must be a positive number, got {scale!r}")
        super().__init__(encoder)
        self.reference, self.scale = reference, float(scale)
        self.name = f"{encoder.name} shifted"
        self.similarity = None  # the encoder's own word on it is of other vectors

    def settings(self) -> tuple[str | int | float, ...]:
        return (*super().settings(), str(self.reference), self.scale)

    def shift(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        """e'(r): it depends on the text's length, its special tokens and prompt alone."""
        plain = replace(request, target=None, vector=True, layer=None, baseline=self.reference, block=None)
        case = self.inner.case(text, request=plain)
        with torch.no_grad():
            vector: Tensor = self.inner.forward(case.ends.start[None], [case], 0)[0]
        return vector

    def embed(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        """e(text)."""
        return (self.inner.embed(text, request) - self.shift(text, request)) / self.scale

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        baseline = self.reference if request.baseline is None else request.baseline
        request = replace(request, baseline=baseline)
        if text_b is not None and not request.vector and request.target is None:
            refuse_cosine_from_zero(request)
            request = replace(request, target=("similarity", self.embed(text_b, request)))
        if isinstance(request.target, tuple) and request.target[0] == "against" and request.integral:
            kind = request.options_of(EncoderOptions).similarity
            embedding = self.embed(text, replace(request, target=None))
            request = replace(request, target=("scaled", against(request.target[1], embedding, kind)))
        case = self.inner.case(text, request=request)
        if request.block is not None:
            return case
        if not isinstance(case.score, Score) or not isinstance(case.score.read, Reads):
            raise InputError(
                "a shifted encoder explains similarities (text_b) or its embedding; for a function of your own wrap the model"
            )
        score = Score(self.inner, case.score.layer, ReadShifted(case.score.read, self.scale))
        pack = (score, case.pack[1:] if isinstance(case.pack, tuple) else case.pack)
        return replace(case, score=score, pack=pack, target=(self.shift(text, request), case.target))
