"""The check of chapter 14: an unknown one gets an input, and right ways are accepted."""

import math

import numpy as np
import pytest
import torch

from course_utils.check import critical_dimension


def by_formula(head_dim, base, window):
    return min(head_dim, max(0, 2 * math.ceil(head_dim / 2 * math.log(window / (2 * math.pi), base))))


def by_counting(head_dim, base, window):
    return 2 * sum(window * base ** (-2 * k / head_dim) >= 2 * math.pi for k in range(head_dim // 2))


def by_tensor(head_dim, base, window):
    wavelength = 2 * math.pi * base ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    return 2 * (wavelength <= window).sum()


def by_numpy(head_dim, base, window):
    inv_freq = base ** (-2 * np.arange(head_dim // 2) / head_dim)
    return 2 * np.sum(window * inv_freq >= 2 * np.pi)


@pytest.mark.parametrize("function", [by_formula, by_counting, by_tensor, by_numpy])
def test_right_ways_are_accepted(function):
    report = critical_dimension(function, record=False)
    assert report.passed, report.message


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["above", "below"])
def test_a_number_beyond_float64_is_wrong_and_nothing_is_raised(number):
    report = critical_dimension(lambda head_dim, base, window: number, record=False)
    assert (report.attempted, report.passed) == (True, False)


def test_what_is_no_number_is_told_so():
    report = critical_dimension(lambda head_dim, base, window: f"{head_dim}", record=False)
    assert report.message == "It returns a str; expected a number."


def test_an_unknown_mistake_gets_an_input():
    report = critical_dimension(lambda head_dim, base, window: 6, record=False)
    assert not report.passed
    assert report.misconception is None
    assert "base" in report.message


def test_an_untouched_stub_is_not_attempted():
    def untouched(head_dim, base, window):
        """Docstring."""

    assert not critical_dimension(untouched, record=False).attempted
