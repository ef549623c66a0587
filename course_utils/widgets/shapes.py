"""Shapes, cell by cell: ``normalized_shape`` (chapter 02), lanes of a kernel (10), heads through
RoPE (13).

Notation used for tensor shapes
    B   samples in the batch
    T   positions of a sequence
    C   channels, or features
    H   rows of an image; for RoPE, heads
    W   columns of an image
    D   the dimension of a head
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import PALETTE, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["rope_shapes"]

ORDERS = ["B,H,T,D", "B,T,H,D"]
COSINES = ["T,D", "T,1,D"]
PAIRS = {"half": "half", "interleaved": "interleaved"}
HEAD_LIMITS = {"B": 2, "H": 4, "T": 5}
DIMS = [2, 4, 6, 8]
SHARES = [0.25, 0.5, 0.75, 1.0]
KEYS = [1, 2, 3, 4]


def rope_shapes(
    order: str = "B,H,T,D",
    cos: str = "T,D",
    pairs: str = "half",
    laid: str = "half",
    *,
    share: float = 1.0,
    keys: int = 2,
) -> CourseWidget:
    """Return a tensor of heads whose entries show the angle that RoPE gives them, ready to display.

    Args:
        order: the axes of x: ``"B,H,T,D"`` or ``"B,T,H,D"``.
        cos: the shape of cos and sin: ``"T,D"`` or ``"T,1,D"``.
        pairs: which entries turn together: ``"half"`` or ``"interleaved"``.
        laid: for which of the two the columns of cos and sin are laid out.
        share: of each head's entries that turn, 0.25, 0.5, 0.75 or 1: an even number, two at least.
        keys: how many key heads the two heads of queries share: 1 to 4.
    """
    choices: dict[str, Iterable[Any]] = {"order": ORDERS, "cos": COSINES, "pairs": PAIRS}
    choices |= {"laid": PAIRS, "share": SHARES, "keys": KEYS}
    chosen = one_of(choices, order=order, cos=cos, pairs=pairs, laid=laid, share=share, keys=keys)
    state = {**chosen, "sizes": {"B": 1, "H": 2, "T": 3, "D": 4}, "picked": 0}
    data = {
        "orders": ORDERS,
        "cosines": COSINES,
        "layouts": PAIRS,
        "limits": HEAD_LIMITS,
        "dims": DIMS,
        "stops": {"share": SHARES, "keys": KEYS},
    }
    return _RopeShapes(state, data)


class _RopeShapes(CourseWidget):
    _esm = browser_module("cells", "rope_shapes")

    @property
    def x(self) -> Tensor:
        """A tensor of the shape that is seen, filled with 0, 1, 2, … in float32."""
        shape = tuple(self.state["sizes"][axis] for axis in self.state["order"].split(","))
        return torch.arange(prod(shape), dtype=torch.float32).view(shape)

    @property
    def cos(self) -> Tensor:
        """The cosines whose angles are seen, in the shape and the layout that are chosen: (T, D) or
        (T, 1, D), D of what turns; base 10,000, float32."""
        return self._angles().cos()

    @property
    def sin(self) -> Tensor:
        """The sines to ``cos``."""
        return self._angles().sin()

    def _angles(self) -> Tensor:
        turning = self._turning()
        speeds = 10_000.0 ** (-2 * torch.from_numpy(self._frequencies()) / turning)
        angles = torch.arange(self.state["sizes"]["T"])[:, None] * speeds
        return (angles[:, None] if self.state["cos"] == "T,1,D" else angles).float()

    def _turning(self) -> int:
        """How many entries of a head turn."""
        return max(2, int(self.state["sizes"]["D"] * self.state["share"]) // 2 * 2)

    def _frequencies(self) -> np.ndarray:
        """The number of the frequency in each column of cos."""
        columns = np.arange(self._turning())
        return columns % (len(columns) // 2) if self.state["laid"] == "half" else columns // 2

    def _key_head(self, head: int) -> str:
        """Which key head a head of queries uses, where fewer are shared out evenly."""
        heads, keys = self.state["sizes"]["H"], self.state["keys"]
        return f", key {head * keys // heads}" if keys < heads and heads % keys == 0 else ""

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        turning = self._turning()
        sizes, columns = {**state["sizes"], "D": turning}, np.arange(turning)
        x = tuple(sizes[axis] for axis in state["order"].split(","))
        cos = tuple(sizes.get(axis, 1) for axis in state["cos"].split(","))
        half, k = turning // 2, self._frequencies()
        pairs = columns % half if state["pairs"] == "half" else columns // 2
        refusal = refusal_of(lambda: torch.zeros(x) * torch.zeros(cos))
        position = np.full(x, "–", dtype=object)
        if not refusal_of(lambda: torch.zeros(cos).expand(x)):
            position = broadcast_text(torch.arange(sizes["T"]).view(*cos[:-1], 1).expand(cos), x)
        lines = (
            position
            if refusal
            else position + np.array([f"f{'₀₁₂₃'[pair]}" for pair in k], dtype=object)
        )
        heads = np.moveaxis(lines, 1 if state["order"] == "B,H,T,D" else 2, 1)  # (B, H, T, D)
        cards = [
            (
                f"head {head}{self._key_head(head)}",
                np.broadcast_to(pairs, heads.shape[2:]),
                heads[sample, head],
            )
            for sample, head in np.ndindex(heads.shape[:2])
        ]
        words = (
            f"RoPE on x ({state['order']}) = {tuple(self.x.shape)}, {turning} entries of a head, "
            f"with cos ({state['cos']}) = {cos}, pairs "
            f"{state['pairs']}"
        )
        token = np.indices(x)[state["order"].split(",").index("T")].astype(str).astype(object)
        right = (
            lines == token + np.array([f"f{'₀₁₂₃'[pair]}" for pair in pairs], dtype=object)
        ).all()
        verdict = refusal or ("right" if right else "no error, and wrong")
        figure = draw_cards(cards)
        figure.suptitle(verdict)
        return figure, f"{words}, columns of cos {state['laid']}: {verdict}."


def refusal_of(call: Callable[[], Tensor]) -> str:
    """What PyTorch says to a call, or nothing."""
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def broadcast_text(values: Tensor, shape: Sequence[int]) -> np.ndarray:
    """Numbers broadcast to a shape, as objects to which text can be added."""
    return values.expand(*shape).numpy().astype(str).astype(object)


def draw_cards(cards: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Figure:
    """Draw cards side by side, each with a title, a colour's number for each cell, and what stands
    in it."""
    rows = max((colours.shape[0] for _, colours, _ in cards), default=1)
    down = max(1, -(-len(cards) // 4))
    across = max(1, min(4, len(cards)))
    figure, panels = new_figure(down * (0.5 + 0.36 * rows), nrows=down, ncols=across, squeeze=False)
    for axes in panels.flat[len(cards) :]:
        axes.axis("off")
    for axes, (title, colours, texts) in zip(panels.flat, cards, strict=False):
        axes.imshow(
            colours % 6, ListedColormap(PALETTE[:6]), aspect="auto", alpha=0.35, vmin=0, vmax=5
        )
        for (row, column), text in np.ndenumerate(texts):
            axes.text(column, row, text, ha="center", va="center", fontsize=8)
        axes.set(title=title, xticks=[], yticks=[])
        axes.grid(visible=False)
    return figure
