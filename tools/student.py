"""A copy of a notebook without its solutions, for a class: stubs stay, and it still runs from top to bottom.

The text of a solution is taken out. In its place stands what the exercise's check compares with, so that the rest of
the notebook works for those who have not solved it yet: ``layer_norm_solution = check.layer_norm.oracle``. An exercise
without a check of its own says in its solution's metadata what stands in: ``"stand_in": {"answer": "math:pi"}``.
"""

import ast
from importlib import import_module
from pathlib import Path

from tools.notebooks import SOLUTION_SUFFIX, defined_names, has_tag, is_code, parse_code, read_notebook, write_notebook

__all__ = ["make_student_copy", "without_solution"]


def make_student_copy(path: Path, folder: Path) -> Path:
    """Write the notebook at ``path`` without solutions and outputs into ``folder``; return where."""
    notebook = read_notebook(path)
    for cell in filter(is_code, notebook.cells):
        cell.outputs, cell.execution_count = [], None
        if has_tag(cell, "solution"):
            cell.source = without_solution(cell.source, cell.metadata.pop("stand_in", {}))
    write_notebook(notebook, folder / path.name)
    return folder / path.name


def without_solution(source: str, stand_ins: dict[str, str] | None = None) -> str:
    """Return a solution cell's ``source`` with every definition of a ``…_solution`` replaced by its stand-in.

    ``stand_ins`` gives for a name without the suffix the "module:attribute" that does the same; a solution for which
    there is none, nor a check that chooses it, is a ``ValueError``.
    """
    tree = parse_code(source)
    if tree is None:
        raise ValueError(f"a solution cell must be plain Python: got {source.splitlines()[:1]}")
    lines = source.splitlines()
    for node in reversed(tree.body):  # from the bottom, so that the line numbers above stay right
        solutions = [name for name in defined_names(ast.unparse(node)) if name.endswith(SOLUTION_SUFFIX)]
        if solutions:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
            lines[first - 1 : node.end_lineno] = [_stand_in(name, source, stand_ins or {}) for name in solutions]
    return "\n".join(lines)


def _stand_in(solution: str, source: str, stand_ins: dict[str, str]) -> str:
    """Return the line that takes the place of the definition of ``solution``."""
    name = solution.removesuffix(SOLUTION_SUFFIX)
    if name in stand_ins:
        module, _, attribute = stand_ins[name].partition(":")
        try:
            getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as missing:
            raise ValueError(f"stand_in must name something that exists: got {stand_ins[name]!r}") from missing
        return f"from {module} import {attribute} as {solution}"
    check = _check_that_chooses(solution, source)
    if hasattr(getattr(import_module("course_utils.check"), check, None), "oracle"):
        return f"{solution} = check.{check}.oracle"
    raise ValueError(
        f"a solution needs a stand-in for the students' copy: no check says what is right for {name!r}; go on with "
        f'check.NAME.choose({name}, {solution}), or add "stand_in": {{"{name}": "module:attribute"}} to the metadata'
    )


def _check_that_chooses(solution: str, source: str) -> str:
    """Return NAME where the cell says ``check.NAME.choose(yours, solution)``, else nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and any(isinstance(arg, ast.Name) and arg.id == solution for arg in node.args):
            parts = ast.unparse(node.func).split(".")
            if len(parts) == 3 and parts[0] == "check" and parts[2] == "choose":
                return parts[1]
    return ""
