"""A layer of anybody's as something to ask: called on copies, in any dtype, never changed; and what
it answered.

Nothing of its source is read. What a parameter does is found by setting it.
"""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from course_utils import norms, rope
from course_utils.session import generator
from course_utils.table import Table

__all__ = [
    "Diagnosis",
    "Parameter",
    "Subject",
    "agree",
    "cast",
    "drawn",
    "nearest",
    "normal",
    "said",
]


def normal(shape: Sequence[int], seed: int = 0) -> Tensor:
    """Standard normal numbers in float64, the same at every call."""
    return torch.randn(tuple(shape), generator=generator(seed), dtype=torch.float64)


def drawn(shape: Sequence[int], seed: int) -> Tensor:
    """Numbers between 0.5 and 1.5 in float64, which no default of a parameter imitates."""
    return 0.5 + torch.rand(tuple(shape), generator=generator(seed), dtype=torch.float64)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """A tensor of floats in ``dtype``, anything else as it is."""
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def share_of(unit: Tensor, y: Tensor) -> float:
    """How many units of ``unit`` are in y, by least squares."""
    return ((y * unit).sum() / unit.square().sum()).item()


def nearest(value: float, within: float, known: Iterable[float] = ()) -> float:
    """A known number, or the roundest, within a share of the value; the value where none is."""
    rounded = [(float(f"{value:.{digits}e}"), within / 10**digits) for digits in range(4)]
    for number, share in [*((number, within) for number in known), *rounded]:
        if abs(number - value) <= share * abs(value):
            return number
    return value


OTHER = "unsure: neither multiplies nor adds"
BEFORE = "multiplies the input"


@dataclass(frozen=True)
class Parameter:
    """What one parameter, of shape ``own``, does: ``role`` is "γ" (multiplies the result, as
    ``offset`` + γ), "β" (is added), or says it in words. In ``shape`` it broadcasts with x, each
    number repeated ``times``."""

    name: str
    own: tuple[int, ...]
    role: str = OTHER
    offset: float = 0.0
    shape: tuple[int, ...] = ()

    @property
    def times(self) -> int:
        """1, but for one number a group."""
        return math.prod(self.shape) // math.prod(self.own)

    def placed(self, value: Tensor) -> Tensor:
        """A value of it, to be broadcast with x."""
        return value.flatten().repeat_interleave(self.times).reshape(self.shape)

    @property
    def form(self) -> str:
        """As a formula has it: γ, 1 + γ, β."""
        return f"{self.offset:g} + γ" if self.offset else self.role

    @property
    def neutral(self) -> float:
        """The value at which it does nothing."""
        return 0.0 if self.role == "β" else 1.0 - self.offset


class Subject:
    """``layer(x, *rest)`` on a copy of the layer in ``dtype``: the first tensor that comes back, in
    float64 on the CPU.

    A layer that keeps running statistics is called as in training. ``raw_dtype`` is that of the
    last result, ``overwrites`` whether a call has changed its input.
    """

    def __init__(self, layer: Any, dtype: torch.dtype, rest: Sequence[Any] = ()) -> None:
        self.original, self.dtype, self.rest = layer, dtype, rest
        self.raw_dtype, self.overwrites, self.device = dtype, False, torch.device("cpu")
        self.roles: Sequence[Parameter] = ()  # once they are known
        self.is_module = isinstance(layer, nn.Module)
        self.layer = copy.deepcopy(layer).to(dtype) if self.is_module else layer
        named = self.layer.named_parameters() if self.is_module else ()
        self.parameters: dict[str, Tensor] = {name: p.data for name, p in named}
        for tensor in (*self.parameters.values(), *self.buffers.values()):
            self.device = tensor.device
        if self.buffers:
            self.layer.train()

    @property
    def buffers(self) -> dict[str, Tensor]:
        """What it keeps from call to call, as it is now."""
        named = self.layer.named_buffers() if self.is_module else ()
        return {name: b.detach().clone() for name, b in named if b.is_floating_point()}

    def __call__(self, x: Tensor) -> Tensor:
        passed = x.to(self.device, self.dtype, copy=True)
        kept = passed.clone()
        with torch.no_grad():
            y = self.layer(passed, *(cast(value, self.dtype) for value in self.rest))
        y = y[0] if isinstance(y, tuple | list) else y
        if not isinstance(y, Tensor):
            raise TypeError(f"returns {type(y).__name__}, not a tensor")
        self.overwrites |= not torch.equal(passed, kept)
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
            p.copy_(drawn(p.shape, seed))

    def neutralize(self, parameters: Sequence[Parameter]) -> None:
        """Set every parameter of a known role to where it does nothing."""
        for p in parameters:
            if p.role != OTHER:
                self.parameters[p.name].fill_(p.neutral)

    def with_value(self, name: str, value: float | Tensor, x: Tensor) -> Tensor:
        """The result for ``x`` with one parameter at ``value``; the parameter keeps what it had."""
        parameter = self.parameters[name]
        before = parameter.clone()
        parameter[...] = value
        y = self(x)
        parameter.copy_(before)
        return y


