"""The axis explorer: which elements of a tensor share a mean, for five norms in two layouts.
Chapters 01 and 06.

Notation used for tensor shapes
    B   samples in the batch
    C   channels, or features
    H W rows and columns of an image
    T   positions of a sequence
    G   groups of channels
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import PALETTE, PAPER, new_figure
from course_utils.session import generator
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["axis_explorer"]

LAYOUTS = {"B,C,H,W": "BCHW", "B,T,C": "BTC"}
NORMS = {
    "batch": "batch norm",
    "layer": "layer norm",
    "instance": "instance norm",
    "group": "group norm",
    "rms": "RMS norm",
}
# all different: a shape's numbers name their axes
DEFAULT_SIZES = {
    "B": 3,
    "C": 6,
    "H": 4,
    "W": 2,
    "T": 5,
}
# the largest tensor still shows every cell, and all but the narrowest a number in it
SIZE_LIMITS = {
    "B": 4,
    "C": 32,
    "H": 4,
    "W": 4,
    "T": 6,
}
# of channels and of groups: 32 groups are the default of many models
CHANNELS = [*range(1, 9), 12, 16, 24, 32]


def _rule(
    along: str, line: str, weight: str | None, bias: str | None, buffers: str | None, note: str = ""
) -> dict:
    return {
        "along": along,
        "line": line,
        "weight": weight,
        "bias": bias,
        "buffers": buffers,
        "note": note,
    }


_TRANSPOSED = (
    "PyTorch wants the channels second, so the sequence is transposed and transposed back."
)
_ACROSS = f"{_TRANSPOSED} A group then spans its channels and every position."
_PLAIN = "By default it has no weight and bias, and no running buffers."
_BARE = f"{_TRANSPOSED} {_PLAIN}"

# For each norm and layout: along which axes an element's statistic differs from its neighbour's.
# One letter per axis:   e  each index has its own statistic      a  all indices share one      g
# the indices of one group share one The same data draws the picture in the browser and sizes every
# shape. Shapes of weight, bias and running buffers are written with axis letters, separated by
# spaces; None where PyTorch's default has no such tensor.
RULES: dict[str, dict[str, dict[str, Any]]] = {
    "batch": {
        "B,C,H,W": _rule("aeaa", "nn.BatchNorm2d({C})(x)", "C", "C", "C"),
        "B,T,C": _rule(
            "aae",
            "nn.BatchNorm1d({C})(x.transpose(1, 2)).transpose(1, 2)",
            "C",
            "C",
            "C",
            _TRANSPOSED,
        ),
    },
    "layer": {
        "B,C,H,W": _rule("eaaa", "nn.LayerNorm([{C}, {H}, {W}])(x)", "C H W", "C H W", None),
        "B,T,C": _rule("eea", "nn.LayerNorm({C})(x)", "C", "C", None),
    },
    "instance": {
        "B,C,H,W": _rule("eeaa", "nn.InstanceNorm2d({C})(x)", None, None, None, _PLAIN),
        "B,T,C": _rule(
            "eae",
            "nn.InstanceNorm1d({C})(x.transpose(1, 2)).transpose(1, 2)",
            None,
            None,
            None,
            _BARE,
        ),
    },
    "group": {
        "B,C,H,W": _rule("egaa", "nn.GroupNorm({G}, {C})(x)", "C", "C", None),
        "B,T,C": _rule(
            "eag",
            "nn.GroupNorm({G}, {C})(x.transpose(1, 2)).transpose(1, 2)",
            "C",
            "C",
            None,
            _ACROSS,
        ),
    },
    "rms": {
        "B,C,H,W": _rule("eaaa", "nn.RMSNorm([{C}, {H}, {W}])(x)", "C H W", None, None),
        "B,T,C": _rule("eea", "nn.RMSNorm({C})(x)", "C", None, None),
    },
}


def axis_explorer(
    norm: str = "batch", layout: str = "B,C,H,W", groups: int = 2, channels: int = 6
) -> CourseWidget:
    """Return the axis explorer, ready to display.

    Args:
        norm: ``"batch"``, ``"layer"``, ``"instance"``, ``"group"`` or ``"rms"``.
        layout: ``"B,C,H,W"`` or ``"B,T,C"``.
        groups: number of channel groups of group norm: 1 to 8, 12, 16, 24 or 32.
        channels: of the tensor, as ``groups``.
    """
    choices = {"norm": NORMS, "layout": LAYOUTS, "groups": CHANNELS}
    chosen = one_of(choices, norm=norm, layout=layout, groups=groups)
    one_of({"channels": CHANNELS}, channels=channels)
    example = (
        3 + 2 * torch.randn(prod(SIZE_LIMITS[axis] for axis in "BCHW"), generator=generator(0))
    ).tolist()
    data: dict[str, Any] = {"rules": RULES, "norms": NORMS, "layouts": LAYOUTS}
    data |= {"limits": SIZE_LIMITS, "channels": CHANNELS}
    # the first so many are the tensor that is normalized
    data["example"] = [round(value, 2) for value in example]
    return _AxisExplorer(
        {
            **chosen,
            "sizes": {**DEFAULT_SIZES, "C": channels},
            "picked": dict.fromkeys(DEFAULT_SIZES, 0),
        },
        data,
    )


class _AxisExplorer(CourseWidget):
    _esm = browser_module("axis_rule", "axis_explorer")

    @property
    def x(self) -> Tensor:
        """The tensor that is seen, of the shape that is shown, float32; the picked value is one of
        its."""
        shape = shape_of(self.state)
        return torch.tensor(self.data["example"][: prod(shape)]).view(shape)

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        shape, counts = shape_of(state), blocks(state)
        line = RULES[state["norm"]][state["layout"]]["line"].format(
            **state["sizes"], G=state["groups"]
        )
        statistics = "impossible: the groups do not divide the channels"
        if counts is not None:
            members = prod(shape) // prod(counts)
            statistics = (
                f"{prod(counts)}, each over {members} {'element' if members == 1 else 'elements'}"
            )
        words = f"x ({', '.join(LAYOUTS[state['layout']])}) = {shape}, {prod(shape)} elements"
        return _draw(state), (
            f"Axis explorer: {NORMS[state['norm']]} of {words}. Statistics: {statistics}. In "
            f"PyTorch: {line}."
        )


def shape_of(state: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the tensor's shape."""
    return tuple(state["sizes"][axis] for axis in LAYOUTS[state["layout"]])


