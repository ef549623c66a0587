"""What an argument must be, and an error that names it where it is something else."""

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

__all__ = [
    "LARGEST",
    "broadcasts_to",
    "is_number",
    "is_whole",
    "require_length",
    "require_names",
    "require_number",
    "require_whole",
    "shown",
]

# Far beyond what any model has, and small enough that no formula overflows.
LARGEST = 1e15


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer: no float that happens to be whole, no text, no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a real number: no text, no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def broadcasts_to(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether a tensor of ``shape`` fits beside one of shape ``wanted`` without changing the latter's.

    >>> broadcasts_to((4, 1), (2, 4, 3)), broadcasts_to((3,), (1,))
    (True, False)
    """
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all(size in (1, other) for size, other in pairs)


def require_length(name: str, value: Any, at_least: int = 2, at_most: float = LARGEST) -> int:
    """Return ``value`` as a number of positions or of dimensions.

    Args:
        name: what the value is called, for the message.
        value: an integer, or a float that is whole, as some files hold.
        at_least: the smallest allowed.
        at_most: the largest allowed.

    Returns:
        The length.

    Raises:
        ValueError: anything else.
    """
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    try:
        length = None if isinstance(whole, bool) else operator.index(whole)
    except TypeError:
        length = None
    if length is None or length < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}: got {name}={shown(value)}")
    if length > at_most:
        raise ValueError(f"{name} must be a whole number of at most {at_most:g}: got {name}={shown(value)}")
    return length


def shown(value: Any) -> str:
    """Return ``value`` as it was given, cut short: a file may hold anything."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"{'-' if value < 0 else ''}10**{math.log10(abs(value)):.1f}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def require_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise unless ``value`` is an integer from ``low`` to ``high``.

    Raises:
        ValueError: it is something else.
    """
    if not (is_whole(value) and low <= value <= high):
        raise ValueError(f"{name} must be a whole number from {low} to {high}: got {value!r}")


def require_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise unless ``value`` is a number from ``low`` to ``high``.

    Raises:
        ValueError: it is something else.
    """
    if not (is_number(value) and low <= value <= high):
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}: got {value!r}")


def require_names(name: str, given: Any, known: Iterable[str]) -> None:
    """Raise unless ``given`` are several names, or none, all of them ``known``.

    Raises:
        ValueError: a single text, no collection at all, or an unknown name.
    """
    names = list(known)
    expected = f"{name} must be among {', '.join(names)}"
    if isinstance(given, str):
        raise ValueError(f"{expected}: got the text {given!r}; for a single one, pass ({given!r},)")
    if not isinstance(given, Collection):
        raise ValueError(f"{expected}, in a list or tuple: got {given!r}")
    if unknown := [one for one in given if one not in names]:
        raise ValueError(f"{expected}: got {', '.join(map(repr, unknown))}")
