"""The figure of chapter 11: nothing is clipped."""

import pytest
from clipping import assert_nothing_is_clipped

from chapters.c11_fused_kernels.figures import row_slots, slots_of_a_lane


def test_nothing_is_clipped():
    assert_nothing_is_clipped(row_slots({"a name as long as any": range(16)}, 9))
    assert_nothing_is_clipped(slots_of_a_lane())


def test_the_slots_of_a_lane_are_those_that_a_load_of_each_warp_reads_together():
    texts = [text.get_text() for text in slots_of_a_lane().axes[0].texts]
    assert texts[:4] == ["8–15", "1032–1039", "2056–2063", "3080–3087"]


def test_a_row_longer_than_its_slots_is_refused():
    with pytest.raises(ValueError, match="number of slots: got 5, 4 slots"):
        row_slots({"loaded": [3.0, 5.0, 0.0, 0.0]}, 5)
