"""An answer that a check accepts, in whatever form, is put to use in later chapters; the rest of
its own chapter is run with it in tests/soak."""

import os
import re

import pytest
from accepted_answers import CONVENTIONS, FORMS, IN_FORMS, in_form
from nbclient import NotebookClient

from chapters import check
from course_utils import progress
from tools.notebooks import CELL_TIMEOUT_S, find_notebooks, is_code, read_notebook

# which answers each later chapter takes, in a form as far from the exercise's as its check accepts
KEPT = {
    "layer_norm": """from torch.nn import functional

def layer_norm(rows, shape, *, eps=1e-5, bias=None, weight=None):
    return functional.layer_norm(rows, shape, weight, bias, eps)
""",
    "rms_norm": """from torch.nn import functional

def rms_norm(rows, shape, eps=None, weight=None):
    return functional.rms_norm(rows, shape, weight, eps)
""",
    "rope": CONVENTIONS["rope"][0],
}


def defined(source, name):
    namespace = {"__name__": "learner", "check": check, "torch": __import__("torch")}
    exec(source, namespace)
    return namespace[name]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", IN_FORMS)
def test_a_form_passes(name, form):
    report = check[name](defined(in_form(name, form), name), record=False)
    assert report.passed, report
    assert not report.convention


def test_each_other_convention_has_an_answer_that_follows_it():
    followed = {
        name: {check[name](defined(one, name), record=False).convention for one in answers}
        for name, answers in CONVENTIONS.items()
    }
    accepted = {
        name: set(each.exercise.conventions)
        for name, each in check.items()
        if each.exercise.conventions
    }
    assert followed == accepted


def chapters_that_use_answers():
    """Return the notebooks that take answers of earlier chapters, with the names of these."""
    for path in find_notebooks():
        code = "\n".join(cell.source for cell in read_notebook(path).cells if is_code(cell))
        if "from chapters import yours" in code:
            yield path, set(re.findall(r"\byours\.(\w+)", code))


@pytest.mark.slow
@pytest.mark.parametrize(("path", "names"), list(chapters_that_use_answers()))
def test_a_later_chapter_goes_on_with_answers_in_every_convention(
    path, names, tmp_path, monkeypatch
):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    for name in names:
        progress.keep(name, KEPT[name])
    notebook = read_notebook(path)
    # with recorded results for the large model: with that, tests/browser goes through the chapter
    environment = {**os.environ, "COURSE_SMOLLM2": os.devnull}
    client = NotebookClient(
        notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env=environment)
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())
    )
    for name in names:
        assert f"Your {name}, as you passed it." in printed
    for words in ("Llama: 30 layers agree", "Qwen3, QK norm: 34", "GPT-NeoX, LayerNorm"):
        assert words in printed
