"""Batches drawn anew: one sample amid its neighbours (chapter 03), the running mean of a drifting channel (04)."""

import textwrap
from math import sqrt
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from course_utils.book.tables import format_number
from course_utils.norms.statistics import bias_corrected, ema
from course_utils.plots.style import INK, MUTED, PALETTE, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["batch_neighbours", "running_average"]

BATCHES = 200  # how often the neighbours are drawn anew; each of those batches is one training step
SAMPLE = (1.5, -0.5, 0.25, 0.75)  # the sample's features; batch norm of the first is what is shown
EPS = 1e-5
MODES = {"train": "training", "eval": "evaluation"}
NEIGHBOUR_STOPS: dict[str, list[float]] = {
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "loudness": [0.1, 0.2, 0.5, 1, 2, 5, 10],
    "momentum": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1],
}
LIMITS = {"seed": (0, 30), "steps": (0, BATCHES)}

START = 3.0  # a channel's true mean before it drifts; its standard deviation is 1
AGES = 60  # batches back that the weights are shown for
CONVENTIONS = {"torch": "torch: new value", "keras": "keras: old average"}
RUNNING_STOPS: dict[str, list[float]] = {
    "momentum": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99],
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "drift": [-4, -2, -1, -0.5, 0, 0.5, 1, 2, 4],
}


