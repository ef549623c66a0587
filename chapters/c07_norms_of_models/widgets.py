"""One feature of a token that is far larger than all others, and what a norm makes of the row.
Chapter 07."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from course_utils import data
from course_utils.plots.style import MUTED, PALETTE, new_figure
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["large_feature"]

FEATURE, FEATURES = 507, 576
TOKENS = {"0": "token 0", "20": "token 20"}
NORMS = {"rms": "RMS norm", "layer": "layer norm", "constant": "divided by a constant"}
USUAL = 5.5  # the median size of the other tokens there
STOPS = {"value": [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 23_856, 100_000, 240_000]}


def large_feature(value: int = 23_856, token: str = "0", norm: str = "rms") -> CourseWidget:
    """Return a row of SmolLM2's stream behind block 11 before and after a norm, with a slider for
    its feature 507.

    Args:
        value: of feature 507: 1, 3, 10, … 10,000, 23,856 (as it is in token 0), 100,000 or 240,000.
        token: ``"0"`` or ``"20"``, whose other features the row has.
        norm: ``"rms"`` or ``"layer"``, without weight and ε; or ``"constant"``: divided by 5.5.
    """
    chosen = one_of({**STOPS, "token": TOKENS, "norm": NORMS}, value=value, token=token, norm=norm)
    stream = data.smollm2_stream()[12].double()
    rows = {token: [float(f"{v:.4g}") for v in stream[int(token)].tolist()] for token in TOKENS}
    sent = {"rows": rows, "feature": FEATURE, "usual": USUAL, "stops": STOPS}
    return _LargeFeature(chosen, {**sent, "tokens": TOKENS, "norms": NORMS})


class _LargeFeature(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("large_feature.js"))

    @property
    def x(self) -> Tensor:
        """The row before the norm: (576,), float64."""
        row = torch.tensor(self.data["rows"][self.state["token"]], dtype=torch.float64)
        row[FEATURE] = self.state["value"]
        return row

    def normed(self, value: float | None = None) -> Tensor:
        """Return the row after the norm, with another ``value`` of feature 507 if one is given:
        (576,), float64."""
        row = self.x
        row[FEATURE] = self.state["value"] if value is None else value
        return {
            "rms": lambda: F.rms_norm(row, (FEATURES,), eps=0.0),
            "layer": lambda: F.layer_norm(row, (FEATURES,), eps=0.0),
            "constant": lambda: row / USUAL,
        }[self.state["norm"]]()

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        figure, (left, right) = new_figure(3.6, ncols=2)
        row = self.normed()
        left.vlines(np.arange(FEATURES), 0, row.numpy(), color=PALETTE[0], linewidth=1)
        left.vlines(FEATURE, 0, row[FEATURE].item(), color=PALETTE[1], linewidth=2.5)
        left.axhline(0, color=MUTED, linewidth=0.8)
        left.set(title="the row after the norm", xlabel="feature", xlim=(-5, FEATURES + 5))
        values = STOPS["value"]
        large, others = zip(*(_sizes(self.normed(value)) for value in values), strict=True)
        right.plot(values, np.abs(large), color=PALETTE[1], label="feature 507")
        right.plot(values, others, color=PALETTE[0], label="the others, RMS")
        right.axvline(state["value"], color=MUTED, linewidth=1, linestyle=":")
        right.set(xscale="log", yscale="log", title="size after the norm", ylim=(1e-3, 1e5))
        right.set_xlabel("feature 507 before it")
        right.legend(loc="upper left")
        sizes = (*_sizes(self.x), *_sizes(row))
        before, others_before, after, others_after = map(format_number, sizes)
        return figure, (
            f"A row of 576 features, those of {TOKENS[state['token']]}, before and after "
            f"{NORMS[state['norm']]}: feature 507 is {before} and becomes {after}, the size of the "
            f"others is {others_before} and becomes {others_after}."
        )


def _sizes(row: Tensor) -> tuple[float, float]:
    """Return the large entry, and the size (RMS) of all others."""
    others = row[torch.arange(FEATURES) != FEATURE]
    return row[FEATURE].item(), others.square().mean().sqrt().item()
