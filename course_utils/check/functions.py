"""What can be told of a function before it is called: whose it is, whether anything is in it, what
it takes."""

import dis
import functools
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

__all__ = [
    "argument_names", "called_as", "code_of", "is_of_course", "is_of_torch", "is_stub",
    "mark_as_course", "signature_complaint", "signature_of",
]  # fmt: skip


_COURSE = ("course_utils.", "chapters.")


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """Return the code of a function, of what a decorator wraps; None for what is not written in
    Python."""
    try:
        return getattr(inspect.unwrap(function), "__code__", None)
    except ValueError:  # it wraps itself
        return None


def mark_as_course(function: Callable[..., Any]) -> None:
    """Mark a function as the course's own."""
    function.__course_solution__ = True  # type: ignore[attr-defined]


def is_of_course(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of the course's: marked, or out of this package."""
    return hasattr(function, "__course_solution__") or _module(function).startswith(_COURSE)


def is_of_torch(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of torch's."""
    return _module(function).split(".")[0] == "torch"


def _module(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__module__", None) or "")


# What the body of a function that does nothing compiles to: a docstring, `...` and `pass` leave no
# trace.
_NOTHING = {
    "RESUME",
    "NOP",
    "CACHE",
    "PRECALL",
    "PUSH_NULL",
    "LOAD_CONST",
    "RETURN_VALUE",
    "RETURN_CONST",
}
_LOADS = {"LOAD_GLOBAL", "LOAD_COMMON_CONSTANT"}
_NOT_IMPLEMENTED = _NOTHING | _LOADS | {"CALL", "RAISE_VARARGS"}


def is_stub(function: Callable[..., Any]) -> bool:
    """Return whether the body is only a docstring and ``...``, ``pass`` or
    ``raise NotImplementedError``."""
    code = code_of(function)
    if code is None or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return False
    steps = list(dis.get_instructions(code))
    names = {step.opname for step in steps}
    if names <= _NOTHING:
        return [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")] == [
            None
        ]
    loads = [step.argval for step in steps if step.opname in _LOADS]
    is_not_implemented = all(name in ("NotImplementedError", NotImplementedError) for name in loads)
    return names <= _NOT_IMPLEMENTED and "RAISE_VARARGS" in names and is_not_implemented


def signature_of(function: Callable[..., Any]) -> str:
    """Return a signature as it is written: ``(x, eps=1e-5)``."""
    return str(inspect.signature(function)).replace("1e-05", "1e-5")


def argument_names(function: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """Return the names of a function's required and of its optional arguments."""
    parameters = inspect.signature(function).parameters.values()
    required = [
        parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty
    ]
    return required, [parameter.name for parameter in parameters if parameter.name not in required]


def signature_complaint(function: Callable[..., Any], oracle: Callable[..., Any]) -> str:
    """Return why ``function`` cannot be called as ``oracle`` is, or nothing if it can or if that
    cannot be told.

    What is required is passed by position and what is optional by keyword, so only the names of the
    latter matter.
    """
    try:
        signature = inspect.signature(function)
    except (
        Exception
    ):  # a learner's object may answer this with anything; the calls will show what it takes
        return ""
    required, optional = argument_names(oracle)
    try:
        signature.bind(*required)
        signature.bind(*required, **dict.fromkeys(optional))
    except TypeError as error:
        return str(error)
    return ""


def called_as(oracle: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function that takes its arguments as ``oracle`` does, where ``function``,
    which passed, takes them in another way: in another order, under other names, by keyword alone,
    or as a module."""
    contract = inspect.signature(oracle)
    required, _ = argument_names(oracle)
    try:
        if inspect.isfunction(function) and _takes(function) == _takes(oracle):
            return function
    except ValueError:  # not to be told: it is called as its check called it
        pass

    @functools.wraps(function, updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        arguments = contract.bind(*args, **kwargs).arguments
        positional = [arguments.pop(name) for name in required]
        return function(*positional, **arguments)

    return called


def _takes(function: Callable[..., Any]) -> list[tuple[str, bool]]:
    """Return the names of a function's arguments, and whether each may be given by its place."""
    by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind == by_place) for parameter in parameters]
