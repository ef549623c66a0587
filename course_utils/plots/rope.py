"""Positions drawn: the sinusoidal code (chapter 11), RoFormer's bound (12), wavelengths under scaling (13)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from course_utils.plots.style import DASHES, INK, MARKERS, MUTED, PALETTE, PAPER, as_series, new_figure

__all__ = ["attenuation", "rope_scaling", "sinusoid"]


def sinusoid(code: ArrayLike, pairs: tuple[int, int]) -> Figure:
    """Draw a sinusoidal code as a heat map, and two of its pairs as clocks with the hands of positions 1 and 4.

    Args:
        code: (T, dim), sine in the even columns.
        pairs: which pairs of columns get a clock.

    Raises:
        ValueError: the code has not two dimensions, or an odd number of columns.
    """
    values = np.asarray(code, dtype=float)
    if values.ndim != 2 or values.shape[1] % 2:
        raise ValueError(f"code must be (T, dim) with an even dim: got shape {values.shape}")
    figure, (heat, *clocks) = new_figure(height=3.6, ncols=3, width_ratios=[1.7, 1, 1])
    image = heat.imshow(values.T, cmap="cividis", aspect="auto", vmin=-1, vmax=1, interpolation="nearest")
    heat.grid(visible=False)
    heat.set(xlabel="position", ylabel="column", title="the code")
    figure.colorbar(image, ax=heat, location="bottom", label="value", aspect=30, ticks=[-1, 0, 1])
    for axes, pair in zip(clocks, pairs, strict=True):
        _clock(axes, values[:, 2 * pair : 2 * pair + 2])
        axes.set_title(f"columns {2 * pair}, {2 * pair + 1}")
    return figure


def _clock(axes: Axes, pair: NDArray) -> None:
    """Draw (cos, sin) of every position on the circle, and the hands of two of them."""
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angle), np.sin(angle), color=MUTED, linewidth=1, linestyle="-")
    axes.plot(pair[:, 1], pair[:, 0], ".", color=MUTED, markersize=4)
    for series, position in enumerate((1, 4)):
        sine, cosine = pair[position]
        look = {"color": PALETTE[series], "linestyle": DASHES[series], "marker": MARKERS[series]}
        axes.plot([0, cosine], [0, sine], markevery=[1], label=f"position {position}", **look)
    axes.set(aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xlabel="cosine", ylabel="sine")
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), fontsize=9)


def attenuation(bound: Mapping[str, ArrayLike], scores: Mapping[str, ArrayLike]) -> Figure:
    """Draw the mean of |S_j| by distance in one panel, and scores as shares of |q||k| in the other.

    Args:
        bound: what each bound is called, and its value at distances 0, 1, 2, ...
        scores: what each score is called, and its value at distances 0, 1, 2, ...

    Raises:
        ValueError: curves of one panel differ in length.
    """
    figure, (left, right) = new_figure(height=3.9, ncols=2)
    _draw_lines(left, bound, first_colour=0)
    _draw_lines(right, scores, first_colour=2)
    left.set(xlabel="distance (positions)", ylabel="mean of |Sⱼ|", title="the bound", ylim=(0, None))
    right.set(xlabel="distance (positions)", ylabel="score / (|q||k|)", title="scores", ylim=(-1.05, 1.05))
    return figure


def _draw_lines(axes: Axes, curves: Mapping[str, ArrayLike], first_colour: int) -> None:
    length = len(np.asarray(next(iter(curves.values()))))
    for number, (name, values) in enumerate(curves.items()):
        look = {"color": PALETTE[(first_colour + number) % len(PALETTE)], "linestyle": DASHES[number % len(DASHES)]}
        axes.plot(as_series(name, values, length), label=name, linewidth=1.4, **look)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.1), borderaxespad=0.2, fontsize=9.5)
    axes.title.set_visible(True)


# A colour for each method, dashed where it is the other form of one: as in the widget.
_LOOKS: dict[str, tuple[int, Any]] = {
    "linear": (0, "-"),
    "abf": (4, "-"),
    "ntk": (1, "-"),
    "dynamic": (1, "--"),
    "yarn": (2, "-"),
    "yarn_paper": (2, "--"),
    "llama3": (3, "-"),
    "proportional": (5, ":"),
    "config": (6, "-"),
}
# What becomes of a pair: how high its bar stands, its colour, and how it is told.
_KINDS: dict[str, tuple[float, int, float, str]] = {
    "kept": (1.0, 0, 0.75, "kept"),
    "blended": (0.62, 0, 0.35, "slowed by less than the factor"),
    "stretched": (0.3, 1, 0.75, "by the factor or more"),
    "still": (0.08, 6, 0.5, "at rest"),
    "faster": (1.0, 3, 0.9, "faster"),
}


def rope_scaling(data: Mapping[str, Any]) -> Figure:
    """Draw each pair's wavelength under every method against the trained window, and a strip of bands for each.

    Args:
        data: the ``answer`` of ``widgets.rope_scaling(…)``.
    """
    rows = max(1, len(data["methods"]))
    figure, axes = new_figure(height=4.1 + 0.3 * rows, nrows=rows + 1, sharex=True, height_ratios=[9.5, *[0.75] * rows])
    _wavelengths(axes[0], data)
    present = [kind for kind in _KINDS if any(kind in method["kinds"] for method in data["methods"])]
    for strip in axes[1:]:
        strip.axis("off")
    for strip, method in zip(axes[1:], data["methods"], strict=False):
        _strip(strip, method)
    handles = [axes[0].bar(0, 0, color=PALETTE[_KINDS[kind][1]], alpha=_KINDS[kind][2]) for kind in present]
    if handles:
        labels = [_KINDS[kind][3] for kind in present]
        figure.legend(handles, labels, loc="outside lower center", ncols=len(present), fontsize=9.5)
    if data["problem"]:
        figure.suptitle(f"The pasted text cannot be used: {data['problem']}", fontsize=9.5, wrap=True)
    return figure


def _wavelengths(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_yscale("log")
    axes.axhspan(data["window"], 1e12, color=PALETTE[4], alpha=0.12, linewidth=0)
    trained = [wavelength or np.nan for wavelength in data["trained"]]
    axes.plot(trained, color=MUTED, alpha=0.4, linewidth=7, linestyle="-", label="as trained")
    for method in data["methods"]:
        colour, dash = _LOOKS[method["name"]]
        line = np.asarray([wavelength or np.nan for wavelength in method["wavelengths"]])
        axes.plot(line, color=PALETTE[colour], linestyle=dash)
    card = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 1}
    note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9.5, "bbox": card}
    axes.axhline(data["window"], color=INK, linewidth=1.2, linestyle="-")
    axes.annotate(f"trained window, {data['window']:,}", (0, data["window"]), (2, -11), **note)
    if data["length"] > data["window"]:
        axes.axhline(data["length"], color=INK, linewidth=1, linestyle=":")
        axes.annotate(f"asked for, {data['length']:,}", (0, data["length"]), (2, 4), **note)
    lines = [data["trained"], *(method["wavelengths"] for method in data["methods"]), [data["length"]]]
    longest = max(wavelength for line in lines for wavelength in line if wavelength)
    axes.set_ylim(3, 3 * longest)
    axes.set_xlim(-0.5, data["pairs"] - 0.5)
    axes.tick_params(labelbottom=True)
    axes.set(xlabel="pair of dimensions, fast to slow", ylabel="wavelength (positions a turn)")
    axes.legend(loc="lower right", fontsize=9.5)


def _strip(axes: Axes, method: Mapping[str, Any]) -> None:
    for kind, (height, colour, alpha, _) in _KINDS.items():
        at = [k for k, each in enumerate(method["kinds"]) if each == kind]
        axes.bar(at, height, width=0.85, color=PALETTE[colour], alpha=alpha)
    axes.set_ylim(0, 1)
    colour, dash = _LOOKS[method["name"]]  # beside the name stands the line of the figure above
    axes.plot(
        [-0.045, -0.01], [0.5, 0.5], color=PALETTE[colour], linestyle=dash, transform=axes.transAxes, clip_on=False
    )
    axes.text(-0.055, 0.5, method["label"], transform=axes.transAxes, ha="right", va="center", fontsize=9.5)
