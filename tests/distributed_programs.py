"""What each rank does in the tests of `parallel`: run by `torchrun`, one process a rank; results go
to the test."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from chapters.c09_batch_norm_across_machines.sync_batch_norm import SyncBatchNorm


def train(layer, x, upstream):
    """Train a layer for as many steps as ``x`` and ``upstream`` have, and return all that can be
    seen of it."""
    outputs, input_gradients = [], []
    for one, gradient in zip(x, upstream, strict=True):
        leaf = one.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        y = layer(leaf)
        (y * gradient).sum().backward()  # y.backward(gradient) would import sympy first
        outputs.append(y.detach())
        input_gradients.append(leaf.grad)
    return {
        "outputs": torch.stack(outputs),
        "input gradients": torch.stack(input_gradients),
        "evaluated": layer.eval()(x[0]).detach(),
        "parameter gradients": {
            name: parameter.grad for name, parameter in layer.named_parameters()
        },
        "buffers": dict(layer.named_buffers()),
    }


def synchronised(case, group=None):
    """The same for this rank's shards, with the gradients of the parameters added up."""
    layer = SyncBatchNorm(case["x"].shape[2], process_group=group, **case["options"]).to(
        case["x"].dtype
    )
    layer.load_state_dict(case["state"])
    found = train(
        layer,
        *(case[name].split(case["sizes"], dim=1)[dist.get_rank()] for name in ("x", "upstream")),
    )
    for gradient in found["parameter gradients"].values():
        dist.all_reduce(gradient, group=group)
    return found


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
    """All the comparisons of one launch of three ranks: starting the processes takes most of the
    time."""
    rank = dist.get_rank()
    pair, rest = dist.new_group([0, 1]), dist.new_group([2])
    groups = {"in groups": pair if rank < 2 else rest}
    return {name: synchronised(case, groups.get(name)) for name, case in cases.items()} | {
        "one value": refused(torch.ones(1 if rank == 1 else 0, 3)),
        "outside": refused(torch.ones(2, 3), pair) if rank == 2 else None,
        "nothing": nothing_anywhere(),
        "threads": torch.get_num_threads(),
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
