"""The figure of chapter 10: nothing is clipped."""

import pytest
from clipping import assert_nothing_is_clipped

from chapters.c10_fused_kernels.figures import row_lanes

LANES = {"loaded": [3.0, 5.0, 0.0, 0.0], "centred": [-1.0, 1.0, -4.0, -4.0]}
FIGURES = {"lanes": lambda: row_lanes({"a name as long as any": range(16)}, 9)}


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    assert_nothing_is_clipped(FIGURES[name]())


@pytest.mark.parametrize(
    ("call", "message"), [(lambda: row_lanes(LANES, 5), "number of lanes: got 5, 4 lanes")]
)
def test_data_that_cannot_be_drawn_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
