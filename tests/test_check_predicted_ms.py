"""The check of the roofline's least time: the formula by hand."""

import pytest

from course_utils.check import predicted_ms


def by_hand(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    seconds_of_memory = bytes_moved / (bandwidth_gbps * 1e9)
    seconds_of_arithmetic = operations / (peak_gflops * 1e9)
    return 1000 * max(seconds_of_memory, seconds_of_arithmetic)


def by_intensity(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    if bytes_moved == 0 or operations / bytes_moved > peak_gflops / bandwidth_gbps:
        return operations / peak_gflops / 1e6
    return bytes_moved / bandwidth_gbps / 1e6


@pytest.mark.parametrize("right", [by_hand, by_intensity])
def test_what_is_right_passes_however_it_is_written(right):
    assert predicted_ms(right, record=False).passed


def test_an_unknown_mistake_is_rejected_with_numbers():
    report = predicted_ms(lambda bytes_moved, operations, bandwidth_gbps, peak_gflops: 3.0, record=False)
    assert not report.passed
    assert report.misconception is None
    assert report.evidence is not None
