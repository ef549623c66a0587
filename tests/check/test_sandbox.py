"""A learner's call ends in time, prints nothing, and leaves the process as it was."""

import random
import signal
import threading
import time

import numpy as np
import pytest
import torch

from course_utils.check.sandbox import Sandbox, TimeUp


def loop_that_catches_exceptions():
    while True:
        try:
            raise ValueError
        except Exception:
            pass


@pytest.mark.parametrize(
    "function", [loop_that_catches_exceptions, lambda: time.sleep(1_000)], ids=["loop", "sleep"]
)
def test_an_endless_call_is_ended_at_its_limit(function):
    started = time.monotonic()
    outcome = Sandbox(limit_s=0.2).call(function)
    assert isinstance(outcome.error, TimeUp)
    assert time.monotonic() - started < 1.2


def test_outside_the_main_thread_calls_are_made_without_a_limit():
    values = []
    thread = threading.Thread(target=lambda: values.append(Sandbox().call(lambda: 42).value))
    thread.start()
    thread.join()
    assert values == [42]


def test_a_timer_and_a_handler_that_were_there_before_are_there_afterwards():
    def handler(*_):
        raise AssertionError

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 50, 30)
        Sandbox().call(lambda: 42)
        delay, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 45 < delay <= 50
        assert interval == 30
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_the_user_s_interrupt_passes_through():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sandbox().call(interrupted)


def test_an_error_is_placed_at_the_last_line_of_the_learner_s_own_code():
    def mine(x):
        return torch.ones(2) @ x

    outcome = Sandbox(mine.__code__).call(lambda: mine(torch.ones(3)))
    assert outcome.place.endswith("return torch.ones(2) @ x")
    assert outcome.error.__traceback__ is None


def test_what_a_call_changes_for_everybody_is_put_back_and_named():
    for change, read, name in (
        (lambda: torch.manual_seed(1), torch.get_rng_state, "torch's global random state"),
        (
            lambda: np.random.seed(1),  # noqa: NPY002
            lambda: np.random.get_state()[1].tolist(),  # noqa: NPY002
            "numpy's global random state",
        ),
        (lambda: random.seed(1), random.getstate, "Python's global random state"),
        (
            lambda: torch.set_default_dtype(torch.float64),
            torch.get_default_dtype,
            "the default dtype",
        ),
        (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled, "the gradient mode"),
    ):
        before = read()
        assert Sandbox().call(change).state_changed == [name]
        assert str(read()) == str(before)
    with torch.inference_mode():
        assert Sandbox().call(torch.is_grad_enabled).value  # whatever the notebook has set
