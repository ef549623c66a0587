"""The tools that notebooks are made with: running, normalizing, writing, finding."""

import os
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from small_notebooks import notebook_of, run_nbval, save

from tools.notebooks import (
    FOLDED,
    NOTEBOOKS,
    ExecutionFailed,
    execute,
    find_notebooks,
    minutes,
    minutes_text,
    normalize,
    read_notebook,
    write_atomically,
)

ROOT = Path(__file__).parents[2]


# what differs from one run to the next and is taken out, and how prints are cut into messages
RESTLESS = """\
import os, time, ipywidgets
from IPython.display import display, HTML
---
slider = ipywidgets.IntSlider(value=3, description="size")
ipywidgets.VBox([slider, ipywidgets.HTML("<b>three</b>")])
---
display(HTML('<img alt="A dot" src="data:image/png;base64,iVBORw0KGgo=">'))
for word in ("one", "two", "three"):
    print(word, flush=True)
    time.sleep(0.02)
---
print(os.environ["OMP_NUM_THREADS"] in ("1", "2"), os.listdir(os.environ["COURSE_PROGRESS_DIR"]))
open(os.path.join(os.environ["COURSE_PROGRESS_DIR"], "solved"), "w").close()
"""


@pytest.mark.slow
def test_what_is_executed_is_the_same_every_time_and_nbval_agrees(tmp_path, monkeypatch):
    path = save(notebook_of(RESTLESS), tmp_path)
    # by an author who has solved exercises and has many cores
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / "solved").touch()
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "progress"))
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert execute(path)
    assert not execute(path)

    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4]
    assert cells[2].outputs[1].text == "one\ntwo\nthree\n"
    assert cells[3].outputs[0].text == "True []\n"
    assert not re.search(r'"(widgets|execution|version)"', path.read_text())

    # starts with nothing solved, as the first does
    second = save(read_notebook(path), tmp_path, "03_batch_norm.ipynb")
    second.write_text(second.read_text().replace(r"two\n", r"four\n"))
    assert "1 failed, 7 passed" in run_nbval(tmp_path)


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
def test_when_a_cell_fails_the_file_stays_and_the_message_names_it(source, message, tmp_path):
    path = save(notebook_of(source), tmp_path)
    before = path.read_bytes()
    with pytest.raises(ExecutionFailed, match=rf"02_layer_norm.ipynb, cell 2 \(id c1\): {message}"):
        execute(path, timeout=2)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_write_that_is_cut_short_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "x.ipynb").write_text("old")

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(tmp_path / "x.ipynb", b"new")
    assert (tmp_path / "x.ipynb").read_text() == "old"
    assert os.listdir(tmp_path) == ["x.ipynb"]


def test_a_widget_is_stored_as_the_picture_that_stands_for_it_without_a_kernel():
    view = "application/vnd.jupyter.widget-view+json"
    pictured = {"text/html": "<img alt='three bars'>", "text/plain": "three bars"}
    output = new_output("display_data", data={view: {"model_id": "beef" * 8}, **pictured})
    normalize(new_notebook(cells=[new_code_cell("w", outputs=[output])]))
    assert output.data == pictured


def test_chapters_are_found_by_number_and_by_path(tmp_path):
    second, third = (
        save(new_notebook(), tmp_path, name)
        for name in ("02_layer_norm.ipynb", "03_batch_norm.ipynb")
    )
    assert find_notebooks(folder=tmp_path) == [second, third]
    assert find_notebooks(["03"], tmp_path) == find_notebooks([str(third)]) == [third]
    assert find_notebooks(["2"], tmp_path) == [second]
    for nothing in ("04", "/04"):
        with pytest.raises(ValueError, match=f"got '{nothing}', known are 02, 03"):
            find_notebooks([nothing], tmp_path)


def test_an_export_prints_no_solution_under_its_exercise():
    notebook = read_notebook(ROOT / NOTEBOOKS / "02_layer_norm.ipynb")
    html, _ = HTMLExporter().from_notebook_node(notebook)
    shown = BeautifulSoup(html, "html.parser").get_text()
    assert "def layer_norm(x, normalized_shape" in shown
    assert "layer_norm_solution(x" not in shown
    assert "Using the course's layer_norm" in shown


def fold(summary):
    return f"<details><summary>{summary}</summary>\n\n$x$\n\n</details>"


@pytest.mark.parametrize(
    ("more", "read", "work"),
    [
        ([], 20, 20),
        ([fold("Step 1") + fold("Step 2")], 20, 30),  # one derivation
        (["On paper, first. " + fold("Answer")], 20, 30),
        ([fold("Answer"), fold("Hint 2: a nudge"), fold("A question first")], 20, 20),
        (["## Evidence", "word " * 2000, fold("Step 1")], 20, 20),  # is behind the lesson
        (["word " * 2000], 30, 30),
    ],
)
def test_the_minutes_of_a_chapter_are_counted_from_its_lesson(more, read, work):
    notebook = new_notebook(cells=[*map(new_markdown_cell, ["word " * 4000, *more])])
    assert minutes(notebook) == (read, work)
    code = [new_code_cell("1"), new_code_cell("2", metadata=FOLDED)]
    code += [new_code_cell("...", metadata={"tags": ["exercise"]})]
    notebook.cells = [*code * 10, *notebook.cells]  # ten minutes more to read, ten exercises
    assert minutes(notebook) == (read + 10, work + 10 + 150)
    assert minutes_text(notebook) == f"{read + 10} minutes to read, {work + 160} to work through"
