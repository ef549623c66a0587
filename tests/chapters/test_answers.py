"""Exercises of several chapters: wrong answers of no known kind are shown on a small input."""

import inspect

import pytest

from chapters import check
from course_utils.norms.statistics import Moments

NAMES = [
    "compare_arms",
    "ema",
    "linear_scan",
    "merge_moments",
    "norm_bytes",
    "pooled",
    "predicted_ms",
    "sync_backward",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_answer_of_no_known_kind_is_shown_on_a_small_input(name):
    its_check = getattr(check, name)

    def wrong(*args, **kwargs):
        value = its_check.oracle(*args, **kwargs)
        if name == "compare_arms":
            return value[0], value[1] * 1.37 + 0.37, value[2]
        if name == "pooled":
            return value[0], value[1] * 1.37 + 0.37
        return (
            (value.count + 1, value.mean, value.m2)
            if isinstance(value, Moments)
            else value * 1.37 + 0.37
        )

    wrong.__signature__ = inspect.signature(its_check.oracle)
    report = its_check(wrong, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert any(words in str(report) for words in ("expected", "are enough"))


def test_a_report_on_a_merge_or_on_names_speaks_of_what_the_learner_wrote():
    for function, words in (
        (lambda a, b: (a.count, a.mean), "expected a tuple of 3: count, mean, m2"),
        (lambda a, b: (a.count + b.count, (a.mean + b.mean) / 2, a.m2), "a = Moments.of([1])"),
    ):
        assert words in str(check.merge_moments(function, record=False))
    twice = check.predicted_ms(lambda b, o, gbps, gflops: 2 * b / gbps / 1e6, record=False)
    assert "predicted_ms(40_000_000, 29_000_000, 20, 100)\n    expected output: 2\n" in str(twice)
    for answer, words in (
        ("rstd", "a set of names"),
        ({"x", "variance"}, "got 'variance'"),
        ({"x", "rstd"}, "to_keep(True, False) → {'x', 'rstd'}: no way back to x̂ without a sum"),
    ):
        assert words in str(
            check.to_keep(lambda x_is_kept, y_is_kept, answer=answer: answer, record=False)
        )
