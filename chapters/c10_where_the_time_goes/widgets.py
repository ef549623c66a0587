"""A layer norm's bytes and operations on this machine, and what they take at least; kernels that
wait for their launch."""

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
from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure
from course_utils.table import format_number
from course_utils.timing import Roofline, forward_and_backward, measure_in_turns
from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module, one_of

__all__ = ["launch_queue", "least_time", "measured_ms", "record"]

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

    def without_kernel(self) -> dict[str, Any]:
        return {**_recorded()["machine"], "recorded_ms": _recorded()["measured_ms"]}

    def answer_to_state(self) -> dict[str, Any]:
        return {"measured_ms": measured_ms(**self.state)}

    def picture(self) -> tuple[Figure, str]:
        chosen = [self.state[name] for name in ("rows", "features", "dtype", "direction")]
        rows, features, dtype, direction = chosen
        machine = Roofline(self.data["bandwidth_gbps"], self.data["peak_gflops"])
        measured = self.answer["measured_ms"]
        moved = norm_bytes.oracle(rows, features, ITEMSIZES[dtype], backward=direction == "both")
        operations = OPERATIONS[direction] * rows * features
        memory_ms, arithmetic_ms = machine.predicted_ms(moved), machine.predicted_ms(0, operations)
        bars = {"from memory": memory_ms, "by arithmetic": arithmetic_ms, "measured": measured}
        figure, axes = new_figure(2.6)
        colours = PALETTE[:3]
        axes.barh(list(bars), [1e3 * ms for ms in bars.values()], color=colours)
        least, longest = 1e3 * max(memory_ms, arithmetic_ms), 1e3 * max(bars.values())
        for row, us in enumerate(1e3 * ms for ms in bars.values()):
            # behind the dashed line, if it would go through the words
            end = least if us <= least < us + longest / 5 else us
            axes.text(end + longest / 80, row, f"{format_number(us)} µs", va="center")
        axes.axvline(least, color=INK, linestyle="--")
        bound = "memory" if memory_ms >= arithmetic_ms else "arithmetic"
        side = "right" if least > longest / 2 else "left"
        words = f" the least, {'from memory' if bound == 'memory' else 'by arithmetic'} "
        axes.text(least, -0.62, words, ha=side, va="center", weight="bold")
        axes.set(xlim=(0, 1.25 * longest), ylim=(2.6, -0.9))
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("time (µs)")
        bandwidth, peak = (format_number(rate) for rate in asdict(machine).values())
        setting = f"{rows:,} rows of {features:,} in {dtype}, {DIRECTIONS[direction]}"
        axes.set_title(f"{setting}\non a machine of {bandwidth} GB/s and {peak} GFLOP/s")
        return figure, (
            f"Layer norm, {DIRECTIONS[direction]}, of {rows} rows of {features} features in "
            f"{dtype}: {moved:,} bytes take at least "
            f"{format_number(1e3 * memory_ms)} µs, {operations:,} operations at least "
            f"{format_number(1e3 * arithmetic_ms)} µs on a machine of {bandwidth} GB/s and "
            f"{peak} GFLOP/s: bound by {bound}. Measured there: "
            f"{format_number(1e3 * measured)} µs."
        )


LAUNCH_STOPS = {
    "launch": [1, 2, 3, 5, 8, 12, 20],
    "kernel": [1, 2, 3, 5, 8, 12, 20, 50, 100, 200],
}
KERNELS = 12


def launch_queue(launch: int = 8, kernel: int = 2) -> CourseWidget:
    """Return kernels on a line of time, launched one by one and in a graph, ready to display.

    Args:
        launch: what Python needs for a call and its launch, in µs: 1, 2, 3, 5, 8, 12 or 20.
        kernel: what a kernel takes, in µs: 1, 2, 3, 5, 8, 12, 20, 50, 100 or 200.
    """
    chosen = one_of(LAUNCH_STOPS, launch=launch, kernel=kernel)
    return _LaunchQueue(chosen, {"stops": LAUNCH_STOPS, "count": KERNELS})


class _LaunchQueue(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("launch_queue.js"))

    def ends(self) -> tuple[list[float], list[float]]:
        """Return when each kernel ends, in µs: launched one by one, and in a graph."""
        launch, kernel = self.state["launch"], self.state["kernel"]
        one_by_one: list[float] = []
        graph: list[float] = []
        for place in range(KERNELS):
            free = one_by_one[-1] if one_by_one else 0
            one_by_one.append(max((place + 1) * launch, free) + kernel)
            graph.append(launch + (place + 1) * kernel)
        return one_by_one, graph

    def picture(self) -> tuple[Figure, str]:
        launch, kernel = self.state["launch"], self.state["kernel"]
        figure, axes = new_figure(3.0)
        done, by_graph = (ends[-1] for ends in self.ends())
        busy, faster = KERNELS * kernel / done, done / by_graph
        gain = "hardly" if faster < 1.1 else f"{format_number(faster)} times"
        rows = [[(launch * (i + 1), launch) for i in range(KERNELS)]]
        rows += [[(end, kernel) for end in ends] for ends in self.ends()]
        names = (
            "Python: calls",
            f"GPU: kernels, at work {format_number(100 * busy)} % of the time",
            f"GPU, in a graph: {gain} faster",
        )
        for row, (ends, name) in enumerate(zip(rows, names, strict=True)):
            bars = [(end - wide, wide) for end, wide in ends]
            look = {"facecolor": (MUTED, *PALETTE[1:3])[row], "edgecolor": PAPER}
            axes.broken_barh(bars, (row - 0.22, 0.5), **look)
            axes.text(0, row - 0.36, name, va="center", weight="bold")
        axes.set_yticks([])
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=f"time of {KERNELS} kernels (µs)", xlim=(0, None), ylim=(2.5, -0.6))
        return figure, (
            f"{KERNELS} kernels of {kernel} µs, {launch} µs for each call: launched "
            f"one by one they are done after {done:,} µs, in a graph after {by_graph:,}."
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
