"""Whatever a learner's function does, it ends, the process stays as it was, and what happened can be told."""

import contextlib
import importlib
import os
import random
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch

from course_utils.check import deadline, sandbox
from course_utils.check.deadline import TimeUp, call_within
from course_utils.check.sandbox import Sandbox, TooMuchOutput

LIMIT_S = 0.2
GRACE_S = 1.0  # on a busy machine; on an idle one the endless loops end within 5 ms of the limit


def bare_loop():
    while True:
        pass


def iterator_without_end():
    for _ in iter(int, 1):
        pass


def loop_that_catches_exceptions():
    while True:
        try:
            torch.ones(3) / 0
            raise ValueError
        except Exception:
            pass


def loop_that_catches_everything():
    while True:
        try:  # noqa: SIM105
            time.sleep(0.01)
        except:  # noqa: E722
            pass


def loop_that_continues_in_finally():
    while True:
        try:
            sum(range(100))
        finally:
            continue  # noqa: B012


def loop_that_suppresses_everything():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1)


def loop_that_keeps_what_it_catches():
    caught = []
    while True:
        try:
            time.sleep(1)
        except BaseException as error:
            caught.append(error)


def loop_in_a_loop_that_catch_everything():
    while True:
        try:
            loop_that_catches_everything()
        except:  # noqa: E722
            continue


def long_sleep():
    time.sleep(1_000)


ENDLESS = [
    bare_loop,
    iterator_without_end,
    loop_that_catches_exceptions,
    loop_that_catches_everything,
    loop_that_continues_in_finally,
    loop_that_suppresses_everything,
    loop_that_keeps_what_it_catches,
    loop_in_a_loop_that_catch_everything,
    long_sleep,
]


@pytest.mark.parametrize("function", ENDLESS, ids=lambda function: function.__name__)
def test_an_endless_call_is_ended_at_its_limit(function):
    started = time.monotonic()
    with pytest.raises(TimeUp):
        call_within(LIMIT_S, function)
    assert LIMIT_S <= time.monotonic() - started < LIMIT_S + GRACE_S


@pytest.mark.parametrize("function", [bare_loop, loop_that_catches_exceptions], ids=lambda function: function.__name__)
def test_outside_the_main_thread_an_endless_loop_is_ended_as_well(function):
    raised = []

    def call():
        try:
            call_within(LIMIT_S, function)
        except TimeUp as error:
            raised.append(error)

    before = threading.active_count()
    caller = threading.Thread(target=call)
    caller.start()
    caller.join(LIMIT_S + 3 * GRACE_S)
    assert raised
    assert threading.active_count() == before, "the loop goes on in its thread"


def test_outside_the_main_thread_a_sleep_is_left_behind_and_the_caller_goes_on():
    raised = []

    def call():
        try:
            call_within(LIMIT_S, lambda: time.sleep(5))
        except TimeUp as error:
            raised.append(error)

    caller = threading.Thread(target=call)
    started = time.monotonic()
    caller.start()
    caller.join(4)
    assert raised
    assert time.monotonic() - started < 4


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_call_in_time_returns_its_value_and_raises_its_own_exception(in_thread, monkeypatch):
    if in_thread:
        monkeypatch.delattr(signal, "setitimer")
    assert call_within(5, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        call_within(5, lambda: 1 / 0)


def test_a_timer_and_a_trace_that_were_there_before_are_there_afterwards():
    fired = []
    previous = signal.signal(signal.SIGALRM, lambda *_: fired.append(True))
    trace = sys.gettrace()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.6)
        with pytest.raises(TimeUp):
            call_within(LIMIT_S, loop_that_catches_everything)
        remaining, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < remaining < 0.5
        time.sleep(0.7)
        assert fired == [True]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert sys.gettrace() is trace


def test_a_traced_call_raises_at_its_next_line_and_its_caller_goes_on():
    here, reached = sys._getframe(), []

    def goes_on():
        deadline._raise_at_next_line(sys._getframe(), here)
        reached.append("the next line")

    previous = sys.gettrace()
    try:
        with pytest.raises(TimeUp):
            goes_on()
        reached.append("the caller")
    finally:
        sys.settrace(previous)
    assert reached == ["the caller"]


def test_a_repeating_timer_goes_on_repeating():
    previous = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 50, 30)
        assert call_within(5, lambda: 42) == 42
        delay, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 45 < delay <= 50
        assert interval == 30
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_while_something_is_compiled_or_imported_the_limit_waits(monkeypatch):
    monkeypatch.setattr(deadline, "_PREPARATION", (os.path.basename(__file__),))
    assert call_within(LIMIT_S, lambda: time.sleep(3 * LIMIT_S) or "compiled") == "compiled"
    monkeypatch.setattr(deadline, "PREPARATION_LIMIT_S", 2 * LIMIT_S)
    with pytest.raises(TimeUp):
        call_within(LIMIT_S, long_sleep)


