"""The widget of chapter 16: what is read from the record, and what its browser makes of it."""

import pytest

from chapters.c16_longer_context import load
from chapters.c16_longer_context.widgets import loss_and_memory


def test_the_browser_takes_the_means_of_the_record(figures):
    widget = loss_and_memory()
    for state, answer in figures("loss_and_memory", "memoryFigure", 12):
        widget.state = state
        assert answer == pytest.approx(widget.means())
    (row,) = load("smollm2-memory").select(method="NTK", factor=2, excerpt=1)
    new, copy = loss_and_memory("NTK ×2", 10_000).x[:, 1].tolist()
    assert (new, copy) == pytest.approx((row["loss"][2], row["copy"][2]), abs=1e-4)


def test_a_click_and_an_arrow_choose_a_jump(in_browser):
    widget = loss_and_memory()
    state, data = widget.state, widget.data
    clicks = [[x, 0, state, 500, data] for x in (60, 480)]
    gaps = [chosen["gap"] for chosen in in_browser("loss_and_memory", "module.gapAt", clicks)]
    assert gaps == [0, 14_000]
    keys = [[{"key": key}, state, data] for key in ("ArrowLeft", "ArrowRight")]
    before, beyond = in_browser("loss_and_memory", "module.gapByKey", keys)
    assert (before["gap"], beyond) == (10_000, None)
