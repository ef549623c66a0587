"""The static picture of the axis explorer: a tensor as stacked slices, numbered by the statistic each element uses."""

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from course_utils.plots.style import INK, PALETTE, PAPER, RULE, new_figure

__all__ = ["axis_explorer"]

# Lengths in pixels of the page, as in the browser's drawing.
_LEFT, _TOP, _GAP, _LINE = 84, 46, 14, 21
_SLOPE = 0.32  # how far a slice's columns climb: it stands at an angle, so that every element of a stack is seen


@dataclass(frozen=True)
class _Slices:
    """Where the slices stand: ``shelves`` from top to bottom, ``cards`` side by side, elements in rows and columns."""

    shelves: int
    cards: int
    rows: int
    columns: int

    @property
    def cell_width(self) -> float:
        return min(38.0, ((760 - _LEFT - 8) / self.cards - _GAP) / self.columns)

    @property
    def cell_height(self) -> float:
        return max(22.0, min(40.0, 96 / (self.rows * self.shelves)))

    @property
    def shelf_height(self) -> float:
        return self.rows * self.cell_height + _SLOPE * self.cell_width * self.columns + 24

    def corner(self, shelf: int, card: int) -> tuple[float, float]:
        """Return the top left corner of a slice; its other corners stand higher to the right."""
        climb = _SLOPE * self.cell_width * self.columns
        return _LEFT + card * (self.cell_width * self.columns + _GAP), _TOP + shelf * self.shelf_height + climb

    def foot(self, shelf: int) -> float:
        """Return the height of a shelf's lower left corner."""
        return self.corner(shelf, 0)[1] + self.rows * self.cell_height

    def outline(self, place: tuple[int, int, int, int], columns: int = 1, rows: int = 1, inset: float = 0) -> list:
        """Return the corners of ``columns`` by ``rows`` elements from (shelf, card, row, column) on."""
        shelf, card, row, column = place
        x0, y0 = self.corner(shelf, card)
        left, right = column * self.cell_width + inset, (column + columns) * self.cell_width - inset
        top, bottom = row * self.cell_height + inset, (row + rows) * self.cell_height - inset
        return [(x0 + x, y0 + y - _SLOPE * x) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))]


def axis_explorer(data: Any) -> Figure:
    """Draw a state of the axis explorer.

    Args:
        data: a ``FigureData``, as ``widgets.axis_explorer_figure(state)`` returns it.
    """
    in_stacks = len(data.state.shape) == 4  # otherwise each sample is one slice, and all stand on one shelf
    shape, picked = data.state.shape, data.state.picked_index
    if not in_stacks:
        shape, picked = (1, *shape), (0, *picked)
    slices = _Slices(*shape)
    numbers = None if data.sharing is None else np.reshape(data.sharing.group_of, shape)
    lines = _lines(data)
    head = slices.foot(slices.shelves - 1) + 44

    figure, axes = _page(head + _LINE * sum(1 + text.count("\n") for _, text in lines) + 10)
    for place in np.ndindex(*shape):
        number = None if numbers is None else int(numbers[place])
        _draw_element(axes, slices.outline(place), number, is_chosen=numbers is not None and number == numbers[picked])
    for shelf, card in np.ndindex(*shape[:2]):
        whole = slices.outline((shelf, card, 0, 0), slices.columns, slices.rows)
        axes.add_patch(Polygon(whole, fill=False, edgecolor=INK, linewidth=1))
    axes.add_patch(Polygon(slices.outline(picked, inset=1), fill=False, edgecolor=INK, linewidth=2.4))
    _name_axes(axes, slices, data.state.axes, in_stacks=in_stacks)
    _write_lines(axes, lines, head)
    return figure


def _page(height: float) -> tuple[Figure, Axes]:
    """Return a figure whose data coordinates are pixels from the top left."""
    figure, axes = new_figure(height=height / 100)
    figure.set_layout_engine("none")
    axes.set(position=(0, 0, 1, 1), xlim=(0, 760), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def _tint(colour: str, amount: float) -> tuple[float, ...]:
    return tuple(paper + (ink - paper) * amount for ink, paper in zip(to_rgb(colour), to_rgb(PAPER), strict=True))


def _draw_element(axes: Axes, outline: list, number: int | None, *, is_chosen: bool) -> None:
    colour = RULE if number is None else _tint(PALETTE[number % 6], 0.62 if is_chosen else 0.2)
    hatch = "---" if is_chosen else None  # the chosen statistic's elements do not rest on colour
    axes.add_patch(Polygon(outline, facecolor=colour, edgecolor=PAPER, linewidth=0.8, hatch=hatch))
    if number is not None:
        x, y = np.mean(outline, axis=0).tolist()
        axes.text(x, y, str(number), ha="center", va="center", fontsize=8)


def _name_axes(axes: Axes, slices: _Slices, letters: str, *, in_stacks: bool) -> None:
    for card in range(slices.cards):
        name = str(card) if card else "channel 0" if in_stacks else "sample 0"
        middle = slices.corner(0, card)[0] + slices.columns * slices.cell_width / 2
        axes.text(middle, 20, name, ha="center", va="center", fontsize=9)
    for shelf in range(slices.shelves if in_stacks else 0):
        middle = slices.foot(shelf) - slices.rows * slices.cell_height / 2
        axes.text(8, middle, f"sample {shelf}", va="center", fontsize=9)
    names = f"{letters[-2]} ↓   {letters[-1]} →"
    axes.text(_LEFT, slices.foot(slices.shelves - 1) + 10, names, va="center", weight="bold", fontsize=9)


def _lines(data: Any) -> list[tuple[str, str]]:
    """Return what is written under the slices, wrapped to the page."""
    refusal = [("PyTorch refuses", data.answer.problem)] if data.answer.problem else []
    lines = [*refusal, *data.facts, ("picked", data.answer.picked), ("remark", data.answer.remark)]
    return [(label, "\n".join(textwrap.wrap(text, 76))) for label, text in lines if text]


def _write_lines(axes: Axes, lines: list[tuple[str, str]], y: float) -> None:
    for label, text in lines:
        rows = text.split("\n")
        if label == "PyTorch refuses":
            height = _LINE * len(rows) + 2
            axes.add_patch(Rectangle((8, y - 16), 744, height, fill=False, edgecolor=PALETTE[1], linewidth=1.6))
        axes.text(16, y, label, weight="bold", fontsize=10)
        for i, row in enumerate(rows):
            axes.text(150, y + i * _LINE, row, fontsize=10)
        y += _LINE * len(rows)
