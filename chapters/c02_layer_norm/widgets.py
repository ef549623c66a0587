"""``normalized_shape``, cell by cell: which elements share a mean and a weight."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from course_utils.widgets import normalize_row
from course_utils.widgets.base import CourseWidget, browser_module, one_of
from course_utils.widgets.shapes import broadcast_text, draw_cards, refusal_of

__all__ = ["normalize_row", "normalized_shape"]

SHAPES = {"B,T,C": ["C", "T,C", "B,T,C", "T"], "B,C,H,W": ["C,H,W", "H,W", "W", "C"]}
WEIGHTS = {"B,T,C": ["", "C", "T,C", "T", "T,1"], "B,C,H,W": ["", "C,H,W", "W", "C", "C,1,1"]}
SIZE_LIMITS = {"B": 3, "T": 4, "C": 6, "H": 4, "W": 4}


def normalized_shape(
    layout: str = "B,T,C", shape: str | None = None, weight: str | None = None
) -> CourseWidget:
    """Return a tensor whose elements show the mean and the weight that they are given, ready to
    display.

    Args:
        layout: the axes of x: ``"B,T,C"`` or ``"B,C,H,W"``.
        shape: ``normalized_shape``, as axes: ``"C"``, ``"T,C"``, ``"B,T,C"`` or ``"T"``, or for
            images ``"C,H,W"``, ``"H,W"``, ``"W"`` or ``"C"``; by default the first.
        weight: the weight's shape, as axes: ``""`` for none, or one of ``WEIGHTS``; by default that
            of the first shape.
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


class _NormalizedShape(CourseWidget):
    _esm = browser_module("cells", Path(__file__).with_name("normalized_shape.js"))

    def picture(self) -> tuple[Figure, str]:
        x, normalized, weight = (self._sizes(name) for name in ("layout", "shape", "weight"))
        given = f"F.layer_norm, x {x}, normalized_shape {normalized}, weight {weight or 'none'}"
        refusal = refusal_of(
            lambda: F.layer_norm(
                torch.zeros(x), normalized, torch.zeros(weight) if weight else None
            )
        )
        lines, ids = np.full(x, "μ –", dtype=object), np.zeros(x, dtype=int)
        if x[-len(normalized) :] == normalized:
            ids = np.arange(prod(x)).reshape(x) // prod(normalized)
            lines = "μ" + ids.astype(str).astype(object)
        if weight and not refusal_of(lambda: torch.zeros(weight).expand(x)):
            lines = lines + "\nγ" + broadcast_text(torch.arange(prod(weight)).view(weight), x)
        cards = [(f"x{list(index)}", ids[index], lines[index]) for index in np.ndindex(x[:-2])]
        count = f"{ids.max() + 1} means, each over {prod(normalized)} elements"
        return draw_cards(cards), f"{given}: {refusal or count}."

    def _sizes(self, name: str) -> tuple[int, ...]:
        state: dict[str, Any] = self.state
        axes = state["layout"] if name == "layout" else state[name][state["layout"]]
        return tuple(state["sizes"].get(axis, 1) for axis in axes.split(",") if axis)
