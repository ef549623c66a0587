"""A power law is recovered."""

import pytest

from course_utils.experiments.power_law import power_law


def test_a_power_law_is_recovered_exactly():
    lengths = [10, 20, 40, 80]
    for power in (0.5, 1.0, 2.0):
        assert power_law(lengths, [3 * length**power for length in lengths]) == pytest.approx(
            (power, 1.0)
        )
    noisy_power, fit = power_law(lengths, [1, 3, 3, 9])
    assert 0.5 < noisy_power < 1.5
    assert fit < 0.97
