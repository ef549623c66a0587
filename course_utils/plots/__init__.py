"""The course's figure style and its static figures: every function returns a ``Figure``, and ``show`` ends a cell."""

from course_utils.plots.bars import grouped_bars
from course_utils.plots.course_map import course_map
from course_utils.plots.curves import error_curves, signal_by_depth
from course_utils.plots.rows import batch_neighbours, normalize_row
from course_utils.plots.slices import axis_explorer
from course_utils.plots.spread import spread_curves
from course_utils.plots.style import image_html, new_figure, show, use_style
from course_utils.plots.tensors import heatmap

__all__ = [
    "axis_explorer",
    "batch_neighbours",
    "course_map",
    "error_curves",
    "grouped_bars",
    "heatmap",
    "image_html",
    "new_figure",
    "normalize_row",
    "show",
    "signal_by_depth",
    "spread_curves",
    "use_style",
]
