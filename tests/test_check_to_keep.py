"""The check of what to keep for the backward pass: right answers however they are written, wrong ones by kind."""

import itertools

import pytest

from course_utils.check import to_keep

NAMES = ("x", "y", "x_hat", "mean", "rstd")


def enough(kept):
    """Return whether x̂ and rstd come back from ``kept`` without a sum over the row."""
    return "rstd" in kept and ("x_hat" in kept or "y" in kept or {"x", "mean"} <= set(kept))


def cheapest(x_is_kept, y_is_kept):
    """Try all 32 choices and take a cheapest one that is enough."""
    bytes_of_a_row = {"x": 4096 * (not x_is_kept), "y": 4096 * (not y_is_kept), "x_hat": 4096, "mean": 4, "rstd": 4}
    choices = [c for size in range(6) for c in itertools.combinations(NAMES, size) if enough(c)]
    return min(choices, key=lambda choice: sum(bytes_of_a_row[name] for name in choice))


def by_cases(x_is_kept, y_is_kept):
    if y_is_kept:
        return ["rstd", "y"]
    return ["rstd", "x", "mean"] if x_is_kept else ["rstd", "x_hat"]


def with_free_extras(x_is_kept, y_is_kept):
    kept = set(by_cases(x_is_kept, y_is_kept))
    return kept | {"x"} if x_is_kept else kept


def y_where_nothing_is_kept(x_is_kept, y_is_kept):
    return {"x", "mean", "rstd"} if x_is_kept and not y_is_kept else {"y", "rstd"}


@pytest.mark.parametrize("right", [cheapest, by_cases, with_free_extras, y_where_nothing_is_kept])
def test_every_cheapest_choice_passes_however_it_is_written(right):
    assert to_keep(right, record=False).passed


@pytest.mark.parametrize(
    ("answer", "said"),
    [("rstd", "a set of names"), (None, "got None"), (3, "got 3"), ({"x", "variance"}, "got 'variance'")],
)
def test_what_is_not_a_set_of_names_is_refused_with_what_was_expected(answer, said):
    report = to_keep(lambda x_is_kept, y_is_kept: answer, record=False)
    assert not report.passed
    assert said in report.message


def test_an_unknown_mistake_is_rejected_with_numbers():
    report = to_keep(lambda x_is_kept, y_is_kept: {"x", "y", "x_hat", "rstd"}, record=False)
    assert not report.passed
    assert report.misconception is None
    assert "expected number of bytes for a row: 8" in "\n".join(report.evidence.lines())
