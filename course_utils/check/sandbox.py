"""Calling a stranger's function: whatever it does, the caller gets an ``Outcome`` and the process stays as it was."""

import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import TextIOBase
from types import CodeType
from typing import Any

import numpy as np
import torch

from course_utils.check.deadline import TimeUp, call_within, interrupts_noted

__all__ = ["CALL_LIMIT_S", "CHECK_LIMIT_S", "PRINT_LIMIT", "Outcome", "Sandbox", "TimeUp", "TooMuchOutput"]

# One call of the inputs used here takes under a millisecond with tensors and a few hundredths of a second with loops.
CALL_LIMIT_S = 1.2
CHECK_LIMIT_S = 10.0  # all the calls of one check together, for code that is slow on every one
PRINT_LIMIT = 10_000  # lines in one call; a function that prints more is stopped
MEMORY_LIMIT_BYTES = 4 << 30  # what one call may add to the process (Linux); beyond, it gets a MemoryError


class TooMuchOutput(BaseException):
    """Raised inside a call that has printed ``PRINT_LIMIT`` lines."""


@dataclass
class Outcome:
    """What came of one call: a value, or the error that ended it; and what it left behind."""

    value: Any = None
    error: BaseException | None = None
    place: str = ""  # the line of the function's own source where the error arose
    lines_printed: int = 0
    time_allowed: str = ""
    state_changed: list[str] = field(default_factory=list)


class _Printed(TextIOBase):
    """A stand-in for stdout that counts lines and keeps nothing."""

    def __init__(self) -> None:
        self.lines = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        if self.lines > PRINT_LIMIT:
            raise TooMuchOutput
        return len(text)


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # None is cheaper: no mode on every call


# What a call could change for everybody else: the name a learner reads, how to read it, how to put it back.
_STATE: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("torch's global random state", torch.get_rng_state, torch.set_rng_state),
    ("numpy's global random state", np.random.get_state, np.random.set_state),
    ("Python's global random state", random.getstate, random.setstate),
    ("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("the default device", torch.get_default_device, _set_default_device),
    ("the gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
    ("the number of threads", torch.get_num_threads, torch.set_num_threads),
    ("deterministic mode", torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
)


def _differ(before: Any, after: Any) -> bool:
    if isinstance(before, torch.Tensor):
        return not torch.equal(before, after)
    if isinstance(before, tuple):
        return len(before) != len(after) or any(_differ(a, b) for a, b in zip(before, after, strict=True))
    if isinstance(before, np.ndarray):
        return not np.array_equal(before, after)
    return before != after


@contextmanager
def _state_kept() -> Iterator[list[str]]:
    """Yield a list that, on leaving, names what the block changed; all of it is put back."""
    changed: list[str] = []
    before = [read() for _, read, _ in _STATE]
    recursion_limit = sys.getrecursionlimit()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield changed
    finally:
        sys.setrecursionlimit(recursion_limit)  # not named: torch.compile raises it too
        for (name, read, write), value in zip(_STATE, before, strict=True):
            if _differ(value, read()):
                write(value)
                changed.append(name)
        if cuda and any(_differ(a, b) for a, b in zip(cuda, torch.cuda.get_rng_state_all(), strict=True)):
            torch.cuda.set_rng_state_all(cuda)
            changed.append("CUDA's global random state")


@contextmanager
def _memory_limited() -> Iterator[None]:
    """Bound what the block may add to the process's address space, where the system can (Linux, no CUDA in use)."""
    if sys.platform != "linux" or torch.cuda.is_initialized():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        in_use = int(statm.read().split()[0]) * resource.getpagesize()
    bound = in_use + MEMORY_LIMIT_BYTES
    if soft != resource.RLIM_INFINITY:
        bound = min(bound, soft)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Sandbox:
    """Makes the calls of one check, each within ``CALL_LIMIT_S`` and all together within ``CHECK_LIMIT_S``."""

    def __init__(self, code: CodeType | None = None) -> None:
        self._code = code  # of the learner's function: errors are shown at its lines
        self._used_s = 0.0

    def call(self, function: Callable[[], Any]) -> Outcome:
        """Return what came of ``function()``; only a Ctrl-C of the user's passes through.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C, also where the function swallowed it.
        """
        outcome, printed = Outcome(), _Printed()
        left = max(CHECK_LIMIT_S - self._used_s, 1e-2)
        outcome.time_allowed = f"{CALL_LIMIT_S:g} s" if left > CALL_LIMIT_S else f"{CHECK_LIMIT_S:g} s in all its calls"
        started = time.monotonic()
        # Gradients are on and inference mode is off, whatever the notebook has set. These modes stand outside the timed
        # call: a time limit that strikes while one of them is being left would leave it on.
        with (
            interrupts_noted() as interrupts,
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.enable_grad(),
            _state_kept() as outcome.state_changed,
            redirect_stdout(printed),  # type: ignore[type-var]
            redirect_stderr(printed),  # type: ignore[type-var]
            _memory_limited(),
        ):
            warnings.simplefilter("ignore")
            try:
                outcome.value = call_within(min(CALL_LIMIT_S, left), function)
            except BaseException as error:
                outcome.error = error
        used_s = time.monotonic() - started
        if used_s < CALL_LIMIT_S or isinstance(outcome.error, TimeUp):
            self._used_s += used_s  # one that was let go on for longer was waiting for a compiler or a first import
        if interrupts:
            raise KeyboardInterrupt
        if outcome.error is not None:
            outcome.place = self._place(outcome.error)
            outcome.error = outcome.error.with_traceback(None)  # the frames would keep every tensor alive
        outcome.lines_printed = printed.lines
        return outcome

    def _place(self, error: BaseException) -> str:
        """Return the last line of the learner's own source on the way to ``error``, as ``line 3: y = x * weight``."""
        frames = list(traceback.walk_tb(error.__traceback__))
        own = [pair for pair in frames if self._code and pair[0].f_code.co_filename == self._code.co_filename]
        if not own:
            return ""
        summary = traceback.StackSummary.extract(iter(own[-1:]))[0]
        return f"line {summary.lineno}" + (f": {summary.line}" if summary.line else "")
