"""One row before and after normalization: what an offset, a factor, epsilon and the arithmetic do.
Chapters 00, 02."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import MUTED, PALETTE, new_figure
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["normalize_row"]

ARITHMETICS = {
    "float64": "float64",
    "two-pass": "float32, two passes",
    "one-pass": "float32, one pass",
    "bfloat16": "bfloat16",
    "float16": "float16",
}
CONTROLS = ("offset", "scale", "eps", "features", "arithmetic")
VALUES = (1.2, -0.4, 0.9, 2.1, -1.5, 0.3, -0.8, 1.7, 0.1, -2.2, 0.6, -0.1, 1.4, -1.1, 0.5, -0.7)

_ONE_TWO_FIVE = [digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)]
_SCALES = [scale for scale in _ONE_TWO_FIVE if scale <= 100]
_NEAR = [step / 2 for step in range(-20, 21)]
_FAR = [0.0, *(offset for offset in _ONE_TWO_FIVE if 1 <= offset <= 1e8)]
STOPS = {
    "scale": [*(-scale for scale in reversed(_SCALES)), 0.0, *_SCALES],
    "eps": [0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-3, 1e-2, 0.1, 1.0],
}


def normalize_row(
    controls: Sequence[str] = CONTROLS, arithmetic: str = "float64", offset: float = 0.0
) -> CourseWidget:
    """Return a row of bars beside its normalized row, ready to display.

    Args:
        controls: which of ``offset, scale, eps, features, arithmetic`` are shown; where
            ``arithmetic`` is, offsets reach 1e8, otherwise ±10.
        arithmetic: ``"float64"``, ``"two-pass"`` or ``"one-pass"``, the last two in float32 (one
            pass beside two), ``"bfloat16"`` or ``"float16"``, both in two passes; every operation
            is rounded.
        offset: the first one, a stop of its slider.
    """
    if isinstance(controls, str) or not set(controls) <= set(CONTROLS):
        raise ValueError(f"controls must be among {', '.join(CONTROLS)}: got {controls!r}")
    stops = {"offset": _FAR if "arithmetic" in controls else _NEAR, **STOPS}
    choices = {"arithmetic": ARITHMETICS, "offset": stops["offset"]}
    chosen = one_of(choices, arithmetic=arithmetic, offset=float(offset))
    state = {"values": VALUES, "features": 8, "scale": 1.0, "eps": 1e-5, "picked": 0, **chosen}
    return _NormalizeRow(
        state, {"controls": list(controls), "arithmetics": ARITHMETICS, "stops": stops}
    )


class _NormalizeRow(CourseWidget):
    _esm = browser_module("normalize_row")

    @property
    def x(self) -> Tensor:
        """The row as it is normalized: (features,), in the state's arithmetic."""
        names = {"two-pass": "float32", "one-pass": "float32"}
        dtype = getattr(torch, names.get(self.state["arithmetic"], self.state["arithmetic"]))
        scale, offset = (
            torch.tensor(self.state[name], dtype=dtype) for name in ("scale", "offset")
        )
        row = torch.tensor(self.state["values"][: self.state["features"]], dtype=dtype)
        return scale * row + offset

    def picture(self) -> tuple[Figure, str]:
        offset, scale, eps, arithmetic = (
            self.state[name] for name in ("offset", "scale", "eps", "arithmetic")
        )
        x = self.x
        mean, is_one_pass = _mean(x), arithmetic == "one-pass"
        in_two = _mean((x - mean).square())
        variance = _mean(x * x) - mean * mean if is_one_pass else in_two
        y, two_passes = (
            ((x - mean) / (spread + torch.tensor(eps, dtype=x.dtype)).sqrt()).double()
            for spread in (variance, in_two)
        )
        statistics = f"mean {format_number(mean.item())}, variance {format_number(variance.item())}"
        output_variance = format_number(y.var(correction=0).item())
        # so far from zero the differences would not be seen
        base = offset if abs(offset) > 50 else 0.0

        figure, (before, after) = new_figure(height=3.4, ncols=2)
        places = torch.arange(1, len(x) + 1)
        _bars(before, places, x.double() - base, 0)
        if is_one_pass:  # beside two, each in its colour of the figures
            _bars(after, places - 0.2, y, 0, "one pass", width=0.4)
            _bars(after, places + 0.2, two_passes, 1, "two passes", width=0.4)
            after.legend(ncols=2, loc="upper left")
        else:
            _bars(after, places, y, 1)
        for axes in (before, after):
            axes.axhline(0, color=MUTED, linewidth=1)
            axes.set_xticks(places.tolist())
            axes.grid(visible=False, axis="x")
        before.set(title=f"input, minus {base:,g}" if base else "input", xlabel=statistics)
        after.set(title="normalized", xlabel=f"variance {output_variance}", ylim=(-4, 4))
        return figure, (
            f"A row of {len(x)} values beside its normalized row, offset "
            f"{format_number(offset)}, scale "
            f"{format_number(scale)}, eps {format_number(eps)}, {ARITHMETICS[arithmetic]}: "
            f"{statistics}; normalized, variance "
            f"{output_variance}."
        )


def _bars(
    axes: Axes, places: Tensor, values: Tensor, series: int, label: str = "", width: float = 0.8
) -> None:
    heights = values.where(values.isfinite(), 0.0).tolist()
    axes.bar(places.tolist(), heights, width, color=PALETTE[series], label=label or None)


def _mean(values: Tensor) -> Tensor:
    """One addition after the other, each rounded, as the browser adds; PyTorch's own mean adds in
    another order."""
    total = torch.zeros((), dtype=values.dtype)
    for value in values:
        total = total + value
    return total / torch.tensor(len(values), dtype=values.dtype)
