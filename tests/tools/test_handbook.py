"""What an instructor gets: the handbook of all chapters, and copies for students from which nothing
can be read off."""

import ast
import math
import re

import nbformat
import pytest
import torch
import torch.nn.functional as F
from markdown_it import MarkdownIt
from nbformat.v4 import new_markdown_cell, new_notebook

from chapters import check
from chapters.contents import CHAPTERS, NOTEBOOKS
from course_utils.rope import rope_inv_freq
from tools.handbook import (
    PLAN,
    common,
    guesses,
    handbook,
    mistakes,
)
from tools.lint import Page
from tools.notebooks import (
    SOLUTION_SUFFIX,
    find_exercises,
    has_tag,
    is_code,
    read_notebook,
)
from tools.student import make_student_copy, without_answers

WRITTEN = [chapter for chapter in CHAPTERS if chapter.is_written]
COURSE = [chapter for chapter in WRITTEN if chapter.exercises]


@pytest.fixture(scope="module")
def text():
    return handbook()


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """A student's copy of each chapter, by its number."""
    folder = tmp_path_factory.mktemp("student")
    return {
        chapter.number: make_student_copy(NOTEBOOKS / chapter.file, folder) for chapter in WRITTEN
    }


def headings_of(text, level):
    tokens = MarkdownIt().parse(text)
    return [tokens[i + 1].content for i, token in enumerate(tokens) if token.markup == level]


def test_the_handbook_has_every_chapter_and_the_other_file_every_mistake_once(text):
    known = mistakes()
    assert not re.search("<!--|{%|{{ ", text + known)  # a place that nothing was written to
    chapters = [f"{chapter.number} · {chapter.title}" for chapter in WRITTEN]
    assert headings_of(text, "##")[-2 * len(WRITTEN) :: 2] == chapters
    exercises = [name for chapter in WRITTEN for name in chapter.exercises]
    headings = headings_of(known, "###")[::2]
    assert [heading.strip("`").split("(")[0] for heading in headings] == exercises
    every = [mistake for name in exercises for mistake in common(getattr(check, name))]
    fences = [token for token in MarkdownIt().parse(known) if token.type == "fence"]
    examples = [token.content for token in fences if token.info in ("python", "diff")]
    assert examples == [mistake.diff() + "\n" for mistake in every]
    assert not any(mistake.diff() in text for mistake in every)


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda chapter: chapter.number)
def test_every_question_has_an_answer_and_a_place_in_the_notebook_that_shows_it(chapter, text):
    places = {heading.text for heading in Page.read(NOTEBOOKS / chapter.file).headings}
    questions = PLAN["questions"][chapter.name]
    assert len(questions) >= 1
    page = text.partition(f"## {chapter.number} ·")[2].partition("\n## ")[0]
    for question in questions:
        assert question["see"] in places
        assert len(question["answer"]) > 80
        assert question["answer"] in page.partition(f"- {question['ask']}\n")[2]


def test_a_sheet_to_print_has_the_questions_that_come_before_a_cell(text):
    page = text.partition("## 18 ·")[2].partition("## 20 ·")[0]
    assert "| in how many of the 32 layers do the keys at positions 0 and 1 differ? | | |\n" in page
    source = "A loss of 2.3 nats. One line. **And then?**\n\nSee $|x|$. **" + "Why" * 30 + "?**"
    cells = [new_markdown_cell(source), new_markdown_cell("## Evidence\n\n**None?**")]
    asked = guesses(new_notebook(cells=cells))
    assert asked == ["One line. And then?", "Why" * 30 + "?"]
    assert guesses(new_notebook(cells=[new_markdown_cell("**Is $|x|$ 1?**")])) == [r"Is $\|x\|$ 1?"]


def test_the_exam_is_right():
    """Each number of a solution that is computed, once more."""
    asked = [" ".join(question.values()) for question in PLAN["exam"]]
    row = torch.tensor([[1.0, 2, 3]], dtype=torch.float64, requires_grad=True)
    normed = F.layer_norm(row, (3,), eps=0)
    assert said(normed) == "(−1.22, 0, 1.22)" in asked[0]
    assert said((row - 2) / row.std()) == "(−1, 0, 1)" in asked[0]
    assert said(F.layer_norm(5 - 2 * row, (3,), eps=0)) == "(1.22, 0, −1.22)" in asked[0]
    layer = torch.nn.BatchNorm1d(1, eps=1e-12)
    layer(torch.tensor([[1.0], [3.0]]))
    assert [f"= {buffer.item():.2g}" in asked[1] for buffer in layer.buffers()][:2] == [True, True]
    assert f"= {layer.eval()(torch.tensor([[2.0]])).item():.3g}" in asked[1]
    normed.backward(torch.tensor([[1.0, 0, 0]], dtype=torch.float64))
    assert said(row.grad) == "(0.204, −0.408, 0.204)" in asked[2]
    ahead = torch.tensor([0.02, 0.05, 0.02])
    error = ahead.std() / math.sqrt(3)
    assert f"{error:.2g}: {ahead.mean() / error:.1f} of them" in asked[3]
    least = 2 * 4096 * 1024 * 4 / 25e6
    assert f"{least:.2f} ms, and {4 * least:.1f} ms" in asked[4]
    turns = 2 * math.pi / rope_inv_freq(128)
    assert f"{turns[45]:,.0f} positions and pair 46 in {turns[46]:,.0f}" in asked[5]


def said(row):
    return f"({', '.join(f'{value:.3g}' for value in row.flatten().tolist())})".replace("-", "−")


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda chapter: chapter.number)
def test_a_students_copy_of_a_chapter_holds_the_stubs_and_no_solution(chapter, copies):
    master = read_notebook(NOTEBOOKS / chapter.file)
    master.cells = [cell for cell in master.cells if not has_tag(cell, "spoiler")]
    path = copies[chapter.number]
    copy = read_notebook(path)
    assert [cell.id for cell in copy.cells] == [cell.id for cell in master.cells]
    assert not any(cell.get("outputs") for cell in copy.cells)
    solutions = {exercise.solution: exercise for exercise in find_exercises(master)}
    for index, cell in enumerate(copy.cells):
        source = cell.source.replace(", hints=2)", ")")
        assert index in solutions or without_answers(master.cells[index].source) == source
    for index, exercise in solutions.items():
        for name in exercise.names:
            stand_ins = (
                f"{name}{SOLUTION_SUFFIX} = check.{name}.oracle",
                f" as {name}{SOLUTION_SUFFIX}",
            )
            assert any(stand_in in copy.cells[index].source for stand_in in stand_ins)


@pytest.mark.parametrize("chapter", WRITTEN, ids=lambda chapter: chapter.number)
def test_no_answer_is_left_anywhere_in_a_students_copy(chapter, copies):
    text = copies[chapter.number].read_text()
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
def test_a_students_copy_is_an_assignment_for_nbgrader(chapter, copies, monkeypatch):
    copy = read_notebook(copies[chapter.number])
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
