"""What each rank does in the tests of `parallel`: run by `torchrun`, one process a rank; results go to the test."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from course_utils.parallel.sync_batch_norm import SyncBatchNorm


def shard_of(x, sizes):
    return x.split(sizes)[dist.get_rank()].detach().clone(memory_format=torch.preserve_format)


def train(case, group=None):
    """Train one layer on this rank's shards, and return all that a rank can see of it."""
    layer = SyncBatchNorm(case["x"].shape[2], process_group=group, **case["options"]).to(case["x"].dtype)
    layer.load_state_dict(case["state"])
    outputs, input_gradients = [], []
    for x, upstream in zip(case["x"], case["upstream"], strict=True):
        shard = shard_of(x, case["sizes"]).requires_grad_()
        y = layer(shard)
        (y * shard_of(upstream, case["sizes"])).sum().backward()  # y.backward(upstream) would import sympy first
        outputs.append(y.detach())
        input_gradients.append(shard.grad)
    parameter_gradients = {}
    for name, parameter in layer.named_parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter_gradients[name] = parameter.grad
    layer.eval()
    return {
        "outputs": outputs,
        "input gradients": input_gradients,
        "parameter gradients": parameter_gradients,
        "buffers": dict(layer.named_buffers()),
        "evaluated": layer(shard_of(case["x"][0], case["sizes"])).detach(),
    }


def refused(shard, group=None):
    """What the layer says to the shard, and its running mean afterwards."""
    layer = SyncBatchNorm(3, process_group=group)
    try:
        layer(shard)
    except ValueError as error:
        return str(error), layer.running_mean
    return "no refusal", layer.running_mean


def nothing_anywhere():
    layer = SyncBatchNorm(3)
    y = layer(torch.ones(0, 3, 2))
    y.sum().backward()
    return tuple(y.shape), dict(layer.named_buffers()), layer.weight.grad


def everything(cases):
    """All the comparisons of one launch of three ranks: starting the processes takes most of the time."""
    rank = dist.get_rank()
    pair, rest = dist.new_group([0, 1]), dist.new_group([2])
    groups = {"in groups": pair if rank < 2 else rest}
    return {name: train(case, groups.get(name)) for name, case in cases.items()} | {
        "one value": refused(torch.ones(1 if rank == 1 else 0, 3)),
        "outside": refused(torch.ones(2, 3), pair) if rank == 2 else None,
        "nothing": nothing_anywhere(),
        "threads": (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]),
    }


def one_rank_does_not_come(folder):
    Path(folder, f"{os.getpid()}").touch()
    if dist.get_rank() == 0:
        time.sleep(60)
    SyncBatchNorm(3)(torch.ones(2, 3))


def never_ends(folder):
    Path(folder, f"{os.getpid()}").touch()
    while True:
        time.sleep(0.1)