def blocks(state: Mapping[str, Any]) -> list[int] | None:
    """Return into how many statistics each axis is split; None where the groups do not divide the
    channels."""
    shape, along = shape_of(state), RULES[state["norm"]][state["layout"]]["along"]
    counts = [
        {"e": size, "a": 1, "g": state["groups"]}[letter]
        for letter, size in zip(along, shape, strict=True)
    ]
    return None if any(size % count for size, count in zip(shape, counts, strict=True)) else counts


def _picked(state: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(state["picked"][axis] for axis in LAYOUTS[state["layout"]])


def _draw(state: Mapping[str, Any]) -> Figure:
    """Draw a panel for each sample, positions down and channels across, numbered by the statistic
    of each element."""
    shape, counts = shape_of(state), blocks(state)
    numbers = np.full(shape, -1)
    if counts is not None:
        numbers = np.zeros(shape, dtype=int)
        for index, size, count in zip(np.indices(shape), shape, counts, strict=True):
            numbers = numbers * count + index // (size // count)
    chosen = numbers[_picked(state)]
    if len(shape) == 4:
        numbers = numbers.reshape(*shape[:2], -1).swapaxes(1, 2)  # (B, H·W, C)
    figure, panels = new_figure(
        1.3 + 0.24 * numbers.shape[1], ncols=shape[0], squeeze=False, sharey=True
    )
    colours = ListedColormap([PAPER, *PALETTE[:6]])
    for sample, (axes, panel) in enumerate(zip(panels[0], numbers, strict=True)):
        axes.imshow(
            np.where(panel < 0, 0, 1 + panel % 6),
            colours,
            aspect="auto",
            alpha=0.35,
            vmin=0,
            vmax=6,
        )
        fits = shape[0] * panel.shape[1] <= 40  # else the numbers would run into one another
        for (row, column), number in np.ndenumerate(panel) if fits else ():
            weight = "bold" if number == chosen else "normal"
            axes.text(
                column,
                row,
                "–" if number < 0 else number,
                ha="center",
                va="center",
                fontsize=9,
                weight=weight,
            )
        axes.set(
            title=f"sample {sample}",
            xlabel="channel",
            xticks=range(0, panel.shape[1], 1 if fits else 8),
            yticks=range(len(panel)),
        )
        axes.grid(visible=False)
    panels[0][0].set_ylabel("position" if len(shape) == 3 else "pixel, H · W")
    return figure
