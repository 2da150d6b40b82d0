"""What a request may say: the names of `pl.explain`, with bounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=20_000)]
Said = Annotated[str, Field(min_length=1, max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
OPTIONS = (
    "context", "similarity", "norm", "block", "hold", "mode", "steps", "neighbours", "factor", "strategy", "contrast", "generate",
    "tree", "softplus", "path", "prompt", "prompt_name",
)  # fmt: skip


class Choices(BaseModel):
    """Choices every kind of work shares; what is None is left to the library."""

    model_config = ConfigDict(extra="forbid", strict=False)

    model: Name = Field(description="One of the models named at start: GET /api/health lists them.")
    target: int | Said | None = Field(
        None, description="Class index or label; start, end, span; what a generator says."
    )
    baseline: Annotated[str, Field(max_length=2000)] | None = Field(
        None, description="mask, pad, unk, eos, zero, mean, or a text."
    )
    layer: int | None = Field(None, ge=-1000, le=1000)
    unit: Literal["token", "word", "sentence", "turn", "passage"] = "token"
    score: Literal["logit", "logprob", "prob"] | None = None
    tolerance: float = Field(1e-3, ge=1e-9, le=1.0)
    n_steps: int | None = Field(None, ge=1, le=512)
    max_nodes: int = Field(512, ge=1, le=512)
    rule: Literal["adaptive", "gauss", "midpoint", "trapezoid", "left", "right", "split", "log"] | None = None
    truncation: bool = False
    context: Literal["full", "prefix"] | None = None
    similarity: Literal["cosine", "dot"] | None = None
    norm: Literal["outside", "inside"] | None = None
    block: Name | None = None
    hold: list[Name] | None = Field(None, max_length=8)
    mode: Literal["auto", "forward", "reverse"] | None = None
    steps: int | None = Field(None, ge=1, le=100)
    neighbours: int | None = Field(None, ge=1, le=1000)
    factor: int | None = Field(None, ge=0, le=4)
    strategy: Literal["greedy", "maxcount", "grid"] | None = None
    contrast: Said | None = Field(None, description="What a generator could have said instead.")
    generate: int | None = Field(None, ge=1, le=256, description="Tokens of a generator's own to be explained.")
    tree: Annotated[str, Field(max_length=20_000)] | None = None
    softplus: float | None = Field(None, gt=0, le=1e4)
    path: Literal["line", "dig", "udig"] | None = None
    prompt: Annotated[str, Field(max_length=2000)] | None = None
    prompt_name: Name | None = None

    def choices(self) -> dict[str, Any]:
        """As keyword arguments of `pl.explain`."""
        shared = (
            "target",
            "baseline",
            "layer",
            "unit",
            "score",
            "tolerance",
            "n_steps",
            "max_nodes",
            "rule",
            "truncation",
        )
        given = {name: getattr(self, name) for name in shared}
        return given | {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}


class ExplainBody(Choices):
    """POST /api/explain: `pl.explain(model, text, text_b, method=…)`."""

    text: Text
    text_b: Text | None = None
    method: Name | None = None
    system: Text | None = Field(None, description="A chat model's system prompt.")
    passages: list[Text] | None = Field(None, max_length=64, description="Retrieved texts, put before the text.")
    template: Literal["held", "shown"] | None = Field(None, description="The chat template's own tokens; makes a chat.")

    def asked(self) -> Any:
        """The text, or a chat where anything of one was given."""
        if not (self.system or self.passages or self.template):
            return self.text
        from pathlens.text.chat import chat

        shown = {"template": self.template} if self.template else {}
        return chat(user=self.text, system=self.system, passages=self.passages, **shown)


class CompareBody(Choices):
    """POST /api/compare: the same text under several methods, baselines or models."""

    text: Text
    text_b: Text | None = None
    methods: list[Name] | None = Field(None, max_length=8)
    baselines: list[Annotated[str, Field(min_length=1, max_length=2000)]] | None = Field(None, max_length=8)
    models: list[Name] | None = Field(None, max_length=4)


class EditBody(BaseModel):
    """One edit of a unit."""

    model_config = ConfigDict(extra="forbid")

    unit: int | Name
    kind: Literal["mask", "delete", "replace"]
    replacement: Annotated[str, Field(max_length=500)] = ""


class WhatIfBody(Choices):
    """POST /api/whatif: predicted change beside actual change."""

    text: Text
    text_b: Text | None = None
    method: Name | None = None
    edits: list[EditBody] | None = Field(None, max_length=64)


class PathBody(Choices):
    """POST /api/path: what happens along the path."""

    text: Text
    text_b: Text | None = None
    methods: list[Name] | None = Field(None, max_length=3)
    points: int = Field(25, ge=2, le=65)
    words: int = Field(3, ge=1, le=10)


class LayersBody(Choices):
    """POST /api/layers: the same text layer by layer."""

    text: Text
    text_b: Text | None = None
    method: Name | None = None
    layers: list[Annotated[int, Field(ge=0, le=1000)]] | None = Field(None, min_length=1, max_length=64)


class NodesBody(Choices):
    """POST /api/nodes: error against nodes, rule by rule."""

    text: Text
    text_b: Text | None = None
    method: Name | None = None
    counts: list[Annotated[int, Field(ge=1, le=128)]] = Field([4, 8, 16, 32, 64], min_length=1, max_length=8)


class RankBody(Choices):
    """POST /api/rank: `pl.rank(model, query, documents, top=…)`."""

    query: Text
    documents: list[Text] = Field(min_length=1, max_length=64)
    top: int = Field(3, ge=1, le=64)
    one_sided: bool = False
    why: tuple[Annotated[int, Field(ge=0, le=63)], Annotated[int, Field(ge=0, le=63)]] | None = Field(
        None, description="Two places from 0: why the first stands above the second."
    )
