"""Whatever a learner's function does, it ends, the process stays as it was, and what happened can be told."""

import contextlib
import importlib
import os
import random
import signal
import sys
import threading
import time

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
    assert isinstance(Sandbox().call(function).error, error)


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
    assert capfd.readouterr() == ("", "")


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


def test_an_error_is_placed_at_the_last_line_of_the_function_s_own_source():
    def wrong():
        x = torch.ones(3)
        return np.linalg.inv(x.numpy())

    outcome = Sandbox(wrong.__code__).call(wrong)
    assert outcome.place.endswith("return np.linalg.inv(x.numpy())")
    assert outcome.place.startswith(f"line {wrong.__code__.co_firstlineno + 2}")
