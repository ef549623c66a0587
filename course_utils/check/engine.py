"""A check: inputs that tell the known mistakes apart, the truth, and the catalogue that an answer is held against.

From chapter 00 on.
"""

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import combinations, islice, product, takewhile
from math import isfinite
from types import CodeType
from typing import Any

import torch

from course_utils.book import progress
from course_utils.book.chapters import standing
from course_utils.check import yours
from course_utils.check.catalogue import Mistake, edited
from course_utils.check.observe import Compared, Expected, Finding, Observer, upstream
from course_utils.check.probes import Call, Probe
from course_utils.check.report import Evidence, Report, evidence_for
from course_utils.check.sandbox import CALL_LIMIT_S, COMPILE_LIMIT_S, Outcome, Sandbox, trusted
from course_utils.check.smallest import Simplest, smallest_failing

__all__ = ["Check", "code_of", "is_of_course", "is_of_torch", "is_stub"]

_CLEARLY_WRONG = 3.0  # times the tolerance: what a smaller input must show to replace a larger one
_FAR_LESS = 10.0  # times: a wrong result so much nearer to another convention was meant to follow that one
_COMBINATIONS = 1_500  # of mistakes that are tried for one stage
_TO_DO = "Write the function in the cell above, run it, then run this cell again."
_PRINTS = "It prints; what it printed is left out here."

Slips = tuple[tuple[str, int], ...]  # mistakes made at once: for each its key, and which of its examples


