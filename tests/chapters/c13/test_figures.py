"""The figures of chapter 13: hands that are a shift apart, lines with a name each, nothing
clipped."""

from itertools import pairwise

import numpy as np
import pytest
from clipping import assert_nothing_is_clipped

from chapters.c13_why_position.figures import by_place, sinusoid
from course_utils.rope import sinusoidal

ENDS = {"a": 0.99, "b": 0.98, "c": 0.5, "d": 0.07, "e": 0.06, "f": 0.05}


def near_each_other():
    rows = [
        {"encoding": name, "place": place, "right": right}
        for name, right in ENDS.items()
        for place in (0.5, 1, 16)
    ]
    return by_place(rows, {"a": "first"}, {0.5: "short", 1: "1", 16: "16"}, 0.06, "place", "echo")


FIGURES = {
    "by place": near_each_other,
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


def test_names_of_lines_that_end_near_each_other_stand_apart_and_in_their_order():
    figure = near_each_other()
    figure.draw_without_rendering()
    names = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    boxes = [names[name] for name in ("f", "e", "d", "c", "b", "first")]
    assert all(low.y1 < high.y0 for low, high in pairwise(boxes))
