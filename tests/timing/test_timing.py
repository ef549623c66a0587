"""timing: what is timed, how often and in which order; the bytes that are kept and moved; what the
figures mean."""

import gc
import os
import platform
import subprocess
import sys
import time
import weakref

import pytest
import torch
import torch.nn.functional as F

from course_utils.timing import (
    Roofline,
    Timing,
    copy_bandwidth,
    forward_and_backward,
    measure,
    measure_in_turns,
    nesting,
    saved_bytes,
    timers,
    traffic,
)


def test_median_and_tenth_percentile_are_those_of_the_runs(monkeypatch):
    runs = [9000.0, *(float(ms) for ms in range(19, 0, -1))]  # whose mean is another
    monkeypatch.setattr(
        timers, "_on_cpu", lambda calls, rounds, seconds: dict.fromkeys(calls, runs)
    )
    timing = measure_in_turns({"it": lambda: None})["it"]
    assert (timing.median_ms, timing.p10_ms, timing.runs) == (10.5, 2.0, 20)


def test_a_rate_is_bytes_over_the_median_time():
    assert Timing(median_ms=2.0, p10_ms=1.0, runs=10, bytes_moved=40_000_000).gbps == 20.0
    assert Timing(median_ms=2.0, p10_ms=1.0, runs=10).gbps is None


@pytest.mark.parametrize("milliseconds", [0.5, 5.0])
def test_a_time_is_that_of_one_call_also_when_short_calls_are_repeated(milliseconds):
    timing = measure(lambda: time.sleep(milliseconds / 1e3))
    # Sleep never ends early; another program on the machine can make it late.
    assert milliseconds <= timing.p10_ms < 3 * milliseconds
    assert timing.p10_ms <= timing.median_ms
    assert timing.runs >= 5


def test_backward_is_part_of_what_is_measured():
    events = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            events.append("forward")
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            events.append("backward")
            return dy

    measure(Counted.apply, torch.ones(3), backward=True)
    assert events.count("backward") >= 5
    # One more forward than backward: the one that tells the shape of the output.
    assert events.count("forward") == events.count("backward") + 1


def test_arguments_may_be_given_by_name_and_get_their_gradients():
    calls = []

    def scaled(x, factor, *, weight, eps=0.0):
        calls.append((factor, eps))
        return factor * x * weight

    x, weight = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    measure(scaled, x, 2.0, weight=weight, eps=1e-6, backward=True)
    assert set(calls) == {(2.0, 1e-6)}
    gradients = forward_and_backward(
        scaled, x, factor=2.0, weight=weight, upstream=[torch.ones(2)]
    )()
    torch.testing.assert_close(gradients, (2 * weight, 2 * x))
    assert len(forward_and_backward(torch.mul, x, x.clone().requires_grad_())()) == 1


def test_calls_take_turns():
    order = []
    # not worth repeating
    calls = {name: lambda name=name: time.sleep(3e-3) or order.append(name) for name in "ab"}
    measure_in_turns(calls, rounds=6)
    turn = 3  # runs: two to warm up and one that counts
    turns = ["".join(order[start : start + turn]) for start in range(0, len(order), turn)][-2 * 6 :]
    rounds = [tuple(turns[start : start + 2]) for start in range(0, 12, 2)]
    # both in every round, and not always the same first
    assert set(rounds) == {("aaa", "bbb"), ("bbb", "aaa")}


@pytest.mark.slow
@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="the C library is not glibc")
def test_kept_memory_is_not_fetched_again_and_no_first_cell_imports_what_builds_extensions():
    program = (
        "import resource, sys, torch; from course_utils import check, plots, setup, timing, "
        "verify, widgets; setup()\n"
        # where there is a CUDA toolkit and no GPU, importing it writes to stderr
        "assert 'torch.utils.cpp_extension' not in sys.modules\n"
        "def faults():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(5): torch.ones(16 * 2**20)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "handed_back = faults(); assert timing.keep_freed_memory()\n"
        # five times 64 MB are 81920 pages of 4 KB, or 160 of 2 MB
        "assert min(faults() for _ in range(8)) < handed_back / 10\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_roofline_is_bandwidth_below_the_ridge_and_arithmetic_above():
    machine = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
    assert machine.ridge == 5.0
    assert machine.predicted_ms(bytes_moved=40e6, operations=1e6) == 2.0
    assert machine.predicted_ms(bytes_moved=40e6, operations=1e9) == 10.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: measure(torch.square, torch.ones(3, device="meta")),
            "device must be cpu or cuda: got 'meta'",
        ),
        (lambda: Roofline.of("gpu"), "device must be cpu or cuda: got 'gpu'"),
        (lambda: measure_in_turns({"it": int}, rounds=0), "rounds must be at least 1: got 0"),
        (
            lambda: Roofline(bandwidth_gbps=0, peak_gflops=100.0),
            "bandwidth_gbps must be a positive number: got 0",
        ),
        (
            lambda: saved_bytes(torch.exp, torch.ones(10)),
            "args must hold a tensor that requires a gradient: got none",
        ),
    ],
)
def test_an_argument_that_cannot_be_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- bytes kept and bytes moved


