"""How much of a passage SmolLM2 remembers over each jump of positions, and what new text costs
there. Chapter 16."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from chapters.c16_longer_context import figures, load
from chapters.c16_longer_context.smollm2_length import WINDOW
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["METHODS", "loss_and_memory"]

METHODS = ("none", "PI", "NTK", "YaRN", "by parts", "YaRN to 3 turns")
STOPS: dict[str, list[float]] = {
    "factor": [2, 4],
    "enough": [percent / 100 for percent in range(10, 95, 5)],
}


def loss_and_memory(
    methods: Sequence[str] = METHODS[:5], factor: int = 2, enough: float = 0.5
) -> CourseWidget:
    """Return the share of a passage that SmolLM2 remembers over each jump, and what the jump adds
    to the loss of new text, from the record ``smollm2-memory``.

    Args:
        methods: which to draw: ``none, PI, NTK, YaRN, by parts, YaRN to 3 turns``.
        factor: 2 or 4; PI is recorded by 2, YaRN to 3 turns by 4, ``none`` is beside both.
        enough: the share that counts as remembered, 0.1, 0.15, … 0.9.
    """
    if isinstance(methods, str) or not set(methods) <= set(METHODS):
        raise ValueError(f"methods must be among {', '.join(METHODS)}: got {methods!r}")
    chosen = one_of(STOPS, factor=factor, enough=enough)
    state = {"methods": [name for name in METHODS if name in methods], **chosen}
    data = {"methods": dict.fromkeys(METHODS, ""), "stops": STOPS, "window": WINDOW}
    return _LossAndMemory(state, {**data, "settings": _settings()})


def _settings() -> dict[str, dict[str, list]]:
    """Return by method and factor its jumps, and a list for each passage: what a copy saves over
    each of them of what new text costs there, and what the jump adds to the loss of new text."""
    record = load("smollm2-memory")
    home = {row["excerpt"]: row["loss"][0] for row in record.select(method="none")}
    settings: dict[str, dict[str, list]] = {}
    for row in record:
        name = f"{row['method']} ×{row['factor']}"
        own = settings.setdefault(name, {"gap": row["gap"], "share": [], "added": []})
        pairs = zip(row["copy"], row["loss"], strict=True)
        own["share"].append([round(1 - copy / new_text, 6) for copy, new_text in pairs])
        own["added"].append([round(nats - home[row["excerpt"]], 4) for nats in row["loss"]])
    return settings


class _LossAndMemory(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("loss_and_memory.js"))

    @property
    def x(self) -> dict[str, Tensor]:
        """The shares that are drawn, by method: (3 passages, gaps), float64."""
        return {
            method: torch.tensor(own["share"], dtype=torch.float64)
            for method, own in self._drawn().items()
        }

    @property
    def gaps(self) -> dict[str, Tensor]:
        """The jumps of the shares, by method: (gaps,)."""
        return {method: torch.tensor(own["gap"]) for method, own in self._drawn().items()}

    def _drawn(self) -> dict[str, Any]:
        """Return the chosen methods that are recorded by this factor, with what is recorded."""
        factor, settings = self.state["factor"], self.data["settings"]
        names = {m: f"{m} ×{1 if m == 'none' else factor}" for m in self.state["methods"]}
        return {method: settings[name] for method, name in names.items() if name in settings}

    def reaches(self) -> dict[str, int]:
        """Return how far more than enough of all passages is remembered over every jump, by
        method; -1 where it is over none."""
        reaches = {}
        for method, shares in self.x.items():
            kept = int((shares.min(0).values > self.state["enough"]).cumprod(0).sum())
            reaches[method] = int(self.gaps[method][kept - 1]) if kept else -1
        return reaches

    def picture(self) -> tuple[Figure, str]:
        factor, enough = self.state["factor"], self.state["enough"]
        figure = figures.share_remembered(
            {method: (self.gaps[method], shares) for method, shares in self.x.items()},
            {method: own["added"] for method, own in self._drawn().items()},
            enough,
            WINDOW * factor,
        )
        windows = [
            f"{method} {'nowhere' if reach < 0 else f'{reach:,}'}"
            for method, reach in self.reaches().items()
        ]
        return figure, (
            f"Share of a passage that SmolLM2 remembers, against the jump, ×{factor}, three "
            f"passages and the least of them. More than {enough:.0%} of each is left up to: "
            f"{', '.join(windows) or 'no method is chosen'}; "
            f"the factor promises {WINDOW * factor:,}. Below, what new text costs more."
        )
