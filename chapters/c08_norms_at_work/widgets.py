"""How often chance looks like a finding: two arms with few seeds, judged by eye and by a standard
error. Chapter 08."""

import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.experiments import Difference
from course_utils.plots.style import MUTED, PALETTE, line_style, marker_style, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of
from course_utils.widgets.batches import normals

__all__ = ["chance_by_eye"]

COMPARISONS = 500  # simulated for each number of seeds
MOST = 30  # seeds
RULES = {
    "eye": "by eye: one spread apart",
    "overlap": "by eye: no overlap of the runs",
    "unpaired": "standard errors, unpaired",
    "paired": "standard errors, paired by seed",
}
NAMES = {  # in the legend of the first picture
    "eye": "one spread",
    "overlap": "no overlap",
    "unpaired": "unpaired",
    "paired": "paired",
}
STOPS: dict[str, list[float]] = {
    "seeds": [2, 3, 4, 5, 7, 10, 15, 20, 30],
    "difference": [0, 0.25, 0.5, 1, 2],
    "shared": [-0.5, 0, 0.5, 0.9],
}
LIMITS = {"seed": (0, 30)}


def chance_by_eye(seeds: int = 3, difference: float = 0, *, shared: float = 0) -> CourseWidget:
    """Return comparisons of two arms, and how often each rule calls one a finding, ready to
    display.

    Args:
        seeds: runs of each arm: 2, 3, 4, 5, 7, 10, 15, 20 or 30.
        difference: how far the second arm truly is above the first, in standard deviations of a
            run: 0, 0.25, 0.5, 1 or 2.
        shared: the part of a run's variance that its seed decides, for both arms alike: 0, 0.5 or
            0.9; or -0.5, where what lifts one arm lowers the other. It is the two arms'
            correlation.
    """
    chosen = one_of(STOPS, seeds=seeds, difference=difference, shared=shared)
    needed = {str(n): t_needed(n) for n in (*STOPS["seeds"], *(2 * n - 1 for n in STOPS["seeds"]))}
    data = {"rules": RULES, "stops": STOPS, "limits": LIMITS, "needed": needed}
    return _ChanceByEye({**chosen, "seed": 0}, {**data, "comparisons": COMPARISONS, "most": MOST})


def t_needed(n: float) -> float:
    """Return Student's t that the mean of n differences must exceed to be called decided."""
    return Difference(0.0, 1.0, (0.0,) * int(n)).t_needed


class _ChanceByEye(CourseWidget):
    _esm = browser_module("batch_draws", Path(__file__).with_name("chance_by_eye.js"))

    @property
    def x(self) -> Tensor:
        """The comparison that is seen on the left, first arm and second: (2, seeds), float64."""
        return self._runs()[:, 0, : self.state["seeds"]]

    def _runs(self) -> Tensor:
        """Return (2, comparisons, most): the runs of both arms."""
        shared, seed = self.state["shared"], self.state["seed"]
        drawn = normals(1000 * seed + 8, 3 * COMPARISONS * MOST).view(3, COMPARISONS, MOST)
        common = math.sqrt(abs(shared)) * drawn[0]
        both = torch.stack([common, math.copysign(1, shared) * common])
        arms = both + math.sqrt(1 - abs(shared)) * drawn[1:]
        return arms + torch.tensor([0.0, self.state["difference"]]).double().view(2, 1, 1)

    def shares(self) -> dict[str, list[float]]:
        """Return the share of the comparisons that each rule calls a finding, for each number of
        seeds."""
        runs = self._runs()
        found: dict[str, list[float]] = {rule: [] for rule in RULES}
        for n in map(int, STOPS["seeds"]):
            one, other = runs[..., :n]
            difference = (other - one).mean(1).abs()
            spread = ((one.var(1) + other.var(1)) / 2).sqrt()
            limits = {
                "eye": spread,
                "unpaired": t_needed(2 * n - 1) * spread * math.sqrt(2 / n),
                "paired": t_needed(n) * (other - one).std(1) / math.sqrt(n),
            }
            called = {rule: difference > limit for rule, limit in limits.items()}
            called["overlap"] = (one.amin(1) > other.amax(1)) | (other.amin(1) > one.amax(1))
            for rule in RULES:
                found[rule].append(called[rule].double().mean().item())
        return found

    def picture(self) -> tuple[Figure, str]:
        seeds, difference, shared = (self.state[k] for k in ("seeds", "difference", "shared"))
        figure, (strip, curves) = new_figure(3.8, ncols=2, width_ratios=[2, 3])
        strip.plot([0, 1], self.x.numpy(), color=MUTED, linewidth=0.8, linestyle="-")  # by seed
        for arm, values in enumerate(self.x.numpy()):
            name, look = ("arm A", "arm B")[arm], {"color": PALETTE[arm]}
            place = np.full(len(values), arm)
            strip.plot(place, values, linestyle="", **marker_style(arm), **look)
            strip.plot([arm - 0.25, arm + 0.25], [values.mean()] * 2, linestyle="-", **look)
            strip.text(arm, 3.4, name, ha="center", **look)
        strip.set(xlim=(-0.6, 1.6), ylim=(-3.9, 4.9), xticks=[], title="one comparison")
        strip.set_ylabel("runs, in standard deviations")
        shares = self.shares()
        for series, rule in enumerate(RULES):
            look = line_style(series) | marker_style(series)
            curves.plot(STOPS["seeds"], shares[rule], label=NAMES[rule], **look)
        curves.axvline(seeds, color=PALETTE[6], linestyle=":", linewidth=1)
        curves.set(xscale="log", ylim=(-0.02, 1.02), xlabel="seeds of each arm")
        kind = "true" if difference else "false"
        curves.set(title=f"share of {kind} findings")
        curves.set_xticks([2, 3, 5, 10, 20, 30], labels=["2", "3", "5", "10", "20", "30"])
        curves.minorticks_off()
        figure.legend(*curves.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        at = STOPS["seeds"].index(seeds)
        said = ", ".join(f"{name} {shares[rule][at]:.0%}" for rule, name in RULES.items())
        return figure, (
            f"Two arms with {seeds} seeds each, truly {difference:g} standard deviations apart, "
            f"with {shared:.0%} of a run's variance shared by the seed: of {COMPARISONS} such "
            f"comparisons each rule calls a finding: {said}."
        )