def test_a_check_that_runs_while_its_own_module_is_imported_is_as_strict(tmp_path, monkeypatch):
    (tmp_path / "checks_at_import.py").write_text(
        "from course_utils.check.deadline import TimeUp, call_within\n"
        "try:\n    call_within(0.2, lambda: [None for _ in iter(int, 1)])\n"
        "except TimeUp:\n    ended = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    started = time.monotonic()
    assert importlib.import_module("checks_at_import").ended
    assert time.monotonic() - started < LIMIT_S + GRACE_S


def test_ctrl_c_of_the_user_interrupts_and_one_raised_by_the_code_does_not():
    def raising():
        raise KeyboardInterrupt

    assert isinstance(Sandbox().call(raising).error, KeyboardInterrupt)

    presser = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    presser.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Sandbox().call(lambda: time.sleep(10))
    assert time.monotonic() - started < 1


def test_a_swallowed_ctrl_c_interrupts_after_all():
    presser = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    presser.start()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        Sandbox().call(loop_that_catches_everything)
    assert signal.getsignal(signal.SIGINT) is handler


def test_where_ctrl_c_is_ignored_it_stays_so():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deadline.interrupts_noted() as noted:
            os.kill(os.getpid(), signal.SIGINT)
        assert noted == []
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def endless_recursion(n=0):
    return endless_recursion(n + 1)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda: sys.exit(3), SystemExit),
        (endless_recursion, RecursionError),
        (lambda: [0] * 10**13, MemoryError),
        (lambda: print("x\n" * 20_000), TooMuchOutput),
        (lambda: [print("x") for _ in range(1_000_000)], TooMuchOutput),
    ],
)
def test_what_ends_a_call_is_its_outcome(function, error):
    outcome = Sandbox().call(function)
    assert isinstance(outcome.error, error)
    assert outcome.error.__traceback__ is None  # it would keep every tensor of the call alive


def test_the_address_space_is_bounded_by_the_call_s_limit_or_by_a_lower_one_that_was_there(monkeypatch):
    if not sys.platform.startswith("linux") or torch.cuda.is_initialized():
        pytest.skip("the limit is Linux's, and is left alone next to CUDA")
    import resource

    def bound():
        return resource.getrlimit(resource.RLIMIT_AS)[0]

    before = resource.getrlimit(resource.RLIMIT_AS)
    if before[0] != resource.RLIM_INFINITY:
        pytest.skip("a limit is set already")
    with open("/proc/self/statm") as statm:
        in_use = int(statm.read().split()[0]) * resource.getpagesize()
    allowed = Sandbox().call(bound).value - in_use
    assert sandbox.MEMORY_LIMIT_BYTES <= allowed < 1.1 * sandbox.MEMORY_LIMIT_BYTES
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    lower = in_use + sandbox.MEMORY_LIMIT_BYTES // 2
    resource.setrlimit(resource.RLIMIT_AS, (lower, before[1]))
    try:
        assert Sandbox().call(bound).value == lower
        assert bound() == lower
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    for where, name, value in ((sys, "platform", "darwin"), (torch.cuda, "is_initialized", lambda: True)):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(where, name, value)
            assert Sandbox().call(bound).value == before[0]


def test_a_memory_hog_is_told_so_and_does_not_take_the_machine(monkeypatch):
    if not sys.platform.startswith("linux") or torch.cuda.is_initialized():
        pytest.skip("the limit is Linux's, and is left alone next to CUDA")
    monkeypatch.setattr(sandbox, "MEMORY_LIMIT_BYTES", 256 << 20)
    outcome = Sandbox().call(lambda: torch.ones(1 << 28))  # 1 GiB
    assert "memory" in str(outcome.error)
    assert Sandbox().call(lambda: torch.ones(1 << 20)).error is None
    assert torch.ones(1 << 27).numel() == 1 << 27, "the limit outlives the call"


def test_prints_are_counted_and_shown_nowhere(capfd):
    def printing():
        print("one\ntwo")
        print("three", file=sys.stderr)

    assert Sandbox().call(printing).lines_printed == 3
    assert Sandbox().call(lambda: sys.stdout.writable() and sys.stdout.write("abc")).value == 3
    as_many_as_it_may = Sandbox().call(lambda: print("\n" * (sandbox.PRINT_LIMIT - 1)))
    assert (as_many_as_it_may.error, as_many_as_it_may.lines_printed) == (None, sandbox.PRINT_LIMIT)
    assert capfd.readouterr() == ("", "")


