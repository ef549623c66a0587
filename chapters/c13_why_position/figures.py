"""The sinusoidal code, drawn."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import MARKERS, MUTED, line_style, new_figure

__all__ = ["sinusoid"]


def sinusoid(code: ArrayLike, pairs: tuple[int, int]) -> Figure:
    """Draw a sinusoidal code as a heat map, and two of its pairs as clocks with the hands of
    positions 1 and 4 and, paler, 21 and 24.

    Args:
        code: (T, dim), T at least 25, sine in the even columns.
        pairs: which pairs of columns get a clock.

    Raises:
        ValueError: the code has not two dimensions, or an odd number of columns.
    """
    values = np.asarray(code, dtype=float)
    if values.ndim != 2 or values.shape[1] % 2:
        raise ValueError(f"code must be (T, dim) with an even dim: got shape {values.shape}")
    figure, grid = new_figure(height=7.2, nrows=2, ncols=2, height_ratios=[1, 1.15])
    upper, clocks = grid[0, 0].get_gridspec(), grid[1]
    for axes in grid[0]:
        axes.remove()
    heat = figure.add_subplot(upper[0, :])
    image = heat.imshow(
        values.T, cmap="cividis", aspect="auto", vmin=-1, vmax=1, interpolation="nearest"
    )
    heat.grid(visible=False)
    heat.set(xlabel="position", ylabel="column", title="the code")
    figure.colorbar(image, ax=heat, label="value", ticks=[-1, 0, 1])
    for axes, pair in zip(clocks, pairs, strict=True):
        _clock(axes, values[:, 2 * pair : 2 * pair + 2])
        axes.set_title(f"columns {2 * pair}, {2 * pair + 1}")
    return figure


def _clock(axes: Axes, pair: NDArray) -> None:
    """Draw (cos, sin) of every position on the circle, and the hands of four of them."""
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angle), np.sin(angle), color=MUTED, linewidth=1, linestyle="-")
    axes.plot(pair[:, 1], pair[:, 0], ".", color=MUTED, markersize=4)
    for number, position in enumerate((1, 4, 21, 24)):
        sine, cosine = pair[position]
        later, series = divmod(number, 2)
        look = {**line_style(series), "marker": MARKERS[series], "alpha": 0.45 if later else 1}
        axes.plot([0, cosine], [0, sine], markevery=[1], label=f"position {position}", **look)
        at = (1.19 * cosine, 1.19 * sine)
        axes.text(*at, str(position), color=look["color"], weight="bold", ha="center", va="center")
    axes.set(aspect="equal", xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), xlabel="cosine", ylabel="sine")
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
