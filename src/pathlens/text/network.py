"""A torch model entered at any layer, and left exactly as it was found."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from pathlens.errors import InputError, ModelError, NumberError
from pathlens.integrand.float64 import Float64
from pathlens.integrand.secant.segments import run_again

# Models share parts (a pipeline's model and its body), and the choice of attention kernels is the whole process's: two
# explanations at once would undo each other's changes. Torch uses the cores all the same.
ONE_AT_A_TIME = threading.RLock()
Forward = Callable[..., Any]  # a module's forward


class Network:
    """A Hugging Face style model, entered where it looks its words up.

    It is called with token ids as its users call it, and its tables of word embeddings answer with rows of ours: all
    that a model does with ids besides (positions, scales, where a text ends, what an expert sees) stays its own.

    Layer 0 is the word embeddings; layer k ≥ 1 the hidden states that enter block k (blocks counted from 0);
    layer `depth` the states that leave the last block.
    """

    def __init__(self, module: nn.Module, whole: nn.Module | None = None) -> None:
        self.module = module
        self.whole = whole or module  # what must be in evaluation mode: the body may be only a part
        self.blocks, self.depth = find_blocks(module)
        self.accepts = accepted(module)
        self.pad = getattr(text_config(module), "pad_token_id", None) or 0
        self.altered = [part for part in module.modules() if hasattr(part, "set_attention_type")]  # by a short text
        self._tuple_output: bool | None = None
        self._mean: tuple[tuple[int, int], Tensor] | None = None
        self.runs_again = False  # inside `checkpointing`
        self.below_too = False  # do blocks below a layer run? Some hand more than states to the next (T5, RWKV)

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
            rows: Any = self.embedding(ids.to(self.device))
        if not isinstance(rows, Tensor):
            raise ModelError(
                f"{type(self.embedding).__name__} of {type(self.module).__name__} gives more than rows (it is made to be "
                "quantised), so there is no straight way between two words; explain the float32 model it was made of (of I-BERT: RoBERTa)"
            )
        return rows.detach()

    def mean_row(self) -> Float[Tensor, " d"]:
        """The mean of all rows of the table, worked out again when the table has been written to."""
        table = self.embedding.weight
        written = (table.data_ptr(), table._version)
        if self._mean is None or self._mean[0] != written:
            row = self.embed(torch.arange(len(table))).float().mean(0).to(table.dtype)
            self._mean = written, row
        return self._mean[1]

    @property
    def tables(self) -> list[nn.Module]:
        """Every module that looks words up: an encoder and a decoder may have one each."""
        halves = [getattr(self.module, name)() for name in ("get_encoder", "get_decoder") if hasattr(self.module, name)]
        candidates = [
            self.embedding,
            *(half.get_input_embeddings() for half in halves if hasattr(half, "get_input_embeddings")),
        ]
        return list({id(table): table for table in candidates if isinstance(table, nn.Module)}.values())

    def call(
        self,
        embeds: Float[Tensor, "B S d"],
        context: Mapping[str, Shaped[Tensor, "..."]],
        written: Float[Tensor, "B T d"] | None = None,
    ) -> Any:
        """One forward pass from word embeddings, and those of `decoder_input_ids` where a second text is written.

        Keyword inputs the model does not know are left out.
        """
        known = {name: value for name, value in context.items() if name in self.accepts}
        if (mask := known.get("attention_mask")) is not None:
            known["input_ids"] = known["input_ids"].masked_fill(mask == 0, self.pad)
        extra = {"use_cache": False} if "use_cache" in self.accepts else {}
        rows = [(known["input_ids"], embeds)]
        rows += [] if written is None else [(known["decoder_input_ids"], written)]
        answer = _Answer(rows)
        with unaltered(self.altered), replaced_forwards(self.tables, answer):
            output = named(self.module(**known, **extra))
        if answer.left:
            raise ModelError(
                f"{type(self.module).__name__} does not look its words up in get_input_embeddings(), where pathlens enters "
                "a model; let that give the table its forward pass calls, or write a model kind (docs/extending.md)"
            )
        return output

    def run(self, states: Float[Tensor, "B S d"], context: Mapping[str, Shaped[Tensor, "..."]], layer: int = 0) -> Any:
        """One forward pass from the states of a layer; the blocks below it cost nothing, unless they are needed."""
        if layer == 0:
            return self.call(states, context)
        if self._tuple_output is None:
            raise RuntimeError("states() must have run once before a layer is entered")
        number = count()

        def forward(original: Forward, *args: Any, **kwargs: Any) -> Any:
            """Blocks below `layer` pass `states` on (or run on nothing, for what else they hand on); block `layer` starts
            from them whatever was done in between."""
            index = next(number)
            if index < layer and self.below_too:
                return original(*args, **kwargs)
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
            with replaced_forwards(self.blocks, run_again):
                yield
        finally:
            self.runs_again = False

    def states(
        self, embeds: Float[Tensor, "B S d"], context: Mapping[str, Shaped[Tensor, "..."]], layer: int
    ) -> Float[Tensor, "B S k"]:
        """The hidden states at a layer, from word embeddings."""
        if layer == 0:
            return embeds
        caught: list[Tensor] = []  # what enters each block, and what leaves the last one

        def forward(original: Forward, *args: Any, **kwargs: Any) -> Any:
            caught.append(_first(args, kwargs).detach())
            output = original(*args, **kwargs)
            self._tuple_output = isinstance(output, tuple | list)  # GPT-1 gives a list
            if len(caught) == self.depth:
                caught.append(states_of(output).detach())
            return output

        with torch.no_grad(), replaced_forwards(self.blocks, forward):
            self.call(embeds, context)
        return caught[layer]


class _Answer:
    """A table's forward: rows of ours for the ids they belong to, its own for any other."""

    def __init__(self, rows: list[tuple[Int[Tensor, "B _"], Float[Tensor, "B _ d"]]]) -> None:
        self.rows = rows
        self.left = list(range(len(rows)))

    def __call__(self, original: Forward, ids: Any, *args: Any, **kwargs: Any) -> Any:
        for number in self.left or range(len(self.rows)):  # an encoder's text and a decoder's may begin alike: in turn
            rows = _rows_for(original, ids, *self.rows[number])
            if rows is not None:
                self.left = [other for other in self.left if other != number]
                return rows
        return original(ids, *args, **kwargs)


