"""A layer with other names, another form of its weight or another order of axes, as one with the
reference's."""

from collections.abc import Callable, Mapping
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
        state: dict[str, Tensor] = {}
        for own, name in self.names.items():
            value = getattr(self, name)
            if offset := self.offsets.get(own):
                value = value - offset
            state[own] = value.reshape(self.shapes[own])
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
    names: dict[str, str] = {}
    offsets: dict[str, float] = {}
    try:
        roles = parameter_roles(Subject(mine, torch.float64), x_mine.double())
        wanted = parameter_roles(Subject(reference, torch.float64), x.double())
    except Exception:
        return {}, {}
    for p in roles:
        for other in wanted:
            alike = (other.role, torch.Size(other.own).numel()) == (
                p.role, torch.Size(p.own).numel()
            )  # fmt: skip
            if alike and other.name not in names.values():
                names[p.name] = other.name
                offsets[p.name] = p.offset - other.offset
                break
    buffers = [dict(layer.named_buffers()) for layer in (mine, reference)]
    for name, buffer in buffers[1].items():
        for own, tensor in buffers[0].items():
            same = own == name or (name not in buffers[0] and tensor.shape == buffer.shape)
            if same and own not in names:
                names[own] = name
                break
    return names, offsets


def _in_order(fn: Callable[[Tensor], Tensor], x: Tensor, order: list[int] | None) -> Tensor:
    """``fn`` on x with its axes in another order, the result in that of x."""
    if order is None:
        return fn(x)
    y = fn(x.permute(order))
    return y.permute([order.index(axis) for axis in range(len(order))])
