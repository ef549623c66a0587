"""Fields and values asked of rows, such as a record's results: one that no row has is refused with those there are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["require_fields", "require_values"]

SHOWN = 12  # values that a message lists at most

Rows = Sequence[Mapping[str, Any]]


def require_fields(rows: Rows, fields: Iterable[str]) -> None:
    """Raise ``ValueError`` for the first of ``fields`` that a row lacks."""
    for field in fields:
        if any(field not in row for row in rows):
            known = ", ".join(name for name in rows[0] if all(name in row for row in rows))
            raise ValueError(f"field must be one of {known}: got {field!r}")


def require_values(rows: Rows, wanted: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for the first of ``wanted``, a value for each field, that no row has."""
    for field, value in wanted.items():
        if rows and all(row[field] != value for row in rows):
            known = list(dict.fromkeys(repr(row[field]) for row in rows))
            listed = ", ".join(known[:SHOWN]) + ", …" * (len(known) > SHOWN)
            raise ValueError(f"{field} must be one of {listed}: got {value!r}")
