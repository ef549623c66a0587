"""The code of a catalogue's example, to be read: a whole function, or the right one with the steps that are replaced.

Most examples come from a recipe, a function such as ``layer_norm_with(spread=…)`` that returns a right layer norm with
some of its steps exchanged. Called without arguments it returns the right one, and what differs is the mistake.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard

__all__ = ["example_code"]


def example_code(example: Callable[..., Any]) -> str:
    """Return Python that shows what ``example`` does differently from a right answer.

    First come the steps that are replaced, one a line, then the functions that they name.

    Args:
        example: a function of the catalogue: written out, a lambda, or made by a recipe.

    Raises:
        ValueError: the source of a function is not at hand.
    """
    steps: list[str] = []
    definitions: list[str] = []
    _collect("", example, steps, definitions)
    return "\n\n".join(["\n".join(steps)] * bool(steps) + list(dict.fromkeys(definitions)))


def _collect(name: str, value: Any, steps: list[str], definitions: list[str]) -> None:
    """Add to ``steps`` what the step ``name`` is replaced by, and to ``definitions`` the functions behind it."""
    if isinstance(value, partial):
        arguments = [repr(argument) for argument in value.args] + [f"{k}={v!r}" for k, v in value.keywords.items()]
        steps.append(f"{name or 'function'} = partial({', '.join((value.func.__name__, *arguments))})")
        _collect(value.func.__name__, value.func, steps, definitions)
        return
    if not isinstance(value, FunctionType | type) or value.__module__ == "builtins":
        steps.append(f"{name} = {getattr(value, '__name__', None) or repr(value)}")
        return
    if isinstance(value, type):
        definitions.append(textwrap.dedent(inspect.getsource(value)).strip())
        steps.append(f"{name} = {value.__name__}")
        return
    right = _right(value)
    if right is None:
        code = _source(value)
        if name and code.startswith("lambda"):
            steps.append(f"{name} = {code}")
        else:
            definitions.append(code)
            steps += [f"{name} = {value.__name__}"] * (name not in ("", value.__name__))
    for part, replacement in _parts(value).items() if right is None else _replaced(value, right):
        if not _is_right(replacement):
            _collect(part, replacement, steps, definitions)


def _right(function: FunctionType) -> FunctionType | None:
    """Return what the recipe of ``function`` gives when nothing is replaced; None where there is no such recipe."""
    recipe = getattr(sys.modules.get(function.__module__), function.__qualname__.split(".")[0], None)
    if recipe is None or "<locals>" not in function.__qualname__:
        return None
    steps = inspect.signature(recipe).parameters.values()
    if not steps or any(step.default is step.empty and step.kind is not step.VAR_KEYWORD for step in steps):
        return None
    right = recipe()
    return right if isinstance(right, FunctionType) and right.__code__ is function.__code__ else None


def _is_right(value: Any) -> bool:
    """Return whether ``value`` is what a recipe gives when nothing is replaced."""
    right = _right(value) if isinstance(value, FunctionType) and value.__closure__ else None
    return right is not None and _same(value, right)


def _parts(function: FunctionType) -> dict[str, Any]:
    """Return what ``function`` has from the function around it, the entries of dictionaries one by one."""
    parts: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = cell.cell_contents
        parts |= value if isinstance(value, dict) else {name: value}
    return parts


def _replaced(function: FunctionType, right: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the innermost parts in which two functions with the same code differ."""
    theirs = _parts(right)
    for name, value in _parts(function).items():
        other = theirs.get(name)
        if _same(value, other):
            continue
        if isinstance(value, FunctionType) and isinstance(other, FunctionType) and value.__code__ is other.__code__:
            yield from _replaced(value, other)
        else:
            yield name, value


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType):
        return bool(one == other)
    mine, theirs = _parts(one), _parts(other)
    return (
        one.__code__ is other.__code__
        and one.__defaults__ == other.__defaults__
        and mine.keys() == theirs.keys()
        and all(_same(mine[name], theirs[name]) for name in mine)
    )


def _source(value: FunctionType) -> str:
    """Return the text of a definition, decorators left out, or of a lambda."""
    text, tree = _file(value.__code__.co_filename)
    for node in ast.walk(tree):
        if _is_definition(node, value):
            code = textwrap.dedent(ast.get_source_segment(text, node, padded=True) or "").strip()
            return "\n".join((code, *_defaults(node, value)))
    raise ValueError(f"example must be a function with its source at hand: got {value!r}")


def _defaults(node: ast.FunctionDef | ast.Lambda, function: FunctionType) -> Iterator[str]:
    """Yield a comment for each default that is written as a name: ``own=own`` does not say which."""
    positional = zip(node.args.defaults, function.__defaults__ or (), strict=True)
    keyword = zip(node.args.kw_defaults, (function.__kwdefaults__ or {}).values(), strict=True)
    yield from (
        f"# {default.id} is {value!r}" for default, value in (*positional, *keyword) if isinstance(default, ast.Name)
    )


@cache
def _file(path: str) -> tuple[str, ast.Module]:
    text = Path(path).read_text(encoding="utf-8")
    return text, ast.parse(text)


def _is_definition(node: ast.AST, function: FunctionType) -> TypeGuard[ast.FunctionDef | ast.Lambda]:
    if isinstance(node, ast.Lambda) and function.__name__ == "<lambda>":
        body = node.body
        positions = [p for p in function.__code__.co_positions() if p[0] is not None and p[2] is not None and p[3]]
        inside = [(p[0], p[2]) for p in positions if (p[0], p[2]) != (function.__code__.co_firstlineno, 0)]
        return bool(inside) and (body.lineno, body.col_offset) == min(inside)
    if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return first == function.__code__.co_firstlineno
    return False
