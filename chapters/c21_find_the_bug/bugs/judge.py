"""Chapter 21: does the learner's input show what is wrong with a piece of code?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

from chapters.c21_find_the_bug.bugs.catalogue import BUGS, WORKED
from chapters.c21_find_the_bug.bugs.piece import Arguments, Difference, Piece
from chapters.c21_find_the_bug.bugs.reply import ORDINARY, changed, reply_to
from course_utils.check.engine import Check
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call
from course_utils.check.report import Evidence, Quantity, Report, evidence_for
from course_utils.check.sandbox import Outcome, Sandbox, describe_error
from course_utils.check.smallest import CLEARLY_WRONG, smallest_failing

__all__ = ["FIND_BUG", "Judge", "input_0"]

_MOST_INPUTS = 10  # in a list: whoever needs more has not read the code


@dataclass(frozen=True)
class Judge:
    """Judges an input: it counts where the piece is wrong on it, and the piece with its bug mended
    is right.

    A list of inputs says that the piece is clean. It counts where that is so, and where they show
    it. Pieces run on the CPU.
    """

    name: str
    piece: Piece

    def __call__(self, function: Callable[..., Any], sandbox: Sandbox) -> Report:
        """Return what the input that ``function`` makes shows, or the inputs."""
        outcome = sandbox.call(lambda: function(self.piece.ordinary()))
        if outcome.error is not None:
            return self._failure(f"Making the input fails: {_describe(outcome)}.")
        is_list = isinstance(outcome.value, list)
        inputs = []
        for answer in outcome.value if is_list else [outcome.value]:
            if not isinstance(answer, dict):
                kind, example = type(answer).__name__, next(iter(self.piece.spec))
                return self._failure(
                    f'It must return a dictionary of arguments, as {{"{example}": …}}: got {kind}.'
                )
            (arguments,) = self.piece.tried(answer)
            refusal = sandbox.call(partial(self.piece.complaint, arguments))
            if refusal.error is not None or refusal.value:
                return self._failure(
                    f"No input of this piece. {refusal.value or _describe(refusal)}"
                )
            inputs.append(Call(arguments).fresh())
        return self._judge_clean(inputs, sandbox) if is_list else self._judge(inputs[0], sandbox)

    def _failure(self, message: str) -> Report:
        return Report(self.name, passed=False, attempted=True, message=message)

    def _judge_clean(self, inputs: Sequence[Arguments], sandbox: Sandbox) -> Report:
        """Return whether the piece is clean, and whether these inputs would have shown what could
        be wrong with it."""
        if not 1 <= len(inputs) <= _MOST_INPUTS:
            return self._failure(
                f"To call a piece clean, list 1 to {_MOST_INPUTS} inputs: got {len(inputs)}."
            )
        for number, arguments in enumerate(inputs, 1):
            report = self._judge(arguments, sandbox)
            if report.passed:
                return self._failure(
                    f"Not clean: input {number} of your list shows a bug. Return it alone."
                )
            outcome = sandbox.call(partial(self.piece.difference, self.piece.broken, arguments))
            if outcome.error is not None or outcome.value.ratio > 1:
                return self._failure(f"Input {number} of your list says nothing. {report.message}")
        if not self.piece.is_clean:
            return self._failure(
                f"Not clean: some input shows a bug, and none of your {len(inputs)} does."
            )
        if unnoticed := self.piece.unnoticed(inputs):
            missed = ", and one that ".join(unnoticed)
            return self._failure(
                f"It is right on your inputs. But they would also pass a version that {missed}."
            )
        remark = (
            f"Your inputs would have shown a version that {', or that '.join(self.piece.spoil)}."
        )
        return Report(
            self.name,
            passed=True,
            attempted=True,
            message="clean, and not by luck",
            remarks=(remark,),
        )

    def _judge(self, arguments: Arguments, sandbox: Sandbox) -> Report:
        """Return whether a valid input shows the bug, and if not, what it does."""
        if not changed(arguments, self.piece.ordinary()):
            return self._failure(ORDINARY)
        outcome = sandbox.call(partial(self.piece.differences, arguments))
        if isinstance(outcome.error, ValueError):
            return self._failure(
                f"This input has no right answer to compare with: {outcome.error}."
            )
        if outcome.error is not None:
            error = _describe(outcome)
            return self._failure(
                f"No wrong answer to show: the piece does not answer at all ({error})."
            )
        broken, mended = outcome.value
        if reply := reply_to(self.piece, arguments, broken, mended, self.piece.usual_ratio):
            return self._failure(reply)
        return Report(
            self.name,
            passed=True,
            attempted=True,
            message="the bug shows",
            evidence=self._smallest(arguments, broken, sandbox),
            remarks=(f"On your input, {broken.message()}.",),
        )

    def _smallest(self, arguments: Arguments, difference: Difference, sandbox: Sandbox) -> Evidence:
        """Return the smallest input found that shows the bug too."""
        piece = self.piece

        def shows(call: Call) -> bool:
            if piece.complaint(call.arguments):
                return False
            outcome = sandbox.call(partial(piece.differences, call.arguments))
            if outcome.error is not None:
                return False
            smaller, mended = outcome.value
            is_clear = smaller.ratio >= min(CLEARLY_WRONG, difference.ratio)
            is_alike = isfinite(smaller.ratio) == isfinite(difference.ratio)
            return mended.ratio <= 1 and is_clear and is_alike

        call = smallest_failing(Call(arguments, piece.axes(arguments)), shows, ())
        best = piece.difference(piece.broken, call.arguments)
        return evidence_for(
            piece.function, list(piece.spec), call, Quantity("output", best.right, best.got)
        )


def _describe(outcome: Outcome) -> str:
    """Return an error in a few words, with the learner's line where it arose."""
    assert outcome.error is not None
    return describe_error(outcome.error) + (f", {outcome.place}" if outcome.place else "")


def _exercise(piece: Piece) -> Exercise:
    name = f"input_{piece.letter.lower()}"
    return Exercise(name, piece.solution, judge=Judge(name, piece))


FIND_BUG = [_exercise(piece) for piece in BUGS.values()]
input_0 = Check(_exercise(WORKED))  # solved in the lesson, and so no exercise
