"""A layer of anybody's as something to ask: called on copies, in any dtype, never changed.

Nothing of its source is read. What a parameter does is found by setting it.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.session import generator

__all__ = ["Parameter", "Subject", "normal", "parameter_roles", "share_of"]


def normal(shape: Sequence[int], seed: int = 0) -> Tensor:
    """Standard normal numbers in float64, the same at every call."""
    return torch.randn(tuple(shape), generator=generator(seed), dtype=torch.float64)


def share_of(unit: Tensor, y: Tensor) -> float:
    """How many units of ``unit`` are in y, by least squares."""
    return ((y * unit).sum() / unit.square().sum()).item()


@dataclass(frozen=True)
class Parameter:
    """What one parameter, of shape ``own``, does: ``role`` is "γ" (multiplies the result, as
    ``offset`` + γ), "β" (is added), "before" (multiplies the input), "unused", or "other".

    ``shape`` is that in which it broadcasts with the input, None where that is not known.
    """

    name: str
    own: tuple[int, ...]
    role: str = "other"
    offset: float = 0.0
    shape: tuple[int, ...] | None = None

    @property
    def form(self) -> str:
        """As a formula has it: γ, 1 + γ, β."""
        return f"{self.offset:g} + γ" if self.offset else self.role

    @property
    def neutral(self) -> float:
        """The value at which it does nothing."""
        return 0.0 if self.role == "β" else 1.0 - self.offset

    def expression(self, shape: tuple[int, ...]) -> str:
        """Python for it, in this shape."""
        plain = f"layer.{self.name}" if self.name.isidentifier() else None
        value = plain or f"layer.get_parameter({self.name!r})"
        aligned = (1,) * (len(shape) - len(self.own)) + self.own
        return value if aligned == shape else f"{value}.reshape({shape})"


class Subject:
    """``layer(x, *rest)`` on a copy of the layer in ``dtype``: the first tensor that comes back, in
    float64 on the CPU.

    A layer that keeps running statistics is called as in training. ``raw_dtype`` is that of the
    last result, ``overwrites`` whether a call has changed its input.
    """

    def __init__(self, layer: Callable[..., Any], dtype: torch.dtype, rest: Sequence[Any] = ()):
        self.layer = self.original = layer
        self.dtype, self.rest = dtype, rest
        self.raw_dtype, self.overwrites, self.device = dtype, False, torch.device("cpu")
        self.parameters: dict[str, Tensor] = {}
        self.roles: Sequence[Parameter] = ()  # once they are known
        if not isinstance(layer, nn.Module):
            return
        try:
            module = copy.deepcopy(layer).to(dtype)
        except RuntimeError as error:
            raise ValueError(f"layer must be one that can be copied: {error}") from error
        self.layer = module
        self.parameters = {name: p.data for name, p in module.named_parameters()}
        if self.buffers:
            module.train()
        for tensor in (*module.parameters(), *module.buffers()):
            self.device = tensor.device

    @property
    def buffers(self) -> dict[str, Tensor]:
        """What it keeps from call to call, in float64, as it is now."""
        if not isinstance(self.layer, nn.Module):
            return {}
        named = self.layer.named_buffers()
        return {n: b.detach().cpu().double().clone() for n, b in named if b.is_floating_point()}

    def __call__(self, x: Tensor) -> Tensor:
        passed = x.to(self.device, self.dtype, copy=True)
        kept = passed.clone()
        rest = [
            r.to(self.dtype) if isinstance(r, Tensor) and r.is_floating_point() else r
            for r in self.rest
        ]
        with torch.no_grad():
            y = self.layer(passed, *rest)
        y = y[0] if isinstance(y, tuple | list) else y
        if not isinstance(y, Tensor):
            raise TypeError(f"returns {type(y).__name__}, not a tensor")
        self.overwrites |= not torch.equal(passed.nan_to_num(), kept.nan_to_num())
        self.raw_dtype = y.dtype
        return y.detach().cpu().double()

    def fresh(self, dtype: torch.dtype | None = None) -> "Subject":
        """Another copy of the layer, its parameters where they do nothing."""
        subject = Subject(self.original, dtype or self.dtype, self.rest)
        subject.neutralize(self.roles)
        return subject

    def draw(self) -> None:
        """Give every parameter numbers between 0.5 and 1.5."""
        for seed, p in enumerate(self.parameters.values()):
            p.copy_(_between_half_and_three_halves(p.shape, seed))

    def neutralize(self, parameters: Sequence[Parameter]) -> None:
        """Set every parameter of a known role to where it does nothing."""
        for p in parameters:
            if p.role != "other":
                self.parameters[p.name].fill_(p.neutral)

    def with_value(self, name: str, value: float | Tensor, x: Tensor) -> Tensor:
        """The result for ``x`` with one parameter at ``value``; the parameter keeps what it had."""
        parameter = self.parameters[name]
        before = parameter.clone()
        parameter.copy_(torch.as_tensor(value))
        y = self(x)
        parameter.copy_(before)
        return y


def parameter_roles(subject: Subject, x: Tensor) -> Sequence[Parameter]:
    """Find what each parameter does, and leave each where it does nothing: γ at 1, β at 0."""
    starts = {name: p.clone() for name, p in subject.parameters.items()}
    subject.draw()  # a zero would hide the others
    roles = {name: Parameter(name, tuple(p.shape)) for name, p in starts.items()}
    for name in [*starts, *starts]:  # a weight is a factor of what is left without the bias
        if roles[name].role == "other":
            roles[name] = _role(subject, roles[name], x)
            subject.neutralize([roles[name]])
    for name, p in roles.items():
        if p.role == "other" and starts[name].any():  # at zero it might hide the statistics
            subject.parameters[name].copy_(starts[name])
    subject.roles = [*roles.values()]
    return subject.roles


def _role(subject: Subject, p: Parameter, x: Tensor) -> Parameter:
    """Set it to 0, to 1 and to drawn numbers, and hold the last result against each role."""
    drawn = _between_half_and_three_halves(p.own, 99)
    zero, one, two, with_drawn = (
        subject.with_value(p.name, value, x) for value in (0.0, 1.0, 2.0, drawn)
    )
    step = one - zero
    near = 1e-4 * (1 + step.abs().max())

    def agrees(y: Tensor, expected: Tensor) -> bool:
        return bool((y - expected).abs().max() < near)

    if agrees(with_drawn, one) and agrees(with_drawn, zero):
        return replace(p, role="unused")
    offset = share_of(step, zero)
    offset = round(offset) if abs(offset - round(offset)) < 1e-4 else offset
    values = [(shape, drawn.reshape(shape), with_drawn) for shape in _broadcasts(p.own, x.shape)]
    for shape, value, y in [*values, (None, torch.tensor(2.0), two)]:
        if agrees(y, zero + value):
            return replace(p, role="β", shape=shape)
        if agrees(y, (offset + value) * step):
            return replace(p, role="γ", offset=offset, shape=shape)
        for before in (0.0, 1.0):
            if shape and agrees(y, subject.with_value(p.name, 1 - before, x * (before + value))):
                return replace(p, role="before", offset=before, shape=shape)
    return p


def _broadcasts(own: Sequence[int], against: Sequence[int]) -> list[tuple[int, ...]]:
    """The shapes in which a parameter can broadcast with an input: at its end, or along one axis of
    its length."""
    size, dims = torch.Size(own).numel(), len(against)
    shapes = [(1,) * dims] if size == 1 else []
    aligned = (1,) * (dims - len(own)) + tuple(own)
    if len(aligned) == dims and all(n in (1, m) for n, m in zip(aligned, against, strict=True)):
        shapes.append(aligned)
    for axis in reversed(range(dims)):
        if size == against[axis]:
            shapes.append(tuple(size if d == axis else 1 for d in range(dims)))
    return shapes


def _between_half_and_three_halves(shape: Sequence[int], seed: int) -> Tensor:
    return 0.5 + torch.rand(tuple(shape), generator=generator(seed), dtype=torch.float64)
