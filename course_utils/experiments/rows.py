"""What an experiment gave: one row a run, each with its seed, and what the seeds have in common.

Chapters 06, 08, 13 and 16.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_utils.table import Table


def _rounded(value: float, digits: int) -> str:
    return f"{float(f'{value:.{digits}g}'):g}"


@dataclass(frozen=True)
class Spread:
    """One value over several seeds: mean, standard deviation (n - 1; 0 for one seed), extremes, and
    the values."""

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
        mean = _rounded(self.mean, 3)
        return f"{mean} ± {_rounded(self.std, 1)}" if len(self.values) > 1 else mean


# Student's t that a mean of 2, 3, … 10 differences must exceed to be called other than zero, wrong
# once in twenty times
_T_NEEDED = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Difference:
    """How far one arm is from another: the mean of the differences, one a seed, and that mean's own
    standard error.

    Two arms that share a seed share what the seed decides (first weights, order of the data), which
    the difference takes out; the spread of either arm still has it.

    >>> Difference.of([3.0, 1.0, 2.0])
    2 ± 0.6: t = 3.5 of 4.3, undecided
    """

    mean: float
    error: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Difference":
        """Return the mean of ``values``, one a seed, with its standard error: s / √n (NaN for one
        seed)."""
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        return cls(statistics.fmean(values), error, tuple(values))

    @property
    def t(self) -> float:
        """The mean in standard errors, without its sign."""
        if self.error == 0:
            return math.inf if self.mean else 0.0
        return abs(self.mean) / self.error

    @property
    def t_needed(self) -> float:
        """Student's t for as many seeds: where there is no difference, chance exceeds it once in
        twenty times."""
        n = len(self.values)
        if n < 2:
            return math.inf
        if n - 2 < len(_T_NEEDED):
            return _T_NEEDED[n - 2]
        # the expansion of t around the normal's quantile: off by less than 1e-3 from here
        z, freedom = (
            1.959964,
            n - 1,
        )
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

    @property
    def decided(self) -> bool:
        """Whether the difference is larger than chance would make it but once in twenty times."""
        return self.t > self.t_needed

    def __str__(self) -> str:
        return f"{_rounded(self.mean, 3)} ± {_rounded(self.error, 1)}"

    def __repr__(self) -> str:
        verdict = "decided" if self.decided else "undecided"
        return f"{self}: t = {self.t:.1f} of {self.t_needed:.1f}, {verdict}"


class Rows(list[Mapping[str, Any]]):
    """The runs of an experiment, each a dictionary of its settings, its ``seed`` and what came out.

    ``origin`` says where and when recorded ones were measured; it is empty for a run of this
    session.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], origin: str = "") -> None:
        super().__init__(rows)
        self.origin = origin

    def __repr__(self) -> str:
        return f"{len(self)} run{'s' * (len(self) != 1)}" + (
            f" ({self.origin})" if self.origin else ""
        )

    def select(self, **wanted: Any) -> "Rows":
        """Return the rows whose fields equal ``wanted``: none where the values never meet in a row.

        A value that no row has at all is an error that lists those there are.
        """
        for field, value in wanted.items():
            known = self.values(field)
            if known and value not in known:
                listed = ", ".join(map(repr, known[:12])) + ", …" * (len(known) > 12)
                raise ValueError(f"{field} must be one of {listed}: got {value!r}")
        return Rows(
            [row for row in self if all(row[key] == value for key, value in wanted.items())],
            self.origin,
        )

    def values(self, field: str) -> list[Any]:
        """Return the different values of ``field``, in the order in which they first come."""
        if self and field not in self[0]:
            raise ValueError(f"field must be one of {', '.join(self[0])}: got {field!r}")
        values: list[Any] = []
        for row in self:
            if row[field] not in values:
                values.append(row[field])
        return values

    def unfold(self, *lists: str) -> "Rows":
        """Return one row for each place of the fields ``lists``, which hold lists of one length in
        every row."""
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
        """Return ``value`` as "mean ± std" over seeds, one row for each ``down``, one column for
        each ``across``."""
        spreads = self.mean_and_spread(value, (down, across))
        columns = self.values(across)
        body = [
            (name, *(str(spreads.get((name, column), "")) for column in columns))
            for name in self.values(down)
        ]
        return Table((down, *map(str, columns)), body, caption or self.origin)


def at_best(
    rows: Rows,
    setting: str,
    by: Sequence[str],
    value: str,
    lowest: bool = False,
    level: float | None = None,
) -> Rows:
    """Return, for each group of runs, those with the setting that is best for the group, all seeds
    of it.

    ``setting`` is the field to choose, such as "lr"; ``by`` are the fields that make a group, such
    as ("arm", "length"). The choice looks at the mean of ``value``, which should not be what is
    reported.

    Without ``level`` the first of equals is taken, so a tie is decided by the order of the rows.
    With it, settings that are at most ``level`` behind the best count as equal, and the middle one
    of them is taken (of two, the lower).
    """
    means = {
        key: spread.mean for key, spread in rows.mean_and_spread(value, (*by, setting)).items()
    }
    behind: dict[tuple, dict[Any, float]] = {}
    for (*group, choice), mean in means.items():
        behind.setdefault(tuple(group), {})[choice] = mean if lowest else -mean
    chosen = []
    for group, scores in behind.items():
        best = min(scores, key=scores.__getitem__)
        if level is not None:
            # 1e-6: an accuracy is a float32, and two that are an image apart are not exactly so
            equals = sorted(
                choice for choice in scores if scores[choice] <= scores[best] + level + 1e-6
            )
            best = equals[(len(equals) - 1) // 2]
        chosen.append(rows.select(**dict(zip(by, group, strict=True)), **{setting: best}))
    return Rows([row for group in chosen for row in group], rows.origin)


def paired_difference(
    one: Rows, other: Rows, value: str, by: str | Sequence[str] = "seed"
) -> Difference:
    """Return how far ``one`` is above ``other`` in the field ``value``, run by run, with its
    standard error.

    ``by`` are the fields in which two runs must agree to be a pair. Each arm has one run for each
    pair.

    >>> arms = (("a", 1), ("b", 0))
    >>> rows = Rows({"arm": a, "seed": s, "loss": s + d} for a, d in arms for s in range(3))
    >>> paired_difference(rows.select(arm="a"), rows.select(arm="b"), "loss").mean
    1.0
    """
    by = (by,) if isinstance(by, str) else tuple(by)
    runs, others = _by_key("one", one, value, by), _by_key("other", other, value, by)
    if not runs or runs.keys() != others.keys():
        raise ValueError(
            f"one and other must have the same {', '.join(by)}: got {[*runs]} and {[*others]}"
        )
    return Difference.of([run - others[key] for key, run in runs.items()])


def _by_key(name: str, rows: Rows, value: str, by: Sequence[str]) -> dict[tuple, float]:
    """Return the field ``value`` of each row by its fields ``by``, which no two rows share."""
    runs = {tuple(row[field] for field in by): float(row[value]) for row in rows}
    if len(runs) < len(rows):
        raise ValueError(
            f"{name} must have one run for each {', '.join(by)}: got {len(rows)} for {len(runs)}"
        )
    return runs
