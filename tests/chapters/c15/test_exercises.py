"""The exercise of chapter 15: an unknown mistake is shown."""

import pytest

from chapters import check


@pytest.mark.parametrize(
    ("its_check", "function"), [(check.critical_dimension, lambda head_dim, base, window: 6)]
)
def test_an_unknown_mistake_is_shown_with_an_input(its_check, function):
    report = its_check(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.expected != report.evidence.got
