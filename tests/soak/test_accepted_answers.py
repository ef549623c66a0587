"""An answer that a check accepts, in whatever form, carries the rest of its chapter."""

import pytest
from accepted_answers import CONVENTIONS, FORMS, IN_FORMS, in_form
from answers import with_check
from soak.test_conditions import CONDITIONS, run_nbval

from tools.notebooks import find_exercises, is_code, read_notebook


@pytest.mark.parametrize("form", [*FORMS, "another convention"])
def test_a_chapter_goes_on_with_every_form_of_answer_that_passes(form, notebook_path, tmp_path):
    notebook = read_notebook(notebook_path)
    for exercise in list(find_exercises(notebook)):
        (name,) = exercise.names
        if form in FORMS and name in IN_FORMS:
            answer = in_form(name, form)
        elif form not in FORMS and name in CONVENTIONS:
            (answer,) = CONVENTIONS[name]
        else:
            continue
        notebook.cells[exercise.stub].source = f"{with_check(exercise, answer)}.require()"
    for cell in filter(is_code, notebook.cells):
        cell.metadata.setdefault("tags", []).append("nbval-ignore-output")
    run_nbval(notebook, CONDITIONS[0], tmp_path)
