"""The interactive figures: each a function that returns a widget, with a static picture where no kernel runs.

explorer     axis_explorer; axes: its rule, axes_check: the rule beside PyTorch's layers
rows         normalize_row
neighbours   batch_neighbours
running      running_average
gradients    gradient_projection
exchanges    sync_cost
least_times  least_time
distances    encoding_by_distance
clocks       rope_clocks
scaling      rope_scaling; scaling_figure: what it shows, scaling_examples: models' configurations to paste
ledger       ledger_table
base         what they share; controls: what their controls can produce; js/: what the browser draws
"""

from course_utils.widgets.axes import AxisState
from course_utils.widgets.clocks import ClockState, rope_clocks, rope_clocks_figure
from course_utils.widgets.distances import DistanceState, encoding_by_distance, encoding_by_distance_values
from course_utils.widgets.exchanges import SyncState, sync_cost, sync_cost_figure
from course_utils.widgets.explorer import axis_explorer, axis_explorer_figure
from course_utils.widgets.gradients import GradientState, gradient_projection, gradient_projection_figure
from course_utils.widgets.least_times import LeastTimeState, least_time, least_time_figure
from course_utils.widgets.ledger import LedgerState, ledger_html, ledger_table
from course_utils.widgets.neighbours import NeighbourState, batch_neighbours, batch_neighbours_figure
from course_utils.widgets.rows import RowState, normalize_row, normalize_row_figure
from course_utils.widgets.running import RunningState, running_average, running_average_figure
from course_utils.widgets.scaling import rope_scaling
from course_utils.widgets.scaling_figure import ScalingState, rope_scaling_figure

__all__ = [
    "AxisState",
    "ClockState",
    "DistanceState",
    "GradientState",
    "LeastTimeState",
    "LedgerState",
    "NeighbourState",
    "RowState",
    "RunningState",
    "ScalingState",
    "SyncState",
    "axis_explorer",
    "axis_explorer_figure",
    "batch_neighbours",
    "batch_neighbours_figure",
    "encoding_by_distance",
    "encoding_by_distance_values",
    "gradient_projection",
    "gradient_projection_figure",
    "least_time",
    "least_time_figure",
    "ledger_html",
    "ledger_table",
    "normalize_row",
    "normalize_row_figure",
    "rope_clocks",
    "rope_clocks_figure",
    "rope_scaling",
    "rope_scaling_figure",
    "running_average",
    "running_average_figure",
    "sync_cost",
    "sync_cost_figure",
]
