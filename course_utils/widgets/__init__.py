"""The interactive figures: each a function that returns a widget, with a static picture where no kernel runs."""

from course_utils.widgets.axes import AxisState
from course_utils.widgets.explorer import axis_explorer, axis_explorer_figure
from course_utils.widgets.neighbours import NeighbourState, batch_neighbours, batch_neighbours_figure
from course_utils.widgets.rows import RowState, normalize_row, normalize_row_figure

__all__ = [
    "AxisState",
    "NeighbourState",
    "RowState",
    "axis_explorer",
    "axis_explorer_figure",
    "batch_neighbours",
    "batch_neighbours_figure",
    "normalize_row",
    "normalize_row_figure",
]
