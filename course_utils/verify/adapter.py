"""A layer with other names, another form of its weight or another order of axes, as one with the
reference's."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_utils.verify.subject import Subject, parameter_roles

__all__ = ["Adapted", "adapt"]

Order = list[int] | None


class Adapted(nn.Module):
    """``layer`` under the reference's names of parameters and buffers, and in its order of axes.

    ``names`` holds layer's name -> reference's, ``offsets`` what the layer adds to a weight by
    itself.
    """

    def __init__(
        self,
        layer: nn.Module,
        reference: nn.Module,
        names: Mapping[str, str],
        offsets: Mapping[str, float],
        order: Order,
    ) -> None:
        super().__init__()
        self.layer, self.names, self.offsets, self.order = [layer], names, offsets, order
        for name, parameter in reference.named_parameters():
            self.register_parameter(name, nn.Parameter(parameter.detach().clone()))
        for name, buffer in reference.named_buffers():
            self.register_buffer(name, buffer.clone())

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layer[0].to(x.dtype).train(self.training)
        state = layer.state_dict()
        for own, name in self.names.items():
            value = getattr(self, name)  # itself, where it is a buffer that a call updates
            offset = self.offsets.get(own)
            state[own] = (value - offset if offset else value).reshape(state[own].shape)
        return _in_order(lambda z: functional_call(layer, state, z), x, self.order)

    @property
    def left(self) -> list[str]:
        """What of the layer has no counterpart."""
        state = self.layer[0].state_dict()
        return [name for name in state if name not in self.names and state[name].dim()]


def adapt(
    mine: Callable[..., Any],
    reference: Callable[..., Any],
    x: Tensor,
    names: Mapping[str, str] | None,
    axes: tuple[str, str] | None,
) -> Callable[..., Any]:
    """Return ``mine`` itself where its names and axes are the reference's, or a module or function
    that has them."""
    order: Order = None
    if axes is not None:
        if sorted(axes[0]) != sorted(axes[1]):
            raise ValueError(f"axes must be two orders of the same letters: got {axes!r}")
        order = [axes[1].index(letter) for letter in axes[0]]
    if not isinstance(mine, nn.Module) or not isinstance(reference, nn.Module):
        if order is None:
            return mine
        return lambda z, **options: _in_order(lambda v: mine(v, **options), z, order)
    own, wanted = mine.state_dict().keys(), reference.state_dict().keys()
    offsets: dict[str, float] = {}
    if names is None:
        if own == wanted and order is None:
            return mine
        names, offsets = _by_role(mine, reference, x if order is None else x.permute(order), x)
    unknown = {*names.values()} - wanted | names.keys() - own
    if unknown:
        raise ValueError(
            f"names must lead from {sorted(own)} to {sorted(wanted)}: got {', '.join(unknown)}"
        )
    if dict(reference.named_parameters()).keys() - names.values():
        return mine  # something has no counterpart: what it raises says so
    return Adapted(mine, reference, names, offsets, order)


def _by_role(
    mine: nn.Module, reference: nn.Module, x_mine: Tensor, x: Tensor
) -> tuple[dict[str, str], dict[str, float]]:
    """Pair what multiplies with what multiplies and what adds with what adds; buffers by name, or
    by their shape and order."""
    sides, offsets = [], []
    for layer, value in ((mine, x_mine), (reference, x)):
        try:
            roles = parameter_roles(Subject(layer, torch.float64), value)
        except Exception:
            return {}, {}
        side = {p.name: (p.role, math.prod(p.own)) for p in roles}
        side |= {name: ("buffer", *b.shape) for name, b in layer.named_buffers()}
        sides.append(side)
        offsets.append({p.name: p.offset for p in roles})
    own, wanted = sides
    names: dict[str, str] = {}
    for name, does in own.items():
        free = [n for n in wanted if wanted[n] == does and n not in names.values()]
        for match in [n for n in free if n == name] or free[:1]:
            names[name] = match
    return names, {n: offsets[0].get(n, 0) - offsets[1].get(names[n], 0) for n in names}


def _in_order(fn: Callable[[Tensor], Tensor], x: Tensor, order: Order) -> Tensor:
    """``fn`` on x with its axes in another order, the result in that of x."""
    if order is None:
        return fn(x)
    y = fn(x.permute(order))
    return y.permute([order.index(axis) for axis in range(len(order))])
