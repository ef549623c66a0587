"""Your passed answers, in every chapter: ``from chapters import yours``, then ``yours.rms_norm``
(chapter 16).

What passes a check is kept as source, with the imports, constants and functions of your notebook
that it uses. When it is asked for it is checked again; what is missing, or passes no more, is the
course's, and a line says which it is.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from chapters.contents import standing
from course_utils import progress

if TYPE_CHECKING:
    from course_utils.check import Check, Report

__all__ = ["note", "source_of"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chapters import check

    if name not in check:
        raise AttributeError(f"there is no exercise {name!r}; chapters.check names them all")
    its_check = check[name]
    reason = "is not passed yet"
    if source := progress.kept(name):
        try:
            namespace: dict[str, Any] = {"__name__": "yours"}
            exec(compile(source, f"<your {name}>", "exec"), namespace)
            if its_check(namespace[name], record=False):
                print(f"Your {name}, as you passed it.")
                return namespace[name]
            reason = "passes no more"
        except Exception as error:
            reason = f"fails to run ({type(error).__name__}: {error})"
    print(f"The course's {name}: yours {reason}.")
    mistake = next(iter(its_check.catalogue.values()), None)
    return mistake.reference if mistake else its_check.oracle


_SMILE = "It calls {}, which is right of course. Your own will please you more. 🙂"


def note(report: "Report", answer: Callable[..., Any], its_check: "Check") -> "Report":
    """Note what a check said of the learner's ``answer``, and keep one that passed; a pass says
    what is left to do, and whether somebody else's function did the work."""
    from chapters.ready_made import ready_made

    progress.record(report.name, report.passed)
    if not report.passed:
        return report
    if source := source_of(report.name, answer):
        progress.keep(report.name, source)
    words, link = standing(progress.passed(), report.name)
    called = ready_made(its_check, answer)
    remarks = (*report.remarks, _SMILE.format(called)) if called else report.remarks
    return replace(report, standing=words, link=link, remarks=remarks)


def source_of(name: str, function: Callable[..., Any]) -> str | None:
    """Return a program that defines ``function`` as ``name``, or None where its source is not to be
    had."""
    try:
        return "\n".join(
            [*dict.fromkeys(_parts(function, set())), f"{name} = {function.__name__}", ""]
        )
    except (OSError, TypeError, AttributeError):
        return None


def _parts(function: Any, written: set[str]) -> Iterator[str]:
    """Yield what ``function`` needs of its module and is not ``written`` yet, then itself."""
    needed = {"triton", *_names(function.__code__)} & function.__globals__.keys()
    for name in sorted(needed - written):
        written.add(name)
        value = function.__globals__[name]
        value = getattr(value, "fn", value)  # of a Triton kernel
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            if value is not function:
                yield from _parts(value, written)
        elif definition := _definition(name, value):
            yield definition
    yield inspect.cleandoc("\n" + inspect.getsource(function))


def _definition(name: str, value: Any) -> str:
    """Return the line that binds ``name`` to a module, something of one or a constant; nothing for
    others."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if hasattr(value, "__module__") and hasattr(value, "__qualname__"):
        return f"from {value.__module__} import {value.__qualname__} as {name}"
    return f"{name} = {value!r}" if isinstance(value, int | float | str | tuple) else ""


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code looks up in its module, the functions in it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
