"""An answer that a check accepts, in whatever form, carries the rest of its chapter, and is put to
use in later ones."""

import os

import pytest
from accepted_answers import FORMS, IN_FORMS, NEIGHBOURS, in_form
from answers import with_check
from nbclient import NotebookClient

from course_utils import progress
from tools.notebooks import CELL_TIMEOUT_S, find_exercises, find_notebooks, read_notebook

# answers that chapter 17 takes, in a form as far from the exercise's as its check accepts
KEPT = {
    "rms_norm": """from torch.nn import functional

def rms_norm(rows, shape, eps=None, weight=None):
    return functional.rms_norm(rows, shape, weight, eps)
""",
    "rope": NEIGHBOURS,
}


def run(notebook, folder, **environment):
    client = NotebookClient(
        notebook,
        timeout=3 * CELL_TIMEOUT_S,  # the machine may be busy
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, **environment})


@pytest.mark.parametrize("form", [*FORMS, "another convention"])
def test_a_chapter_goes_on_with_every_form_of_answer_that_passes(form, notebook_path, tmp_path):
    notebook = read_notebook(notebook_path)
    answered = 0
    for exercise in list(find_exercises(notebook)):
        (name,) = exercise.names
        if form in FORMS and name in IN_FORMS:
            answer = in_form(name, form)
        elif form not in FORMS and name == "rope":
            answer = NEIGHBOURS
        else:
            continue
        notebook.cells[exercise.stub].source = f"{with_check(exercise, answer)}.require()"
        answered += 1
    if not answered:
        pytest.skip("no exercise of this chapter is answered so")
    run(notebook, notebook_path.parent, COURSE_PROGRESS_DIR=str(tmp_path))


def test_chapter_17_goes_on_with_answers_of_earlier_chapters(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    for name, answer in KEPT.items():
        progress.keep(name, answer)
    (path,) = find_notebooks(["17"])
    notebook = read_notebook(path)
    run(notebook, path.parent)
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())
    )
    for name in KEPT:
        assert f"Your {name}, as you passed it." in printed
    assert "It turns neighbours" in printed
    assert "after 6 of 6 prompts the same tokens" in printed
    assert "the logits differ by less than 0.001: True" in printed
