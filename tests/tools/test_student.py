"""Copies for students, without solutions."""

import ast
import re
from contextlib import suppress
from zipfile import ZipFile

import pytest

from chapters import check
from chapters.c21_find_the_bug import bugs
from tools.notebooks import (
    find_exercises,
    find_notebooks,
    is_code,
    parse_code,
    read_notebook,
)
from tools.student import make_student_copy, without_solution, write_class_archive


def test_a_solution_that_no_check_knows_names_its_stand_in():
    source = (
        "@torch.no_grad()\ndef halve_solution(x):\n    return x / 2\n\n\n"
        "def answer_solution(): ...\n"
    )
    source += "halve = halve_solution"
    with pytest.raises(ValueError, match="no check says what is right for 'answer'"):
        without_solution(source)
    lines = without_solution(source, {"halve": "operator:neg", "answer": "math:pi"}).splitlines()
    assert lines[0] == "from operator import neg as halve_solution"
    assert lines[3:] == ["from math import pi as answer_solution", "halve = halve_solution"]
    for missing in ("math:tau2", "no_such_module:pi"):
        with pytest.raises(ValueError, match=f"got '{missing}'"):
            without_solution(source, {"halve": "operator:neg", "answer": missing})


def test_the_copy_of_find_the_bug_names_no_bug(tmp_path):
    copy = read_notebook(make_student_copy(find_notebooks(["21"])[0], tmp_path))
    text = "\n".join(cell.source for cell in copy.cells)
    for bug in bugs.BUGS.values():
        for told in (bug.wrong, bug.seen, *(edit for pair in bug.mend.items() for edit in pair)):
            assert told not in text
        named = rf"[a-z] \({bug.letter}\)|[Pp]iece {bug.letter}'s|\b{bug.letter} needs"
        assert not re.search(named, text), bug.letter


@pytest.mark.parametrize("number", ["00", "01", "05", "21"])
def test_a_copy_speaks_of_no_solution_that_it_does_not_have(number, tmp_path):
    copy = read_notebook(make_student_copy(find_notebooks([number])[0], tmp_path))
    text = "\n".join(cell.source for cell in copy.cells if not is_code(cell))
    assert not re.search(r"solution[^.]*\bfold|fold[^.]*\bsolution|unfold", text)


def functions_before(stub, cells):
    """The functions that a copy shows before the exercise, run with imports and plain names."""
    names = {"__name__": "a_copy"}
    shown = []
    for node in (node for cell in cells[:stub] if is_code(cell) for node in statements(cell)):
        with suppress(Exception):  # what needs more than a function does is not run
            exec(compile(ast.Module([node], []), "a copy", "exec"), names)
            shown += [node.name] if isinstance(node, ast.FunctionDef) else []
    return {name: names[name] for name in shown}


def statements(cell):
    tree = parse_code(cell.source)
    return [node for node in (tree.body if tree else []) if is_light(node)]


def is_light(node):
    if isinstance(node, ast.Assign):
        return not any(isinstance(part, ast.Call) for part in ast.walk(node))
    if "@with_smollm2(" in ast.unparse(node):  # runs at once and leaves its result
        return False
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)


@pytest.mark.slow
@pytest.mark.parametrize("path", find_notebooks(), ids=lambda path: path.stem[:2])
def test_no_function_that_a_copy_shows_before_an_exercise_passes_its_check(path, tmp_path):
    assert not given_away(read_notebook(make_student_copy(path, tmp_path)))


def given_away(copy):
    """The functions that pass more than half of an exercise's probes and are shown before it, with
    the exercise."""
    exercises = list(find_exercises(copy))
    stubs = {name for exercise in exercises for name in exercise.names}
    answers = []
    for exercise in exercises:
        if exercise.names[0] not in check:
            continue
        its_check = check[exercise.names[0]]
        for name, function in functions_before(exercise.stub, copy.cells).items():
            if name in stubs:
                continue
            report = its_check(function, record=False)
            right = sum(probe.passed for probe in report.probes)
            if report.passed or right > len(its_check.probes) / 2:
                answers.append((name, its_check.name))
    return answers


def test_the_archive_for_a_class_holds_the_copies_and_no_notebook_with_its_solutions(tmp_path):
    two = find_notebooks(["00", "02"])
    with ZipFile(write_class_archive(tmp_path / "class.zip", two)) as archive:
        names = set(archive.namelist())
        copies = {name for name in names if name.startswith("class/notebooks/")}
        assert copies == {f"class/notebooks/{path.name}" for path in two}
        assert (
            "def layer_norm_solution" not in archive.read(f"class/notebooks/{two[1].name}").decode()
        )
    assert {"class/README.md", "class/Makefile", "class/chapters/__init__.py"} <= names
    left_out = ("class/tests/", "class/.github/", "class/tools/handbook")  # it holds answers
    assert not any(name.startswith(left_out) for name in names)
