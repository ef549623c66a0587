"""Chapter 19: a piece of code, with one bug or none: what it claims, what its arguments may be, inputs to try it on."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.book.tables import format_number
from course_utils.session import generator

__all__ = ["Arguments", "Between", "Bug", "Difference", "Made", "Markdown", "Tensors", "below", "copied"]

Arguments = dict[str, Any]

_HINTS = ("Hint 1: a question", "Hint 2: a nudge", "Hint 3: the key")
_ROUNDING = 1e-9  # what is smaller is rounding noise beside a zero, and other on every machine


@dataclass(frozen=True)
class Difference:
    """How far a function is from the right answer, where it is furthest."""

    ratio: float  # the error in units of what is allowed; infinite for NaN
    error: float  # NaN where the function gives NaN
    quantity: str  # which of the returned quantities it is in
    place: tuple[int, ...]  # the element in that quantity
    right: Tensor  # the whole quantity, in float64, as is what was got
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
    """What an argument may be where it takes code to say."""

    fits: Callable[[Any], bool]
    draw: Callable[[torch.Generator], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bug:
    """A piece of code. An input *shows* its bug where the piece is wrong, and right with the bug mended.

    A clean piece has no bug, and ``spoiled`` versions of it in its place: what is tried on it must tell them apart.
    """

    letter: str
    source: str  # as the learner reads it and as it runs
    mended_source: str  # without the bug
    broken: Callable[..., Any]  # the function as it stands
    mended: Callable[..., Any]  # without the bug; of a clean piece the same
    spoiled: Mapping[str, Callable[..., Any]]  # a clean piece with a mistake put in, by what the mistake does
    spec: Mapping[str, Tensors | Between | Made | Sequence[Any]]  # what each argument may be; a sequence: one of it
    draw: Callable[[torch.Generator], Arguments]  # an ordinary input, as a test with random numbers would make it
    right: Callable[..., Tensor | tuple[Tensor, ...]]  # the answer, found without the piece; ValueError: there is none
    # What to change in the ordinary input so that it shows the bug; of a clean piece, a list of changes to try.
    solution: Callable[[Arguments], Arguments | list[Arguments]]
    function: str  # its name
    claim: str
    arguments: Mapping[str, str]  # what each argument may be, in words
    tolerance: float  # how far off is still right, relative to the largest element of the right answer (to 1 if less)
    because: str  # why so much
    hints: Sequence[str]
    wrong: str  # what is wrong
    seen: str  # where it was seen
    near: Mapping[str, str] = field(default_factory=dict)  # what to say to an input that meets a condition
    innocent: Mapping[str, str] = field(default_factory=dict)  # why a line is right that has this text in it
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of each axis: the least and the most
    returns: Sequence[str] = ("output",)  # names for what the function returns

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with the piece."""
        return bool(self.spoiled)

    def tried(self, answer: Arguments | list[Arguments]) -> list[Arguments]:
        """Return the inputs of an answer, what it leaves out ordinary: one, or the list of who calls a piece clean."""
        return [self.ordinary() | changed for changed in (answer if isinstance(answer, list) else [answer])]

    def unnoticed(self, inputs: Sequence[Arguments]) -> list[str]:
        """Return what the mistakes do that could be put into a clean piece and that none of ``inputs`` would show."""
        return [
            what
            for what, spoiled in self.spoiled.items()
            if all(self.difference(spoiled, arguments).ratio <= 1 for arguments in inputs)
        ]

    def ordinary(self, seed: int = 0) -> Arguments:
        """Return an ordinary input; 0 is the one that the learner starts from."""
        return self.draw(generator(seed))

    def anything(self, seed: int) -> Arguments:
        """Return a valid input of any size, dtype and setting, whose tensors hold normal numbers."""
        rng = generator(seed)
        while True:
            rand = {letter: torch.rand((), generator=rng).item() for letter in self.sizes}
            # Small sizes come as often as large ones, and all tensors in one dtype.
            sizes = {letter: round(low * (high / low) ** rand[letter]) for letter, (low, high) in self.sizes.items()}
            which = below(6, rng)
            arguments = {name: _drawn(spec, sizes, which, rng) for name, spec in self.spec.items()}
            with suppress(ValueError):  # what nobody could answer is drawn again
                self.difference(self.mended, arguments)
                return arguments

    def complaint(self, arguments: Mapping[str, Any]) -> str:
        """Return why ``arguments`` are no input of this piece, as a sentence, or nothing."""
        if set(arguments) != set(self.spec):
            return f"The arguments must be {', '.join(self.spec)}: got {', '.join(map(str, arguments)) or 'none'}."
        for name, spec in self.spec.items():
            if not _fits(arguments[name], spec):
                return f"{name} must be {self.arguments[name]}: got {_described(arguments[name])}."
        tensors = {name: arguments[name] for name in self.axes(arguments)}
        seen: dict[str, tuple[str, int]] = {}
        for name, axes in self.axes(arguments).items():
            for letter, size in zip(axes, tensors[name].shape, strict=True):
                other, expected = seen.setdefault(letter, (name, size))
                low, high = self.sizes[letter]
                if size != expected:
                    return f"{name} and {other} must have the same {letter}: got {size} and {expected}."
                if not low <= size <= high:
                    return f"{letter} must be from {low:,} to {high:,}: got {size:,} in {name}."
        dtypes = {name: _name(value.dtype) for name, value in tensors.items()}
        if len(set(dtypes.values())) > 1:
            return f"The tensors must be of one dtype: got {', '.join(map(' '.join, dtypes.items()))}."
        return ""

    def near_message(self, arguments: Arguments) -> str:
        """Return what to say to an input that comes close, or nothing."""
        names = {"torch": torch, **arguments}
        return next((message for condition, message in self.near.items() if eval(condition, names)), "")

    def axes(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the letters of the axes of those ``arguments`` that are tensors."""
        tensors = {name: spec for name, spec in self.spec.items() if isinstance(spec, Tensors)}
        return {name: spec.axes for name, spec in tensors.items() if arguments[name] is not None}

    def difference(self, function: Callable[..., Any], arguments: Arguments) -> Difference:
        """Return how far ``function`` is from the right answer on ``arguments``; ValueError where there is none."""
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

    def show(self, hints: int = len(_HINTS)) -> Markdown:
        """Return the piece as the learner first meets it: claim, source, arguments, as many hints."""
        ordinary = {name: _ordinary(value) for name, value in self.ordinary().items()}
        lines = [f"- `{name}`: {words} (ordinary: {ordinary[name]})" for name, words in self.arguments.items()]
        limits = ", ".join(f"{letter} from {low:,} to {high:,}" for letter, (low, high) in self.sizes.items())
        parts = [
            self.claim,
            f"```python\n{self.source.rstrip()}\n```",
            "Arguments:",
            "\n".join(lines),
            f"Sizes: {limits}." if limits else "",
            f"An answer counts as right within {self.tolerance:g} of its largest element (of 1, if that is smaller).",
            *(_folded(title, hint) for title, hint in zip(_HINTS[:hints], self.hints, strict=False)),
        ]
        return Markdown("\n\n".join(part for part in parts if part))

    def reveal(self) -> Markdown:
        """Return what is wrong, the mended line, and where such a bug was seen, folded."""
        if self.is_clean:
            shown = f"The course's inputs tell it from a version that {', one that '.join(self.spoiled)}."
        else:
            lines = unified_diff(self.source.splitlines(), self.mended_source.splitlines(), lineterm="", n=0)
            changed = "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))
            found = self.difference(self.broken, self.tried(self.solution(self.ordinary()))[0]).message()
            shown = f"```diff\n{changed}\n```\n\nOn the course's input, {found}."
        seen, why = f"**Seen.** {self.seen}", f"Why within {self.tolerance:g}: {self.because}."
        return Markdown(_folded(f"Piece {self.letter}: the answer", "\n\n".join((self.wrong, shown, seen, why))))


def copied(arguments: Mapping[str, Any], double: bool = False) -> Arguments:
    """Return copies of ``arguments``, off any graph; floating tensors in float64 if ``double``."""
    copies = {name: v.detach().clone() if isinstance(v, Tensor) else copy.deepcopy(v) for name, v in arguments.items()}
    floats = {name: v for name, v in copies.items() if isinstance(v, Tensor) and v.is_floating_point()}
    return copies | {name: v.double() for name, v in floats.items()} if double else copies


def below(high: int, rng: torch.Generator) -> int:
    """Return a random whole number from 0 to ``high`` - 1."""
    return int(torch.randint(high, (), generator=rng))


def _drawn(spec: Any, sizes: Mapping[str, int], which: int, rng: torch.Generator) -> Any:
    if isinstance(spec, Tensors):
        if spec.or_none and below(2, rng):
            return None
        return torch.randn([sizes[a] for a in spec.axes], generator=rng).to(spec.dtypes[which % len(spec.dtypes)])
    if isinstance(spec, Between):
        return spec.low + (spec.high - spec.low) * torch.rand((), generator=rng).item()
    return spec.draw(rng) if isinstance(spec, Made) else spec[below(len(spec), rng)]


def _quantities(value: Any) -> tuple[Tensor, ...]:
    return tuple(part.detach().double() for part in (value if isinstance(value, tuple) else (value,)))


def _fits(value: Any, spec: Tensors | Between | Made | Sequence[Any]) -> bool:
    if isinstance(spec, Made):
        return spec.fits(value)
    if isinstance(spec, Between):
        return isinstance(value, int | float) and not isinstance(value, bool) and spec.low <= value <= spec.high
    if not isinstance(spec, Tensors):
        return type(value) is type(spec[0]) and value in spec  # True is no 1
    if value is None:
        return spec.or_none
    is_alike = isinstance(value, Tensor) and value.dtype in spec.dtypes and value.device.type == "cpu"
    return is_alike and value.ndim == len(spec.axes) and bool((value.abs() <= spec.largest).all())  # no NaN is


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__ if value is None else repr(value)
    largest = f", elements up to {value.abs().max().item():,g}" if value.numel() else ""
    return f"a {_name(value.dtype)} tensor {tuple(value.shape)}{largest}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _ordinary(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"`{value!r}`"
    return f"{'standard normal' if value.ndim > 1 else 'random'}, {tuple(value.shape)}, {_name(value.dtype)}"
