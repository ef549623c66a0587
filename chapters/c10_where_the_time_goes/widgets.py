"""A layer norm's bytes and operations on this machine, and what they take at least."""

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from chapters.c10_where_the_time_goes.exercises import norm_bytes
from course_utils.plots import grouped_bars
from course_utils.table import format_number
from course_utils.timing import Roofline, forward_and_backward, measure_in_turns
from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module, one_of

__all__ = ["least_time", "measured_ms", "record"]

# a machine and its times, as `record` writes
RECORDED = Path(__file__).with_name("least_time.json")
TIME_STOPS = {"rows": [1, 4, 16, 64, 256, 1024, 4096], "features": [64, 128, 256, 512, 768, 1024]}
ITEMSIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
DIRECTIONS = {"forward": "forward", "both": "forward and backward"}
# for each value: forward adds to the mean, centres, squares, adds, scales, weighs, shifts; backward
# finds x̂ anew (2), weighs dy (1), adds up two means (3), subtracts both and scales (4), adds up
# dweight and dbias (3)
OPERATIONS = {"forward": 7, "both": 7 + 13}


def least_time(
    machine: Roofline | None = None,
    rows: int = 4096,
    features: int = 1024,
    dtype: str = "float32",
    direction: str = "forward",
) -> CourseWidget:
    """Return the picture of a layer norm's least and measured time, ready to display.

    Args:
        machine: the bandwidth and the arithmetic rate of this machine, as ``Roofline.of("cpu")``
            measures them; by default those of the recorded one.
        rows: 1, 4, 16, 64, 256, 1024 or 4096.
        features: of a row, over which is normalized: 64, 128, 256, 512, 768 or 1024.
        dtype: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        direction: ``"forward"``, or ``"both"`` for forward and backward.
    """
    machine = Roofline(**_recorded()["machine"]) if machine is None else machine
    if not isinstance(machine, Roofline):
        raise ValueError(
            f'machine must be a Roofline, as Roofline.of("cpu") returns: got {machine!r}'
        )
    choices = {**TIME_STOPS, "dtype": ITEMSIZES, "direction": DIRECTIONS}
    chosen = one_of(choices, rows=rows, features=features, dtype=dtype, direction=direction)
    data = {
        "stops": TIME_STOPS,
        "itemsizes": ITEMSIZES,
        "directions": DIRECTIONS,
        "operations": OPERATIONS,
    }
    return _LeastTime(chosen, {**data, **asdict(machine)})


class _LeastTime(AnsweringWidget):
    _esm = browser_module(Path(__file__).with_name("least_time.js"))

    @property
    def x(self) -> torch.Tensor:
        """The input that is normalized and measured, all ones: (rows, features), in the dtype."""
        dtype = getattr(torch, self.state["dtype"])
        return torch.ones(self.state["rows"], self.state["features"], dtype=dtype)

    def without_kernel(self) -> dict[str, Any]:
        return {**_recorded()["machine"], "recorded_ms": _recorded()["measured_ms"]}

    def answer_to_state(self) -> dict[str, Any]:
        return {"measured_ms": measured_ms(**self.state)}

    def picture(self) -> tuple[Figure, str]:
        rows, features, dtype, direction = (
            self.state[name] for name in ("rows", "features", "dtype", "direction")
        )
        machine = Roofline(self.data["bandwidth_gbps"], self.data["peak_gflops"])
        moved = norm_bytes.oracle(rows, features, ITEMSIZES[dtype], backward=direction == "both")
        operations = OPERATIONS[direction] * rows * features
        memory_ms, arithmetic_ms = machine.predicted_ms(moved), machine.predicted_ms(0, operations)
        times = {"least": [1e3 * memory_ms, 1e3 * arithmetic_ms]}
        figure = grouped_bars(times, ("of the bytes", "of the operations"), "least time (µs)")
        return figure, (
            f"Layer norm, {DIRECTIONS[direction]}, of {rows} rows of {features} features in "
            f"{dtype}: {moved:,} bytes take at least "
            f"{format_number(1e3 * memory_ms)} µs, {operations:,} operations at least "
            f"{format_number(1e3 * arithmetic_ms)} µs on a machine of "
            f"{format_number(machine.bandwidth_gbps)} GB/s and "
            f"{format_number(machine.peak_gflops)} GFLOP/s: bound by "
            f"{'memory' if memory_ms >= arithmetic_ms else 'arithmetic'}."
        )


def measured_ms(rows: int, features: int, dtype: str, direction: str) -> float:
    """Return the 10th percentile of what ``F.layer_norm`` takes here, from a few runs: a widget
    must not keep waiting.

    A small input lies in a cache from one run to the next, as an activation often does: it may take
    less than its bytes take from memory.
    """
    kind = getattr(torch, dtype)
    x = torch.ones(rows, features, dtype=kind)
    weight, bias = torch.ones(features, dtype=kind), torch.zeros(features, dtype=kind)

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (features,), weight, bias)

    call: Callable[[], Any] = lambda: forward(x, weight, bias)  # noqa: E731
    if direction == "both":
        call = forward_and_backward(forward, x, weight, bias, upstream=(torch.ones_like(x),))
    return measure_in_turns({"it": call}, rounds=10, seconds=0.02)["it"].p10_ms


def _recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def record(path: Path = RECORDED) -> None:
    """Measure this machine and the built-in at every setting, for pages without a kernel; takes a
    minute."""
    settings = product(TIME_STOPS["rows"], TIME_STOPS["features"], ITEMSIZES, DIRECTIONS)
    times = {
        "/".join(map(str, setting)): float(f"{measured_ms(*setting):.3g}") for setting in settings
    }
    path.write_text(
        json.dumps({"machine": asdict(Roofline.of("cpu")), "measured_ms": times}, indent=1) + "\n"
    )
