"""Whether an answer is ready-made: it calls torch's built-in, the course's own function or the
check's oracle.

For ``course grade``, and for a smile at a learner, who may look and compare. The answer's names are
read, then it runs a second time, and at each function of torch's interface, however it is called,
it is asked which functions led there. Somebody who means to hide a call still can. Every chapter
with an exercise.
"""

import functools
import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from traceback import walk_stack
from types import CodeType
from typing import Any

from torch.overrides import TorchFunctionMode

from course_utils.check.engine import Check
from course_utils.check.functions import code_of

__all__ = ["ready_made"]

_BUILT_IN = re.compile(r"\w*(?:layer|batch|group|instance|rms)_norm\w*")
# its modules, without those of operations of one's own
_TORCH = re.compile(r"torch(?:\._ops\.aten$|\.(?!_ops\b)|$)")
_DERIVES = ("torch.autograd", "torch._tensor", "torch._functorch.eager_transforms")
# What an answer may build on: other exercises, the pieces of chapter 21, the sums over ranks that
# it is handed, what earlier sections made.
_COURSE = ("course_utils.", "chapters.")
_OPEN_MODULES = ("course_utils.check.", "chapters.c09_", "chapters.c21_")
_OPEN = {"rope_inv_freq", "turns", "yarn_paper_ramp"}
_ON_TORCHS_NORM = {"ada_layer_norm", "lstm_step"}  # their task is what is done with the result


def ready_made(check: Check, answer: Callable[..., Any]) -> str:
    """Return the ready-made function that ``answer``, which passes ``check``, calls for its result;
    or nothing."""
    if check.exercise.interpreter:  # it runs no function of Python's
        return ""
    code = code_of(answer)
    names = _names(code) if code else set()
    if f"{check.name}_solution" in names:
        return "the course's solution"
    if names >= {check.name, "oracle"} or names >= {
        "bug",
        "solution",
    }:  # chapter 21's pieces hold their own
        return f"check.{check.name}.oracle"
    calls = _Calls(check)

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        with calls:
            return answer(*args, **kwargs)

    calls.outermost = watched.__code__  # type: ignore[attr-defined]
    check(watched, record=False)
    return calls.ready_made


def _names(code: CodeType) -> set[str]:
    """Return the names of a function and of what it uses."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return {code.co_name, *code.co_names}.union(*map(_names, inner))


class _Calls(TorchFunctionMode):
    """Sees each call of torch's interface, and notes the first that is ready-made or is made by
    what is."""

    outermost: CodeType

    def __init__(self, check: Check) -> None:
        self.check = check
        self.ready_made = ""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not self.ready_made:
            self.ready_made = self._first_ready_made(function)
        return function(*args, **(kwargs or {}))

    def _first_ready_made(self, function: Any) -> str:
        for module, name, code in self._callers():
            if called := self._called(module, name, code):
                return called
            if module.startswith(_COURSE):  # what a function of the course calls is its own affair
                return ""
        module = getattr(function, "__module__", None) or ""
        return self._called(module, getattr(function, "__name__", ""), None)

    def _callers(self) -> Iterator[tuple[str, str, CodeType]]:
        """Yield module, name and code of the functions between the answer and torch, the answer
        first."""
        frames = (frame for frame, _ in walk_stack(None))
        inside = list(takewhile(lambda frame: frame.f_code is not self.outermost, frames))
        for frame in reversed(inside):
            if frame.f_globals is not globals():
                yield frame.f_globals.get("__name__") or "", frame.f_code.co_name, frame.f_code

    def _called(self, module: str, name: str, code: CodeType | None) -> str:
        """Return what to call a function that is ready-made; nothing for another."""
        built_in = _BUILT_IN.match(name)
        may_call_it = self.check.name in _ON_TORCHS_NORM
        if built_in and _TORCH.match(module) and not may_call_it:
            return f"torch's {built_in[0]}"
        if module in _DERIVES and name in ("grad", "backward", "vjp", "grad_impl"):
            return "torch's automatic differentiation"
        if code is code_of(self.check.oracle):
            return f"check.{self.check.name}.oracle"
        if name == f"{self.check.name}_solution":
            return "the course's solution"
        if module.startswith("transformers."):
            return f"transformers' {name}"
        is_open = module.startswith(_OPEN_MODULES) or module.endswith(".exercises")
        if not module.startswith(_COURSE) or is_open or name in _OPEN or name[0] in "_<":
            return ""
        return f"the course's {code.co_qualname}" if code else ""
