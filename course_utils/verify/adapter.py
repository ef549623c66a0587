"""A layer with other names, another form of its weight or another order of axes, as one with the
reference's."""

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_utils.verify.subject import Subject, parameter_roles

__all__ = ["Adapted", "adapt"]


class Adapted(nn.Module):
    """``layer`` under the reference's names of parameters and buffers, and in its order of axes.

    ``names`` holds layer's name -> reference's, ``offsets`` what the layer adds to a weight by
    itself, ``left`` what has no counterpart.
    """

    def __init__(
        self,
        layer: nn.Module,
        reference: nn.Module,
        names: Mapping[str, str],
        offsets: Mapping[str, float],
        order: list[int] | None,
    ) -> None:
        super().__init__()
        self.layer, self.names, self.offsets, self.order = [layer], names, offsets, order
        state = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
        self.shapes = {name: tensor.shape for name, tensor in state.items()}
        self.left = [name for name in state if name not in names and state[name].dim()]
        parameters = dict(reference.named_parameters())
        for name, tensor in reference.state_dict(keep_vars=True).items():
            kept = tensor.detach().clone()
            if name in parameters:
                self.register_parameter(name, nn.Parameter(kept))
            else:
                self.register_buffer(name, kept)

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layer[0].to(x.dtype).train(self.training)
        state = {}
        for own, name in self.names.items():
            value = getattr(self, name)  # itself, where it is a buffer that a call updates
            offset = self.offsets.get(own)
            state[own] = (value - offset if offset else value).reshape(self.shapes[own])
        return _in_order(lambda z: functional_call(layer, state, z), x, self.order)


def adapt(
    mine: Callable[..., Any],
    reference: Callable[..., Any],
    x: Tensor,
    names: Mapping[str, str] | None,
    axes: tuple[str, str] | None,
) -> Callable[..., Any]:
    """Return ``mine`` itself where its names and axes are the reference's, or a module or function
    that has them."""
    order = None
    if axes is not None:
        if sorted(axes[0]) != sorted(axes[1]):
            raise ValueError(f"axes must be two orders of the same letters: got {axes!r}")
        order = [axes[1].index(letter) for letter in axes[0]]
    if not isinstance(mine, nn.Module) or not isinstance(reference, nn.Module):
        if order is None:
            return mine
        return lambda z, **options: _in_order(lambda v: mine(v, **options), z, order)
    own, wanted = (set(layer.state_dict()) for layer in (mine, reference))
    if names is None and own == wanted and order is None:
        return mine
    offsets: dict[str, float] = {}
    if names is None:
        names, offsets = _by_role(mine, reference, x, order)
    unknown = [name for name in names.values() if name not in wanted] + [
        name for name in names if name not in own
    ]
    if unknown:
        raise ValueError(
            f"names must lead from {sorted(own)} to {sorted(wanted)}: got {', '.join(unknown)}"
        )
    parameters = {name for name, _ in reference.named_parameters()}
    if parameters - set(names.values()):
        return mine  # something has no counterpart: what it raises says so
    return Adapted(mine, reference, names, offsets, order)


def _by_role(
    mine: nn.Module, reference: nn.Module, x: Tensor, order: list[int] | None
) -> tuple[dict[str, str], dict[str, float]]:
    """Pair what multiplies with what multiplies and what adds with what adds; buffers by name, or
    by their shape and order."""
    x_mine = x if order is None else x.permute(order)
    try:
        own = parameter_roles(Subject(mine, torch.float64), x_mine)
        wanted = parameter_roles(Subject(reference, torch.float64), x)
    except Exception:
        return {}, {}
    names: dict[str, str] = {}
    offsets: dict[str, float] = {}
    for p, other in product(own, wanted):
        is_free = p.name not in names and other.name not in names.values()
        if is_free and p.role == other.role and math.prod(p.own) == math.prod(other.own):
            names[p.name], offsets[p.name] = other.name, p.offset - other.offset
    own_buffers = dict(mine.named_buffers())
    for (name, buffer), own_name in product(reference.named_buffers(), own_buffers):
        same_shape = name not in own_buffers and own_buffers[own_name].shape == buffer.shape
        is_free = own_name not in names and name not in names.values()
        if is_free and (own_name == name or same_shape):
            names[own_name] = name
    return names, offsets


def _in_order(fn: Callable[[Tensor], Tensor], x: Tensor, order: list[int] | None) -> Tensor:
    """``fn`` on x with its axes in another order, the result in that of x."""
    if order is None:
        return fn(x)
    y = fn(x.permute(order))
    return y.permute([order.index(axis) for axis in range(len(order))])
