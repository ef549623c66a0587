"""What the controls of a widget can produce, held against what it is given."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

__all__ = ["as_numbers", "is_whole", "require_names", "require_number", "require_stops", "require_whole"]


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer: no float that happens to be whole, no text, no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_numbers(values: Any) -> tuple[float, ...] | None:
    """Return ``values`` as finite floats, or None where they are anything else."""
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


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
    if not (_is_number(value) and low <= value <= high):
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}: got {value!r}")


def require_stops(state: Any, stops: Mapping[str, Sequence[float]]) -> None:
    """Raise unless each field of ``state`` that ``stops`` names has one of the values at which its slider stops.

    A field that the state declares as ``int`` takes no float: as a size, 8.0 would fail far from here.

    Raises:
        ValueError: a value that no control can produce.
    """
    whole = {field.name for field in fields(state) if field.type is int}
    for name, values in stops.items():
        value = getattr(state, name)
        has_type = is_whole(value) if name in whole else _is_number(value)
        if not has_type or value not in values:
            raise ValueError(f"{name} must be one of {', '.join(map(str, values))}: got {value!r}")


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


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
