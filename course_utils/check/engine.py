"""A check: it holds a learner's function against the truth, and names what is wrong with it. From
chapter 00 on.

How one wrong answer goes through, a layer norm whose author wrote ``x.var(dims)``, which divides by
n − 1:

1. ``check.layer_norm(answer)`` calls a `Check`. It has an `Exercise`: frozen data, in which
   ``oracle`` is torch's layer norm, ``probes`` are some thirty calls, each of a stage (statistics,
   epsilon, affine, gradient, ...), and ``catalogue`` holds the known mistakes by key, each an edit
   of a right function's source.
2. What can be told without a call comes first (`functions`): is it a function, is there anything in
   its body, does it take the oracle's arguments? A complaint here is the whole `Report`.
3. A `Runner` makes the calls. For each `Probe` it computes the `Expected`: the oracle's quantities
   in float64, the dtypes that it gives. It calls the answer on a copy of the inputs in a `Sandbox`,
   which returns an `Outcome` (a value or an error, what was printed, what was changed), and
   examines that: an `Observation` has each quantity by name ("output", "gradient of x"), or a
   `Finding` in its place, such as a wrong shape. The two together are a `Comparison`, in units of
   what is allowed. Here: ``[[1, 2, 3, 4]]`` gives 1.16 where 1.34 is right.
4. If every comparison passed, that is the `Report`. Here "statistics" fails, and more after it. A
   `Diagnosis` takes the stages that fail in turn. It runs through the candidates, `Slips`: each
   mistake of the catalogue alone, then two at once, then several everyday ones. A candidate is a
   function too: it goes through the same `Runner`, and explains a stage if its comparisons there
   and in the stages before agree with the answer's. Here ``unbiased_variance`` does. The next wrong
   stage, "half precision", takes ``half_statistics`` besides. Each is a `Mistake`: a title, what is
   wrong, a hint.
5. A `Shrink` makes the call of the first failed probe smaller for as long as the answer fails in
   the same way: fewer arguments, fewer entries, simpler numbers. What is left, ``x = [[1, 2, 3]]``,
   is the report's `Evidence`.
6. The `Report` goes to whoever called, by way of ``on_report``, which may note it (`chapters.yours`
   does).

Of an answer's source no more is read than whether its body is empty (2.) and the line in which an
error arose (3.).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import torch

from course_utils.check.catalogue import Mistake
from course_utils.check.comparison import Comparison
from course_utils.check.diagnosis import Diagnosis
from course_utils.check.exercise import Exercise
from course_utils.check.functions import (
    called_as,
    code_of,
    is_of_course,
    is_of_torch,
    is_stub,
    mark_as_course,
    signature_complaint,
    signature_of,
)
from course_utils.check.probes import Probe
from course_utils.check.relations import has_factor
from course_utils.check.report import Evidence, Quantity, Report, evidence_for
from course_utils.check.runner import Runner, Trial, run_by_nearest_convention, upstream
from course_utils.check.sandbox import CALL_LIMIT_S, COMPILE_LIMIT_S, Sandbox, usual_modes
from course_utils.check.smallest import Shrink

__all__ = ["Check", "Checks", "examine"]

_TO_DO = "Put your code in place of the dots and run this cell again."

OnReport = Callable[[Report, Callable[..., Any]], Report]


class Check:
    """Checks a learner's function, and says which mistakes it makes.

    ``on_report`` is told of each report on a function that is the learner's, and returns it,
    perhaps with more to say.
    """

    def __init__(self, exercise: Exercise, on_report: OnReport | None = None) -> None:
        self.exercise = exercise
        self.on_report = on_report
        self._last_reason = "is not attempted yet"

    @property
    def name(self) -> str:
        """The exercise's name."""
        return self.exercise.name

    @property
    def oracle(self) -> Callable[..., Any]:
        """What the function must agree with."""
        return self.exercise.oracle

    @property
    def probes(self) -> Sequence[Probe]:
        """What is tried."""
        return self.exercise.probes

    @property
    def catalogue(self) -> Mapping[str, Mistake]:
        """The known mistakes."""
        return self.exercise.catalogue

    def __repr__(self) -> str:
        counts = f"{len(self.probes)} probes, {len(self.catalogue)} known mistakes"
        return f"<check.{self.name}: {self.exercise.call_form}, {counts}>"

    def __call__(
        self,
        function: Callable[..., Any],
        *,
        device: torch.device | str | None = None,
        record: bool = True,
    ) -> Report:
        """Return what is right and wrong about ``function``, whatever it does when it is called.

        The inputs live on ``device``, by default torch's. With ``record``, ``on_report`` is told;
        of the course's and torch's own functions it never is.
        """
        if self.exercise.interpreter:
            function = getattr(function, "fn", function)  # what triton.jit has wrapped
        report = examine(
            self.exercise, function, torch.device(device or torch.get_default_device())
        )
        if is_of_course(function):
            return replace(report, by_course=True)
        self._last_reason = report.reason
        if record and self.on_report and report.attempted and not is_of_torch(function):
            report = self.on_report(report, function)
        return report

    def solution(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Mark ``function`` as the course's own (a decorator): it is checked, and never counted as
        the learner's."""
        mark_as_course(function)
        mark_as_course(getattr(function, "fn", function))
        return function

    def choose(self, yours: Callable[..., Any], solution: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``yours`` if it passes, else ``solution``, and print in a line which is used from
        here and why."""
        if self.exercise.interpreter and self.exercise.interpreter():
            return solution  # neither can run
        if not is_of_course(yours) and self(yours):
            print(f"Using your {self.name} from here.")
            return yours if self.exercise.interpreter else called_as(self.oracle, yours)
        self(self.solution(solution)).require()
        print(f"Using the course's {self.name} from here: yours {self._last_reason}.")
        return solution


class Checks(dict[str, Check]):
    """The checks of some exercises by name: ``check.layer_norm(answer)``,
    ``check["layer_norm"]``."""

    def __init__(self, *exercises: Exercise, on_report: OnReport | None = None) -> None:
        super().__init__({exercise.name: Check(exercise, on_report) for exercise in exercises})

    def __getattr__(self, name: str) -> Check:
        if name in self:
            return self[name]
        similar = get_close_matches(name, self, n=1)
        raise AttributeError(
            f"there is no exercise {name!r}" + "".join(f": is it {other}?" for other in similar)
        )

    def __dir__(self) -> list[str]:
        return list(self)


@usual_modes()  # once: a thousand mistakes may be tried
def examine(exercise: Exercise, function: Callable[..., Any], device: torch.device) -> Report:
    """Return the report on ``function`` as an answer to ``exercise``, the inputs on ``device``."""
    if exercise.interpreter and (missing := exercise.interpreter()):
        return Report(exercise.name, passed=False, attempted=False, message=missing)
    if is_stub(function):
        return Report(exercise.name, passed=False, attempted=False, message=_TO_DO)
    if complaint := _complaint(exercise, function):
        return Report(exercise.name, passed=False, attempted=True, message=complaint)
    is_compiled = hasattr(function, "_torchdynamo_orig_callable")
    limit_s = COMPILE_LIMIT_S if is_compiled else CALL_LIMIT_S
    sandbox = Sandbox(code_of(function), limit_s, exercise.adapt.__code__.co_filename)
    if exercise.judge:
        return exercise.judge(function, sandbox)
    trial = run_by_nearest_convention(Runner(exercise, device), function, sandbox.call)
    report = Report(
        exercise.name,
        trial.passed,
        attempted=True,
        message="Right on every probe.",
        probes=[comparison.result() for comparison in trial.comparisons],
        remarks=_remarks(trial),
        printed=trial.comparisons[0].observed.printed,
        convention=trial.convention if trial.passed else "",
    )
    return report if trial.passed else _with_diagnosis(report, Diagnosis(trial), function, sandbox)


def _complaint(exercise: Exercise, function: Any) -> str:
    """Return what can be said against an answer that has not been called yet."""
    if not callable(function):
        kind = type(function).__name__
        return f"This is not a function (its type is {kind}): pass the function itself, uncalled."
    if isinstance(function, torch.nn.Module) and signature_complaint(
        function.forward, exercise.oracle
    ):
        arguments = signature_of(exercise.oracle)[1:-1]
        return f"This is a module: pass a function, such as `lambda {arguments}: …` around it."
    if complaint := signature_complaint(function, exercise.oracle):
        return (
            f"It is called as {exercise.call_form}, and takes {inspect.signature(function)}: "
            f"{complaint}."
        )
    return ""


def _remarks(trial: Trial) -> tuple[str, ...]:
    """Return what is worth knowing about an answer besides."""
    remarks = [trial.convention] if trial.passed and trial.convention else []
    if trial.passed:
        remarks += dict.fromkeys(
            each.probe.remark for each in trial.comparisons if each.deserves_remark
        )
    return tuple(remarks)


def _with_diagnosis(
    report: Report, diagnosis: Diagnosis, function: Callable[..., Any], sandbox: Sandbox
) -> Report:
    """Return the report on an answer that failed, with the mistakes that explain it and a small
    input that shows it."""
    failed = diagnosis.failed
    report = replace(report, message=diagnosis.without_catalogue())
    if failed.observed.finding and failed.observed.finding.ends_check:
        return report
    runner = diagnosis.trial.runner
    message, mistakes = diagnosis.explanation()
    first = mistakes[0] if len(mistakes) > 1 and not message else None
    smallest = Shrink(runner, function, sandbox.call, failed, first).smallest()
    finding = smallest.observed.finding
    factor = diagnosis.relation[1]
    if message and factor and not finding and not has_factor(smallest, failed.worst, factor):
        smallest = failed  # the factor that is said is this one's
    return replace(
        report,
        message=finding.message if message and finding else message,
        mistakes=mistakes,
        evidence=_evidence(runner.exercise, smallest, failed.worst),
        printed=smallest.observed.printed,
    )


def _evidence(exercise: Exercise, comparison: Comparison, wrong: str) -> Evidence:
    """Return the call of a comparison as evidence that the quantity ``wrong`` is, or that there is
    a finding."""
    required, _ = exercise.arguments
    finding = comparison.observed.finding
    if finding:
        quantity = Quantity(finding.quantity, finding.due, finding.came)
    else:
        quantity = comparison.quantity(wrong)
    sent_back = None
    if quantity.name.startswith("gradient"):
        sent_back = upstream(comparison.expected.values[exercise.returns[0]].float())
    return evidence_for(
        exercise.name, required, comparison.probe.call, quantity, sent_back, exercise.format_call
    )
