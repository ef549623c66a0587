"""timing: what is timed, how often and in which order; the bytes that are kept and moved; what the figures mean."""

import os
import platform
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

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


def test_a_rate_is_bytes_over_the_median_time():
    assert Timing(median_ms=2.0, p10_ms=1.0, runs=10, bytes_moved=40_000_000).gbps == 20.0
    assert Timing(median_ms=2.0, p10_ms=1.0, runs=10).gbps is None


def test_the_first_tensor_says_where_to_measure_and_the_bytes_are_passed_on():
    assert measure(lambda scale, x: scale * x, 3, torch.ones(3), bytes_moved=24).bytes_moved == 24


def test_median_and_tenth_percentile_are_those_of_the_runs(monkeypatch):
    runs = [9000.0, *(float(ms) for ms in range(19, 0, -1))]  # whose mean is another
    monkeypatch.setattr(timers, "_on_cpu", lambda calls, rounds, seconds: dict.fromkeys(calls, runs))
    timing = measure_in_turns({"it": lambda: None})["it"]
    assert (timing.median_ms, timing.p10_ms, timing.runs) == (10.5, 2.0, 20)


@pytest.mark.parametrize("milliseconds", [0.5, 5.0])
def test_a_time_is_that_of_one_call_also_when_short_calls_are_repeated(milliseconds):
    timing = measure(lambda: time.sleep(milliseconds / 1e3))
    # Sleep never ends early; another program on the machine can make it late.
    assert milliseconds <= timing.p10_ms < 3 * milliseconds
    assert timing.p10_ms <= timing.median_ms
    assert timing.runs >= 5


def test_forward_alone_is_measured_without_recording_a_graph():
    recorded = set()

    def fn(x):
        recorded.add(torch.is_grad_enabled())
        return x + 1

    measure(fn, torch.ones(3, requires_grad=True))
    assert recorded == {False}


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


def test_gradients_are_those_of_the_function_for_the_given_upstream():
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    dx, dw = forward_and_backward(lambda x, w: x**2 * w, x, w, upstream=[torch.tensor([1.0, 10.0])])()
    assert dx.tolist() == [6.0, 200.0]
    assert dw.tolist() == [1.0, 40.0]


def test_only_arguments_that_require_a_gradient_get_one_where_any_does():
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    assert len(forward_and_backward(torch.mul, x, w)()) == 1
    assert len(forward_and_backward(torch.mul, x, torch.ones(2))()) == 2
    assert len(forward_and_backward(torch.mul, x, 3)()) == 1


def test_measuring_leaves_the_arguments_as_they_were():
    x = torch.arange(3.0)
    measure(torch.square, x, backward=True)
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert not x.requires_grad
    assert x.grad is None


def test_the_upstream_gradient_is_random_and_the_same_in_every_run():
    call = forward_and_backward(lambda x: x, torch.zeros(100))
    first, second = call()[0], call()[0]
    assert torch.equal(first, second)
    assert first.unique().numel() == 100
    assert torch.equal(first, forward_and_backward(lambda x: x, torch.zeros(100))()[0])


def test_calls_take_turns():
    order = []
    calls = {name: lambda name=name: time.sleep(3e-3) or order.append(name) for name in "ab"}  # not worth repeating
    measure_in_turns(calls, rounds=6)
    turn = 3  # runs: two to warm up and one that counts
    turns = ["".join(order[start : start + turn]) for start in range(0, len(order), turn)][-2 * 6 :]
    rounds = [tuple(turns[start : start + 2]) for start in range(0, 12, 2)]
    assert set(rounds) == {("aaa", "bbb"), ("bbb", "aaa")}  # both in every round, and not always the same first


