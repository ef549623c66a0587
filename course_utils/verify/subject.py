"""A layer of anybody's as something to ask: called on copies, in any dtype, never changed.

Nothing of its source is read. What a parameter does is found by setting it.
"""

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.session import generator

__all__ = ["Parameter", "Subject", "normal", "parameter_roles"]


def normal(shape: Sequence[int], seed: int = 0) -> Tensor:
    """Standard normal numbers in float64, the same at every call."""
    return torch.randn(tuple(shape), generator=generator(seed), dtype=torch.float64)


class Subject:
    """``layer(x, *rest)`` on a copy of the layer in ``dtype``: the first tensor that comes back, in
    float64 on the CPU.

    A layer that keeps running statistics is called as in training. ``raw_dtype`` is that of the
    last result, ``overwrites`` whether a call has changed its input.
    """

    def __init__(self, layer: Callable[..., Any], dtype: torch.dtype, rest: Sequence[Any] = ()):
        self.layer, self.dtype, self.rest = layer, dtype, rest
        self.raw_dtype, self.overwrites, self.device = dtype, False, torch.device("cpu")
        self.parameters: dict[str, Tensor] = {}
        self.starts: dict[str, Tensor] = {}
        if not isinstance(layer, nn.Module):
            return
        try:
            self.layer = copy.deepcopy(layer).to(dtype)
        except RuntimeError as error:
            raise ValueError(f"layer must be one that can be copied: {error}") from error
        buffers = dict(layer.named_buffers())
        if any(buffer.is_floating_point() for buffer in buffers.values()):
            self.layer.train()
        self.parameters = {name: p.data for name, p in self.layer.named_parameters()}
        self.starts = {name: p.clone() for name, p in self.parameters.items()}
        for tensor in itertools.chain(layer.parameters(), buffers.values()):
            self.device = tensor.device

    def __call__(self, x: Tensor) -> Tensor:
        passed = x.to(self.device, self.dtype, copy=True)
        kept = passed.clone()
        rest = [r.to(self.dtype) if _is_real(r) else r for r in self.rest]
        with torch.no_grad():
            y = self.layer(passed, *rest)
        y = y[0] if isinstance(y, tuple | list) else y
        if not isinstance(y, Tensor):
            raise TypeError(f"returns {type(y).__name__}, not a tensor")
        self.overwrites |= not torch.equal(passed.nan_to_num(), kept.nan_to_num())
        self.raw_dtype = y.dtype
        return y.detach().cpu().double()

    def draw(self) -> None:
        """Give every parameter numbers between 0.5 and 1.5."""
        for seed, p in enumerate(self.parameters.values()):
            p.copy_(0.5 + torch.rand(p.shape, generator=generator(seed), dtype=torch.float64))

    def with_value(self, name: str, value: float | Tensor, x: Tensor) -> Tensor:
        """The result for ``x`` with one parameter at ``value``; the parameter keeps what it had."""
        before = self.parameters[name].clone()
        self.parameters[name].copy_(torch.as_tensor(value))
        try:
            return self(x)
        finally:
            self.parameters[name].copy_(before)


@dataclass(frozen=True)
class Parameter:
    """What one parameter of shape ``own`` does: ``role`` is "γ" (multiplies the result, as
    ``offset`` + γ), "β" (is added), "before" (multiplies the input), "unused", or "other".

    ``shape`` is that in which it broadcasts with the input, None where that is not known;
    ``start`` is its value where all are equal.
    """

    name: str
    role: str
    offset: float = 0.0
    shape: tuple[int, ...] | None = None
    own: tuple[int, ...] = ()
    start: float | None = None

    @property
    def form(self) -> str:
        """As a formula has it: γ, 1 + γ, β."""
        return f"{self.offset:g} + γ" if self.offset else self.role

    def expression(self, shape: tuple[int, ...]) -> str:
        """Python for it, in this shape."""
        plain = f"layer.{self.name}" if self.name.isidentifier() else None
        value = plain or f"dict(layer.named_parameters())[{self.name!r}]"
        return value if self.own == shape else f"{value}.reshape({shape})"

    @property
    def gain(self) -> float | None:
        """What a fresh layer multiplies by."""
        return None if self.start is None else self.start + self.offset


def parameter_roles(subject: Subject, x: Tensor) -> list[Parameter]:
    """Find what each parameter does, and leave each where it does nothing: γ at 1, β at 0."""
    starts = subject.starts
    subject.draw()  # a zero would hide the others
    roles: dict[str, Parameter] = {}
    for looked_for in ("β", "γ"):  # a weight is a factor of what is left without the bias
        for name in subject.parameters.keys() - roles.keys():
            role = _role(subject, name, x)
            if role.role == looked_for or looked_for == "γ":
                if role.role != "other":
                    neutral = 0.0 if role.role == "β" else 1.0 - role.offset
                    subject.parameters[name].fill_(neutral)
                elif starts[name].any():  # at zero it might hide the statistics
                    subject.parameters[name].copy_(starts[name])
                start = starts[name].flatten()
                constant = start[0].item() if len(start) and (start == start[0]).all() else None
                roles[name] = replace(role, own=tuple(starts[name].shape), start=constant)
    return [roles[name] for name in subject.parameters]


def _role(subject: Subject, name: str, x: Tensor) -> Parameter:
    shape = tuple(subject.parameters[name].shape)
    zero, one, two = (subject.with_value(name, value, x) for value in (0.0, 1.0, 2.0))
    drawn = 0.5 + torch.rand(shape, generator=generator(99), dtype=torch.float64)
    with_drawn = subject.with_value(name, drawn, x)
    step = one - zero
    near = 1e-4 * (1 + step.abs().max())
    if not (step.isfinite().all() and (two - one - step).abs().max() < near):
        return Parameter(name, "other")
    places = _places(shape, x.shape)
    if step.abs().max() < near * 1e-3:
        if (with_drawn - one).abs().max() < near:
            return Parameter(name, "unused")
        for offset, place in itertools.product((0.0, 1.0), places):
            moved = subject.with_value(name, 1 - offset, x * (offset + drawn.reshape(place)))
            if (moved - with_drawn).abs().max() < near:
                return Parameter(name, "before", offset, place)
        return Parameter(name, "other")
    if (step - 1).abs().max() < near:
        fits = [p for p in places if (zero + drawn.reshape(p) - with_drawn).abs().max() < near]
        return Parameter(name, "β", 0.0, next(iter(fits), None))
    offset = ((zero * step).sum() / step.square().sum()).item()
    offset = round(offset) if abs(offset - round(offset)) < 1e-4 else offset
    for place in places:
        if ((offset + drawn.reshape(place)) * step - with_drawn).abs().max() < near:
            return Parameter(name, "γ", offset, place)
    is_factor = (zero - offset * step).abs().max() < near
    return Parameter(name, "γ" if is_factor else "other", offset)


def _places(shape: Sequence[int], against: Sequence[int]) -> list[tuple[int, ...]]:
    """The shapes in which a parameter can broadcast with an input: at its end, or along one axis of
    its length."""
    size, dims = torch.Size(shape).numel(), len(against)
    places = [(1,) * dims] if size == 1 else []
    if len(shape) <= dims:
        aligned = (1,) * (dims - len(shape)) + tuple(shape)
        pairs = zip(aligned, against, strict=True)
        places += [aligned] if all(one in (1, other) for one, other in pairs) else []
    for axis in reversed(range(dims)):
        if size == against[axis]:
            places.append(tuple(size if d == axis else 1 for d in range(dims)))
    return places


def _is_real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
