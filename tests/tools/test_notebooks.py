"""The tools that notebooks are made with: running, normalizing, editing as text, copies for students."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.notebooks import (
    FOLDED,
    NOTEBOOKS,
    ExecutionFailed,
    execute,
    find_notebooks,
    normalize,
    read_notebook,
    write_atomically,
)
from tools.student import make_student_copy, without_solution
from tools.text_view import Conflict, bring_back, open_view

ROOT = Path(__file__).parent.parent

# every kind of output that differs from one run to the next, and one that must not be touched
RESTLESS = """\
import os, sys, time
import ipywidgets, json
from IPython.display import display, HTML
from tqdm.auto import tqdm
---
object(), 0x7FFFFFFF, hex(255)
---
slider = ipywidgets.IntSlider(value=3, description="size")
ipywidgets.VBox([slider, ipywidgets.HTML("<b>three</b>")])
---
for _ in tqdm(range(3)):
    time.sleep(0.01)
---
display(HTML('<img alt="A dot" src="data:image/png;base64,iVBORw0KGgo=">'))
for word in ("one", "two", "three"):
    print(word, flush=True)
    time.sleep(0.02)
---
json.loads("{")
---
print(os.environ["OMP_NUM_THREADS"] in ("1", "2"), os.listdir(os.environ["COURSE_PROGRESS_DIR"]))
open(os.path.join(os.environ["COURSE_PROGRESS_DIR"], "solved"), "w").close()
"""


def notebook_of(source: str, tagged: dict[int, list[str]] | None = None) -> NotebookNode:
    cells = [new_code_cell(part.strip(), id=f"c{i}") for i, part in enumerate(source.split("---"))]
    for index, tags in (tagged or {}).items():
        cells[index].metadata["tags"] = tags
    return new_notebook(cells=[new_markdown_cell("# Title", id="title"), *cells])


def save(notebook: NotebookNode, folder: Path, name: str = "02_layer_norm.ipynb") -> Path:
    path = folder / name
    nbformat.write(notebook, path)
    return path


@pytest.mark.slow
def test_what_is_executed_is_the_same_every_time_and_everywhere_and_nbval_agrees(tmp_path: Path, monkeypatch) -> None:
    path = save(notebook_of(RESTLESS, tagged={5: ["raises-exception"]}), tmp_path)
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / "solved").touch()  # by an author who has solved exercises and has many cores
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "progress"))
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert execute(path)
    assert not execute(path)

    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, 8))
    assert cells[1].outputs[0].data["text/plain"] == "(<object at 0x…>, 2147483647, '0xff')"
    assert "[time]" in cells[3].outputs[0].data["text/plain"]
    assert cells[4].outputs[0].data["text/html"].endswith('base64,iVBORw0KGgo=">')
    assert cells[4].outputs[1].text == "one\ntwo\nthree\n"
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(cells[5].outputs[0].traceback))
    assert f"File python3.{sys.version_info.minor}/json/__init__.py:" in traceback
    for folder in (sys.base_prefix, str(Path.home()), "~/"):
        assert folder not in traceback
    assert cells[6].outputs[0].text == "True []\n"
    assert not re.search(r'"(widgets|execution|version)"', path.read_text())

    second = save(read_notebook(path), tmp_path, "03_batch_norm.ipynb")  # starts with nothing solved, as the first does
    second.write_text(second.read_text().replace(r"two\n", r"four\n"))
    assert "1 failed, 13 passed" in run_nbval(tmp_path)


def run_nbval(path: Path) -> str:
    """Run nbval as `make notebooks` does, with the project's options and conftest.py; return what it prints."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "--nbval", str(path)]
    options = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command + options, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1\n---\nraise KeyError('eps')", "KeyError: 'eps'"),
        ("1\n---\nimport time; time.sleep(60)", "took longer than 2 s"),
        ("1\n---\nimport os; os._exit(1)", "the kernel died"),
    ],
    ids=["raises", "endless", "dies"],
)
def test_when_a_cell_fails_the_file_stays_and_the_message_names_it(source: str, message: str, tmp_path: Path) -> None:
    path = save(notebook_of(source), tmp_path)
    before = path.read_bytes()
    with pytest.raises(ExecutionFailed, match=rf"02_layer_norm.ipynb, cell 2 \(id c1\): {message}"):
        execute(path, timeout=2)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_write_that_is_cut_short_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "x.ipynb").write_text("old")

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(tmp_path / "x.ipynb", b"new")
    assert (tmp_path / "x.ipynb").read_text() == "old"
    assert os.listdir(tmp_path) == ["x.ipynb"]


def test_a_widget_is_stored_as_the_picture_that_stands_for_it_without_a_kernel() -> None:
    view = "application/vnd.jupyter.widget-view+json"
    pictured = {"text/html": "<img alt='three bars'>", "text/plain": "three bars"}
    output = new_output("display_data", data={view: {"model_id": "beef" * 8}, **pictured})
    normalize(new_notebook(cells=[new_code_cell("w", outputs=[output])]))
    assert output.data == pictured