def _rows_for(original: Forward, ids: Any, given: Int[Tensor, "B S"], rows: Float[Tensor, "B S d"]) -> Any:
    """The rows of these ids: the given ones, filled up by the model, or moved by one for a decoder of the same text."""
    length = given.shape[1]
    if not isinstance(ids, Tensor) or ids.ndim != 2:
        return None
    if len(ids) == len(given) and ids.shape[1] >= length and torch.equal(ids[:, :length], given):
        return rows.clone() if ids.shape[1] == length else torch.cat([rows, original(ids[:, length:])], dim=1)
    if ids.shape == given.T.shape and torch.equal(ids.T, given):  # XLNet counts tokens first
        return rows.transpose(0, 1).clone()
    if len(ids) != len(given):
        return None
    if ids.shape[1] == length > 1 and torch.equal(ids[:, 1:], given[:, :-1]):
        return torch.cat([original(ids[:, :1]), rows[:, :-1]], dim=1)
    return None


def _first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Float[Tensor, "..."]:
    states: Tensor = args[0] if args else kwargs["hidden_states"]
    return states


def check_layer(layer: int | None, depth: int, *, two_stacks: bool = False) -> int:
    """The layer as a number from 0 to `depth`; negative ones count from the end."""
    if layer is None:
        return 0
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise InputError(f"layer must be a whole number, got {layer!r}")
    number = layer + depth + 1 if layer < 0 else layer
    if depth == 0 and number != 0:
        why = "this model has two stacks of blocks, an encoder's and a decoder's"
        why = why if two_stacks else "no list of blocks was found in this model"
        raise InputError(f"layer={layer}: {why}, so only layer 0 (the embeddings) can be explained").plainly(
            "This model has no blocks to enter: empty the layer.", "layer"
        )
    if not 0 <= number <= depth:
        raise InputError(
            f"layer={layer} is not in this model: it has {depth} blocks, so layer goes from 0 (the embeddings) to {depth} "
            "(the states that leave the last block), or from -1 downwards"
        ).plainly(f"This model has {depth} blocks: a layer is a number from 0 to {depth}.", "layer")
    return number


