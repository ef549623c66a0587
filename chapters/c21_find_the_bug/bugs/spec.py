"""Chapter 21: what an argument of a piece may be, and a random one of these."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Spec", "below", "read_spec"]


class Spec(NamedTuple):
    """What an argument may be."""

    fits: Callable[[Any], bool]  # whether a value is that
    # A random one, from the sizes of the axes and the number of the dtype that all tensors of a
    # draw have.
    draw: Callable[[torch.Generator, Mapping[str, int], int], Any]
    axes: str = ""  # of a tensor, a letter for each


def read_spec(limits: Mapping[str, Any]) -> Spec:
    """Return what ``limits`` in bugs.toml say: a tensor, a number, one of some values, a whole
    number."""
    if "axes" in limits:
        return _tensors(**limits)
    if "low" in limits:
        return _between(**limits)
    return _one_of(limits.get("one_of") or range(limits["first"], limits["last"] + 1))


def _tensors(
    axes: str, largest: float, dtypes: Sequence[str] = ("float32",), or_none: bool = False
) -> Spec:
    allowed = [getattr(torch, name) for name in dtypes]

    def fits(value: Any) -> bool:
        if value is None:
            return or_none
        if not isinstance(value, Tensor) or value.dtype not in allowed:
            return False
        is_alike = value.device.type == "cpu" and value.ndim == len(axes)
        return is_alike and bool((value.abs() <= largest).all())  # no NaN is

    def draw(rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int) -> Tensor | None:
        if or_none and below(2, rng):
            return None
        values = torch.randn([sizes[letter] for letter in axes], generator=rng)
        return values.to(allowed[dtype_number % len(allowed)])

    return Spec(fits, draw, axes)


def _between(low: float, high: float) -> Spec:
    def fits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and low <= value <= high

    return Spec(fits, lambda rng, *_: low + (high - low) * torch.rand((), generator=rng).item())


def _one_of(values: Sequence[Any]) -> Spec:
    return Spec(
        lambda value: type(value) is type(values[0]) and value in values,  # True is no 1
        lambda rng, *_: values[below(len(values), rng)],
    )


def below(high: int, rng: torch.Generator) -> int:
    """Return a random whole number from 0 to ``high`` - 1."""
    return int(torch.randint(high, (), generator=rng))