@pytest.mark.slow
def test_what_a_first_cell_imports_leaves_the_builder_of_extensions_alone():
    """Where there is a CUDA toolkit and no GPU, importing it writes to stderr."""
    program = (
        "import sys, course_utils; from course_utils import check, plots, timing, verify, widgets\n"
        "course_utils.setup()\n"
        "assert 'torch.utils.cpp_extension' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_slow_calls_end_after_their_share_of_the_time_but_not_before_five_rounds():
    started = time.perf_counter()
    timing = measure_in_turns({"slow": lambda: time.sleep(0.02)}, rounds=1000, seconds=0.05)["slow"]
    assert timing.runs == 5
    assert time.perf_counter() - started < 2


class FakeClock:
    """A clock that only calls move, and a ``Timer`` that looks at it."""

    def __init__(self, monkeypatch):
        self.now, self.asked = 0.0, []
        monkeypatch.setattr(timers, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr("torch.utils.benchmark.Timer", self.timer)

    def passes(self, seconds):
        self.now += seconds

    def timer(self, statement, globals, num_threads):
        def timeit(runs):
            self.asked.append((runs, num_threads))
            begun = self.now
            for _ in range(runs):
                globals["call"]()
            return SimpleNamespace(mean=(self.now - begun) / runs)

        return SimpleNamespace(timeit=timeit)


def test_short_calls_are_repeated_for_two_milliseconds(monkeypatch):
    clock = FakeClock(monkeypatch)
    times = timers._on_cpu({"it": lambda: clock.passes(0.15e-3)}, rounds=3, seconds=1.0)
    assert times["it"] == pytest.approx([0.15] * 3)
    assert [runs for runs, _ in clock.asked] == [1] * 5 + [14] * 3  # 13 are 1.95 ms


def test_launching_is_the_median_time_until_a_warm_call_returns_and_not_the_wait_for_the_gpu(monkeypatch):
    clock = FakeClock(monkeypatch)
    log, takes = [], iter([9.0] * 3 + [1e-3] * 11 + [5.0] * 9)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: clock.passes(100.0) or log.append("wait"))
    launched_ms = timers._launch_ms(lambda: clock.passes(next(takes)) or log.append("call"))
    assert launched_ms == pytest.approx(1.0)
    assert log == ["call"] * 3 + ["wait", "call"] * 20 + ["wait"]  # each begins, and the last ends, on an idle GPU


@pytest.mark.slow
@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="the C library is not glibc")
def test_kept_memory_is_not_fetched_from_the_system_again():
    program = (
        "import resource, torch; from course_utils.timing import keep_freed_memory\n"
        "def faults():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(5): torch.ones(16 * 2**20)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "handed_back = faults(); print(keep_freed_memory()); print(handed_back, min(faults() for _ in range(8)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    done, counts = run.stdout.splitlines()
    handed_back, kept = map(int, counts.split())
    assert done == "True"
    assert kept < handed_back / 10  # five times 64 MB are 81920 pages of 4 KB, or 160 of 2 MB


def test_a_copy_is_counted_in_both_directions_and_larger_than_any_cache(monkeypatch):
    asked = {}

    def one_second(calls, device, rounds, bytes_moved):
        asked.update(bytes_moved=bytes_moved, result=calls["copy"]())
        return {"copy": Timing(1000.0, 1000.0, rounds, bytes_moved)}

    monkeypatch.setattr(timers, "measure_in_turns", one_second)
    gbps = copy_bandwidth("cpu", torch.bfloat16)
    copied = asked["result"]
    assert 128 * 2**20 <= copied.nbytes < 2**28  # a GPU's gigabyte is too much for a small machine's memory
    assert (copied == 1).all()
    assert asked["bytes_moved"] == 2 * copied.nbytes
    assert gbps == asked["bytes_moved"] / 1e9


def test_a_roofline_is_bandwidth_below_the_ridge_and_arithmetic_above():
    machine = Roofline(bandwidth_gbps=20.0, peak_gflops=100.0)
    assert machine.ridge == 5.0
    assert machine.attainable_gflops(2.5) == 50.0
    assert machine.attainable_gflops(500.0) == 100.0
    assert machine.predicted_ms(bytes_moved=40e6, operations=1e6) == 2.0
    assert machine.predicted_ms(bytes_moved=40e6, operations=1e9) == 10.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measure(torch.square, torch.ones(3, device="meta")), "device must be cpu or cuda: got 'meta'"),
        (lambda: measure_in_turns({"it": int}, "gpu"), "device must be cpu or cuda: got 'gpu'"),
        (lambda: copy_bandwidth("gpu"), "device must be cpu or cuda: got 'gpu'"),
        (lambda: Roofline.of("gpu"), "device must be cpu or cuda: got 'gpu'"),
        (lambda: measure_in_turns({"it": int}, rounds=0), "rounds must be at least 1: got 0"),
        (lambda: Roofline(bandwidth_gbps=0, peak_gflops=100.0), "bandwidth_gbps must be a positive number: got 0"),
        (lambda: Roofline(20.0, peak_gflops=float("nan")), "peak_gflops must be a positive number: got nan"),
        (lambda: Roofline("20", 100.0), "bandwidth_gbps must be a positive number: got '20'"),
        (lambda: saved_bytes(torch.exp, torch.ones(10)), "args must hold a tensor that requires a gradient: got none"),
    ],
)
def test_an_argument_that_cannot_be_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- bytes kept and bytes moved


