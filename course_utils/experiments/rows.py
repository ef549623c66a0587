"""What an experiment gave: one row a run, each with its seed, and what the seeds have in common.

Chapters 06, 07, 12 and 15.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_utils.book.tables import Table


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
        """Return the spread of ``values``; a NaN or an infinity among them shows in the mean."""
        if not all(map(math.isfinite, values)):
            return cls(math.fsum(values), math.nan, min(values), max(values), tuple(values))
        std = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), std, min(values), max(values), tuple(values))

    def __str__(self) -> str:
        mean, std = (f"{float(f'{value:.{digits}g}'):g}" for value, digits in ((self.mean, 3), (self.std, 1)))
        return f"{mean} ± {std}" if len(self.values) > 1 else mean


class Rows(list[Mapping[str, Any]]):
    """The runs of an experiment, each a dictionary of its settings, its ``seed`` and what came out.

    ``origin`` says where and when recorded ones were measured; it is empty for a run of this session.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], origin: str = "") -> None:
        super().__init__(rows)
        self.origin = origin

    def __repr__(self) -> str:
        return f"{len(self)} run{'s' * (len(self) != 1)}" + (f" ({self.origin})" if self.origin else "")

    def select(self, **wanted: Any) -> "Rows":
        """Return the rows whose fields equal ``wanted``: none where the values never meet in a row.

        A value that no row has at all is an error that lists those there are.
        """
        for field, value in wanted.items():
            known = self.values(field)
            if known and value not in known:
                listed = ", ".join(map(repr, known[:12])) + ", …" * (len(known) > 12)
                raise ValueError(f"{field} must be one of {listed}: got {value!r}")
        return Rows([row for row in self if all(row[key] == value for key, value in wanted.items())], self.origin)

    def values(self, field: str) -> list[Any]:
        """Return the different values of ``field``, in the order in which they first come."""
        if self and field not in self[0]:
            raise ValueError(f"field must be one of {', '.join(self[0])}: got {field!r}")
        found: list[Any] = []
        for row in self:
            if row[field] not in found:
                found.append(row[field])
        return found

    def unfold(self, *lists: str) -> "Rows":
        """Return one row for each place of the fields ``lists``, which hold lists of one length in every row."""
        return Rows(
            [
                {**row, **dict(zip(lists, values, strict=True))}
                for row in self
                for values in zip(*(row[name] for name in lists), strict=True)
            ],
            self.origin,
        )

    def mean_and_spread(self, value: str, by: str | Sequence[str]) -> dict[Any, Spread]:
        """Return the spread of the field ``value`` over the rows that agree in the fields ``by``.

        For one field the keys are its values, for several, tuples.
        """
        by = (by,) if isinstance(by, str) else by
        groups: dict[Any, list[float]] = {}
        for row in self:
            key = row[by[0]] if len(by) == 1 else tuple(row[field] for field in by)
            groups.setdefault(key, []).append(float(row[value]))
        return {key: Spread.of(values) for key, values in groups.items()}

    def table(self, value: str, down: str, across: str, caption: str = "") -> Table:
        """Return ``value`` as "mean ± std" over seeds, one row for each ``down``, one column for each ``across``."""
        spreads = self.mean_and_spread(value, (down, across))
        columns = self.values(across)
        body = [(name, *(str(spreads.get((name, column), "")) for column in columns)) for name in self.values(down)]
        return Table((down, *map(str, columns)), body, caption or self.origin)


def at_best(rows: Rows, setting: str, by: Sequence[str], value: str, lowest: bool = False) -> Rows:
    """Return, for each group of runs, those with the setting that is best for the group, all seeds of it.

    ``setting`` is the field to choose, such as "lr"; ``by`` are the fields that make a group, such as ("arm",
    "length"). The choice looks at the mean of ``value``, which should not be what is reported.
    """
    means = {key: spread.mean for key, spread in rows.mean_and_spread(value, (*by, setting)).items()}
    best: dict[tuple, tuple] = {}
    for (*group, choice), mean in means.items():
        score = mean if lowest else -mean
        if tuple(group) not in best or score < best[tuple(group)][0]:
            best[tuple(group)] = (score, choice)
    chosen = (rows.select(**dict(zip(by, group, strict=True)), **{setting: at}) for group, (_, at) in best.items())
    return Rows([row for group in chosen for row in group], rows.origin)
