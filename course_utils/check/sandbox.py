"""Calling a learner's function: it ends in time, what it prints is kept for the report, and the
random state and modes are as they were.

This keeps a notebook usable after an endless loop. It is no protection from hostile code: that goes
through ``tools.grading``, which runs it in a process of its own.
"""

import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

__all__ = [
    "CALL_LIMIT_S",
    "COMPILE_LIMIT_S",
    "Outcome",
    "Sandbox",
    "TimeUp",
    "describe_error",
    "trusted",
    "usual_modes",
]

CALL_LIMIT_S = 5.0  # a call takes milliseconds; on a busy machine, for the first time, a second
COMPILE_LIMIT_S = 120.0  # for a function that torch.compile has wrapped
_MESSAGE_LENGTH = 300  # of an exception; the rest is cut
_LINES, _LINE_LENGTH = 20, 200  # of what is printed
_PACKAGE = Path(__file__).parents[1]
# where an exception that nobody raised on purpose is the course's fault, not the learner's
_MACHINERY = tuple(str(_PACKAGE / room) for room in ("check", "kernels"))

# What a call could change for everybody else: the name a learner reads, how to read it, how to put
# it back.
_STATE: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("torch's global random state", torch.get_rng_state, torch.set_rng_state),
    ("numpy's global random state", np.random.get_state, np.random.set_state),
    ("Python's global random state", random.getstate, random.setstate),
    ("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("the gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
)


class TimeUp(BaseException):
    """Raised inside a call that has used up its time; no ``except Exception`` can hold it."""


@dataclass
class Outcome:
    """What came of one call: a value, or the error that ended it, and what it left behind."""

    value: Any = None
    error: BaseException | None = None
    place: str = ""  # the line of the function's own source where the error arose
    is_ours: bool = False  # whether the error is a fault of the course's, at ``place``
    printed: tuple[str, ...] = ()  # the first lines
    state_changed: list[str] = field(default_factory=list)


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an error, in a line."""
    text = " ".join(str(error).split())
    text = text[:_MESSAGE_LENGTH] + ("…" if len(text) > _MESSAGE_LENGTH else "")
    return type(error).__name__ + (f": {text.rstrip('.')}" if text else "")


class _Printed(StringIO):
    """A stand-in for stdout that keeps the beginning."""

    def write(self, text: str) -> int:
        if self.tell() < _LINES * _LINE_LENGTH:
            super().write(text[: _LINES * _LINE_LENGTH])
        return len(text)

    def lines(self) -> tuple[str, ...]:
        first = self.getvalue().splitlines()[:_LINES]
        return tuple(line[:_LINE_LENGTH] for line in first)


def _pass_over_breakpoint(*args: Any, **kwargs: Any) -> None:
    print("breakpoint() is passed over in a check: call your function yourself to step through it")


@contextmanager
def _state_kept() -> Iterator[list[str]]:
    """Yield a list that, on leaving, names what the block changed; all of it is put back."""
    changed: list[str] = []
    before = [read() for _, read, _ in _STATE]
    try:
        yield changed
    finally:
        for (name, read, write), value in zip(_STATE, before, strict=True):
            if not _same(value, read()):
                write(value)
                changed.append(name)


def _same(before: Any, after: Any) -> bool:
    pairs = zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]
    equals = (first == second for first, second in pairs)
    return all(equal if isinstance(equal, bool) else equal.all() for equal in equals)


@contextmanager
def _time_limited(limit_s: float) -> Iterator[None]:
    """Raise ``TimeUp`` in the block after ``limit_s`` seconds; without limit outside the main
    thread, or on Windows."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def strike(signum: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith(
                "<frozen importlib"
            ):  # a first import is slow, not the learner
                signal.setitimer(signal.ITIMER_REAL, limit_s)
                return
            frame = frame.f_back
        raise TimeUp

    previous = signal.signal(signal.SIGALRM, strike)
    timer = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)  # a test runner's
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def usual_modes() -> Iterator[None]:
    """Gradients on, warnings off and breakpoints passed over, whatever the notebook has set."""
    hook, sys.breakpointhook = sys.breakpointhook, _pass_over_breakpoint
    try:
        with torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.breakpointhook = hook


def trusted(function: Callable[[], Any]) -> Outcome:
    """Call a function of the course's own, without a sandbox; its exceptions are part of what it
    shows."""
    try:
        return Outcome(function())
    except Exception as error:
        return Outcome(error=error)


@dataclass(frozen=True)
class Sandbox:
    """Makes calls of one function, each within ``limit_s``; errors are shown at the lines of its
    ``code``.

    ``adapter``: the file of the code that calls the function for the check, where there is one.
    """

    code: CodeType | None = None
    limit_s: float = CALL_LIMIT_S
    adapter: str = ""

    def call(self, function: Callable[[], Any]) -> Outcome:
        """Return what came of ``function()``; only the user's own ``KeyboardInterrupt`` passes
        through."""
        outcome, printed = Outcome(), _Printed()
        with (
            usual_modes(),
            _state_kept() as outcome.state_changed,
            redirect_stdout(printed),
            redirect_stderr(StringIO()),
        ):
            try:
                with _time_limited(self.limit_s):
                    outcome.value = function()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                outcome.place, outcome.is_ours = self._place(error)
                # the frames would keep every tensor alive
                outcome.error = error.with_traceback(None)
        outcome.printed = printed.lines()
        return outcome

    def _place(self, error: BaseException) -> tuple[str, bool]:
        """Return the last line of the learner's own source on the way to ``error``, as
        ``line 3: y = x * weight``; or, with True, the line of the check itself that failed."""
        steps = traceback.extract_tb(error.__traceback__)
        theirs = [step for step in steps if self.code and step.filename == self.code.co_filename]
        last, line = steps[-1], steps[-1].line or ""
        in_machinery = last.filename.startswith(_MACHINERY) or (
            not theirs and last.filename == self.adapter
        )
        was_raised = line.startswith("raise")  # on purpose, for the learner to read
        if self.code and isinstance(error, Exception) and in_machinery and not was_raised:
            return f"{Path(last.filename).name}, line {last.lineno}: {line}", True
        if not theirs:
            return "", False
        return ": ".join(filter(None, [f"line {theirs[-1].lineno}", theirs[-1].line])), False
