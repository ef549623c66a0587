"""The clocks of a rotary embedding."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.plots.style import INK, MUTED, PALETTE, RULE, new_figure
from course_utils.table import format_number
from course_utils.widgets import rope_shapes
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["rope_clocks", "rope_shapes"]

VECTORS = {"equal": "equal", "aimed": "aimed at half the axis", "random": "random"}
_ONES = list(range(33))
_THEN = [40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
CLOCK_STOPS: dict[str, list[int]] = {
    "position": [*_ONES, *_THEN, 8192, 16_384, 32_768, 65_536, 100_000, 131_071],
    "distance": [*_ONES, *_THEN],
    "base": [10, 100, 1000, 10_000, 100_000, 500_000, 1_000_000],
    "dim": [2, 4, 8, 16, 32, 64, 128],
    "reach": [64, 512, 4096],
}


def rope_clocks(
    base: int = 10_000, dim: int = 16, vectors: str = "equal", reach: int = 64
) -> CourseWidget:
    """Return the clocks beside the score, ready to display.

    Args:
        base: the rotary base: 10, 100, ... 1,000,000.
        dim: the rotary dimension, twice the number of clocks: 2, 4, 8, ... 128.
        vectors: ``"equal"`` (query and key are one vector, all pairs of one length), ``"aimed"``
            (the key is turned so that the score is largest half-way along the axis) or ``"random"``
            (drawn once, the same for everyone).
        reach: the last distance on the score's axis: 64, 512 or 4096.
    """
    chosen = one_of(
        {**CLOCK_STOPS, "vectors": VECTORS}, base=base, dim=dim, vectors=vectors, reach=reach
    )
    state = {"position": 4, "distance": 3, **chosen, "picked": min(1, dim // 2 - 1)}
    return _RopeClocks(
        state, {"vectors": VECTORS, "stops": CLOCK_STOPS, "random": _random_pairs().tolist()}
    )


class _RopeClocks(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("rope_clocks.js"))

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        position, distance, reach, count = (
            state["position"],
            state["distance"],
            state["reach"],
            state["dim"] // 2,
        )
        # (count,), radians a position
        theta = state["base"] ** (-2 * np.arange(count) / state["dim"])
        share, phase = np.full(count, 1 / count), np.zeros(count)
        if state["vectors"] == "aimed":
            phase = -(reach // 2) * theta
        elif state["vectors"] == "random":
            query, key, phase = _random_pairs()[:, :count]
            share = query * key / (np.linalg.norm(query) * np.linalg.norm(key))
        scores = np.cos(np.arange(reach + 1)[:, None] * theta + phase) @ share  # (reach + 1,)

        figure, (clocks, curve) = new_figure(height=3.6, ncols=2)
        _draw_clocks(clocks, position * theta, (position + distance) * theta, state["picked"])
        curve.plot(scores, color=PALETTE[2], linewidth=2 if reach <= 64 else 1)
        curve.axvline(distance, color=MUTED, linestyle=":", linewidth=1.2)
        curve.plot(distance, scores[distance], marker="o", color=INK)
        curve.set(ylim=(-1.05, 1.05), xlim=(0, reach))
        curve.set(title="score, as a share of |q||k|", xlabel="distance (positions)")
        return figure, (
            f"The clocks of a rotary embedding of dimension {state['dim']}, base "
            f"{int(state['base']):,}, for a key at position "
            f"{position:,} and a query {distance:,} further on, beside the score at distances up "
            f"to {reach:,} (vectors: {VECTORS[state['vectors']]}): here "
            f"{format_number(float(scores[distance]))}."
        )


def _draw_clocks(axes: Axes, keys: np.ndarray, queries: np.ndarray, picked: int) -> None:
    count = len(keys)
    columns = 1 << math.ceil(math.log2(count) / 2)  # counts are powers of two: full rows
    across, down = np.arange(count) % columns, -(np.arange(count) // columns)
    edges = [INK if k == picked else RULE for k in range(count)]
    axes.scatter(across, down, s=(170 / columns) ** 2, facecolor="none", edgecolor=edges)
    for name, angle, length, colour in (
        ("key", keys, 0.28, PALETTE[1]),
        ("query", queries, 0.4, PALETTE[0]),
    ):
        tips = length * np.cos(angle), length * np.sin(angle)
        axes.quiver(
            across,
            down,
            *tips,
            color=colour,
            label=name,
            angles="xy",
            scale_units="xy",
            scale=1,
            width=0.008,
            headwidth=4,
        )
    axes.set(
        xlim=(-0.6, columns - 0.4), ylim=(down[-1] - 0.6, 0.6), aspect="equal", title="the pairs"
    )
    axes.axis("off")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, fontsize=9)


@cache
def _random_pairs() -> np.ndarray:
    """Lengths of a random query's pairs, of a random key's, and the angle from key to query: (3,
    64), to 3 digits."""
    rng = np.random.default_rng(12)
    query, key = (rng.standard_normal(64) + 1j * rng.standard_normal(64) for _ in range(2))
    return np.round((np.abs(query), np.abs(key), np.angle(query * key.conj())), 3)
