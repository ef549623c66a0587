"""What the controls of a widget can produce, held against what it is given."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["require_controls", "require_stops"]


def require_stops(state: Any, stops: Mapping[str, Sequence[float]]) -> None:
    """Raise unless each field of ``state`` that ``stops`` names has one of the values at which its slider stops.

    Raises:
        ValueError: a value that no control can produce.
    """
    for name, values in stops.items():
        if getattr(state, name) not in values:
            raise ValueError(f"{name} must be one of {', '.join(map(str, values))}: got {getattr(state, name)}")


def require_controls(controls: Sequence[str], known: Sequence[str]) -> None:
    """Raise unless a widget has all the ``controls`` that are to be shown.

    Raises:
        ValueError: an unknown control.
    """
    unknown = [control for control in controls if control not in known]
    if unknown:
        raise ValueError(f"controls must be among {', '.join(known)}: got {', '.join(unknown)}")
