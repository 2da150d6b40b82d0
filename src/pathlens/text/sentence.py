"""Sentence encoders: a text becomes one vector, through the encoder's own modules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from pathlens.checks import whole_text
from pathlens.errors import InputError, MissingError, ModelError, NumberError, setting
from pathlens.text import shift
from pathlens.text.adapter import BUSY_TOKENS, WASTE, Case, Request, within
from pathlens.text.baseline import Baseline, default_name, given_rows
from pathlens.text.language import LanguageModel, Target
from pathlens.text.network import named
from pathlens.text.options import ONE_TEXT_ALONE, POOLINGS, EncoderOptions, ModelOptions, PromptedOptions
from pathlens.text.own_output import far
from pathlens.text.reference import Reference, reference_of
from pathlens.text.shift import CODE, Shift
from pathlens.text.similarity import NO_COSINE, compared, embedding_target, holds_length, refuse_cosine_from_zero
from pathlens.text.tokens import Tokens

NAMED = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}  # for baselines


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
        if states is None or states.ndim != 3:
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
        return super().predicts(request) and not request.vector and not holds_length(request)

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
        limit, truncation = self.cut(request)
        cut = {"truncation": True, "max_length": limit} if truncation and limit else {}
        for number, text in enumerate(texts):
            whole_text(f"text {number}", text)
        ids = self.tokenizer([prompt + text for text in texts], verbose=False, **cut)["input_ids"]
        held = self._first_after(prompt, texts[0]) if prompt else None
        embeddings: dict[int, Tensor] = {}
        with torch.inference_mode():
            for some in _by_length(ids):
                longest = len(ids[some[-1]])
                rows = torch.tensor([ids[n] + [self.network.pad] * (longest - len(ids[n])) for n in some])
                lengths = torch.tensor([len(ids[n]) for n in some])
                mask = (torch.arange(longest) < lengths[:, None]).to(self.network.device)
                raw = named(self.module(input_ids=rows.to(self.network.device), attention_mask=mask.long()))
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
            one = target.value is not None and target.value.ndim == 1
            cosine = one and request.options_of(EncoderOptions).similarity == "cosine"
            if cosine and output is not None and (float(output.norm()) == 0 or float(target.value.norm()) == 0):
                raise NumberError(NO_COSINE)
            return target
        if request.target is not None:
            raise InputError(
                f"{setting(target=request.target)}: a sentence encoder has no classes; give text_b to explain a similarity, a "
                f"function of the embedding (B, k) → (B,), or {setting(method='vaig')} for the whole vector"
            )
        raise InputError(ONE_TEXT_ALONE)


class PooledEncoder(SentenceEncoder):
    """An encoder that says itself which vector is the text's (DPR's two); compared by the dot product, as it was trained."""

    similarity: str | None = "dot"

    def settings(self) -> tuple[str, ...]:
        return ("pooled",)

    def output(self, raw: Any, cases: Sequence[Case]) -> Float[Tensor, "B k"]:
        vector: Tensor = raw.pooler_output
        return vector


class SiglipText(PooledEncoder):
    """SigLIP's text tower, compared by the cosine: it reads every text padded to one length, and its answer at the last place.

    It was trained without a mask, so the padding is part of what it reads; it is held along the path.
    """

    similarity = None
    kind = "siglip text"

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        tokens = super().tokenise(text, text_b, request)
        config: Any = self.module.config
        missing = max(0, int(config.max_position_embeddings) - len(tokens))
        pads = {"attention_mask": 1}
        padded = replace(
            tokens,
            ids=(*tokens.ids, *[int(self.tokenizer.pad_token_id)] * missing),
            tokens=(*tokens.tokens, *[str(self.tokenizer.pad_token)] * missing),
            offsets=(*tokens.offsets, *[(0, 0)] * missing),
            segments=(*tokens.segments, *[-1] * missing),
            context={n: nn.functional.pad(v, (0, missing), value=pads.get(n, 0)) for n, v in tokens.context.items()},
        )
        return padded.noted(f"SigLIP reads every text padded to {len(padded)} tokens; the padding is held")


class StaticTable(nn.Module):
    """A StaticEmbedding as a body: a table of words and nothing else, so its states are the rows; their mean is the head's."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        rows = part.embedding.weight
        self.words = nn.Embedding(len(rows), rows.shape[1], _weight=rows)  # the very numbers of the model, not a copy

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(
        self, input_ids: Int[Tensor, "B S"], attention_mask: Shaped[Tensor, "B S"] | None = None
    ) -> SimpleNamespace:
        states: Float[Tensor, "B S d"] = self.words(input_ids)
        return SimpleNamespace(last_hidden_state=states)


def static_tokenizer(part: Any) -> Any:
    """Its tokenizer as transformers have them, adding nothing before and after a text, as the model does."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer.from_str(part.tokenizer.to_str())
    plain.no_padding()
    plain.no_truncation()
    plain.post_processor = TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    known = {name: word for name, word in NAMED.items() if plain.token_to_id(word) is not None}
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=plain, **known)


def _modes(pooling: Any) -> tuple[str, ...]:
    """How a Pooling module makes one vector of many; by one word, or several side by side."""
    mode = getattr(pooling, "pooling_mode", ())
    return (mode,) if isinstance(mode, str) else tuple(mode)


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
        cosine = stated == "cosine" or (stated == "dot" and self.normalised)  # of unit vectors they are one
        self.similarity = None if cosine or stated is None else str(stated)
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
        if any(type(part).__name__ == "Pooling" and "max" in _modes(part) for part in self.after):
            self.default_method = "secant"
            self.doubts += (
                "this encoder takes the largest of its tokens' states (max pooling), where integrals hardly settle: two texts are "
                "explained by secants, which have a rule for it, unless another method is asked for",
            )
        longest = getattr(first, "max_seq_length", None)
        if longest is not None and longest != float("inf"):
            self.limit = min(longest, self.limit or longest)

    def whole(self) -> nn.Module:
        whole: nn.Module = self.sentence_transformer
        return whole

    def settings(self) -> tuple[str, ...]:
        """The modules after the transformer as they describe themselves, and where the vector is cut."""
        known = [(type(each).__name__, each) for each in self.after if hasattr(each, "get_config_dict")]
        described = [(name, sorted(part.get_config_dict().items(), key=str)) for name, part in known]
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
            raise InputError(
                f"{setting(prompt_name=name)} is not a prompt of this model; it has {', '.join(model.prompts)}"
            )
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


def open_modules(source: str, kind: str = "SentenceTransformer", **options: Any) -> Any:
    """A SentenceTransformer, SparseEncoder or CrossEncoder by folder or hub id; the only place that needs the package."""
    try:
        import sentence_transformers as package
    except ImportError as error:
        raise MissingError('sentence encoders need a package: pip install "pathlens[sentence]"') from error
    if _brings_our_code(Path(source)):
        options |= {"trust_remote_code": True}
    if not hasattr(package, kind):
        raise ModelError(f"{source!r} says it is a {kind}, which this sentence-transformers does not know; update it")
    return getattr(package, kind)(source, **options)


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
