"""Whether an answer is ready-made: it calls torch's built-in, the course's own function or the
check's oracle.

For ``course grade``; a learner may look and compare. The answer runs a second time, and what it
calls is noted: torch's operations by the two modes that they all pass through, however they are
called, and Python's functions by a profiler. Somebody who means to hide a call still can. Every
chapter with an exercise.
"""

import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.check.engine import Check
from course_utils.check.functions import code_of

__all__ = ["prepare", "ready_made"]

_BUILT_IN = re.compile(r"\w*(?:layer|batch|group|instance|rms)_norm\w*")
# its modules, without those of operations of one's own
_TORCH = re.compile(r"torch(?:\._ops\.aten$|\.(?!_ops\b)|$)")
_DERIVES = ("torch.autograd", "torch._functorch.eager_transforms")
# What an answer may build on: other exercises, the pieces of chapter 19, the sums over ranks that
# it is handed, what earlier sections made.
_COURSE = ("course_utils.", "chapters.")
_OPEN_MODULES = ("course_utils.check.", "chapters.c08_", "chapters.c19_")
_OPEN = {"rope_inv_freq", "yarn_paper_ramp"}


def prepare() -> None:
    """Let torch import what it imports at the first operation under a dispatch mode, which takes
    seconds."""
    with _Operations(_Watch(None)):
        torch.zeros(1).neg()


def ready_made(check: Check, answer: Callable[..., Any]) -> str:
    """Return the ready-made function that ``answer``, which passes ``check``, calls for its result;
    or nothing."""
    if check.exercise.interpreter:  # it runs no function of Python's
        return ""
    watch = _Watch(check)
    run = threading.Thread.run

    def run_watched(thread: threading.Thread) -> None:
        with watch.this_thread():
            run(thread)

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        with patch.object(threading.Thread, "run", run_watched), watch.this_thread():
            return answer(*args, **kwargs)

    check(watched, record=False)
    return watch.ready_made


class _Watch:
    """Notes what an answer calls, but not what the functions of the course call in their turn."""

    def __init__(self, check: Check | None) -> None:
        self.check = check
        self.ready_made = ""
        self.depth = 0  # how many functions of the course are running

    @contextmanager
    def this_thread(self) -> Iterator[None]:
        """Watch what runs in this thread."""
        self.depth = 0
        with _Functions(self), _Operations(self):
            sys.setprofile(self._profile)
            try:
                yield
            finally:
                sys.setprofile(None)

    def note_torch(self, function: Any) -> None:
        """Note a function or an operation of torch."""
        self._note(getattr(function, "__module__", None), getattr(function, "__name__", ""))

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__") or ""
        if event == "call":
            self._note(module, frame.f_code.co_name, frame.f_code)
        if event in ("call", "return") and module.startswith(_COURSE):
            self.depth += 1 if event == "call" else -1

    def _note(self, module: str | None, name: str, code: CodeType | None = None) -> None:
        if not self.ready_made and not self.depth:
            self.ready_made = self._ready_made(module or "", name, code)

    def _ready_made(self, module: str, name: str, code: CodeType | None) -> str:
        """Return what to call a function that is ready-made; nothing for another."""
        built_in = _BUILT_IN.match(name)
        if built_in and _TORCH.match(module):
            return f"torch's {built_in[0]}"
        if code is None or self.check is None:
            return ""
        if code is code_of(self.check.oracle):
            return f"check.{self.check.name}.oracle"
        if name == f"{self.check.name}_solution":
            return "the course's solution"
        if module in _DERIVES and name in ("grad", "backward", "vjp", "grad_impl"):
            return "torch's automatic differentiation"
        if module.startswith("transformers."):
            return f"transformers' {name}"
        is_open = (
            module.startswith(_OPEN_MODULES)
            or module.endswith(".exercises")
            or name in _OPEN
            or name.startswith(("_", "<"))
        )
        if module.startswith(_COURSE) and not is_open:
            return f"the course's {code.co_qualname}"
        return ""


class _Functions(TorchFunctionMode):
    """Sees each function of torch's Python interface."""

    def __init__(self, watch: _Watch) -> None:
        self.watch = watch

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.watch.note_torch(function)
        return function(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    """Sees each operation that is left when the interface is done, TorchScript's too."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.watch.note_torch(function)
        return function(*args, **(kwargs or {}))
