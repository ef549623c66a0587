"""Batch norm of images (N, C, H, W) in training, in every way the course knows."""

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from course_utils import norms
from course_utils.norms import backward
from course_utils.timing.ladder.layer_norm import norm_bytes, norm_in_loops, norm_in_one_pass, norm_inputs
from course_utils.timing.ladder.operation import EPS, Implementation, Operation, few_elements, many_elements


def in_loops(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """An element at a time."""
    channels = x.transpose(0, 1)  # (C, N, H, W)
    rows = channels.flatten(1)  # (C, N·H·W)
    y = norm_in_loops(rows, weight[:, None], bias[:, None])
    return y.view(channels.shape).transpose(0, 1)


def in_one_pass(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The mean and the mean square in one go."""
    return norm_in_one_pass(x, weight.view(-1, 1, 1), bias.view(-1, 1, 1), dims=(0, 2, 3))


def in_two_passes(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The course's own."""
    return norms.batch_norm(x, None, None, weight, bias, training=True, eps=EPS)


def with_own_backward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The course's own, with the gradients by hand."""
    return backward.BatchNormFunction.apply(x, weight, bias, EPS)


def built_in(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """PyTorch's."""
    return F.batch_norm(x, None, None, weight, bias, training=True, eps=EPS)


BATCH_NORM = Operation(
    name="batch_norm",
    differentiated=("x", "weight", "bias"),
    inputs=partial(norm_inputs, channel_dim=1),
    truth=built_in,
    bytes_moved=norm_bytes,
    rungs=(
        Implementation("loops", in_loops, few_elements),
        Implementation("eager, one pass", in_one_pass),
        Implementation("autograd.Function", with_own_backward),
        Implementation("eager, two passes", in_two_passes),
        Implementation("compiled", in_two_passes, many_elements, compiled=True),
        Implementation("built-in", built_in, ours=False),
    ),
)
