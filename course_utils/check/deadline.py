"""A time limit that really ends a call: an endless loop, a long sleep, a loop that swallows every exception."""

import _thread
import ctypes
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["PREPARATION_LIMIT_S", "TimeUp", "call_within", "interrupts_noted"]

PREPARATION_LIMIT_S = 120.0  # what torch.compile and a first import may take: they are slow, not the learner
_PREPARATION = ("torch/_dynamo/convert_frame", "torch/_inductor/", "torch/_functorch/", "<frozen importlib")
_AGAIN_S = 5e-3  # the timer strikes again after this long, until the call is over
_GRACE_S = 1.0  # how long the thread fallback tries to stop a function before it leaves it behind


class TimeUp(BaseException):
    """Raised inside a call that has used up its time; no ``except Exception`` can hold it."""


def call_within(limit_s: float, function: Callable[[], Any]) -> Any:
    """Return ``function()``, or raise ``TimeUp`` once it has run for ``limit_s`` seconds.

    In the main thread of a Unix process the call is interrupted by a timer's signal, which also wakes a sleep.
    Elsewhere it runs in a daemon thread, which is interrupted too, and left behind if it sleeps on.
    Out of reach of both is a single long call into C code that never looks back, such as ``sum(range(10**12))``.
    """
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        return _call_with_timer(limit_s, function)
    return _call_in_thread(limit_s, function)


def _call_with_timer(limit_s: float, function: Callable[[], Any]) -> Any:
    """The timer of ``call_within``; a timer and a handler that were there before (a test runner's) are put back."""
    here = sys._getframe()
    started = time.monotonic()
    strikes = 0

    def strike(signum: int, frame: FrameType | None) -> None:
        nonlocal strikes
        if not _is_called_from(frame, here) or _is_ours(frame):
            return
        if _is_preparing(frame, here) and time.monotonic() - started < PREPARATION_LIMIT_S:
            signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
            return
        strikes += 1
        # `while True: try: ... except: pass` swallows this strike, so the next one must come before the loop gets
        # back into its `try`. The signal is made pending again without a call that would let it be delivered here:
        # unpacking a map of a C function is such a way, and the interpreter notices at its next look, after the raise.
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 1e-3), _AGAIN_S)
        if strikes > 3:  # some releases put the look after the loop's jump, inside the `try` again: trace the lines
            _raise_at_next_line(frame, here)
        up = TimeUp()
        [*map(_thread.interrupt_main, (signal.SIGALRM,))]
        raise up

    previous_trace = sys.gettrace()
    previous_handler = signal.signal(signal.SIGALRM, strike)
    previous_delay, previous_interval = signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    try:
        return function()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler or signal.SIG_DFL)  # None: not set from Python
        if strikes:
            sys.settrace(previous_trace)
        if previous_delay:
            signal.setitimer(
                signal.ITIMER_REAL, max(previous_delay - (time.monotonic() - started), 1e-3), previous_interval
            )


def _is_called_from(frame: FrameType | None, caller: FrameType) -> bool:
    """Whether ``frame`` runs below ``caller``, and not in ``caller`` itself."""
    frame = frame and frame.f_back if frame is not caller else None
    while frame is not None and frame is not caller:
        frame = frame.f_back
    return frame is caller


def _is_ours(frame: FrameType | None) -> bool:
    """Whether the signal came while this module was already dealing with one."""
    return frame is not None and frame.f_code.co_filename == __file__


def _is_preparing(frame: FrameType | None, caller: FrameType) -> bool:
    """Whether ``frame``, or one on the way to it from ``caller``, belongs to the compiler or to an import."""
    while frame is not None and frame is not caller:
        if any(part in frame.f_code.co_filename.replace("\\", "/") for part in _PREPARATION):
            return True
        frame = frame.f_back
    return False


def _raise_at_next_line(frame: FrameType | None, caller: FrameType) -> None:
    """Trace the frames between ``caller`` and ``frame``, so that the next line in any of them raises."""

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and _is_called_from(frame, caller):
            raise TimeUp
        return tracer

    while frame is not None and frame is not caller:
        frame.f_trace = tracer
        frame = frame.f_back
    sys.settrace(tracer)


def _call_in_thread(limit_s: float, function: Callable[[], Any]) -> Any:
    result: list[Any] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            result.append(function())
        except BaseException as raised:
            error.append(raised)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(limit_s)
    end = time.monotonic() + _GRACE_S
    stopped = worker.is_alive()
    while worker.is_alive() and time.monotonic() < end:
        assert worker.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(TimeUp))
        worker.join(random.uniform(1e-3, 1e-2))
    if stopped:
        raise TimeUp
    if error:
        raise error[0]
    return result[0]


@contextmanager
def interrupts_noted() -> Iterator[list[bool]]:
    """Yield a list that fills when the user presses Ctrl-C, which tells it from a ``KeyboardInterrupt`` in the code."""
    noted: list[bool] = []
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield noted
        return

    def note(signum: int, frame: FrameType | None) -> None:
        noted.append(True)
        previous(signum, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)