X, Y = torch.ones(10, 10), torch.ones(10, 10)


def test_zero_is_an_answer_where_something_requires_a_gradient():
    assert saved_bytes(lambda x: x + 1, torch.ones(10, requires_grad=True)) == 0
    assert saved_bytes(torch.argmax, torch.ones(10, requires_grad=True)) == 0


def test_what_was_kept_for_the_count_is_let_go():
    results = []

    def remembered(x):
        result = x.exp()
        results.append(weakref.ref(result))
        return result

    saved_bytes(remembered, torch.ones(10, requires_grad=True))
    gc.collect()
    assert results[0]() is None


def moved(fn, *args):
    return [(step.operator, step.bytes_read, step.bytes_written) for step in traffic(fn, *args)]


TRAFFIC = {
    "two tensors in, one out": (lambda x, y: x + y, [("add", 800, 400)]),
    "in place": (lambda x, y: x.clone().mul_(y), [("clone", 400, 400), ("mul_", 800, 400)]),
    "a reduction": (lambda x, y: x.sum(), [("sum", 400, 4)]),
    "views": (lambda x, y: x.view(100)[:50].view(5, 10).mT, []),
    "an allocation": (lambda x, y: torch.empty_like(x), []),
    "expanded": (lambda x, y: x + y.sum(0).expand(10, 10), [("sum", 400, 40), ("add", 440, 400)]),
    "out=": (lambda x, y: torch.add(x, y, out=torch.empty(10, 10)), [("add", 800, 400)]),
    "another dtype": (lambda x, y: x.double() * 2, [("_to_copy", 400, 800), ("mul", 800, 800)]),
}


@pytest.mark.parametrize(("fn", "steps"), TRAFFIC.values(), ids=TRAFFIC)
def test_bytes_are_those_of_the_tensors_that_go_in_and_come_out(fn, steps):
    assert moved(fn, X, Y) == steps


def test_the_operators_of_the_backward_pass_are_seen_as_well():
    x = torch.randn(10, 10, requires_grad=True)
    names = [step.operator for step in traffic(lambda x: torch.autograd.grad((x * x).sum(), x), x)]
    assert names[:2] == ["mul", "sum"]
    assert len(names) > 2


def test_an_operator_called_by_another_is_one_level_deeper():
    events = nesting(lambda: F.layer_norm(X, (10,)))
    assert events[:2] == [(1, "aten::layer_norm"), (2, "aten::native_layer_norm")]
    assert {level for level, _ in events[2:]} == {3}


def test_profiling_writes_nothing(capfd):
    nesting(lambda: X + Y)
    assert capfd.readouterr() == ("", "")
    assert os.environ["KINETO_LOG_LEVEL"]


# -- on a GPU


gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@gpu
@needs_gpu
def test_a_replayed_graph_leaves_the_launch_out():
    x = torch.ones(16, device="cuda")

    def twenty_launches(x):
        for _ in range(20):
            x = x + 1
        return x

    twenty_launches(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    twenty_launches(x)
    launched_ms = 1e3 * (time.perf_counter() - start)
    assert 0 < measure(twenty_launches, x).median_ms < launched_ms


@gpu
@needs_gpu
def test_data_is_read_from_memory_although_it_would_fit_into_l2():
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    x = torch.ones(l2_bytes // 8, device="cuda")  # half of it; what is written may stay there
    small = measure(torch.sum, x, bytes_moved=x.nbytes)
    assert small.gbps is not None
    assert small.gbps < 1.3 * copy_bandwidth("cuda")


@gpu
@needs_gpu
def test_a_call_that_waits_for_the_gpu_is_refused_and_the_next_one_is_measured():
    x = torch.ones(16, device="cuda")
    with pytest.raises(RuntimeError, match="synchronizing"):
        measure(lambda x: x.sum().item(), x)
    assert measure(torch.clone, x).median_ms > 0


@gpu
@needs_gpu
def test_backward_is_captured_too():
    x = torch.randn(4096, 4096, device="cuda")
    forward = measure(torch.nn.functional.gelu, x)
    both = measure(torch.nn.functional.gelu, x, backward=True)
    assert both.median_ms > 1.5 * forward.median_ms
