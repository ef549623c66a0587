"""A gradient on its way back through a norm: what of it is taken off, and what comes through."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from course_utils.arguments import require_number, require_whole
from course_utils.book.tables import format_number
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import as_numbers

__all__ = ["GradientFigure", "GradientState", "gradient_projection", "gradient_projection_figure"]

NORMS = {"layer": "layer norm", "rms": "RMS norm"}
SHAPES = {"free": "as dragged", "constant": "a constant", "x_hat": "along x̂", "both": "a constant and x̂"}
ROW = (1.2, -0.4, 0.9, 2.1, -1.5, 0.3, -0.8, 1.7)
GRADIENT = (1.9, 0.2, -0.4, 2.6, -0.8, 1.2, 0.5, -1.1)
LIMIT = 3.0  # no bar can be dragged beyond
EPS = 1e-5
STOPS = {"deviation": [0.0001, 0.0003, 0.001, 0.002, 0.00316, 0.005, 0.01, 0.03, 0.1, 1.0, 10.0]}


@dataclass(frozen=True)
class GradientState:
    """What the learner has chosen.

    Args:
        gradient: g, the gradient of x̂: eight numbers from −3 to 3.
        norm: a key of ``NORMS``.
        shape: a key of ``SHAPES``: what ``gradient`` was set to.
        deviation: the standard deviation of the row (with RMS norm, its root mean square), from 0.0001 to 10.
        features: how many of the values are used, 2 to 8.
        picked: which bar the arrow keys change.

    Raises:
        ValueError: a value outside its range; between the stops of a slider, anything goes.
    """

    gradient: Sequence[float] = GRADIENT
    norm: str = "layer"
    shape: str = "free"
    deviation: float = 1.0
    features: int = 6
    picked: int = 0

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}: got {self.norm!r}")
        if self.shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(SHAPES)}: got {self.shape!r}")
        numbers = as_numbers(self.gradient)
        if numbers is None or len(numbers) != len(ROW) or max(map(abs, numbers)) > LIMIT:
            raise ValueError(f"gradient must be {len(ROW)} numbers from {-LIMIT:g} to {LIMIT:g}: got {self.gradient!r}")
        object.__setattr__(self, "gradient", numbers)
        require_whole("features", self.features, 2, len(ROW))
        require_number("deviation", self.deviation, STOPS["deviation"][0], STOPS["deviation"][-1])


@dataclass(frozen=True)
class GradientFigure:
    """Everything that the picture of a state shows, for a row of n = ``features`` values.

    Args:
        gradient: g, (n,).
        x_hat: the normalized row, (n,).
        constant: the part of g along a constant that is taken off, the same for all; 0 for RMS norm.
        along: the part along x̂ that is taken off, (n,).
        left: dx / r, what comes through, (n,).
        gradient_length, left_length: √Σg² and √Σ(dx/r)².
        left_sum: Σ dx/r.
        left_along: mean(dx/r · x̂).
        share: of the part of g along x̂ that comes through, ε / (σ² + ε).
    """

    gradient: list[float]
    x_hat: list[float]
    constant: float
    along: list[float]
    left: list[float]
    gradient_length: float
    left_length: float
    left_sum: float
    left_along: float
    share: float


def gradient_projection_figure(state: GradientState) -> GradientFigure:
    """Return what the widget shows; the browser's ``gradientFigure`` takes the same steps."""
    n = state.features
    x_hat, share = _normalized(state)
    gradient = _shaped(state, x_hat)
    constant = sum(gradient) / n if state.norm == "layer" else 0.0
    component = _mean_product(gradient, x_hat)
    along = [component * value for value in x_hat]
    left = [g - constant - part for g, part in zip(gradient, along, strict=True)]
    return GradientFigure(
        gradient=gradient,
        x_hat=x_hat,
        constant=constant,
        along=along,
        left=left,
        gradient_length=math.sqrt(sum(g * g for g in gradient)),
        left_length=math.sqrt(sum(value * value for value in left)),
        left_sum=sum(left),
        left_along=_mean_product(left, x_hat),
        share=share,
    )


def gradient_projection(
    gradient: Sequence[float] = GRADIENT,
    *,
    norm: str = "layer",
    shape: str = "free",
    deviation: float = 1.0,
    features: int = 6,
) -> CourseWidget:
    """Return a gradient as bars that can be dragged, what a norm takes off it, and what comes through.

    Args:
        gradient: eight numbers from −3 to 3, of which the first ``features`` are used.
        norm: ``"layer"`` or ``"rms"``.
        shape: ``"free"``, or what to set the gradient to: ``"constant"``, ``"x_hat"`` or ``"both"``.
        deviation: the standard deviation of the row (with RMS norm, its root mean square), from 0.0001 to 10; the
            slider stands at the stop nearest to it.
        features: how many values the row has, 2 to 8.

    Raises:
        ValueError: a value outside its range.
    """
    return _GradientProjection(GradientState(gradient, norm, shape, deviation, features))


class _GradientProjection(CourseWidget):
    _esm = browser_module("gradient_projection")

    def __init__(self, state: GradientState) -> None:
        data = {"row": list(ROW), "eps": EPS, "limit": LIMIT, "norms": NORMS, "shapes": SHAPES, "stops": STOPS}
        super().__init__(state, data)

    def static_figure(self) -> Figure:
        from course_utils import plots

        state: GradientState = self.chosen()
        return plots.gradient_projection(gradient_projection_figure(state))

    def describe(self) -> str:
        state: GradientState = self.chosen()
        data = gradient_projection_figure(state)
        removed = "its mean and its part along x̂ are" if state.norm == "layer" else "its part along x̂ is"
        return (
            f"A gradient of {state.features} values ({SHAPES[state.shape]}) on its way back through "
            f"{NORMS[state.norm]}, row of deviation {format_number(state.deviation)}: {removed} taken off, and of "
            f"a length of {data.gradient_length:.2f} a length of {data.left_length:.2f} is left."
        )


def _normalized(state: GradientState) -> tuple[list[float], float]:
    """Return x̂ of the row brought to the chosen deviation, and ε / (σ² + ε)."""
    row = list(ROW[: state.features])
    if state.norm == "layer":
        mean = sum(row) / len(row)
        row = [value - mean for value in row]
    root = math.sqrt(_mean_product(row, row))
    variance = state.deviation * state.deviation
    scale = state.deviation / root / math.sqrt(variance + EPS)
    return [value * scale for value in row], EPS / (variance + EPS)


def _shaped(state: GradientState, x_hat: list[float]) -> list[float]:
    """Return g: as it was dragged, or set to what the norm stops, as large as the picture allows."""
    if state.shape == "free":
        return [float(value) for value in state.gradient[: state.features]]
    if state.shape == "constant":
        return [1.5] * state.features
    unit = [value / max(map(abs, x_hat)) for value in x_hat]
    return [1.5 * value for value in unit] if state.shape == "x_hat" else [1.0 + 1.5 * value for value in unit]


def _mean_product(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / len(a)
