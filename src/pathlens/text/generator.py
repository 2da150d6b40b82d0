"""Generators: what in the prompt, and in the output so far, made the model say that.

    prompt → opened (a beginning that is held) → outputs (given, or the model's own) → rows of the path and a reading

Output tokens are read by teacher forcing: one forward pass gives the logits of all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pathlens.checks import plain_number
from pathlens.errors import InputError, ModelError, TooLongError, setting
from pathlens.text.adapter import Case, Request
from pathlens.text.baseline import default_name
from pathlens.text.language import LanguageModel, OwnFunction, Target, function_name
from pathlens.text.options import GeneratorOptions
from pathlens.text.outputs import (
    Asked,
    Kept,
    Output,
    ReadNext,
    ReadOutputs,
    as_one_text,
    contrasted,
    output_of_ids,
    output_of_text,
)
from pathlens.text.tokens import Tokens

DEFAULT_SCORE = "logprob"  # a logit's path is rougher, and its own level means nothing


class Generator(LanguageModel):
    """A model with a language-model head. Subclasses say how a prompt begins, how it goes on, and what one pass is.

    Targets: None (the next token, as predicted), a text (a given continuation), a token id; `generate=N` (N tokens,
    each the likeliest); `contrast` (a text: why not that?).
    """

    decoder = True
    token_axis = True
    places_vector = True
    one_text = False  # does the output follow the prompt in the same text?
    options = GeneratorOptions
    default_method = "secant"  # docs/secants.md: integrals need hundreds of nodes here, and name the wrong passages
    default_score = DEFAULT_SCORE  # of a single token's integral; all else adds up in log-probabilities

    def usual_baseline(self, request: Request) -> str:
        """An integral needs a smooth path, from the mean embedding; what takes both ends alone starts where nothing is said.

        Rows of zeros give attention nothing to read. On 80 fresh questions over three passages secants name the right one
        80 times from zeros and 75 times from the mean (docs/prompts.md).
        """
        usual = default_name(self.tokenizer, self.decoder)
        return "zero" if usual == "mean" and not request.integral else usual

    def output(self, raw: Any, cases: Sequence[Case]) -> Float[Tensor, "B P V"]:
        logits = getattr(raw, "logits", None)
        if not isinstance(logits, Tensor) or logits.ndim != 3:
            raise ModelError(
                f"{type(self.module).__name__} returned no logits (tokens × vocabulary); pass the model with its "
                "language-model head (AutoModelForCausalLM or AutoModelForSeq2SeqLM)"
            )
        return logits

    @abstractmethod
    def opened(self, prompt: Tokens, request: Request) -> Tokens:
        """The prompt with what must stand before its output."""

    @abstractmethod
    def reader(self, opened: Tokens) -> Callable[[list[int]], Tensor]:
        """A function: the output so far, which grows by one token from call to call → (V,) logits of the next."""

    @torch.no_grad()
    def greedy(self, opened: Tokens, count: int) -> list[int]:
        """The likeliest next token, `count` times; ends before an end-of-text token, unless that is all there is."""
        ends, read = end_ids(self.module, self.tokenizer), self.reader(opened)
        written: list[int] = []
        while len(written) < count and not ends & set(written):
            with self.in_our_words():
                following = int(read(written).argmax())
            if following in ends and written:
                break
            written.append(following)
        return written

    @abstractmethod
    def laid(self, opened: Tokens, outputs: Sequence[Output]) -> Asked:
        """Rows of the path: the opened prompt and every output token but the last, and where logits are read."""

    @abstractmethod
    def room(self, opened: Tokens) -> int | None:
        """How many output tokens still fit; None: any number."""

    def before(self, opened: Tokens) -> Sequence[int]:
        """The ids that the output follows, as a text is decoded."""
        return opened.ids

    def given(self, opened: Tokens, target: str) -> Output:
        """A target's tokens, as they are after this prompt."""
        return output_of_text(self.tokenizer, _read_text(opened), target)

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Asked:
        if text_b is not None:
            raise InputError(
                f"a generator takes one prompt; give what it should say as {setting(target='…')}, and what it should not as {setting(contrast='…')}"
            )
        opened = self.opened(super().tokenise(text, None, request), request)
        outputs = self._alternatives(opened, request)
        most = max(map(len, outputs))
        self._check_room(opened, most, f"the continuation has {most} tokens", "the continuation")
        asked = self.laid(opened, outputs)
        if not request.each_output and len(asked.texts) > 1:
            asked = as_one_text(asked, follows=self.one_text)
        one = request.integral and len(asked.reading.ids) == 1
        score = request.score or (self.default_score if one else DEFAULT_SCORE)
        meta = {**asked.meta, "score": score, "outputs": [output.text for output in outputs]}
        if request.target is None:
            meta["prediction"] = outputs[0].text  # its own words, not given ones
        notes = (*asked.notes, *self._defaults(request, score))
        given = request.target if isinstance(request.target, str) else outputs[0].ids[0]
        again = None if request.options_of(GeneratorOptions).generate is not None else given
        return replace(asked, name=f"{contrasted(outputs)} ({score})", again=again, meta=meta, notes=notes)

    def _defaults(self, request: Request, score: str) -> tuple[str, ...]:
        """A default of this model's own is not chosen silently."""
        notes = []
        if self.default_layer != 0 and request.layer == self.default_layer:
            notes.append(
                f"the path runs at layer {request.layer}, this model's default (layer 0 is the word embeddings)"
            )
        one_number = not request.vector and not callable(request.target)
        if request.score is None and score != DEFAULT_SCORE and one_number:
            notes.append(
                f"the token's probability is explained, this model's default (the score {DEFAULT_SCORE} is its logarithm)"
            )
        return tuple(notes)

    def _alternatives(self, opened: Tokens, request: Request) -> tuple[Output, ...]:
        """What is explained: one output, or one against another."""
        options = request.options_of(GeneratorOptions)
        count, contrast = options.generate, options.contrast
        if count is not None:
            if request.target is not None:
                raise InputError(
                    "give target (a continuation) or generate (how many tokens to generate), not both"
                ).plainly(
                    "Both what it says and how many tokens it is to write were given. Leave one of them empty.",
                    "generate",
                )
            self._check_room(opened, count, setting(generate=count), "generate fewer")
        target = None if callable(request.target) else request.target
        first = self._output(opened, target, count or 1)
        if contrast is None:
            return (first,)
        if request.vector or callable(request.target):
            raise InputError("contrast is for a target that is a token or a text").plainly(
                "A contrast goes with one word or text, and this method explains a whole vector. Empty it.", "contrast"
            )
        against = self._output(opened, contrast, 1, "contrast")
        if against.ids == first.ids:
            raise InputError(
                f"target and contrast are the same tokens ({first.text!r}); give another contrast"
            ).plainly(f"“{first.text.strip()}” is what it says already. Write something else there.", "contrast")
        return first, against

    def _output(self, opened: Tokens, target: Any, count: int, what: str = "target") -> Output:
        before = self.before(opened)
        if target is None:
            return output_of_ids(self.tokenizer, before, self.greedy(opened, count))
        if isinstance(target, str):
            if not target:
                raise InputError(f"the {what} is an empty text; give the continuation, e.g. {what}=' Paris'")
            return self.given(opened, target)
        number = plain_number(target)
        size = self.network.embedding.weight.shape[0]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < size:
            raise InputError(
                f"{what} of a generator is a text (' Paris'), a token id from 0 to {size - 1}, or None for "
                f"{'the predicted next token' if what == 'target' else 'none'}; got {target!r}"
            )
        return output_of_ids(self.tokenizer, before, [number])

    def _check_room(self, opened: Tokens, count: int, what: str, advice: str) -> None:
        left = self.room(opened)
        if left is not None and count > left:
            raise TooLongError(
                f"{what}, and after the prompt's {len(opened)} tokens only {left} fit into the model's {self.limit}; "
                f"shorten the prompt or {advice}"
            ).plainly(
                f"The prompt has {len(opened)} tokens, and the model has room for {left} more where {count} are asked for. "
                "Shorten the prompt, or ask for fewer.",
                "text",
            )

    def function_target(self, tokens: Tokens, function: Callable[[Any], Tensor]) -> Target:
        """A caller's function gets the logits (B, V) of the next token."""
        assert isinstance(tokens, Asked)
        return Target(function_name(function), ReadNext(OwnFunction(function)), tokens.reading)

    def predicts(self, request: Request) -> bool:
        """The output was given, or written token by token when the prompt was read."""
        return False

    def target(self, tokens: Tokens, output: Kept | None, request: Request) -> Target:
        assert isinstance(tokens, Asked)  # see `tokenise`
        reading, score = tokens.reading, str(tokens.meta["score"])
        if request.vector:
            if request.target is not None or request.options_of(GeneratorOptions).generate is not None:
                raise InputError(
                    "vaig explains all logits of the next token as one vector, so it takes no target; leave it out, explain a "
                    f"block ({setting(block='…')}), or use ig for a single token"
                ).plainly(
                    "This method explains every next word at once. Empty what it says, or choose another method.",
                    "target",
                )
            return Target("logits of the next token", ReadNext(), reading, outputs=("next token",))
        each = len(reading.ids) if request.each_output and len(reading.ids) > 1 and min(reading.sign) > 0 else None
        outputs = () if each is None else reading.outputs
        return Target(tokens.name, ReadOutputs(score, each), reading, outputs, tokens.again, score)


def _read_text(opened: Tokens) -> str:
    """The prompt as far as it was read: a cut one ends with its last token."""
    text = opened.texts[0]
    return text[: max(end for _, end in opened.offsets)] if opened.meta.get("truncated") else text


def end_ids(module: nn.Module, tokenizer: Any) -> set[int]:
    stated = getattr(getattr(module, "generation_config", None), "eos_token_id", None)
    listed = stated if isinstance(stated, list | tuple) else [stated]
    return {int(i) for i in (*listed, getattr(tokenizer, "eos_token_id", None)) if i is not None}
