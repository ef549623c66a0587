"""Chapter 17: a piece of code with one bug: what it claims, what its arguments may be, and inputs to try it on.

What is read is text, in ``bugs.toml`` and ``pieces/``; what is computed stands in ``catalogue``.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.book.tables import format_number
from course_utils.session import generator

__all__ = ["Arguments", "Between", "Bug", "Difference", "Made", "Markdown", "Tensors", "below", "copied"]

Arguments = dict[str, Any]

_FOLDER = Path(__file__).parent
_HINTS = ("Hint 1: a question", "Hint 2: a nudge", "Hint 3: the key")
_ROUNDING = 1e-9  # what is smaller is rounding noise beside a zero, and other on every machine


@dataclass(frozen=True)
class Difference:
    """How far a function is from the right answer, where it is furthest.

    Args:
        ratio: the error in units of what is allowed; infinite for NaN.
        error: the error itself; NaN where the function gives NaN.
        quantity: which of the returned quantities it is in.
        place: the element in that quantity.
        right, got: both as float64, whole.
    """

    ratio: float
    error: float
    quantity: str
    place: tuple[int, ...]
    right: Tensor
    got: Tensor

    def message(self) -> str:
        """Return it in words, to stand in a sentence: which element is what, and what is right."""
        values = (quantity[self.place].item() for quantity in (self.got, self.right))
        got, right = (format_number(0.0 if abs(value) < _ROUNDING else value) for value in values)
        return f"{self.quantity} {list(self.place)} of the piece is {got}, where {right} is right"


@dataclass(frozen=True)
class Markdown:
    """A text that a notebook sets as Markdown, and that prints as it is."""

    text: str

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


class Tensors(NamedTuple):
    """A tensor that an argument may be: a letter for each axis, the largest absolute value, the dtypes; or None."""

    axes: str
    largest: float
    dtypes: Sequence[torch.dtype] = (torch.float32,)
    or_none: bool = False


class Between(NamedTuple):
    """Numbers that an argument may be."""

    low: float
    high: float


class Made(NamedTuple):
    """What an argument may be where it takes code to say: whether a value fits, and how one is drawn."""

    fits: Callable[[Any], bool]
    draw: Callable[[torch.Generator], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bug:
    """A piece of code with a bug. An input *shows* it where the piece is wrong, and right with the bug mended.

    Args:
        letter: its name; the source is ``pieces/<letter>.py``.
        spec: what each argument may be: a tensor, a number between two, one of a sequence, or what code says.
        draw: returns an ordinary input, as a test with random numbers would make it.
        right: the right answer, found without the piece, floating tensors in float64; ValueError where there is none.
        solution: returns an input that shows the bug, given the ordinary one.
        near: whether an input comes close, in each of the ways that ``near_messages`` speak of.
        function: the function of the piece to call.
        arguments: what each argument may be, in words.
        mend: what to replace in the source, and by what, so that the bug is gone.
        tolerance: how far off is still right, relative to the largest element of the right answer (to 1 if smaller).
        because: why so much.
        wrong, seen: what is wrong, and where it was seen.
        sizes: of each axis: the least and the most.
        returns: names for what the function returns.
    """

    letter: str
    spec: Mapping[str, Tensors | Between | Made | Sequence[Any]]
    draw: Callable[[torch.Generator], Arguments]
    right: Callable[..., Tensor | tuple[Tensor, ...]]
    solution: Callable[[Arguments], Arguments]
    near: Sequence[Callable[..., bool]] = ()
    near_messages: Sequence[str] = ()
    function: str
    claim: str
    arguments: Mapping[str, str]
    mend: tuple[str, str]
    tolerance: float
    because: str
    hints: Sequence[str]
    wrong: str
    seen: str
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    returns: Sequence[str] = ("output",)

    @cached_property
    def source(self) -> str:
        """The source, as the learner reads it and as it runs."""
        return (_FOLDER / "pieces" / f"{self.letter.lower()}.py").read_text(encoding="utf-8")

    @cached_property
    def mended_source(self) -> str:
        """The source without the bug."""
        assert self.source.count(self.mend[0]) == 1, f"mend must name a text that is once in piece {self.letter}"
        return self.source.replace(*self.mend)

    @cached_property
    def broken(self) -> Callable[..., Any]:
        """The function as it stands."""
        return self._load(self.source)

    @cached_property
    def mended(self) -> Callable[..., Any]:
        """The function without the bug."""
        return self._load(self.mended_source)

    def _load(self, source: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"__name__": f"piece_{self.letter.lower()}"}
        exec(compile(source, f"<piece {self.letter}>", "exec"), namespace)
        return namespace[self.function]

    def ordinary(self, seed: int = 0) -> Arguments:
        """Return an ordinary input; 0 is the one that the learner starts from."""
        return self.draw(generator(seed))

    def anything(self, seed: int) -> Arguments:
        """Return a valid input of any size, dtype and setting, whose tensors hold normal numbers."""
        rng = generator(seed)
        while True:
            arguments = self._drawn(rng)
            with suppress(ValueError):  # what nobody could answer is drawn again
                self.difference(self.mended, arguments)
                return arguments

    def _drawn(self, rng: torch.Generator) -> Arguments:
        """Small sizes come as often as large ones, and all tensors in one dtype."""
        rand = {letter: torch.rand((), generator=rng).item() for letter in self.sizes}
        sizes = {letter: round(low * (high / low) ** rand[letter]) for letter, (low, high) in self.sizes.items()}
        which = below(6, rng)
        arguments: Arguments = {}
        for name, spec in self.spec.items():
            if isinstance(spec, Tensors):
                is_none = spec.or_none and below(2, rng)
                shape, dtype = [sizes[letter] for letter in spec.axes], spec.dtypes[which % len(spec.dtypes)]
                arguments[name] = None if is_none else torch.randn(shape, generator=rng).to(dtype)
            elif isinstance(spec, Between):
                arguments[name] = spec.low + (spec.high - spec.low) * torch.rand((), generator=rng).item()
            else:
                arguments[name] = spec.draw(rng) if isinstance(spec, Made) else spec[below(len(spec), rng)]
        return arguments

    def complaint(self, arguments: Mapping[str, Any]) -> str:
        """Return why ``arguments`` are no input of this piece, as a sentence, or nothing."""
        if set(arguments) != set(self.spec):
            return f"The arguments must be {', '.join(self.spec)}: got {', '.join(map(str, arguments)) or 'none'}."
        for name, spec in self.spec.items():
            value = arguments[name]
            got = _misfit(value, spec) if isinstance(spec, Tensors) else "" if _fits(value, spec) else repr(value)
            if got:
                return f"{name} must be {self.arguments[name]}: got {got}."
        return self._size_complaint(arguments)

    def _size_complaint(self, arguments: Mapping[str, Any]) -> str:
        given = {name: arguments[name] for name in self.axes(arguments)}
        seen: dict[str, tuple[str, int]] = {}
        for name, axes in self.axes(arguments).items():
            for letter, size in zip(axes, given[name].shape, strict=True):
                other, expected = seen.setdefault(letter, (name, size))
                low, high = self.sizes[letter]
                if size != expected:
                    return f"{name} and {other} must have the same {letter}: got {size} and {expected}."
                if not low <= size <= high:
                    return f"{letter} must be from {low:,} to {high:,}: got {size:,} in {name}."
        if len({value.dtype for value in given.values()}) > 1:
            got = ", ".join(f"{name} {_name(value.dtype)}" for name, value in given.items())
            return f"The tensors must be of one dtype: got {got}."
        return ""

    def axes(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the letters of the axes of those ``arguments`` that are tensors."""
        tensors = {name: spec for name, spec in self.spec.items() if isinstance(spec, Tensors)}
        return {name: spec.axes for name, spec in tensors.items() if arguments[name] is not None}

    def difference(self, function: Callable[..., Any], arguments: Arguments) -> Difference:
        """Return how far ``function`` is from the right answer on ``arguments``, where it is furthest.

        Raises:
            ValueError: there is no right answer to ``arguments``.
        """
        right = _quantities(self.right(**copied(arguments, double=True)))
        got = _quantities(function(**copied(arguments)))
        if not all(quantity.isfinite().all() for quantity in right):
            raise ValueError("the right answer to this input is not finite")
        found = [self._compare(*quantity) for quantity in zip(self.returns, right, got, strict=True)]
        return max(found, key=lambda difference: difference.ratio)

    def _compare(self, name: str, right: Tensor, got: Tensor) -> Difference:
        errors = (got - right).abs()
        ratios = errors.nan_to_num(nan=float("inf")) / (self.tolerance * max(right.abs().max().item(), 1.0))
        place = tuple(int(index) for index in torch.unravel_index(ratios.argmax(), ratios.shape))
        return Difference(ratios[place].item(), errors[place].item(), name, place, right, got)

    def shows(self, arguments: Arguments) -> bool:
        """Return whether the piece is wrong on ``arguments``, and right once its bug is mended."""
        is_wrong = self.difference(self.broken, arguments).ratio > 1
        return is_wrong and self.difference(self.mended, arguments).ratio <= 1

    def show(self) -> Markdown:
        """Return the piece as the learner first meets it: claim, source, arguments, hints."""
        ordinary = self.ordinary()
        lines = [f"- `{name}`: {words} (ordinary: {_shown(ordinary[name])})" for name, words in self.arguments.items()]
        limits = ", ".join(f"{letter} from {low:,} to {high:,}" for letter, (low, high) in self.sizes.items())
        parts = [
            self.claim,
            f"```python\n{self.source.rstrip()}\n```",
            "Arguments:",
            "\n".join(lines),
            f"Sizes: {limits}." if limits else "",
            f"An answer counts as right within {self.tolerance:g} of its largest element (of 1, if that is smaller).",
            *(_folded(title, hint) for title, hint in zip(_HINTS, self.hints, strict=True)),
        ]
        return Markdown("\n\n".join(part for part in parts if part))

    def reveal(self) -> Markdown:
        """Return what is wrong, the mended line, and where such a bug was seen, folded."""
        lines = unified_diff(self.source.splitlines(), self.mended_source.splitlines(), lineterm="", n=0)
        changed = "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))
        found = self.difference(self.broken, self.ordinary() | self.solution(self.ordinary())).message()
        parts = (
            self.wrong,
            f"```diff\n{changed}\n```",
            f"On the course's input, {found}.",
            f"**Seen.** {self.seen}",
            f"Why within {self.tolerance:g}: {self.because}.",
        )
        return Markdown(_folded(f"Piece {self.letter}: what was wrong", "\n\n".join(parts)))


