"""An answer that a check accepts, in whatever form, carries the rest of its chapter."""

import os

import pytest
from accepted_answers import CONVENTIONS, FORMS, IN_FORMS, in_form
from answers import with_check
from nbclient import NotebookClient

from tools.notebooks import CELL_TIMEOUT_S, find_exercises, read_notebook


@pytest.mark.parametrize("form", [*FORMS, "another convention"])
def test_a_chapter_goes_on_with_every_form_of_answer_that_passes(form, notebook_path, tmp_path):
    notebook = read_notebook(notebook_path)
    answered = 0
    for exercise in list(find_exercises(notebook)):
        (name,) = exercise.names
        if form in FORMS and name in IN_FORMS:
            answer = in_form(name, form)
        elif form not in FORMS and name in CONVENTIONS:
            (answer,) = CONVENTIONS[name]
        else:
            continue
        notebook.cells[exercise.stub].source = f"{with_check(exercise, answer)}.require()"
        answered += 1
    if not answered:
        pytest.skip("no exercise of this chapter is answered so")
    client = NotebookClient(
        notebook,
        timeout=3 * CELL_TIMEOUT_S,  # the machine may be busy
        resources={"metadata": {"path": str(notebook_path.parent)}},
    )
    client.execute(env={**os.environ, "COURSE_PROGRESS_DIR": str(tmp_path)})
