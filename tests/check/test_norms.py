"""Right ways to write a norm pass, whatever their algebra; wrong ones of no known kind are shown on
a small input."""

import pytest
import torch
import torch.nn.functional as F
from devices import on_every_device
from naming import assert_passes

from chapters import check
from course_utils import norms


def wide(x):
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def affine(y, weight, bias, dtype):
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(dtype)


def last(normalized_shape):
    return tuple(range(-len(normalized_shape), 0))


def ln_two_pass(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z, dims = wide(x), last(normalized_shape)
    centred = z - z.mean(dims, keepdim=True)
    return affine(
        centred / torch.sqrt((centred**2).mean(dims, keepdim=True) + eps), weight, bias, x.dtype
    )


def ln_shifted_one_pass(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """labml.ai's layer, E[x²] − E[x]², after subtracting a value of the row, which keeps digits."""
    z = wide(x).flatten(-len(normalized_shape))
    z = z - z[..., :1].detach()
    mean = z.mean(-1, keepdim=True)
    variance = z.square().mean(-1, keepdim=True) - mean.square()
    y = ((z - mean) / torch.sqrt(variance.clamp_min(0) + eps)).reshape(x.shape)
    return affine(y, weight, bias, x.dtype)


def ln_checkpointed(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(ln_two_pass, x, normalized_shape, weight, bias, eps, use_reentrant=False)


@pytest.mark.parametrize("function", [ln_shifted_one_pass, ln_checkpointed])
def test_right_ways_to_write_it_pass(function):
    assert_passes(check.layer_norm, function)


@on_every_device
@pytest.mark.parametrize("library", [F, norms], ids=["torch", "the course"])
@pytest.mark.parametrize(
    "name", ["layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"]
)
def test_the_norms_of_torch_and_of_the_course_pass(name, library, device):
    report = getattr(check, name)(getattr(library, name), device=device, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert report.by_course == (library is norms)


def test_float32_inside_a_float64_norm_passes_with_a_remark():
    def rounded(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return ln_two_pass(x.float(), normalized_shape, weight, bias, eps).to(x.dtype)

    report = check.layer_norm(rounded, record=False)
    assert report.passed
    assert any("float64" in remark for remark in report.remarks)
    assert not check.layer_norm(ln_two_pass, record=False).remarks


@pytest.mark.slow
def test_a_compiled_function_passes_although_compiling_takes_longer_than_a_call_may(monkeypatch):
    monkeypatch.setattr("course_utils.check.engine.CALL_LIMIT_S", 0.1)
    torch.compiler.reset()
    report = check.layer_norm(torch.compile(ln_two_pass, backend="eager"), record=False)
    assert report.passed, report


# Wrong functions that are in no catalogue.


def layer_norm_but(change):
    """Return torch's layer norm with ``change(output, x, weight, bias, eps)`` made to its
    output."""

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
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
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
        (layer_norm_but(lambda y, *_: y.masked_fill(y > 1.6, float("nan"))), 6),
        (layer_norm_but(lambda y, x, *_: y if x.dtype == torch.float32 else y + y.abs() / 64), 2),
        (layer_norm_but(lambda y, x, *_: y if x.abs().max() < 5_000 else y.round()), 3),
        (layer_norm_but(lambda y, x, *_: y if x.is_contiguous() else y.contiguous() + 1), 4),
        (
            lambda x, shape, weight=None, bias=None, eps=1e-5: F.layer_norm(
                Doubled.apply(x), shape, weight, bias, eps
            ),
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
        # a group has three values
        assert report.evidence.arguments["x"].numel() <= 3 * numbers, report
        if report.evidence.quantity:
            assert report.evidence.expected != report.evidence.got
