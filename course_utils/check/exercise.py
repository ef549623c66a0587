"""An exercise as data: what is asked, what is right, what to try, and which mistakes are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from course_utils.check.catalogue import Mistake
from course_utils.check.functions import argument_names, signature_of
from course_utils.check.probes import Call, Probe, Simplest
from course_utils.check.report import Report
from course_utils.check.sandbox import Sandbox

__all__ = ["Exercise"]


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise. The first four fields are all that most need."""

    name: str
    oracle: Callable[..., Any]  # what an answer must agree with; its signature is the contract
    probes: Sequence[Probe] = ()  # what to try, in the order of their stages
    catalogue: Mapping[str, Mistake] = field(default_factory=dict)
    returns: Sequence[str] = ("output",)
    updates: Sequence[str] = ()  # the arguments that an answer is meant to update in place
    any_dtype: bool = False  # whether right values may come in another dtype than the oracle's
    # other oracles, by what to remark
    conventions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    # fills in the defaults that depend on the dtype
    fill_defaults: Callable[[Call], Call] = lambda call: call
    # Turns a function into one of a probe's arguments that returns ``returns``, where the learner's
    # takes others.
    adapt: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    # whether a smaller call is not a degenerate one
    may_shrink_to: Callable[[Call], bool] = lambda call: True
    # values that are best to read in a small input
    simplest: Mapping[str, Simplest] = field(default_factory=dict)
    format_call: Callable[[Call], Sequence[str]] | None = (
        None  # the call and its inputs as the learner writes them
    )
    # Of code that Python does not run itself: returns why its interpreter is missing, or nothing.
    interpreter: Callable[[], str] | None = None
    judge: Callable[[Callable[..., Any], Sandbox], Report] | None = (
        None  # judges an answer, in place of the probes
    )

    @property
    def call_form(self) -> str:
        """How an answer is called:
        ``layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5)``."""
        return self.name + signature_of(self.oracle)

    @cached_property
    def arguments(self) -> tuple[list[str], list[str]]:
        """The names of a probe's required and of its optional arguments."""
        return argument_names(self.adapt(self.oracle))

    @cached_property
    def by_convention(self) -> "dict[str, Exercise]":
        """The same exercise with each of the other conventions, by what to remark."""
        return {
            remark: replace(self, oracle=oracle, conventions={})
            for remark, oracle in self.conventions.items()
        }
