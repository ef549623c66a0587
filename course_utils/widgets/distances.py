"""What an encoding tells attention about a distance: a curve for each of none, sinusoidal, T5 and ALiBi."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from matplotlib.figure import Figure

from course_utils.arguments import require_whole
from course_utils.book.tables import format_number
from course_utils.rope import alibi_slopes, t5_relative_bucket
from course_utils.widgets.base import CourseWidget, browser_module
from course_utils.widgets.controls import require_stops

__all__ = ["ENCODINGS", "DistanceState", "encoding_by_distance", "encoding_by_distance_values"]

ENCODINGS = {"none": "none", "sinusoidal": "sinusoidal", "t5": "T5 bias", "alibi": "ALiBi"}
STOPS: dict[str, list[int]] = {
    "heads": list(range(1, 17)),
    "dim": [2, 4, 8, 16, 32, 64, 128],
    "base": [10, 100, 1000, 10_000, 100_000],
    "max_distance": [32, 64, 128, 256],
    "reach": [32, 128, 512],
}


@dataclass(frozen=True)
class DistanceState:
    """What the learner has chosen.

    Args:
        encoding: a key of ``ENCODINGS``.
        heads: number of heads, for ALiBi.
        head: the one that is shown, counted from 1.
        dim: columns of the sinusoidal code.
        base: of the sinusoidal code.
        max_distance: what T5's buckets are laid out for; the last one starts a little before it.
        reach: the last distance on the axis.

    Raises:
        ValueError: a value that no control can produce.
    """

    encoding: str = "alibi"
    heads: int = 8
    head: int = 1
    dim: int = 64
    base: int = 10_000
    max_distance: int = 128
    reach: int = 32

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}: got {self.encoding!r}")
        require_stops(self, STOPS)
        require_whole("head", self.head, 1, self.heads)


def encoding_by_distance_values(state: DistanceState) -> list[float]:
    """Return what the widget shows at distances 0 … reach; the browser's ``distanceValues`` takes the same steps.

    For ``"none"`` and ``"alibi"`` it is what is added to the score; for ``"sinusoidal"`` the product of two codes as a
    share of its largest value; for ``"t5"``, whose additions are learned, the bucket that the distance falls into.
    """
    distances = np.arange(state.reach + 1)
    if state.encoding == "sinusoidal":
        frequencies = np.array([state.base ** (-2 * i / state.dim) for i in range(state.dim // 2)])
        return np.cos(distances[:, None] * frequencies).mean(1).tolist()
    if state.encoding == "alibi":
        return (-_slopes(state.heads)[state.head - 1] * distances).tolist()
    return [float(value) for value in (_buckets(state.max_distance) if state.encoding == "t5" else [0] * 513)][
        : state.reach + 1
    ]


def encoding_by_distance(encoding: str = "alibi", **chosen: int) -> CourseWidget:
    """Return a curve against distance with a choice of encodings, ready to display.

    Args:
        encoding: ``"none"``, ``"sinusoidal"``, ``"t5"`` or ``"alibi"``.
        chosen: other fields of ``DistanceState``.

    Raises:
        ValueError: a value that no control can produce.
    """
    return _EncodingByDistance(DistanceState(encoding, **chosen))


class _EncodingByDistance(CourseWidget):
    _esm = browser_module("encoding_by_distance")

    def __init__(self, state: DistanceState) -> None:
        data = {
            "encodings": ENCODINGS,
            "stops": STOPS,
            "slopes": [_slopes(heads) for heads in STOPS["heads"]],
            "buckets": [_buckets(max_distance) for max_distance in STOPS["max_distance"]],
        }
        super().__init__(state, data)

    def static_figure(self) -> Figure:
        from course_utils import plots

        state: DistanceState = self.chosen()
        return plots.encoding_by_distance(state, encoding_by_distance_values(state))

    def describe(self) -> str:
        state: DistanceState = self.chosen()
        values = encoding_by_distance_values(state)
        settings = {
            "none": "",
            "sinusoidal": f", {state.dim} columns, base {state.base:,}",
            "t5": f", last bucket from distance {_last_bucket_start(state.max_distance)}",
            "alibi": f", head {state.head} of {state.heads}",
        }[state.encoding]
        return (
            f"What the encoding «{ENCODINGS[state.encoding]}»{settings} tells attention about distances 0 to "
            f"{state.reach}: from {format_number(values[0])} to {format_number(values[-1])}."
        )


@cache
def _slopes(heads: int) -> Sequence[float]:
    return alibi_slopes(heads).tolist()


def _last_bucket_start(max_distance: int) -> int:
    buckets = _buckets(max_distance)
    return buckets.index(buckets[-1])


@cache
def _buckets(max_distance: int) -> Sequence[int]:
    distances = torch.arange(STOPS["reach"][-1] + 1)
    return t5_relative_bucket(-distances, bidirectional=False, max_distance=max_distance).tolist()
