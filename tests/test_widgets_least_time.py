"""The widget of chapter 09: what it predicts is the count of the chapter, and what it measures is the call."""

import pytest

from course_utils import widgets
from course_utils.timing.profiling import Roofline
from course_utils.widgets.least_times import STOPS, LeastTimeState, least_time_figure, measured_ms

MACHINE = Roofline(bandwidth_gbps=10.0, peak_gflops=50.0)


def test_a_shape_worked_out_by_hand():
    figure = least_time_figure(LeastTimeState(4096, 1024, "float32"), MACHINE)
    assert figure.bytes_moved == 2 * 4096 * 1024 * 4 + 2 * 1024 * 4
    assert figure.memory_ms == pytest.approx(figure.bytes_moved / 10e9 * 1e3)
    assert figure.arithmetic_ms == pytest.approx(7 * 4096 * 1024 / 50e9 * 1e3)
    assert figure.least_ms == figure.memory_ms


def test_half_the_bytes_take_half_the_time_until_arithmetic_is_the_limit():
    times = [
        least_time_figure(LeastTimeState(1024, 1024, dtype), MACHINE) for dtype in ("float64", "float32", "float16")
    ]
    assert [times[0].memory_ms / time.memory_ms for time in times] == pytest.approx([1, 2, 4])
    assert len({time.arithmetic_ms for time in times}) == 1
    slow = Roofline(bandwidth_gbps=10.0, peak_gflops=5.0)  # its ridge lies at half an operation a byte
    assert least_time_figure(LeastTimeState(1024, 1024, "float32"), slow).least_ms == pytest.approx(
        times[0].arithmetic_ms * 10
    )


def test_the_kernel_answers_the_state_that_it_was_asked_for():
    widget = widgets.least_time(MACHINE, rows=4, features=64)
    assert widget.answer["measured_ms"] > 0
    widget.request = 7
    assert widget.answer["request"] == 7
    small, large = (measured_ms(LeastTimeState(rows, 1024, direction="both")) for rows in (1, 4096))
    assert large > 10 * small  # 4,096 times the work; a call of its own price hides most of the difference


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"rows": 3}, "rows must be one of 1, 4, 16"),
        ({"rows": 1024.0}, r"rows must be one of 1, 4, 16, .*: got 1024\.0"),
        ({"features": 100}, "features must be one of 64, 128"),
        ({"dtype": "int8"}, "dtype must be one of float64, float32, bfloat16, float16: got 'int8'"),
        ({"direction": "back"}, "direction must be one of forward, both: got 'back'"),
    ],
)
def test_what_no_control_can_produce_is_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        widgets.least_time(MACHINE, **chosen)


def test_the_machine_is_a_roofline():
    with pytest.raises(ValueError, match=r"machine must be a Roofline, as Roofline\.of\(\"cpu\"\) returns: got 'cpu'"):
        widgets.least_time("cpu")


def test_no_setting_takes_more_memory_than_a_laptop_has():
    assert 8 * max(STOPS["rows"]) * max(STOPS["features"]) * 4 < 200e6  # x, y, dy and dx in float64
