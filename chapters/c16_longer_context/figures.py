"""The two abilities of chapter 16 against length or steps, with the lines that they are measured
by."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from chapters.c16_longer_context.tags import TASK
from course_utils import plots
from course_utils.plots.curves import name_lines
from course_utils.plots.style import (
    DASHES,
    INK,
    PALETTE,
    line_style,
    marker_style,
    new_figure,
    series_of,
)

__all__ = [
    "both_abilities",
    "least_remembered",
    "rule",
    "ruler",
    "share_remembered",
    "where_to_begin",
]

_ABILITIES = {"above": "near order: nats above\nthe oracle", "recall": "far memory: recall"}
_METHODS = ("none", "PI", "NTK", "YaRN", "by parts", "YaRN to 3 turns")  # of SmolLM2
# neither is a way of scaling; with a window it is a sliding window's colour
_OWN = {"hybrid": (3, "#7A5C3E"), "hybrid, window": (0, "#6A3D9A"), "RoPE, window": (4, PALETTE[4])}


def both_abilities(
    rows: Iterable[Mapping[str, Any]], by: str, title: str, x: str = "multiple"
) -> Figure:
    """Draw the fields "above" and "recall" side by side against ``x``, beside what a guesser has:
    for each value of ``by`` a thin line for each seed, and their mean."""
    runs: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    rows = list(rows)
    for row in sorted(rows, key=lambda row: row[x]):
        runs.setdefault(row[by], {}).setdefault(row["seed"], []).append(row)
    order = list(dict.fromkeys(row[by] for row in rows))
    figure, (near, far) = new_figure(height=3.9, ncols=2)
    for name, free in zip(order, series_of(order), strict=True):
        series, color = _OWN.get(name, (free, line_style(free)["color"]))
        places = [row[x] for row in next(iter(runs[name].values()))]
        steps = range(len(places))  # each twice the one before: as far apart
        for axes, field in zip((near, far), _ABILITIES, strict=True):
            seeds = [[row[field] for row in own] for own in runs[name].values()]
            style = {**line_style(series), "color": color}
            thin = {"color": style["color"], "linestyle": "-", "linewidth": 0.8, "alpha": 0.6}
            for seed in seeds:
                axes.plot(steps, seed, **thin, antialiased=False)  # which keeps the picture small
            mean = np.mean(seeds, 0)
            size = 9 if name == "hybrid, window" else 5  # which another line hides
            axes.plot(steps, mean, **style, **marker_style(series), markersize=size, label=name)
            axes.set_xticks(steps, labels=[str(place) for place in places])
    for axes, label in zip((near, far), _ABILITIES.values(), strict=True):
        axes.set(
            xlabel="steps at 8 windows" if x == "steps" else "length, in windows of 128 tokens",
            ylabel=label,
        )
    guesser = math.log(TASK.fillers) - TASK.local_optimum
    end = (0.98, 3, "right") if x == "steps" else (0.5, -12, "center")  # where no line runs
    rule(near, guesser, "a guesser", *end)
    rule(far, 1 / TASK.values, "a guesser")
    near.set_ylim(-0.1, 3.2)
    far.set_ylim(0, 1.05)
    figure.suptitle(title, x=0.02, ha="left", weight="bold", fontsize=12)
    name_lines(figure, (near, far), min(4, len(order)))
    return figure


def rule(
    axes: Axes, height: float, name: str, at: float = 0.02, above: float = 3, ha: str = "left"
) -> None:
    """Draw a dotted rule with its name, so many points above it."""
    axes.axhline(height, color=INK, linewidth=1, linestyle=":")
    axes.annotate(
        name, (at, height), (0, above), ha=ha,
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=9,
    )  # fmt: skip


def ruler(shares: Mapping[float, Sequence[Sequence[float]]]) -> Figure:
    """Draw how often a guess follows from the token so many places back: for each factor of PI the
    mean of its seeds, (seeds, places)."""
    figure, axes = new_figure()
    colors = (INK, "#3A8AC2", PALETTE[0], "#003F66")  # no scaling is black, PI blue
    for color, dash, (factor, seeds) in zip(colors, DASHES, shares.items(), strict=False):
        mean = np.mean(seeds, 0)
        peak = int(mean.argmax())
        place = 1 + peak
        places = np.arange(1, 1 + len(mean))
        axes.plot(places, mean, color=color, linestyle="-", linewidth=0.8, alpha=0.5)
        rise = slice(max(0, peak - math.ceil(factor / 2)), peak + math.ceil(factor / 2) + 1)
        axes.plot(places[rise], mean[rise], color=color, linestyle=dash, linewidth=2.2)
        side = "left" if place > 3 else "right"
        axes.annotate(
            f"PI by {factor:g}\n{place} back", (place, mean.max()), (5, 3),
            textcoords="offset points", ha=side,
        )  # fmt: skip
    axes.set(xlim=(-1, 25), ylim=(0, 1.1), xlabel="places before the token to come")
    axes.set(ylabel="share of guesses that follow from it")
    axes.set_title("The ruler is stretched, mean of three seeds")
    return figure


def _looks() -> dict[str, dict[str, Any]]:
    """Return the line of each method of SmolLM2."""
    order = ("none", "PI", "NTK", "YaRN", "by parts alone", "p-RoPE")  # as the toy's figure
    return {m: line_style(at) for m, at in zip(_METHODS, series_of(order), strict=True)}


def share_remembered(
    shares: Mapping[str, tuple[Any, Any]],
    added: Mapping[str, Any],
    enough: float,
    promised: int,
) -> Figure:
    """Draw what is saved of a passage over each gap: for each method its gaps and its shares
    (passages, gaps), a thin line for each passage and a thick one for the least of them, beside
    what is enough and the window that is promised; below, what the same jumps add to new text, a
    thin line for each passage and the mean."""
    looks = _looks()
    figure, (axes, below) = new_figure(height=4.6, nrows=2, sharex=True, height_ratios=(2, 1))
    top = 0.6
    for method, (gaps, each) in shares.items():
        style, more = looks[method], np.array(added[method])
        thin = {"color": style["color"], "linestyle": "-", "linewidth": 0.6, "alpha": 0.6}
        axes.plot(gaps, each.T, **thin, antialiased=False)  # which keeps the picture small
        axes.plot(gaps, each.min(0).values, **style, label=method)
        below.plot(gaps, more.T, **thin, antialiased=False)
        below.plot(gaps, more.mean(0), **style)
        top = max(top, more.max())
    rule(axes, enough, "enough", 0.95, 3, "right")
    axes.axvline(promised, color=INK, linewidth=1)
    axes.annotate(
        f"×{promised // 8192} promises {promised:,}", (promised, 1), (-4, 0), ha="right", va="top",
        textcoords="offset points", fontsize=9,
    )  # fmt: skip
    axes.set(xlim=(0, 1.03 * promised), ylim=(-0.35, 1.05))
    axes.set_ylabel("share remembered\n(thick: the least)")
    below.set(ylim=(-0.1 * top, 1.05 * top), xlabel="positions that are jumped over")
    below.set_ylabel("new text: nats\nmore (thick:\nthe mean)")
    below.xaxis.set_major_formatter("{x:,.0f}")
    if shares:
        figure.legend(loc="outside lower center", ncols=3)
    return figure


def least_remembered(widget: Any, methods: Iterable[str]) -> Figure:
    """Draw what the widget has recorded by its factor: the least share of the passages against the
    jump, for no scaling against as many times the jump."""
    looks = _looks()
    figure, axes = new_figure(height=3.0)
    factor = widget.state["factor"]
    for method in methods:
        times, name = (factor, f"none, {factor} × its jump") if method == "none" else (1, method)
        gaps, least = times * widget.gaps[method] / 1000, widget.x[method].min(0).values
        axes.plot(gaps, least, **looks[method], label=name)
    rule(axes, 0.5, "half", 0.98, 3, "right")
    axes.set(xlim=(-1, 33), ylim=(-0.15, 1), xlabel="jump (thousands)", ylabel="least share")
    figure.legend(loc="outside lower center", ncols=4)
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
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.axvline(theory, color=INK, linewidth=1, linestyle=":")
    return figure
