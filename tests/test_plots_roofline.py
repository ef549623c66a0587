"""The roofline: the roof is where the machine's two limits put it, and every point has a name and a look of its own."""

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped
from matplotlib.colors import to_hex

from course_utils import plots
from course_utils.plots.style import MARKERS, PALETTE
from course_utils.timing.profiling import Roofline

POINTS = {f"version {i}": (0.875, 10.0 ** (-i)) for i in range(9)} | {"product": (170.0, 100.0)}


def figure_of(**others):
    return plots.roofline(**{"bandwidth_gbps": 20.0, "peak_gflops": 100.0, "points": POINTS, **others})


def test_the_roof_is_what_the_machine_attains():
    roof = figure_of().axes[0].lines[0]
    machine = Roofline(20.0, 100.0)
    x, y = roof.get_data()
    np.testing.assert_allclose(y, [machine.attainable_gflops(intensity) for intensity in x])
    assert machine.ridge in x


def test_every_point_stands_where_it_was_measured_with_a_look_of_its_own():
    lines = {line.get_label(): line for line in figure_of().axes[0].lines if not line.get_label().startswith("_")}
    assert {name: (line.get_xdata()[0], line.get_ydata()[0]) for name, line in lines.items()} == POINTS
    looks = [(line.get_marker(), to_hex(line.get_color())) for line in lines.values()]
    assert len(set(looks)) == len(looks)
    assert {marker for marker, _ in looks} <= set(MARKERS)
    assert {colour.upper() for _, colour in looks} <= {to_hex(colour).upper() for colour in PALETTE}


def test_nothing_is_clipped():
    figure = figure_of(title="a machine")
    assert_nothing_is_clipped(figure)


@pytest.mark.parametrize("others", [{"peak_gflops": 0.0}, {"points": {"copy": (0.0, 1.0)}}])
def test_what_has_no_place_on_a_logarithmic_axis_is_refused(others):
    with pytest.raises(ValueError, match="must be positive: got 0"):
        figure_of(**others)
