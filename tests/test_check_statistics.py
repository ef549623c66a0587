"""The checks of chapter 04: right answers pass, whatever their algebra."""

import numpy as np
import pytest
import torch

from course_utils import check
from course_utils.norms import statistics
from course_utils.norms.statistics import Moments

CHECKS = (check.ema, check.merge_moments)


def lerp(average, value, momentum, convention="torch"):
    average, value = torch.as_tensor(average), torch.as_tensor(value)
    return torch.lerp(average, value, momentum if convention == "torch" else 1 - momentum)


def s2_cheaper_form(average, value, momentum, convention="torch"):
    momentum = 1 - momentum if convention == "torch" else momentum
    return average - (average - value) * (1 - momentum)


def in_float64(average, value, momentum, convention="torch"):
    average, value = torch.as_tensor(average), torch.as_tensor(value)
    return statistics.ema(average.double(), value.double(), momentum, convention).to(average.dtype)


def batch_norms_own(average, value, momentum, convention="torch"):
    """What torch's layer does to its buffer, taken from the layer; two equal samples have the value as their mean."""
    average, value = torch.as_tensor(average), torch.as_tensor(value)
    momentum = momentum if convention == "torch" else 1 - momentum
    layer = torch.nn.BatchNorm1d(value.numel(), momentum=momentum, dtype=value.dtype)
    layer.running_mean.copy_(average.flatten())
    layer(value.reshape(1, -1).expand(2, -1))
    return layer.running_mean.reshape(average.shape)


def by_descent(average, value, momentum, convention="torch"):
    """Gradient descent on half the squared distance is a moving average."""
    start = torch.as_tensor(average).clone().requires_grad_()
    (gradient,) = torch.autograd.grad((start - value).square().sum() / 2, start)
    return average - (momentum if convention == "torch" else 1 - momentum) * gradient


def with_other_names(old, new, weight, convention="torch"):
    match convention:
        case "torch":
            return old + weight * (new - old)
        case "keras":
            return new + weight * (old - new)


@pytest.mark.parametrize(
    "function",
    [statistics.ema, lerp, s2_cheaper_form, in_float64, batch_norms_own, by_descent, with_other_names],
)
def test_right_ways_to_average_pass(function):
    report = check.ema(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"


@pytest.mark.parametrize(
    ("function", "key", "words"),
    [
        (lambda a, v, m, convention="torch": torch.lerp(a, v, m if convention == "torch" else 1 - m),
         "tensors_only", "It takes tensors, and no plain numbers."),
        (lambda a, v, m, convention="torch": a.add(v - a, alpha=m if convention == "torch" else 1 - m),
         "tensors_only", "It takes tensors, and no plain numbers."),
        (lambda a, v, m, convention="torch": statistics.ema(a, v, m, convention).float(),
         "computed_in_single", "It computes in float32, although it is given float64."),
        (lambda a, v, m, convention="torch": a + (m if convention == "torch" else 1 - m) * (v - a).float().to(a.dtype),
         "computed_in_single", "It computes in float32, although it is given float64."),
    ],
)  # fmt: skip
def test_an_average_for_tensors_only_or_in_float32_only_is_refused_by_name(function, key, words):
    report = check.ema(function, record=False)
    assert report.misconception == key, f"{report}\n{report.table()}"
    assert words in str(report)
    assert next(probe for probe in report.probes if not probe.passed).stage in ("float64", "plain numbers")


def by_attributes(a, b):
    n = a.count + b.count
    delta = b.mean - a.mean
    share = b.count / max(n, 1)
    return Moments(n, a.mean + delta * share, a.m2 + b.m2 + delta**2 * a.count * share)


def by_unpacking(a, b):
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    mean = (n_a * mean_a + n_b * mean_b) / n if n else mean_a
    return n, mean, m2_a + n_a * (mean_a - mean) ** 2 + m2_b + n_b * (mean_b - mean) ** 2


def with_a_case_for_nothing(a, b):
    if a.count == 0:
        return b
    if b.count == 0:
        return a
    n = int(a.count) + int(b.count)
    delta = a.mean - b.mean
    return [n, b.mean + delta * (int(a.count) / n), a.m2 + b.m2 + delta * delta / (1 / a.count + 1 / b.count)]


def nan_where_nothing_is(a, b):
    """A merge that divides by zero, and leaves it to Moments that the mean of nothing is not read."""
    n = a.count + b.count
    delta = b.mean - a.mean
    return Moments(n, a.mean + delta * b.count / n, a.m2 + b.m2 + delta**2 * a.count * b.count / n)


def by_values(a, b):
    """Make values with these moments, and take theirs: slow and right."""

    def values(part, k):
        n = int(part.count)
        if n < 2:
            return np.full(n, float(part.mean.flatten()[k]))
        shape = np.arange(n) - (n - 1) / 2
        return float(part.mean.flatten()[k]) + shape * np.sqrt(float(part.m2.flatten()[k]) / (shape**2).sum())

    pools = [np.concatenate([values(a, k), values(b, k)]) for k in range(a.mean.numel())]
    means = [pool.mean() if len(pool) else 0.0 for pool in pools]
    m2s = [((pool - mean) ** 2).sum() for pool, mean in zip(pools, means, strict=True)]
    return a.count + b.count, *(torch.tensor(numbers).reshape(a.mean.shape) for numbers in (means, m2s))


@pytest.mark.parametrize(
    "function",
    [Moments.merge, by_attributes, by_unpacking, with_a_case_for_nothing, nan_where_nothing_is, by_values],
)
def test_right_ways_to_merge_pass(function):
    report = check.merge_moments(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"


def test_an_unknown_wrong_merge_is_shown_on_small_parts():
    report = check.merge_moments(lambda a, b: (a.count + b.count + 1, a.mean, a.m2), record=False)
    assert report.misconception is None
    assert not report.passed
    assert "expected" in str(report)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a, b: a.mean + b.mean, "It returns a Tensor; expected a tuple of count and mean and m2"),
        (lambda a, b: (a.count, a.mean), "expected a tuple of count and mean and m2"),
        (lambda a: a, "It is called as merge_moments(a, b)"),
    ],
)
def test_what_is_no_merge_at_all_is_said(function, words):
    report = check.merge_moments(function, record=False)
    assert not report.passed
    assert words in str(report)


@pytest.mark.parametrize("its_check", CHECKS, ids=lambda its_check: its_check.name)
def test_a_stub_is_not_attempted(its_check):
    def untouched(*arguments, **options):
        """To be written."""

    assert not its_check(untouched, record=False).attempted
