"""Dual encoders: two sides, one space. Image and text (CLIP), or two text encoders that differ.

f(a, b) = e_a(a) · e_b(b)        nothing else changes in `ij`: each side has its own path and vectors
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pathlens.errors import InputError, ModelError, setting
from pathlens.text.adapter import Case, Chosen, Request, Scores, TextModel
from pathlens.text.network import check_layer, states_of
from pathlens.text.options import PromptedOptions
from pathlens.text.sentence import SentenceEncoder, SentenceTransformerEncoder
from pathlens.text.similarity import compared, embedding_target
from pathlens.types import Ends


class DualEncoder(TextModel):
    """Two encoders into one space: `DualEncoder(query_encoder, document_encoder)` or `DualEncoder.clip(...)`.

    The first input goes to side a, the second to side b; `pl.rank` reads queries with a and documents with b.
    """

    kind = "dual encoder"
    options = PromptedOptions
    default_method = "ij"

    def __init__(self, a: TextModel, b: TextModel, *, name: str | None = None) -> None:
        for side in (a, b):
            if not side.two_texts_are_a_pair():
                raise ModelError(f"{side.name!r} is {side.plain_kind}; both sides must give embeddings")
        self.a, self.b = a, b
        self.similarity = a.similarity if a.similarity == b.similarity else None
        self.name = name or f"{a.name} | {b.name}"

    @staticmethod
    def clip(model: nn.Module, tokenizer: Any, processor: Any = None) -> DualEncoder:
        """A Hugging Face CLIPModel: side a takes pictures, side b texts."""
        return DualEncoder(ClipImage(model, processor), ClipText(model, tokenizer), name=type(model).__name__)

    @staticmethod
    def routed(model: Any, *, name: str | None = None) -> DualEncoder:
        """A SentenceTransformer or SparseEncoder whose Router reads queries and documents differently."""
        router, *after = list(model)
        routes = dict(router.sub_modules.items())
        if not {"query", "document"} <= routes.keys():
            there = f"this Router has the routes {', '.join(routes)}"
            raise ModelError(f"{there}; pathlens takes one with the routes query and document")
        query, document = (
            SentenceTransformerEncoder(model, name=route, parts=[*routes[route], *after])
            for route in ("query", "document")
        )
        return DualEncoder(query, document, name=name or "query | document")

    def sides(self) -> tuple[TextModel, TextModel]:
        return self.a, self.b

    def two_texts_are_a_pair(self) -> bool:
        return True

    @contextmanager
    def quiet(self) -> Iterator[None]:
        with self.a.quiet(), self.b.quiet():
            yield

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        """One number, with the second input fixed (`ig` and kin)."""
        if text_b is None:
            raise InputError("a dual encoder explains two inputs: give the second one too")
        if request.target is None:
            request = replace(request, target=("similarity", self.b.embed(text_b, request)))
        return compared(self.a.case(text, request=request), text_b)


class ClipText(SentenceEncoder):
    """CLIP's text side: causal transformer, the state at the end token, projected."""

    kind = "clip text"

    def __init__(self, model: Any, tokenizer: Any, *, name: str | None = None) -> None:
        self.clip = model
        super().__init__(model.text_model, tokenizer, pooling="last", name=name or "clip text")

    def whole(self) -> nn.Module:
        whole: nn.Module = self.clip
        return whole

    def settings(self) -> tuple[str, ...]:
        return ()

    def head(
        self, states: Float[Tensor, "B S d"], mask: Bool[Tensor, "B S"], cases: Sequence[Case]
    ) -> Float[Tensor, "B k"]:
        """The end token stands last, after the text and before any padding."""
        projected: Tensor = self.clip.text_projection(super().head(states, mask, cases))
        return projected


