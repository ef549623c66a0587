"""Batch norm of one sample amid its neighbours: how far its output depends on who else is in the batch."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from course_utils.arguments import require_whole
from course_utils.book.tables import format_number
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import require_stops

__all__ = ["NeighbourFigure", "NeighbourState", "batch_neighbours", "batch_neighbours_figure", "normals"]

BATCHES = 200  # how often the neighbours are drawn anew
STEPS = BATCHES  # each of those batches is one training step
SAMPLE = (1.5, -0.5, 0.25, 0.75)  # the sample's features; batch norm of the first is what is shown
EPS = 1e-5
STOPS: dict[str, list[float]] = {
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "loudness": [0.1, 0.2, 0.5, 1, 2, 5, 10],
    "momentum": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1],
}
MODES = {"train": "training", "eval": "evaluation"}
LIMITS = {"seed": (0, 30), "steps": (0, STEPS)}


@dataclass(frozen=True)
class NeighbourState:
    """What the learner has chosen.

    Args:
        batch: samples in the batch, the chosen one among them.
        seed: which neighbours are drawn.
        loudness: the neighbours' standard deviation; their mean is 0.
        momentum: weight of a new batch in the running statistics, as PyTorch counts it.
        steps: training steps taken before the sample is evaluated.
        mode: ``"train"`` normalizes by the batch, ``"eval"`` by the running statistics.

    Raises:
        ValueError: a value that no control can produce.
    """

    batch: int = 8
    seed: int = 0
    loudness: float = 1.0
    momentum: float = 0.1
    steps: int = 100
    mode: str = "train"

    def __post_init__(self) -> None:
        require_stops(self, STOPS)
        for name, (low, high) in LIMITS.items():
            require_whole(name, getattr(self, name), low, high)
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}: got {self.mode!r}")


@dataclass(frozen=True)
class NeighbourFigure:
    """Everything that the picture of a state shows.

    Args:
        outputs: by batch size, the sample's output in each of the 200 batches; empty where PyTorch refuses.
        running_mean: after 0, 1, ... 200 steps with the chosen batch size, (201,).
        running_variance: likewise, (201,).
        expected_mean: what a batch's mean is on average; ``None`` for a batch of one, which is never trained on.
        expected_variance: what a batch's unbiased variance is on average; likewise.
        layer_norm: the sample's output under layer norm, whoever its neighbours are.
    """

    outputs: dict[int, list[float]]
    running_mean: list[float]
    running_variance: list[float]
    expected_mean: float | None
    expected_variance: float | None
    layer_norm: float


def normals(seed: int, count: int) -> NDArray[np.float64]:
    """Return ``count`` standard normal numbers, (count,): the same here and in the browser, to rounding.

    Source: the generator mulberry32 (Tommy Ettinger, public domain), then Box and Muller 1958.
    """
    pairs = (count + 1) // 2
    counter = np.arange(1, 2 * pairs + 1, dtype=np.uint32) * np.uint32(0x6D2B79F5) + np.uint32(seed)
    mixed = (counter ^ (counter >> 15)) * (counter | 1)
    mixed = (mixed + (mixed ^ (mixed >> 7)) * (mixed | 61)) ^ mixed
    uniform = ((mixed ^ (mixed >> 14)) / 2.0**32).reshape(pairs, 2)
    radius = np.sqrt(-2 * np.log(1 - uniform[:, 0]))
    angle = 2 * np.pi * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:count]


def neighbours(state: NeighbourState, batch: int) -> NDArray[np.float64]:
    """Return the first feature of the sample's neighbours, (BATCHES, batch - 1)."""
    drawn = normals(1000 * state.seed + batch, BATCHES * (batch - 1))
    return state.loudness * drawn.reshape(BATCHES, batch - 1)


