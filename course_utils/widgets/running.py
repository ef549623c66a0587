"""The running mean of a drifting channel: how it starts, what it remembers, how far it lags behind the truth."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from course_utils.arguments import require_whole
from course_utils.book.tables import format_number
from course_utils.norms.statistics import bias_corrected, ema
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import require_stops
from course_utils.widgets.neighbours import normals

__all__ = ["RunningState", "running_average", "running_average_figure"]

STEPS = 200  # training steps shown
START = 3.0  # the channel's true mean before it drifts; its standard deviation is 1
AGES = 60  # batches back that the weights are shown for
STOPS: dict[str, list[float]] = {
    "momentum": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99],
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "drift": [-4, -2, -1, -0.5, 0, 0.5, 1, 2, 4],
}
CONVENTIONS = {"torch": "torch: new value", "keras": "keras: old average"}
SEEDS = (0, 30)


@dataclass(frozen=True)
class RunningState:
    """What the learner has chosen.

    Args:
        momentum: as ``convention`` means it.
        convention: ``"torch"`` or ``"keras"``.
        batch: samples in a batch; one batch a step.
        drift: by how much the true mean changes in 100 steps.
        corrected: whether the trace of the start at zero is taken out.
        seed: which batches are drawn.

    Raises:
        ValueError: a value that no control can produce.
    """

    momentum: float = 0.1
    convention: str = "torch"
    batch: int = 8
    drift: float = 0.0
    corrected: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_stops(self, STOPS)
        if self.convention not in CONVENTIONS:
            raise ValueError(f"convention must be one of {', '.join(CONVENTIONS)}: got {self.convention!r}")
        if not isinstance(self.corrected, bool):
            raise ValueError(f"corrected must be True or False: got {self.corrected!r}")
        require_whole("seed", self.seed, *SEEDS)

    @property
    def new_weight(self) -> float:
        """What a new batch weighs, in either convention."""
        return self.momentum if self.convention == "torch" else 1 - self.momentum


@dataclass(frozen=True)
class RunningFigure:
    """Everything that the picture of a state shows.

    Args:
        truth: the true mean at steps 1, 2, ... 200.
        batch_means: of each step's batch, (200,).
        estimate: the running mean after each step, corrected where that was asked for, (200,).
        weights: of the newest batch in the running mean, of the one before it, ..., (60,).
        memory: the number of steps that it remembers, 1 / the new value's weight.
        lag: how far a steady drift leaves it behind the truth, in the long run.
        scatter: its standard deviation from batch to batch, in the long run.
        start_weight: what the start at zero still weighs after the last step.
    """

    truth: list[float]
    batch_means: list[float]
    estimate: list[float]
    weights: list[float]
    memory: float
    lag: float
    scatter: float
    start_weight: float


def running_average_figure(state: RunningState) -> RunningFigure:
    """Return what the widget shows; the browser's ``runningFigure`` does the same arithmetic."""
    steps = np.arange(1, STEPS + 1)
    truth = START + state.drift / 100 * steps
    batch_means = truth + normals(1000 * state.seed + 7, STEPS) / np.sqrt(state.batch)
    estimate, average = [], 0.0
    for step, mean in zip(steps.tolist(), batch_means.tolist(), strict=True):
        average = ema(average, mean, state.momentum, state.convention)  # type: ignore[arg-type]
        shown = bias_corrected(average, state.momentum, step, state.convention) if state.corrected else average  # type: ignore[arg-type]
        estimate.append(shown)
    new = state.new_weight
    old = 1 - new
    return RunningFigure(
        truth=truth.tolist(),
        batch_means=batch_means.tolist(),
        estimate=estimate,
        weights=[new * old**age for age in range(AGES)],
        memory=1 / new,
        lag=state.drift / 100 * old / new,
        scatter=float(np.sqrt(new / (2 - new) / state.batch)),
        start_weight=0.0 if state.corrected else old**STEPS,
    )


def running_average(
    momentum: float = 0.1,
    convention: str = "torch",
    *,
    batch: int = 8,
    drift: float = 0.0,
    corrected: bool = False,
) -> CourseWidget:
    """Return the picture of a running mean that follows a drifting channel, ready to display.

    Args:
        momentum: 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98 or 0.99.
        convention: ``"torch"`` or ``"keras"``.
        batch: samples in a batch: 1, 2, 4, ... 64.
        drift: by how much the true mean changes in 100 steps: 0, ±0.5, ±1, ±2 or ±4.
        corrected: whether the trace of the start at zero is taken out.

    Raises:
        ValueError: a value that no control can produce.
    """
    return _RunningAverage(RunningState(momentum, convention, batch, drift, corrected))


class _RunningAverage(CourseWidget):
    _esm = browser_module("batch_draws", "running_average")

    def __init__(self, state: RunningState) -> None:
        data = {
            "stops": STOPS,
            "conventions": CONVENTIONS,
            "seeds": SEEDS,
            "steps": STEPS,
            "start": START,
            "ages": AGES,
        }
        super().__init__(state, data)

    def static_figure(self) -> Figure:
        from course_utils import plots

        state: RunningState = self.chosen()
        return plots.running_average(state, running_average_figure(state))

    def describe(self) -> str:
        state: RunningState = self.chosen()
        data = running_average_figure(state)
        return (
            f"The running mean of a channel whose true mean is {format_number(START)} and changes by "
            f"{format_number(float(state.drift))} in 100 steps; batches of {state.batch}, momentum "
            f"{format_number(state.momentum)} in {state.convention}'s convention"
            f"{', bias corrected' if state.corrected else ''}: it remembers {format_number(data.memory)} steps and "
            f"ends at {format_number(data.estimate[-1])} where the truth is {format_number(data.truth[-1])}."
        )
