"""The figure of chapter 11: nothing is clipped."""

import pytest
from clipping import assert_nothing_is_clipped

from chapters.c11_fused_kernels.figures import row_slots


def test_nothing_is_clipped():
    assert_nothing_is_clipped(row_slots({"a name as long as any": range(16)}, 9))


def test_a_row_longer_than_its_slots_is_refused():
    with pytest.raises(ValueError, match="number of slots: got 5, 4 slots"):
        row_slots({"loaded": [3.0, 5.0, 0.0, 0.0]}, 5)
