"""The check of chapter 16: right ways of writing the judge are accepted."""

import math

import numpy as np
import pytest
import torch

from course_utils.check import largest_error


def by_nan_to_num(y, truth):
    return (y.double() - truth).abs().nan_to_num(nan=math.inf, posinf=math.inf).max().item()


def by_promotion(y, truth):
    error = (truth - y).abs()  # float64, as truth is
    return torch.where(error.isnan(), torch.inf, error).amax()


def by_loop(y, truth):
    largest = 0.0
    for ours, true in zip(y.flatten().tolist(), truth.flatten().tolist(), strict=True):
        error = abs(ours - true)
        largest = max(largest, math.inf if math.isnan(error) else error)
    return largest


def by_norm(y, truth):
    error = torch.linalg.vector_norm(y.double() - truth, ord=math.inf).item()
    return math.inf if math.isnan(error) else error


def by_numpy(y, truth):
    error = np.abs(y.double().numpy() - truth.numpy())
    return np.where(np.isnan(error), np.inf, error).max()


@pytest.mark.parametrize("function", [by_nan_to_num, by_promotion, by_loop, by_norm, by_numpy])
def test_right_ways_are_accepted(function):
    report = largest_error(function, record=False)
    assert report.passed, report.message


def test_an_unknown_mistake_gets_an_input():
    report = largest_error(lambda y, truth: 7.0, record=False)
    assert not report.passed
    assert report.misconception is None
    assert "truth" in str(report)


def test_an_untouched_stub_is_not_attempted():
    def untouched(y, truth):
        """Docstring."""

    assert not largest_error(untouched, record=False).attempted
