"""What an instructor gets: the handbook of all chapters, and copies for students from which nothing
can be read off."""

import ast
import re

import nbformat
import pytest
from markdown_it import MarkdownIt

from chapters import check
from chapters.contents import CHAPTERS, NOTEBOOKS, chapter_of
from tools.handbook import common, handbook, objectives, time_needed
from tools.notebooks import (
    SOLUTION_SUFFIX,
    execute,
    find_exercises,
    has_tag,
    is_code,
    read_notebook,
)
from tools.student import ANSWER, make_student_copy

WRITTEN = [chapter for chapter in CHAPTERS if chapter.is_written]
CHECKS = check.values()
COURSE = [chapter for chapter in WRITTEN if chapter.exercises]


def test_the_handbook_has_every_chapter_exercise_and_mistake_once():
    text = handbook()
    assert not re.search("<!--|{%|{{ ", text)  # a place that nothing was written to
    tokens = MarkdownIt().parse(text)
    headings = {
        level: [
            tokens[i + 1].content
            for i, token in enumerate(tokens)
            if token.tag == level and token.nesting == 1
        ]
        for level in ("h1", "h2", "h3")
    }
    exercises = [name for chapter in WRITTEN for name in chapter.exercises]
    assert headings["h2"][-len(WRITTEN) :] == [
        f"{chapter.number} · {chapter.title}" for chapter in WRITTEN
    ]
    assert [heading.strip("`").split("(")[0] for heading in headings["h3"]] == exercises
    mistakes = [mistake for name in exercises for mistake in common(getattr(check, name))]
    examples = [
        token.content
        for token in tokens
        if token.type == "fence" and token.info in ("python", "diff")
    ]
    assert examples[-len(mistakes) :] == [mistake.diff() + "\n" for mistake in mistakes]


def test_a_chapters_page_says_what_its_first_cell_says():
    page = handbook().partition("## 02 ·")[2].partition("## 03 ·")[0]
    assert "**Time:** Forty minutes to work through, ten seconds to run." in page
    assert "**Prerequisites:** 01 Why normalize" in page
    assert "- **write** it in ten lines that agree with PyTorch in every dtype" in page


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.number)
def test_every_chapter_says_how_long_it_takes_and_what_for(chapter):
    first_cell = read_notebook(NOTEBOOKS / chapter.file).cells[0].source
    assert " to run" in time_needed(first_cell)
    assert len(objectives(first_cell)) >= 3


@pytest.mark.parametrize("its_check", CHECKS, ids=lambda its_check: its_check.name)
def test_no_two_ways_to_make_a_mistake_are_shown_alike(its_check):
    for mistake in its_check.catalogue.values():
        shown = [mistake.diff(form) for form in range(len(mistake.edits) + len(mistake.written))]
        assert len(set(shown)) == len(shown), mistake.key


def functions_in(cell):
    return {
        node.name for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda chapter: chapter.number)