def batch_neighbours_figure(state: NeighbourState) -> NeighbourFigure:
    """Return what the widget shows; the browser's ``neighbourFigure`` gives the same numbers."""
    outputs = {}
    for batch in STOPS["batch"]:
        mean, variance = _batch_statistics(state, int(batch))
        if state.mode == "eval":
            running_mean, running_variance = _running(state, int(batch), mean, variance)
            mean = np.full(BATCHES, running_mean[state.steps])
            variance = np.full(BATCHES, running_variance[state.steps])
        refused = batch == 1 and state.mode == "train"
        outputs[int(batch)] = [] if refused else ((SAMPLE[0] - mean) / np.sqrt(variance + EPS)).tolist()
    running_mean, running_variance = _running(state, state.batch, *_batch_statistics(state, state.batch))
    alone = state.batch == 1
    centred = np.subtract(SAMPLE, np.mean(SAMPLE))
    return NeighbourFigure(
        outputs=outputs,
        running_mean=running_mean,
        running_variance=running_variance,
        expected_mean=None if alone else SAMPLE[0] / state.batch,
        # E[Σ(x - x̄)²] / (B - 1) for one fixed value and B - 1 draws of mean 0 and variance loudness²
        expected_variance=None if alone else state.loudness**2 + (SAMPLE[0] ** 2 - state.loudness**2) / state.batch,
        layer_norm=float(centred[0] / sqrt(np.mean(centred**2) + EPS)),
    )


def spread_of(outputs: list[float]) -> float:
    """Return the outputs' standard deviation, exactly 0 where all are equal (the mean of equals may round)."""
    return float(np.std(np.subtract(outputs, outputs[0])))


def batch_neighbours(
    batch: int = 8, *, loudness: float = 1.0, momentum: float = 0.1, steps: int = 100, mode: str = "train"
) -> CourseWidget:
    """Return the picture of one sample's output amid changing neighbours, ready to display.

    Args:
        batch: samples in the batch: 1, 2, 4, ... 64.
        loudness: the neighbours' standard deviation: 0.1, 0.2, 0.5, ... 10.
        momentum: weight of a new batch in the running statistics: 0.01, 0.02, 0.05, ... 1.
        steps: training steps taken before evaluation, up to 200.
        mode: ``"train"`` or ``"eval"``.

    Raises:
        ValueError: a value that no control can produce.
    """
    return _BatchNeighbours(NeighbourState(batch, 0, loudness, momentum, steps, mode))


class _BatchNeighbours(CourseWidget):
    _esm = browser_module("batch_draws", "batch_neighbours")

    def __init__(self, state: NeighbourState) -> None:
        data = {"stops": STOPS, "modes": MODES, "limits": LIMITS, "sample": SAMPLE, "batches": BATCHES, "eps": EPS}
        super().__init__(state, {**data, "refusal": _refusal()})

    def static_figure(self) -> Figure:
        from course_utils import plots

        state: NeighbourState = self.chosen()
        return plots.batch_neighbours(state, batch_neighbours_figure(state), _refusal())

    def describe(self) -> str:
        state: NeighbourState = self.chosen()
        data = batch_neighbours_figure(state)
        drawn = data.outputs[state.batch]
        spread = f"standard deviation {format_number(spread_of(drawn))}" if drawn else _refusal()
        return (
            f"One sample among {state.batch - 1} neighbours drawn {BATCHES} times, {MODES[state.mode]} mode, "
            f"neighbours' loudness {format_number(float(state.loudness))}: its batch-norm output, {spread}; "
            f"its layer-norm output, {format_number(data.layer_norm)} every time."
        )


def _batch_statistics(state: NeighbourState, batch: int) -> tuple[NDArray, NDArray]:
    """Return mean and biased variance of each batch, (BATCHES,) both."""
    values = np.concatenate([np.full((BATCHES, 1), SAMPLE[0]), neighbours(state, batch)], axis=1)
    return values.mean(axis=1), values.var(axis=1)


def _running(state: NeighbourState, batch: int, mean: NDArray, variance: NDArray) -> tuple[list[float], list[float]]:
    """Return the running statistics after 0, 1, ... steps; a batch of one cannot be trained on and leaves them."""
    means, variances = [0.0], [1.0]
    keep = 1 - state.momentum
    for mu, biased in zip(mean.tolist(), variance.tolist(), strict=True):
        new = (means[-1], variances[-1]) if batch == 1 else (mu, biased * batch / (batch - 1))
        means.append(keep * means[-1] + state.momentum * new[0])
        variances.append(keep * variances[-1] + state.momentum * new[1])
    return means, variances


def _refusal() -> str:
    """Return what PyTorch says to a batch of one in training mode."""
    try:
        torch.nn.BatchNorm1d(len(SAMPLE))(torch.zeros(1, len(SAMPLE)))
    except ValueError as refusal:
        return f"ValueError: {refusal}"
    return ""
