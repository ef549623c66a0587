"""The widgets of chapter 10: the least time of a layer norm, and the measured one; launches and
kernels."""

import pytest
import torch
from widget_states import MACHINE

from chapters import check
from chapters.c10_where_the_time_goes.widgets import launch_queue, least_time, measured_ms


def test_the_bytes_and_operations_of_a_layer_norm_are_those_of_the_chapter(figures):
    for state, answer in figures("least_time", "leastTime", 60):
        rows, features, both = state["rows"], state["features"], state["direction"] == "both"
        itemsize = getattr(torch, state["dtype"]).itemsize
        assert answer["bytes"] == check.norm_bytes.oracle(rows, features, itemsize, both)
        assert answer["operations"] == (20 if both else 7) * rows * features
        assert answer["memoryMs"] == pytest.approx(answer["bytes"] / MACHINE.bandwidth_gbps / 1e6)
        assert answer["arithmeticMs"] == pytest.approx(
            answer["operations"] / MACHINE.peak_gflops / 1e6
        )


def test_the_kernel_measures_the_state_that_it_was_asked_for():
    widget = least_time(MACHINE, rows=4, features=64)
    assert widget.answer["measured_ms"] > 0
    assert "20 GB/s and 100 GFLOP/s" in widget.picture()[1]
    widget.request = 7
    assert widget.answer["request"] == 7
    small, large = (measured_ms(rows, 1024, "float32", "both") for rows in (1, 4096))
    # 4,096 times the work; a call of its own price hides most of the difference
    assert large > 10 * small
    with pytest.raises(
        ValueError,
        match=r"machine must be a Roofline, as Roofline\.of\(\"cpu\"\) returns: got 'cpu'",
    ):
        least_time("cpu")


def test_a_kernel_waits_for_its_launch_and_for_the_one_before_it(figures):
    widget = launch_queue()
    for state, answer in figures("launch_queue", "queueFigure", 20):
        widget.state = state
        launch, kernel = state["launch"], state["kernel"]
        one_by_one, graph = widget.ends()
        assert [end for _, end in answer["eager"]["kernels"]] == one_by_one
        assert [end for _, end in answer["graph"]["kernels"]] == graph
        # the slower of the two sets the pace
        assert one_by_one[-1] == launch + 11 * max(launch, kernel) + kernel
        assert answer["busy"] == pytest.approx(12 * kernel / one_by_one[-1])
