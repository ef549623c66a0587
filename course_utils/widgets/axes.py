"""The axis explorer: which elements of a tensor share a mean, for five norms in two layouts. Chapters 01 and 06.

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
from torch import nn

from course_utils.book.tables import format_number
from course_utils.plots.style import PALETTE, PAPER, new_figure
from course_utils.session import generator
from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module, one_of

__all__ = ["axis_explorer"]

LAYOUTS = {"B,C,H,W": "BCHW", "B,T,C": "BTC"}
NORMS = {
    "batch": "batch norm",
    "layer": "layer norm",
    "instance": "instance norm",
    "group": "group norm",
    "rms": "RMS norm",
}
DEFAULT_SIZES = {"B": 3, "C": 6, "H": 4, "W": 2, "T": 5}  # all different: a shape's numbers name their axes
SIZE_LIMITS = {"B": 4, "C": 8, "H": 4, "W": 4, "T": 6}  # the largest tensor still shows a number in every cell


def _rule(along: str, line: str, weight: str | None, bias: str | None, buffers: str | None, note: str = "") -> dict:
    return {"along": along, "line": line, "weight": weight, "bias": bias, "buffers": buffers, "note": note}


_TRANSPOSED = "PyTorch wants the channels second, so the sequence is transposed and transposed back."
_ACROSS = f"{_TRANSPOSED} A group then spans its channels and every position."
_PLAIN = "By default it has no weight and bias, and no running buffers."
_BARE = f"{_TRANSPOSED} {_PLAIN}"

# For each norm and layout: along which axes an element's statistic differs from its neighbour's. One letter per axis:
#   e  each index has its own statistic      a  all indices share one      g  the indices of one group share one
# The same data draws the picture in the browser, sizes every shape, and drives the reduction that is compared with
# PyTorch. Shapes of weight, bias and running buffers are written with axis letters, separated by spaces; None where
# PyTorch's default has no such tensor.
RULES: dict[str, dict[str, dict[str, Any]]] = {
    "batch": {
        "B,C,H,W": _rule("aeaa", "nn.BatchNorm2d({C})(x)", "C", "C", "C"),
        "B,T,C": _rule("aae", "nn.BatchNorm1d({C})(x.transpose(1, 2)).transpose(1, 2)", "C", "C", "C", _TRANSPOSED),
    },
    "layer": {
        "B,C,H,W": _rule("eaaa", "nn.LayerNorm([{C}, {H}, {W}])(x)", "C H W", "C H W", None),
        "B,T,C": _rule("eea", "nn.LayerNorm({C})(x)", "C", "C", None),
    },
    "instance": {
        "B,C,H,W": _rule("eeaa", "nn.InstanceNorm2d({C})(x)", None, None, None, _PLAIN),
        "B,T,C": _rule("eae", "nn.InstanceNorm1d({C})(x.transpose(1, 2)).transpose(1, 2)", None, None, None, _BARE),
    },
    "group": {
        "B,C,H,W": _rule("egaa", "nn.GroupNorm({G}, {C})(x)", "C", "C", None),
        "B,T,C": _rule("eag", "nn.GroupNorm({G}, {C})(x.transpose(1, 2)).transpose(1, 2)", "C", "C", None, _ACROSS),
    },
    "rms": {
        "B,C,H,W": _rule("eaaa", "nn.RMSNorm([{C}, {H}, {W}])(x)", "C H W", None, None),
        "B,T,C": _rule("eea", "nn.RMSNorm({C})(x)", "C", None, None),
    },
}


def axis_explorer(norm: str = "batch", layout: str = "B,C,H,W", groups: int = 2) -> CourseWidget:
    """Return the axis explorer, ready to display.

    Args:
        norm: ``"batch"``, ``"layer"``, ``"instance"``, ``"group"`` or ``"rms"``.
        layout: ``"B,C,H,W"`` or ``"B,T,C"``.
        groups: number of channel groups of group norm, 1 to 8.
    """
    choices = {"norm": NORMS, "layout": LAYOUTS, "groups": range(1, SIZE_LIMITS["C"] + 1)}
    chosen = one_of(choices, norm=norm, layout=layout, groups=groups)
    data = {"rules": RULES, "norms": NORMS, "layouts": LAYOUTS, "limits": SIZE_LIMITS}
    return _AxisExplorer({**chosen, "sizes": DEFAULT_SIZES, "picked": dict.fromkeys(DEFAULT_SIZES, 0)}, data)


class _AxisExplorer(AnsweringWidget):
    _esm = browser_module("axis_rule", "axis_explorer")

    def answer_to_state(self) -> dict[str, Any]:
        try:
            errors = largest_differences(self.state)
        except (ValueError, RuntimeError) as refusal:
            problem = f"{type(refusal).__name__}: {refusal}"
            return {"problem": problem, "remark": "", "errors": "", "picked": ""}
        text = ", ".join(f"{dtype} {format_number(error)}" for dtype, error in errors.items())
        arithmetic, remark = _picked_arithmetic(self.state), _remark(self.state)
        return {"problem": "", "remark": remark, "errors": f"largest difference: {text}", "picked": arithmetic}

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        shape, counts, refusal = shape_of(state), blocks(state), self.answer["problem"]
        line = RULES[state["norm"]][state["layout"]]["line"].format(**state["sizes"], G=state["groups"])
        statistics = "impossible: the groups do not divide the channels"
        if counts is not None:
            members = prod(shape) // prod(counts)
            statistics = f"{prod(counts)}, each over {members} {'element' if members == 1 else 'elements'}"
        agrees = refusal or max(largest_differences(state).values()) < 1e-4
        verdict = refusal or f"{'agrees' if agrees else 'disagrees'} with the rule"
        words = f"x ({', '.join(LAYOUTS[state['layout']])}) = {shape}, {prod(shape)} elements"
        return _draw(state), (
            f"Axis explorer: {NORMS[state['norm']]} of {words}. Statistics: {statistics}. {line}: {verdict}."
        )


# --- the rule, and PyTorch beside it ---


def shape_of(state: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the tensor's shape."""
    return tuple(state["sizes"][axis] for axis in LAYOUTS[state["layout"]])


