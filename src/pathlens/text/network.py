"""A torch model entered at any layer, and left exactly as it was found."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pathlens.errors import InputError, ModelError, NumberError

# Models share parts (a pipeline's model and its body), and the choice of attention kernels is the whole process's: two
# explanations at once would undo each other's changes. Torch uses the cores all the same.
ONE_AT_A_TIME = threading.RLock()
Forward = Callable[..., Any]  # a module's forward


class Network:
    """A Hugging Face style model that takes `inputs_embeds`.

    Layer 0 is the word embeddings; layer k ≥ 1 the hidden states that enter block k (blocks counted from 0);
    layer `depth` the states that leave the last block.
    """

    def __init__(self, module: nn.Module, whole: nn.Module | None = None) -> None:
        self.module = module
        self.whole = whole or module  # what must be in evaluation mode: the body may be only a part
        self.blocks, self.depth = find_blocks(module)
        self.accepts = frozenset(inspect.signature(module.forward).parameters)
        self._tuple_output: bool | None = None
        self._mean: tuple[tuple[int, int], Tensor] | None = None
        self.runs_again = False  # inside `checkpointing`

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.weight.dtype

    @property
    def embedding(self) -> nn.Embedding:
        """The table of word embeddings."""
        body: Any = self.module
        try:
            table: nn.Embedding | None = body.get_input_embeddings()
        except (AttributeError, NotImplementedError):
            table = None
        if table is None:
            raise ModelError(
                f"{type(self.module).__name__} has no table of word embeddings (get_input_embeddings() gave "
                "nothing); pathlens needs one to interpolate between words. Pass a Hugging Face text model, or a "
                "plain nn.Module with tensors."
            )
        return table

    def embed(self, ids: Int[Tensor, "*B S"]) -> Float[Tensor, "*B S d"]:
        """Rows as the model itself would look them up (some scale them)."""
        with torch.no_grad():
            rows: Tensor = self.embedding(ids.to(self.device))
        return rows.detach()

    def mean_row(self) -> Float[Tensor, " d"]:
        """The mean of all rows of the table, worked out again when the table has been written to."""
        table = self.embedding.weight
        written = (table.data_ptr(), table._version)
        if self._mean is None or self._mean[0] != written:
            row = self.embed(torch.arange(len(table))).float().mean(0).to(table.dtype)
            self._mean = written, row
        return self._mean[1]

    def call(self, embeds: Float[Tensor, "B S d"], context: Mapping[str, Tensor]) -> Any:
        """One forward pass from word embeddings; keyword inputs the model does not know are left out."""
        accepts = self.accepts | {"position_ids"} if "kwargs" in self.accepts else self.accepts
        known = {name: value for name, value in context.items() if name in accepts}
        extra = {"use_cache": False} if "use_cache" in self.accepts else {}
        return self.module(inputs_embeds=embeds, **known, **extra)

    def run(self, states: Float[Tensor, "B S d"], context: Mapping[str, Tensor], layer: int = 0) -> Any:
        """One forward pass from the states of a layer; the blocks below it cost nothing."""
        if layer == 0:
            return self.call(states, context)
        if self._tuple_output is None:
            raise RuntimeError("states() must have run once before a layer is entered")
        number = count()

        def forward(original: Forward, *args: Any, **kwargs: Any) -> Any:
            """Blocks below `layer` pass `states` on; block `layer` starts from them whatever was done in between."""
            index = next(number)
            if index < layer:
                return (states, None) if self._tuple_output else states
            if index == layer:
                args, kwargs = ((states, *args[1:]), kwargs) if args else ((), {**kwargs, "hidden_states": states})
            return original(*args, **kwargs)

        width = self.embedding.weight.shape[1]
        with replaced_forwards(self.blocks, forward):
            return self.call(states.new_zeros((*states.shape[:2], width), dtype=self.dtype), context)

    @contextmanager
    def checkpointing(self) -> Iterator[None]:
        """Blocks keep their input alone for a reverse pass and run again in it: less memory, a third more time."""
        self.runs_again = True
        try:
            again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
            with replaced_forwards(self.blocks, again):
                yield
        finally:
            self.runs_again = False

    def states(
        self, embeds: Float[Tensor, "B S d"], context: Mapping[str, Tensor], layer: int
    ) -> Float[Tensor, "B S k"]:
        """The hidden states at a layer, from word embeddings."""
        if layer == 0:
            return embeds
        caught: list[Tensor] = []  # what enters each block, and what leaves the last one

        def forward(original: Forward, *args: Any, **kwargs: Any) -> Any:
            caught.append(_first(args, kwargs).detach())
            output = original(*args, **kwargs)
            self._tuple_output = isinstance(output, tuple)
            if len(caught) == self.depth:
                caught.append(states_of(output).detach())
            return output

        with torch.no_grad(), replaced_forwards(self.blocks, forward):
            self.call(embeds, context)
        return caught[layer]


def _first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    states: Tensor = args[0] if args else kwargs["hidden_states"]
    return states


def check_layer(layer: int | None, depth: int) -> int:
    """The layer as a number from 0 to `depth`; negative ones count from the end."""
    if layer is None:
        return 0
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise InputError(f"layer must be a whole number, got {layer!r}")
    number = layer + depth + 1 if layer < 0 else layer
    if depth == 0 and number != 0:
        raise InputError(
            f"layer={layer}: no list of blocks was found in this model, so only layer 0 (the embeddings) can be explained"
        )
    if not 0 <= number <= depth:
        raise InputError(
            f"layer={layer} is not in this model: it has {depth} blocks, so layer goes from 0 (the embeddings) to {depth} "
            "(the states that leave the last block), or from -1 downwards"
        )
    return number


def states_of(output: Any) -> Tensor:
    """The hidden states of a block's output, which may be a tuple that begins with them."""
    states: Tensor = output[0] if isinstance(output, tuple) else output
    return states


@contextmanager
def replaced_forwards(modules: Sequence[nn.Module], forward: Forward) -> Iterator[None]:
    """Each module's forward replaced by `forward(its own, *args, **kwargs)`, and put back whatever happens."""
    before = [(module, module.__dict__.get("forward")) for module in modules]
    try:
        for module in modules:
            module.forward = partial(forward, module.forward)
        yield
    finally:
        for module, replaced in before:
            if replaced is None:
                module.__dict__.pop("forward", None)
            else:
                module.forward = replaced


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Dropout off inside; every module's own mode is restored, also after an error. One explanation at a time."""
    with ONE_AT_A_TIME:
        before = [(part, part.training) for part in module.modules()]
        try:
            for part, _ in before:
                part.training = False
            yield
        finally:
            for part, training in before:
                part.training = training


def find_blocks(module: nn.Module) -> tuple[list[nn.Module], int]:
    """The model's blocks (distinct modules, in order) and how often they are called in one pass.

    The list of as many equal modules as the config has layers; ALBERT shares its few groups over all layers.
    """
    config = getattr(module, "config", None)
    wanted = getattr(config, "num_hidden_layers", None)
    if wanted is None:
        return [], 0
    for name, part in module.named_modules():
        if isinstance(part, nn.ModuleList) and (name.endswith("albert_layer_groups") or len(part) == wanted):
            return list(part), wanted
    return [], 0


def check_weights(module: nn.Module) -> None:
    """Say which parameter is not a number, when one is."""
    for name, parameter in module.named_parameters():
        if not torch.isfinite(parameter).all():
            raise NumberError(
                f"the model's weight {name!r} holds NaN or infinity, so no score can be explained; "
                "load the model again or repair the checkpoint"
            )
