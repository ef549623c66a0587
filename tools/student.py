"""A copy of a notebook without its answers, for a class: stubs stay, and it still runs from top to
bottom.

Outputs, folded answers, key lines and the cells tagged "spoiler" are left out, and so is the text
of a solution. In its place stands what the exercise's check compares with, so that the rest of the
notebook works for those who have not solved it yet:
``layer_norm_solution = check.layer_norm.oracle``. An exercise without a check of its own says in
its solution's metadata what stands in: ``"stand_in": {"answer": "math:pi"}``.

The copy is an assignment for nbgrader: a stub is the cell to solve, and the cell where its solution
stood is the test.
"""

import ast
import re
import subprocess
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from tools.notebooks import (
    SOLUTION_SUFFIX,
    clear_outputs,
    defined_names,
    find_exercises,
    has_tag,
    parse_code,
    read_notebook,
    write_notebook,
)

__all__ = ["make_student_copy", "without_answers", "without_solution", "write_class_archive"]

_ANSWER = re.compile(
    r"<details><summary>[^<]*(?:answer|key line|the line)[^<]*</summary>.*?</details>\n*",
    re.I | re.S,
)
# what a text says of folds that a copy does not have
_OF_FOLDS = re.compile(
    r" ?(The solution is folded|What is folded below)[^.]*\.| before you unfold (it|the answer)\b"
)
NOT_FOR_A_CLASS = ("notebooks/", "tests/", ".github/", "tools/site/", "tools/handbook")
SPOILER = "spoiler"  # a cell that gives away what an exercise before it asks for
_TEST = """\
from os import environ

{0}_report = check.{0}({0}, record=False)
{1}
if "NBGRADER_EXECUTION" in environ:
    {0}_report.require()"""


def make_student_copy(path: Path, folder: Path) -> Path:
    """Write the notebook at ``path`` without answers and outputs into ``folder``; return where."""
    notebook = read_notebook(path)
    notebook.cells = [cell for cell in notebook.cells if not has_tag(cell, SPOILER)]
    clear_outputs(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = without_answers(cell.source)
        else:
            # the third is the key
            cell.source = re.sub(r'^(bugs\.show\("\w")\)$', r"\1, hints=2)", cell.source)
    for exercise in find_exercises(notebook):
        name, stub = exercise.names[0], notebook.cells[exercise.stub]
        stub.metadata.nbgrader = _cell(name, solution=True, grade=False, locked=False)
        if exercise.solution is not None:
            cell = notebook.cells[exercise.solution]
            cell.source = _TEST.format(
                name, without_solution(cell.source, cell.metadata.pop("stand_in", {}))
            )
            cell.metadata.nbgrader = _cell(
                f"{name}-test", solution=False, grade=True, locked=True, points=1
            )
    write_notebook(notebook, folder / path.name)
    return folder / path.name


def without_answers(text: str) -> str:
    """Return a Markdown cell's ``text`` without folded answers, and without what it says of folds
    that a copy does not have."""
    return _OF_FOLDS.sub("", _ANSWER.sub("", text)).rstrip()


def write_class_archive(archive: Path, notebooks: Sequence[Path]) -> Path:
    """Write what a class gets, as a zip: the course with its students' copies in the place of
    ``notebooks``, without tests and without what makes a site; return where."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    with (
        TemporaryDirectory() as folder,
        ZipFile(archive, "w", ZIP_DEFLATED) as written,
    ):
        for file in files:
            if not file.startswith(NOT_FOR_A_CLASS) and Path(file).exists():
                written.write(file, f"{archive.stem}/{file}")
        for path in notebooks:
            copy = make_student_copy(path, Path(folder))
            written.write(copy, f"{archive.stem}/notebooks/{path.name}")
    return archive


def _cell(grade_id: str, **roles: bool | int) -> dict[str, bool | int | str]:
    return {"schema_version": 3, "grade_id": grade_id, "cell_type": "code", "task": False, **roles}


def without_solution(source: str, stand_ins: dict[str, str] | None = None) -> str:
    """Return a solution cell's ``source`` with every definition of a ``…_solution`` replaced by its
    stand-in.

    ``stand_ins`` gives for a name without the suffix the "module:attribute" that does the same; a
    solution for which there is none, nor a check that chooses it, is a ``ValueError``.
    """
    tree = parse_code(source)
    if tree is None:
        raise ValueError(f"a solution cell must be plain Python: got {source.splitlines()[:1]}")
    lines = source.splitlines()
    for node in reversed(tree.body):  # from the bottom, so that the line numbers above stay right
        solutions = [
            name for name in defined_names(ast.unparse(node)) if name.endswith(SOLUTION_SUFFIX)
        ]
        if solutions or ast.unparse(node).startswith("bugs.reveal("):
            first = min(
                [
                    node.lineno,
                    *(decorator.lineno for decorator in getattr(node, "decorator_list", ())),
                ]
            )
            lines[first - 1 : node.end_lineno] = [
                _stand_in(name, source, stand_ins or {}) for name in solutions
            ]
    return "\n".join(lines)


def _stand_in(solution: str, source: str, stand_ins: dict[str, str]) -> str:
    """Return the line that takes the place of the definition of ``solution``."""
    name = solution.removesuffix(SOLUTION_SUFFIX)
    if name in stand_ins:
        module, _, attribute = stand_ins[name].partition(":")
        try:
            getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as missing:
            raise ValueError(
                f"stand_in must name something that exists: got {stand_ins[name]!r}"
            ) from missing
        return f"from {module} import {attribute} as {solution}"
    # yours, or the solution
    chosen = re.search(rf"\bcheck\.(\w+)\.choose\(\s*\w+,\s*{solution}\b", source)
    if chosen and chosen[1] in import_module("chapters").check:
        return f"{solution} = check.{chosen[1]}.oracle"
    raise ValueError(
        "a solution needs a stand-in for the students' copy: no check says what is right for "
        f"{name!r}; go on with "
        f'check.NAME.choose({name}, {solution}), or add "stand_in": {{"{name}": '
        f'"module:attribute"}} to the metadata'
    )
