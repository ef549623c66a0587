"""One input through the worked piece and through its mended version. Chapter 21."""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from chapters.c21_find_the_bug.bugs import bug
from chapters.c21_find_the_bug.bugs.piece import Difference
from course_utils.plots.style import PALETTE, PAPER, new_figure
from course_utils.widgets.base import CourseWidget, browser_module, one_of

__all__ = ["one_input"]

# (sequences, tokens, features) in quarters: with float32's last digits at 10,000,000, which are
# whole numbers, the mean of no token is one of these, so that every layer norm is off there
VALUES = (
    ((1.0, -0.25, 2.0, 0.25), (-1.25, 0.75, 1.0, 3.0), (0.25, -2.0, 1.25, -1.0)),
    ((2.0, 1.0, -1.0, 0.25), (-0.25, 1.75, -1.0, 2.0), (3.0, -0.25, 0.25, 2.0)),
    ((-1.0, 0.25, 1.25, -2.0), (1.25, 2.0, -0.75, 0.0), (0.75, -1.25, 2.0, 1.0)),
)
NAMES = ("the piece", "mended")
LOOKS = (PAPER, f"{PALETTE[4]}66")  # of an output: right, wrong
STOPS = {
    "sequences": [1, 2, 3],
    "tokens": [1, 2, 3],
    "offset": [0, 100, 10_000, 1_000_000, 10_000_000],
}


def one_input(sequences: int = 3, tokens: int = 1, offset: int = 0) -> CourseWidget:
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

    def differences(self) -> dict[str, Difference]:
        """How far off both are on the input."""
        return dict(zip(NAMES, bug("0").differences({"x": self.x}), strict=True))

    def picture(self) -> tuple[Figure, str]:
        differences = self.differences()
        sequences, tokens, offset = self.state.values()
        names = [
            f"sequence {b + 1}, token {t + 1}" for b in range(sequences) for t in range(tokens)
        ]
        figure, panels = new_figure(1.4 + 0.6 * len(names), nrows=2)
        figure.set_figwidth(5.6)  # legible on a phone
        for axes, (name, off) in zip(panels, differences.items(), strict=True):
            allowed = bug("0").tolerance * max(1.0, off.right.abs().max().item())
            wrong = (off.got - off.right).abs() > allowed
            marked = [
                [f"{y:.2f}{' ×' * bad}".replace("-", "−") for y, bad in zip(*row, strict=True)]
                for row in zip(
                    off.got.flatten(0, 1).tolist(), wrong.flatten(0, 1).tolist(), strict=True
                )
            ]
            colours = [[LOOKS["×" in text] for text in row] for row in marked]
            axes.set_axis_off()
            axes.set_title(f"{name} (×: wrong)")
            axes.table(marked, colours, rowLabels=names, cellLoc="center", bbox=(0.32, 0, 0.68, 1))
        said = " and ".join(
            f"{name} {'wrong' if off.ratio > 1 else 'right'}" for name, off in differences.items()
        )
        sizes = f"({sequences}, {tokens}, 4), around {offset:,}"
        return figure, f"What both make of an input, {sizes}: {said}."
