"""Rotary wavelengths against the trained window, and below them what each method makes of every pair."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.plots.style import INK, MUTED, PALETTE, PAPER, new_figure

__all__ = ["rope_scaling"]

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


def rope_scaling(data: Any) -> Figure:
    """Draw each pair's wavelength under every method against the trained window, and a strip of bands for each.

    Args:
        data: what ``widgets.rope_scaling_figure(state)`` returns.
    """
    rows = max(1, len(data.methods))
    figure, axes = new_figure(height=4.1 + 0.3 * rows, nrows=rows + 1, sharex=True, height_ratios=[9.5, *[0.75] * rows])
    _wavelengths(axes[0], data)
    present = [kind for kind in _KINDS if any(kind in method.kinds for method in data.methods)]
    for strip in axes[1:]:
        strip.axis("off")
    for strip, method in zip(axes[1:], data.methods, strict=False):
        _strip(strip, method)
    handles = [axes[0].bar(0, 0, color=PALETTE[_KINDS[kind][1]], alpha=_KINDS[kind][2]) for kind in present]
    if handles:
        labels = [_KINDS[kind][3] for kind in present]
        figure.legend(handles, labels, loc="outside lower center", ncols=len(present), fontsize=9.5)
    if data.problem:
        figure.suptitle(f"The pasted text cannot be used: {data.problem}", fontsize=9.5, wrap=True)
    return figure


def _wavelengths(axes: Axes, data: Any) -> None:
    axes.set_yscale("log")
    axes.axhspan(data.window, 1e12, color=PALETTE[4], alpha=0.12, linewidth=0)
    trained = [wavelength or np.nan for wavelength in data.trained]
    axes.plot(trained, color=MUTED, alpha=0.4, linewidth=7, linestyle="-", label="as trained")
    for method in data.methods:
        colour, dash = _LOOKS[method.name]
        line = np.asarray([wavelength or np.nan for wavelength in method.wavelengths])
        axes.plot(line, color=PALETTE[colour], linestyle=dash)
    card = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 1}
    note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9.5, "bbox": card}
    axes.axhline(data.window, color=INK, linewidth=1.2, linestyle="-")
    axes.annotate(f"trained window, {data.window:,}", (0, data.window), (2, -11), **note)
    if data.length > data.window:
        axes.axhline(data.length, color=INK, linewidth=1, linestyle=":")
        axes.annotate(f"asked for, {data.length:,}", (0, data.length), (2, 4), **note)
    longest = max(
        w for line in (data.trained, *(m.wavelengths for m in data.methods), [data.length]) for w in line if w
    )
    axes.set_ylim(3, 3 * longest)
    axes.set_xlim(-0.5, data.pairs - 0.5)
    axes.tick_params(labelbottom=True)
    axes.set(xlabel="pair of dimensions, fast to slow", ylabel="wavelength (positions a turn)")
    axes.legend(loc="lower right", fontsize=9.5)


def _strip(axes: Axes, method: Any) -> None:
    for kind, (height, colour, alpha, _) in _KINDS.items():
        at = [k for k, each in enumerate(method.kinds) if each == kind]
        axes.bar(at, height, width=0.85, color=PALETTE[colour], alpha=alpha)
    axes.set_ylim(0, 1)
    colour, dash = _LOOKS[method.name]  # beside the name stands the line of the figure above
    axes.plot(
        [-0.045, -0.01], [0.5, 0.5], color=PALETTE[colour], linestyle=dash, transform=axes.transAxes, clip_on=False
    )
    axes.text(-0.055, 0.5, method.label, transform=axes.transAxes, ha="right", va="center", fontsize=9.5)
