"""What the notebook reads off the records of chapter 16: rows selected, and paired with what they
are compared with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from chapters.c16_longer_context import cached_result
from chapters.c16_longer_context.long_context import held_out_streams
from chapters.c16_longer_context.smollm2_length import smollm2
from chapters.c16_longer_context.tags import TASK, Score
from course_utils.experiments import Difference, Rows
from course_utils.models.pretrained import SmolLM2
from course_utils.table import Table

__all__ = [
    "above_oracle",
    "by_seed",
    "grouped",
    "memory_table",
    "near_order_of",
    "static_cost",
    "with_smollm2",
]

GAPS = (0, 6000, 10_000, 14_000)  # the jumps of the tables
_Numbers = Score | Mapping[str, Any] | Sequence[float]  # of one run
ABILITIES = {"local_loss": "near order (nats)", "recall": "recall"}


def with_smollm2(key: str, live: bool = True) -> Callable[[Callable[[SmolLM2], Any]], Any]:
    """Return a decorator that puts in the place of a function of SmolLM2 what it returns, or what
    was recorded of it."""

    def result_of(measure: Callable[[SmolLM2], Any]) -> Any:
        return cached_result(key, lambda: measure(smollm2()), live=live)

    return result_of


def near_order_of(oracle: Callable[[Tensor], Tensor], multiples: Sequence[int]) -> dict[int, float]:
    """Return the near order of log-probabilities (B, T, V) of the next tokens, on the 32 streams of
    the record, by their length in windows."""
    drawn = {multiple: held_out_streams(multiple, 32) for multiple in multiples}
    return {n: TASK.score(oracle(own.tokens), own).local_loss for n, own in drawn.items()}


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
    runs: Mapping[Any, Sequence[_Numbers]],
    fields: Mapping[str, str] = ABILITIES,
    *,
    name: str = "method",
    caption: str = "",
) -> Table:
    """Return a line for each of ``runs``, and in a column for each field the numbers of its
    seeds."""

    def numbers(seeds: Sequence[_Numbers], field: str) -> str:
        values = (_by_name(run, fields) for run in seeds)
        return "  ".join(f"{value[field]:.2f}" for value in values)

    rows = [[str(run), *(numbers(own, field) for field in fields)] for run, own in runs.items()]
    return Table((name, *fields.values()), rows, caption)


def _by_name(run: _Numbers, fields: Iterable[str]) -> Mapping[str, Any]:
    if isinstance(run, Score):
        return run._asdict()
    return run if isinstance(run, Mapping) else dict(zip(fields, run, strict=True))


def memory_table(by_gap: Rows, kind: str, caption: str) -> Table:
    """Return ``kind`` over four jumps, mean ± standard error of the passages, by method and
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
