"""Shape and dtype to a least and a measured time: layer norm on this machine, held against its roofline."""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from course_utils.book.tables import format_number
from course_utils.check import norm_bytes
from course_utils.timing.profiling import Roofline, forward_and_backward, measure_in_turns
from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module
from course_utils.widgets.controls import require_stops

__all__ = ["LeastTimeState", "least_time", "least_time_figure"]

STOPS: dict[str, list[int]] = {
    "rows": [1, 4, 16, 64, 256, 1024, 4096],
    "features": [64, 128, 256, 512, 768, 1024],
}
ITEMSIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
DIRECTIONS = {"forward": "forward", "both": "forward and backward"}
# for each value: forward adds to the mean, centres, squares, adds, scales, weighs, shifts; backward finds x̂ anew (2),
# weighs dy (1), adds up two means (3), subtracts both and scales (4), adds up dweight and dbias (3)
OPERATIONS = {"forward": 7, "both": 7 + 13}


@dataclass(frozen=True)
class LeastTimeState:
    """What the learner has chosen.

    Args:
        rows: of the input; a stop of ``STOPS``.
        features: of a row, over which is normalized; a stop of ``STOPS``.
        dtype: a key of ``ITEMSIZES``.
        direction: a key of ``DIRECTIONS``.

    Raises:
        ValueError: a value that no control can produce.
    """

    rows: int = 1024
    features: int = 768
    dtype: str = "float32"
    direction: str = "forward"

    def __post_init__(self) -> None:
        require_stops(self, STOPS)
        allowed: dict[str, Collection[Any]] = {"dtype": ITEMSIZES, "direction": DIRECTIONS}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} must be one of {', '.join(values)}: got {getattr(self, name)!r}")


@dataclass(frozen=True)
class LeastTimeFigure:
    """Everything that follows from a state without measuring: bytes, operations, and the time that each takes."""

    bytes_moved: int
    operations: int
    memory_ms: float
    arithmetic_ms: float

    @property
    def least_ms(self) -> float:
        """The longer of the two: the machine does both at once."""
        return max(self.memory_ms, self.arithmetic_ms)


def least_time_figure(state: LeastTimeState, machine: Roofline) -> LeastTimeFigure:
    """Return what the widget draws; the browser's ``leastTime`` does the same arithmetic."""
    both = state.direction == "both"
    moved = norm_bytes.oracle(state.rows, state.features, ITEMSIZES[state.dtype], backward=both)
    operations = OPERATIONS[state.direction] * state.rows * state.features
    return LeastTimeFigure(moved, operations, machine.predicted_ms(moved), machine.predicted_ms(0, operations))


def least_time(
    machine: Roofline, rows: int = 1024, features: int = 768, dtype: str = "float32", direction: str = "forward"
) -> CourseWidget:
    """Return the picture of a layer norm's least and measured time, ready to display.

    Args:
        machine: the bandwidth and the arithmetic rate of this machine, as ``Roofline.of("cpu")`` measures them.
        rows: 1, 4, 16, 64, 256, 1024 or 4096.
        features: 64, 128, 256, 512, 768 or 1024.
        dtype: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        direction: ``"forward"``, or ``"both"`` for forward and backward.

    Raises:
        ValueError: a value that no control can produce, or no ``Roofline``.
    """
    if not isinstance(machine, Roofline):
        raise ValueError(f'machine must be a Roofline, as Roofline.of("cpu") returns: got {machine!r}')
    return _LeastTime(machine, LeastTimeState(rows, features, dtype, direction))


class _LeastTime(AnsweringWidget):
    _esm = browser_module("least_time")

    def __init__(self, machine: Roofline, state: LeastTimeState) -> None:
        self._machine = machine
        data = {"stops": STOPS, "itemsizes": ITEMSIZES, "directions": DIRECTIONS, "operations": OPERATIONS}
        super().__init__(state, {**data, **asdict(machine)})

    def answer_to_state(self) -> dict[str, Any]:
        return {"measured_ms": measured_ms(self.chosen())}

    def static_figure(self) -> Figure:
        from course_utils import plots

        data = least_time_figure(self.chosen(), self._machine)
        times = {"least": [1e3 * data.memory_ms, 1e3 * data.arithmetic_ms]}
        return plots.grouped_bars(times, ("of the bytes", "of the operations"), "least time (µs)")

    def describe(self) -> str:
        state: LeastTimeState = self.chosen()
        data = least_time_figure(state, self._machine)
        limit = "memory" if data.memory_ms >= data.arithmetic_ms else "arithmetic"
        return (
            f"Layer norm, {DIRECTIONS[state.direction]}, of {state.rows} rows of {state.features} features in "
            f"{state.dtype}: {data.bytes_moved:,} bytes take at least {format_number(1e3 * data.memory_ms)} µs, "
            f"{data.operations:,} operations at least {format_number(1e3 * data.arithmetic_ms)} µs on a machine of "
            f"{format_number(self._machine.bandwidth_gbps)} GB/s and {format_number(self._machine.peak_gflops)} "
            f"GFLOP/s: bound by {limit}."
        )


def measured_ms(state: LeastTimeState) -> float:
    """Return the 10th percentile of what ``F.layer_norm`` takes here, from a few runs: a widget must not keep waiting.

    The input is small enough to lie in a cache from one run to the next, as an activation often does.
    """
    dtype = getattr(torch, state.dtype)
    x = torch.ones(state.rows, state.features, dtype=dtype)
    weight, bias = torch.ones(state.features, dtype=dtype), torch.zeros(state.features, dtype=dtype)
    shape = (state.features,)

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, shape, weight, bias)

    call: Callable[[], Any] = lambda: forward(x, weight, bias)  # noqa: E731
    if state.direction == "both":
        call = forward_and_backward(forward, x, weight, bias, upstream=(torch.ones_like(x),))
    return measure_in_turns({"it": call}, rounds=10, seconds=0.02)["it"].p10_ms
