"""A clock for each pair of a rotary embedding, and the score of two tokens against the distance between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from matplotlib.figure import Figure

from course_utils.arguments import require_names, require_whole
from course_utils.book.tables import format_number
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import require_stops

__all__ = ["VECTORS", "ClockFigure", "ClockState", "rope_clocks", "rope_clocks_figure"]

VECTORS = {"equal": "equal", "aimed": "aimed at half the axis", "random": "random"}
CONTROLS = ("position", "distance", "base", "dim", "vectors", "reach")

_ONES = list(range(33))
_THEN = [40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
STOPS: dict[str, list[int]] = {
    "position": [*_ONES, *_THEN, 8192, 16_384, 32_768, 65_536, 100_000, 131_071],
    "distance": [*_ONES, *_THEN],
    "base": [10, 100, 1000, 10_000, 100_000, 500_000, 1_000_000],
    "dim": [2, 4, 8, 16, 32, 64, 128],
    "reach": [64, 512, 4096],
}


@dataclass(frozen=True)
class ClockState:
    """What the learner has chosen.

    Args:
        position: where the key stands.
        distance: how much further on the query stands.
        base: the rotary base.
        dim: the rotary dimension, twice the number of clocks.
        vectors: a key of ``VECTORS``: what the query and the key are.
        reach: the last distance on the score's axis.
        picked: which pair the facts are about.

    Raises:
        ValueError: a value that no control can produce.
    """

    position: int = 4
    distance: int = 3
    base: float = 10_000
    dim: int = 16
    vectors: str = "equal"
    reach: int = 64
    picked: int = 0

    def __post_init__(self) -> None:
        require_stops(self, {name: STOPS[name] for name in ("base", "dim", "reach")})
        limits = {"position": STOPS["position"][-1], "distance": self.reach, "picked": self.dim // 2 - 1}
        for name, last in limits.items():
            require_whole(name, getattr(self, name), 0, last)
        if self.vectors not in VECTORS:
            raise ValueError(f"vectors must be one of {', '.join(VECTORS)}: got {self.vectors!r}")


@dataclass(frozen=True)
class ClockFigure:
    """Everything that the picture of a state shows.

    Args:
        theta: radians that each pair turns from one position to the next, (dim/2,).
        key: the angle of each key hand in [0, 2π), (dim/2,).
        query: the angle of each query hand in [0, 2π), (dim/2,).
        between: how far the query hand has turned past the key hand, in [0, 2π), (dim/2,).
        scores: the score at distances 0 … reach as a share of the largest possible, (reach + 1,).
        score: the one at the chosen distance.
    """

    theta: list[float]
    key: list[float]
    query: list[float]
    between: list[float]
    scores: list[float]
    score: float


def rope_clocks_figure(state: ClockState) -> ClockFigure:
    """Return what the widget shows; the browser's ``clockFigure`` takes the same steps."""
    theta = np.array([state.base ** (-2 * k / state.dim) for k in range(state.dim // 2)])
    share, phase = _pairs(state.vectors, theta, state.reach)
    distances = np.arange(state.reach + 1)
    scores = np.cos(distances[:, None] * theta + phase) @ share  # (reach + 1,)
    return ClockFigure(
        theta=theta.tolist(),
        key=_hands(state.position, theta),
        query=_hands(state.position + state.distance, theta),
        between=_hands(state.distance, theta),
        scores=scores.tolist(),
        score=float(scores[state.distance]),
    )


def rope_clocks(
    controls: Sequence[str] = CONTROLS,
    *,
    position: int = 4,
    distance: int = 3,
    base: float = 10_000,
    dim: int = 16,
    vectors: str = "equal",
    reach: int = 64,
) -> CourseWidget:
    """Return the clocks beside the score, ready to display.

    Args:
        controls: which of ``position, distance, base, dim, vectors, reach`` are shown.
        position: where the key stands.
        distance: how much further on the query stands.
        base: the rotary base.
        dim: the rotary dimension.
        vectors: ``"equal"`` (query and key are one vector, all pairs of one length), ``"aimed"`` (the key is turned so
            that the score is largest half-way along the axis) or ``"random"`` (drawn once, the same for everyone).
        reach: the last distance on the score's axis.

    Raises:
        ValueError: an unknown control, or a value that no control can produce.
    """
    require_names("controls", controls, CONTROLS)
    state = ClockState(position, distance, base, dim, vectors, reach)
    return _RopeClocks(replace(state, picked=min(1, state.dim // 2 - 1)), controls)


class _RopeClocks(CourseWidget):
    _esm = browser_module("rope_clocks")

    def __init__(self, state: ClockState, controls: Sequence[str]) -> None:
        random = _random_pairs().tolist()
        data = {"controls": list(controls), "vectors": VECTORS, "stops": STOPS, "random": random}
        super().__init__(state, data)

    def static_figure(self) -> Figure:
        from course_utils import plots

        state: ClockState = self.chosen()
        return plots.rope_clocks(state, rope_clocks_figure(state))

    def describe(self) -> str:
        state: ClockState = self.chosen()
        data = rope_clocks_figure(state)
        return (
            f"The clocks of a rotary embedding of dimension {state.dim}, base {int(state.base):,}, for a key at "
            f"position {state.position:,} and a query {state.distance:,} further on, beside the score at distances up "
            f"to {state.reach:,} (vectors: {VECTORS[state.vectors]}): here {format_number(data.score)}."
        )


def _hands(position: int, theta: np.ndarray) -> list[float]:
    return [math.fmod(position * speed, 2 * math.pi) for speed in theta.tolist()]


@cache
def _random_pairs() -> np.ndarray:
    """Lengths of a random query's pairs, of a random key's, and the angle from key to query: (3, 64), to 3 digits."""
    rng = np.random.default_rng(12)
    query, key = (rng.standard_normal(64) + 1j * rng.standard_normal(64) for _ in range(2))
    return np.round((np.abs(query), np.abs(key), np.angle(query * key.conj())), 3)


def _pairs(vectors: str, theta: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the most that each pair adds to the score, and its angle at distance 0, (dim/2,) each."""
    count = len(theta)
    if vectors == "random":
        query, key, angle = _random_pairs()[:, :count]
        return query * key / (np.linalg.norm(query) * np.linalg.norm(key)), angle
    return np.full(count, 1 / count), -(reach // 2) * theta if vectors == "aimed" else np.zeros(count)
