"""A row of steps and the rounds in which they are joined until each stands for all before it.
Chapter 12."""

from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["both_ways", "scan_rounds"]

METHODS = {"loop": "one after the other", "scan": "all at once", "sweeps": "in two sweeps"}
LENGTHS = list(range(2, 17))

# for each round the pairs that it joins: an earlier step, a later one
Rounds = list[list[tuple[int, int]]]


def rounds_of(method: str, length: int) -> Rounds:
    """Return which steps each round joins; in all the pairs of a round, what is read is from before
    the round.

    "scan" is Hillis and Steele's (1986); "sweeps" is Blelloch's (1990, §1.2) in the form that
    includes a step's own input, Brent and Kung's (1982): first up a tree, then down.
    """
    if method == "loop":
        return [[(t - 1, t)] for t in range(1, length)]
    offsets = [2**k for k in range((length - 1).bit_length())]
    if method == "scan":
        return [[(t - k, t) for t in range(k, length)] for k in offsets]
    up = [[(t - k, t) for t in range(2 * k - 1, length, 2 * k)] for k in offsets]
    down = [[(t - k, t) for t in range(3 * k - 1, length, 2 * k)] for k in reversed(offsets)]
    return [joined for joined in up + down if joined]


def scan_rounds(method: str = "scan", length: int = 8, done: int = 0) -> CourseWidget:
    """Return steps as circles, joined round by round, ready to display.

    Args:
        method: ``"loop"``, ``"scan"`` or ``"sweeps"``.
        length: how many steps, 2 to 16.
        done: how many rounds are over, at most those that there are.
    """
    chosen = one_of({"method": METHODS, "length": LENGTHS}, method=method, length=length, done=done)
    one_of({"done": range(len(rounds_of(method, length)) + 1)}, done=done)
    joins = {name: {str(n): rounds_of(name, n) for n in LENGTHS} for name in METHODS}
    return _ScanRounds(chosen, {"methods": METHODS, "lengths": LENGTHS, "joins": joins})


class _ScanRounds(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("scan_rounds.js"))

    @property
    def x(self) -> Tensor:
        """The numbers in the last row that is seen, float32 (length,): how many inputs each step
        stands for after the rounds that are done, in the end ``torch.ones(length).cumsum(0)``."""
        method, length, done = (self.state[name] for name in ("method", "length", "done"))
        counts = torch.ones(length)
        for joined in rounds_of(method, length)[:done]:
            before = counts.clone()
            for earlier, later in joined:
                counts[later] = before[later] + before[earlier]
        return counts

    def picture(self) -> tuple[Figure, str]:
        method, length, done = (self.state[name] for name in ("method", "length", "done"))
        rounds = rounds_of(method, length)
        figure, axes = new_figure(1.2 + 0.5 * len(rounds))
        complete = _draw(axes, rounds, length, done)
        return figure, (
            f"{length} steps joined {METHODS[method]}, after {done} of {len(rounds)} rounds: "
            f"{complete} of them stand for all steps up to their own. "
            f"{sum(map(len, rounds))} joins in all."
        )


def both_ways(length: int = 8) -> Figure:
    """Return all rounds of both scans, side by side."""
    figure, panels = new_figure(4.0, ncols=2)
    for axes, method in zip(panels, ("scan", "sweeps"), strict=True):
        rounds = rounds_of(method, length)
        _draw(axes, rounds, length, len(rounds))
        joins = sum(map(len, rounds))
        axes.set_title(f"{METHODS[method]}:\n{len(rounds)} rounds, {joins} joins")
    return figure


def _draw(axes: Axes, rounds: Rounds, length: int, done: int) -> int:
    """Draw the first ``done`` of ``rounds``; return how many steps stand for all up to their own
    then."""
    first = list(range(length))  # of the steps that each stands for
    line: dict[str, Any] = {"linestyle": "-", "zorder": 1}
    circle: dict[str, Any] = {"marker": "o", "markersize": 19, "markeredgecolor": INK, "zorder": 2}
    text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 11, "zorder": 3}
    for number, joined in enumerate([[], *rounds[:done]]):
        for earlier, later in joined:
            rows = [number - 1, number]
            axes.plot([earlier, later], rows, color=PALETTE[1], linewidth=1.6, **line)
        for later, reached in [(later, first[earlier]) for earlier, later in joined]:
            first[later] = reached
        for step in range(length):
            colour, ink = (PALETTE[0], PAPER) if first[step] == 0 else (PAPER, INK)
            if number:
                axes.plot([step] * 2, [number - 1, number], color=MUTED, linewidth=1, **line)
            axes.plot(step, number, color=colour, **circle)
            axes.text(step, number, str(step + 1 - first[step]), color=ink, **text)
    names = ["input", *(f"round {number}" for number in range(1, len(rounds) + 1))]
    axes.set_xticks(range(length), labels=[str(step + 1) for step in range(length)])
    axes.set_yticks(range(len(names)), labels=names)
    axes.set(xlabel="step", xlim=(-0.6, length - 0.4), ylim=(len(rounds) + 0.5, -0.5))
    axes.grid(visible=False)
    return sum(reached == 0 for reached in first)
