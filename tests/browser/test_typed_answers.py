"""What a learner is told: every exercise of every notebook, untouched, answered wrongly, and answered rightly."""

import ast
from pathlib import Path

import nbformat
import pytest
from jupyterlab_driver import OpenNotebook
from playwright.sync_api import expect

from tools.notebooks import SOLUTION_SUFFIX, Exercise, find_exercises, read_notebook

# Mistakes that people make, each typed into the stub of a chapter, with words of the answer that it must get. The unit
# tests hold the checks to all known mistakes; here is how an answer gets there and back.
KNOWN_MISTAKES = {
    ("00_start_here", "centre"): ("def centre(x):\n    return x - x.mean()", "one mean over the whole tensor"),
    ("02_layer_norm", "layer_norm"): (
        "def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    dims = tuple(range(-len(normalized_shape), 0))\n"
        "    y = (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)\n"
        "    y = y if weight is None else y * weight\n"
        "    return y if bias is None else y + bias",
        "divided by n − 1",
    ),
    ("13_rope", "half_to_interleaved"): (
        "def half_to_interleaved(weight, num_heads):\n"
        "    return weight.view(2, -1, weight.shape[-1]).transpose(0, 1).reshape(weight.shape)",
        "as if there were one head",
    ),
    ("19_find_the_bug", "input_h"): (
        'def input_h(ordinary):\n    return {"x": 1000 * ordinary["x"]}',
        "What about their mean?",
    ),
}


@pytest.mark.thorough
def test_each_exercise_answers_to_what_is_typed(opened: OpenNotebook, notebook_path: Path) -> None:
    notebook = read_notebook(notebook_path)
    for exercise in find_exercises(notebook):
        assert "not attempted yet" in opened.text_of_output(exercise.stub)
        assert "not yet" in answer(opened, exercise, gives_back_its_argument(notebook, exercise))
        assert "passed" in answer(opened, exercise, the_solution_as_the_learners_own(notebook, exercise))
        opened.run_cell(exercise.solution)
        assert "Using your" in opened.text_of_output(exercise.solution)


def test_a_known_mistake_is_called_by_its_name(opened: OpenNotebook, notebook_path: Path) -> None:
    exercises = {exercise.names[0]: exercise for exercise in find_exercises(read_notebook(notebook_path))}
    for (chapter, name), (code, words) in KNOWN_MISTAKES.items():
        if chapter == notebook_path.stem:
            assert words in answer(opened, exercises[name], code)


def answer(opened: OpenNotebook, exercise: Exercise, code: str) -> str:
    """Type ``code`` over the stub, above its check, press Shift+Enter, and return what is shown, its top in view."""
    opened.type_into(exercise.stub, with_check(exercise, code))
    opened.run_cell(exercise.stub, command="notebook:run-cell-and-select-next")
    expect(opened.cell(exercise.stub).locator(".jp-OutputArea strong").first).to_be_in_viewport()
    return opened.text_of_output(exercise.stub)


def with_check(exercise: Exercise, code: str) -> str:
    """Return a learner's cell: ``code``, and the check that ends the stub."""
    name = exercise.names[0]
    return f"{code}\n\n\ncheck.{name}({name})"


def the_solution_as_the_learners_own(notebook: nbformat.NotebookNode, exercise: Exercise) -> str:
    """Return the definitions of the folded solution under the names that the learner is asked for."""
    tree = ast.parse(notebook.cells[exercise.solution].source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = node.name.removesuffix(SOLUTION_SUFFIX)
            node.decorator_list = []
        elif isinstance(node, ast.Name):
            node.id = node.id.removesuffix(SOLUTION_SUFFIX)
    kept = [node for node in tree.body if not _checks(node)]
    return "\n\n".join(ast.unparse(node) for node in kept)


def gives_back_its_argument(notebook: nbformat.NotebookNode, exercise: Exercise) -> str:
    """Return the stub with a body that gives back its first argument: attempted, and wrong."""
    tree = ast.parse(notebook.cells[exercise.stub].source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse(f"return {node.args.args[0].arg}").body
    return "\n\n".join(ast.unparse(node) for node in tree.body if not _checks(node))


def _checks(node: ast.stmt) -> bool:
    """Whether a line checks, or picks whose version to go on with: no part of an answer."""
    return any(isinstance(part, ast.Name) and part.id == "check" for part in ast.walk(node))
