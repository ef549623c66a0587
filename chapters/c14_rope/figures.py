"""Two vectors that move on together, how far a sum of rotations can reach, and what the pairs of a
trained model are for."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from numpy.typing import ArrayLike

from course_utils.plots.style import INK, PALETTE, RULE, as_series, line_style, new_figure

__all__ = ["attenuation", "by_pair", "moved_together"]

_START = {"query": 0.9, "key": 0.4}  # radians at position 0: the content
_BINS_A_DECADE = 9
_FARTHEST = 200  # of the scores' axis


def moved_together(step: float, query: int, key: int, by: int) -> Figure:
    """Draw a query and a key of one pair as hands: where they stand, and both ``by`` further on.

    Args:
        step: radians a position.
        query, key: their positions before they move.
        by: how many positions both move.
    """
    figure, clocks = new_figure(height=4.2, ncols=2)
    for axes, places in zip(clocks, ((query, key), (query + by, key + by)), strict=True):
        for at, turned in zip((query, key), _START.values(), strict=True):
            x, y = np.cos(turned + at * step), np.sin(turned + at * step)
            axes.plot([0, x], [0, y], color=RULE, linestyle="-")  # where it stood
        _draw_hands(axes, dict(zip(_START, places, strict=True)), step)
    clocks[0].set_title("a query and an earlier key")
    clocks[1].set_title(f"both {by} positions further on")
    return figure


def _draw_hands(axes: Axes, places: Mapping[str, int], step: float) -> None:
    axes.add_patch(Arc((0, 0), 2, 2, color=RULE, linewidth=1.5))
    angles = {name: _START[name] + at * step for name, at in places.items()}
    for series, (name, angle) in enumerate(angles.items()):
        x, y = np.cos(angle), np.sin(angle)
        look = line_style(series)
        axes.plot([0, x], [0, y], marker="o", markevery=[1], **{**look, "linewidth": 2.6})
        axes.annotate(
            f"{name}\nat {places[name]}",
            (1.36 * x, 1.25 * y),
            ha="center",
            va="center",
            color=look["color"],
            weight="bold",
        )
    between = (angles["query"] - angles["key"] + np.pi) % (2 * np.pi) - np.pi
    start, end = sorted((angles["key"], angles["key"] + between))
    axes.add_patch(
        Arc((0, 0), 0.7, 0.7, theta1=np.degrees(start), theta2=np.degrees(end), color=INK, lw=2)
    )
    middle = (start + end) / 2
    axes.text(
        0.6 * np.cos(middle),
        0.6 * np.sin(middle),
        f"{abs(np.degrees(between)):.0f}°",
        ha="center",
        va="center",
    )
    axes.set(xlim=(-1.65, 1.65), ylim=(-1.5, 1.5), aspect="equal")
    axes.axis("off")


def attenuation(
    bound: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike], peaks: Mapping[str, int]
) -> Figure:
    """Draw the mean of |S_p| by distance, and below it scores as shares of |q||k|.

    The bound's axis of distances is logarithmic: a line is the mean over a ninth of a decade, the
    band around it reaches from the lowest to the highest value there. The scores' axis is linear
    and ends at 200, so that the same curve at another distance looks the same.

    Args:
        bound: what each bound is called, and its value at distances 0, 1, 2, ...
        scores: what each score is called, and its value at distances 0, 1, 2, ...
        peaks: by its name, the distance at which a score reaches 1: a dot, with the distance beside
            it.

    Raises:
        ValueError: the bounds differ in length.
    """
    figure, (upper, lower) = new_figure(height=7.4, nrows=2)
    _draw_bands(upper, bound)
    upper.set(ylabel="mean of |S|", title="the bound", ylim=(0, None), xscale="log")
    upper.xaxis.set_major_formatter("{x:,g}")
    colours = {}
    for number, (name, values) in enumerate(scores.items()):
        colours[name] = PALETTE[2 + number]
        look = {**line_style(number), "color": colours[name]}
        lower.plot(np.asarray(values)[: _FARTHEST + 1], label=name, **look)
    for name, at in peaks.items():
        lower.plot(at, 1, marker="o", color=colours[name], markersize=8)
        lower.annotate(f"1 at {at:,}", (at, 1), (8, -3), textcoords="offset points", fontsize=10.5)
    lower.axhline(0, color=INK, linewidth=0.8, linestyle="-")
    lower.set(ylabel="score / (|q||k|)", title="scores", xlim=(0, _FARTHEST), ylim=(-0.25, 1.2))
    for axes in (upper, lower):
        axes.set_xlabel("distance (positions)")
        axes.legend(loc="upper right", fontsize=9.5)
    return figure


def _draw_bands(axes: Axes, curves: Mapping[str, ArrayLike]) -> None:
    length = len(np.asarray(next(iter(curves.values()))))
    distances = np.arange(1, length)
    bins = np.floor(np.log10(distances) * _BINS_A_DECADE)
    parts = [bins == each for each in np.unique(bins)]
    middles = [np.exp(np.log(distances[part]).mean()) for part in parts]
    for number, (name, values) in enumerate(curves.items()):
        values = as_series(name, values, length)[1:]
        mean, low, high = (
            [over(values[part]) for part in parts] for over in (np.mean, np.min, np.max)
        )
        look = {**line_style(number), "color": PALETTE[number]}
        axes.fill_between(middles, low, high, color=look["color"], alpha=0.2, linewidth=0)
        axes.plot(middles, mean, label=name, **look)


def by_pair(
    share: Sequence[float],
    content: Sequence[float],
    gain: Sequence[float],
    turns: Mapping[str, float],
    named: Iterable[int],
) -> Figure:
    """Draw what lies in each pair, and below it what each pair adds to a score.

    Args:
        share: of |q||k|, by pair, fast to slow.
        content: of what differs from key to key, as long.
        gain: of the score of a key one place back, as long.
        turns: the pair, a fraction between two, that just finishes a turn in a length, by its name.
        named: the pairs of which the gain is written.
    """
    figure, (upper, lower) = new_figure(height=6.2, nrows=2, sharex=True)
    pairs = np.arange(len(share))
    upper.bar(pairs, share, color=PALETTE[0])
    upper.plot(pairs, content, "o", color=INK)
    upper.set(title="length in each pair: mean of 270 heads", ylabel="share")
    upper.text(25, 0.165, "of |q||k|", color=PALETTE[0])
    upper.text(25.2, 0.075, "of what\ndiffers\nfrom key\nto key", color=INK)
    for name, at in turns.items():
        upper.axvline(at, color=INK, linestyle=":", linewidth=1.5)
        upper.text(
            at - 0.3, 0.95, name, ha="right", va="top", transform=upper.get_xaxis_transform()
        )
    lower.bar(pairs, gain, color=PALETTE[1])
    lower.axhline(0, color=INK, linewidth=0.8, linestyle="-")
    for pair in named:
        lower.text(
            pair + 0.6, gain[pair], f"pair {pair}: {gain[pair]:+.1f}", va="top", weight="bold"
        )
    lower.set(title="what finds the token before, in one head", xlabel="pair, fast to slow")
    lower.set_ylabel("score one back,\nover none back")
    return figure
