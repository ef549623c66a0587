"""What the notebook reads off the records of chapter 16: rows selected, and paired with what they
are compared with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chapters.c16_longer_context.smollm2_memory import GAPS
from chapters.c16_longer_context.tags import Score
from course_utils.experiments import Difference, Rows
from course_utils.table import Table

__all__ = [
    "GAPS",
    "above_oracle",
    "added_by_jump",
    "by_distance",
    "by_seed",
    "grouped",
    "memory_table",
    "static_cost",
]

ABILITIES = {"local_loss": "near order (nats)", "recall": "recall"}


def above_oracle(rows: Rows, oracle: Mapping[int, float]) -> Rows:
    """Return the rows with a field "above": near order over that of ``oracle``, by length, on the
    same streams."""
    return Rows(
        [{**row, "above": row["local_loss"] - oracle[row["multiple"]]} for row in rows], rows.origin
    )


def grouped(rows: Iterable[Mapping[str, Any]], by: str = "method") -> dict[Any, list]:
    """Return the rows by their field ``by``, each list in the order of the rows."""
    groups: dict[Any, list] = {}
    for row in rows:
        groups.setdefault(row[by], []).append(row)
    return groups


def by_seed(
    runs: Mapping[Any, Sequence[Score | Mapping[str, Any]]],
    fields: Mapping[str, str] = ABILITIES,
    *,
    name: str = "method",
    caption: str = "",
    digits: int = 2,
) -> Table:
    """Return a line for each of ``runs``, and in a column for each field the numbers of its
    seeds."""

    def numbers(seeds: Sequence[Score | Mapping[str, Any]], field: str) -> str:
        values = (run._asdict() if isinstance(run, Score) else run for run in seeds)
        return "  ".join(f"{value[field]:.{digits}f}" for value in values)

    rows = [[str(run), *(numbers(own, field) for field in fields)] for run, own in runs.items()]
    return Table((name, *fields.values()), rows, caption)


def by_distance(record: Rows, methods: Sequence[str], multiple: int = 16) -> Table:
    """Return recall by how far back the needle is, a line for each method and seed."""
    rows = []
    for method in methods:
        for row in record.select(method=method, multiple=multiple):
            pairs = zip(row["answered"], row["asked"], strict=True)
            rows.append((method, row["seed"], *(f"{right / asked:.2f}" for right, asked in pairs)))
    columns = ("method", "seed", "0 to 1", "1 to 2", "2 to 4", "4 to 8", "8 to 16")
    return Table(columns, rows, f"recall at {multiple} windows, by distance in windows")


def added_by_jump(record: Rows) -> dict[str, list[float]]:
    """Return for each method what a jump of 14,000 positions adds to the unscaled loss of the same
    passage without one."""
    home = {row["excerpt"]: row["loss"] for row in record.select(gap=0)}
    return {
        method: [row["loss"] - home[row["excerpt"]] for row in rows]
        for method, rows in grouped(record.select(gap=14_000)).items()
    }


def memory_table(by_gap: Rows, kind: str, caption: str) -> Table:
    """Return ``kind`` over each jump, mean ± standard error of the passages, by method and
    factor."""
    spreads = by_gap.mean_and_spread(kind, ("method", "factor", "gap"))
    rows = [
        (
            f"{method} ×{factor}",
            *(str(Difference.of(spreads[method, factor, j].values)) for j in GAPS),
        )
        for method, factor in by_gap.mean_and_spread(kind, ("method", "factor"))
    ]
    return Table(("method", *(f"{jump:,}" for jump in GAPS)), rows, caption)


def static_cost(record: Rows) -> dict[tuple[str, int], list[float]]:
    """Return what each method and factor adds to the loss of 1,024 tokens, a number a passage."""
    short = record.select(length=1024)
    plain = {row["excerpt"]: row["loss"] for row in short.select(method="none")}
    cost: dict[tuple[str, int], list[float]] = {}
    for row in short:
        key = row["method"], row["factor"]
        cost.setdefault(key, []).append(row["loss"] - plain[row["excerpt"]])
    return cost
