"""The course's figure style and its static figures: every function returns a ``Figure``, and
``show`` ends a cell.

    style   sizes, colours, fonts; a figure as HTML, wide and narrow, light and dark
    curves  errors over a size, spreads over seeds, grouped bars, a map of colours
    rope    the frequencies of scaled RoPE, and lines over positions

A figure that one lesson alone has is drawn in the notebook's own folded cell, or in ``figures.py``
of its chapter's folder.
"""

from course_utils.plots.curves import error_curves, grouped_bars, heatmap, spread_curves
from course_utils.plots.rope import lines, rope_scaling
from course_utils.plots.style import image_html, new_figure, show, use_style
from course_utils.rooms import submodules

__all__ = [
    "error_curves",
    "grouped_bars",
    "heatmap",
    "image_html",
    "lines",
    "new_figure",
    "rope_scaling",
    "show",
    "spread_curves",
    "use_style",
]

__getattr__ = submodules(__name__)
