"""sync_cost: arguments that no machine has; the bytes themselves are in test_widgets_exchanges.py."""

import pytest

from course_utils.sync_cost import Traffic, gather, layer_step, reduce


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layer_step(64, 8, "ring"), "itemsize must be a number of bytes above 0: got 'ring'"),
        (lambda: gather(64, 8, 0), "itemsize must be a number of bytes above 0: got 0"),
        (lambda: reduce(64, 8, -4), "itemsize must be a number of bytes above 0: got -4"),
        (lambda: layer_step(64, 8).time_ms(10, 0), "bandwidth_gbps must be above 0: got 0"),
        (lambda: Traffic(1, 1.0).time_ms(-1, 1), "latency_us must be zero or more: got -1"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
