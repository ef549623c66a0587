"""How far a sum of rotations can reach, by distance."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_utils.plots.style import as_series, line_style, new_figure

__all__ = ["attenuation"]


def attenuation(bound: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike]) -> Figure:
    """Draw the mean of |S_p| by distance, and below it scores as shares of |q||k|.

    Args:
        bound: what each bound is called, and its value at distances 0, 1, 2, ...
        scores: what each score is called, and its value at distances 0, 1, 2, ...

    Raises:
        ValueError: curves of one panel differ in length.
    """
    figure, (upper, lower) = new_figure(height=7.4, nrows=2)
    _draw_lines(upper, bound, first_colour=0)
    upper.legend(loc="upper right", ncols=len(bound), fontsize=9.5, borderaxespad=0.2)
    upper.set(ylabel="mean of |S|", title="the bound", ylim=(0, None))
    _draw_lines(lower, scores, first_colour=2)
    lower.legend(loc="lower right", ncols=len(scores), fontsize=9.5, borderaxespad=0.2)
    lower.set(ylabel="score / (|q||k|)", title="scores", ylim=(-0.55, 1.05))
    lower.set(xlabel="distance (positions)")
    return figure


def _draw_lines(axes: Axes, curves: Mapping[str, ArrayLike], first_colour: int) -> None:
    length = len(np.asarray(next(iter(curves.values()))))
    for number, (name, values) in enumerate(curves.items()):
        look = {**line_style(number), "color": line_style(first_colour + number)["color"]}
        axes.plot(as_series(name, values, length), label=name, linewidth=1.4, **look)
