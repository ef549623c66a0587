"""Chapter 19: what an argument of a piece may be, and a random one of these."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["Between", "Made", "OneOf", "Spec", "Tensors", "below"]


class Spec(Protocol):
    """What an argument may be."""

    def fits(self, value: Any) -> bool:
        """Return whether ``value`` is that."""

    def drawn(self, rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int) -> Any:
        """Return a random one; its axes are of ``sizes``, and all tensors of a draw have the same
        ``dtype_number``."""


class Tensors(NamedTuple):
    """A tensor: a letter for each axis, the largest absolute value, the dtypes; or None."""

    axes: str
    largest: float
    dtypes: Sequence[torch.dtype] = (torch.float32,)
    or_none: bool = False

    def fits(self, value: Any) -> bool:
        if value is None:
            return self.or_none
        is_alike = (
            isinstance(value, Tensor) and value.dtype in self.dtypes and value.device.type == "cpu"
        )
        # no NaN is
        return (
            is_alike and value.ndim == len(self.axes) and bool((value.abs() <= self.largest).all())
        )

    def drawn(
        self, rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int
    ) -> Tensor | None:
        if self.or_none and below(2, rng):
            return None
        values = torch.randn([sizes[letter] for letter in self.axes], generator=rng)
        return values.to(self.dtypes[dtype_number % len(self.dtypes)])


class Between(NamedTuple):
    """A number."""

    low: float
    high: float

    def fits(self, value: Any) -> bool:
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
        )

    def drawn(self, rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int) -> float:
        return self.low + (self.high - self.low) * torch.rand((), generator=rng).item()


class OneOf(NamedTuple):
    """One of some values."""

    values: Sequence[Any]

    def fits(self, value: Any) -> bool:
        return type(value) is type(self.values[0]) and value in self.values  # True is no 1

    def drawn(self, rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int) -> Any:
        return self.values[below(len(self.values), rng)]


class Made(NamedTuple):
    """What takes code to say."""

    condition: Callable[[Any], bool]
    draw: Callable[[torch.Generator], Any]

    def fits(self, value: Any) -> bool:
        return self.condition(value)

    def drawn(self, rng: torch.Generator, sizes: Mapping[str, int], dtype_number: int) -> Any:
        return self.draw(rng)


def below(high: int, rng: torch.Generator) -> int:
    """Return a random whole number from 0 to ``high`` - 1."""
    return int(torch.randint(high, (), generator=rng))
