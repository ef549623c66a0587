"""One row before and after normalization: what an offset, a factor, epsilon and the arithmetic do to it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from course_utils.arguments import require_names, require_number, require_whole
from course_utils.book.tables import format_number
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import as_numbers

__all__ = ["ARITHMETICS", "RowFigure", "RowState", "normalize_row", "normalize_row_figure"]

ARITHMETICS = {"float64": "float64", "two-pass": "float32, two passes", "one-pass": "float32, one pass"}
CONTROLS = ("offset", "scale", "eps", "features", "arithmetic")
VALUES = (1.2, -0.4, 0.9, 2.1, -1.5, 0.3, -0.8, 1.7, 0.1, -2.2, 0.6, -0.1, 1.4, -1.1, 0.5, -0.7)

_ONE_TWO_FIVE = [digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)]
_SCALES = [scale for scale in _ONE_TWO_FIVE if scale <= 100]
STOPS = {
    "near offset": [step / 2 for step in range(-20, 21)],
    "far offset": [0.0, *(offset for offset in _ONE_TWO_FIVE if 1 <= offset <= 1e8)],
    "scale": [*(-scale for scale in reversed(_SCALES)), 0.0, *_SCALES],
    "eps": [0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-3, 1e-2, 0.1, 1.0],
}
# a value between two stops can be given; the slider then stands at the nearest and shows the value itself
LIMITS = {
    "offset": (min(STOPS["near offset"]), max(STOPS["far offset"])),
    "scale": (min(STOPS["scale"]), max(STOPS["scale"])),
    "eps": (min(STOPS["eps"]), max(STOPS["eps"])),
}


@dataclass(frozen=True)
class RowState:
    """What the learner has chosen.

    Args:
        values: the row before offset and scale, 2 to 16 numbers.
        features: how many of them are used, at least 2.
        offset: added to every value, from −10 to 1e8.
        scale: multiplies every value, before the offset is added; from −100 to 100.
        eps: added to the variance, from 0 to 1.
        arithmetic: a key of ``ARITHMETICS``.
        picked: which value the arrow keys change.

    Raises:
        ValueError: a value outside its range; between the stops of a slider, anything goes.
    """

    values: Sequence[float] = VALUES
    features: int = 8
    offset: float = 0.0
    scale: float = 1.0
    eps: float = 1e-5
    arithmetic: str = "float64"
    picked: int = 0

    def __post_init__(self) -> None:
        require_whole("features", self.features, 2, len(_row(self.values)))
        for name, (low, high) in LIMITS.items():
            require_number(name, getattr(self, name), low, high)
        if self.arithmetic not in ARITHMETICS:
            raise ValueError(f"arithmetic must be one of {', '.join(ARITHMETICS)}: got {self.arithmetic!r}")


@dataclass(frozen=True)
class RowFigure:
    """Everything that the picture of a state shows.

    Args:
        inputs: the row as the arithmetic holds it, (features,).
        spacing: how far apart the numbers stand that the arithmetic has at the largest input.
        outputs: the normalized row, (features,).
        mean: of the inputs, as the arithmetic finds it.
        variance: of the inputs, as the arithmetic finds it, divided by the count.
        output_sum: sum of the outputs.
        output_variance: variance of the outputs.
        predicted_variance: what it should be, variance / (variance + eps).
        unmoved: the outputs in float64 at offset 0 and scale 1, (features,).
        moved: the largest distance of an output from its place in ``unmoved``.
    """

    inputs: list[float]
    spacing: float
    outputs: list[float]
    mean: float
    variance: float
    output_sum: float
    output_variance: float
    predicted_variance: float
    unmoved: list[float]
    moved: float


def normalize_row_figure(state: RowState) -> RowFigure:
    """Return what the widget shows; the browser's ``rowFigure`` takes the same steps, rounding by rounding."""
    to = _float32 if state.arithmetic != "float64" else float
    row = [float(value) for value in state.values[: state.features]]
    inputs = [to(to(to(state.scale) * to(value)) + to(state.offset)) for value in row]
    mean, variance, outputs = _normalize(inputs, state.eps, to, one_pass=state.arithmetic == "one-pass")
    _, _, unmoved = _normalize(row, state.eps, float, one_pass=False)
    output_mean = sum(outputs) / len(outputs)
    return RowFigure(
        inputs=inputs,
        spacing=float(np.spacing((np.float64 if to is float else np.float32)(max(map(abs, inputs))))),
        outputs=outputs,
        mean=mean,
        variance=variance,
        output_sum=sum(outputs),
        output_variance=sum((y - output_mean) ** 2 for y in outputs) / len(outputs),
        predicted_variance=_divide(variance, variance + state.eps),
        unmoved=unmoved,
        moved=float(np.max(np.abs(np.subtract(outputs, unmoved)))),  # NaN where an output is NaN
    )


