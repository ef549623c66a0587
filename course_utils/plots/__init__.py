"""The course's figure style and its static figures: every function returns a ``Figure``, and ``show`` ends a cell."""

from course_utils.plots.course import course_map, describe_course
from course_utils.plots.curves import error_curves, grouped_bars, heatmap, signal_by_depth, spread_curves
from course_utils.plots.kernels import ladder, recorded_ladder, roofline, row_lanes, scan_rounds
from course_utils.plots.norms import norm_map
from course_utils.plots.projections import gradient_projection
from course_utils.plots.rope import attenuation, encoding_by_distance, rope_clocks, rope_scaling, sinusoid
from course_utils.plots.rows import batch_neighbours, normalize_row
from course_utils.plots.running import running_average
from course_utils.plots.slices import axis_explorer
from course_utils.plots.style import image_html, new_figure, show, use_style

__all__ = [
    "attenuation",
    "axis_explorer",
    "batch_neighbours",
    "course_map",
    "describe_course",
    "encoding_by_distance",
    "error_curves",
    "gradient_projection",
    "grouped_bars",
    "heatmap",
    "image_html",
    "ladder",
    "new_figure",
    "norm_map",
    "normalize_row",
    "recorded_ladder",
    "roofline",
    "rope_clocks",
    "rope_scaling",
    "row_lanes",
    "running_average",
    "scan_rounds",
    "show",
    "signal_by_depth",
    "sinusoid",
    "spread_curves",
    "use_style",
]
