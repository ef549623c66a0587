"""The two abilities of chapter 16 against length or steps, with the lines that they are measured
by."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chapters.c16_longer_context.tags import TASK
from course_utils import plots
from course_utils.plots.style import DASHES, INK, PALETTE, new_figure

__all__ = ["both_abilities", "ruler", "where_to_begin"]

_NEAR, _FAR = "near order: nats above\nthe oracle (shaded: linear)", "far memory: recall"


def both_abilities(
    rows: Iterable[Mapping[str, Any]], by: str, title: str, x: str = "multiple"
) -> Figure:
    """Draw the fields "above" and "recall" side by side against ``x``, a line for each value of
    ``by``, beside what a guesser has."""
    panels = [
        {**row, "ability": ability, "value": row[field]}
        for row in rows
        for field, ability in (("above", _NEAR), ("recall", _FAR))
    ]
    figure = plots.spread_curves(
        panels,
        x,
        "value",
        by,
        xlabel={"steps": "steps at 8 windows"}.get(x, "length, in windows of 128 tokens"),
        panels="ability",
        share_y=False,
        title=title,
        log_x=True,
        log_y=True,  # the band then spans the seeds; a mean less a deviation may lie below 0
        height=3.9,
    )
    near, far = figure.axes
    far.set_yscale("linear")
    near.set_yscale("symlog", linthresh=0.1)
    near.set_yticks([0, 0.05, 0.1, 0.3, 1, 3], labels=["0", "0.05", "0.1", "0.3", "1", "3"])
    near.minorticks_off()
    near.set_ylim(-0.02, 4.5)
    rule(near, 0, "")
    near.axhspan(-0.02, 0.1, color=INK, alpha=0.07, linewidth=0)  # where the axis is linear
    guesser, side = math.log(TASK.fillers) - TASK.local_optimum, "right" if x == "steps" else "left"
    rule(near, guesser, "a guesser", side)  # on the side where PI's line does not run
    rule(far, 1 / TASK.values, "a guesser")
    far.set_ylim(0, 1.05)
    return figure


def rule(axes: Axes, height: float, name: str, side: str = "left") -> None:
    """Draw a dotted rule with its name at one end."""
    axes.axhline(height, color=INK, linewidth=1, linestyle=":")
    axes.annotate(
        name, (0.02 if side == "left" else 0.98, height), (0, 3), ha=side,
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=9,
    )  # fmt: skip


def ruler(shares: Mapping[float, Sequence[Sequence[float]]]) -> Figure:
    """Draw how often a guess follows from the token so many places back: for each factor of PI the
    mean of its seeds, (seeds, places)."""
    figure, axes = new_figure()
    for dash, (factor, seeds) in zip(DASHES, shares.items(), strict=False):
        mean = np.mean(seeds, 0)
        place = 1 + int(mean.argmax())
        axes.plot(range(1, 1 + len(mean)), mean, color=PALETTE[0], linestyle=dash)
        side = "left" if place > 3 else "right"
        axes.annotate(
            f"PI by {factor:g}", (place, mean.max()), (5, 4), textcoords="offset points", ha=side
        )
    axes.set(xlim=(-1, 25), ylim=(0, 1), xlabel="places before the token to come")
    axes.set(ylabel="share of guesses that follow from it")
    axes.set_title("The ruler is stretched, three seeds")
    return figure


def where_to_begin(rows: Iterable[Mapping[str, Any]], theory: int) -> Figure:
    """Draw the field "nats" against the first pair that is stretched, and where theory begins."""
    figure = plots.spread_curves(
        rows,
        "pair",
        "nats",
        "of",
        xlabel="first pair that is stretched by 8",
        ylabel="fillers and answers (nats)",
        title="Where to begin stretching, three seeds (dotted: theory)",
        height=3.4,
    )
    (axes,) = figure.axes
    axes.axvline(theory, color=INK, linewidth=1, linestyle=":")
    return figure