def batch_neighbours(
    batch: int = 8, *, loudness: float = 1.0, momentum: float = 0.1, steps: int = 100, mode: str = "train"
) -> CourseWidget:
    """Return the picture of one sample's output amid changing neighbours, ready to display.

    Args:
        batch: samples in the batch, the chosen one among them: 1, 2, 4, ... 64.
        loudness: the neighbours' standard deviation, about mean 0: 0.1, 0.2, 0.5, ... 10.
        momentum: weight of a new batch in the running statistics: 0.01, 0.02, 0.05, ... 1.
        steps: training steps taken before evaluation, up to 200.
        mode: ``"train"`` normalizes by the batch, ``"eval"`` by the running statistics.
    """
    choices = {**NEIGHBOUR_STOPS, "mode": MODES, "steps": range(BATCHES + 1)}
    chosen = one_of(choices, batch=batch, loudness=loudness, momentum=momentum, steps=steps, mode=mode)
    data = {"stops": NEIGHBOUR_STOPS, "modes": MODES, "limits": LIMITS, "sample": SAMPLE, "batches": BATCHES}
    return _BatchNeighbours({**chosen, "seed": 0}, {**data, "eps": EPS, "refusal": _refusal()})


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
        momentum: as ``convention`` means it: 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98 or 0.99.
        convention: ``"torch"`` or ``"keras"``.
        batch: samples in a batch: 1, 2, 4, ... 64.
        drift: by how much the true mean changes in 100 steps: 0, ±0.5, ±1, ±2 or ±4.
        corrected: whether the trace of the start at zero is taken out.
    """
    choices = {**RUNNING_STOPS, "convention": CONVENTIONS, "corrected": (False, True)}
    chosen = one_of(choices, momentum=momentum, convention=convention, batch=batch, drift=drift, corrected=corrected)
    data = {"stops": RUNNING_STOPS, "conventions": CONVENTIONS, "seeds": LIMITS["seed"]}
    return _RunningAverage({**chosen, "seed": 0}, {**data, "steps": BATCHES, "start": START, "ages": AGES})


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


class _BatchNeighbours(CourseWidget):
    _esm = browser_module("batch_draws", "batch_neighbours")

    def picture(self) -> tuple[Figure, str]:
        chosen, loudness, steps, mode = (self.state[name] for name in ("batch", "loudness", "steps", "mode"))
        figure, axes = new_figure(height=4.4, nrows=2, ncols=2, width_ratios=[3, 2])
        # E[Σ(x - x̄)²] / (B - 1) for one fixed value and B - 1 draws of mean 0 and variance loudness²
        expected = SAMPLE[0] / chosen, loudness**2 + (SAMPLE[0] ** 2 - loudness**2) / chosen
        strip = figure.add_subplot(axes[0, 0].get_gridspec()[:, 0])
        for unused in axes[:, 0]:
            unused.remove()
        for column, batch in enumerate(map(int, NEIGHBOUR_STOPS["batch"])):
            neighbours = loudness * normals(1000 * self.state["seed"] + batch, BATCHES * (batch - 1))
            x = np.insert(neighbours.reshape(BATCHES, batch - 1), 0, SAMPLE[0], axis=1)  # (BATCHES, batch)
            mean, variance = x.mean(axis=1), x.var(axis=1)
            running = self._running(batch, mean, variance)  # (2, BATCHES + 1)
            if batch == chosen:
                for row, name in enumerate(("mean", "variance")):
                    panel, values = axes[row, 1], running[row]
                    if batch > 1:  # nothing is trained on a batch of one
                        panel.axhline(expected[row], color=INK, linewidth=1.2, linestyle=":")
                    panel.plot(values, color=PALETTE[2 + row], linestyle="-")
                    panel.plot(steps, values[steps], marker="o", color=PALETTE[2 + row])
                    panel.set(title=f"running {name}")
            if batch == 1 and mode == "train":
                strip.text(column, 0, "refused", ha="center", va="bottom", fontsize=9)
                continue
            if mode == "eval":
                mean, variance = np.repeat(running[:, steps, None], BATCHES, axis=1)
            outputs = (SAMPLE[0] - mean) / np.sqrt(variance + EPS)
            aside = ((np.arange(BATCHES) * 0.618034) % 1 - 0.5) * 0.55  # so that equal outputs are seen to be many
            look: dict[str, Any] = {"markersize": 2.5, "color": PALETTE[0], "alpha": 1 if batch == chosen else 0.4}
            strip.plot(column + aside, outputs, ".", **look)
            strip.errorbar(column + 0.38, np.mean(outputs), np.std(outputs), color=INK, capsize=3)
            if batch == chosen:  # from the first on: exactly 0 where all are equal
                spread = f"standard deviation {format_number(float(np.std(outputs - outputs[0])))}"
        if chosen == 1 and mode == "train":
            spread = _refusal()
            figure.suptitle("\n".join(textwrap.wrap(spread, 90)), fontsize=10)
        centred = np.subtract(SAMPLE, np.mean(SAMPLE))
        layer_norm = float(centred[0] / sqrt(np.mean(centred**2) + EPS))
        strip.axhline(layer_norm, color=PALETTE[1], linestyle="--")
        strip.text(6.55, layer_norm, "layer norm", ha="right", va="bottom", weight="bold", fontsize=9.5)
        strip.set_xlim(-0.6, 6.6)
        strip.set_xticks(range(7), labels=list(map(str, NEIGHBOUR_STOPS["batch"])))
        strip.grid(visible=False, axis="x")
        strip.set(title="output of the same sample", xlabel="batch size")
        axes[1, 1].set_xlabel("training steps")
        return figure, (
            f"One sample among {chosen - 1} neighbours drawn {BATCHES} times, {MODES[mode]} mode, "
            f"neighbours' loudness {format_number(float(loudness))}: its batch-norm output, {spread}; "
            f"its layer-norm output, {format_number(layer_norm)} every time."
        )

    def _running(self, batch: int, mean: NDArray, variance: NDArray) -> NDArray:
        """Return running mean and variance after 0, 1, ... steps; a batch of one cannot be trained on."""
        means, variances, momentum = [0.0], [1.0], self.state["momentum"]
        for mu, biased in zip(mean.tolist(), variance.tolist(), strict=True):
            new = (means[-1], variances[-1]) if batch == 1 else (mu, biased * batch / (batch - 1))
            means.append(ema(means[-1], new[0], momentum))
            variances.append(ema(variances[-1], new[1], momentum))
        return np.array([means, variances])


class _RunningAverage(CourseWidget):
    _esm = browser_module("batch_draws", "running_average")

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        momentum, convention = state["momentum"], state["convention"]
        steps = np.arange(1, BATCHES + 1)
        truth = START + state["drift"] / 100 * steps
        batch_means = truth + normals(1000 * state["seed"] + 7, BATCHES) / np.sqrt(state["batch"])
        estimate, average = [], 0.0
        for step, mean in zip(steps.tolist(), batch_means.tolist(), strict=True):
            average = ema(average, mean, momentum, convention)
            corrected = bias_corrected(average, momentum, step, convention) if state["corrected"] else average
            estimate.append(corrected)
        new_weight = momentum if convention == "torch" else 1 - momentum
        memory = 1 / new_weight  # steps

        figure, (above, below) = new_figure(height=5.0, nrows=2, height_ratios=[5, 2])
        above.plot(steps, batch_means, ".", markersize=4, color=MUTED, alpha=0.5, label="batch means")
        above.plot(steps, truth, color=INK, linestyle=":", label="truth")
        name = "running mean, corrected" if state["corrected"] else "running mean"
        above.plot(steps, estimate, color=PALETTE[0], linestyle="-", label=name)
        above.set(title=f"momentum {momentum:g} ({convention})", xlabel="step", ylabel="mean")
        above.legend(loc="lower right", ncols=3, fontsize=9)
        ages = np.arange(AGES)
        below.bar(ages, new_weight * (1 - new_weight) ** ages, color=PALETTE[0])
        if memory <= AGES:
            below.axvline(memory - 0.5, color=PALETTE[1], linestyle="--")
        below.set(title=f"what it remembers: {format_number(memory)} steps", xlabel="batches ago", ylabel="weight")
        below.grid(visible=False, axis="x")
        return figure, (
            f"The running mean of a channel whose true mean is {format_number(START)} and changes by "
            f"{format_number(float(state['drift']))} in 100 steps; batches of {state['batch']}, momentum "
            f"{format_number(momentum)} in {convention}'s convention"
            f"{', bias corrected' if state['corrected'] else ''}: it remembers {format_number(memory)} steps and "
            f"ends at {format_number(estimate[-1])} where the truth is {format_number(truth[-1])}."
        )


def _refusal() -> str:
    """Return what PyTorch says to a batch of one in training mode."""
    try:
        torch.nn.BatchNorm1d(len(SAMPLE))(torch.zeros(1, len(SAMPLE)))
    except ValueError as refusal:
        return f"ValueError: {refusal}"
    return ""