def normalize_row(
    values: Sequence[float] | None = None,
    controls: Sequence[str] = CONTROLS,
    *,
    features: int | None = None,
    offset: float = 0.0,
    scale: float = 1.0,
    eps: float = 1e-5,
    arithmetic: str = "float64",
) -> CourseWidget:
    """Return a row of bars beside its normalized row, ready to display.

    Args:
        values: the row, 2 to 16 numbers; by default the course's own sixteen.
        controls: which of ``offset, scale, eps, features, arithmetic`` are shown; where ``arithmetic`` is, offsets
            reach 1e8, otherwise ±10.
        features: how many of the values are used; by default at most eight.
        offset: added to every value, from −10 to 1e8; the slider stands at the stop nearest to it.
        scale: multiplies every value, from −100 to 100; likewise.
        eps: added to the variance, from 0 to 1; likewise.
        arithmetic: ``"float64"``, ``"two-pass"`` or ``"one-pass"``, the last two in float32.

    Raises:
        ValueError: an unknown control, or a value outside its range.
    """
    require_names("controls", controls, CONTROLS)
    row = VALUES if values is None else _row(values)
    count = min(8, len(row)) if features is None else features
    return _NormalizeRow(RowState(row, count, offset, scale, eps, arithmetic), controls)


class _NormalizeRow(CourseWidget):
    _esm = browser_module("normalize_row")

    def __init__(self, state: RowState, controls: Sequence[str]) -> None:
        offsets = STOPS["far offset" if "arithmetic" in controls else "near offset"]
        data = {
            "controls": list(controls),
            "arithmetics": ARITHMETICS,
            "stops": {"offset": offsets, "scale": STOPS["scale"], "eps": STOPS["eps"]},
        }
        super().__init__(state, data)

    def static_figure(self) -> Figure:
        from course_utils import plots

        return plots.normalize_row(self.chosen(), normalize_row_figure(self.chosen()))

    def describe(self) -> str:
        state: RowState = self.chosen()
        data = normalize_row_figure(state)
        return (
            f"A row of {state.features} values beside its normalized row, offset {format_number(state.offset)}, "
            f"scale {format_number(state.scale)}, eps {format_number(state.eps)}, {ARITHMETICS[state.arithmetic]}: "
            f"mean {format_number(data.mean)}, variance {format_number(data.variance)}; "
            f"normalized, variance {format_number(data.output_variance)}."
        )


def _row(values: Any) -> tuple[float, ...]:
    """The values as numbers.

    Raises:
        ValueError: they are not, or too few or too many.
    """
    row = as_numbers(values)
    if row is None or not 2 <= len(row) <= len(VALUES):
        raise ValueError(f"values must be 2 to {len(VALUES)} numbers: got {values!r}")
    return row


def _normalize(
    row: list[float], eps: float, to: Callable[[float], float], *, one_pass: bool
) -> tuple[float, float, list[float]]:
    """Return mean, variance and the normalized row, every operation rounded by ``to``."""
    mean = _mean(row, to)
    if one_pass:
        variance = to(_mean([to(x * x) for x in row], to) - to(mean * mean))
    else:
        centred = [to(x - mean) for x in row]
        variance = _mean([to(x * x) for x in centred], to)
    shifted = to(variance + to(eps))
    std = to(math.sqrt(shifted)) if shifted >= 0 else math.nan
    return mean, variance, [to(_divide(to(x - mean), std)) for x in row]


def _mean(row: list[float], to: Callable[[float], float]) -> float:
    total = 0.0
    for x in row:
        total = to(total + x)
    return to(total / len(row))


def _float32(value: float) -> float:
    return float(np.float32(value))


def _divide(numerator: float, denominator: float) -> float:
    """Return the quotient as IEEE arithmetic has it: NaN or infinity instead of an exception."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(numerator) / np.float64(denominator))
