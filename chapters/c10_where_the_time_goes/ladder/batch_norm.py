"""Batch norm of images (N, C, H, W) in training, in every way the course knows."""

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from chapters.c10_where_the_time_goes.ladder.layer_norm import (
    norm_bytes,
    norm_in_loops,
    norm_in_one_pass,
    norm_inputs,
)
from chapters.c10_where_the_time_goes.ladder.operation import (
    EPS,
    Function,
    Implementation,
    Operation,
)
from course_utils import norms
from course_utils.norms import backward


def in_loops(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """An element at a time."""
    channels = x.transpose(0, 1)  # (C, N, H, W)
    rows = channels.flatten(1)  # (C, N·H·W)
    y = norm_in_loops(rows, weight[:, None], bias[:, None])
    return y.view(channels.shape).transpose(0, 1)


def in_one_pass(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The mean and the mean square in one go."""
    return norm_in_one_pass(x, weight.view(-1, 1, 1), bias.view(-1, 1, 1), dims=(0, 2, 3))


def with_own_backward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The course's own, with the gradients by hand."""
    return backward.batch_norm(x, weight, bias, EPS)


def in_training(function: Function) -> Function:
    """Return a batch norm with PyTorch's arguments as a function of x and the parameters."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return function(x, None, None, weight, bias, training=True, eps=EPS)

    return norm


BATCH_NORM = Operation(
    name="batch_norm",
    differentiated=("x", "weight", "bias"),
    inputs=partial(norm_inputs, channel_dim=1),
    truth=in_training(F.batch_norm),
    bytes_moved=norm_bytes,
    rungs=(
        Implementation("loops", in_loops, "few elements"),
        Implementation("eager, one pass", in_one_pass),
        Implementation("autograd.Function", with_own_backward),
        Implementation("eager, two passes", in_training(norms.batch_norm)),
        Implementation("compiled", in_training(norms.batch_norm), "many elements", compiled=True),
        Implementation("built-in", in_training(F.batch_norm), ours=False),
    ),
)
