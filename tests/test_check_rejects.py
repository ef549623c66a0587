"""Wrong functions that are in no catalogue are rejected without a name, and with the smallest input that shows it."""

import pytest
import torch
import torch.nn.functional as F

from course_utils import check


def layer_norm_but(change):
    """Return torch's layer norm with ``change(output, x, weight, bias, eps)`` made to its output."""

    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return change(F.layer_norm(x, normalized_shape, weight, bias, eps), x, weight, bias, eps)

    return layer_norm


class Doubled(torch.autograd.Function):
    """Nothing, whose gradient is twice as large as it should be."""

    @staticmethod
    def forward(ctx, y):
        return y.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


def raises_without_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None:
        raise ValueError("a weight, please")  # the known mistake of needing one ends in a TypeError
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def group_norm_reversed_weight(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, num_groups, None if weight is None else weight.flip(0), bias, eps)


def instance_norm_variance_updated_twice(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    y = F.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    if use_input_stats and running_var is not None:
        F.instance_norm(x, running_mean.clone(), running_var, None, None, True, momentum, eps)
    return y


def batch_norm_mean_never_moves(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    kept = running_mean if running_mean is None or not training else running_mean.clone()
    return F.batch_norm(x, kept, running_var, weight, bias, training, momentum, eps)


# function, and how many numbers the smallest x has at most
REJECTED = {
    check.layer_norm: [
        (layer_norm_but(lambda y, *_: y + 0.001), 1),
        (layer_norm_but(lambda y, *_: y.clamp(-1.5, 1.5)), 6),
        (layer_norm_but(lambda y, *_: y.masked_fill(y > 1.6, float("nan"))), 6),
        (layer_norm_but(lambda y, x, *_: y if x.dtype == torch.float32 else y + y.abs() / 64), 2),
        (layer_norm_but(lambda y, x, *_: y + 0 * x.square() + (x.detach() - x)), 1),
        (layer_norm_but(lambda y, x, *_: y if x.abs().max() < 5_000 else y.round()), 3),
        (layer_norm_but(lambda y, x, *_: y if x.is_contiguous() else y.contiguous() + 1), 4),
        (lambda x, shape, weight=None, bias=None, eps=1e-5: F.layer_norm(x, shape, weight, bias, eps**2), 2),
        (
            lambda x, shape, weight=None, bias=None, eps=1e-5: F.layer_norm(Doubled.apply(x), shape, weight, bias, eps),
            3,
        ),
        (raises_without_weight, 1),
    ],
    check.group_norm: [(group_norm_reversed_weight, 4)],
    check.instance_norm: [(instance_norm_variance_updated_twice, 2)],
    check.batch_norm: [(batch_norm_mean_never_moves, 2)],
}


@pytest.mark.parametrize("its_check", REJECTED, ids=lambda its_check: its_check.name)
def test_an_unknown_mistake_is_rejected_with_a_small_input_that_shows_it(its_check):
    for number, (function, numbers) in enumerate(REJECTED[its_check]):
        report = its_check(function, record=False)
        assert not report.passed, number
        assert report.misconception is None, report
        assert report.evidence.arguments["x"].numel() <= 3 * numbers, report  # a group has three values
        if report.evidence.quantity:
            assert report.evidence.expected != report.evidence.got
