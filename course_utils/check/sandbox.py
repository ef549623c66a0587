"""Calling a learner's function: it ends in time, prints nothing, and leaves the random state and modes as they were.

This keeps a notebook usable after an endless loop. It is no protection from hostile code: that goes through
``tools.grading``, which runs it in a process of its own.
"""

import random
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import TextIOBase
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

__all__ = ["CALL_LIMIT_S", "COMPILE_LIMIT_S", "PRINT_LIMIT", "Outcome", "Sandbox", "TimeUp", "TooMuchOutput"]

CALL_LIMIT_S = 5.0  # a call takes milliseconds; on a busy machine, for the first time, a second
COMPILE_LIMIT_S = 120.0  # for a function that torch.compile has wrapped
PRINT_LIMIT = 10_000  # lines in one call


class TimeUp(BaseException):
    """Raised inside a call that has used up its time; no ``except Exception`` can hold it."""


class TooMuchOutput(BaseException):
    """Raised inside a call that has printed ``PRINT_LIMIT`` lines."""


@dataclass
class Outcome:
    """What came of one call: a value, or the error that ended it, and what it left behind."""

    value: Any = None
    error: BaseException | None = None
    place: str = ""  # the line of the function's own source where the error arose
    lines_printed: int = 0
    state_changed: list[str] = field(default_factory=list)


class _Printed(TextIOBase):
    """A stand-in for stdout that counts lines and keeps nothing."""

    lines = 0

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        if self.lines > PRINT_LIMIT:
            raise TooMuchOutput
        return len(text)


# What a call could change for everybody else: the name a learner reads, how to read it, how to put it back.
_STATE: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("torch's global random state", torch.get_rng_state, torch.set_rng_state),
    ("numpy's global random state", np.random.get_state, np.random.set_state),
    ("Python's global random state", random.getstate, random.setstate),
    ("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("the gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
)


@contextmanager
def _state_kept() -> Iterator[list[str]]:
    """Yield a list that, on leaving, names what the block changed; all of it is put back."""
    changed: list[str] = []
    before = [read() for _, read, _ in _STATE]
    try:
        yield changed
    finally:
        for (name, read, write), value in zip(_STATE, before, strict=True):
            if _differ(value, read()):
                write(value)
                changed.append(name)


def _differ(before: Any, after: Any) -> bool:
    if isinstance(before, tuple):
        return len(before) != len(after) or any(map(_differ, before, after))
    if isinstance(before, torch.Tensor):
        return not torch.equal(before, after)
    return not np.array_equal(before, after) if isinstance(before, np.ndarray) else before != after


@contextmanager
def _time_limited(limit_s: float) -> Iterator[None]:
    """Raise ``TimeUp`` in the block after ``limit_s`` seconds; without limit outside the main thread, or on Windows."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def strike(signum: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):  # a first import is slow, not the learner
                signal.setitimer(signal.ITIMER_REAL, limit_s)
                return
            frame = frame.f_back
        raise TimeUp

    previous = signal.signal(signal.SIGALRM, strike)
    delay, interval = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, delay, interval)  # a test runner's
        signal.signal(signal.SIGALRM, previous or signal.SIG_DFL)


@dataclass(frozen=True)
class Sandbox:
    """Makes calls of one function, each within ``limit_s``; errors are shown at the lines of its ``code``."""

    code: CodeType | None = None
    limit_s: float = CALL_LIMIT_S

    def call(self, function: Callable[[], Any]) -> Outcome:
        """Return what came of ``function()``.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C, or the stop button.
        """
        outcome, printed = Outcome(), _Printed()
        with (
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.enable_grad(),
            _state_kept() as outcome.state_changed,
            redirect_stdout(printed),  # type: ignore[type-var]
            redirect_stderr(printed),  # type: ignore[type-var]
        ):
            warnings.simplefilter("ignore")
            try:
                with _time_limited(self.limit_s):
                    outcome.value = function()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                outcome.place = _place(error, self.code)
                outcome.error = error.with_traceback(None)  # the frames would keep every tensor alive
        outcome.lines_printed = printed.lines
        return outcome


def _place(error: BaseException, code: CodeType | None) -> str:
    """Return the last line of the learner's own source on the way to ``error``, as ``line 3: y = x * weight``."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [pair for pair in frames if code and pair[0].f_code.co_filename == code.co_filename]
    if not own:
        return ""
    summary = traceback.StackSummary.extract(iter(own[-1:]))[0]
    return f"line {summary.lineno}" + (f": {summary.line}" if summary.line else "")
