"""The interactive figures that several chapters show: each a function that returns a widget, with a
static picture where no kernel runs. A widget of one chapter lies in its folder, in ``widgets.py``.

base        what all widgets share; js/: what the browser draws and computes
axes        axis_explorer: who shares a statistic
rows        normalize_row: one row before and after
batches     batch_neighbours, running_average
shapes      rope_shapes, and cards of cells for the widgets of shapes
scaling     rope_scaling; scaling_examples: models' configurations to paste
"""

from course_utils.rooms import submodules
from course_utils.widgets.axes import axis_explorer
from course_utils.widgets.batches import batch_neighbours, running_average
from course_utils.widgets.rows import normalize_row
from course_utils.widgets.scaling import rope_scaling
from course_utils.widgets.shapes import rope_shapes

__all__ = [
    "axis_explorer",
    "batch_neighbours",
    "normalize_row",
    "rope_scaling",
    "rope_shapes",
    "running_average",
]

__getattr__ = submodules(__name__)
