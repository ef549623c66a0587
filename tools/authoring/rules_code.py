"""Lint rules about the code in a notebook: what a cell may do, and how an exercise is built."""

import ast
import re
from collections.abc import Iterator

from tools.authoring.exercises import SOLUTION_SUFFIX, defined_names, has_tag, parse_code, stub_names
from tools.authoring.page import Finding, Page, Rule
from tools.authoring.student import without_solution

__all__ = ["CODE_RULES", "LONGEST_CELL"]

LONGEST_CELL = 40
_MAGIC = re.compile(r"^\s*(?:!|%)", re.MULTILINE)
_REDRAWS_OUTPUT = {"interact", "interactive", "interact_manual", "interactive_output"}


def plain_python(page: Page) -> Iterator[Finding]:
    """No magics and no shell: an install or a shell line would not run for everyone, and no tool can read it."""
    for index, cell in page.code_cells():
        if parse_code(cell.source) is not None:
            continue
        if _MAGIC.search(cell.source):
            message = "a line starts with % or !: use Python, and leave installing to `make lab`"
        else:
            message = "not valid Python: mend the syntax; to show a mistake, put the code in a string"
        yield page.finding(index, "plain-python", message)


def short_cells(page: Page) -> Iterator[Finding]:
    """No cell over forty lines."""
    for index, cell in page.code_cells():
        lines = len(cell.source.splitlines())
        if lines > LONGEST_CELL:
            message = f"{lines} lines, {LONGEST_CELL} at most: split it, or move it into course_utils with a good name"
            yield page.finding(index, "long-cell", message)


def first_cell_sets_up(page: Page) -> Iterator[Finding]:
    """The first code cell calls ``course_utils.setup()``."""
    index, cell = next(page.code_cells(), (None, None))
    calls = [] if cell is None else [ast.unparse(node.func) for node in _nodes(cell.source, ast.Call)]
    if "course_utils.setup" not in calls:
        yield page.finding(index, "set-up", "the first code cell must call course_utils.setup()")


def no_search_path(page: Page) -> Iterator[Finding]:
    """No change of ``sys.path``."""
    for index, cell in page.code_cells():
        if any(ast.unparse(node) == "sys.path" for node in _nodes(cell.source, ast.Attribute)):
            yield page.finding(index, "sys-path", "leave sys.path alone: the package is installed, import it")


def value_widgets(page: Page) -> Iterator[Finding]:
    """No ``interact``, ``interactive`` or ``Output``: they hang execution and redraw slowest."""
    for index, cell in page.code_cells():
        names = {
            alias.name for node in _nodes(cell.source, ast.ImportFrom) if _from_ipywidgets(node) for alias in node.names
        }
        names |= {node.attr for node in _nodes(cell.source, ast.Attribute) if node.attr in _REDRAWS_OUTPUT}
        names |= {
            node.attr
            for node in _nodes(cell.source, ast.Attribute)
            if node.attr == "Output" and ast.unparse(node.value) in ("widgets", "ipywidgets", "W")
        }
        for name in sorted(names & (_REDRAWS_OUTPUT | {"Output"})):
            yield page.finding(
                index, "value-widget", f"{name} redraws an output area: use a widget of course_utils.widgets"
            )


def known_tags(page: Page) -> Iterator[Finding]:
    """No tag that keeps a cell from being run."""
    for index, cell in page.code_cells():
        for tag in ("nbval-skip", "skip-execution"):
            if has_tag(cell, tag):
                yield page.finding(
                    index, "skipped", f"a cell tagged {tag} is never proved: remove the tag, or the cell"
                )


def exercises_are_whole(page: Page) -> Iterator[Finding]:
    """A stub is empty and tagged; a check and a solution follow it."""
    solved = {exercise.solution for exercise in page.exercises}
    for exercise in page.exercises:
        names = ", ".join(exercise.names) or "?"
        if not stub_names(page.cells[exercise.stub].source):
            message = f"{names} is filled in: leave a docstring and `...` for the learner"
            yield page.finding(exercise.stub, "stub", message)
        if exercise.check is None:
            message = f"no check follows {names}: add a cell with check.NAME({names})"
            yield page.finding(exercise.stub, "exercise", message)
        if exercise.solution is None:
            message = (
                f"no solution follows {names}: add a folded cell tagged solution that defines {names}{SOLUTION_SUFFIX}"
            )
            yield page.finding(exercise.stub, "exercise", message)
    for index, cell in page.code_cells():
        if stub_names(cell.source) and not has_tag(cell, "exercise"):
            yield page.finding(index, "exercise", "a stub that is not tagged: add the tag exercise")
        if has_tag(cell, "solution") and index not in solved:
            yield page.finding(index, "solution", "no exercise before it: tag the stub with exercise")


def solutions_are_folded(page: Page) -> Iterator[Finding]:
    """A solution is tagged and collapsed, defines what its stub leaves open, and can be taken out for students."""
    for index, cell in page.code_cells():
        is_tagged, defined = has_tag(cell, "solution"), defined_names(cell.source)
        if not is_tagged and any(name.endswith(SOLUTION_SUFFIX) for name in defined):
            yield page.finding(
                index, "solution", "defines a solution in plain sight: add the tag solution, and fold it"
            )
        if not is_tagged:
            continue
        if not cell.metadata.get("jupyter", {}).get("source_hidden"):
            message = 'not folded: add {"jupyter": {"source_hidden": true}} to its metadata'
            yield page.finding(index, "solution", message)
        stub = next((exercise for exercise in page.exercises if exercise.solution == index), None)
        for name in stub.names if stub else ():
            if name + SOLUTION_SUFFIX not in defined:
                yield page.finding(index, "solution", f"must define {name}{SOLUTION_SUFFIX}, for the stub {name}")
        try:
            without_solution(cell.source, cell.metadata.get("stand_in"))
        except ValueError as error:
            yield page.finding(index, "stand-in", str(error))


def _nodes(source: str, kind: type) -> list:
    tree = parse_code(source)
    return [node for node in ast.walk(tree) if isinstance(node, kind)] if tree else []


def _from_ipywidgets(node: ast.ImportFrom) -> bool:
    return (node.module or "").split(".")[0] == "ipywidgets"


CODE_RULES: tuple[Rule, ...] = (
    plain_python,
    short_cells,
    first_cell_sets_up,
    no_search_path,
    value_widgets,
    known_tags,
    exercises_are_whole,
    solutions_are_folded,
)
