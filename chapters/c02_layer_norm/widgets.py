"""``normalized_shape``, cell by cell: which elements share a mean and a weight."""

import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.widgets import normalize_row
from course_utils.widgets.base import CourseWidget, browser_module, one_of
from course_utils.widgets.shapes import broadcast_text, draw_cards, refusal_of

__all__ = ["normalize_row", "normalized_shape"]

SHAPES = {"B,T,C": ["C", "T,C", "B,T,C", "T"], "B,C,H,W": ["C,H,W", "H,W", "W", "C"]}
WEIGHTS = {
    "B,T,C": ["same", "", "C", "T,C", "T", "T,1"],
    "B,C,H,W": ["same", "", "C,H,W", "W", "C", "C,1,1"],
}
SIZE_LIMITS = {"B": 3, "T": 4, "C": 6, "H": 4, "W": 4}
ROOM = {"rows": 12, "columns": 24, "elements": 200}  # what the picture shows of a typed shape
_TYPED = re.compile(r"\s*[(\[]?\s*(-?\d+\s*(,\s*-?\d+\s*)*,?)?\s*[)\]]?\s*", re.ASCII)


def normalized_shape(
    layout: str = "B,T,C", shape: str | None = None, weight: str | None = None
) -> CourseWidget:
    """Return a tensor whose elements show the mean and the weight that they are given, ready to
    display.

    Args:
        layout: the axes of x: ``"B,T,C"`` or ``"B,C,H,W"``; a third choice in the widget takes
            shapes that are typed.
        shape: ``normalized_shape``, as axes: ``"C"``, ``"T,C"``, ``"B,T,C"`` or ``"T"``, or for
            images ``"C,H,W"``, ``"H,W"``, ``"W"`` or ``"C"``; by default the first.
        weight: the weight's shape, as axes: ``""`` for none, or one of ``WEIGHTS``; by default
            ``"same"``, that of ``shape`` whichever it is.
    """
    one_of({"layout": SHAPES}, layout=layout)
    chosen = {"shape": SHAPES[layout][0] if shape is None else shape}
    chosen["weight"] = WEIGHTS[layout][0] if weight is None else weight
    one_of({"shape": SHAPES[layout], "weight": WEIGHTS[layout]}, **chosen)
    first = {"shape": {name: names[0] for name, names in SHAPES.items()}}
    first["weight"] = {name: names[0] for name, names in WEIGHTS.items()}
    state: dict[str, Any] = {name: {**first[name], layout: value} for name, value in chosen.items()}
    state |= {"layout": layout, "sizes": {"B": 2, "T": 3, "C": 4, "H": 2, "W": 3}, "picked": 0}
    state["typed"] = {"x": "(2, 3, 4)", "shape": "(4,)", "weight": "same"}
    data: dict[str, Any] = {"shapes": SHAPES, "weights": WEIGHTS, "limits": SIZE_LIMITS}
    data["room"] = ROOM
    data["negative"] = refusal_of(lambda: torch.zeros(-1))
    return _NormalizedShape(state, data)


class _NormalizedShape(CourseWidget):
    _esm = browser_module("cells", Path(__file__).with_name("normalized_shape.js"))

    @property
    def x(self) -> Tensor:
        """A tensor of the shape that is seen, filled with 0, 1, 2, … in float32."""
        shape = self._shapes()[0]
        return torch.arange(prod(shape), dtype=torch.float32).view(shape)

    @property
    def normalized_shape(self) -> tuple[int, ...]:
        """The shape to normalize over, as chosen or typed."""
        return self._shapes()[1]

    @property
    def weight(self) -> Tensor | None:
        """A weight of the shape that is seen, 1, 2, 3, …, or None."""
        shape = self._shapes()[2]
        if shape is None:
            return None
        return torch.arange(1, prod(shape) + 1, dtype=torch.float32).view(shape)

    def picture(self) -> tuple[Figure, str]:
        try:
            x, normalized, weight = self._shapes()
        except ValueError as error:
            return draw_cards([]), str(error)
        gain = "none" if weight is None else weight
        given = f"F.layer_norm, x {x}, normalized_shape {normalized}, weight {gain}"
        if max(prod(x), prod(weight or ())) > ROOM["elements"]:
            return draw_cards([]), f"{given}: too many elements to draw."
        refusal = refusal_of(
            lambda: F.layer_norm(
                torch.zeros(x), normalized, None if weight is None else torch.zeros(weight)
            )
        )
        if not all(size > 0 for size in x) or not normalized or not _fits(x):
            return draw_cards([]), f"{given}: {refusal or 'no elements to draw, or too many'}."
        lines, ids = np.full(x, "μ –", dtype=object), np.zeros(x, dtype=int)
        if x[-len(normalized) :] == normalized and x:
            ids = np.arange(prod(x)).reshape(x) // prod(normalized)
            lines = "μ" + ids.astype(str).astype(object)
        if weight is not None and not refusal_of(lambda: torch.zeros(weight).expand(x)):
            lines = lines + "\nγ" + broadcast_text(torch.arange(prod(weight)).view(weight), x)
        cards = [
            (f"x{list(index)}", np.atleast_2d(ids[index]), np.atleast_2d(lines[index]))
            for index in np.ndindex(x[:-2])
        ]
        count = f"{ids.max() + 1} means, each over {prod(normalized)} elements"
        return draw_cards(cards), f"{given}: {refusal or count}."

    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]:
        """The shapes of x, of what is normalized and of the weight."""
        state: dict[str, Any] = self.state
        layout, typed = state["layout"], state["typed"]
        if layout == "own":
            x, normalized = typed_shape(typed["x"]), typed_shape(typed["shape"])
            chosen = typed["weight"].strip()
            weight = None if chosen in ("same", "none") else typed_shape(chosen)
        else:
            x, normalized = self._sizes(layout), self._sizes(state["shape"][layout])
            chosen = state["weight"][layout] or "none"
            weight = None if chosen in ("same", "none") else self._sizes(chosen)
        return x, normalized, normalized if chosen == "same" else weight

    def _sizes(self, axes: str) -> tuple[int, ...]:
        return tuple(self.state["sizes"].get(axis, 1) for axis in axes.split(","))


def typed_shape(text: str) -> tuple[int, ...]:
    """Return a shape as it was typed: (2, 3) or [2, 3] or 2, 3.

    Raises:
        ValueError: it is none.
    """
    if not _TYPED.fullmatch(text):
        raise ValueError(f"a shape is whole numbers with commas, as (2, 3, 4): got {text!r}")
    return tuple(int(size) for size in re.findall(r"-?\d+", text))


def _fits(shape: tuple[int, ...]) -> bool:
    """Whether the picture has room for each element."""
    rows, columns = (1, 1, *shape)[-2:]
    sizes = {"rows": rows, "columns": columns, "elements": prod(shape)}
    return all(size <= ROOM[name] for name, size in sizes.items())
