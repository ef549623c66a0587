"""What an experiment gave: one row a run, each with its seed, and what the seeds have in common."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_utils.book.tables import Table
from course_utils.recorded.selection import require_fields, require_values

__all__ = ["Rows", "Spread"]


@dataclass(frozen=True)
class Spread:
    """One value over several seeds: mean, standard deviation (n - 1; 0 for one seed), extremes, and the values."""

    mean: float
    std: float
    low: float
    high: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of ``values``; a NaN or an infinity among them shows in the mean.

        Raises:
            ValueError: there is no value.
        """
        if not values:
            raise ValueError("values must hold at least one number: got none")
        if not all(map(math.isfinite, values)):
            return cls(math.fsum(values), math.nan, min(values), max(values), tuple(values))
        std = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), std, min(values), max(values), tuple(values))


class Rows(Sequence[Mapping[str, Any]]):
    """The runs of an experiment, each a dictionary of its settings, its ``seed`` and what came out.

    Args:
        rows: the runs.
        origin: where and when they were measured, for recorded ones; empty for a run of this session.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], origin: str = "") -> None:
        self._rows = list(rows)
        self.origin = origin

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):
        return self._rows[index]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"{len(self)} run{'s' * (len(self) != 1)}" + (f" ({self.origin})" if self.origin else "")

    def select(self, **wanted: Any) -> "Rows":
        """Return the rows whose fields equal ``wanted``; values that never meet in a row give none.

        Raises:
            ValueError: a field that a row lacks, or a value that no row has; the message lists those there are.
        """
        require_fields(self, wanted)
        require_values(self, wanted)
        return Rows([row for row in self if all(row[key] == value for key, value in wanted.items())], self.origin)

    def values(self, field: str) -> list[Any]:
        """Return the different values of ``field``, in the order in which they first come.

        Raises:
            ValueError: a field that a row lacks.
        """
        require_fields(self, (field,))
        found: list[Any] = []
        for row in self:
            if row[field] not in found:
                found.append(row[field])
        return found

    def unfold(self, *lists: str) -> "Rows":
        """Return one row for each place of the fields ``lists``, which hold lists of one length in every row.

        Raises:
            ValueError: a field that a row lacks.
        """
        require_fields(self, lists)
        return Rows(
            [
                {**row, **dict(zip(lists, values, strict=True))}
                for row in self
                for values in zip(*(row[name] for name in lists), strict=True)
            ],
            self.origin,
        )

    def mean_and_spread(self, value: str, by: str | Sequence[str]) -> dict[Any, Spread]:
        """Return the spread of ``value`` over the rows that agree in the fields ``by``.

        Args:
            value: a field that holds a number.
            by: a field or several; for one of them the keys are its values, for several, tuples.

        Raises:
            ValueError: a field that a row lacks.
        """
        by = (by,) if isinstance(by, str) else by
        require_fields(self, (value, *by))
        groups: dict[Any, list[float]] = {}
        for row in self:
            key = row[by[0]] if len(by) == 1 else tuple(row[field] for field in by)
            groups.setdefault(key, []).append(float(row[value]))
        return {key: Spread.of(values) for key, values in groups.items()}

    def table(self, value: str, down: str, across: str, caption: str = "") -> Table:
        """Return ``value`` as "mean ± std" over seeds, one row for each ``down``, one column for each ``across``.

        Raises:
            ValueError: a field that a row lacks.
        """
        spreads = self.mean_and_spread(value, (down, across))
        columns = self.values(across)
        body = [(name, *(_in_words(spreads.get((name, column))) for column in columns)) for name in self.values(down)]
        return Table((down, *map(str, columns)), body, caption or self.origin)


def _in_words(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.mean:.3g} ± {spread.std:.1g}" if len(spread.values) > 1 else f"{spread.mean:.3g}"
