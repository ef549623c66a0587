"""How far a sum of rotations can reach, by distance."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_utils.plots.style import as_series, line_style, new_figure

__all__ = ["attenuation"]


def attenuation(bound: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike]) -> Figure:
    """Draw the mean of |S_p| by distance in one panel, and scores as shares of |q||k| in the other.

    Args:
        bound: what each bound is called, and its value at distances 0, 1, 2, ...
        scores: what each score is called, and its value at distances 0, 1, 2, ...

    Raises:
        ValueError: curves of one panel differ in length.
    """
    figure, (left, right) = new_figure(height=3.9, ncols=2)
    _draw_lines(left, bound, first_colour=0)
    _draw_lines(right, scores, first_colour=2)
    left.set(xlabel="distance (positions)", ylabel="mean of |S|", title="the bound", ylim=(0, None))
    right.set(
        xlabel="distance (positions)", ylabel="score / (|q||k|)", title="scores", ylim=(-1.05, 1.05)
    )
    return figure


def _draw_lines(axes: Axes, curves: Mapping[str, ArrayLike], first_colour: int) -> None:
    length = len(np.asarray(next(iter(curves.values()))))
    for number, (name, values) in enumerate(curves.items()):
        look = {**line_style(number), "color": line_style(first_colour + number)["color"]}
        axes.plot(as_series(name, values, length), label=name, linewidth=1.4, **look)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.1), borderaxespad=0.2, fontsize=9.5)
    axes.title.set_visible(True)
