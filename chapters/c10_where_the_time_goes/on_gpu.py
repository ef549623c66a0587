"""Chapter 10: launches and kernels on a GPU, timed one by one and in a graph, and traced.

What the notebook measures where there is a GPU, and has recorded where there is none.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from course_utils.session import generator
from course_utils.timing.timers import Call, copy_of, measure_in_turns

_TRACED = "the call that is traced"

__all__ = ["by_clock", "copies", "launches", "share_of_a_block", "trace"]


def launches(sizes: Sequence[int], count: int = 100, repeats: int = 30) -> list[dict[str, float]]:
    """Return what ``count`` additions to vectors of each size take, in µs for each kernel.

    ``asked``: until Python has launched them all; ``done``: until the last one has run; ``graph``:
    until that, when a CUDA graph launches them; ``kernel``: the median of the kernels alone, by the
    profiler. The first three are medians of ``repeats``, by a clock around the calls.
    """
    found = []
    for size in sizes:
        x = torch.zeros(size, device="cuda")

        def one_by_one(x: Tensor = x) -> None:
            for _ in range(count):
                x.add_(1)

        one_by_one()  # what captures a graph must be warm
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one_by_one()
        asked, done = by_clock(one_by_one, repeats)
        in_a_graph = by_clock(graph.replay, repeats)[1]
        kernels = [end - begin for _, begin, end in trace(one_by_one)["kernels"]]
        times = {"asked": asked, "done": done, "graph": in_a_graph}
        found.append(
            {
                "size": size,
                "kernel": statistics.median(kernels),
                **{name: us / count for name, us in times.items()},
            }
        )
    return found


def by_clock(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Return the median µs until ``call`` returns, and until the GPU has done what it asked for."""
    returned, done = [], []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        returned.append(1e6 * (time.perf_counter() - start))
        torch.cuda.synchronize()
        done.append(1e6 * (time.perf_counter() - start))
    return statistics.median(returned), statistics.median(done)


def copies(megabytes: Sequence[float], repeats: int = 20) -> list[float]:
    """Return the GB/s, reads and writes both counted, of a copy that is made again and again, by
    the size of what is copied: out of the L2 cache, where it stays there."""
    rates = []
    for size in megabytes:
        source = torch.ones(int(size * 2**20) // 4, device="cuda")
        copy = copy_of(source)

        def again(copy: Call = copy) -> None:
            for _ in range(repeats):
                copy()

        ms = measure_in_turns({"copies": again}, "cuda")["copies"].median_ms
        rates.append(2 * source.nbytes * repeats / ms / 1e6)
    return rates


def trace(call: Call) -> dict[str, list[tuple[str, float, float]]]:
    """Return what the profiler saw of a warm call: a name, begin and end in µs from the call, of
    its ``operators`` (the outermost), its ``launches`` and its ``kernels``."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        call()  # the profiler's own first time takes a millisecond
        torch.cuda.synchronize()
        with record_function(_TRACED):
            call()
        torch.cuda.synchronize()
    events = profiled.events()
    begin = next(event.time_range.start for event in events if event.name == _TRACED)
    kinds: dict[str, list[tuple[str, float, float]]] = {
        "operators": [],
        "launches": [],
        "kernels": [],
    }
    for event in events:
        span = event.time_range
        if span.start < begin or event.name == _TRACED:
            continue
        if event.device_type != DeviceType.CPU:
            kind = "kernels"
        elif "Launch" in event.name:
            kind = "launches"
        elif event.cpu_parent is not None and event.cpu_parent.name == _TRACED:
            kind = "operators"
        else:
            continue
        name = event.name.removeprefix("void ").partition("<")[0]  # a template's is long
        kinds[kind].append((name, span.start - begin, span.end - begin))
    return {kind: sorted(spans, key=itemgetter(1)) for kind, spans in kinds.items()}


@torch.no_grad()
def share_of_a_block(
    norms: dict[str, Callable[..., Tensor]], width: int = 4096, tokens: int = 8192
) -> dict[str, float]:
    """Return the ms of a transformer block's forward pass in bfloat16 under "the block", its norms
    PyTorch's, and those of its two norms by the name of each way to write them."""
    block = nn.TransformerEncoderLayer(width, width // 128, 4 * width, 0.0, batch_first=True)
    block.to("cuda", torch.bfloat16)
    x = torch.randn(tokens // 512, 512, width, generator=generator(4, "cuda"), device="cuda")
    x = x.bfloat16()
    pair = [(norm.weight, norm.bias) for norm in (block.norm1, block.norm2)]

    def both(norm: Callable[..., Tensor]) -> Call:
        return lambda: [norm(x, weight, bias) for weight, bias in pair]

    calls = {"the block": lambda: block(x), **{name: both(norm) for name, norm in norms.items()}}
    return {name: t.median_ms for name, t in measure_in_turns(calls, "cuda").items()}
