"""The ladder from a position to the sinusoid, and what an encoding tells attention, by distance."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots.style import INK, PALETTE, new_figure
from course_utils.rope import alibi_slopes, sinusoidal, t5_relative_bucket
from course_utils.table import format_number
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["code_ladder", "encoding_by_distance"]

CODES = {
    "integer": "the position m",
    "share": "m / T",
    "binary": "binary",
    "sinusoid": "sinusoid",
}
TOKENS = [8, 16, 32, 64, 128]
_DIGITS = 6

ENCODINGS = {"none": "none", "sinusoidal": "sinusoidal", "t5": "T5 bias", "alibi": "ALiBi"}
DISTANCE_STOPS: dict[str, list[int]] = {
    "heads": list(range(1, 17)),
    "dim": [2, 4, 8, 16, 32, 64, 128],
    "base": [10, 100, 1000, 10_000, 100_000],
    "max_distance": [32, 64, 128, 256],
    "reach": [32, 128, 512],
}
_SERIES = {"none": 6, "sinusoidal": 0, "t5": 2, "alibi": 3}  # as in the experiment's figures
_LABELS = {
    "none": "added to the score",
    "alibi": "added to the score",
    "sinusoidal": "product of two codes,\nas a share of the largest",
    "t5": "bucket",
}


def code_ladder(code: str = "integer", *, tokens: int = 16, m: int = 7) -> CourseWidget:
    """Return the numbers that a code gives each position, ready to display.

    Args:
        code: ``"integer"``, ``"share"`` (of the length), ``"binary"`` (six digits, the last first)
            or ``"sinusoid"`` (12 columns, base 64: each pair half as fast as the one before).
        tokens: the length of the text: 8, 16, 32, 64 or 128.
        m: the position that is looked at, which has a next one.
    """
    choices = {"code": CODES, "tokens": TOKENS, "m": range(tokens - 1)}
    chosen = one_of(choices, tokens=tokens, code=code, m=m)
    return _CodeLadder(chosen, {"codes": CODES, "stops": {"tokens": TOKENS}})


class _CodeLadder(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("code_ladder.js"))

    @property
    def x(self) -> Tensor:
        """The code of each position, (T, numbers), float32."""
        code, tokens = self.state["code"], self.state["tokens"]
        positions = torch.arange(tokens)
        if code == "binary":
            return ((positions[:, None] >> torch.arange(_DIGITS)) & 1).float()
        if code == "sinusoid":
            return sinusoidal(positions, 2 * _DIGITS, 2.0**_DIGITS)
        return positions[:, None] / (tokens if code == "share" else 1)

    def picture(self) -> tuple[Figure, str]:
        code, tokens, m = (self.state[name] for name in ("code", "tokens", "m"))
        values = self.x.numpy()
        steps = self.x.diff(dim=0).norm(dim=1)
        figure, (lines, bars) = new_figure(4.6, nrows=2, height_ratios=[3, 1], sharex=True)
        for number, column in enumerate(values.T):
            look = {"color": PALETTE[number // (1 + (code == "sinusoid")) % 6], "linestyle": "-"}
            down = 0 if values.shape[1] == 1 else -2.5 * number
            lines.plot(column + down, drawstyle="steps-post" * (code == "binary") or None, **look)
            lines.plot(m, column[m] + down, "o", color=look["color"])
        lines.axvline(m, color=INK, linestyle=":", linewidth=1)
        lines.set(ylabel="the code", **({"yticks": []} if values.shape[1] > 1 else {}))
        bars.bar(
            range(tokens - 1),
            steps,
            color=[PALETTE[1 if at == m else 5] for at in range(tokens - 1)],
        )
        bars.set(xlabel="position", ylabel="step")
        low, high = (format_number(float(step)) for step in (steps.min(), steps.max()))
        return figure, (
            f"The code «{CODES[code]}» of {tokens} positions, a line for each of its "
            f"{values.shape[1]} numbers, with position {m} marked; below, how long the step from "
            f"each position to the next is: from {low} to {high}."
        )


def encoding_by_distance(
    encoding: str = "alibi",
    *,
    heads: int = 8,
    head: int = 1,
    dim: int = 64,
    base: int = 10_000,
    max_distance: int = 128,
    reach: int = 32,
) -> CourseWidget:
    """Return a curve against distance with a choice of encodings, ready to display.

    Args:
        encoding: ``"none"``, ``"sinusoidal"``, ``"t5"`` or ``"alibi"``.
        heads: number of heads, for ALiBi: 1 to 16.
        head: the one that is shown, counted from 1.
        dim: columns of the sinusoidal code: 2, 4, 8, ... 128.
        base: of the sinusoidal code: 10, 100, ... 100,000.
        max_distance: what T5's buckets are laid out for (the last one starts a little before it):
            32, 64, 128 or 256.
        reach: the last distance on the axis: 32, 128 or 512.
    """
    choices = {"encoding": ENCODINGS, **DISTANCE_STOPS, "head": range(1, heads + 1)}
    chosen = one_of(
        choices,
        heads=heads,
        encoding=encoding,
        head=head,
        dim=dim,
        base=base,
        max_distance=max_distance,
        reach=reach,
    )
    slopes = [alibi_slopes(count).tolist() for count in DISTANCE_STOPS["heads"]]
    buckets = [_buckets(distance) for distance in DISTANCE_STOPS["max_distance"]]
    data = {"encodings": ENCODINGS, "stops": DISTANCE_STOPS, "slopes": slopes, "buckets": buckets}
    return _EncodingByDistance(chosen, data)


class _EncodingByDistance(CourseWidget):
    _esm = browser_module(Path(__file__).with_name("encoding_by_distance.js"))

    @property
    def x(self) -> Tensor:
        """What the encoding tells attention of the distances 0 … reach, float32: of ALiBi (heads,
        reach + 1), else (reach + 1,); of T5's the number of the bucket."""
        state: dict[str, Any] = self.state
        distances = torch.arange(state["reach"] + 1)
        if state["encoding"] == "alibi":
            return -alibi_slopes(state["heads"])[:, None] * distances
        if state["encoding"] == "sinusoidal":
            code = sinusoidal(distances, state["dim"], state["base"], dtype=torch.float64)
            return (code @ code[0] / (state["dim"] / 2)).float()
        if state["encoding"] == "t5":
            return torch.tensor(_buckets(state["max_distance"])[: len(distances)]).float()
        return torch.zeros(len(distances))

    def picture(self) -> tuple[Figure, str]:
        state: dict[str, Any] = self.state
        encoding = state["encoding"]
        values, settings = self.x.numpy(), ""
        if encoding == "sinusoidal":
            settings = f", {state['dim']} columns, base {state['base']:,}"
        elif encoding == "alibi":
            heads, values = values, values[state["head"] - 1]
            settings = f", head {state['head']} of {state['heads']}"
        elif encoding == "t5":
            buckets = _buckets(state["max_distance"])
            settings = f", last bucket from distance {buckets.index(buckets[-1])}"

        figure, axes = new_figure(height=3.4)
        colour = PALETTE[_SERIES[encoding]]
        axes.axhline(0, color=INK, linewidth=0.8, linestyle="-")
        if encoding == "alibi":
            axes.plot(heads.T, color=colour, alpha=0.5, linewidth=1, linestyle="-")
        axes.plot(values, color=colour, marker="o" if len(values) <= 64 else "", linestyle="-")
        axes.set(xlabel="distance (tokens)", ylabel=_LABELS[encoding])
        return figure, (
            f"What the encoding «{ENCODINGS[encoding]}»{settings} tells attention about distances "
            "0 to "
            f"{state['reach']}: from {format_number(float(values[0]))} to "
            f"{format_number(float(values[-1]))}."
        )


@cache
def _buckets(max_distance: int) -> list[int]:
    distances = torch.arange(DISTANCE_STOPS["reach"][-1] + 1)
    return t5_relative_bucket(-distances, bidirectional=False, max_distance=max_distance).tolist()
