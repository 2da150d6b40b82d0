"""Recurrent layers, opened step by step: linear layers, gates and products have rules, and torch's fused kernels no forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pathlens.integrand.secant.both import RULES, Rule
from pathlens.integrand.secant.table import named

States = tuple[Any, ...]  # h, or h and c
Cell = Callable[..., States]  # what enters (already multiplied), the states, their weight and bias -> the states


def _plain(activation: Callable[[Any], Any]) -> Cell:
    def cell(entering: Any, states: States, weight: Any, bias: Any, project: Any = None) -> States:
        return (activation(entering + functional.linear(states[0], weight, bias)),)

    return cell


def _lstm(entering: Any, states: States, weight: Any, bias: Any, project: Any = None) -> States:
    i, f, g, o = (entering + functional.linear(states[0], weight, bias)).chunk(4, -1)
    c = torch.sigmoid(f) * states[1] + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h if project is None else functional.linear(h, project), c


def _gru(entering: Any, states: States, weight: Any, bias: Any, project: Any = None) -> States:
    (r, z, n), (hr, hz, hn) = entering.chunk(3, -1), functional.linear(states[0], weight, bias).chunk(3, -1)
    update = torch.sigmoid(z + hz)
    new = torch.tanh(n + torch.sigmoid(r + hr) * hn)
    return (new + update * (states[0] - new),)


def _run(
    cell: Cell, steps: list[Any], states: States, weight: Any, bias: Any, project: Any
) -> tuple[list[Any], States]:
    """Every step's output, and the last states; of packed texts a step has those alone that are long enough."""
    outputs = []
    for entering in steps:
        count = len(entering)
        new = cell(entering, tuple(each[:count] for each in states), weight, bias, project)
        outputs.append(new[0])
        whole = count == len(states[0])
        states = new if whole else tuple(torch.cat([a, b[count:]]) for a, b in zip(new, states, strict=True))
    return outputs, states


def _layers(cell: Cell) -> Rule:
    """A whole recurrent layer, as torch calls it: (x, states, weights, ...), or (data, lengths of steps, states, weights, ...)."""

    def follow(x: Any, *args: Any) -> Any:
        packed = isinstance(args[2], list | tuple)  # weights come third there
        sizes, (hidden, weights, has_biases, layers, dropout, train, both_ways) = (
            (args[0].tolist(), args[1:8]) if packed else (None, args[:7])
        )
        if train and dropout > 0:
            return NotImplemented
        batch_first = not packed and bool(args[7])
        alone = isinstance(hidden, Tensor)
        states = (hidden,) if alone else tuple(hidden)
        directions = 2 if both_ways else 1
        each = len(weights) // (layers * directions)
        steps = list(x.split(sizes)) if packed else list((x.transpose(0, 1) if batch_first else x).unbind())
        last: list[States] = []
        for layer in range(layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                w_in, w_hidden, *rest = weights[number * each : (number + 1) * each]
                b_in, b_hidden = rest[:2] if has_biases else (None, None)
                project = rest[-1] if each == 3 + 2 * has_biases else None
                entering = functional.linear(torch.cat(steps), w_in, b_in).split([len(step) for step in steps])
                order = list(reversed(entering)) if direction else list(entering)
                made, final = _run(cell, order, tuple(h[number] for h in states), w_hidden, b_hidden, project)
                last.append(final)
                outputs.append(made[::-1] if direction else made)
            steps = [torch.cat(parts, -1) if len(parts) > 1 else parts[0] for parts in zip(*outputs, strict=True)]
        output = torch.cat(steps) if packed else torch.stack(steps, 1 if batch_first else 0)
        return output, *(torch.stack(parts) for parts in zip(*last, strict=True))

    return follow


def _one_step(cell: Cell) -> Rule:
    def follow(x: Any, hidden: Any, w_in: Any, w_hidden: Any, b_in: Any = None, b_hidden: Any = None) -> Any:
        states: Sequence[Any] = (hidden,) if isinstance(hidden, Tensor) else hidden
        made = cell(functional.linear(x, w_in, b_in), tuple(states), w_hidden, b_hidden)
        return made[0] if isinstance(hidden, Tensor) else made

    return follow


for name, cell in (("rnn_relu", _plain(torch.relu)), ("rnn_tanh", _plain(torch.tanh)), ("lstm", _lstm), ("gru", _gru)):
    RULES.update(dict.fromkeys(named(name), _layers(cell)))
    RULES.update(dict.fromkeys(named(f"{name}_cell"), _one_step(cell)))
