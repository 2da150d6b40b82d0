"""Second order: how much two units' shares depend on each other, one Hessian–vector product per unit.

H_ij = δ_iᵀ ∇²F δ_j. Forward over reverse along δ_i gives ∇²F δ_i; contracted with every δ_j it is a whole row.
So a point costs one product per row wanted, not one second derivative per coordinate.

Integrated Hessians need ∫₀¹ (−ln u)·(u·H + diag g) du (Janizek, Sturmfels, Lee: Explaining Explanations, JMLR
2021; both of their integrals in one), so that is what is taken at a point: the rule carries −ln u.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.func import grad, jvp, vmap

from pathlens.integrand.batch import Batch, Integrand, any_derivative, out_of_memory, share_of
from pathlens.integrand.second_derivative import check_twice, no_second_derivative

BASE_ROWS = 2.5  # what the gradient keeps for all directions, in rows of a reverse pass of that attention
DIRECTION_ROWS = 3.0  # what each direction adds while it is under way (MiniLM, 32, 128 and 512 tokens)
LONG = 96  # tokens from which reverse twice is as quick (MiniLM) and takes far less memory
PLANNED = 16  # directions at once that the planner counts with; fewer when the budget is smaller

Directions = Float[Tensor, "R B S"]  # 0/1, the tokens that move together
Derivatives = tuple[Float[Tensor, "B S"], Float[Tensor, "R B S"]]


@dataclass(frozen=True)
class Hessian(Integrand):
    """u·H + diag(g) at each point: row r belongs to unit `rows[r]`, or all units in order.

    Limits: only on the straight line, where `batch.t` is u. Symmetric up to rounding when all rows are taken;
    nothing is symmetrised.
    """

    rows: tuple[int, ...] | None = None
    mode: str = "auto"  # "forward" (over reverse, directions together) or "reverse" (twice, one by one; long texts)
    by_pair = True
    second_order = True

    def __call__(self, batch: Batch) -> Float[Tensor, "B R U"]:
        which = list(range(batch.members.shape[1]) if self.rows is None else self.rows)
        directions = batch.members.to(batch.direction.dtype)[:, which].transpose(0, 1)  # (R, B, S)
        slope, curve = _derivatives(batch, directions, self.mode)
        members = batch.members.double()
        value = torch.einsum("rbs,bus->bru", curve, members) * batch.t[:, None, None].to(curve)
        first_order = torch.einsum("bs,bus->bu", slope, members)[:, which]
        value[:, torch.arange(len(which)), which] += first_order
        return value

    def passes(self, units: int) -> int:
        return 2 * (units if self.rows is None else len(self.rows)) + 1

    def rows_alive(self, units: int) -> float:
        return BASE_ROWS + DIRECTION_ROWS * min(units if self.rows is None else len(self.rows), PLANNED)

    def rows_busy(self, units: int) -> float:
        """The same for the processor's cache, where what is under way counts, not what waits for it."""
        return self.rows_alive(units) / 2


@dataclass(frozen=True)
class RowSums(Integrand):
    """Every row of `Hessian` summed: u·(∇²F δ)_U + g_U, one product along δ for all rows.

    It integrates to IG (rows of the matrix sum to it), so it tells how many nodes the matrix will need, at one
    product a point instead of one for each unit.
    """

    second_order = True

    def __call__(self, batch: Batch) -> Float[Tensor, "B U"]:
        whole = batch.members.sum(1).to(batch.direction.dtype)[None]
        slope, curve = _derivatives(batch, whole, "auto")
        return torch.einsum("bs,bus->bu", slope + batch.t[:, None].to(curve) * curve[0], batch.members.double())

    def passes(self, units: int) -> int:
        return 3

    def rows_alive(self, units: int) -> float:
        return BASE_ROWS + DIRECTION_ROWS


def _derivatives(batch: Batch, directions: Directions, mode: str) -> Derivatives:
    """g·δ and (∇²F δ_r)·δ, summed over coordinates, in float64.

    Both ways give the same numbers, and operations exist that have only one of them: the better one first.
    """
    modes = {"forward": forward_over_reverse, "reverse": reverse_twice}
    if mode != "auto":
        modes = {mode: modes[mode]}
    elif batch.position.shape[1] >= LONG:
        modes = dict(reversed(modes.items()))
    errors: dict[str, RuntimeError] = {}
    for name, derivatives in modes.items():
        try:
            with any_derivative():
                return derivatives(batch, directions)
        except RuntimeError as error:  # NotImplementedError is one
            if mode == "forward" or out_of_memory(error):
                raise
            errors[name] = error
    raise no_second_derivative(batch, errors["reverse"]) from errors["reverse"]


@torch.no_grad()
def forward_over_reverse(batch: Batch, directions: Directions) -> Derivatives:
    """Forward over reverse; the point itself is evaluated once for a chunk of directions."""
    slope_of = grad(lambda position: batch.score(position).sum())
    step = batch.direction

    def along(member: Shaped[Tensor, "B S"]) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
        slope, curve = jvp(slope_of, (batch.position,), (member[..., None] * step,))[:2]
        return _contract(slope, step), _contract(curve, step)

    slopes, curves = [], []
    for part in directions.split(directions_at_once(batch)):
        slope, curve = vmap(along)(part)
        slopes.append(slope[0])
        curves.append(curve)
    return slopes[0], torch.cat(curves)


def reverse_twice(batch: Batch, directions: Directions) -> Derivatives:
    """Reverse twice, one direction at a time: memory is that of one, whatever their number."""
    position, step = batch.position.detach().requires_grad_(), batch.direction
    with torch.enable_grad():
        value = batch.score(position).sum()
        check_twice(value)
        (slope,) = torch.autograd.grad(value, position, create_graph=True)
        share = (slope * step).sum(-1)
    curves = []
    for member in directions:
        curve = None
        if share.requires_grad:
            (curve,) = torch.autograd.grad(share, position, member, retain_graph=True, allow_unused=True)
        curves.append(_contract(torch.zeros_like(position) if curve is None else curve, step))
    return _contract(slope.detach(), step), torch.stack(curves)


def _contract(row: Float[Tensor, "B S d"], step: Float[Tensor, "B S d"]) -> Float[Tensor, "B S"]:
    return share_of(row.double(), step.double()).sum(-1)


def directions_at_once(batch: Batch) -> int:
    """Directions that fit together: what the budget leaves for each row, at least one."""
    room = batch.room / len(batch.position)
    return int(max(1, min(PLANNED, (room - BASE_ROWS) / DIRECTION_ROWS)))
