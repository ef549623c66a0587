"""What each rank does in the tests of `distributed`: run by `torchrun`, one process a rank; results go to the test."""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.parallel.sync_batch_norm import SyncBatchNorm, convert


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


def small_network():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 5),
        nn.BatchNorm1d(5, momentum=None),
    ).double()


def train_network(state, x, upstream, sizes):
    """Three steps of `DistributedDataParallel`, whose mean over the ranks is made the sum."""
    network = small_network()
    network.load_state_dict(state)
    network = DistributedDataParallel(convert(network))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for one, gradient in zip(x, upstream, strict=True):
        optimizer.zero_grad()
        (network(shard_of(one, sizes)) * shard_of(gradient, sizes)).sum().mul(dist.get_world_size()).backward()
        optimizer.step()
    return network.module.state_dict()


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


def everything(cases, network):
    """All the comparisons of one launch: starting the processes takes most of the time."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pair, rest = dist.new_group([0, 1]), dist.new_group(list(range(2, ranks))) if ranks > 2 else None
    groups = {"in groups": pair if rank < 2 else rest}
    found = {name: train(case, groups.get(name)) for name, case in cases.items()}
    found["network"] = train_network(**network)
    found["one value"] = refused(torch.ones(1 if rank == 1 else 0, 3))
    found["outside"] = refused(torch.ones(2, 3), pair) if rank >= 2 else None
    found["nothing"] = nothing_anywhere()
    return found


def train_once():
    layer = SyncBatchNorm(3)
    layer(torch.ones(2, 3, requires_grad=True)).sum().backward()


def one_rank_is_killed():
    if dist.get_rank() == 1:
        SyncBatchNorm(3)(torch.ones(2, 3))
        os.kill(os.getpid(), signal.SIGKILL)
    train_once()


def one_rank_raises():
    if dist.get_rank() == 0:
        raise KeyError("label")
    train_once()


def one_rank_comes_late():
    if dist.get_rank() == 0:
        time.sleep(30)
    else:
        train_once()


def never_ends(folder):
    Path(folder, f"{os.getpid()}").touch()
    while True:
        time.sleep(0.1)


def port_and_rank():
    return os.environ["MASTER_PORT"], dist.get_rank(), torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]