def states_of(output: Any) -> Float[Tensor, "..."]:
    """The hidden states of a block's output, which may be a tuple or list that begins with them."""
    states: Tensor = output[0] if isinstance(output, tuple | list) else output
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
def unaltered(parts: Sequence[nn.Module]) -> Iterator[None]:
    """BigBird swaps its attention for another at a short text, and keeps it for long ones: put back whatever it did."""
    before = [(part, {**part.__dict__, "_modules": dict(part._modules)}) for part in parts]
    try:
        yield
    finally:
        for part, state in before:
            part.__dict__.update(state)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Dropout off inside, and outputs with names; every module's own mode and config are restored, also after an error.

    One explanation at a time.
    """
    with ONE_AT_A_TIME:
        parts = [*module.modules()]
        training = [part for part in parts if part.training]
        nameless = _nameless(parts)
        try:
            for part in training:
                part.training = False
            for config in nameless:
                config.return_dict = True
            yield
        finally:
            for part in parts:  # whoever was put into training mode meanwhile was not before
                if part.training:
                    part.training = False
            for part in training:
                part.training = True
            for config in nameless:
                config.return_dict = False


@contextmanager
def in_double(module: nn.Module, most: int) -> Iterator[int]:
    """Float32 weights in float64 inside, and all that is made of them; the very same storage back afterwards. Gives the bytes
    that the copies take.

    0, and nothing is changed, where they would take more than `most` or some weight is of another precision.
    """
    with ONE_AT_A_TIME:
        kept = {id(each): each for each in (*module.parameters(), *module.buffers()) if each.dtype == torch.float32}
        taken = sum(2 * each.nbytes for each in kept.values())
        without = ("meta", "mps")  # devices that have no float64
        fits = taken <= most and all(each.device.type not in without for each in kept.values())
        others = any(each.is_floating_point() and each.dtype != torch.float32 for each in module.parameters())
        if not fits or others or not kept:
            yield 0
            return
        before = [(each, each.data) for each in kept.values()]
        try:
            for each, data in before:
                each.data = data.double()
            with Float64():
                yield taken
        finally:
            for each, data in before:
                each.data = data


def _nameless(parts: Iterable[nn.Module]) -> list[Any]:
    """Configs that let a model give its output as a tuple, where nothing says which part is the logits; parts have copies."""
    configs = {id(config): config for part in parts if (config := vars(part).get("config")) is not None}
    return [config for config in configs.values() if getattr(config, "return_dict", None) is False]


class NamedParts(dict[str, Any]):
    """A plain dict of a user's own class, read like an output of transformers."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def named(output: Any) -> Any:
    """A model's output with its parts as attributes, where it gives a plain dict; any other as it is."""
    return NamedParts(output) if type(output) is dict else output


def accepted(module: nn.Module) -> frozenset[str]:
    """The inputs a forward pass takes by name; those of every text model where it passes on whatever comes."""
    names = frozenset(inspect.signature(module.forward).parameters)
    return names if "input_ids" in names else names | {"input_ids", "attention_mask", "token_type_ids"}


def text_config(module: nn.Module) -> Any:
    """The config of the part that reads text: a model that also sees or hears has one for each."""
    config: Any = getattr(module, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def find_blocks(module: nn.Module) -> tuple[list[nn.Module], int]:
    """The model's blocks (distinct modules, in order) and how often they are called in one pass.

    The list of as many equal modules as the config has layers; ALBERT shares its few groups over all layers.
    """
    wanted = getattr(text_config(module), "num_hidden_layers", None)
    if wanted is None:
        return [], 0
    several = text_config(module) is not getattr(module, "config", None)  # towers for pictures have blocks too
    whole: Any = module
    reads: nn.Module = whole.get_decoder() if several and hasattr(module, "get_decoder") else module
    for name, part in reads.named_modules():
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


def refuse_unfit(module: nn.Module) -> None:
    """What gives no output of one text by itself, or no derivative of it."""
    offloaded = any(hasattr(part, "_hf_hook") for part in module.modules())  # weights that come when they are needed
    for name, weight in module.named_parameters():
        if weight.is_meta and not offloaded:
            raise ModelError(
                f"{type(module).__name__} has no numbers in it: its weight {name!r} is on the meta device; load the model with "
                "its weights, for instance by from_pretrained"
            )
        if weight.is_inference():
            raise ModelError(
                f"{type(module).__name__} was made under torch.inference_mode(), so it has no gradients; make or load it outside"
            )
    for part in module.modules():
        # rounds by the largest number of a whole batch
        if ".quantized.dynamic" in type(part).__module__:
            raise ModelError(
                f"{type(module).__name__} is quantised while it runs (int8, dynamic): what it says of a text hangs on the texts "
                "beside it, and it has no derivative; explain the model in float32"
            )
        if type(part).__name__ == "ReformerModel":
            raise ModelError(
                f"{type(module).__name__} is reversible: it gives its gradient in training alone, where dropout makes every "
                "pass another, so nothing of it would add up; pathlens takes models that can be differentiated as they are used"
            )
