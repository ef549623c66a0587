"""The exercise of chapter 16: a count passes, and an unknown mistake is shown."""

import math

from naming import assert_passes, assert_shown_without_a_name

from chapters import check


def test_a_count_of_the_pairs_that_turn_passes():
    def counted(head_dim, base, window):
        angles = (window * base ** (-2 * pair / head_dim) for pair in range(head_dim // 2))
        return 2 * sum(angle >= 2 * math.pi for angle in angles)

    assert_passes(check.critical_dimension, counted)


def test_an_unknown_mistake_is_shown_with_an_input():
    assert_shown_without_a_name(check.critical_dimension, lambda head_dim, base, window: 6)