def test_chapters_are_found_by_number_and_by_path(tmp_path: Path) -> None:
    second, third = (save(new_notebook(), tmp_path, name) for name in ("02_layer_norm.ipynb", "03_batch_norm.ipynb"))
    assert find_notebooks(folder=tmp_path) == [second, third]
    assert find_notebooks(["03"], tmp_path) == find_notebooks([str(third)]) == [third]
    with pytest.raises(ValueError, match="got '04', known are 02, 03"):
        find_notebooks(["04"], tmp_path)


def folded_exercise() -> NotebookNode:
    notebook = notebook_of(
        "from chapters import check\n---\n"
        'def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n    """Normalize."""\n    ...\n---\n'
        "def layer_norm_solution(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    secret = x - x.mean()\n    return secret\n\n\n"
        "layer_norm = check.layer_norm.choose(layer_norm, layer_norm_solution)\n---\n"
        "assert layer_norm is check.layer_norm.oracle",
        tagged={1: ["exercise"], 2: ["solution"]},
    )
    notebook.cells[1].update(execution_count=1, outputs=[new_output("stream", name="stdout", text="kept\n")])
    notebook.cells[3].metadata.update({**FOLDED, "stand_in": {"x": "math:pi"}})
    return notebook


def test_an_edit_in_the_text_view_keeps_ids_metadata_and_the_outputs_of_other_cells(tmp_path: Path) -> None:
    notebook = folded_exercise()
    path = save(notebook, tmp_path)
    view = open_view(path, tmp_path / "edit")
    view.write_text(view.read_text().replace("x.mean()", "x.mean(-1)"))
    assert bring_back(view, tmp_path) == (path, True)
    edited = read_notebook(path)
    assert "x.mean(-1)" in edited.cells[3].source
    assert [(cell.id, cell.metadata) for cell in edited.cells] == [(cell.id, cell.metadata) for cell in notebook.cells]
    assert edited.cells[1].outputs == notebook.cells[1].outputs
    assert bring_back(view, tmp_path) == (path, False)

    edited.cells[1].outputs[0].text = "executed between two edits\n"
    save(edited, tmp_path)
    view.write_text(view.read_text().replace("secret", "hidden"))
    assert bring_back(view, tmp_path) == (path, True)


def test_a_text_view_without_a_notebook_becomes_one(tmp_path: Path) -> None:
    view = tmp_path / "edit" / "03_batch_norm.py"
    write_atomically(view, b'# %% [markdown]\n# # Batch norm\n\n# %% tags=["exercise"]\ndef batch_norm(x): ...\n')
    path, changed = bring_back(view, tmp_path)
    notebook = read_notebook(path)
    assert changed
    assert [cell.source for cell in notebook.cells] == ["# Batch norm", "def batch_norm(x): ..."]
    assert notebook.cells[1].metadata.tags == ["exercise"]
    nbformat.validate(notebook)


def test_edits_on_either_side_are_never_lost_silently(tmp_path: Path) -> None:
    path, views = save(folded_exercise(), tmp_path), tmp_path / "edit"
    view = open_view(path, views)
    view.write_text(view.read_text().replace("secret", "hidden"))
    with pytest.raises(Conflict, match="holds edits"):
        open_view(path, views)

    notebook = read_notebook(path)
    notebook.cells[0].source = "# Another title"
    save(notebook, tmp_path)
    with pytest.raises(Conflict, match="has changed since"):
        bring_back(view, tmp_path)
    assert read_notebook(path).cells[0].source == "# Another title"


def test_a_students_copy_holds_no_solution_and_no_output(tmp_path: Path) -> None:
    notebook = folded_exercise()
    copy = read_notebook(make_student_copy(save(notebook, tmp_path), tmp_path / "student"))
    assert "secret" not in str(copy)
    assert "kept" not in str(copy)
    assert copy.cells[2].source == notebook.cells[2].source
    assert "\nlayer_norm_solution = check.layer_norm.oracle\n" in copy.cells[3].source


@pytest.mark.parametrize("template", ["lab", "basic"])  # nbconvert's own, and what nbviewer and the like build on
def test_an_export_prints_no_solution_under_its_exercise(template: str) -> None:
    notebook = read_notebook(ROOT / NOTEBOOKS / "02_layer_norm.ipynb")
    html, _ = HTMLExporter(template_name=template).from_notebook_node(notebook)
    shown = BeautifulSoup(html, "html.parser").get_text()
    assert "def layer_norm(x, normalized_shape" in shown
    assert "layer_norm_solution(x" not in shown
    assert "Using the course's layer_norm" in shown


def test_a_solution_that_no_check_knows_names_its_stand_in() -> None:
    source = "@torch.no_grad()\ndef halve_solution(x):\n    return x / 2\n\n\nanswer_solution = 42\n"
    source += "halve = halve_solution"
    with pytest.raises(ValueError, match="no check says what is right for 'answer'"):
        without_solution(source)
    lines = without_solution(source, {"halve": "operator:neg", "answer": "math:pi"}).splitlines()
    assert lines[0] == "from operator import neg as halve_solution"
    assert lines[3:] == ["from math import pi as answer_solution", "halve = halve_solution"]
    for missing in ("math:tau2", "no_such_module:pi"):
        with pytest.raises(ValueError, match=f"got '{missing}'"):
            without_solution(source, {"halve": "operator:neg", "answer": missing})
