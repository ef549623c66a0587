"""A row in its lanes: every lane's value and the sums are written, and padding that counts is hatched."""

import pytest
from clipping import assert_nothing_is_clipped
from matplotlib.patches import Rectangle

from course_utils import plots

STEPS = {"loaded": [3.0, 5.0, 0.0, 0.0], "centred": [-1.0, 1.0, -4.0, -4.0]}


def test_what_each_lane_holds_and_what_the_lanes_add_up_to_is_written():
    texts = [text.get_text() for text in plots.row_lanes(STEPS, 2).axes[0].texts]
    assert texts == ["3", "5", "0", "0", "8", "−1", "1", "−4", "−4", "−8"]


def test_only_padding_that_is_not_zero_is_hatched():
    cells = [patch for patch in plots.row_lanes(STEPS, 2).axes[0].patches if isinstance(patch, Rectangle)]
    assert [bool(cell.get_hatch()) for cell in cells] == [False] * 6 + [True] * 2


def test_nothing_is_clipped():
    figure = plots.row_lanes({"a name as long as any": range(16)}, 9)
    assert_nothing_is_clipped(figure)


@pytest.mark.parametrize("columns", [0, 5])
def test_more_columns_than_lanes_are_refused(columns):
    with pytest.raises(ValueError, match=f"number of lanes: got {columns}, 4 lanes"):
        plots.row_lanes(STEPS, columns)
