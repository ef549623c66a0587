"""Your passed answers, in every chapter: ``from chapters import yours``, then ``yours.rms_norm``
(chapter 17).

What passes a check is kept as source, with the imports, constants and functions of your notebook
that it uses. When it is asked for it is checked again; what is missing, or passes no more, is the
course's, and a line says which it is. ``yours.convention_of`` says whether an answer follows a
convention that its check accepts beside the exercise's own; whoever puts it to use must know.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch

from chapters.contents import standing
from course_utils import progress
from course_utils.check.functions import called_as

if TYPE_CHECKING:
    from course_utils.check import Check, Report

__all__ = ["convention_of", "note", "owner_of", "source_of"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chapters import check

    if name not in check:
        raise AttributeError(f"there is no exercise {name!r}; chapters.check names them all")
    its_check = check[name]
    was_passed = name in progress.passed()
    reason = "passed, and its source could not be kept" if was_passed else "is not passed yet"
    if source := progress.kept(name):
        try:
            namespace: dict[str, Any] = {"__name__": "yours"}
            exec(compile(source, f"<your {name}>", "exec"), namespace)
            if report := its_check(namespace[name], record=False):
                print(f"Your {name}, as you passed it.")
                answer = called_as(its_check.oracle, namespace[name])
                answer.__course_convention__ = report.convention  # type: ignore[attr-defined]
                return answer
            reason = "passes no more"
        except Exception as error:
            reason = f"fails to run ({type(error).__name__}: {error})"
    print(f"The course's {name}: yours {reason}.")
    mistake = next(iter(its_check.catalogue.values()), None)
    return mistake.reference if mistake else its_check.oracle


_SMILE = "It calls {}, which is right of course. Your own will please you more. 🙂"


def convention_of(answer: Callable[..., Any]) -> str:
    """Return the convention of an answer of ``yours`` by what its report remarked; nothing where it
    is the exercise's own."""
    return getattr(answer, "__course_convention__", "")


def owner_of(answer: Any) -> str:
    """Return ``your`` or ``the course's``: whose an answer of ``yours`` is."""
    return "your" if hasattr(answer, "__course_convention__") else "the course's"


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
        function = inspect.unwrap(function)
        parts = [*dict.fromkeys(_parts(function, set()))]
        return "\n".join([*parts, f"{name} = {_bound_by(parts[-1])}", ""])
    except (OSError, TypeError, AttributeError, SyntaxError, LookupError):
        return None


def _parts(function: Any, written: set[str]) -> Iterator[str]:
    """Yield what ``function`` needs of its module and is not ``written`` yet, then itself."""
    source = inspect.cleandoc("\n" + inspect.getsource(function))
    needed = {"triton", *_names(source)} & function.__globals__.keys()
    for name in sorted(needed - written):
        written.add(name)
        value = function.__globals__[name]
        value = inspect.unwrap(getattr(value, "fn", value))  # of a Triton kernel, or a decorator
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            if value is not function:
                yield from _parts(value, written)
        elif definition := _definition(name, value):
            yield definition
    yield source


def _definition(name: str, value: Any) -> str:
    """Return the line that binds ``name`` to a module, something of one or a constant; nothing for
    others."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, torch.dtype):
        return f"from torch import {str(value).removeprefix('torch.')} as {name}"
    if hasattr(value, "__module__") and hasattr(value, "__qualname__"):
        return f"from {value.__module__} import {value.__qualname__} as {name}"
    return f"{name} = {value!r}" if isinstance(value, int | float | str | tuple) else ""


def _names(source: str) -> Iterator[str]:
    """Yield the names that a definition mentions, in its defaults and decorators too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id


def _bound_by(definition: str) -> str:
    """Return the name that ``def`` or, for a lambda, an assignment gives a function; where it has
    none, or shares its line, that is a ``LookupError``."""
    match ast.parse(definition).body:
        case [ast.FunctionDef(name=name)]:
            return name
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda())]:
            return name
    raise LookupError(f"no name for {definition!r}")
