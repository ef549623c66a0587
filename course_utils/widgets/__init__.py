"""The interactive figures: each a function that returns a widget, with a static picture where no kernel runs.

axes        axis_explorer: who shares a statistic (chapters 01, 06)
rows        normalize_row: one row before and after (00, 02)
batches     batch_neighbours (03), running_average (04)
gradients   gradient_projection (05)
costs       sync_cost (08), least_time (09)
positions   encoding_by_distance (12), rope_clocks (13)
shapes      normalized_shape (02), kernel_blocks (10), rope_shapes (13)
scan        scan_rounds (11)
scaling     rope_scaling (14); scaling_examples: models' configurations to paste
ledger      ledger_table (18)
base        what they share; js/: what the browser draws and computes
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