def blocks(state: Mapping[str, Any]) -> list[int] | None:
    """Return into how many statistics each axis is split; None where the groups do not divide the channels."""
    shape, along = shape_of(state), RULES[state["norm"]][state["layout"]]["along"]
    counts = [{"e": size, "a": 1, "g": state["groups"]}[letter] for letter, size in zip(along, shape, strict=True)]
    return None if any(size % count for size, count in zip(shape, counts, strict=True)) else counts


def example_input(state: Mapping[str, Any], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return the tensor that is normalized: mean 3, standard deviation 2, the same for the same shape."""
    return (3 + 2 * torch.randn(shape_of(state), generator=generator(0), dtype=torch.float64)).to(dtype)


def builtin(state: Mapping[str, Any], x: torch.Tensor) -> torch.Tensor:
    """Return what PyTorch's own layer, newly made and in training mode, gives for ``x``, or raise its refusal."""
    channels, last = state["sizes"]["C"], list(x.shape[1:] if x.ndim == 4 else x.shape[2:])
    layers = {
        "batch": lambda: (nn.BatchNorm2d if x.ndim == 4 else nn.BatchNorm1d)(channels),
        "layer": lambda: nn.LayerNorm(last),
        "instance": lambda: (nn.InstanceNorm2d if x.ndim == 4 else nn.InstanceNorm1d)(channels),
        "group": lambda: nn.GroupNorm(state["groups"], channels),
        "rms": lambda: nn.RMSNorm(last),
    }
    layer = layers[state["norm"]]().to(x.dtype)
    with torch.no_grad():
        if x.ndim == 4 or state["norm"] in ("layer", "rms"):
            return layer(x)
        return layer(x.transpose(1, 2)).transpose(1, 2)


def by_rule(state: Mapping[str, Any], x: torch.Tensor) -> list[torch.Tensor]:
    """Return mean, variance and normalized ``x`` by nothing but the rule, shaped like ``x``.

    Every axis of size n is split into (blocks, n / blocks), and the average goes over the inner parts.
    """
    parts = x.reshape([part for n, m in zip(x.shape, blocks(state) or [], strict=True) for part in (m, n // m)])
    inner = tuple(range(1, parts.ndim, 2))
    centred = state["norm"] != "rms"
    mean = parts.mean(inner, keepdim=True) if centred else x.new_zeros(())
    variance = (parts - mean).square().mean(inner, keepdim=True)
    eps = 1e-5 if centred else torch.finfo(x.dtype).eps  # PyTorch's defaults
    y = (parts - mean) / torch.sqrt(variance + eps)
    return [values.expand(parts.shape).reshape(x.shape) for values in (mean, variance, y)]


def largest_differences(state: Mapping[str, Any]) -> dict[str, float]:
    """Return how far the rule is from PyTorch's layer, by dtype; raise what PyTorch raises."""
    inputs = [example_input(state, dtype) for dtype in (torch.float32, torch.float64)]
    expected = [builtin(state, x) for x in inputs]
    errors = [(by_rule(state, x)[2] - y).abs().max().item() for x, y in zip(inputs, expected, strict=True)]
    return dict(zip(("float32", "float64"), errors, strict=True))


def _picked(state: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(state["picked"][axis] for axis in LAYOUTS[state["layout"]])


def _picked_arithmetic(state: Mapping[str, Any]) -> str:
    at, x = _picked(state), example_input(state)
    value, mean, variance, output = (float(values[at]) for values in (x, *by_rule(state, x)))
    numerator = f"{value:.2f}" if state["norm"] == "rms" else f"({value:.2f} − {mean:.2f})".replace("− -", "+ ")
    line = f"x[{', '.join(map(str, at))}] = {value:.2f} becomes {numerator} / √({variance:.2f} + ε) = {output:.2f}"
    return line.replace("-", "−")


def _remark(state: Mapping[str, Any]) -> str:
    if list(shape_of(state)) != blocks(state):
        return ""
    left = "its sign, ±1" if state["norm"] == "rms" else "0, up to rounding"
    return f"Every statistic sees a single value, so what is left of it is {left}."


# --- the picture without a browser ---


def _draw(state: Mapping[str, Any]) -> Figure:
    """Draw a panel for each sample, positions down and channels across, numbered by the statistic of each element."""
    shape, counts = shape_of(state), blocks(state)
    numbers = np.full(shape, -1)
    if counts is not None:
        numbers = np.zeros(shape, dtype=int)
        for index, size, count in zip(np.indices(shape), shape, counts, strict=True):
            numbers = numbers * count + index // (size // count)
    chosen = numbers[_picked(state)]
    if len(shape) == 4:
        numbers = numbers.reshape(*shape[:2], -1).swapaxes(1, 2)  # (B, H·W, C)
    figure, panels = new_figure(1.3 + 0.24 * numbers.shape[1], ncols=shape[0], squeeze=False, sharey=True)
    colours = ListedColormap([PAPER, *PALETTE[:6]])
    for sample, (axes, panel) in enumerate(zip(panels[0], numbers, strict=True)):
        axes.imshow(np.where(panel < 0, 0, 1 + panel % 6), colours, aspect="auto", alpha=0.35, vmin=0, vmax=6)
        for (row, column), number in np.ndenumerate(panel):
            weight = "bold" if number == chosen else "normal"
            axes.text(column, row, "–" if number < 0 else number, ha="center", va="center", fontsize=9, weight=weight)
        axes.set(title=f"sample {sample}", xlabel="channel", xticks=range(panel.shape[1]), yticks=range(len(panel)))
        axes.grid(visible=False)
    panels[0][0].set_ylabel("position" if len(shape) == 3 else "pixel, H · W")
    return figure
