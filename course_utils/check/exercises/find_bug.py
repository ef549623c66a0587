"""Chapter 19: does the learner's input show what is wrong with a piece of code?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from course_utils.book.tables import format_number
from course_utils.bugs import BUGS, Bug
from course_utils.bugs.base import Arguments, Difference, copied
from course_utils.check.catalogue import Mistake
from course_utils.check.engine import Check, code_of
from course_utils.check.probes import Call, Probe
from course_utils.check.report import Evidence, Report, evidence_for
from course_utils.check.sandbox import Outcome, Sandbox
from course_utils.check.smallest import smallest_failing

__all__ = ["FIND_BUG", "FindBug"]

_MOST_INPUTS = 10  # in a list: whoever needs more has not read the code
_CLEARLY = 3.0  # times the tolerance: what a smaller input must show to replace a larger one
_CLOSER = 3.0  # times: a difference so much larger than on the ordinary input is said to be on the way


@dataclass(eq=False)
class FindBug(Check):
    """Judges an input: it counts where the piece is wrong on it, and the piece with its bug mended is right.

    A list of inputs says that the piece is clean. It counts where that is so, and where they show it.
    """

    probes: Sequence[Probe] = ()
    catalogue: Mapping[str, Mistake] = field(default_factory=dict)
    bug: Bug = field(kw_only=True)  # what the input is to show

    def __repr__(self) -> str:
        return f"<check.{self.name}: an input that shows the bug of piece {self.bug.letter}, or a list>"

    def _try(self, function: Callable[..., Any], device: torch.device) -> Report:
        """Return what the learner's input shows; pieces run on the CPU, whatever the ``device``."""
        sandbox = Sandbox(code_of(function))
        made = sandbox.call(lambda: function(self.bug.ordinary()))
        if made.error is not None:
            return self._failure(f"Making the input fails: {_error_text(made)}.")
        answers = made.value if isinstance(made.value, list) else [made.value]
        inputs = []
        for answer in answers:
            if not isinstance(answer, dict):
                got, example = type(answer).__name__, next(iter(self.bug.spec))
                return self._failure(f'It must return a dictionary of arguments, as {{"{example}": …}}: got {got}.')
            (arguments,) = self.bug.tried(answer)
            refused = sandbox.call(partial(self.bug.complaint, arguments))
            if refused.error is not None or refused.value:
                return self._failure(f"No input of this piece. {refused.value or _error_text(refused)}")
            inputs.append(copied(arguments))
        return self._judge_clean(inputs, sandbox) if answers is made.value else self._judge(inputs[0], sandbox)

    def _judge_clean(self, inputs: Sequence[Arguments], sandbox: Sandbox) -> Report:
        """Return whether the piece is clean, and whether these inputs would have shown what could be wrong with it."""
        if not 1 <= len(inputs) <= _MOST_INPUTS:
            return self._failure(f"To call a piece clean, list 1 to {_MOST_INPUTS} inputs: got {len(inputs)}.")
        for number, arguments in enumerate(inputs, 1):
            judged = self._judge(arguments, sandbox)
            if judged.passed:
                return self._failure(f"Not clean: input {number} of your list shows a bug. Return it alone.")
            found = sandbox.call(partial(self.bug.difference, self.bug.broken, arguments))
            if found.error is not None or found.value.ratio > 1:
                return self._failure(f"Input {number} of your list says nothing. {judged.message}")
        if not self.bug.is_clean:
            return self._failure(f"Not clean: some input shows a bug, and none of your {len(inputs)} does.")
        if unnoticed := self.bug.unnoticed(inputs):
            missed = ", and one that ".join(unnoticed)
            return self._failure(f"It is right on your inputs. But they would also pass a version that {missed}.")
        remark = f"Your inputs would have shown a version that {', or that '.join(self.bug.spoiled)}."
        return Report(self.name, True, True, "clean, and not by luck", remarks=(remark,))

    def _judge(self, arguments: Arguments, sandbox: Sandbox) -> Report:
        """Return whether a valid input shows the bug, and if not, what it does."""
        broken = sandbox.call(lambda: self.bug.difference(self.bug.broken, arguments))
        mended = sandbox.call(lambda: self.bug.difference(self.bug.mended, arguments))
        if isinstance(broken.error, ValueError):
            return self._failure(f"This input has no right answer to compare with: {broken.error}.")
        for outcome in (broken, mended):
            if outcome.error is not None:
                error = _error_text(outcome)
                return self._failure(f"No wrong answer to show: the piece does not answer at all ({error}).")
        if broken.value.ratio <= 1:
            return self._failure(self._agreement(arguments, broken.value))
        if mended.value.ratio > 1:
            return self._failure(_beyond(broken.value, mended.value))
        remark = f"On your input, {broken.value.message()}."
        evidence = self._smallest(arguments, broken.value, sandbox)
        return Report(self.name, True, True, "the bug shows", evidence=evidence, remarks=(remark,))

    def _agreement(self, arguments: Arguments, difference: Difference) -> str:
        """Return what to say where the piece is right: how close it came, and what was left as it was."""
        ordinary = self.bug.ordinary()
        changed = [name for name in arguments if not _equal(arguments[name], ordinary[name])]
        if not changed:
            return "This is the ordinary input, and on it the piece is right."
        before = self.bug.difference(self.bug.broken, ordinary)
        parts = [f"The piece is right on this input: off by {_share(difference)} of what is allowed."]
        if difference.ratio > _CLOSER * before.ratio and difference.ratio > 0.01:
            parts.append(f"You are on the way: on the ordinary input it is {_share(before)}.")
        message = self.bug.near_message(arguments)
        kept = [f"`{name}`" for name in arguments if name not in changed]
        return " ".join([*parts, message or (f"You left {' and '.join(kept)} as it was." if kept else "")]).strip()

    def _smallest(self, arguments: Arguments, shown: Difference, sandbox: Sandbox) -> Evidence:
        """Return the smallest input found that shows the bug too."""
        bug, least = self.bug, min(_CLEARLY, shown.ratio)

        def shows(call: Call) -> bool:
            nonlocal shown
            if bug.complaint(call.arguments):
                return False
            found = sandbox.call(lambda: bug.difference(bug.broken, call.fresh()) if bug.shows(call.fresh()) else None)
            if found.value is None or found.value.ratio < least or isfinite(found.value.ratio) != isfinite(shown.ratio):
                return False
            shown = found.value
            return True

        call = smallest_failing(Call(arguments, bug.axes(arguments)), shows, ())
        return evidence_for(bug.function, list(bug.spec), call, shown.quantity, shown.right, shown.got)


def _error_text(outcome: Outcome) -> str:
    """Return an error in a few words, with the learner's line where it arose."""
    error = outcome.error
    text = " ".join(str(error).split())[:200].rstrip(".")
    return f"{type(error).__name__}{f': {text}' if text else ''}" + (f", {outcome.place}" if outcome.place else "")


def _beyond(broken: Difference, mended: Difference) -> str:
    by = format_number(mended.error)
    return (
        f"The piece is wrong here ({broken.message()}), but a version without a bug is wrong too, by {by}: what you "
        "see is something else, such as the end of the dtype. Come a little nearer to the ordinary input."
    )


def _share(difference: Difference) -> str:
    return f"{100 * difference.ratio:.2g} %"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


FIND_BUG = [FindBug(f"input_{letter.lower()}", bug.solution, bug=bug) for letter, bug in BUGS.items()]