@dataclass(eq=False)
class Check:
    """Checks a learner's function, and says which mistakes it makes."""

    name: str
    oracle: Callable[..., Any]  # what the function must agree with; its signature is the contract
    probes: Sequence[Probe]  # what to try, in the order of their stages
    catalogue: Mapping[str, Mistake]
    spell_out: Callable[[Call], Call] = lambda call: call  # fills in the defaults that depend on the dtype
    returns: Sequence[str] = ("output",)
    updates: Sequence[str] = ()  # the arguments that it is meant to update in place
    conventions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # other oracles, by what to remark
    any_dtype: bool = False  # whether right values may come in another dtype than the oracle's
    # Turns a function into one of a probe's arguments that returns ``returns``, where the learner's takes others.
    flatten: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    is_possible: Callable[[Call], bool] = lambda call: True  # whether a smaller call is not a degenerate one
    simplest: Mapping[str, Simplest] = field(default_factory=dict)  # values that are best to read in a small input
    shown: Callable[[Call], Sequence[str]] | None = None  # the call and its inputs as the learner writes them
    _last_reason: str = field(default="is not attempted yet", init=False, repr=False)

    def __repr__(self) -> str:
        counts = f"{len(self.probes)} probes, {len(self.catalogue)} known mistakes"
        return f"<check.{self.name}: {self._call_form}, {counts}>"

    def __call__(
        self, function: Callable[..., Any], *, device: torch.device | str | None = None, record: bool = True
    ) -> Report:
        """Return what is right and wrong about ``function``, whatever it does when it is called.

        The inputs live on ``device``, by default torch's. With ``record``, a pass counts as the learner's progress; the
        course's and torch's own functions never do.
        """
        report = self._report(function, torch.device(device or torch.get_default_device()))
        report = replace(report, by_course=is_of_course(function))
        if not report.by_course:
            self._last_reason = report.reason
            if record and report.attempted and not is_of_torch(function):
                progress.record(self.name, report.passed)
                if report.passed:
                    if source := yours.source_of(self.name, function):
                        progress.keep(self.name, source)
                    report = replace(report, standing=standing(progress.passed()))
        return report

    def solution(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Mark ``function`` as the course's own (a decorator): it is checked, and never counted as the learner's."""
        function.__course_solution__ = True  # type: ignore[attr-defined]
        return function

    def choose(self, yours: Callable[..., Any], solution: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``yours`` if it passes, else ``solution``, and print in a line which is used from here and why."""
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

    @cached_property
    def _by_convention(self) -> dict[str, "Check"]:
        """This check, and the same with each of the other conventions."""
        others = {remark: replace(self, oracle=oracle, conventions={}) for remark, oracle in self.conventions.items()}
        return {"": self} | others

    def _observer(self, device: torch.device) -> Observer:
        return Observer(self._arguments[0], self.returns, self.updates, device, self.flatten)

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
        return self._try(function, device)

    def _try(self, function: Callable[..., Any], device: torch.device) -> Report:
        """Try every probe, and explain what fails."""
        is_compiled = hasattr(function, "_torchdynamo_orig_callable")
        sandbox = Sandbox(code_of(function), COMPILE_LIMIT_S if is_compiled else CALL_LIMIT_S)
        convention, tried = self._nearest(lambda its_check: its_check._tried(function, device, sandbox))
        probes = [one.result() for one in tried]
        remarks: tuple[str, ...] = (_PRINTS,) if any(one.seen.lines_printed for one in tried) else ()
        failed = next((one for one in tried if not one.passed), None)
        if failed is None:
            remarks += tuple(dict.fromkeys(one.probe.remark for one in tried if one.deserves_remark))
            remarks = (convention, *remarks) if convention else remarks
            return Report(self.name, True, True, "Right on every probe.", probes=probes, remarks=remarks)
        report = replace(self._failure(_describe(failed, tried)), probes=probes, remarks=remarks)
        if failed.seen.finding and failed.seen.finding.ends_check:
            return report
        its_check = self._by_convention[convention]
        report = replace(report, evidence=its_check._evidence(function, failed, device, sandbox))
        stages = its_check._name(tried, device)
        return report.naming(stages) if stages else report

    def _nearest(self, tried_in: Callable[["Check"], list[Compared]]) -> tuple[str, list[Compared]]:
        """Return the convention that a function follows, or comes nearest to, and what it shows beside that one."""
        nearest, tried = "", tried_in(self)
        for convention, its_check in self._by_convention.items():
            is_open = convention and not all(one.passed for one in tried)
            if is_open and _is_nearer(other := tried_in(its_check), tried):
                nearest, tried = convention, other
        return nearest, tried

    def _tried(self, function: Callable[..., Any], device: torch.device, sandbox: Sandbox) -> list[Compared]:
        """Return what ``function`` shows on every probe, up to one where it had to be stopped."""
        tried: list[Compared] = []
        for probe in self.probes:
            tried.append(self._compare(function, probe, device, sandbox.call))
            finding = tried[-1].seen.finding
            if finding and finding.ends_check:
                break
        return tried

    def _compare(
        self, function: Callable[..., Any], probe: Probe, device: torch.device, run: Callable[..., Outcome]
    ) -> Compared:
        expected = self._expect(probe, device)
        seen = self._observer(device).observe(function, probe.call, probe.gradients, run, expected)
        return Compared(probe, expected, seen)

    @cache  # noqa: B019  (a check lives as long as the program)
    def _expect(self, probe: Probe, device: torch.device) -> Expected:
        if probe.is_refused:
            return Expected({}, {}, refused=probe.name)
        return self._truth(probe.call, probe.gradients, device)

    def _truth(self, call: Call, gradients: Sequence[str], device: torch.device) -> Expected:
        expected = self._observer(device).expect(self.oracle, call, self.spell_out(call), gradients)
        return replace(expected, dtypes={}) if self.any_dtype else expected

    # Which mistakes show what the learner's function shows.

    def _name(self, tried: Sequence[Compared], device: torch.device) -> list[list[Mistake]]:
        """Return the mistakes that together show what the learner's function shows, in groups.

        The first group is what the first wrong stage shows, the next what it takes besides for the next wrong stage,
        and so on, until nothing explains one.
        """
        groups: list[list[Mistake]] = []
        named: Slips = ()
        for stage in dict.fromkeys(one.probe.stage for one in tried if not one.passed):
            upto = [*(one for one in tried if one.probe.stage == stage), *_before(stage, tried)]
            candidates = islice(self._candidates(named), _COMBINATIONS)
            found = next((slips for slips in candidates if self._explains(slips, upto, device)), None)
            if found is None:
                break
            known = {key for key, _ in named}
            if added := [self.catalogue[key] for key, _ in found if key not in known]:
                groups.append(added)
            named = found
        return groups

    def _candidates(self, named: Slips) -> Iterator[Slips]:
        """Yield what may explain a stage: what is named already, with one more, with everyday ones, fewest first."""
        known = [key for key, _ in named]
        others = [key for key in self.catalogue if key not in known]
        if named:
            yield from self._ways(known)
            others.sort(key=lambda key: not self.catalogue[key].everyday)
        for key in others:
            yield from self._ways([*known, key])
        everyday = [key for key in others if self.catalogue[key].everyday]
        for size in range(2, len(everyday) + 1):
            for several in combinations(everyday, size):
                yield from self._ways([*known, *several])

    def _ways(self, keys: Sequence[str]) -> Iterator[Slips]:
        """Yield the ways to make these mistakes at once; only edits can be made together."""
        mistakes = [self.catalogue[key] for key in keys]
        forms = (mistake.examples if len(keys) == 1 else mistake.edits for mistake in mistakes)
        yield from product(*([(key, form) for form in range(len(ways))] for key, ways in zip(keys, forms, strict=True)))

    def _explains(self, slips: Slips, tried: Sequence[Compared], device: torch.device) -> bool:
        """Return whether a function with exactly these slips shows what was seen."""
        function = self.made_with(slips)
        return function is not None and all(
            one.agrees_with(self._shown_by(function, one.probe, device)) for one in tried
        )

    @cache  # noqa: B019
    def made_with(self, slips: Slips) -> Callable[..., Any] | None:
        """Return the function that makes these mistakes at once, or None where their edits overlap."""
        mistakes = [(self.catalogue[key], form) for key, form in slips]
        if len(slips) == 1:
            return mistakes[0][0].examples[mistakes[0][1]]
        try:
            return edited(mistakes[0][0].reference, *(mistake.edits[form] for mistake, form in mistakes))
        except (ValueError, SyntaxError):
            return None

    @cache  # noqa: B019
    def _shown_by(self, mistake: Callable[..., Any], probe: Probe, device: torch.device) -> Compared:
        """Return what a function that makes known mistakes shows on a probe: found once for all reports."""
        return self._compare(mistake, probe, device, trusted)

    def _evidence(
        self, function: Callable[..., Any], failed: Compared, device: torch.device, sandbox: Sandbox
    ) -> Evidence:
        """Return the smallest input found on which the function fails in the same way as on the failed probe.

        An input to be refused is shown as it is: a smaller one may have to be refused for another reason.
        """
        probe, finding, wrong = failed.probe, failed.seen.finding, failed.worst
        required, optional = self._arguments
        present = partial(evidence_for, self.name, required, shown=self.shown)
        if probe.is_refused:
            return present(probe.call)
        observer, least = self._observer(device), min(_CLEARLY_WRONG, failed.ratios.get(wrong, 0.0))
        best = failed

        def fails(call: Call) -> bool:
            nonlocal best
            if not self.is_possible(call):
                return False
            try:
                expected = self._truth(call, probe.gradients, device)
            except ValueError:  # the oracle does not take this call
                return False
            seen = observer.observe(function, call, probe.gradients, sandbox.call, expected)
            one = Compared(replace(probe, call=call), expected, seen)
            if finding or seen.finding:
                found = _are_alike(seen.finding, finding)
            else:
                found = one.ratios[wrong] >= least and isfinite(one.ratios[wrong]) == isfinite(failed.ratios[wrong])
            best = one if found else best
            return found

        kept = (*probe.gradients, *self.updates)
        call = smallest_failing(probe.call, fails, [name for name in optional if name not in kept], self.simplest)
        if finding:
            shown = best.seen.finding.shown if best.seen.finding else None
            return present(call, *(shown or ()))
        sent_back = upstream(best.expected.values[self.returns[0]].float()) if wrong.startswith("gradient") else None
        return present(call, wrong, best.expected.values[wrong], best.seen.values[wrong], sent_back)


def _before(stage: str, tried: Sequence[Compared]) -> list[Compared]:
    return list(takewhile(lambda one: one.probe.stage != stage, tried))


def _describe(failed: Compared, tried: Sequence[Compared]) -> str:
    """Return what can be said without the catalogue: what is wrong, and which stages are right already."""
    finding, name, stage = failed.seen.finding, failed.probe.name, failed.probe.stage
    unknown = f"The {failed.worst} is wrong, by none of the known mistakes. Seen first on: {name}."
    right = dict.fromkeys(one.probe.stage for one in _before(stage, tried))
    return (finding.message if finding else unknown) + (f" Right already: {', '.join(right)}." if right else "")


def _is_nearer(other: Sequence[Compared], tried: Sequence[Compared]) -> bool:
    """Return whether a failing function follows the convention of ``other``: it fails later there, or by far less."""
    other_at, at = (sum(1 for _ in takewhile(lambda one: one.passed, each)) for each in (other, tried))
    return other_at > at or (other_at == at and _FAR_LESS * other[at].result().error < tried[at].result().error)


def _are_alike(one: Finding | None, other: Finding | None) -> bool:
    """Return whether two findings are of a kind; a wrong shape is of another size on a smaller input."""
    if one is None or other is None:
        return False
    return one.kind == other.kind and (one.what == other.what or one.kind == "shape")


# What can be told of a function before it is called: whose it is, whether anything is in it, how it wants to be called.


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """Return the code of a function, of what a decorator wraps; None for what is not written in Python."""
    try:
        return getattr(inspect.unwrap(function), "__code__", None)
    except ValueError:  # it wraps itself
        return None


def is_of_course(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of the course's: marked, or out of this package."""
    return hasattr(function, "__course_solution__") or _module(function).startswith("course_utils.")


def is_of_torch(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of torch's."""
    return _module(function).split(".")[0] == "torch"


def _module(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__module__", None) or "")


# What the body of a function that does nothing compiles to: a docstring, `...` and `pass` leave no trace.
_NOTHING = {"RESUME", "NOP", "CACHE", "PRECALL", "PUSH_NULL", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
_LOADS = {"LOAD_GLOBAL", "LOAD_COMMON_CONSTANT"}
_NOT_IMPLEMENTED = _NOTHING | _LOADS | {"CALL", "RAISE_VARARGS"}


def is_stub(function: Callable[..., Any]) -> bool:
    """Return whether the body is only a docstring and ``...``, ``pass`` or ``raise NotImplementedError``."""
    code = code_of(function)
    if code is None or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return False
    steps = list(dis.get_instructions(code))
    names = {step.opname for step in steps}
    if names <= _NOTHING:
        return [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")] == [None]
    loaded = [step.argval for step in steps if step.opname in _LOADS]
    is_not_implemented = all(name in ("NotImplementedError", NotImplementedError) for name in loaded)
    return names <= _NOT_IMPLEMENTED and "RAISE_VARARGS" in names and is_not_implemented


def argument_names(function: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """Return the names of a function's required and of its optional arguments."""
    parameters = inspect.signature(function).parameters.values()
    required = [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]
    return required, [parameter.name for parameter in parameters if parameter.name not in required]


def signature_complaint(function: Callable[..., Any], oracle: Callable[..., Any]) -> str:
    """Return why ``function`` cannot be called as ``oracle`` is, or nothing if it can or if that cannot be told.

    What is required is passed by position and what is optional by keyword, so only the names of the latter matter.
    """
    try:
        signature = inspect.signature(function)
    except Exception:  # a learner's object may answer this with anything; the calls will show what it takes
        return ""
    required, optional = argument_names(oracle)
    try:
        signature.bind(*required)
        signature.bind(*required, **dict.fromkeys(optional))
    except TypeError as error:
        return str(error)
    return ""
