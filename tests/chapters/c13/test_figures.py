"""The figure of chapter 13: hands that are a shift apart, nothing clipped."""

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped

from chapters.c13_why_position.figures import sinusoid
from course_utils.rope import sinusoidal

FIGURES = {
    "sinusoid": lambda: sinusoid(sinusoidal(64, 32), pairs=(0, 3)),
    "one pair": lambda: sinusoid(sinusoidal(64, 32)[:25, :2], pairs=(0, 0)),
}


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    assert_nothing_is_clipped(FIGURES[name]())


@pytest.mark.parametrize("pair", [0, 3])
def test_the_hands_of_a_clock_are_a_shift_apart(pair):
    clock = sinusoid(sinusoidal(64, 32), pairs=(pair, pair)).axes[1]
    hands = [
        line.get_xydata()[1] for line in clock.lines if line.get_label().startswith("position")
    ]
    turned = np.diff([np.arctan2(y, x) for x, y in hands])[::2] % (2 * np.pi)
    np.testing.assert_allclose(turned, [3 * 10_000 ** (-2 * pair / 32)] * 2, atol=2e-6)
