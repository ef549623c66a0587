"""The inputs of a check: one call's arguments, and a probe, which is a call with the reason for it."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from course_utils.check.comparison import Tolerance

__all__ = ["Call", "Probe", "counting", "integers"]


def integers(*shape: int, seed: int, scale: float = 1.0, offset: float = 0.0) -> Tensor:
    """Return whole numbers from −9 to 9, times ``scale`` plus ``offset``: the same on every machine, in float32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 10, shape, generator=generator, device="cpu").float() * scale + offset


def counting(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 2, 3, ... in ``shape``, which is what a reader takes in at a glance."""
    return torch.arange(1, torch.Size(shape).numel() + 1, device="cpu").to(dtype).reshape(tuple(shape))


@dataclass(frozen=True)
class Call:
    """The arguments of one call, by name.

    Args:
        arguments: name to value; tensors, which are kept on the CPU, and dictionaries are never handed out themselves.
        axes: for each argument that has a size in common with another, one letter per axis (``"NCHW"``; a tuple of
            sizes such as ``normalized_shape`` has letters too), so that a call can be made smaller and stay valid.
    """

    arguments: Mapping[str, Any]
    axes: Mapping[str, str] = field(default_factory=dict)

    def fresh(
        self, device: torch.device | str = "cpu", *, double: bool = False, track: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return copies of the arguments on ``device``, strides kept; in float64 if ``double``.

        Args:
            track: the tensors to differentiate with respect to.
        """
        result: dict[str, Any] = {}
        for name, value in self.arguments.items():
            if isinstance(value, Tensor):
                dtype = torch.float64 if double and value.is_floating_point() else value.dtype
                value = value.to(device, dtype, copy=True).requires_grad_(name in track)
            elif isinstance(value, dict):
                value = copy.deepcopy(value)
            result[name] = value
        return result

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the arguments that are tensors."""
        yield from ((name, value) for name, value in self.arguments.items() if isinstance(value, Tensor))

    def replace(self, **arguments: Any) -> "Call":
        """Return this call with other values for some arguments."""
        return Call({**self.arguments, **arguments}, self.axes)

    def without(self, name: str) -> "Call":
        """Return this call with ``name`` left to its default."""
        return Call({key: value for key, value in self.arguments.items() if key != name}, self.axes)

    def sizes(self) -> dict[str, int]:
        """Return the size of every lettered axis."""
        sizes: dict[str, int] = {}
        for name, letters in self.axes.items():
            value = self.arguments.get(name)
            if value is not None:
                sizes.update(zip(letters, value.shape if isinstance(value, Tensor) else value, strict=True))
        return sizes

    def narrowed(self, letter: str, size: int) -> "Call":
        """Return this call with the axis ``letter`` cut to its first ``size`` entries, wherever it occurs."""
        changed: dict[str, Any] = {}
        for name, letters in self.axes.items():
            value = self.arguments.get(name)
            if value is None or letter not in letters:
                continue
            at = letters.index(letter)
            if isinstance(value, Tensor):
                changed[name] = value.narrow(at, 0, size).clone()
            else:
                changed[name] = type(value)((*value[:at], size, *value[at + 1 :]))
        return self.replace(**changed)


@dataclass(frozen=True)
class Probe:
    """One call of a check, with what it is there to show.

    Args:
        name: what the input is, in a few words.
        stage: which part of the function it looks at. A check explains the first stage that fails, and only that:
            the inputs of a stage are chosen so that what later stages look at makes no difference in them.
        call: the arguments.
        gradients: the arguments whose gradients are compared too.
        compares: of the outputs and updated arguments, the ones to compare; all by default.
        rough: a wrong result here is rounding noise, different for each way of writing the same mistake; so that it
            is wrong, and how badly, is compared with the catalogue, and not the values.
        tolerance, gradient_tolerance: what is still right; by default, what the dtype allows.
        remark: what to say of a function that passes this probe, and is yet off by more than ``remark_beyond``.
        is_refused: whether it takes an error, of whatever kind, to pass; ``name`` then says what the call asks for.
    """

    name: str
    stage: str
    call: Call
    gradients: Sequence[str] = ()
    compares: Sequence[str] | None = None
    rough: bool = False
    tolerance: Tolerance | None = None
    gradient_tolerance: Tolerance | None = None
    remark: str = ""
    remark_beyond: Tolerance | None = None
    is_refused: bool = False
