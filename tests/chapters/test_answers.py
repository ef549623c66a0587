"""Exercises of several chapters: right answers pass in any form, wrong ones of no known kind are
shown."""

import inspect
import itertools

import pytest
import torch
from naming import assert_passes

from chapters import check
from course_utils.models import linear_recurrence, linear_scan
from course_utils.norms import statistics
from course_utils.norms.statistics import Moments


def ema_by_lerp(average, value, momentum, convention="torch"):
    average, value = torch.as_tensor(average), torch.as_tensor(value)
    return torch.lerp(average, value, momentum if convention == "torch" else 1 - momentum)


def merge_about_the_new_mean(a, b):
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    mean = (n_a * mean_a + n_b * mean_b) / n if n else mean_a
    return n, mean, m2_a + n_a * (mean_a - mean) ** 2 + m2_b + n_b * (mean_b - mean) ** 2


def scan_by_logarithms(a, b, h0=None):
    """Sums of logarithms between any two steps, none subtracted: a gate of 0 is −∞, and its
    exponential is 0."""
    b = b if h0 is None else torch.cat([a[:, :1] * h0.unsqueeze(1) + b[:, :1], b[:, 1:]], dim=1)
    length = b.shape[1]
    # (1, T, S, 1): step t after step s
    later = torch.ones(length, length).tril(-1).bool()[None, :, :, None]
    sums = torch.where(later, a.log().unsqueeze(2), 0.0).cumsum(dim=1)
    weights = torch.where(later.transpose(1, 2), 0.0, sums.exp())
    return (weights * b.unsqueeze(1)).sum(2)


def sync_of_centred_gradients(g, x_hat, rstd, count, all_reduce):
    """Σ(g − ḡ)x̂ is Σg·x̂, for Σx̂ is 0."""
    g = g - all_reduce(g.sum(0)) / count
    return rstd * (g - x_hat * all_reduce((g * x_hat).sum(0)) / count)


def ms_by_intensity(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    if bytes_moved == 0 or operations / bytes_moved > peak_gflops / bandwidth_gbps:
        return operations / peak_gflops / 1e6
    return bytes_moved / bandwidth_gbps / 1e6


def keep_cheapest(x_is_kept, y_is_kept):
    """Try all 32 choices and take a cheapest one from which x̂ and rstd come back without a sum
    over the row."""
    prices = {
        "x": 4096 * (not x_is_kept),
        "y": 4096 * (not y_is_kept),
        "x_hat": 4096,
        "mean": 4,
        "rstd": 4,
    }
    choices = [set(choice) for size in range(6) for choice in itertools.combinations(prices, size)]
    enough = [
        c for c in choices if "rstd" in c and ("x_hat" in c or "y" in c or {"x", "mean"} <= c)
    ]
    return min(enough, key=lambda choice: sum(prices[name] for name in choice))


def report_arm_by_arm(validation, test):
    """A loop over the arms, in numpy, which divides by n unless it is told."""
    rate, mean, spread = [], [], []
    for seen, unseen in zip(validation.numpy(), test.numpy(), strict=True):
        rate.append(int(seen.mean(1).argmax()))
        mean.append(float(unseen[rate[-1]].mean()))
        spread.append(float(unseen[rate[-1]].std(ddof=1)))
    return torch.tensor(rate), torch.tensor(mean), torch.tensor(spread)


RIGHT = {
    "choose_and_report": [report_arm_by_arm],
    "ema": [statistics.ema, ema_by_lerp],
    "merge_moments": [Moments.merge, merge_about_the_new_mean],
    "linear_scan": [linear_scan, linear_recurrence, scan_by_logarithms],
    "sync_backward": [sync_of_centred_gradients],
    "norm_bytes": [lambda *args, **kwargs: float(check.norm_bytes.oracle(*args, **kwargs))],
    "predicted_ms": [ms_by_intensity],
    "to_keep": [keep_cheapest],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_ways_to_write_it_pass(name):
    for function in RIGHT[name]:
        assert_passes(getattr(check, name), function)


@pytest.mark.parametrize("name", sorted(RIGHT.keys() - {"to_keep"}))  # of it every one is known
def test_a_wrong_answer_of_no_known_kind_is_shown_on_a_small_input(name):
    def wrong(*args, **kwargs):
        value = RIGHT[name][0](*args, **kwargs)
        if name == "choose_and_report":
            return value[0], value[1] * 1.37 + 0.37, value[2]
        return (
            (value.count + 1, value.mean, value.m2)
            if isinstance(value, Moments)
            else value * 1.37 + 0.37
        )

    its_check = getattr(check, name)
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