X, Y = torch.ones(10, 10), torch.ones(10, 10)


def test_parameters_inside_the_function_count_too():
    assert saved_bytes(nn.Linear(10, 1), torch.ones(3, 10)) > 0


def test_zero_is_an_answer_where_something_requires_a_gradient():
    assert saved_bytes(lambda x: x + 1, torch.ones(10, requires_grad=True)) == 0
    assert saved_bytes(torch.argmax, torch.ones(10, requires_grad=True)) == 0


def moved(fn, *args):
    return [(step.operator, step.bytes_read, step.bytes_written) for step in traffic(fn, *args)]


@pytest.mark.parametrize(
    ("fn", "steps"),
    [
        pytest.param(lambda x, y: x + y, [("add", 800, 400)], id="two tensors in, one out"),
        pytest.param(lambda x, y: x.clone().mul_(y), [("clone", 400, 400), ("mul_", 800, 400)], id="in place"),
        pytest.param(lambda x, y: x.sum(), [("sum", 400, 4)], id="a reduction"),
        pytest.param(lambda x, y: x.view(100)[:50].view(5, 10).mT, [], id="views"),
        pytest.param(lambda x, y: torch.empty_like(x), [], id="an allocation"),
        pytest.param(
            lambda x, y: x + y.sum(0).expand(10, 10), [("sum", 400, 40), ("add", 440, 400)], id="an expanded tensor"
        ),
        pytest.param(lambda x, y: torch.add(x, y, out=torch.empty(10, 10)), [("add", 800, 400)], id="out="),
        pytest.param(lambda x, y: x.double() * 2, [("_to_copy", 400, 800), ("mul", 800, 800)], id="another dtype"),
    ],
)
def test_bytes_are_those_of_the_tensors_that_go_in_and_come_out(fn, steps):
    assert moved(fn, X, Y) == steps


def test_the_built_in_layer_norm_reads_its_input_once_and_writes_its_output_and_two_numbers_a_row():
    x, weight, bias = torch.randn(32, 100), torch.ones(100), torch.zeros(100)
    (step,) = traffic(F.layer_norm, x, (100,), weight, bias)
    assert step.operator == "native_layer_norm"
    assert step.bytes_read == 4 * (3200 + 200)
    assert step.bytes_written == 4 * (3200 + 64)
    assert step.bytes_moved == step.bytes_read + step.bytes_written


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


