"""The figure of chapter 11: nothing is clipped."""

import pytest
from clipping import assert_nothing_is_clipped

from chapters.c11_fused_kernels.figures import (
    row_slots,
    shares_of_a_copy,
    slots_of_a_lane,
)
from chapters.c11_fused_kernels.on_gpu import COPY


def test_nothing_is_clipped():
    assert_nothing_is_clipped(row_slots({"a name as long as any": range(16)}, 9))
    assert_nothing_is_clipped(slots_of_a_lane())


def test_half_of_a_copy_is_drawn_at_fifty_percent():
    figure = shares_of_a_copy([1024, 2048], {"a norm": [1000.0, 1500.0], COPY: [2000.0, 2000.0]})
    assert_nothing_is_clipped(figure)
    (line,) = (line for line in figure.axes[0].lines if line.get_label() == "a norm")
    assert list(line.get_ydata()) == [50, 75]


def test_each_load_of_a_warp_reads_256_slots_together():
    texts = [text.get_text() for text in slots_of_a_lane().axes[0].texts]
    assert texts[:5] == ["0–255", "256–511", "512–767", "768–1023", "1024–1279"]
    assert len(texts) == 16


def test_a_row_longer_than_its_slots_is_refused():
    with pytest.raises(ValueError, match="number of slots: got 5, 4 slots"):
        row_slots({"loaded": [3.0, 5.0, 0.0, 0.0]}, 5)
