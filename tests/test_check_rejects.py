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


def last(normalized_shape):
    return tuple(range(-len(normalized_shape), 0))


def median_for_mean(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    rows = x.flatten(-len(normalized_shape))
    centred = rows - rows.median(-1, keepdim=True).values
    y = (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)).reshape(x.shape)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def standardised_twice(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(x + F.layer_norm(x, normalized_shape), normalized_shape, None, None, eps)
    return y if weight is None else y * weight


def min_max(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = last(normalized_shape)
    low, high = x.amin(dims, keepdim=True), x.amax(dims, keepdim=True)
    return (x - low) / (high - low + eps)


def softmax(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return x.flatten(-len(normalized_shape)).softmax(-1).reshape(x.shape)


def squared_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, None if weight is None else weight * weight, bias, eps)


def eps_squared(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps**2)


def eps_in_numerator(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps) + eps


def wrong_backward(scale_x=1.0, scale_weight=1.0, dtypes=(torch.float32, torch.bfloat16, torch.float16)):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, scale):
            ctx.scale = scale
            return y.clone()

        @staticmethod
        def backward(ctx, dy):
            return dy * (ctx.scale if dy.dtype in dtypes else 1), None

    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        weight = None if weight is None else Wrong.apply(weight, scale_weight)
        return F.layer_norm(Wrong.apply(x, scale_x), normalized_shape, weight, bias, eps)

    return layer_norm


def raises_without_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None:
        raise ValueError("a weight, please")  # the known mistake of needing one ends in a TypeError
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def raises_for_many_axes(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if x.ndim > 3:
        raise NotImplementedError("three axes are enough")
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def right_for_two_axes_only(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps) * (1 if x.ndim == 2 else -1)


def rms_with_absolute_mean(x, normalized_shape, weight=None, eps=None):
    y = x / (x.abs().mean(last(normalized_shape), keepdim=True) + 1e-7)
    return y if weight is None else y * weight


def rms_of_rms(x, normalized_shape, weight=None, eps=None):
    return F.rms_norm(F.rms_norm(x, normalized_shape, None, eps) ** 2, normalized_shape, weight, eps)


def rms_sign_lost(x, normalized_shape, weight=None, eps=None):
    return F.rms_norm(x, normalized_shape, weight, eps).abs()


def group_norm_reversed_weight(x, num_groups, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, num_groups, None if weight is None else weight.flip(0), bias, eps)


def group_norm_last_group_left_out(x, num_groups, weight=None, bias=None, eps=1e-5):
    y = F.group_norm(x, num_groups, weight, bias, eps)
    size = x.shape[1] // num_groups
    return torch.cat([y[:, :-size], x[:, -size:]], 1)


def group_norm_groups_of_positions(x, num_groups, weight=None, bias=None, eps=1e-5):
    flat = x.flatten(1)
    y = F.group_norm(flat.flip(1).reshape(x.shape), num_groups, None, None, eps)
    y = y.flip(2 if x.ndim > 2 else 1)
    return F.group_norm(y, 1)


def instance_norm_max_for_mean(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    return x - x.amax(tuple(range(2, x.ndim)), keepdim=True)


def instance_norm_variance_updated_twice(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    y = F.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    if use_input_stats and running_var is not None:
        F.instance_norm(x, running_mean.clone(), running_var, None, None, True, momentum, eps)
    return y


def batch_norm_first_sample_decides(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    F.batch_norm(x, running_mean, running_var, None, None, True, momentum, eps)
    return F.batch_norm(x - x[:1], None, None, weight, bias, True, momentum, eps) * 0.5


def batch_norm_mean_never_moves(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    kept = running_mean if running_mean is None or not training else running_mean.clone()
    return F.batch_norm(x, kept, running_var, weight, bias, training, momentum, eps)


def batch_norm_momentum_of_variance_swapped(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    if training and running_var is not None:
        F.batch_norm(
            x,
            None if running_mean is None else running_mean.clone(),
            running_var,
            None,
            None,
            True,
            1 - 2 * momentum,
            eps,
        )
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


def batch_norm_bias_in_training_only_halved(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    bias = bias / 2 if training and bias is not None else bias
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


# function, stage in which it first fails, and how many numbers the smallest x has at most
REJECTED = [
    (check.layer_norm, layer_norm_but(lambda y, *_: -y), 2),
    (check.layer_norm, layer_norm_but(lambda y, *_: y * 2), 2),
    (check.layer_norm, layer_norm_but(lambda y, *_: y + 0.001), 1),
    (check.layer_norm, layer_norm_but(lambda y, *_: y.clamp(-1.5, 1.5)), 6),
    (check.layer_norm, layer_norm_but(lambda y, *_: torch.zeros_like(y)), 2),
    (check.layer_norm, layer_norm_but(lambda y, *_: y.masked_fill(y > 1.6, float("nan"))), 6),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y.flip(0)), 6),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y if x.dtype == torch.float32 else y * 0), 2),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y if x.dtype == torch.float32 else y + y.abs() / 64), 2),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y + 0 * x.square() + (x.detach() - x)), 1),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y if x.abs().max() < 5_000 else y.round()), 3),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y if x.abs().max() > 0.1 else y * 1.01), 2),
    (check.layer_norm, layer_norm_but(lambda y, x, *_: y if x.is_contiguous() else y.contiguous() + 1), 4),
    (check.layer_norm, layer_norm_but(lambda y, x, w, b, eps: y if b is None else y + b), 1),
    (check.layer_norm, median_for_mean, 4),
    (check.layer_norm, standardised_twice, 4),
    (check.layer_norm, min_max, 2),
    (check.layer_norm, softmax, 1),
    (check.layer_norm, squared_weight, 2),
    (check.layer_norm, eps_squared, 2),
    (check.layer_norm, eps_in_numerator, 20),
    (check.layer_norm, wrong_backward(scale_x=1.1), 3),
    (check.layer_norm, wrong_backward(scale_weight=0.5), 2),
    (check.layer_norm, wrong_backward(scale_x=1.1, dtypes=(torch.bfloat16,)), 32),
    (check.layer_norm, raises_without_weight, 1),
    (check.layer_norm, raises_for_many_axes, 2),
    (check.layer_norm, right_for_two_axes_only, 2),
    (check.rms_norm, rms_with_absolute_mean, 2),
    (check.rms_norm, rms_of_rms, 2),
    (check.rms_norm, rms_sign_lost, 2),
    (check.group_norm, group_norm_reversed_weight, 4),
    (check.group_norm, group_norm_last_group_left_out, 2),
    (check.group_norm, group_norm_groups_of_positions, 6),
    (check.instance_norm, instance_norm_max_for_mean, 2),
    (check.instance_norm, instance_norm_variance_updated_twice, 2),
    (check.batch_norm, batch_norm_first_sample_decides, 2),
    (check.batch_norm, batch_norm_mean_never_moves, 2),
    (check.batch_norm, batch_norm_momentum_of_variance_swapped, 2),
    (check.batch_norm, batch_norm_bias_in_training_only_halved, 2),
]


@pytest.mark.parametrize(
    ("its_check", "function", "numbers"),
    [pytest.param(*row, id=f"{row[0].name}-{number}-{row[1].__name__}") for number, row in enumerate(REJECTED)],
)
def test_an_unknown_mistake_is_rejected_with_a_small_input_that_shows_it(its_check, function, numbers):
    report = its_check(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.arguments["x"].numel() <= 3 * numbers, report  # a group has three values
    if report.evidence.quantity:
        assert report.evidence.expected != report.evidence.got


@pytest.mark.parametrize("function", [row[1] for row in REJECTED if row[0] is check.layer_norm][:8])
def test_what_is_shown_is_what_the_function_gives_and_what_torch_gives(function):
    evidence = check.layer_norm(function, record=False).evidence
    arguments = dict(evidence.arguments)
    x, shape = arguments.pop("x"), arguments.pop("normalized_shape")
    truth = F.layer_norm(x, shape, **arguments)
    assert not torch.allclose(function(x, shape, **arguments), truth, rtol=0, atol=1e-5)
    assert evidence.expected == str([[float(f"{v:.3g}") for v in row] for row in truth.tolist()]).replace(
        ".0,", ","
    ).replace(".0]", "]")
