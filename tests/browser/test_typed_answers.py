"""What a learner is told: every exercise of every notebook, untouched, answered wrongly, and
answered rightly."""

import pytest
from answers import gives_back_its_argument, the_solution_as_the_learners_own, with_check
from playwright.sync_api import expect

from tools.notebooks import find_exercises, read_notebook

# Mistakes that people make, each typed into the stub of a chapter, with words of the answer that it
# must get. The unit tests hold the checks to all known mistakes; here is how an answer gets there
# and back.
KNOWN_MISTAKES = {
    ("00_start_here", "centre"): (
        "def centre(x):\n    return x - x.mean()",
        "one mean over the whole tensor",
    ),
    ("02_layer_norm", "layer_norm"): (
        "def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    dims = tuple(range(-len(normalized_shape), 0))\n"
        "    y = (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)\n"
        "    y = y if weight is None else y * weight\n"
        "    return y if bias is None else y + bias",
        "divided by n − 1",
    ),
    ("14_rope", "half_to_interleaved"): (
        "def half_to_interleaved(weight, num_heads):\n"
        "    return weight.view(2, -1, weight.shape[-1]).transpose(0, 1).reshape(weight.shape)",
        "as if there were one head",
    ),
    ("21_find_the_bug", "input_c"): (
        'def input_c(ordinary):\n    return {"x": 1000 * ordinary["x"]}',
        "What about their mean?",
    ),
}


@pytest.mark.thorough
def test_each_exercise_answers_to_what_is_typed(opened, notebook_path):
    notebook = read_notebook(notebook_path)
    for exercise in find_exercises(notebook):
        assert "not attempted yet" in opened.text_of_output(exercise.stub)
        assert "not yet" in answer(opened, exercise, gives_back_its_argument(notebook, exercise))
        assert "passed" in answer(
            opened, exercise, the_solution_as_the_learners_own(notebook, exercise)
        )
        opened.run_cell(exercise.solution)
        assert "Using your" in opened.text_of_output(exercise.solution)


def test_a_known_mistake_is_called_by_its_name(opened, notebook_path):
    exercises = {
        exercise.names[0]: exercise for exercise in find_exercises(read_notebook(notebook_path))
    }
    for (chapter, name), (code, words) in KNOWN_MISTAKES.items():
        if chapter == notebook_path.stem:
            assert words in answer(opened, exercises[name], code)


def answer(opened, exercise, code):
    """Type ``code`` over the stub, above its check, press Shift+Enter, and return what is shown,
    its top in view."""
    opened.type_into(exercise.stub, with_check(exercise, code))
    opened.run_cell(exercise.stub, command="notebook:run-cell-and-select-next")
    expect(opened.cell(exercise.stub).locator(".jp-OutputArea strong").first).to_be_in_viewport()
    return opened.text_of_output(exercise.stub)