def test_a_students_copy_of_a_chapter_holds_the_stubs_and_no_solution(chapter, tmp_path):
    master = read_notebook(NOTEBOOKS / chapter.file)
    master.cells = [cell for cell in master.cells if not has_tag(cell, "spoiler")]
    path = make_student_copy(NOTEBOOKS / chapter.file, tmp_path)
    copy = read_notebook(path)
    assert [cell.id for cell in copy.cells] == [cell.id for cell in master.cells]
    assert not any(cell.get("outputs") for cell in copy.cells)
    solutions = {exercise.solution: exercise for exercise in find_exercises(master)}
    for index, cell in enumerate(copy.cells):
        source = cell.source.replace(", hints=2)", ")")
        assert index in solutions or ANSWER.sub("", master.cells[index].source).rstrip() == source
    for index, exercise in solutions.items():
        given = functions_in(master.cells[index])
        assert {f"{name}{SOLUTION_SUFFIX}" for name in exercise.names} <= given
        assert not functions_in(copy.cells[index])
        assert not any(f"def {name}(" in path.read_text() for name in given)
        for name in exercise.names:
            stand_ins = (
                f"{name}{SOLUTION_SUFFIX} = check.{name}.oracle",
                f" as {name}{SOLUTION_SUFFIX}",
            )
            assert any(stand_in in copy.cells[index].source for stand_in in stand_ins)


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda chapter: chapter.number)
def test_no_answer_is_left_anywhere_in_a_students_copy(chapter, tmp_path):
    text = make_student_copy(NOTEBOOKS / chapter.file, tmp_path).read_text()
    for word in (
        "bugs.reveal",
        "<summary>answer",
        "key line",
        "<summary>an answer",
        '"stand_in"',
        '"image/',
    ):
        assert word not in text.lower().replace("bugs.show", ""), word
    copy, master = nbformat.reads(text, 4), read_notebook(NOTEBOOKS / chapter.file)
    assert all(
        ", hints=2)" in cell.source for cell in copy.cells if cell.source.startswith("bugs.show(")
    )
    said = [squeezed(cell.source) for cell in copy.cells]
    for exercise in find_exercises(master):
        lines = {squeezed(line) for line in steps_of(master.cells[exercise.solution].source)}
        assert max(sum(line in cell for line in lines) for cell in said) <= 1, exercise.names
        assert not [
            line
            for cell in copy.cells
            if not is_code(cell)
            for line in lines
            if line in squeezed(cell.source)
        ]


def squeezed(text):
    return re.sub(r"\s", "", text)


def steps_of(source):
    """Return the values that a solution computes or returns, where they are long enough to be told
    from others."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    steps = [
        node
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.Return)
    ]
    values = [ast.unparse(step.value) for step in steps if step.value is not None]
    return [value for value in values if len(squeezed(value)) >= 30]


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.number)
def test_a_students_copy_is_an_assignment_for_nbgrader(chapter, tmp_path, monkeypatch):
    copy = read_notebook(make_student_copy(NOTEBOOKS / chapter.file, tmp_path))
    roles = [cell.metadata.nbgrader for cell in copy.cells if "nbgrader" in cell.metadata]
    expected = [
        part for name in chapter.exercises for part in ((name, False), (f"{name}-test", True))
    ]
    assert [(role.grade_id, role.grade) for role in roles] == expected
    assert all(
        role.locked is role.grade is (not role.solution) and role.schema_version == 3
        for role in roles
    )
    name = next((name for name in chapter.exercises if name in PLAIN), None)
    if name is None:
        return
    roles = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in copy.cells
        if "nbgrader" in cell.metadata
    }
    lines = roles[f"{name}-test"].splitlines()
    graded = "\n".join([*lines[:3], *lines[-2:]])
    wrong = {"check": check, name: lambda *_: None}
    exec(graded, wrong)  # in a learner's hands, nothing stops
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError):
        exec(graded, wrong)
    exec(graded, {"check": check, name: getattr(check, name).oracle})


# the checks of kernels need an interpreter that is set before Triton is imported: c11's tests have
# a process for it
PLAIN = [
    name
    for chapter in COURSE
    for name in chapter.exercises
    if not getattr(check, name).exercise.interpreter
]


@pytest.mark.parametrize("name", PLAIN)
def test_what_stands_in_for_a_solution_passes_the_check(name, tmp_path):
    chapter = next(chapter for chapter in COURSE if name in chapter.exercises)
    copy = read_notebook(make_student_copy(NOTEBOOKS / chapter.file, tmp_path))
    solution = next(
        exercise.solution for exercise in find_exercises(copy) if name in exercise.names
    )
    names = {"check": check}
    for node in ast.parse(copy.cells[solution].source).body:
        if isinstance(node, ast.ImportFrom) or ast.unparse(node).endswith(".oracle"):
            exec(ast.unparse(node), names)
    assert getattr(check, name)(names[f"{name}{SOLUTION_SUFFIX}"], record=False)


@pytest.mark.slow
def test_a_students_copy_runs_from_top_to_bottom(tmp_path):
    copy = make_student_copy(NOTEBOOKS / chapter_of("00").file, tmp_path)
    assert execute(copy)
    assert all(cell.execution_count for cell in read_notebook(copy).cells if is_code(cell))