def copied(arguments: Mapping[str, Any], double: bool = False) -> Arguments:
    """Return copies of ``arguments``, off any graph; floating tensors in float64 if ``double``."""
    return {name: _copy(value, double) for name, value in arguments.items()}


def below(high: int, rng: torch.Generator) -> int:
    """Return a random whole number from 0 to ``high`` - 1."""
    return int(torch.randint(high, (), generator=rng))


def _copy(value: Any, double: bool) -> Any:
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    return value.detach().to(torch.float64 if double and value.is_floating_point() else value.dtype, copy=True)


def _quantities(value: Any) -> tuple[Tensor, ...]:
    return tuple(part.detach().double() for part in (value if isinstance(value, tuple) else (value,)))


def _fits(value: Any, spec: Between | Made | Sequence[Any]) -> bool:
    if isinstance(spec, Made):
        return spec.fits(value)
    if isinstance(spec, Between):
        return isinstance(value, int | float) and not isinstance(value, bool) and spec.low <= value <= spec.high
    return type(value) is type(spec[0]) and value in spec  # True is no 1


def _misfit(value: Any, wanted: Tensors) -> str:
    """Return what was given in place of a tensor as ``wanted``, to follow "got", or nothing."""
    if value is None and wanted.or_none:
        return ""
    if not isinstance(value, Tensor):
        return repr(value) if isinstance(value, int | float) else type(value).__name__
    if value.ndim != len(wanted.axes):
        return f"shape {tuple(value.shape)}"
    if value.dtype not in wanted.dtypes:
        return _name(value.dtype)
    if value.device.type != "cpu":
        return f"a tensor on {value.device}"
    if not value.isfinite().all():
        return "NaN or infinity among its elements"
    largest = value.abs().max().item() if value.numel() else 0.0
    return f"an element of {largest:,g}" if largest > wanted.largest else ""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        spread = "standard normal" if value.ndim > 1 else "random"
        return f"{spread}, {tuple(value.shape)}, {_name(value.dtype)}"
    return f"`{value!r}`"


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
