"""The inputs of a check: a call, a probe, which is a call with the reason for it, and how far off
is wrong."""

import copy
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "COUNTED", "DOUBLE", "GRADIENTS", "OUTPUTS", "Call", "Probe", "Simplest", "Tolerance",
    "counting", "error_ratio", "integers", "largest_error", "read_probes", "same",
]  # fmt: skip

# the values of an argument that are best to read
Simplest = Callable[[Sequence[int], torch.dtype], Tensor]


def integers(*shape: int, seed: int, scale: float = 1.0, offset: float = 0.0) -> Tensor:
    """Return whole numbers from −9 to 9, times ``scale`` plus ``offset``: the same on every
    machine, in float32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 10, shape, generator=generator, device="cpu").float() * scale + offset


def counting(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return 1, 2, 3, ... in ``shape``, which is what a reader takes in at a glance."""
    return (
        torch.arange(1, torch.Size(shape).numel() + 1, device="cpu").to(dtype).reshape(tuple(shape))
    )


@dataclass(frozen=True)
class Call:
    """The arguments of one call, by name."""

    # tensors, which are kept on the CPU, dictionaries and lists: only copies are handed out
    arguments: Mapping[str, Any]
    # For each argument that has a size in common with another, one letter per axis (``"NCHW"``; a
    # tuple of sizes such as ``normalized_shape`` has letters too), so that a call can be made
    # smaller and stay valid.
    axes: Mapping[str, str] = field(default_factory=dict)

    def fresh(
        self, device: torch.device | str = "cpu", *, double: bool = False, track: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return copies of the arguments on ``device``, off any graph, strides kept; in float64 if
        ``double``."""
        result: dict[str, Any] = {}
        for name, value in self.arguments.items():
            if isinstance(value, Tensor):
                dtype = torch.float64 if double and value.is_floating_point() else value.dtype
                result[name] = (
                    value.detach().to(device, dtype, copy=True).requires_grad_(name in track)
                )
            else:
                result[name] = copy.deepcopy(value)
        return result

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the arguments that are tensors."""
        yield from (
            (name, value) for name, value in self.arguments.items() if isinstance(value, Tensor)
        )

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
                sizes.update(
                    zip(letters, value.shape if isinstance(value, Tensor) else value, strict=True)
                )
        return sizes

    def narrowed(self, letter: str, size: int) -> "Call":
        """Return this call with the axis ``letter`` cut to its first ``size`` entries, wherever it
        occurs."""
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
class Tolerance:
    """An element may be off by ``relative`` of itself, plus ``absolute`` of the largest element (of
    1, if smaller)."""

    relative: float
    absolute: float

    def between(self, example: Tensor) -> Tensor:
        """Return how far apart two ways of writing the mistake that gives ``example`` may be."""
        return _AGREEMENT * self.allowed(example.nan_to_num(0.0, 0.0, 0.0))

    def most_between(self, ratio: float) -> float:
        """Return how far the error ratio of another way of writing a mistake can be from its
        example's ``ratio``, for whatever values: `between`, in units of what is allowed."""
        return _AGREEMENT * (1 + ratio * (2 * self.relative + self.absolute))

    def allowed(self, truth: Tensor) -> Tensor:
        """Return how far off each element of ``truth`` (float64) may be."""
        largest = truth.abs().max() if truth.numel() else truth.new_zeros(())
        return self.relative * truth.abs() + self.absolute * largest.clamp_min(1.0)


@dataclass(frozen=True, eq=False)
class Probe:
    """One call of a check, with what it is there to show."""

    name: str  # what the input is, in a few words
    # Which part of the function it looks at. A check explains the first stage that fails, and then
    # the next: the inputs of a stage are chosen so that what later stages look at makes no
    # difference in them.
    stage: str
    call: Call
    gradients: Sequence[str] = ()  # the arguments whose gradients are compared too
    compares: Sequence[str] | None = (
        None  # of the outputs and updated arguments, the ones to compare; all by default
    )
    # A wrong result here is rounding noise, different for each way of writing the same mistake; so
    # that it is wrong, and how badly, is compared with the catalogue, and not the values.
    rough: bool = False
    tolerance: Tolerance | None = (
        None  # what is still right of an output; by default, what the dtype allows
    )
    remark: str = (
        ""  # what to say of a function that passes, and is yet off by more than ``remark_beyond``
    )
    remark_beyond: Tolerance | None = None
    # whether it takes an error, of whatever kind, to pass; ``name`` says what it asks for
    is_refused: bool = False


_OF_A_PROBE = ("name", "gradients", "compares", "rough")


def read_probes(
    file: str,
    exercise: str,
    call: Callable[..., Call] = lambda **arguments: Call(arguments),
    tolerance: Tolerance | None = None,
    *,
    plain: bool = False,
) -> list[Probe]:
    """Return the probes of ``exercise`` that ``probes.toml`` beside ``file`` has, in its order.

        [exercise]
        "a stage" = [
          { name = "rows of four", x = { shape = [3, 4], seed = 1 }, dim = -1, tolerance = 1e-3 },
        ]

    What is no field of a probe is passed to ``call``, which makes the call: a list as a tensor of
    its values, a table as one of ``values`` or of ``integers`` (`shape`, `seed`, `scale`,
    `offset`), of a ``dtype``, divided by ``over``, its axes in the order ``permute``.
    ``tolerance`` is of the largest element. Where they are ``plain``, arguments stay as they are.
    """
    text = Path(file).with_name("probes.toml").read_text(encoding="utf-8")
    probes = []
    for stage, rows in tomllib.loads(text)[exercise].items():
        for row in rows:
            own = {key: row.pop(key) for key in _OF_A_PROBE if key in row}
            allowed = Tolerance(0.0, row.pop("tolerance")) if "tolerance" in row else tolerance
            arguments = row if plain else {key: _as_argument(row[key]) for key in row}
            probes.append(Probe(stage=stage, call=call(**arguments), tolerance=allowed, **own))
    return probes


def _as_argument(value: Any) -> Any:
    if isinstance(value, list):
        return torch.tensor(value)
    return _as_tensor(**value) if isinstance(value, dict) else value


def _as_tensor(
    values: Any = None,
    shape: Sequence[int] = (),
    dtype: str = "float32",
    over: float = 1.0,
    permute: Sequence[int] | None = None,
    **drawn: Any,
) -> Tensor:
    kind = getattr(torch, dtype)
    x = integers(*shape, **drawn).to(kind) if values is None else torch.tensor(values, dtype=kind)
    return x / over if permute is None else x.permute(*permute)


COUNTED = Tolerance(0.0, 1e-9)  # of what is counted none may be missing
# what float64 all the way through keeps; float32 anywhere loses 1e-8
DOUBLE = Tolerance(0.0, 1e-12)

# Half a unit in the last place: the most that rounding a right value once to the dtype can move it,
# relative to it.
_HALF_ULP = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}

