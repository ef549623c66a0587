"""Chapter 21: a piece of code, with one bug or none: what it claims, what its arguments may be,
inputs to try it on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chapters.c21_find_the_bug.bugs.reply import complaint, first_that_holds, what_is_off
from chapters.c21_find_the_bug.bugs.spec import Spec, below
from course_utils.check.catalogue import changed_lines, with_edits
from course_utils.check.probes import Call, Tolerance, error_ratio
from course_utils.session import generator

__all__ = ["Arguments", "Difference", "Markdown", "Piece"]

Arguments = dict[str, Any]

_SOURCES = Path(__file__).with_name("pieces")
_HINTS = ("Hint 1: a question", "Hint 2: a nudge", "Hint 3: the key")


@dataclass(frozen=True)
class Difference:
    """How far a function is from the right answer, where it is furthest."""

    ratio: float  # the error in units of what is allowed; infinite for NaN
    error: float  # NaN where the function gives NaN
    place: tuple[int, ...]  # the element
    right: Tensor  # the whole output, in float64, as is what was got
    got: Tensor

    def message(self) -> str:
        """Return it in words, to stand in a sentence: which element is what, and what is right."""
        return what_is_off(self.place, self.got[self.place].item(), self.right[self.place].item())


@dataclass(frozen=True)
class Markdown:
    """A text that a notebook sets as Markdown, and that prints as it is."""

    text: str

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, kw_only=True)
class Piece:
    """A piece of code. An input *shows* its bug where the piece is wrong, and right with the bug
    mended.

    A clean piece has no bug, and versions to ``spoil`` it in its place: what is tried on it must
    tell them apart.
    """

    letter: str
    name: str  # of the file with its source, as the learner reads it and as it runs
    spec: Mapping[str, Spec]
    # an ordinary input, as a test with random numbers would make it
    draw: Callable[[torch.Generator], Arguments]
    right: Callable[..., Tensor]  # the answer, found without the piece; ValueError: there is none
    # What to change in the ordinary input so that it shows the bug; of a clean piece, a list of
    # changes to try.
    solution: Callable[[Arguments], Arguments | list[Arguments]]

    # What bugs.toml says.
    function: str  # its name
    claim: str
    arguments: Mapping[str, str]  # what each argument may be, in words
    limits: Mapping[str, Mapping[str, Any]]  # what that is
    # how far off is still right, relative to the largest element of the right answer (to 1 if less)
    tolerance: float
    because: str  # why so much
    hints: Sequence[str]
    wrong: str  # what is wrong
    seen: str  # where it was seen
    mend: Mapping[str, str] = field(default_factory=dict)  # the edit that takes the bug out
    # edits that put one in, by what it does
    spoil: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # what to say to an input that meets a condition
    near: Mapping[str, str] = field(default_factory=dict)
    # what to say to an input that has no right answer, by the condition
    unanswerable: Mapping[str, str] = field(default_factory=dict)
    # why a line is right that has this text in it
    innocent: Mapping[str, str] = field(default_factory=dict)
    # of each axis: the least and the most
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def source(self) -> str:
        """The piece as it stands."""
        return (_SOURCES / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def mended_source(self) -> str:
        """The piece without the bug."""
        return with_edits(self.source, self.mend)

    @cached_property
    def broken(self) -> Callable[..., Any]:
        """The function as it stands."""
        return self._function({})

    @cached_property
    def mended(self) -> Callable[..., Any]:
        """The function without the bug; of a clean piece the same."""
        return self._function(self.mend)

    @cached_property
    def spoiled(self) -> dict[str, Callable[..., Any]]:
        """A clean piece with a mistake put in, by what the mistake does."""
        return {what: self._function(edit) for what, edit in self.spoil.items()}

    def _function(self, edit: Mapping[str, str]) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"__name__": f"piece_{self.letter.lower()}"}
        exec(compile(with_edits(self.source, edit), f"<piece {self.letter}>", "exec"), namespace)
        return namespace[self.function]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with the piece."""
        return bool(self.spoil)

    def tried(self, answer: Arguments | list[Arguments]) -> list[Arguments]:
        """Return the inputs of an answer, what it leaves out ordinary: one, or the list of who
        calls a piece clean."""
        return [
            self.ordinary() | changed
            for changed in (answer if isinstance(answer, list) else [answer])
        ]

    def unnoticed(self, inputs: Sequence[Arguments]) -> list[str]:
        """Return what the mistakes do that could be put into a clean piece and that none of
        ``inputs`` would show."""
        return [
            what
            for what, spoiled in self.spoiled.items()
            if all(self.difference(spoiled, arguments).ratio <= 1 for arguments in inputs)
        ]

    def ordinary(self, seed: int = 0) -> Arguments:
        """Return an ordinary input; 0 is the one that the learner starts from."""
        return self.draw(generator(seed))

    def anything(self, seed: int) -> Arguments:
        """Return a valid input of any size, dtype and setting, whose tensors hold normal
        numbers."""
        rng = generator(seed)
        while True:
            # Small sizes come as often as large ones, and all tensors in one dtype.
            sizes = {
                letter: round(low * (high / low) ** torch.rand((), generator=rng).item())
                for letter, (low, high) in self.sizes.items()
            }
            dtype_number = below(6, rng)
            arguments = {
                name: spec.draw(rng, sizes, dtype_number) for name, spec in self.spec.items()
            }
            with suppress(ValueError):  # what nobody could answer is drawn again
                self.difference(self.mended, arguments)
                return arguments

    def complaint(self, arguments: Mapping[str, Any]) -> str:
        """Return why ``arguments`` are no input of this piece, as a sentence, or nothing."""
        axes = {name: spec.axes for name, spec in self.spec.items()}
        return complaint(self.arguments, self._fits, axes, self.sizes, arguments)

    def _fits(self, name: str, value: Any) -> bool:
        return self.spec[name].fits(value)

    def axes(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the letters of the axes of those ``arguments`` that are tensors."""
        return {
            name: spec.axes
            for name, spec in self.spec.items()
            if spec.axes and arguments.get(name) is not None
        }

    def difference(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Difference:
        """Return how far ``function`` is from the right answer on ``arguments``; ValueError where
        there is none."""
        if no_answer := first_that_holds(self.unanswerable, arguments):
            raise ValueError(no_answer)
        call = Call(arguments)
        right = self.right(**call.fresh(double=True)).detach().double()
        got = function(**call.fresh()).detach().double()
        if not right.isfinite().all():
            raise ValueError("the right answer to this input is not finite")
        errors = (got - right).abs()
        sizes = errors.nan_to_num(nan=torch.inf)
        place = tuple((sizes == sizes.max()).nonzero()[0].tolist())
        ratio = error_ratio(got, right, Tolerance(0.0, self.tolerance).allowed(right))
        return Difference(ratio, errors[place].item(), place, right, got)

    def differences(self, arguments: Mapping[str, Any]) -> tuple[Difference, Difference]:
        """Return how far off the piece is on ``arguments``, and the piece with its bug mended."""
        return self.difference(self.broken, arguments), self.difference(self.mended, arguments)

    def usual_ratio(self) -> float:
        """Return how far off the piece is on the ordinary input, in units of what is allowed."""
        return self.difference(self.broken, self.ordinary()).ratio

    def shows(self, arguments: Arguments) -> bool:
        """Return whether the piece is wrong on ``arguments``, and right once its bug is mended."""
        broken, mended = self.differences(arguments)
        return broken.ratio > 1 >= mended.ratio

    def show(self, hints: int = len(_HINTS)) -> Markdown:
        """Return the piece as the learner first meets it: claim, source, arguments, as many
        hints."""
        values = self.ordinary()
        ordinary = {name: _ordinary(value) for name, value in values.items()}
        count = sum(isinstance(value, Tensor) for value in values.values())
        lines = [
            f"- `{name}`: {words} (ordinary: {ordinary[name]})"
            for name, words in self.arguments.items()
        ]
        limits = ", ".join(
            f"{letter} from {low:,} to {high:,}" for letter, (low, high) in self.sizes.items()
        )
        parts = [
            self.claim,
            f"```python\n{self.source.rstrip()}\n```",
            f"Arguments{', all tensors of one dtype' if count > 1 else ''}:",
            "\n".join(lines),
            f"Sizes: {limits}." if limits else "",
            f"An answer counts as right within {self.tolerance:g} of its largest element (of 1, if "
            "that is smaller).",
            *(
                _folded(title, hint)
                for title, hint in zip(_HINTS[:hints], self.hints, strict=False)
            ),
        ]
        return Markdown("\n\n".join(part for part in parts if part))

    def reveal(self) -> Markdown:
        """Return what is wrong, the mended line, and where such a bug was seen, folded."""
        if self.is_clean:
            evidence = (
                f"The course's inputs tell it from a version that {', one that '.join(self.spoil)}."
            )
        else:
            (arguments,) = self.tried(self.solution(self.ordinary()))
            difference = self.difference(self.broken, arguments).message()
            change = changed_lines(self.source, self.mended_source)
            evidence = f"```diff\n{change}\n```\n\nOn the course's input, {difference}."
        paragraphs = [
            self.wrong,
            evidence,
            f"**Seen.** {self.seen}",
            f"Why within {self.tolerance:g}: {self.because}.",
        ]
        return Markdown(_folded(f"Piece {self.letter}: the answer", "\n\n".join(paragraphs)))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _ordinary(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"`{value!r}`"
    return (
        f"{'standard normal' if value.ndim > 1 else 'random'}, {tuple(value.shape)}, "
        f"{_name(value.dtype)}"
    )
