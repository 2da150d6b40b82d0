"""Multiple choice: why this answer to the question?"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from pathlens.errors import InputError, setting
from pathlens.text.adapter import Request
from pathlens.text.heads import Classifier, ReadClass
from pathlens.text.language import Target
from pathlens.text.network import accepted
from pathlens.text.tokens import Tokens


class OneChoice(nn.Module):
    """A multiple-choice model asked about one choice at a time: it gives every choice a logit by itself."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.config, self.takes = module, module.config, accepted(module)

    def get_input_embeddings(self) -> Any:
        return self.module.get_input_embeddings()

    def forward(self, **inputs: Shaped[Tensor, "B ..."]) -> Any:
        return self.module(**{name: value[:, None] for name, value in inputs.items() if name in self.takes})


class Chooser(Classifier):
    """`AutoModelForMultipleChoice`: text = question, text_b = one choice; its logit is explained."""

    kind = "multiple choice"

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str | None = None) -> None:
        named = name or str(getattr(module, "name_or_path", "") or type(module).__name__)
        super().__init__(OneChoice(module), tokenizer, name=named)

    @property
    def scores(self) -> tuple[str, ...]:
        """A probability hangs on the other choices."""
        return ("logit",)

    def tokenise(self, text: Any, text_b: Any, request: Request) -> Tokens:
        if text_b is None:
            raise InputError("multiple choice needs two texts: explain(model, question, choice)")
        if request.score not in (None, *self.scores):
            raise InputError(
                f"{setting(score=request.score)}: a choice's probability hangs on the others; explain its logit"
            )
        if request.target is not None and not callable(request.target):
            raise InputError(
                f"{setting(target=request.target)}: multiple choice explains the choice given as the second text and has no "
                "target; leave target out, or give the other choice as text_b"
            )
        return super().tokenise(text, text_b, request)

    def target(self, tokens: Tokens, output: Float[Tensor, "..."], request: Request) -> Target:
        if request.vector:
            return super().target(tokens, output, request)
        return Target(f"the choice {tokens.texts[1]!r} (logit)", ReadClass("logit"), 0, score="logit")
