"""A check: inputs that tell the known mistakes apart, the truth, and the catalogue an answer is held against."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import isfinite
from typing import Any

import torch

from course_utils.book import progress
from course_utils.check.calls import Call, Probe
from course_utils.check.compared import Compared
from course_utils.check.learner import (
    argument_names,
    code_of,
    is_of_course,
    is_of_torch,
    is_stub,
    mark_as_course,
    signature_complaint,
)
from course_utils.check.mistakes import Mistake
from course_utils.check.observation import Expected, Finding, Observer, trusted
from course_utils.check.report import Evidence, Report, evidence_for
from course_utils.check.sandbox import Sandbox
from course_utils.check.smallest import smallest_failing

__all__ = ["Check", "Convention"]

_CLEARLY_WRONG = 3.0  # times the tolerance: what a smaller input must show to replace a larger one
_FAR_LESS = 10.0  # times: a wrong result so much nearer to another convention was meant to follow that one
_TO_DO = "Write the function in the cell above, run it, then run this cell again."
_PRINTS = "It prints; what it printed is left out here."


@dataclass(frozen=True)
class Convention:
    """Another convention that is as right as the oracle's, and accepted with a remark."""

    remark: str
    oracle: Callable[..., Any]


@dataclass(eq=False)
class Check:
    """Checks a learner's function, and says which mistake it makes if it makes one.

    Args:
        name: of the exercise and of the function.
        oracle: what the function must agree with; its signature is the contract.
        probes: what to try, in the order of their stages.
        catalogue: the known mistakes by key.
        spell_out: turns a call into the same one with those defaults spelled out that depend on the dtype, before it is
            made in float64 for the truth.
        returns: names for what the function returns.
        updates: the arguments that it is meant to update in place.
        conventions: other right answers.
        any_dtype: whether outputs may come in another dtype than the oracle's, where the values are right.
        flatten: turns a function into one of a probe's arguments that returns ``returns``, where it takes others.
    """

    name: str
    oracle: Callable[..., Any]
    probes: Sequence[Probe]
    catalogue: Mapping[str, Mistake]
    spell_out: Callable[[Call], Call] = lambda call: call
    returns: Sequence[str] = ("output",)
    updates: Sequence[str] = ()
    conventions: Sequence[Convention] = ()
    any_dtype: bool = False
    flatten: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    _expected: dict[tuple[int, torch.device], Expected] = field(default_factory=dict, init=False, repr=False)
    _last_reason: str = field(default="is not attempted yet", init=False, repr=False)

    def __repr__(self) -> str:
        counts = f"{len(self.probes)} probes, {len(self.catalogue)} known mistakes"
        return f"<check.{self.name}: {self._call_form}, {counts}>"

    def __call__(
        self, function: Callable[..., Any], *, device: torch.device | str | None = None, record: bool = True
    ) -> Report:
        """Return what is right and wrong about ``function``, whatever it does when it is called.

        Args:
            function: the learner's, with the signature of this check's oracle.
            device: where the inputs live; by default torch's default device, which is the CPU unless it was set.
            record: whether a pass counts as the learner's progress; the course's and torch's own functions never do.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        report = self._report(function, torch.device(device or torch.get_default_device()))
        report = replace(report, by_course=is_of_course(function))
        if not report.by_course:
            self._last_reason = report.reason
            if record and report.attempted and not is_of_torch(function):
                progress.record(self.name, report.passed)
        return report

    def solution(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Mark ``function`` as the course's own (a decorator): it is checked, and never counted as the learner's."""
        mark_as_course(function)
        return function

    def choose(self, yours: Callable[..., Any], solution: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``yours`` if it passes, else ``solution``, and print in a line which is used from here and why.

        Raises:
            AssertionError: neither passes.
        """
        if not is_of_course(yours) and self(yours):
            print(f"Using your {self.name} from here.")
            return yours
        self(self.solution(solution)).require()
        print(f"Using the course's {self.name} from here: yours {self._last_reason}.")
        return solution

    # From here on: how a report comes about.

    @property
    def _call_form(self) -> str:
        return self.name + str(inspect.signature(self.oracle)).replace("1e-05", "1e-5")

    @cached_property
    def _arguments(self) -> tuple[list[str], list[str]]:
        return argument_names(self.flatten(self.oracle))

    def _failure(self, message: str, *, attempted: bool = True) -> Report:
        return Report(self.name, passed=False, attempted=attempted, message=message)

    def _report(self, function: Callable[..., Any], device: torch.device) -> Report:
        if not callable(function):
            kind = type(function).__name__
            return self._failure(f"This is not a function (its type is {kind}): pass the function itself, uncalled.")
        if is_stub(function):
            return self._failure(_TO_DO, attempted=False)
        if complaint := signature_complaint(function, self.oracle):
            takes = str(inspect.signature(function))
            return self._failure(f"It is called as {self._call_form}, and takes {takes}: {complaint}.")
        report = self._try(function, device)
        for convention in self.conventions if not report.passed else ():
            other = replace(self, oracle=convention.oracle, conventions=())._try(function, device)
            if other.passed:
                return replace(other, remarks=(convention.remark, *other.remarks))
            report = other if _is_nearer(other, report) else report
        return report

    def _try(self, function: Callable[..., Any], device: torch.device) -> Report:
        """Try every probe, and explain the first stage that fails."""
        observer = Observer(self._arguments[0], self.returns, self.updates, device, self.flatten)
        sandbox = Sandbox(code_of(function))
        tried: list[Compared] = []
        for probe in self.probes:
            expected = self._expect(observer, probe)
            seen = observer.observe(function, probe.call, probe.gradients, sandbox.call, expected)
            tried.append(Compared(probe, expected, seen))
            if seen.finding and seen.finding.ends_check:
                break
        probes = [one.result() for one in tried]
        prints = (_PRINTS,) if any(one.seen.lines_printed for one in tried) else ()

        failed = next((one for one in tried if not one.passed), None)
        if failed is None:
            remarks = (*prints, *dict.fromkeys(one.probe.remark for one in tried if one.deserves_remark))
            return Report(self.name, True, True, "Right on every probe.", probes=probes, remarks=remarks)
        report = replace(self._failure(_describe(failed, tried)), probes=probes, remarks=prints)
        if failed.seen.finding and failed.seen.finding.ends_check:
            return report
        report = replace(report, evidence=self._evidence(function, failed, observer, sandbox))
        mistake = self._identify(tried, failed.probe.stage, observer)
        return report if mistake is None else report.naming(mistake)

    def _expect(self, observer: Observer, probe: Probe) -> Expected:
        key = (id(probe), observer.device)
        if key not in self._expected:
            self._expected[key] = (
                observer.expect_refusal(self.oracle, probe.call, probe.name)
                if probe.is_refused
                else self._truth(observer, probe.call, probe.gradients)
            )
        return self._expected[key]

    def _truth(self, observer: Observer, call: Call, gradients: Sequence[str]) -> Expected:
        expected = observer.expect(self.oracle, call, self.spell_out(call), gradients)
        return replace(expected, dtypes={}) if self.any_dtype else expected

    def _identify(self, tried: Sequence[Compared], stage: str, observer: Observer) -> Mistake | None:
        """Return the mistake that shows what the learner's function shows, up to the end of the failed stage."""
        decisive = [one for one in tried if one.probe.stage == stage]
        earlier = list(takewhile(lambda one: one.probe.stage != stage, tried))

        def shown_by(example: Callable[..., Any], one: Compared) -> Compared:
            return replace(
                one, seen=observer.observe(example, one.probe.call, one.probe.gradients, trusted, one.expected)
            )

        for mistake in self.catalogue.values():
            for example in mistake.examples:
                if all(one.agrees_with(shown_by(example, one)) for one in (*decisive, *earlier)):
                    return mistake
        return None

    def _evidence(
        self, function: Callable[..., Any], failed: Compared, observer: Observer, sandbox: Sandbox
    ) -> Evidence:
        """Return the smallest input found on which the function fails in the same way as on the failed probe.

        An input to be refused is shown as it is: a smaller one may have to be refused for another reason.
        """
        probe, finding, wrong = failed.probe, failed.seen.finding, failed.worst()
        if probe.is_refused:
            return evidence_for(self.name, self._arguments[0], probe.call)
        ratio = failed.ratios().get(wrong, 0.0)

        shown = failed

        def fails(call: Call) -> bool:
            nonlocal shown
            try:
                expected = self._truth(observer, call, probe.gradients)
            except ValueError:  # the oracle does not take this call
                return False
            seen = observer.observe(function, call, probe.gradients, sandbox.call, expected)
            one = Compared(replace(probe, call=call), expected, seen)
            if finding or seen.finding:
                found = _are_alike(seen.finding, finding)
            else:
                error = one.ratios()[wrong]
                found = error >= min(_CLEARLY_WRONG, ratio) and isfinite(error) == isfinite(ratio)
            shown = one if found else shown
            return found

        required, optional = self._arguments
        call = smallest_failing(probe.call, fails, [name for name in optional if name not in probe.gradients])
        if finding:
            return evidence_for(self.name, required, call)
        return evidence_for(self.name, required, call, wrong, shown.expected.values[wrong], shown.seen.values[wrong])


def _describe(failed: Compared, tried: Sequence[Compared]) -> str:
    """Return what can be said without the catalogue: what is wrong, and which stages are right already."""
    finding, name, stage = failed.seen.finding, failed.probe.name, failed.probe.stage
    text = (
        finding.message
        if finding
        else f"The {failed.worst()} is wrong, by none of the known mistakes. Seen first on: {name}."
    )
    right = dict.fromkeys(one.probe.stage for one in takewhile(lambda one: one.probe.stage != stage, tried))
    return text + (f" Right already: {', '.join(right)}." if right else "")


def _is_nearer(other: Report, report: Report) -> bool:
    """Return whether a failing function follows the convention of ``other``: it fails later there, or by far less."""
    (at, failed), (other_at, other_failed) = (
        next((at, probe) for at, probe in enumerate(one.probes) if not probe.passed) for one in (report, other)
    )
    return other_at > at or (other_at == at and _FAR_LESS * other_failed.error < failed.error)


def _are_alike(one: Finding | None, other: Finding | None) -> bool:
    """Return whether two findings are of a kind; a wrong shape is of another size on a smaller input."""
    if one is None or other is None:
        return False
    return one.kind == other.kind and (one.what == other.what or one.kind == "shape")
