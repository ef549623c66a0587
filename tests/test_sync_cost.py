"""sync_cost: arguments at and beyond the edge; the algorithms are played in test_widgets.py."""

import pytest

from course_utils.parallel.cost import Traffic, gather, layer_step, reduce


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layer_step(64, 8, "ring"), "itemsize must be a number of bytes above 0: got 'ring'"),
        (lambda: gather(64, 8, 0), "itemsize must be a number of bytes above 0: got 0"),
        (lambda: reduce(64, 8, -4), "itemsize must be a number of bytes above 0: got -4"),
        (lambda: layer_step(64, 8).time_ms(10, 0), "bandwidth_gbps must be above 0: got 0"),
        (lambda: Traffic(1, 1.0).time_ms(-1, 1), "latency_us must be zero or more: got -1"),
        (lambda: gather(64, 0), "channels and ranks must be at least 1: got channels=64, ranks=0"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_smallest_arguments_are_taken():
    assert gather(1, 2, itemsize=0.5) == Traffic(messages=1, bytes=1.5)  # count, mean and M2
    assert Traffic(messages=3, bytes=2e6).time_ms(latency_us=0, bandwidth_gbps=2) == 1.0


def test_a_step_of_a_layer_is_in_float32_unless_told_otherwise():
    assert layer_step(64, 8) == Traffic(messages=7 + 14, bytes=7 * 129 * 4 + 14 / 8 * 128 * 4)
