"""The course's figure style and its static figures: every function returns a ``Figure``, and ``show`` ends a cell."""

from course_utils.plots.course import course_map, describe_course
from course_utils.plots.curves import error_curves, grouped_bars, heatmap, signal_by_depth, spread_curves
from course_utils.plots.kernels import recorded_ladder, roofline, row_lanes
from course_utils.plots.norms import norm_map
from course_utils.plots.rope import attenuation, lines, rope_scaling, sinusoid
from course_utils.plots.style import image_html, new_figure, show, use_style
from course_utils.rooms import submodules

__all__ = [
    "attenuation",
    "course_map",
    "describe_course",
    "error_curves",
    "grouped_bars",
    "heatmap",
    "image_html",
    "lines",
    "new_figure",
    "norm_map",
    "recorded_ladder",
    "roofline",
    "rope_scaling",
    "row_lanes",
    "show",
    "signal_by_depth",
    "sinusoid",
    "spread_curves",
    "use_style",
]

__getattr__ = submodules(__name__)
