"""Batches drawn anew: one sample amid its neighbours (chapter 03), the running mean of a drifting
channel (04)."""

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.norms.statistics import bias_corrected, ema
from course_utils.plots.style import INK, MUTED, PALETTE, new_figure
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["batch_neighbours", "running_average"]

BATCHES = 200  # how often the neighbours are drawn anew; each of those batches is one training step
SAMPLE = (1.5, -0.5, 0.25, 0.75)  # the sample's features; batch norm of the first is what is shown
OWN_SEED = 77  # of what makes the sample's pixels differ
EPS = 1e-5
MODES = {"train": "training", "eval": "evaluation"}
NEIGHBOUR_STOPS: dict[str, list[float]] = {
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "pixels": [1, 4, 16, 64],
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
    batch: int = 8,
    *,
    loudness: float = 1.0,
    momentum: float = 0.1,
    steps: int = 100,
    mode: str = "train",
    pixels: int = 1,
) -> CourseWidget:
    """Return the picture of one sample's output amid changing neighbours, ready to display.

    Args:
        batch: samples in the batch, the chosen one among them: 1, 2, 4, ... 64.
        loudness: the neighbours' standard deviation, about mean 0: 0.1, 0.2, 0.5, ... 10.
        momentum: weight of a new batch in the running statistics: 0.01, 0.02, 0.05, ... 1.
        steps: training steps taken before evaluation, up to 200.
        mode: ``"train"`` normalizes by the batch, ``"eval"`` by the running statistics.
        pixels: H·W of each sample, all of which count: 1, 4, 16 or 64.
    """
    choices = {**NEIGHBOUR_STOPS, "mode": MODES, "steps": range(BATCHES + 1)}
    chosen = one_of(
        choices,
        batch=batch,
        pixels=pixels,
        loudness=loudness,
        momentum=momentum,
        steps=steps,
        mode=mode,
    )
    data = {
        "stops": NEIGHBOUR_STOPS,
        "modes": MODES,
        "limits": LIMITS,
        "sample": SAMPLE,
        "batches": BATCHES,
    }
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
        momentum: as ``convention`` means it: 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98
            or 0.99.
        convention: ``"torch"`` or ``"keras"``.
        batch: samples in a batch: 1, 2, 4, ... 64.
        drift: by how much the true mean changes in 100 steps: 0, ±0.5, ±1, ±2 or ±4.
        corrected: whether the trace of the start at zero is taken out.
    """
    choices = {**RUNNING_STOPS, "convention": CONVENTIONS, "corrected": (False, True)}
    chosen = one_of(
        choices,
        momentum=momentum,
        convention=convention,
        batch=batch,
        drift=drift,
        corrected=corrected,
    )
    data = {"stops": RUNNING_STOPS, "conventions": CONVENTIONS, "limits": {"seed": LIMITS["seed"]}}
    return _RunningAverage(
        {**chosen, "seed": 0}, {**data, "steps": BATCHES, "start": START, "ages": AGES}
    )


class _BatchNeighbours(CourseWidget):
    _esm = browser_module("batch_draws", "batch_neighbours")

    @property
    def x(self) -> Tensor:
        """The channel that is seen in the present batch: (batch, pixels), float64; the first row is
        the sample."""
        return self._drawn(self.state["batch"], batches=1)[0]

    def _drawn(self, batch: int, batches: int = BATCHES) -> Tensor:
        """The channel in each batch: (batches, batch, pixels)."""
        seed, pixels, loudness = (self.state[name] for name in ("seed", "pixels", "loudness"))
        shape = (batches, batch - 1, pixels)
        neighbours = normals(1000 * seed + batch, batches * (batch - 1) * pixels).view(shape)
        own = SAMPLE[0] + own_pixels(pixels)
        return torch.cat([own.expand(batches, 1, pixels), loudness * neighbours], dim=1)

    def picture(self) -> tuple[Figure, str]:
        chosen, loudness, momentum, steps, mode, pixels = (
            self.state[name]
            for name in ("batch", "loudness", "momentum", "steps", "mode", "pixels")
        )
        figure, axes = new_figure(height=3.8)
        spread = _refusal()
        for column, batch in enumerate(map(int, NEIGHBOUR_STOPS["batch"])):
            if batch * pixels == 1 and mode == "train":
                axes.text(column, 0, "refused", ha="center", va="bottom", fontsize=9)
                continue
            x = self._drawn(batch).flatten(1)  # (BATCHES, batch · pixels)
            if mode == "train":
                # a channel for each batch
                outputs = F.batch_norm(x.T, None, None, training=True, eps=EPS)[0]
            else:
                layer = torch.nn.BatchNorm1d(1, EPS, momentum, affine=False).double()
                for values in x[
                    : steps if x.shape[1] > 1 else 0
                ]:  # one number cannot be trained on
                    layer(values[:, None])
                outputs = layer.eval()(x[:, :1])[:, 0]
            aside = (
                (torch.arange(BATCHES) * 0.618034) % 1 - 0.5
            ) * 0.55  # so that equal outputs are seen to be many
            axes.plot(
                column + aside,
                outputs,
                ".",
                markersize=2.5,
                color=PALETTE[0],
                alpha=1 if batch == chosen else 0.4,
            )
            axes.errorbar(
                column + 0.38, outputs.mean(), outputs.std(correction=0), color=INK, capsize=3
            )
            if batch == chosen:  # from the first on: exactly 0 where all are equal
                spread = (
                    "standard deviation "
                    f"{format_number((outputs - outputs[0]).std(correction=0).item())}"
                )
        sample = torch.tensor(SAMPLE, dtype=torch.float64)[:, None] + own_pixels(pixels)
        plural = "pixel" if pixels == 1 else "pixels"
        layer_norm = F.layer_norm(sample, sample.shape, eps=EPS)[0, 0].item()
        axes.axhline(layer_norm, color=PALETTE[1], linestyle="--")
        axes.text(-0.55, layer_norm, "layer norm", va="bottom", weight="bold", fontsize=9.5)
        axes.set_xlim(-0.6, 6.6)
        axes.set_xticks(range(7), labels=list(map(str, NEIGHBOUR_STOPS["batch"])))
        axes.grid(visible=False, axis="x")
        axes.set(title="output of the same sample (bar: mean ± one deviation)", xlabel="batch size")
        return figure, (
            f"One sample among {chosen - 1} neighbours of {pixels} {plural} drawn {BATCHES} "
            f"times, {MODES[mode]} mode, "
            f"neighbours' loudness {format_number(float(loudness))}: its batch-norm output, "
            f"{spread}; its layer-norm output, "
            f"{format_number(layer_norm)} every time."
        )


class _RunningAverage(CourseWidget):
    _esm = browser_module("batch_draws", "running_average")

    @property
    def x(self) -> Tensor:
        """The means of the batches that are seen, in order: (200,), float64."""
        steps = torch.arange(1, BATCHES + 1, dtype=torch.float64)
        truth = START + self.state["drift"] / 100 * steps
        noise = normals(1000 * self.state["seed"] + 7, BATCHES)
        return truth + noise / self.state["batch"] ** 0.5

    def picture(self) -> tuple[Figure, str]:
        momentum, convention, batch, drift, correct = (
            self.state[name] for name in ("momentum", "convention", "batch", "drift", "corrected")
        )
        steps = torch.arange(1, BATCHES + 1)
        truth = START + drift / 100 * steps
        batch_means = self.x
        estimate, average = [], 0.0
        for step, mean in enumerate(batch_means.tolist(), start=1):
            average = ema(average, mean, momentum, convention)
            estimate.append(
                bias_corrected(average, momentum, step, convention) if correct else average
            )

        figure, axes = new_figure(height=3.8)
        axes.plot(
            steps, batch_means, ".", markersize=4, color=MUTED, alpha=0.5, label="batch means"
        )
        axes.plot(steps, truth, color=INK, linestyle=":", label="truth")
        axes.plot(
            steps,
            estimate,
            color=PALETTE[0],
            linestyle="-",
            label="running mean" + ", corrected" * correct,
        )
        axes.set(title=f"momentum {momentum:g} ({convention})", xlabel="step", ylabel="mean")
        axes.legend(loc="lower right", ncols=3, fontsize=9)
        memory = 1 / (momentum if convention == "torch" else 1 - momentum)  # steps
        return figure, (
            f"The running mean of a channel whose true mean is {format_number(START)} and changes "
            "by "
            f"{format_number(float(drift))} in 100 steps; batches of {batch}, momentum "
            f"{format_number(momentum)} in "
            f"{convention}'s convention{', bias corrected' * correct}: it remembers "
            f"{format_number(memory)} steps and ends at "
            f"{format_number(estimate[-1])} where the truth is "
            f"{format_number(truth[-1].item())}."
        )


def own_pixels(pixels: int) -> Tensor:
    """Return how the sample's pixels differ from its first, in each of its channels: (pixels,)."""
    return torch.cat([torch.zeros(1, dtype=torch.float64), normals(OWN_SEED, pixels - 1)])


def normals(seed: int, count: int) -> Tensor:
    """Return the standard normal numbers that the browser draws: mulberry32 (Tommy Ettinger, public
    domain), a counter and a hash, and Box and Muller's method; (count,), float64."""
    whole = 2**32
    steps = np.arange(1, count + count % 2 + 1, dtype=np.uint64)
    counter = (np.uint64(seed) + steps * np.uint64(0x6D2B79F5)) % whole
    mixed = (counter ^ (counter >> np.uint64(15))) * (counter | np.uint64(1)) % whole
    hashed = (mixed ^ (mixed >> np.uint64(7))) * (mixed | np.uint64(61)) % whole
    mixed ^= (mixed + hashed) % whole
    uniform = (mixed ^ (mixed >> np.uint64(14))) / whole
    radius, angle = np.sqrt(-2 * np.log(1 - uniform[::2])), 2 * np.pi * uniform[1::2]
    drawn = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(drawn.flatten()[:count])


def _refusal() -> str:
    """Return what PyTorch says to a batch of one in training mode."""
    try:
        torch.nn.BatchNorm1d(len(SAMPLE))(torch.zeros(1, len(SAMPLE)))
    except ValueError as refusal:
        return f"ValueError: {refusal}"
    return ""
