"""Your passed answers, in every chapter: ``from course_utils import yours``, then ``yours.rms_norm`` (chapter 16).

What passes a check is kept as source, with the imports, constants and functions of your notebook that it uses. When it
is asked for it is checked again; what is missing, or passes no more, is the course's, and a line says which it is.
"""

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from course_utils.book import progress


def __getattr__(name: str) -> Any:
    from course_utils import check

    if name.startswith("_") or not isinstance(its_check := getattr(check, name, None), check.Check):
        raise AttributeError(f"there is no exercise {name!r}; course_utils.check names them all")
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
    return next(iter(its_check.catalogue.values())).reference


def source_of(name: str, function: Callable[..., Any]) -> str | None:
    """Return a program that defines ``function`` as ``name``, or None where its source is not to be had."""
    try:
        return "\n".join([*dict.fromkeys(_parts(function, set())), f"{name} = {function.__name__}", ""])
    except (OSError, TypeError, AttributeError):
        return None


def _parts(function: Any, seen: set[str]) -> Iterator[str]:
    """Yield what ``function`` needs from its module, then itself."""
    for name in sorted({"triton", *_names(function.__code__)} & function.__globals__.keys() - seen):
        seen.add(name)
        value = function.__globals__[name]
        value = getattr(value, "fn", value)  # of a Triton kernel
        if isinstance(value, ModuleType):
            yield f"import {value.__name__} as {name}"
        elif isinstance(value, FunctionType) and value.__module__ == function.__module__:
            if value is not function:
                yield from _parts(value, seen)
        elif hasattr(value, "__module__") and hasattr(value, "__qualname__"):
            yield f"from {value.__module__} import {value.__qualname__} as {name}"
        elif isinstance(value, int | float | str | tuple):
            yield f"{name} = {value!r}"
    yield inspect.cleandoc("\n" + inspect.getsource(function))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
