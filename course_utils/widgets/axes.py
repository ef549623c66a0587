"""The axis explorer: which elements of a tensor share a mean, for five norms in two layouts. Chapters 01 and 06.

Notation used for tensor shapes
    B   samples in the batch
    C   channels, or features
    H W rows and columns of an image
    T   positions of a sequence
    G   groups of channels
"""

import textwrap
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from torch import nn

from course_utils.book.tables import format_number
from course_utils.plots.style import INK, PALETTE, PAPER, RULE, new_figure
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


def axis_explorer(
    norm: str = "batch",
    layout: str = "B,C,H,W",
    sizes: Mapping[str, int] | None = None,
    groups: int = 2,
    picked: Mapping[str, int] | None = None,
) -> CourseWidget:
    """Return the axis explorer, ready to display.

    Args:
        norm: ``"batch"``, ``"layer"``, ``"instance"``, ``"group"`` or ``"rms"``.
        layout: ``"B,C,H,W"`` or ``"B,T,C"``.
        sizes: size by axis letter, 1 to ``SIZE_LIMITS``; those not named keep their default.
        groups: number of channel groups of group norm, 1 to 8.
        picked: index of the picked element by axis letter; 0 where not named.
    """
    sizes, picked = {**DEFAULT_SIZES, **(sizes or {})}, {**dict.fromkeys(DEFAULT_SIZES, 0), **(picked or {})}
    for name, values in (("sizes", sizes), ("picked", picked)):
        if set(values) != set(SIZE_LIMITS):
            raise ValueError(f"{name} must name the axes {', '.join(SIZE_LIMITS)}: got {', '.join(map(str, values))}")
    for axis, limit in SIZE_LIMITS.items():
        if sizes[axis] not in range(1, limit + 1):
            raise ValueError(f"sizes[{axis!r}] must be a whole number from 1 to {limit}: got {sizes[axis]!r}")
        if picked[axis] not in range(sizes[axis]):
            raise ValueError(f"picked[{axis!r}] must be a whole number below {sizes[axis]}: got {picked[axis]!r}")
    choices = {"norm": NORMS, "layout": LAYOUTS, "groups": range(1, SIZE_LIMITS["C"] + 1)}
    chosen = one_of(choices, norm=norm, layout=layout, groups=groups)
    data = {"rules": RULES, "norms": NORMS, "layouts": LAYOUTS, "limits": SIZE_LIMITS}
    return _AxisExplorer({**chosen, "sizes": sizes, "picked": picked}, data)


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
        facts = _facts(state)
        refusal = self.answer["problem"]
        lines = {"PyTorch refuses": refusal, **facts, "picked": self.answer["picked"], "remark": self.answer["remark"]}
        agrees = refusal or max(largest_differences(state).values()) < 1e-4
        verdict = refusal or f"{'agrees' if agrees else 'disagrees'} with the rule"
        return _draw(state, {label: textwrap.wrap(text, 76) for label, text in lines.items() if text}), (
            f"Axis explorer: {NORMS[state['norm']]} of x ({', '.join(LAYOUTS[state['layout']])}) = {facts['x']}. "
            f"Statistics: {facts['statistics']}. {facts['in PyTorch']}: {verdict}."
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


def _picked_arithmetic(state: Mapping[str, Any]) -> str:
    at = tuple(state["picked"][axis] for axis in LAYOUTS[state["layout"]])
    x = example_input(state)
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


def _facts(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the lines under the picture, as the browser's ``facts`` words them."""
    shape, counts, rule = shape_of(state), blocks(state), RULES[state["norm"]][state["layout"]]
    sizes = {**state["sizes"], "G": state["groups"]}
    count, statistic = "impossible: the groups do not divide the channels", "–"
    if counts is not None:
        members = prod(shape) // prod(counts)
        count = f"{prod(counts)}, each over {members} {'element' if members == 1 else 'elements'}"
        split = list(zip(rule["along"], shape, counts, strict=True))
        statistic = str(tuple(n for letter, _, m in split for n in ((m, 1) if letter == "g" else (m,))))
        if "g" in rule["along"]:
            seen_as = tuple(n for letter, size, m in split for n in ((m, size // m) if letter == "g" else (size,)))
            statistic += f", x seen as {seen_as}"
    weight, bias, buffer = (
        "none" if rule[name] is None else str(tuple(sizes[axis] for axis in rule[name].split()))
        for name in ("weight", "bias", "buffers")
    )
    centred = state["norm"] != "rms"
    return {
        "x": f"{shape}, {prod(shape)} elements",
        "statistics": count,
        "mean": statistic if centred else "none: RMS norm does not centre",
        "variance" if centred else "mean square": statistic,
        "weight": weight,
        "bias": bias,
        "running buffers": "none" if buffer == "none" else f"running_mean {buffer}, running_var {buffer}",
        "in PyTorch": rule["line"].format(**sizes),
        "note": rule["note"],
    }


# lengths in pixels of the page, as in the browser's drawing
_LEFT, _TOP, _GAP, _LINE = 84, 46, 14, 21
_SLOPE = 0.32  # how far a slice's columns climb: it stands at an angle, so that every element of a stack is seen


def _draw(state: Mapping[str, Any], lines: Mapping[str, list[str]]) -> Figure:
    """Draw the tensor as slices, shelves from top to bottom and cards side by side, and ``lines`` below them."""
    letters = LAYOUTS[state["layout"]]
    in_stacks = len(letters) == 4  # otherwise each sample is one slice, and all stand on one shelf
    shape = (1, *shape_of(state))[-4:]
    picked = (0, *(state["picked"][axis] for axis in letters))[-4:]
    shelves, cards, rows, columns = shape
    width = min(38.0, ((760 - _LEFT - 8) / cards - _GAP) / columns)  # of a cell
    height = max(22.0, min(40.0, 96 / (rows * shelves)))
    climb = _SLOPE * width * columns
    pitch = rows * height + climb + 24  # of a shelf

    def outline(place: Sequence[int], wide: int = 1, high: int = 1, inset: float = 0) -> list[tuple[float, float]]:
        """Return the corners of ``wide`` by ``high`` elements from (shelf, card, row, column) on."""
        shelf, card, row, column = place
        x0, y0 = _LEFT + card * (width * columns + _GAP), _TOP + shelf * pitch + climb
        left, right = column * width + inset, (column + wide) * width - inset
        top, bottom = row * height + inset, (row + high) * height - inset
        return [(x0 + x, y0 + y - _SLOPE * x) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))]

    feet = [_TOP + shelf * pitch + climb + rows * height for shelf in range(shelves)]
    head = feet[-1] + 44
    page = head + _LINE * sum(map(len, lines.values())) + 10
    figure, axes = new_figure(height=page / 100)
    figure.set_layout_engine("none")  # data coordinates are pixels from the top left
    axes.set(position=(0, 0, 1, 1), xlim=(0, 760), ylim=(page, 0))
    axes.axis("off")
    numbers = _numbers(state, shape)
    for place in np.ndindex(*shape):
        if numbers is None:
            _draw_element(axes, outline(place), None, is_chosen=False)
        else:
            chosen = numbers[place] == numbers[picked]
            _draw_element(axes, outline(place), int(numbers[place]), is_chosen=bool(chosen))
    for shelf, card in np.ndindex(shelves, cards):
        whole = outline((shelf, card, 0, 0), columns, rows)
        axes.add_patch(Polygon(whole, fill=False, edgecolor=INK, linewidth=1))
    axes.add_patch(Polygon(outline(picked, inset=1), fill=False, edgecolor=INK, linewidth=2.4))

    for card in range(cards):
        name = str(card) if card else "channel 0" if in_stacks else "sample 0"
        middle = _LEFT + card * (width * columns + _GAP) + columns * width / 2
        axes.text(middle, 20, name, ha="center", va="center", fontsize=9)
    for shelf in range(shelves if in_stacks else 0):
        axes.text(8, feet[shelf] - rows * height / 2, f"sample {shelf}", va="center", fontsize=9)
    names = f"{letters[-2]} ↓   {letters[-1]} →"
    axes.text(_LEFT, feet[-1] + 10, names, va="center", weight="bold", fontsize=9)
    for label, text in lines.items():
        if label == "PyTorch refuses":
            box = (8, head - 16), 744, _LINE * len(text) + 2
            axes.add_patch(Rectangle(*box, fill=False, edgecolor=PALETTE[1], linewidth=1.6))
        axes.text(16, head, label, weight="bold", fontsize=10)
        for row in text:
            axes.text(150, head, row, fontsize=10)
            head += _LINE
    return figure


def _numbers(state: Mapping[str, Any], shape: Sequence[int]) -> np.ndarray | None:
    """Return the number of every element's statistic, in the order in which elements are stored."""
    counts = blocks(state)
    if counts is None:
        return None
    numbers = np.zeros(shape_of(state), dtype=int)
    for index, size, count in zip(np.indices(numbers.shape), numbers.shape, counts, strict=True):
        numbers = numbers * count + index // (size // count)
    return numbers.reshape(shape)


def _draw_element(axes: Axes, outline: list, number: int | None, *, is_chosen: bool) -> None:
    colour: Any = RULE
    if number is not None:
        amount = 0.62 if is_chosen else 0.2
        mixed = zip(to_rgb(PALETTE[number % 6]), to_rgb(PAPER), strict=True)
        colour = tuple(paper + (ink - paper) * amount for ink, paper in mixed)
    hatch = "---" if is_chosen else None  # the chosen statistic's elements do not rest on colour
    axes.add_patch(Polygon(outline, facecolor=colour, edgecolor=PAPER, linewidth=0.8, hatch=hatch))
    if number is not None:
        x, y = np.mean(outline, axis=0).tolist()
        axes.text(x, y, str(number), ha="center", va="center", fontsize=8)
