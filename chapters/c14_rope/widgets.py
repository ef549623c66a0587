"""The clocks of a rotary embedding."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Wedge
from torch import Tensor

from course_utils.plots.style import INK, MUTED, PALETTE, RULE, new_figure
from course_utils.table import format_number
from course_utils.widgets import rope_shapes
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["rope_clocks", "rope_shapes"]

LAYOUTS = {"half": "halves", "interleaved": "neighbours"}
VECTORS = {"equal": "equal", "aimed": "aimed half-way", "random": "random"}
_ONES = list(range(33))
_THEN = [40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
CLOCK_STOPS: dict[str, list[Any]] = {
    "position": [*_ONES, *_THEN, 8192, 16_384, 32_768, 65_536, 100_000, 131_071],
    "distance": [*_ONES, *_THEN],
    "base": [10, 100, 1000, 10_000, 100_000, 500_000, 1_000_000],
    "dim": [2, 4, 8, 16, 32, 64, 128],
    "reach": [64, 512, 4096],
    "share": [0.25, 0.5, 0.75, 1.0],
}
_RADIUS = 0.44  # of a clock in the picture, whose clocks stand 1 apart


def rope_clocks(
    base: int = 10_000,
    dim: int = 16,
    vectors: str = "equal",
    reach: int = 64,
    *,
    share: float = 1.0,
    layout: str = "half",
) -> CourseWidget:
    """Return the clocks beside the score, ready to display.

    Args:
        base: the rotary base: 10, 100, ... 1,000,000.
        dim: the head's dimension, twice the number of clocks: 2, 4, 8, ... 128.
        vectors: ``"equal"`` (query and key are one vector, all pairs of one length), ``"aimed"``
            (the key is turned so that the score is largest half-way along the axis) or ``"random"``
            (drawn once, the same for everyone).
        reach: the last distance on the score's axis: 64, 512 or 4096.
        share: of the pairs that turn, the first ones: 0.25, 0.5, 0.75 or 1; one pair always turns.
        layout: which entries are a pair: ``"half"``, k and k plus half of what turns, or
            ``"interleaved"``, neighbours. The clocks and the score are the same.
    """
    chosen = one_of(
        {**CLOCK_STOPS, "vectors": VECTORS, "layout": LAYOUTS},
        base=base,
        dim=dim,
        vectors=vectors,
        reach=reach,
        share=share,
        layout=layout,
    )
    state = {"position": 4, "distance": 3, **chosen, "picked": min(1, dim // 2 - 1)}
    data = {"vectors": VECTORS, "layouts": LAYOUTS, "stops": CLOCK_STOPS}
    return _RopeClocks(state, {**data, "random": _random_pairs().tolist()})


class _RopeClocks(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("rope_clocks.js"))

    @property
    def x(self) -> Tensor:
        """The query and the key, turned to where they stand, each of length 1, so that their
        product is the score: (2, dim), float64, in the layout."""
        state: dict[str, Any] = self.state
        both = zip(*self._hands().values(), strict=True)
        angles, length = (torch.from_numpy(np.stack(part)) for part in both)  # (2, dim / 2)
        cosines, sines = length * angles.cos(), length * angles.sin()
        turning = 2 * self._turning()
        rows = torch.stack([cosines, sines], dim=-1).flatten(1)  # neighbours are a pair
        if state["layout"] == "half":
            halves = [cosines[:, : turning // 2], sines[:, : turning // 2], rows[:, turning:]]
            return torch.cat(halves, dim=1)
        return rows

    @property
    def scores(self) -> Tensor:
        """The curve that is seen, at distances 0 … reach: (reach + 1,), float64."""
        query, key, phase = self._pairs()
        distances = np.arange(self.state["reach"] + 1)[:, None]
        return torch.from_numpy(np.cos(distances * self._theta() + phase) @ (query * key))

    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The lengths of the query's pairs and of the key's, each vector of length 1, and the angle
        from key to query at distance 0: three of (dim / 2,)."""
        state: dict[str, Any] = self.state
        count = state["dim"] // 2
        if state["vectors"] == "random":
            query, key, phase = _random_pairs()[:, :count]
            return query / np.linalg.norm(query), key / np.linalg.norm(key), phase
        aim = state["reach"] // 2 if state["vectors"] == "aimed" else 0
        length = np.full(count, count**-0.5)
        return length, length, -aim * self._theta()

    def _hands(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The angles and the lengths of each vector's pairs, (dim / 2,) each, by name."""
        (query, key, phase), theta = self._pairs(), self._theta()
        at = self.state["position"]
        ahead = (at + self.state["distance"]) * theta
        return {"query": (ahead, query), "key": (at * theta - phase, key)}

    def _turning(self) -> int:
        return max(1, int(self.state["dim"] * self.state["share"]) // 2)

    def _theta(self) -> np.ndarray:
        """Radians a position of each pair, 0 of one that stands still: (dim / 2,)."""
        turning = self._turning()
        theta = np.zeros(self.state["dim"] // 2)
        theta[:turning] = self.state["base"] ** (-np.arange(turning) / turning)
        return theta

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        position, distance, reach = (state[name] for name in ("position", "distance", "reach"))
        scores = self.scores.numpy()
        figure, (clocks, curve) = new_figure(height=3.6, ncols=2)
        _draw_clocks(clocks, self._hands(), state["picked"])
        curve.plot(scores, color=PALETTE[2], linewidth=2 if reach <= 64 else 1)
        curve.axvline(distance, color=MUTED, linestyle=":", linewidth=1.2)
        curve.plot(distance, scores[distance], marker="o", color=INK)
        curve.set(ylim=(-1.05, 1.05), xlim=(0, reach))
        curve.set(title="score, as a share of |q||k|", xlabel="distance (positions)")
        return figure, (
            f"The clocks of a rotary embedding of dimension {state['dim']}, {2 * self._turning()} "
            f"of them rotary ({LAYOUTS[state['layout']]}), base {int(state['base']):,}, for "
            f"a key at position {position:,} and a query {distance:,} further on, beside the "
            f"score at distances up to {reach:,} (vectors: {VECTORS[state['vectors']]}): here "
            f"{format_number(float(scores[distance]))}."
        )


def _draw_clocks(axes: Axes, hands: dict[str, tuple[np.ndarray, np.ndarray]], picked: int) -> None:
    """Draw a clock for each pair; ``hands`` are their angles and lengths, by name."""
    (queries, _), (keys, _) = hands.values()
    count = len(keys)
    columns = 1 << math.ceil(math.log2(count) / 2)  # counts are powers of two: full rows
    numbers = np.arange(count, dtype=float)
    across, down = numbers % columns, -(numbers // columns)
    for k, centre in enumerate(zip(across.tolist(), down.tolist(), strict=True)):
        edge = INK if k == picked else RULE
        axes.add_patch(Circle(centre, _RADIUS, facecolor="none", edgecolor=edge, linewidth=1.5))
        between = (queries[k] - keys[k] + np.pi) % (2 * np.pi) - np.pi
        start, end = sorted(np.degrees([keys[k], keys[k] + between]))
        wedge = axes.add_patch(Wedge(centre, _RADIUS, start, end))
        wedge.set(facecolor=PALETTE[5], alpha=0.45, edgecolor="none")
    for name, longest, colour, dashes in (
        ("key", 0.62, PALETTE[1], (0, (2, 1))),
        ("query", 0.88, PALETTE[0], "-"),
    ):
        angles, lengths = hands[name]
        reach = longest * _RADIUS * lengths / lengths.max()
        tips = reach * np.stack([np.cos(angles), np.sin(angles)])
        centres = np.stack([across, down])
        ends = np.stack([centres, centres + tips])  # (ends, x and y, pairs)
        look: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 2.2}
        lines = axes.plot(*ends.swapaxes(0, 1), marker="o", markersize=4, markevery=[1], **look)
        lines[0].set_label(name)
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
