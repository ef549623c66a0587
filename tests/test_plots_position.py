"""The pictures of position: nothing clipped, the hands where the code says, one shift one angle."""

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped

from course_utils import plots
from course_utils.rope import rotation as positions
from course_utils.widgets import DistanceState, encoding_by_distance_values

CODE = positions.sinusoidal(64, 32)


def distance_figure(encoding, **chosen):
    state = DistanceState(encoding, **chosen)
    return plots.encoding_by_distance(state, encoding_by_distance_values(state))


FIGURES = {
    "sinusoid": lambda: plots.sinusoid(CODE, pairs=(0, 3)),
    "one pair": lambda: plots.sinusoid(CODE[:9, :2], pairs=(0, 0), start=0, shift=8),
    "none": lambda: distance_figure("none"),
    "T5": lambda: distance_figure("t5", reach=512),
    "ALiBi": lambda: distance_figure("alibi", heads=16, head=16),
    "sinusoid by distance": lambda: distance_figure("sinusoidal", dim=2, reach=128),
}


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_clipped(name):
    figure = FIGURES[name]()
    assert_nothing_is_clipped(figure)


@pytest.mark.parametrize("pair", [0, 3])
def test_the_hands_of_a_clock_are_a_shift_apart(pair):
    clock = plots.sinusoid(CODE, pairs=(pair, pair), start=1, shift=3).axes[1]
    hands = [line.get_xydata()[1] for line in clock.lines if line.get_label().startswith("position")]
    turned = np.diff([np.arctan2(y, x) for x, y in hands])[0]
    assert turned % (2 * np.pi) == pytest.approx(3 * 10_000 ** (-2 * pair / 32), abs=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (8,)])
def test_a_code_of_the_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match="code must be"):
        plots.sinusoid(np.zeros(shape))
