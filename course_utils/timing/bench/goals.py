"""What the course set out to reach in speed, each goal held against the figures of a record.

A goal compares times of one record only, measured in turns; the 10th percentile, because another program on the machine
can only add.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from course_utils.book.tables import Table
from course_utils.recorded import Record

__all__ = ["table"]

Result = Mapping[str, Any]
Goal = tuple[str, str, float, bool]  # what, wanted, measured, met


def table(record: Record) -> Table:
    """Return the goals for the record's kind of device that its cases can answer: wanted, measured, met."""
    goals = _on_gpu(record) if record.provenance["device_type"] == "cuda" else _on_cpu(record)
    return Table(("goal", "wanted", "measured", "met"), list(goals), f"Goals, on {record.origin}")


def _on_cpu(record: Record) -> Iterator[Goal]:
    norm = {"shape": (4096, 1024), "dtype": "float32"}
    forward = {**norm, "direction": "forward"}
    both = {**norm, "direction": "forward+backward"}
    rows = (
        ("layer norm forward: compiled, tuned / built-in", "layer_norm", forward, "compiled, tuned", 1.0),
        ("layer norm forward: eager, two passes / built-in", "layer_norm", forward, "eager, two passes", 4.5),
        (
            "layer norm with backward: compiled, tuned / built-in",
            "layer_norm",
            both,
            "compiled, tuned",
            1.5,
        ),
        ("RMS norm forward: compiled / built-in", "rms_norm", forward, "compiled", 1.0),
        (
            "batch norm forward: compiled / built-in",
            "batch_norm",
            {**forward, "shape": (256, 64, 14, 14)},
            "compiled",
            1.0,
        ),
    )
    for what, operation, case, implementation, limit in rows:
        for ratio in _ratios(record, implementation, "built-in", {"operation": operation, **case}):
            yield what, f"at most {limit:g}", ratio, ratio <= limit


def _on_gpu(record: Record) -> Iterator[Goal]:
    for operation, title in (("layer_norm", "layer norm"), ("rms_norm", "RMS norm")):
        forward = {"operation": operation, "direction": "forward"}
        wide = [r for r in record.select(**forward, implementation="Triton") if r["shape"][-1] >= 4096]
        yield from _at_least(
            f"{title} forward, 4096 features and more: share of a large copy", 0.9, _shares(record, wide)
        )
        for other in ("built-in", "compiled", "peer: liger_kernel"):
            ratios = _ratios(record, other, "Triton", forward)
            yield from _at_least(f"{title} forward, every shape: {other} / Triton", 1.0, ratios)
    both = {"operation": "layer_norm", "direction": "forward+backward"}
    wide_ratios = _ratios(record, "built-in", "Triton", both, min_features=4096)
    yield from _at_least("layer norm with backward, 4096 features and more: built-in / Triton", 1.3, wide_ratios)
    yield from _at_least(
        "layer norm with backward, every shape: built-in / Triton", 1.0, _ratios(record, "built-in", "Triton", both)
    )
    rope = {"operation": "rope", "direction": "forward"}
    kernels = list(record.select(**rope, implementation="Triton"))
    yield from _at_least("RoPE forward: share of a large copy", 0.85, _shares(record, kernels))
    eager = _ratios(record, "peer: transformers", "Triton", rope)
    yield from _at_least("RoPE forward: eager transformers / Triton", 4.0, eager)
    case = {**both, "shape": (8192, 4096), "dtype": "bfloat16"}
    errors = [
        r["errors"]["dweight"] for name in ("built-in", "Triton") for r in record.select(**case, implementation=name)
    ]
    if len(errors) == 2:
        ratio = errors[0] / errors[1]
        yield "layer norm, 8192 rows of bfloat16: error of dweight, built-in / Triton", "above 1", ratio, ratio > 1


def _ratios(record: Record, slower: str, faster: str, case: Mapping[str, Any], min_features: int = 0) -> list[float]:
    """Return the time of ``slower`` over that of ``faster`` for each case that has both."""
    times = {_key(result): result["p10_ms"] for result in record.select(implementation=faster, **case)}
    return [
        result["p10_ms"] / times[_key(result)]
        for result in record.select(implementation=slower, **case)
        if _key(result) in times and result["shape"][-1] >= min_features
    ]


def _shares(record: Record, results: list[Result]) -> list[float]:
    """Return the bandwidth of each result over that of a large copy in the same session."""
    return [r["bytes_moved"] / r["median_ms"] / 1e6 / record.large_copy_gbps(r) for r in results]


def _at_least(what: str, limit: float, values: list[float]) -> Iterator[Goal]:
    """Yield the goal with the smallest of ``values``; nothing where there is none."""
    if values:
        yield what, f"at least {limit:g}", min(values), min(values) >= limit


def _key(result: Result) -> tuple[Any, ...]:
    return tuple(result["shape"]), result["dtype"]