class FakeGpu:
    """Stands in for ``torch.cuda`` where there is no GPU, and notes what is done in which order."""

    def __init__(self):
        self.log, self.where, self.mode, self.clock = [], "launched", 0, 0.0

    def call(self, name, takes_ms, waits=False):
        """Return a call that says where it ran, and whose graph takes ``takes_ms`` to replay."""

        def run():
            if waits and self.mode == 2:
                raise RuntimeError("called a synchronizing CUDA operation")
            self.log.append((self.where, name))
            if self.where == "captured":
                self.graphs[-1].takes_ms = takes_ms

        return run

    def install(self, monkeypatch):
        gpu, self.graphs = self, []

        class Graph:
            takes_ms = None

            def __init__(self):
                gpu.graphs.append(self)

            def replay(self):
                gpu.log.append(("replayed", self.takes_ms))
                gpu.clock += self.takes_ms

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = gpu.clock

            def elapsed_time(self, end):
                return end.at - self.at

        class Eviction:
            def sum(self):
                gpu.log.append(("evicted", self.elements))
                gpu.clock += 100.0

        def ones(elements, device):
            eviction = Eviction()
            eviction.elements = elements
            return eviction

        def set_mode(mode):
            gpu.mode = {"error": 2}.get(mode, mode)

        @contextmanager
        def running(where):
            gpu.where, before = where, gpu.where
            try:
                yield
            finally:
                gpu.where = before

        fakes = {
            "Stream": MagicMock,
            "stream": lambda stream: running("on a side stream"),
            "current_stream": MagicMock(),
            "CUDAGraph": Graph,
            "graph": lambda graph, pool: running("captured"),
            "graph_pool_handle": lambda: "pool",
            "Event": Event,
            "current_device": lambda: 0,
            "get_device_properties": lambda device: SimpleNamespace(L2_cache_size=64),
            "synchronize": lambda: None,
            "get_sync_debug_mode": lambda: gpu.mode,
            "set_sync_debug_mode": set_mode,
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        monkeypatch.setattr(torch, "ones", ones)
        return self


def test_on_a_gpu_only_the_replay_is_timed_and_nothing_is_left_in_l2(monkeypatch):
    gpu = FakeGpu().install(monkeypatch)
    timings = measure_in_turns({"a": gpu.call("a", 2.0), "b": gpu.call("b", 3.0)}, "cuda", rounds=4, bytes_moved=6)
    assert [(timing.median_ms, timing.p10_ms, timing.runs) for timing in timings.values()] == [(2, 2, 4), (3, 3, 4)]
    assert all(timing.launch_ms >= 0 and timing.bytes_moved == 6 for timing in timings.values())
    warm = 3 + 20  # launches
    assert gpu.log[: 2 * warm] == [("launched", "a")] * warm + [("launched", "b")] * warm
    assert gpu.log[2 * warm : 2 * warm + 4] == [(w, n) for n in "ab" for w in ("on a side stream", "captured")]
    evicted = ("evicted", 128)  # 512 bytes of float32, to a cache of 64
    assert gpu.log[2 * warm + 4 :] == 4 * [evicted, ("replayed", 2.0), evicted, ("replayed", 3.0)]


def test_a_call_that_waits_for_the_gpu_is_refused_before_it_is_captured_and_the_next_one_is_measured(monkeypatch):
    gpu = FakeGpu().install(monkeypatch)
    with pytest.raises(RuntimeError, match="synchronizing"):
        measure_in_turns({"waits": gpu.call("waits", 2.0, waits=True)}, "cuda", rounds=1)
    assert gpu.graphs == []  # PyTorch's allocator does not recover from a capture that fails
    assert gpu.mode == 0
    assert measure_in_turns({"good": gpu.call("good", 1.0)}, "cuda", rounds=1)["good"].median_ms == 1.0


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

    timing = measure(twenty_launches, x)
    assert timing.launch_ms is not None
    assert 0 < timing.median_ms < timing.launch_ms


@gpu
@needs_gpu
def test_data_is_read_from_memory_although_it_would_fit_into_l2():
    x = torch.ones(4 * 2**20, device="cuda")  # 16 MB
    small = measure(torch.clone, x, bytes_moved=2 * x.nbytes)
    assert small.gbps is not None
    assert small.gbps < 1.2 * copy_bandwidth("cuda")


@gpu
@needs_gpu
def test_backward_is_captured_too():
    x = torch.randn(4096, 4096, device="cuda")
    forward = measure(torch.nn.functional.gelu, x)
    both = measure(torch.nn.functional.gelu, x, backward=True)
    assert both.median_ms > 1.5 * forward.median_ms
