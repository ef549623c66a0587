"""What new text costs SmolLM2 beyond a jump of positions, and what a passage costs that it has
read before. Chapter 16."""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from chapters.c16_longer_context import load
from chapters.c16_longer_context.smollm2_memory import GAPS
from course_utils.plots.style import INK, MUTED, PALETTE, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["loss_and_memory"]

KINDS = {"loss": "new text", "copy": "the passage again"}


def loss_and_memory(setting: str = "NTK ×2", gap: int = 14_000) -> CourseWidget:
    """Return what SmolLM2 pays beyond a jump of positions, for new text and for a passage that it
    has read, from the record ``smollm2-memory``, ready to display.

    Args:
        setting: a method and its factor: ``"none ×1"``, ``"YaRN ×2"``, …, as the record has them.
        gap: positions that are jumped over: 0, 6000, 10,000 or 14,000.
    """
    settings: dict[str, dict[str, list[list[float]]]] = {}
    for row in load("smollm2-memory"):  # a row a passage, with all gaps
        own = settings.setdefault(f"{row['method']} ×{row['factor']}", {kind: [] for kind in KINDS})
        for kind in KINDS:
            own[kind].append([round(nats, 4) for nats in row[kind]])
    chosen = one_of({"setting": settings, "gap": GAPS}, setting=setting, gap=gap)
    return _LossAndMemory(chosen, {"settings": settings, "stops": {"gap": GAPS}, "kinds": KINDS})


class _LossAndMemory(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("loss_and_memory.js"))

    @property
    def x(self) -> Tensor:
        """Nats a token beyond the chosen jump, of new text and of the copy: (2, 3 passages)."""
        return self._nats(self.state["setting"])[:, :, GAPS.index(self.state["gap"])]

    def _nats(self, setting: str) -> Tensor:
        """Return what a setting pays: (2, 3 passages, gaps), float64."""
        own = self.data["settings"][setting]
        return torch.tensor([own[kind] for kind in KINDS], dtype=torch.float64)

    def means(self) -> dict[str, float]:
        """Return the means over the passages, and what new text costs unscaled without a jump."""
        new, copy = self.x.mean(1).tolist()
        return {"new": new, "copy": copy, "home": self._nats("none ×1")[0, :, 0].mean().item()}

    def picture(self) -> tuple[Figure, str]:
        setting, gap = self.state["setting"], self.state["gap"]
        figure, axes = new_figure(3.6)
        for colour, name, nats in zip(PALETTE, KINDS.values(), self._nats(setting), strict=False):
            axes.plot(  # the thin line only joins the four means
                GAPS, nats.mean(0), color=colour, linewidth=1, linestyle=":",
                marker="_", markersize=18, markeredgewidth=3,
            )  # fmt: skip
            axes.plot(GAPS, nats.T, "o", color=colour, markersize=4, alpha=0.6)
            start = (0, nats[:, 0].max().item())
            axes.annotate(name, start, (6, 4), textcoords="offset points", color=colour)
        means = self.means()
        axes.plot([gap, gap], [means["copy"], means["new"]], color=INK, linewidth=4)
        axes.axhline(means["home"], color=MUTED, linewidth=1, linestyle=":")
        axes.annotate(
            "new text, unscaled, no jump", (300, means["home"]), (0, -14),
            textcoords="offset points", color=MUTED,
        )  # fmt: skip
        axes.set(ylim=(0, 7), title=f"SmolLM2, {setting}")
        axes.set_xticks(GAPS, labels=[f"{jump:,}" for jump in GAPS])
        axes.set(xlabel="positions that are jumped over", ylabel="nats a token")
        return figure, (
            f"SmolLM2, {setting}, beyond a jump of {gap:,} positions: new text costs "
            f"{means['new']:.2f} nats a token, {means['home']:.2f} unscaled without a jump, and a "
            f"passage that was read before the jump {means['copy']:.2f}."
        )
