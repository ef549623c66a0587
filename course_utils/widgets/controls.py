"""What the controls of a widget can produce, held against what it is given."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from course_utils.arguments import is_number, is_whole

__all__ = ["as_numbers", "require_stops"]


def as_numbers(values: Any) -> tuple[float, ...] | None:
    """Return ``values`` as finite floats, or None where they are anything else."""
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def require_stops(state: Any, stops: Mapping[str, Sequence[float]]) -> None:
    """Raise unless each field of ``state`` that ``stops`` names has one of the values at which its slider stops.

    A field that the state declares as ``int`` takes no float: as a size, 8.0 would fail far from here.

    Raises:
        ValueError: a value that no control can produce.
    """
    whole = {field.name for field in fields(state) if field.type is int}
    for name, values in stops.items():
        value = getattr(state, name)
        has_type = is_whole(value) if name in whole else is_number(value)
        if not has_type or value not in values:
            raise ValueError(f"{name} must be one of {', '.join(map(str, values))}: got {value!r}")
