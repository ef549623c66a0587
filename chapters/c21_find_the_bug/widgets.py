"""One input through the worked piece and through its mended version. Chapter 21."""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from chapters.c21_find_the_bug.bugs import bug
from chapters.c21_find_the_bug.bugs.piece import Difference
from course_utils.plots import heatmap
from course_utils.plots.style import PAPER
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["one_input"]

# (sequences, tokens, features) in quarters: with float32's last digits at 10,000,000, which are
# whole numbers, the mean of no token is one of these, so that every layer norm is off there
VALUES = (
    ((1.0, -0.25, 2.0, 0.25), (-1.25, 0.75, 1.0, 2.0), (0.25, -2.0, 1.25, -1.0)),
    ((2.0, 1.0, -1.0, 0.25), (-0.25, 1.75, -1.0, 2.0), (3.0, -0.25, 0.25, 2.0)),
    ((-1.0, 0.25, 1.25, -2.0), (1.25, 2.0, -0.75, 0.0), (0.75, -1.25, 2.0, 1.0)),
)
STOPS = {
    "sequences": [1, 2, 3],
    "tokens": [1, 2, 3],
    "offset": [0, 100, 10_000, 1_000_000, 10_000_000],
}


def one_input(sequences: int = 3, tokens: int = 2, offset: int = 0) -> CourseWidget:
    """Return what piece 0 and its mended version make of one input, ready to display.

    Args:
        sequences, tokens: 1 to 3 of each; a token has four features.
        offset: what is added to all values: 0, 100, 10,000, 1,000,000 or 10,000,000.
    """
    chosen = one_of(STOPS, sequences=sequences, tokens=tokens, offset=offset)
    data = {"stops": STOPS, "values": VALUES, "tolerance": bug("0").tolerance}
    return _OneInput(chosen, data)


class _OneInput(CourseWidget):
    _esm = browser_module("cells", Path(__file__).with_name("one_input.js"))

    @property
    def x(self) -> Tensor:
        """The input: (sequences, tokens, 4), float32."""
        values = torch.tensor(VALUES)[: self.state["sequences"], : self.state["tokens"]]
        return values + self.state["offset"]

    def differences(self) -> tuple[Difference, Difference]:
        """How far off the piece and the mended one are on the input."""
        return bug("0").differences({"x": self.x})

    def picture(self) -> tuple[Figure, str]:
        both = self.differences()
        sequences, tokens, offset = self.state.values()
        verdicts = ["wrong" if off.ratio > 1 else "right" for off in both]
        said = f"the piece (left) is {verdicts[0]}, mended (right) it is {verdicts[1]}"
        figure = heatmap(
            torch.cat([off.got for off in both], dim=-1).flatten(0, 1),
            "sequence.token",
            "the four outputs of the piece, and of the mended one",
            row_names=[f"{b + 1}.{t + 1}" for b in range(sequences) for t in range(tokens)],
            column_names=[*"1234"] * 2,
            limits=(-2.5, 2.5),
            title=said,
        )
        figure.axes[0].axvline(3.5, color=PAPER, linewidth=6)
        sizes = f"({sequences}, {tokens}, 4), around {offset:,}"
        return figure, f"What both make of an input, {sizes}: {said}."
