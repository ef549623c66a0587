"""A broken piece of code: what it claims, what it takes, the line that is wrong, and an input that shows it."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils.book.tables import format_number
from course_utils.bugs.takes import Take, complaint, drawn
from course_utils.session import generator

__all__ = ["Arguments", "Difference", "NearMiss", "Piece", "copied"]

Arguments = dict[str, Any]
_FOLDER = Path(__file__).parent / "pieces"
_ROUNDING = 1e-9  # what is smaller is rounding noise beside a zero, and other on every machine


@dataclass(frozen=True)
class NearMiss:
    """What to say of inputs that come close: where ``when`` is true of the arguments."""

    when: Callable[[Arguments], bool]
    say: str


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

    def told(self) -> str:
        """Return it in words, to stand in a sentence: which element is what, and what is right."""
        got, right = (format_number(_flushed(values[self.place].item())) for values in (self.got, self.right))
        return f"{self.quantity} {list(self.place)} of the piece is {got}, where {right} is right"


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece. An input *shows* its bug where the piece is wrong and the piece with the bug mended is right.

    Args:
        letter: its name; the source is ``pieces/<letter>.py``.
        function: the function in it to call.
        claim: what it claims to compute, in a sentence.
        takes: what each argument may be.
        draw: returns an ordinary input, as a test with random numbers would make it.
        right: the right answer, independent of the piece; called with every floating tensor in float64. It raises
            ValueError for an input that nobody could answer.
        mend: what to replace in the source, and by what, so that the bug is gone.
        tolerance: how far off is still right, relative to the largest element of the right answer (to 1 if smaller).
        because: why so much.
        hints: a question, a nudge, the key to it.
        wrong, seen: for the reveal: what is wrong, and where it was seen.
        solution: returns an input that shows it, given the ordinary one.
        sizes: of each axis named in ``takes``: the least and the most.
        near: inputs that come close.
        returns: names for what the function returns.
    """

    letter: str
    function: str
    claim: str
    takes: Mapping[str, Take]
    draw: Callable[[torch.Generator], Arguments]
    right: Callable[..., Tensor | tuple[Tensor, ...]]
    mend: tuple[str, str]
    tolerance: float
    because: str
    hints: tuple[str, str, str]
    wrong: str
    seen: str
    solution: Callable[[Arguments], Arguments]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    near: Sequence[NearMiss] = ()
    returns: Sequence[str] = ("output",)

    @cached_property
    def source(self) -> str:
        """The source, as the learner reads it and as it runs."""
        return (_FOLDER / f"{self.letter.lower()}.py").read_text(encoding="utf-8")

    @cached_property
    def mended_source(self) -> str:
        """The source without the bug.

        Raises:
            ValueError: what is to be replaced does not stand in the source exactly once.
        """
        count = self.source.count(self.mend[0])
        if count != 1:
            raise ValueError(
                f"mend must name a text that is once in the source of piece {self.letter}: got it {count} times"
            )
        return self.source.replace(*self.mend)

    @cached_property
    def broken(self) -> Callable[..., Any]:
        """The function as it stands."""
        return self._load(self.source)

    @cached_property
    def mended(self) -> Callable[..., Any]:
        """The function without the bug."""
        return self._load(self.mended_source)

    def ordinary(self, seed: int = 0) -> Arguments:
        """Return an ordinary input; 0 is the one that the learner starts from."""
        return self.draw(generator(seed))

    def anything(self, seed: int) -> Arguments:
        """Return a valid input of any size, dtype and setting, whose tensors hold normal numbers."""
        rng = generator(seed)
        while True:
            arguments = drawn(self.takes, self.sizes, rng)
            with suppress(ValueError):  # what nobody could answer is drawn again
                self.difference(self.mended, arguments)
                return arguments

    def complaint(self, arguments: Mapping[str, Any]) -> str:
        """Return why ``arguments`` are no input of this piece, as a sentence, or nothing."""
        unknown = [name for name in arguments if name not in self.takes]
        missing = [name for name in self.takes if name not in arguments]
        if unknown or missing:
            return f"The arguments must be {', '.join(self.takes)}: got {', '.join(map(str, arguments)) or 'none'}."
        return complaint(self.takes, self.sizes, arguments)

    def difference(self, function: Callable[..., Any], arguments: Arguments) -> Difference:
        """Return how far ``function`` is from the right answer on ``arguments``, where it is furthest.

        Raises:
            ValueError: there is no right answer to ``arguments``.
        """
        right = self._quantities(self.right(**copied(arguments, double=True)))
        got = self._quantities(function(**copied(arguments)))
        if not all(quantity.isfinite().all() for quantity in right):
            raise ValueError("the right answer to this input is not finite")
        pairs = zip(self.returns, right, got, strict=True)
        return max((self._compare(*pair) for pair in pairs), key=lambda difference: difference.ratio)

    def shows(self, arguments: Arguments) -> bool:
        """Return whether the piece is wrong on ``arguments``, and right once its bug is mended."""
        is_wrong = self.difference(self.broken, arguments).ratio > 1
        return is_wrong and self.difference(self.mended, arguments).ratio <= 1

    def _load(self, source: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"__name__": f"piece_{self.letter.lower()}"}
        exec(compile(source, f"<piece {self.letter}>", "exec"), namespace)
        return namespace[self.function]

    def _quantities(self, value: Any) -> tuple[Tensor, ...]:
        parts = value if isinstance(value, tuple) else (value,)
        return tuple(part.detach().double() for part in parts)

    def _compare(self, name: str, right: Tensor, got: Tensor) -> Difference:
        errors = (got - right).abs()
        ratios = errors.nan_to_num(nan=float("inf")) / (self.tolerance * max(right.abs().max().item(), 1.0))
        place = tuple(int(index) for index in torch.unravel_index(ratios.argmax(), ratios.shape))
        return Difference(ratios[place].item(), errors[place].item(), name, place, right, got)


def copied(arguments: Mapping[str, Any], double: bool = False) -> Arguments:
    """Return copies of ``arguments``, off any graph; floating tensors in float64 if ``double``."""
    return {name: _copy(value, double) for name, value in arguments.items()}


def _flushed(value: float) -> float:
    return 0.0 if abs(value) < _ROUNDING else value


def _copy(value: Any, double: bool) -> Any:
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    return value.detach().to(torch.float64 if double and value.is_floating_point() else value.dtype, copy=True)
