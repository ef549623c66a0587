"""Whether an answer is ready-made: it calls torch's built-in, the course's own function or the check's oracle.

For ``course grade``; a learner may look and compare. It sees what is called while the answer runs, which somebody who
means to hide it can prevent. Every chapter with an exercise.
"""

import functools
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from course_utils.check.engine import Check, code_of

__all__ = ["ready_made"]

_BUILT_IN = re.compile(r"(layer|batch|group|instance|rms)_norm")
_DERIVES = ("torch.autograd", "torch._functorch.eager_transforms")
# What an exercise may build on: other exercises, the sums over ranks that it is handed, what earlier sections made.
_GIVEN_MODULES, _GIVEN = ("course_utils.check.", "course_utils.parallel."), {"rope_inv_freq", "yarn_paper_ramp"}


def ready_made(check: Check, answer: Callable[..., Any]) -> str:
    """Return the ready-made function that ``answer``, which passes ``check``, calls for its result; or nothing."""
    if type(check) is not Check:  # a kernel is compiled from its source, and calls no function
        return ""
    watch = _Watch(check)

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        watch.inside = 0
        sys.setprofile(watch.profile)
        try:
            return answer(*args, **kwargs)
        finally:
            sys.setprofile(None)

    check(watched, record=False)
    return watch.found


class _Watch:
    """Follows the calls that an answer makes, but for those that a function of the course makes in its turn."""

    def __init__(self, check: Check) -> None:
        self.check, self.found, self.inside = check, "", 0

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note what is called; for ``sys.setprofile``."""
        module = frame.f_globals.get("__name__") or ""
        if event == "c_call" and not self.inside and _BUILT_IN.search(name := getattr(argument, "__name__", "")):
            self.found = self.found or f"torch's {name}"
        elif event == "call" and not self.inside:
            self.found = self.found or self._named(module, frame.f_code)
        if event in ("call", "return") and module.startswith("course_utils."):
            self.inside += 1 if event == "call" else -1

    def _named(self, module: str, code: CodeType) -> str:
        if code is code_of(self.check.oracle):
            return f"check.{self.check.name}.oracle"
        if module in _DERIVES and code.co_name in ("grad", "backward", "vjp", "grad_impl"):
            return "torch's automatic differentiation"
        if module.startswith("transformers."):
            return f"transformers' {code.co_name}"
        is_given = module.startswith(_GIVEN_MODULES) or code.co_name in _GIVEN or code.co_name.startswith(("_", "<"))
        return f"the course's {code.co_qualname}" if module.startswith("course_utils.") and not is_given else ""
