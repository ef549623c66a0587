"""What an argument of a piece may be: said to the learner, and held against what the learner hands in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from course_utils.arguments import is_number, is_whole

__all__ = ["Flag", "Lengths", "Numbers", "Options", "Real", "Take", "Whole", "Word", "complaint", "drawn"]

Sizes = Mapping[str, tuple[int, int]]  # of each axis, by its letter: the least and the most


class Take(Protocol):
    """What one argument may be."""

    def says(self) -> str:
        """Return what the argument may be, in words."""
        ...

    def complaint(self, value: Any) -> str:
        """Return what was given in place of it, to follow "got", or nothing."""
        ...

    def draw(self, rng: torch.Generator, draft: "Draft") -> Any:
        """Return any value that it may be; a tensor holds normal numbers, in the sizes and the dtype of ``draft``."""
        ...


@dataclass(frozen=True)
class Draft:
    """What the tensors of one random input have in common: a size for each axis, and which of their dtypes."""

    sizes: Mapping[str, int]
    dtype: int


@dataclass(frozen=True)
class Numbers:
    """A tensor of finite numbers.

    Args:
        axes: a letter for each dimension.
        largest: what no element may exceed, in absolute value.
        dtypes: the dtypes that it may have.
        optional: whether it may be None.
    """

    axes: str
    largest: float
    dtypes: Sequence[torch.dtype] = (torch.float32,)
    optional: bool = False

    def says(self) -> str:
        dtypes = " or ".join(_name(dtype) for dtype in self.dtypes)
        none = "None, or " if self.optional else ""
        return f"{none}a {dtypes} tensor ({', '.join(self.axes)}), elements up to ±{self.largest:,g}"

    def complaint(self, value: Any) -> str:
        if value is None and self.optional:
            return ""
        if not isinstance(value, Tensor):
            return repr(value) if isinstance(value, int | float) else type(value).__name__
        if value.ndim != len(self.axes):
            return f"shape {tuple(value.shape)}"
        if value.dtype not in self.dtypes:
            return _name(value.dtype)
        if value.device.type != "cpu":
            return f"a tensor on {value.device}"
        if not value.isfinite().all():
            return "NaN or infinity among its elements"
        return f"an element of {_largest(value):,g}" if _largest(value) > self.largest else ""

    def draw(self, rng: torch.Generator, draft: Draft) -> Tensor | None:
        if self.optional and _below(2, rng):
            return None
        shape = [draft.sizes[letter] for letter in self.axes]
        return torch.randn(shape, generator=rng).to(self.dtypes[draft.dtype % len(self.dtypes)])


@dataclass(frozen=True)
class Whole:
    """A whole number from ``low`` to ``high``; only one of ``among``, if given."""

    low: int
    high: int
    among: Sequence[int] = ()

    def says(self) -> str:
        return (
            "one of " + ", ".join(map(str, self.among)) if self.among else f"a whole number, {self.low} to {self.high}"
        )

    def complaint(self, value: Any) -> str:
        fits = is_whole(value) and (value in self.among if self.among else self.low <= value <= self.high)
        return "" if fits else repr(value)

    def draw(self, rng: torch.Generator, draft: Draft) -> int:
        among = self.among or range(self.low, self.high + 1)
        return among[_below(len(among), rng)]


@dataclass(frozen=True)
class Real:
    """A number from ``low`` to ``high``."""

    low: float
    high: float

    def says(self) -> str:
        return f"a number, {self.low:,g} to {self.high:,g}"

    def complaint(self, value: Any) -> str:
        return "" if is_number(value) and self.low <= value <= self.high else repr(value)

    def draw(self, rng: torch.Generator, draft: Draft) -> float:
        return self.low + (self.high - self.low) * torch.rand((), generator=rng).item()


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def says(self) -> str:
        return "True or False"

    def complaint(self, value: Any) -> str:
        return "" if isinstance(value, bool) else repr(value)

    def draw(self, rng: torch.Generator, draft: Draft) -> bool:
        return bool(_below(2, rng))


@dataclass(frozen=True)
class Lengths:
    """A list of one to ``most`` whole numbers from 1 to ``high``."""

    most: int
    high: int

    def says(self) -> str:
        return f"a list of 1 to {self.most} lengths, each from 1 to {self.high:,}"

    def complaint(self, value: Any) -> str:
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= self.most:
            return repr(value)
        return next((repr(one) for one in value if Whole(1, self.high).complaint(one)), "")

    def draw(self, rng: torch.Generator, draft: Draft) -> list[int]:
        return [1 + _below(self.high, rng) for _ in range(1 + _below(self.most, rng))]


@dataclass(frozen=True)
class Options:
    """A dictionary in some form, which the right answer of the piece refuses where it makes no sense.

    Args:
        words: what it may be.
        any_of: draws one.
    """

    words: str
    any_of: Callable[[torch.Generator], dict[str, Any]]

    def says(self) -> str:
        return self.words

    def complaint(self, value: Any) -> str:
        return "" if isinstance(value, dict) else repr(value)

    def draw(self, rng: torch.Generator, draft: Draft) -> dict[str, Any]:
        return self.any_of(rng)


@dataclass(frozen=True)
class Word:
    """One of a few words."""

    among: Sequence[str]

    def says(self) -> str:
        return " or ".join(f"`{word!r}`" for word in self.among)

    def complaint(self, value: Any) -> str:
        return "" if isinstance(value, str) and value in self.among else repr(value)

    def draw(self, rng: torch.Generator, draft: Draft) -> str:
        return self.among[_below(len(self.among), rng)]


def complaint(takes: Mapping[str, Take], sizes: Sizes, arguments: Mapping[str, Any]) -> str:
    """Return the first thing in ``arguments`` that a piece does not take, as a sentence, or nothing."""
    for name, take in takes.items():
        if got := take.complaint(arguments[name]):
            return f"{name} must be {take.says()}: got {got}."
    return _size_complaint(takes, sizes, arguments) or _dtype_complaint(takes, arguments)


def drawn(takes: Mapping[str, Take], sizes: Sizes, rng: torch.Generator) -> dict[str, Any]:
    """Return arguments of any size, dtype and setting; small sizes come as often as large ones."""
    powers = {
        letter: low * (high / low) ** torch.rand((), generator=rng).item() for letter, (low, high) in sizes.items()
    }
    draft = Draft({letter: round(size) for letter, size in powers.items()}, _below(6, rng))
    return {name: take.draw(rng, draft) for name, take in takes.items()}


def _below(high: int, rng: torch.Generator) -> int:
    return int(torch.randint(high, (), generator=rng))


def _size_complaint(takes: Mapping[str, Take], sizes: Sizes, arguments: Mapping[str, Any]) -> str:
    seen: dict[str, tuple[str, int]] = {}
    for name, axes, value in _tensors(takes, arguments):
        for letter, size in zip(axes, value.shape, strict=True):
            other, expected = seen.setdefault(letter, (name, size))
            low, high = sizes[letter]
            if size != expected:
                return f"{name} and {other} must have the same {letter}: got {size} and {expected}."
            if not low <= size <= high:
                return f"{letter} must be from {low:,} to {high:,}: got {size:,} in {name}."
    return ""


def _dtype_complaint(takes: Mapping[str, Take], arguments: Mapping[str, Any]) -> str:
    dtypes = {name: value.dtype for name, _, value in _tensors(takes, arguments)}
    if len(set(dtypes.values())) > 1:
        got = ", ".join(f"{name} {_name(dtype)}" for name, dtype in dtypes.items())
        return f"The tensors must be of one dtype: got {got}."
    return ""


def _tensors(takes: Mapping[str, Take], arguments: Mapping[str, Any]) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the name, the axes and the value of each argument that is a tensor."""
    for name, take in takes.items():
        if isinstance(take, Numbers) and arguments[name] is not None:
            yield name, take.axes, arguments[name]


def _largest(value: Tensor) -> float:
    return value.abs().max().item() if value.numel() else 0.0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
