"""What a learner passed in chapters 06 and 14 is what chapter 17 puts into a model."""

import pytest
from accepted_answers import CONVENTIONS
from answers import with_check
from jupyterlab_driver import open_notebook

from tools.notebooks import find_exercises, find_notebooks, read_notebook


@pytest.mark.thorough
def test_a_rope_that_turns_neighbours_writes_the_same_text_as_the_model_that_came(browser, server):
    rope_path, llama_path = find_notebooks(["14", "17"])
    exercise = next(find_exercises(read_notebook(rope_path)))
    assert exercise.names == ("rope",)

    opened = open_notebook(browser, server, rope_path.as_posix())
    opened.run_all()
    opened.type_into(exercise.stub, with_check(exercise, CONVENTIONS["rope"][0]))
    opened.run_all()
    assert "passed" in opened.text_of_output(exercise.stub)
    assert "interleaved layout" in opened.text_of_output(exercise.stub)
    assert "all agree" in "".join(texts(opened))  # with GPT-J's, which turns neighbours too
    assert not errors(opened)
    opened.close()

    opened = open_notebook(browser, server, llama_path.as_posix())
    opened.run_all(timeout_s=600)
    assert not errors(opened)
    printed = "".join(texts(opened))
    assert "Your rope, as you passed it." in printed
    assert "It turns neighbours" in printed
    assert "with the course's rms_norm and your rope: small town nestled" in printed
    assert "with the course's rms_norm and your rope all 72 tokens" in printed
    opened.close()


def errors(opened):
    """Return the cells that ended in an error, and those that did not run."""
    code = [cell for cell in opened.cells() if cell["cell_type"] == "code"]
    return [
        (cell["id"], output["evalue"])
        for cell in code
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ] + [cell["id"] for cell in code if cell["execution_count"] is None]


def texts(opened):
    """Yield what the cells printed or showed, as text."""
    for cell in opened.cells():
        for output in cell.get("outputs", []):
            yield "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
