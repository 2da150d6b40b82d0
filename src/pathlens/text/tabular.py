"""A plain `nn.Module` on tensors: every number is a feature with its own score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pathlens.checks import plain_number
from pathlens.errors import InputError, ModelError, NumberError, setting
from pathlens.text.adapter import Case, Chosen, Request, Scores, TextModel, index_of
from pathlens.text.language import OwnFunction, form
from pathlens.text.network import check_weights, named
from pathlens.text.options import TableOptions
from pathlens.types import Ends


@dataclass(frozen=True)
class TabularScore:
    """The chosen output, or all of them."""

    model: Tabular
    shape: tuple[int, ...]
    score: str
    vector: bool
    function: OwnFunction | None = None  # a caller's target

    def __call__(self, points: Float[Tensor, "B F 1"], cases: Sequence[Case]) -> Scores:
        output = self.model.output(points.reshape(len(points), *self.shape))
        if self.function is not None:
            return self.function(output, cases)
        if self.vector:
            return output[:, None]
        return form(output, index_of(cases, output.device), self.score)


class Tabular(TextModel):
    """Rows of features into a module: `explain(module, x)` with x of shape (F,), or any shape without the batch."""

    kind = "tabular"
    options = TableOptions

    def __init__(self, module: nn.Module, *, features: Sequence[str] | None = None, name: str | None = None) -> None:
        self.module = module
        self.features = tuple(features) if features is not None else None
        self.name = name or type(module).__name__

    def whole(self) -> nn.Module:
        return self.module

    def output(self, rows: Float[Tensor, " B *shape"]) -> Float[Tensor, "..."]:
        """(B, C), if the module is as expected; `case` checks it."""
        raw = named(self.module(rows))
        value: Tensor = raw.logits if hasattr(raw, "logits") else raw
        return value[:, None] if value.ndim == 1 else value

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        x = self._tensor(text)
        if text_b is not None:
            raise InputError("a plain module takes one row; a second one was given as text_b")
        if request.layer not in (None, 0) or request.block is not None:
            raise InputError(
                "layer and block need a text model with named blocks; a plain module is explained at its input"
            )
        end = x.reshape(-1, 1)
        start, name = self._baseline(request.baseline, x)
        output = self._output_of(x)
        if not torch.isfinite(output).all():
            check_weights(self.module)
            raise NumberError("the module's output for this row is NaN or infinite although its weights are finite")
        kind = request.score or "logit"
        function = OwnFunction(request.target) if callable(request.target) else None
        target = None if function or request.vector else self._target(output, request.target)
        label = f"output {target} ({kind})" if output.shape[1] > 1 else "output"
        score = TabularScore(self, tuple(x.shape), kind, request.vector, function)
        names = self._names(end.shape[0], request)
        return Case(
            ends=Ends(start.reshape(-1, 1), end, torch.zeros(len(end), dtype=torch.bool, device=end.device)),
            score=score,
            pack=score,
            texts=(),
            tokens=names,
            offsets=((0, 0),) * len(names),
            segments=(0,) * len(names),
            target=target,
            target_name="all outputs" if request.vector else "own function" if function else label,
            outputs=("outputs",) if request.vector else (),
            baseline=name,
            chosen=Chosen(target, kind, "zero" if name == "zero" else None),
            meta={"features": end[:, 0].tolist()},
        )

    def _output_of(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "1 C"]:
        """The module's outputs for one row."""
        try:
            with torch.no_grad():
                output = self.output(x[None])
        except RuntimeError as error:
            raise InputError(
                f"the module does not take a row of shape {tuple(x.shape)} ({str(error).splitlines()[0]}); give one row "
                "without the batch, or a list of rows"
            ) from error
        if output.ndim != 2 or len(output) != 1:
            raise InputError(
                f"one row of shape {tuple(x.shape)} gave an output of shape {tuple(output.shape)}; one number or one row of "
                "numbers was expected. For many rows pass a list: explain(module, list(rows))"
            )
        return output

    def _tensor(self, row: Any) -> Float[Tensor, "*shape"]:
        if not isinstance(row, Tensor):
            try:
                row = torch.as_tensor(row)
            except (TypeError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"a plain nn.Module takes a tensor of features, got {type(row).__name__}; for text pass (model, tokenizer)"
                ) from error
        if row.numel() == 0:
            raise InputError("the row has no features")
        first = next(self.module.parameters(), None)
        if first is not None and first.is_inference():
            inside = "the module was made under torch.inference_mode(), so it has no gradients"
            raise ModelError(f"{inside}; make it outside")
        features: Tensor = row.detach().clone().to(first if first is not None else torch.get_default_dtype())
        if not torch.isfinite(features).all():
            raise InputError("the row holds NaN or infinity; give finite features")
        return features

    def _baseline(self, choice: Any, x: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], str]:
        if choice is None or (isinstance(choice, str) and choice == "zero"):
            return torch.zeros_like(x), "zero"
        if isinstance(choice, str):
            raise InputError(
                f'{setting(baseline=choice)}: a tabular model takes "zero", a tensor, or a list of tensors'
            )
        try:
            start = torch.as_tensor(choice).detach().clone().to(x)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f'the baseline must be "zero" or a tensor, got {type(choice).__name__}') from error
        if start.shape != x.shape:
            shapes = f"the baseline has shape {tuple(start.shape)}, the row {tuple(x.shape)}"
            raise InputError(f"{shapes}; they must be equal")
        return start, "tensor"

    def _target(self, output: Float[Tensor, "1 C"], given: Any) -> int:
        count = output.shape[1]
        wanted = plain_number(given) if given is not None else int(output[0].argmax())
        if not isinstance(wanted, int) or isinstance(wanted, bool) or not -count <= wanted < count:
            several = (
                f"; of several at once give a list, {setting(target=list(range(count))[:3])}"
                if isinstance(given, str) and given == "all"
                else ""
            )
            raise InputError(
                f"{setting(target=wanted)}: the module has {count} outputs, so target goes from 0 to {count - 1}{several}"
            )
        return wanted % count

    def _names(self, count: int, request: Request) -> tuple[str, ...]:
        names = request.options_of(TableOptions).features or self.features
        if names is None:
            return tuple(f"x{i}" for i in range(count))
        if len(names) != count:
            raise InputError(f"{len(names)} feature names were given for {count} features")
        return tuple(map(str, names))