# Measured on the probes of the five norms, relative to the largest element: right float32 forms
# (two-pass, Welford, einsum, torch's own) are off by up to 4e-7, the mildest catalogued mistake
# that is not rounding by 1e-2. In half precision a result that is computed in float32 and rounded
# once is off by half a unit in the last place at most, plus the float32 error before it, for which
# 2 % of that are left; rounded twice it is off by 1.3 to 2 times as much.
OUTPUTS = {
    torch.float64: Tolerance(0.0, 1e-5),  # float32 inside is a right way to write it
    torch.float32: Tolerance(0.0, 1e-5),
    **{dtype: Tolerance(1.02 * half_ulp, 2e-5) for dtype, half_ulp in _HALF_ULP.items()},
}

# A gradient is a sum: in half precision every use of x in the forward pass adds a rounded term, and
# torch's own CPU kernels add up the rows of dweight in the input's dtype. Right forms are off by up
# to 1.3 half units of the largest element; the tolerance is there to catch a wrong gradient, not a
# rounded one.
GRADIENTS = {
    torch.float64: Tolerance(0.0, 1e-5),
    torch.float32: Tolerance(0.0, 1e-5),
    **{dtype: Tolerance(0.0, 8 * half_ulp) for dtype, half_ulp in _HALF_ULP.items()},
}

# Two ways of writing one mistake agree as well as two right ways do: in half precision, to one unit
# in the last place.
_AGREEMENT = 2.5


def largest_error(values: Tensor, truth: Tensor) -> float:
    """Return the largest |values − truth|; NaN counts as infinite, and equal infinities as no
    error."""
    return _largest(_errors(values, truth))


def error_ratio(values: Tensor, truth: Tensor, allowed: Tensor) -> float:
    """Return the largest error in units of what is allowed: right is at most 1."""
    return _largest(_errors(values, truth) / allowed)


def _errors(values: Tensor, truth: Tensor) -> Tensor:
    return (values - truth).abs().masked_fill(values == truth, 0.0)


def _largest(errors: Tensor) -> float:
    return (
        errors.nan_to_num(nan=float("inf"), posinf=float("inf")).max().item()
        if errors.numel()
        else 0.0
    )


def same(values: Tensor, example: Tensor, rounding: Tensor) -> bool:
    """Return whether ``values`` are what ``example`` is, NaN in the same places, within
    ``rounding``."""
    if values.shape != example.shape:
        return False
    both_nan = values.isnan() & example.isnan()
    return bool((((values - example).abs() <= rounding) | (values == example) | both_nan).all())
