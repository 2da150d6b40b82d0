"""Masked language models: why this word in the gap?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pathlens.checks import plain_number
from pathlens.errors import InputError, setting
from pathlens.text.adapter import Case, Probabilities, Request, index_of
from pathlens.text.heads import ReadTag, at_token
from pathlens.text.language import LanguageModel, Score, Target
from pathlens.text.options import ModelOptions
from pathlens.text.tokens import Tokens
from pathlens.types import SCORES

WORDS = 5  # whose probabilities are kept, besides the one that is explained
DEFAULT_SCORE = "logprob"  # as of models that write: a logit's own level means nothing


def read_gap(output: Float[Tensor, "B S V"], cases: Sequence[Case]) -> Float[Tensor, "B 1 V"]:
    """All logits at the gap, as one vector."""
    place = index_of(cases, output.device)[:, 0]
    return output[torch.arange(len(cases), device=output.device), place][:, None]


class MaskedLM(LanguageModel):
    """`AutoModelForMaskedLM`: the text holds the mask token where a word is missing ("Paris is the [MASK] of France.").

    Target: a word of the vocabulary or a token id (default: the likeliest); where there are several gaps (token index, word),
    with None for the likeliest word. Gaps are held along the path.
    """

    kind = "masked language model"
    token_axis = True
    places_vector = True
    among: tuple[int, ...] = ()  # words a pipeline chooses from, by their numbers; none: all

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        tokens = super().tokenise(text, text_b, request)
        mask = self.tokenizer.mask_token_id
        gaps = [token == mask for token in tokens.ids]
        if not any(gaps):
            raise InputError(
                f"a masked language model fills a gap: write {self.tokenizer.mask_token} where the word is missing; to compare "
                f"two texts by their vectors load the model with {setting(pooling='mean')}"
            ).plainly(
                f"This model fills a gap. Write {self.tokenizer.mask_token} in the text where the word is missing.",
                "text",
            )
        held = tokens.holding([gap or segment < 0 for gap, segment in zip(gaps, tokens.segments, strict=True)])
        return held.noted("the gap is held", gaps=[i for i, gap in enumerate(gaps) if gap])

    def target(self, tokens: Tokens, output: Float[Tensor, "1 S V"], request: Request) -> Target:
        gaps, wanted = tokens.meta["gaps"], request.target
        chosen = isinstance(wanted, tuple | list) and len(wanted) == 2
        place, word = wanted if chosen else (gaps[0], wanted)
        if place not in gaps or (len(gaps) > 1 and not chosen):
            *some, last = map(str, gaps)
            where = f"gaps at tokens {', '.join(some)} and {last}" if some else f"one gap, at token {last}"
            raise InputError(
                f"this text has {where}, and {setting(target=wanted)} does not say which is meant: "
                f"target=({gaps[0]}, {word if isinstance(word, str | int) else None!r})"
            )
        number = self._likeliest(output[0, place]) if word is None else self._word(word, tokens, output.shape[-1])
        if request.vector:
            if word is not None:
                raise InputError(
                    f"{setting(target=wanted)}: every word of the gap is explained at once, as one vector; leave the word out"
                    + (f": target=({place}, None)" if len(gaps) > 1 else "")
                )
            return Target("all words of the gap", read_gap, (place, number), outputs=("gap",))
        score = request.score or DEFAULT_SCORE
        return Target(
            f"{self._shown(number)!r} in the gap ({score})", ReadTag(score), (place, number), (), (place, number), score
        )

    @torch.no_grad()
    def says(self, cases: Sequence[Case]) -> list[Probabilities | None]:
        """Of the gap that is asked about: the likeliest words, and the one that is explained."""
        known = [
            isinstance(each.score, Score) and each.score.read in (read_gap, *map(ReadTag, SCORES)) for each in cases
        ]
        return [self._in_gap(case) if some else None for case, some in zip(cases, known, strict=True)]

    def _in_gap(self, case: Case) -> Probabilities:
        assert isinstance(case.score, Score)
        place, asked = case.target
        start = self.plain_forward(case.ends.start[None], [case], case.score.layer)
        ends = [output[0, place].double().softmax(-1) for output in (case.output, start)]
        some = torch.tensor(list(self.among) or range(len(ends[0])), device=ends[0].device)
        likeliest = some[ends[0][some].topk(min(WORDS, len(some))).indices].tolist()
        names: dict[str, int] = {self._shown(asked): asked}
        for (
            number
        ) in likeliest:  # " Paris" and "Paris" are two tokens with one name: the second is written as it is stored
            if number != asked:
                shown = self._shown(number)
                names[str(self.tokenizer.convert_ids_to_tokens(number)) if shown in names else shown] = number
        here, there = ({name: float(shares[number]) for name, number in names.items()} for shares in ends)
        gaps = case.meta["gaps"]
        where = "in the gap" if len(gaps) == 1 else f"in the gap at token {place}"
        about = at_token(case, place, where, words=True, asked=self._shown(asked))
        return Probabilities(
            here, there, about=about, targets={name: (place, number) for name, number in names.items()}
        )

    def _shown(self, number: int) -> str:
        """A token of the vocabulary for people."""
        return str(self.tokenizer.decode([number])).strip() or str(self.tokenizer.convert_ids_to_tokens(number))

    def every_target(self, options: ModelOptions) -> tuple[Any, ...]:
        """The words a pipeline was told, unless one of them is "all"; else there is a vocabulary of them: refused."""
        if not self.among:
            raise InputError(
                f"{setting(target='all')} would be each of the {len(self.tokenizer)} words of the vocabulary; name those you mean in a list, "
                "target=['good', 'bad'], also where the word is \"all\" itself: target=['all']"
            ).plainly("Every word of the vocabulary is too many. Name the word you mean.", "target")
        return () if "all" in (self.tokenizer.decode([word]).strip() for word in self.among) else self.among

    def settings(self) -> tuple[str | int | float, ...]:
        return (*super().settings(), *self.among)

    def _likeliest(self, logits: Float[Tensor, " V"]) -> int:
        some = list(self.among) or list(range(len(logits)))
        return some[int(logits[some].argmax())]

    def _word(self, word: Any, tokens: Tokens, size: int) -> int:
        """A word as it is in this text, one token long."""
        number = plain_number(word)
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < size:
            return number
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"target of a masked language model is a word or a token id below {size}, got {word!r}")
        begins = tokens.texts[0].startswith(self.tokenizer.mask_token)
        for each in (word, f" {word}") if begins else (f" {word}", word):
            ids = self.tokenizer(each, add_special_tokens=False)["input_ids"]
            if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id:
                return int(ids[0])
        pieces = " ".join(map(str, self.tokenizer.convert_ids_to_tokens(ids)))
        raise InputError(
            f"{setting(target=word)} is not one token of this model's vocabulary (it becomes {pieces}); a gap has one"
        ).plainly(f"“{word}” is more than one word to this model ({pieces}), and a gap takes one.", "target")
