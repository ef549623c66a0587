"""Exercises of several chapters: wrong answers of no known kind are shown on a small input."""

import inspect
import re

import pytest
from naming import assert_shown_without_a_name

from chapters import check
from course_utils.norms.statistics import Moments

# Triton takes numbers of a kind of its own, and a backward pass takes seconds
ELSEWHERE = re.compile(r"\w+_norm_backward|\w+_kernel|warps_for")
NAMES = [
    name
    for name, its_check in check.items()
    if not (its_check.exercise.judge or ELSEWHERE.fullmatch(name))
]


def changed(value):
    """Something of the same form that is wrong in a way that nobody has seen."""
    if isinstance(value, Moments):
        return value.count + 1, value.mean, value.m2
    if isinstance(value, dict):
        return {name: changed(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return value[0], changed(value[1]), *value[2:]
    return value * 1.37 + 0.37


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_answer_of_no_known_kind_is_shown_on_a_small_input(name):
    its_check = check[name]

    def wrong(*args, **kwargs):
        return changed(its_check.oracle(*args, **kwargs))

    wrong.__signature__ = inspect.signature(its_check.oracle)
    assert_shown_without_a_name(its_check, wrong)


def test_a_report_on_a_merge_or_on_names_speaks_of_what_the_learner_wrote():
    for function, words in (
        (lambda a, b: (a.count, a.mean), "expected a tuple of 3: count, mean, m2"),
        (lambda a, b: (a.count + b.count, (a.mean + b.mean) / 2, a.m2), "a = Moments.of([1])"),
    ):
        assert words in str(check.merge_moments(function, record=False))
    twice = check.predicted_ms(lambda b, o, gbps, gflops: 2 * b / gbps / 1e6, record=False)
    assert "predicted_ms(40_000_000, 29_000_000, 20, 100)\n    expected output: 2\n" in str(twice)
    for answer, words in (
        ("memory", "expected a name among overhead, bandwidth"),
        ("overhead", "expected output: bandwidth\n"),
    ):
        assert words in str(check.waits_for(lambda a, b, c, d, answer=answer: answer, record=False))
    for answer, words in (
        ("rstd", "a set of names"),
        ({"x", "variance"}, "got 'variance'"),
        ({"x", "rstd"}, "to_keep(True, False) → {'x', 'rstd'}: no way back to x̂ without a sum"),
    ):
        assert words in str(
            check.to_keep(lambda x_is_kept, y_is_kept, answer=answer: answer, record=False)
        )