def test_warnings_are_kept_away_from_the_call_and_what_it_sets_from_the_notebook():
    def warns():
        warnings.warn("a warning", UserWarning, stacklevel=1)
        warnings.simplefilter("always")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filters = list(warnings.filters)
        assert Sandbox().call(warns).error is None
        assert warnings.filters == filters


CHANGES = {
    "torch's global random state": lambda: torch.rand(3),
    "numpy's global random state": lambda: np.random.rand(3),  # noqa: NPY002
    "Python's global random state": random.random,
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "the gradient mode": lambda: torch.set_grad_enabled(False),
    "the number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "deterministic mode": lambda: torch.use_deterministic_algorithms(True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_global_state_is_named_and_undone(name):
    def state():
        return (
            torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate(),  # noqa: NPY002
            torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(),
            torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
        )  # fmt: skip

    before = state()
    assert Sandbox().call(CHANGES[name]).state_changed == [name]
    assert state() == before


def test_a_default_device_that_the_notebook_has_set_is_put_back():
    torch.set_default_device("meta")
    try:
        assert Sandbox().call(lambda: torch.set_default_device("cpu")).state_changed == ["the default device"]
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)


def test_the_random_state_of_every_gpu_is_put_back(monkeypatch):
    states = [torch.zeros(3), torch.zeros(3)]  # of two GPUs that are not needed for it
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [state.clone() for state in states])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda kept: states.__setitem__(slice(None), kept))
    assert Sandbox().call(lambda: states[1].fill_(1)).state_changed == ["CUDA's global random state"]
    assert not states[1].any()
    assert Sandbox().call(lambda: 42).state_changed == []


def test_the_recursion_limit_is_put_back_without_a_word():
    limit = sys.getrecursionlimit()
    assert Sandbox().call(lambda: sys.setrecursionlimit(limit + 100)).state_changed == []
    assert sys.getrecursionlimit() == limit


def test_gradients_are_on_whatever_the_notebook_has_set():
    with torch.no_grad():
        assert Sandbox().call(torch.is_grad_enabled).value is True
    with torch.inference_mode():
        assert Sandbox().call(torch.is_inference_mode_enabled).value is False


def test_all_calls_together_have_a_limit_too(monkeypatch):
    monkeypatch.setattr(sandbox, "CHECK_LIMIT_S", 0.3)
    calls = Sandbox()
    assert calls.call(lambda: time.sleep(0.25)).error is None
    outcome = calls.call(lambda: time.sleep(0.25))
    assert isinstance(outcome.error, TimeUp)
    assert outcome.time_allowed == "0.3 s in all its calls"


def test_what_endless_calls_have_used_is_not_allowed_again(monkeypatch):
    monkeypatch.setattr(sandbox, "CALL_LIMIT_S", 0.1)
    monkeypatch.setattr(sandbox, "CHECK_LIMIT_S", 0.25)
    calls = Sandbox()
    allowed = [calls.call(bare_loop).time_allowed for _ in range(3)]
    assert allowed == ["0.1 s", "0.1 s", "0.25 s in all its calls"]


def test_what_was_spent_on_a_compiler_or_an_import_is_not_the_learner_s(monkeypatch):
    monkeypatch.setattr(sandbox, "CALL_LIMIT_S", 0.1)
    monkeypatch.setattr(sandbox, "CHECK_LIMIT_S", 0.25)
    calls = Sandbox()
    with monkeypatch.context() as compiling:
        compiling.setattr(deadline, "_PREPARATION", (os.path.basename(__file__),))
        assert calls.call(lambda: time.sleep(0.3)).error is None
    assert calls.call(lambda: time.sleep(0.05)).error is None


def test_an_error_is_placed_at_the_last_line_of_the_function_s_own_source():
    def wrong():
        x = torch.ones(3)
        return np.linalg.inv(x.numpy())

    outcome = Sandbox(wrong.__code__).call(wrong)
    assert outcome.place.endswith("return np.linalg.inv(x.numpy())")
    assert outcome.place.startswith(f"line {wrong.__code__.co_firstlineno + 2}")
    assert Sandbox(importlib.import_module.__code__).call(wrong).place == ""  # the source of another function
    assert Sandbox().call(wrong).place == ""

    without_source = {}
    exec(compile("def wrong():\n    return 1 / 0", "<nowhere>", "exec"), without_source)
    function = without_source["wrong"]
    assert Sandbox(function.__code__).call(function).place == "line 2"
