"""What a request may say, and what is done for it: the names of `pl.explain` and of the studies, with bounds.

Options are not written here: they come from the records of the library, with narrower bounds where others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model

import pathlens as pl
from pathlens.checks import Option, options_of
from pathlens.engine.options import Accuracy, AnswerOptions, CommonOptions, options
from pathlens.errors import InputError
from pathlens.explanation.base import likeliest
from pathlens.explanation.view import Viewable
from pathlens.serve.tasks import BOUNDS
from pathlens.serve.words import of_error
from pathlens.studies.compare import side_by_side
from pathlens.studies.whatif import KINDS
from pathlens.text.options import RESTS, TEMPLATES, offered_options
from pathlens.types import PROMPT_UNITS, TEXT_UNITS

if TYPE_CHECKING:
    from pathlens.text.adapter import TextModel

Take = Callable[[str], Any]  # the name of a model → the model, watched
Text = Annotated[str, Field(min_length=1, max_length=BOUNDS["characters"])]
Words = Annotated[str, Field(min_length=1, max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Place = Annotated[int, Field(ge=0, lt=BOUNDS["documents"])]
MOST = {  # lower than the library's: others wait
    "steps": 100, "neighbours": 1000, "factor": 4, "generate": 256, "n_steps": BOUNDS["nodes"], "max_nodes": BOUNDS["nodes"],
}  # fmt: skip
WRITTEN_AS: dict[str, Any] = {  # where the type alone does not say what JSON may hold
    "tree": Annotated[str, Field(max_length=BOUNDS["characters"])],
    "hold": Annotated[list[Name], Field(max_length=8)],
    "contrast": Words,
    "sink": bool | Name,
    "prompt": Annotated[str, Field(max_length=2000)],
    "tolerance": Annotated[float, Field(ge=1e-9, le=1.0)],
    "target": int | Words | tuple[int, int | Words | None],  # the last: (token, label or word)
    "baseline": Annotated[str, Field(max_length=2000)],
    "layer": Annotated[int, Field(ge=-1000, le=1000)],
    "unit": Literal[*TEXT_UNITS, *PROMPT_UNITS],
    "softplus": Annotated[float, Field(gt=0, le=1e4)],
    "threshold": Annotated[float, Field(gt=0, le=1)],
}
NOT_SERVED = ("coordinates", "cache", "wae")  # too large an answer, a folder of this machine, a study of its own


def _kind(option: Option) -> Any:
    """What JSON may hold for an option; None where it has no form there."""
    if option.name in NOT_SERVED:
        return None
    if option.choices:
        return Literal[option.choices]
    if option.name in WRITTEN_AS:
        return WRITTEN_AS[option.name]
    plain = next((each for each in get_args(option.type) or (option.type,) if each is not NoneType), Any)
    if plain is int:
        most = [each for each in (option.most, MOST.get(option.name)) if each is not None]
        return Annotated[int, Field(ge=option.least, le=min(most, default=None))]
    return {str: Name, bool: bool}.get(plain)


OF_EVERYONE = (*options_of(CommonOptions), *options_of(Accuracy))
OFFERED = (*OF_EVERYONE, *offered_options(), *options())  # of a name several have, the methods' is offered
SERVED = {each.name: each for each in OFFERED if _kind(each) is not None}


class _Shared(BaseModel):
    """Choices every kind of work shares; what is None is left to the library."""

    model_config = ConfigDict(extra="forbid", strict=False)

    model: Name = Field(description="One of the models named at start: GET /api/health lists them.")

    def choices(self, *without: str) -> dict[str, Any]:
        """As keyword arguments of `pl.explain`."""
        names = [name for name in SharedRequest.model_fields if name not in ("model", *without)]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


OF_ANSWERS = {each.name: each for each in options_of(AnswerOptions)}


def _fields(served: Mapping[str, Option]) -> dict[str, Any]:
    return {name: (_kind(each) | None, Field(None, description=each.help)) for name, each in served.items()}


if TYPE_CHECKING:
    SharedRequest = _Shared
    _AnswerFields = _Shared
else:
    SharedRequest = create_model("SharedRequest", __base__=_Shared, **_fields(SERVED))
    _AnswerFields = create_model("_AnswerFields", __base__=_Shared, **_fields(OF_ANSWERS))


class _OfOneText(SharedRequest):
    text: Text
    text_b: Text | None = None

    def particular(self) -> dict[str, Any]:
        """What this kind of work alone has, where something was given."""
        names = [name for name in type(self).model_fields if name not in _OfOneText.model_fields]
        return {name: value for name in names if (value := getattr(self, name))}


class ExplainRequest(_OfOneText):
    """POST /api/explain: `pl.explain(model, text, text_b, method=…)`."""

    method: Name | None = None
    system: Text | None = Field(None, description="A chat model's system prompt.")
    passages: list[Text] | None = Field(None, max_length=64, description="Retrieved texts, put before the text.")
    template: Literal[TEMPLATES] | None = Field(  # type: ignore[valid-type]
        None, description="The chat template's own tokens; makes a chat."
    )
    rest: Literal[RESTS] | None = Field(  # type: ignore[valid-type]
        None, description="What is no passage, where passages are asked for."
    )

    def answer(self, take: Take) -> Any:
        of_chat = self.particular()
        method = of_chat.pop("method", None)
        prompt = pl.chat(user=self.text, **of_chat) if of_chat else self.text
        return pl.explain(take(self.model), prompt, self.text_b, method=method, **self.choices())


class CompareRequest(_OfOneText):
    """POST /api/compare: the same text under several methods, baselines or models."""

    methods: list[Name] | None = Field(None, max_length=8)
    baselines: list[Words] | None = Field(None, max_length=8)
    models: list[Name] | None = Field(None, max_length=4)

    def answer(self, take: Take) -> Any:
        choices = {**self.choices(), **self.particular()}
        if self.models:
            choices["models"] = [take(name) for name in self.models]
            if choices.get("unit", "token") == "token":  # those of two models need not be the same
                choices["unit"] = "word"
        return pl.studies.compare(take(self.model), self.text, self.text_b, **choices)


class EditRequest(BaseModel):
    """One edit of a unit."""

    model_config = ConfigDict(extra="forbid")

    unit: int | Name
    kind: Literal[KINDS]  # type: ignore[valid-type]
    replacement: Annotated[str, Field(max_length=500)] = ""


class WhatIfRequest(_OfOneText):
    """POST /api/whatif: predicted change beside actual change."""

    method: Name | None = None
    edits: list[EditRequest] | None = Field(None, max_length=64)

    def answer(self, take: Take) -> Any:
        edits = None if self.edits is None else [(each.unit, each.kind, each.replacement) for each in self.edits]
        choices = {**self.choices(), **self.particular(), "edits": edits}
        return pl.studies.whatif(take(self.model), self.text, text_b=self.text_b, **choices)


class PathRequest(_OfOneText):
    """POST /api/path: what happens along the path."""

    methods: list[Name] | None = Field(None, max_length=3)
    points: int = Field(25, ge=2, le=65)
    words: int = Field(3, ge=1, le=10)

    def answer(self, take: Take) -> Any:
        return pl.studies.pathview(take(self.model), self.text, self.text_b, **self.particular(), **self.choices())


class LayersRequest(_OfOneText):
    """POST /api/layers: the same text layer by layer."""

    method: Name | None = None
    layers: list[Annotated[int, Field(ge=0, le=1000)]] | None = Field(None, min_length=1, max_length=64)

    def answer(self, take: Take) -> Any:
        return pl.studies.layers(take(self.model), self.text, self.text_b, **self.particular(), **self.choices("layer"))


class NodesRequest(_OfOneText):
    """POST /api/nodes: error against nodes, rule by rule."""

    method: Name | None = None
    counts: list[Annotated[int, Field(ge=1, le=128)]] = Field([4, 8, 16, 32, 64], min_length=1, max_length=8)

    def answer(self, take: Take) -> Any:
        return pl.studies.nodes(take(self.model), self.text, self.text_b, **self.particular(), **self.choices())


class RankRequest(SharedRequest):
    """POST /api/rank: `pl.rank(model, query, documents, top=…)`."""

    query: Text
    method: Name | None = None
    documents: list[Text] = Field(min_length=1, max_length=BOUNDS["documents"])
    top: int = Field(3, ge=1, le=BOUNDS["documents"])
    one_sided: bool = False
    why: tuple[Place, Place] | None = Field(
        None, description="Two places from 0: why the first stands above the second."
    )

    def answer(self, take: Take) -> Any:
        chosen = {"top": self.top, "one_sided": self.one_sided, **self.choices("target", "score")}
        chosen |= {"method": self.method} if self.method else {}
        ranking = pl.rank(take(self.model), self.query, self.documents, **chosen)
        return ranking.with_reason(*self.why) if self.why else ranking


class EvaluateRequest(SharedRequest):
    """POST /api/evaluate: how far the scores can be believed, `pl.evaluate(model, texts, methods=…)`."""

    texts: list[Text] = Field(min_length=1, max_length=BOUNDS["documents"])
    methods: list[Name] | None = Field(None, min_length=1, max_length=8)

    def answer(self, take: Take) -> Any:
        without = ("target", "score", "unit", "baseline")
        chosen: dict[str, Any] = {"baselines": [self.baseline]} if self.baseline else {}  # type: ignore[attr-defined]
        chosen |= {"methods": self.methods} if self.methods else {}
        return pl.evaluate(take(self.model), self.texts, **chosen, **self.choices(*without))


class AnswerRequest(_AnswerFields):
    """POST /api/answer: `pl.answer(model, question, sources, answer)`, which part of which source made it say this."""

    question: Text
    sources: list[Text] = Field(min_length=1, max_length=BOUNDS["documents"])
    reply: Text | None = Field(None, description="The answer to explain; None: what the model writes.")

    def answer(self, take: Take) -> Any:
        chosen = {name: value for name in OF_ANSWERS if (value := getattr(self, name)) is not None}
        with take(self.model).itself() as model:
            return pl.answer(model, self.question, self.sources, self.reply, **chosen)


class CompareAnswersRequest(AnswerRequest):
    """POST /api/answers: one sentence of the same answer under several methods, side by side."""

    reply: Text = Field(description="The answer to explain.")
    methods: list[Literal[OF_ANSWERS["method"].choices]] = Field(min_length=1, max_length=8)  # type: ignore[valid-type]
    sentence: Place = Field(0, description="Which sentence of the answer, from 0.")

    def answer(self, take: Take) -> Any:
        each_alone = [self.model_copy(update={"method": each}) for each in self.methods]
        answers = [super(CompareAnswersRequest, each).answer(take) for each in each_alone]
        if self.sentence >= len(answers[0].sentences):
            raise InputError(
                f"the answer has {len(answers[0].sentences)} sentences, counted from 0; got sentence={self.sentence}"
            )
        # what is explained is that sentence, and so it is what stands above it
        rows = [(each.sentence(self.sentence), each.sentences[self.sentence]) for each in answers]
        return side_by_side([row.derived(meta={**row.meta, "outputs": [words]}) for row, words in rows])


class PredictRequest(_Shared):
    """POST /api/predict: what a classifier says of many texts, each with the probability of every class."""

    texts: list[Text] = Field(min_length=1, max_length=BOUNDS["documents"])
    texts_b: list[Text] | None = Field(None, max_length=BOUNDS["documents"])

    def answer(self, take: Take) -> Predictions:
        others: list[Any] = self.texts_b or [None] * len(self.texts)
        if len(others) != len(self.texts):
            raise InputError(f"{len(self.texts)} texts and {len(others)} second texts were given; they go in pairs")
        return Predictions.of(take(self.model), list(zip(self.texts, others, strict=True)))


# ---- what a classifier says of many texts, for a table of them; nothing is explained here


@dataclass(frozen=True, eq=False)
class Predictions(Viewable):
    """One row a text: its prediction and the probability of every class, or why it cannot be read."""

    rows: tuple[dict[str, Any], ...]

    @staticmethod
    def of(model: TextModel, pairs: Sequence[tuple[str, str | None]]) -> Predictions:
        """The model is run as `pl.explain` runs it, so that both say the same; what cannot be read does not stop the rest."""
        explainer = pl.Explainer(model)
        request = explainer.choices.request()
        with explainer.at_work():
            read = model.cases([(text, other, request) for text, other in pairs])
            probabilities = iter(model.says([each for each in read if not isinstance(each, Exception)]))
        rows = tuple(_refused(each) if isinstance(each, Exception) else _row(next(probabilities)) for each in read)
        if len({row.get("error") for row in rows} - {None}) == 1 and all("error" in row for row in rows):
            # it is not the texts' fault
            raise InputError(f"{rows[0]['error']} ({model.name!r} is {model.plain_kind})").plainly(rows[0]["words"])
        return Predictions(rows)


def _refused(error: Exception) -> dict[str, Any]:
    trouble = of_error(error)
    return {"error": trouble.detail, "words": trouble.words}


def _row(probabilities: Any) -> dict[str, Any]:
    if probabilities is None or probabilities.about is not None:  # a tag or a word is no class of the text
        return dict.fromkeys(("error", "words"), "the model names no class for this text")
    return {"prediction": likeliest(probabilities.text), "probabilities": probabilities.text}


REQUESTS: dict[str, Any] = {
    "explain": ExplainRequest,
    "predict": PredictRequest,
    "evaluate": EvaluateRequest,
    "answer": AnswerRequest,
    "answers": CompareAnswersRequest,
    "rank": RankRequest,
    "compare": CompareRequest,
    "whatif": WhatIfRequest,
    "path": PathRequest,
    "layers": LayersRequest,
    "nodes": NodesRequest,
}
