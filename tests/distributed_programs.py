"""What each rank does in the tests of `distributed`: run by `torchrun`, one process a rank; results go to the test."""

import copy
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.parallel.cost import written_bytes
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


def refusals():
    """What the layer says to one value a channel on all ranks together, and what it leaves unchanged."""
    layer = SyncBatchNorm(3)
    shard = torch.ones(1 if dist.get_rank() == 1 else 0, 3)
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


def copies(group):
    """A copy of a layer with a process group of its own still computes with that group, apart from the original."""
    layer = SyncBatchNorm(3, process_group=group)
    twin = copy.deepcopy(layer)
    x = torch.arange(6.0).reshape(2, 3) * (1 + dist.get_rank())
    same = torch.equal(layer(x), twin(x)) and twin.process_group is group
    return same, twin.weight is not layer.weight and twin.running_mean is not layer.running_mean


def outside_of_the_group(group):
    try:
        SyncBatchNorm(3, process_group=group)(torch.ones(2, 3))
    except ValueError as error:
        return str(error)
    return "no refusal"


def second_derivative():
    layer, x = SyncBatchNorm(3), torch.arange(6.0).reshape(2, 3).requires_grad_()
    (dx,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    try:
        dx.sum().backward()
    except RuntimeError as error:
        return str(error)
    return "no refusal"


def bytes_on_the_wire(channels):
    """Bytes that one forward and one backward pass send from this rank, frames of the transport included."""
    layer = SyncBatchNorm(channels)
    x = torch.randn(4, channels, requires_grad=True)
    layer(x).sum().backward()  # the first pass opens connections
    dist.barrier()
    start = written_bytes()
    y = layer(x)
    middle = written_bytes()
    y.sum().backward()
    return middle - start, written_bytes() - middle


def everything(cases, network):
    """All the comparisons of one launch: starting the processes takes most of the time."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pair, rest = dist.new_group([0, 1]), dist.new_group(list(range(2, ranks))) if ranks > 2 else None
    found = {name: train(case) for name, case in cases.items() if "in groups" not in case}
    found |= {name: train(case, pair if rank < 2 else rest) for name, case in cases.items() if "in groups" in case}
    found["network"] = train_network(**network)
    found["refusal"] = refusals()
    found["nothing"] = nothing_anywhere()
    found["copies"] = copies(pair) if rank < 2 else None
    found["second derivative"] = second_derivative()
    found["outside"] = outside_of_the_group(pair) if rank >= 2 else None
    if Path("/proc/self/io").exists():
        found["bytes"] = {channels: bytes_on_the_wire(channels) for channels in (96, 1536)}
    return found


def train_once():
    layer = SyncBatchNorm(3)
    layer(torch.ones(2, 3, requires_grad=True)).sum().backward()


def one_rank_is_killed(backward):
    if dist.get_rank() == 1:
        if backward:
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
