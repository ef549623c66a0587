"""Where a notebook's exercises are: the stub that the learner fills in, its check, and its folded solution.

The convention, which the lint holds every chapter to:

* the stub is tagged ``exercise``: functions whose body is a docstring and ``...``, or ``answer = ...``;
* the check follows: a cell that calls ``check.NAME(stub)``;
* the solution is tagged ``solution`` and folded (``{"jupyter": {"source_hidden": true}}``): it defines
  ``STUB_solution`` for every stub, and goes on with ``check.NAME.choose(stub, STUB_solution)``.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import nbformat

__all__ = [
    "SOLUTION_SUFFIX",
    "Exercise",
    "check_names",
    "defined_names",
    "find_exercises",
    "has_tag",
    "is_code",
    "parse_code",
    "stub_names",
]

SOLUTION_SUFFIX = "_solution"


@dataclass(frozen=True)
class Exercise:
    """The positions of an exercise's cells, counted from 0; ``check`` and ``solution`` are None where missing."""

    names: tuple[str, ...]
    stub: int
    check: int | None
    solution: int | None


def is_code(cell: nbformat.NotebookNode) -> bool:
    """Return whether ``cell`` holds code."""
    return cell.cell_type == "code"


def has_tag(cell: nbformat.NotebookNode, tag: str) -> bool:
    """Return whether ``cell`` carries ``tag``."""
    return tag in cell.metadata.get("tags", ())


def parse_code(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell, or None where it is not plain Python (a magic, a half-written line)."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def stub_names(source: str) -> tuple[str, ...]:
    """Return what a cell leaves to write: functions and classes with ``...`` for a body, and ``answer = ...``."""
    tree = parse_code(source)
    return tuple(name for node in (tree.body if tree else ()) if _is_open(node) for name in _names_bound_by(node))


def defined_names(source: str) -> tuple[str, ...]:
    """Return the functions, classes and variables that a cell defines at its top level."""
    tree = parse_code(source)
    return tuple(name for node in (tree.body if tree else ()) for name in _names_bound_by(node))


def _names_bound_by(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.Assign):
        return tuple(target.id for target in node.targets if isinstance(target, ast.Name))
    return ()


def _is_open(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return _is_ellipsis(node.value)
    if isinstance(node, ast.ClassDef):  # a class is left to write when one of its methods is
        return any(isinstance(part, ast.FunctionDef) and _is_open(part) for part in node.body)
    if not isinstance(node, ast.FunctionDef):
        return False
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return len(body) == 1 and isinstance(body[0], ast.Expr) and _is_ellipsis(body[0].value)


def _is_ellipsis(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is ...


def find_exercises(notebook: nbformat.NotebookNode) -> Iterator[Exercise]:
    """Yield the exercises of ``notebook`` in order; each ends where the next one begins."""
    stubs = [index for index, cell in enumerate(notebook.cells) if has_tag(cell, "exercise")]
    for stub, end in pairwise([*stubs, len(notebook.cells)]):
        later = [(index, notebook.cells[index]) for index in range(stub + 1, end) if is_code(notebook.cells[index])]
        solution = next((index for index, cell in later if has_tag(cell, "solution")), None)
        check = next((index for index, cell in later if index != solution and check_names(cell.source)), None)
        names = stub_names(notebook.cells[stub].source) or defined_names(notebook.cells[stub].source)
        yield Exercise(names, stub, check, solution)


def check_names(source: str) -> tuple[str, ...]:
    """Return the checks that a cell uses, each once: ``layer_norm`` for ``check.layer_norm(…)``."""
    tree = parse_code(source)
    names = (
        node.attr
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "check"
    )
    return tuple(dict.fromkeys(names))
