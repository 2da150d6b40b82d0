"""What a model can be asked on the page: its views and the choices that apply to it, each with what an empty field means.

The page offers these and nothing else, so whatever is listed here must work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import regex

from pathlens.checks import option_names
from pathlens.types import SCORES

if TYPE_CHECKING:
    from pathlens.text.adapter import TextModel

SECOND = {"question answering": "Passage", "multiple choice": "Choice"}  # kinds that need it, and what it is there
BETWEEN = regex.compile(r"entail|contradict|duplicate|paraphrase|equivalent|relevant|similar", regex.IGNORECASE)
NAMELESS = regex.compile(r"label_\d+", regex.IGNORECASE)  # what a model is given that names no classes
MANY = 200  # classes that are listed


def offers(model: TextModel) -> dict[str, Any]:
    """What a page needs to know of a model that is ready."""
    generator, pair = "generate" in option_names(model.options), model.two_texts_are_a_pair()
    tokenizer = getattr(model, "tokenizer", None)
    classes = model.kind == "sequence classification" and len(model.labels) > 1
    answers = model.kind == "causal language model"
    chat = answers and bool(getattr(tokenizer, "chat_template", None))
    views = {
        "explain": not pair and model.kind != "tabular",
        "pair": pair,
        "table": classes,
        "rank": pair,
        "answer": chat,
    }
    second, scores = _second(model), _scores(model)
    return {
        "kind": model.kind,
        "views": [name for name, there in views.items() if there],
        "pair": pair,
        "generator": generator,
        "answers": chat,
        "chat": chat,
        "labels": list(model.labels[:MANY]),
        "targets": _targets(model),
        "second": second,
        "second_name": SECOND.get(model.kind, "Second text"),
        "methods": _methods(model, second),  # of each view, its default first
        "baselines": _baselines(model),
        "scores": scores,
        "other_score": _other_score(model, scores),
        "layers": model.depth,
        "blocks": _blocks(model),
        "mask": _mask(tokenizer),
        "defaults": {
            "baseline": _baseline(model),
            "layer": model.default_layer,
            **({"score": scores[0]} if scores else {}),
        },
    }


def _second(model: TextModel) -> str:
    """Does the model read a second text with the first: "must", "may", or "" where one would only confuse it?

    A classifier's classes say whether they are about two texts; one number for a text is mostly a ranker's; where the
    classes have no names nobody can tell.
    """
    if model.kind in SECOND:
        return "must"
    if model.kind != "sequence classification":
        return ""
    about_two = any(BETWEEN.search(label) or NAMELESS.fullmatch(label) for label in model.labels)
    return "may" if about_two or len(model.labels) < 2 else ""


def _targets(model: TextModel) -> list[str] | None:
    """What may be explained, by name; None: words of one's own; nothing where there is no choice."""
    if model.kind == "sequence classification":
        return list(model.labels[:MANY]) if len(model.labels) > 1 else []
    if model.kind == "question answering":
        return ["span", "start", "end"]
    words_of_ones_own = ("masked language model", "token classification", "zero-shot classification")
    return None if "generate" in option_names(model.options) or model.kind in words_of_ones_own else []


def _methods(model: TextModel, second: str) -> dict[str, list[str]]:
    """Names by view. One input: through words where the vocabulary has as many as are looked at, phrases where it reads one
    text. Two: what compares them, then scores of the one beside the other."""
    from pathlens.engine.methods import METHODS
    from pathlens.engine.options import AnswerOptions, Compared
    from pathlens.explanation.record import Explanation, PhraseTree
    from pathlens.path.words.options import PRESETS
    from pathlens.vectors.encode import OF_MANY

    network = getattr(model, "network", None)
    words = 0 if network is None else network.embedding.weight.shape[0]
    unfit = {each.method for each in PRESETS.values() if each.neighbours >= words}
    phrases = second != "must"
    one = [e for e in METHODS.values() if e.sides == 1 and e.name not in unfit]
    one = [e for e in one if phrases or e.result is not PhraseTree]
    compared = [name for name, entry in METHODS.items() if issubclass(entry.record, Compared)]
    beside = [e.name for e in METHODS.values() if e.result is Explanation and e.record().through_words is None]
    views = {
        "explain": (model.default_method, [entry.name for entry in one]),
        "pair": (model.default_method, [*compared, *beside]),
        "rank": (OF_MANY, compared),
        "answer": (AnswerOptions.method, [n for n, entry in METHODS.items() if entry.record.by_output]),
    }
    each_once = {view: (first, dict.fromkeys(names)) for view, (first, names) in views.items()}
    return {view: sorted(names, key=lambda name: name != first) for view, (first, names) in each_once.items()}


def _baseline(model: TextModel) -> str:
    from pathlens.engine.methods import METHODS
    from pathlens.text.adapter import Request
    from pathlens.text.baseline import default_name
    from pathlens.text.generator import Generator

    tokenizer, shift = getattr(model, "tokenizer", None), getattr(model, "shift", None)
    if model.two_texts_are_a_pair():
        return "quiet" if shift is None else str(shift.reference)
    if isinstance(model, Generator):
        return model.usual_baseline(Request(integral=METHODS[model.default_method].integrates))
    return default_name(tokenizer, getattr(model, "decoder", False)) if tokenizer else "zero"


def _baselines(model: TextModel) -> list[str]:
    """Names that this model's vocabulary has, the default first."""
    from pathlens.text.baseline import own_names

    tokenizer = getattr(model, "tokenizer", None)
    known = own_names(tokenizer) if tokenizer is not None else ("zero",)
    return list(dict.fromkeys([_baseline(model), *(["quiet"] if model.two_texts_are_a_pair() else []), *known]))


def _scores(model: TextModel) -> list[str]:
    """What is read from the output, the default first; nothing where there is one way only."""
    if model.kind == "multiple choice" or model.two_texts_are_a_pair() or getattr(model, "tokenizer", None) is None:
        return []
    default = getattr(model, "default_score", "logprob" if model.kind == "masked language model" else "logit")
    one = model.kind == "sequence classification" and len(model.labels) == 1  # its one number is no class's
    known = getattr(model, "scores", SCORES)
    return ["logit"] if one else [default, *(score for score in known if score != default)]


def _other_score(model: TextModel, scores: list[str]) -> str:
    """The default where what is explained is no integral, or several output tokens: a generator's own is of one token's."""
    from pathlens.text.generator import DEFAULT_SCORE

    return DEFAULT_SCORE if hasattr(model, "default_score") else scores[0] if scores else ""


def _blocks(model: TextModel) -> list[str]:
    """Names of the blocks, as `block` takes them."""
    network, whole = getattr(model, "network", None), model.whole()
    if network is None or whole is None:
        return []
    known = {id(block) for block in network.blocks}
    return [name for name, module in whole.named_modules() if id(module) in known]


def _mask(tokenizer: Any) -> str:
    """What stands for a masked word in a text, where the tokenizer reads it as one; "" where nothing does."""
    word = getattr(tokenizer, "mask_token", None)
    if not word:
        return ""
    read = tokenizer(word, add_special_tokens=False)["input_ids"]
    return str(word) if list(read) == [tokenizer.mask_token_id] else ""