def parameter_roles(subject: Subject, x: Tensor) -> Sequence[Parameter]:
    """Find what each parameter does, and leave each where it does nothing: γ at 1, β at 0."""
    starts = {name: p.clone() for name, p in subject.parameters.items()}
    subject.draw()  # a zero would hide the others
    roles = {name: Parameter(name, tuple(p.shape)) for name, p in starts.items()}
    for name in [*starts, *starts]:  # a weight is a factor of what is left without the bias
        if roles[name].role == OTHER:
            roles[name] = _role(subject, roles[name], x)
            subject.neutralize([roles[name]])
    for name, p in roles.items():
        if p.role == OTHER and starts[name].any():  # at zero it might hide the statistics
            subject.parameters[name].copy_(starts[name])
    subject.roles = [*roles.values()]
    return subject.roles


def _role(subject: Subject, p: Parameter, x: Tensor) -> Parameter:
    """Set it to 0, to 1 and to drawn numbers, and hold the last result against each role."""
    numbers = drawn(p.own, 99)
    zero, one, y = (subject.with_value(p.name, value, x) for value in (0.0, 1.0, numbers))
    step = one - zero
    offset = round(share_of(step, zero), 3)

    def is_result(expected: Tensor) -> bool:
        return bool((y - expected).abs().max() < 1e-4 * (1 + step.abs().max()))

    if is_result(one) and is_result(zero):
        return replace(p, role="changes nothing")
    for along in _along_an_axis(p, x.shape):
        value = along.placed(numbers)
        if is_result(zero + value):
            return replace(along, role="β")
        if is_result((offset + value) * step):
            return replace(along, role="γ", offset=offset)
        for before in (0.0, 1.0):
            if is_result(subject.with_value(p.name, 1 - before, x * (before + value))):
                return replace(along, role=BEFORE, offset=before)
    return p


def _along_an_axis(p: Parameter, against: Sequence[int]) -> list[Parameter]:
    """The shapes in which a parameter broadcasts with an input: its own, or along one axis."""
    last = [*reversed(against)]
    shapes = [(n, *[1] * after) for after, n in enumerate(last) if n % math.prod(p.own) == 0]
    if len(p.own) <= len(last) and all(
        n in (1, m) for n, m in zip(reversed(p.own), last, strict=False)
    ):
        shapes.insert(0, p.own)
    return [replace(p, shape=shape) for shape in shapes]


@dataclass
class Diagnosis:
    """What ``diagnose`` found: a table of questions and answers, and ``summary``, one line.

    ``call`` is an expression of the course's that computes the same from ``x`` and ``layer``; it
    was run beside the layer, and ``unlike`` is empty. Where no call does, ``unlike`` says so, with
    a small input that shows it where there is a nearest one.
    """

    name: str
    kind: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    call: str | None = None
    unlike: str = ""
    parameters: Sequence[Parameter] = field(default=(), repr=False)

    def __getitem__(self, question: str) -> str:
        return self.answers[question]

    def table(self) -> Table:
        """Questions and answers, the course's call last."""
        rows = [*self.answers.items(), ("the course's own", self.call or self.unlike)]
        return Table(("question", "answer"), rows, f"{self.name}: {self.summary}")

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @torch.no_grad()
    def try_calls(
        self, calls: Iterable[str], inputs: Sequence[Tensor], subject: Subject, within: float
    ) -> None:
        """Keep the first of the course's calls, of x and ``layer`` as text, that makes the same of
        every input."""
        names = {"norms": norms, "rope": rope, "torch": torch, "layer": subject.layer}
        expected = [subject(x) for x in inputs]
        for call in calls:
            try:
                mine = [
                    eval(call, names | {"x": x.to(subject.device, subject.dtype)}) for x in inputs
                ]
                if all(agree(*pair, within) for pair in zip(mine, expected, strict=True)):
                    self.call, self.unlike = call, ""
                    return
            except Exception:
                continue  # it takes no such shape or argument


def agree(mine: Tensor, y: Tensor, within: float) -> bool:
    """Whether two results differ by no more than a share of the largest number of the second."""
    finite = y.isfinite()  # a bias may be −∞ ahead
    error = (mine.cpu().double() - y)[finite].abs().max()
    return bool(error <= within * y[finite].abs().max())


def said(error: Exception, length: int) -> str:
    """An exception and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:length]}"
