"""Shapes, cell by cell: ``normalized_shape`` (chapter 02), lanes of a kernel (10), heads through RoPE (13).

Notation used for tensor shapes
    B   samples in the batch
    T   positions of a sequence
    C   channels, or features
    H   rows of an image; for RoPE, heads
    W   columns of an image
    D   the dimension of a head
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import PALETTE, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["kernel_blocks", "normalized_shape", "rope_shapes"]

SHAPES = {"B,T,C": ["C", "T,C", "B,T,C", "T"], "B,C,H,W": ["C,H,W", "H,W", "W", "C"]}
WEIGHTS = {"B,T,C": ["", "C", "T,C", "T", "T,1"], "B,C,H,W": ["", "C,H,W", "W", "C", "C,1,1"]}
SIZE_LIMITS = {"B": 3, "T": 4, "C": 6, "H": 4, "W": 4}

ORDERS = ["B,H,T,D", "B,T,H,D"]
COSINES = ["T,D", "T,1,D"]
PAIRS = {"half": "half", "interleaved": "interleaved"}
HEAD_LIMITS = {"B": 2, "H": 4, "T": 5}
DIMS = [2, 4, 6, 8]

MASKS = {"both": "loaded and centred", "loaded": "loaded", "none": "nothing"}
BLOCKS = [2, 4, 8, 16]
BLOCK_LIMITS = {"rows": 4, "columns": 16}
MEMORY = [3, 5, 4, 6, 2, 9, 7, 8, 1, 6, 4, 2, 8, 5, 7, 3] * 4  # what x holds, row after row


def normalized_shape(layout: str = "B,T,C", shape: str | None = None, weight: str | None = None) -> CourseWidget:
    """Return a tensor whose elements show the mean and the weight that they are given, ready to display.

    Args:
        layout: the axes of x: ``"B,T,C"`` or ``"B,C,H,W"``.
        shape: ``normalized_shape``, as axes: ``"C"``, ``"T,C"``, ``"B,T,C"`` or ``"T"``, or for images ``"C,H,W"``,
            ``"H,W"``, ``"W"`` or ``"C"``; by default the first.
        weight: the weight's shape, as axes: ``""`` for none, or one of ``WEIGHTS``; by default that of the first shape.
    """
    one_of({"layout": SHAPES}, layout=layout)
    chosen = {"shape": SHAPES[layout][0] if shape is None else shape}
    chosen["weight"] = WEIGHTS[layout][1] if weight is None else weight
    one_of({"shape": SHAPES[layout], "weight": WEIGHTS[layout]}, **chosen)
    first = {"shape": {name: names[0] for name, names in SHAPES.items()}}
    first["weight"] = {name: names[1] for name, names in WEIGHTS.items()}
    state: dict[str, Any] = {name: {**first[name], layout: value} for name, value in chosen.items()}
    state |= {"layout": layout, "sizes": {"B": 2, "T": 3, "C": 4, "H": 2, "W": 3}, "picked": 0}
    return _NormalizedShape(state, {"shapes": SHAPES, "weights": WEIGHTS, "limits": SIZE_LIMITS})


def rope_shapes(order: str = "B,H,T,D", cos: str = "T,D", pairs: str = "half", laid: str = "half") -> CourseWidget:
    """Return a tensor of heads whose entries show the angle that RoPE gives them, ready to display.

    Args:
        order: the axes of x: ``"B,H,T,D"`` or ``"B,T,H,D"``.
        cos: the shape of cos and sin: ``"T,D"`` or ``"T,1,D"``.
        pairs: which entries turn together: ``"half"`` or ``"interleaved"``.
        laid: for which of the two the columns of cos and sin are laid out.
    """
    choices = {"order": ORDERS, "cos": COSINES, "pairs": PAIRS, "laid": PAIRS}
    chosen = one_of(choices, order=order, cos=cos, pairs=pairs, laid=laid)
    state = {**chosen, "sizes": {"B": 1, "H": 2, "T": 3, "D": 4}, "picked": 0}
    data = {"orders": ORDERS, "cosines": COSINES, "layouts": PAIRS, "limits": HEAD_LIMITS, "dims": DIMS}
    return _RopeShapes(state, data)


def kernel_blocks(columns: int = 5, block: int = 8, mask: str = "loaded", rows: int = 3) -> CourseWidget:
    """Return what the lanes of a program hold that normalizes a row, ready to display.

    Args:
        columns: of the matrix, 1 to 16.
        block: lanes of a program: 2, 4, 8 or 16.
        mask: ``"both"`` (after the load and after centring), ``"loaded"`` or ``"none"``.
        rows: of the matrix, and programs, 1 to 4.
    """
    stops = {name: range(1, most + 1) for name, most in BLOCK_LIMITS.items()}
    chosen = one_of({**stops, "block": BLOCKS, "mask": MASKS}, columns=columns, block=block, mask=mask, rows=rows)
    data = {"memory": MEMORY, "masks": MASKS, "blocks": BLOCKS, "limits": BLOCK_LIMITS}
    return _KernelBlocks({**chosen, "row": 0}, data)


class _NormalizedShape(CourseWidget):
    _esm = browser_module("cells", "normalized_shape")

    def picture(self) -> tuple[Figure, str]:
        x, normalized, weight = (self._sizes(name) for name in ("layout", "shape", "weight"))
        given = f"F.layer_norm, x {x}, normalized_shape {normalized}, weight {weight or 'none'}"
        refusal = _refusal(lambda: F.layer_norm(torch.zeros(x), normalized, torch.zeros(weight) if weight else None))
        lines, ids = np.full(x, "μ –", dtype=object), np.zeros(x, dtype=int)
        if x[-len(normalized) :] == normalized:
            ids = np.arange(prod(x)).reshape(x) // prod(normalized)
            lines = "μ" + ids.astype(str).astype(object)
        if weight and not _refusal(lambda: torch.zeros(weight).expand(x)):
            lines = lines + "\nγ" + _expanded(torch.arange(prod(weight)).view(weight), x)
        cards = [(f"x{list(index)}", ids[index], lines[index]) for index in np.ndindex(x[:-2])]
        count = f"{ids.max() + 1} means, each over {prod(normalized)} elements"
        return _draw_cards(cards), f"{given}: {refusal or count}."

    def _sizes(self, name: str) -> tuple[int, ...]:
        state: dict[str, Any] = self.state
        axes = state["layout"] if name == "layout" else state[name][state["layout"]]
        return tuple(state["sizes"].get(axis, 1) for axis in axes.split(",") if axis)


class _RopeShapes(CourseWidget):
    _esm = browser_module("cells", "rope_shapes")

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        sizes, columns = state["sizes"], np.arange(state["sizes"]["D"])
        x = tuple(sizes[axis] for axis in state["order"].split(","))
        cos = tuple(sizes.get(axis, 1) for axis in state["cos"].split(","))
        half = sizes["D"] // 2
        k = columns % half if state["laid"] == "half" else columns // 2
        pairs = columns % half if state["pairs"] == "half" else columns // 2
        refusal = _refusal(lambda: torch.zeros(x) * torch.zeros(cos))
        position = np.full(x, "–", dtype=object)
        if not _refusal(lambda: torch.zeros(cos).expand(x)):
            position = _expanded(torch.arange(sizes["T"]).view(*cos[:-1], 1).expand(cos), x)
        lines = position if refusal else position + np.array([f"f{'₀₁₂₃'[pair]}" for pair in k], dtype=object)
        heads = np.moveaxis(lines, 1 if state["order"] == "B,H,T,D" else 2, 1)  # (B, H, T, D)
        cards = [
            (f"head {head}", np.broadcast_to(pairs, heads.shape[2:]), heads[sample, head])
            for sample, head in np.ndindex(heads.shape[:2])
        ]
        words = f"RoPE on x ({state['order']}) = {x} with cos ({state['cos']}) = {cos}, pairs {state['pairs']}"
        return _draw_cards(cards), f"{words}, columns of cos {state['laid']}: {refusal or 'each entry by its angle'}."


class _KernelBlocks(CourseWidget):
    _esm = browser_module("cells", "kernel_blocks")

    def picture(self) -> tuple[Figure, str]:
        rows, columns, block, row, mask = (self.state[name] for name in ("rows", "columns", "block", "row", "mask"))
        memory, address = np.array(MEMORY[: rows * columns]), np.arange(block) + row * columns
        own = np.arange(block) < columns
        held = np.where(own | (mask == "none"), np.pad(memory, (0, block), constant_values=-1)[address], 0)
        texts = np.where(held < 0, "?", held.astype(str))[None]
        lanes = np.where(own, 0, 1)[None]
        x = memory.reshape(rows, columns)
        cards = [("x in memory", np.full(x.shape, 2), x), (f"lanes of program {row}", lanes, texts)]
        beyond = max(0, block - columns)
        return _draw_cards(cards), (
            f"A kernel's program {row} with {block} lanes on a matrix of {rows} rows and {columns} columns in memory, "
            f"masked: {MASKS[mask]}. {beyond} lanes are beyond the row; the lanes hold {', '.join(texts[0])}."
        )


def _refusal(call: Callable[[], Tensor]) -> str:
    """What PyTorch says to a call, or nothing."""
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def _expanded(values: Tensor, shape: Sequence[int]) -> np.ndarray:
    """Numbers broadcast to a shape, as objects to which text can be added."""
    return values.expand(*shape).numpy().astype(str).astype(object)


def _draw_cards(cards: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Figure:
    """Draw cards side by side, each with a title, a colour's number for each cell, and what stands in it."""
    rows = max(colours.shape[0] for _, colours, _ in cards)
    down = -(-len(cards) // 4)
    figure, panels = new_figure(down * (0.5 + 0.36 * rows), nrows=down, ncols=min(4, len(cards)), squeeze=False)
    for axes in panels.flat[len(cards) :]:
        axes.axis("off")
    for axes, (title, colours, texts) in zip(panels.flat, cards, strict=False):
        axes.imshow(colours % 6, ListedColormap(PALETTE[:6]), aspect="auto", alpha=0.35, vmin=0, vmax=5)
        for (row, column), text in np.ndenumerate(texts):
            axes.text(column, row, text, ha="center", va="center", fontsize=8)
        axes.set(title=title, xticks=[], yticks=[])
        axes.grid(visible=False)
    return figure