@dataclass(frozen=True)
class ImageScore:
    """Patch embeddings, or states of a layer → what is read from the picture's embedding."""

    model: ClipImage
    layer: int
    read: Callable[[Any, Sequence[Case]], Scores]

    def __call__(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Scores:
        return self.read(self.output(points, cases), cases)

    def output(self, points: Float[Tensor, "B S d"], cases: Sequence[Case]) -> Float[Tensor, "B k"]:
        """The embeddings that are read."""
        return self.model.forward(points, self.layer)


class ClipImage(TextModel):
    """CLIP's image side: patches instead of words.

    The path runs between two pictures in patch-embedding space, which is the straight line between their pixels
    (a patch's embedding is linear in its pixels). The class token is held. Units are patches, named by row and
    column. Baselines: "zero" (default: the processor's mean colour), or a picture.
    """

    kind = "clip image"

    def __init__(self, model: Any, processor: Any = None, *, name: str = "clip image") -> None:
        if not hasattr(model, "vision_model") or not hasattr(model, "visual_projection"):
            raise ModelError(
                f"{type(model).__name__} is not of CLIP's architecture (a vision_model and a visual_projection); of SigLIP "
                "the text tower alone is explained, as (model, tokenizer); for pictures use a CLIPModel"
            )
        self.clip, self.processor, self.name = model, processor, name
        self.vision = model.vision_model
        self.depth = len(self.vision.encoder.layers)

    def whole(self) -> nn.Module:
        whole: nn.Module = self.clip
        return whole

    def two_texts_are_a_pair(self) -> bool:
        return True

    def pixels(self, picture: Any) -> Float[Tensor, "C H W"]:
        """A tensor of the model's size as it is, anything else through the processor."""
        size = self.vision.config.image_size
        shape = (self.vision.config.num_channels, size, size)
        if isinstance(picture, Tensor):
            if tuple(picture.shape) != shape:
                raise InputError(f"the picture has shape {tuple(picture.shape)}; this model takes {shape}")
            pixels = picture.float()
        elif self.processor is None:
            raise InputError(f"pass the picture as a tensor {shape}, or give the model's image processor")
        else:
            pixels = self.processor(images=picture, return_tensors="pt")["pixel_values"][0]
        if not torch.isfinite(pixels).all():
            raise InputError("the picture has NaN or infinite pixels")
        return pixels

    def patches(self, pixels: Float[Tensor, "C H W"]) -> Float[Tensor, "S d"]:
        """The class token and every patch, before positions are added."""
        parts = self.vision.embeddings
        with torch.no_grad():
            weight = parts.patch_embedding.weight
            rows = parts.patch_embedding(pixels[None].to(weight)).flatten(2).transpose(1, 2)[0]
            return torch.cat([parts.class_embedding[None], rows]).detach()

    def states(self, rows: Float[Tensor, "B S d"], layer: int) -> Float[Tensor, "B S d"]:
        """The states that enter block `layer`, from patch embeddings."""
        parts = self.vision.embeddings
        states: Tensor = self.vision.pre_layrnorm(rows + parts.position_embedding(parts.position_ids))
        for block in self.vision.encoder.layers[:layer]:
            states = states_of(block(states, None))
        return states

    def forward(self, points: Float[Tensor, "B S d"], layer: int) -> Float[Tensor, "B k"]:
        """The projected embedding before it is normalised."""
        states = self.states(points, 0) if layer == 0 else points
        for block in self.vision.encoder.layers[layer:]:
            states = states_of(block(states, None))
        projected: Tensor = self.clip.visual_projection(self.vision.post_layernorm(states[:, 0]))
        return projected

    def embed(self, text: Any, request: Request) -> Float[Tensor, " k"]:
        with torch.no_grad():
            return self.forward(self.patches(self.pixels(text))[None], 0)[0]

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        layer = check_layer(request.layer, self.depth)
        pixels = self.pixels(text)
        start, name = self._baseline(request.baseline, pixels)
        end, begin = self.patches(pixels), self.patches(start)
        held = torch.zeros(len(end), dtype=torch.bool, device=end.device)
        held[0] = True
        if layer > 0:
            with torch.no_grad():
                begin, end = self.states(torch.stack([begin, end]), layer)
            held = torch.zeros_like(held)
        target = embedding_target(request)
        if target is None:
            raise InputError(
                "a picture's embedding is a vector: pass the second input (a text) to explain their similarity"
            )
        side = self.vision.config.image_size // self.vision.config.patch_size
        names = ("[CLS]", *(f"{row},{column}" for row in range(side) for column in range(side)))
        score = ImageScore(self, layer, target.read)
        return Case(
            ends=Ends(begin, end, held),
            score=score,
            pack=(score, len(end)),
            texts=(),
            tokens=names,
            offsets=((0, 0),) * len(names),
            segments=(-1, *(0,) * (len(names) - 1)),
            target_name=target.name,
            target=target.value,
            outputs=target.outputs,
            baseline=name,
            chosen=Chosen(baseline=name if name == "zero" else None),
            meta={"grid": side},
        )

    def _baseline(self, choice: Any, pixels: Float[Tensor, "C H W"]) -> tuple[Float[Tensor, "C H W"], str]:
        if choice is None or choice == "zero":
            return torch.zeros_like(pixels), "zero"
        if isinstance(choice, str):
            raise InputError(
                f"{setting(baseline=choice)} is not for pictures: they take 'zero' (the mean colour) or a picture; for two sides "
                "pass a tuple, baseline=('zero', 'pad')"
            )
        return self.pixels(choice), "picture"
