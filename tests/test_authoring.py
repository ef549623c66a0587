"""The tools that notebooks are made with: running, normalizing, editing as text, copies for students, pins."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import freeze, text_view
from tools.notebooks import ExecutionFailed, execute, find_notebooks, normalize, read_notebook, write_atomically
from tools.student import make_student_copy, without_solution

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
print(os.environ["OMP_NUM_THREADS"], os.listdir(os.environ["COURSE_PROGRESS_DIR"]))
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


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The restless notebook, executed once, by somebody who has solved exercises and has many cores."""
    path = save(notebook_of(RESTLESS, tagged={5: ["raises-exception"]}), tmp_path_factory.mktemp("executed"))
    progress = tmp_path_factory.mktemp("progress")
    (progress / "solved").touch()
    with pytest.MonkeyPatch.context() as author:
        author.setenv("COURSE_PROGRESS_DIR", str(progress))
        author.setenv("OMP_NUM_THREADS", "64")
        assert execute(path)
    return path


def test_executing_again_gives_the_same_bytes(executed: Path) -> None:
    first = executed.read_bytes()
    assert not execute(executed)
    assert executed.read_bytes() == first


def test_executing_counts_every_cell_and_keeps_what_a_reader_sees(executed: Path) -> None:
    cells = [cell for cell in read_notebook(executed).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, 8))
    assert cells[1].outputs[0].data["text/plain"] == "(<object at 0x…>, 2147483647, '0xff')"
    assert "[time]" in cells[3].outputs[0].data["text/plain"]
    assert cells[4].outputs[0].data["text/html"].endswith('base64,iVBORw0KGgo=">')
    assert cells[4].outputs[1].text == "one\ntwo\nthree\n"
    assert cells[5].outputs[0].ename == "JSONDecodeError"


def test_a_run_starts_with_nothing_solved_and_two_threads(executed: Path) -> None:
    assert read_notebook(executed).cells[-1].outputs[0].text == "2 []\n"


def test_a_stored_traceback_names_no_folder_of_this_machine(executed: Path) -> None:
    traceback = "\n".join(read_notebook(executed).cells[6].outputs[0].traceback)
    plain = re.sub(r"\x1b\[[\d;]*m", "", traceback)
    assert f"File python3.{sys.version_info.minor}/json/__init__.py:" in plain
    for folder in (sys.base_prefix, str(Path.home()), "~/"):
        assert folder not in plain


def test_nothing_is_stored_of_timing_widgets_or_versions(executed: Path) -> None:
    text = executed.read_text()
    assert '"widgets"' not in text
    assert '"execution"' not in text
    assert '"version"' not in text


def test_strict_nbval_passes_on_what_was_executed_and_fails_on_a_changed_output(executed: Path, tmp_path: Path) -> None:
    assert run_nbval(executed) == 0
    changed = read_notebook(executed)
    changed.cells[5].outputs[1].text = "one\ntwo\nfour\n"
    assert run_nbval(save(changed, tmp_path)) == 1


def test_nbval_starts_every_notebook_with_nothing_solved(tmp_path: Path) -> None:
    solve = (
        "import os\nhere = os.environ['COURSE_PROGRESS_DIR']\n---\n"
        "print(os.listdir(here))\n---\nopen(here + '/solved', 'w').close()"
    )
    for name in ("00_start_here.ipynb", "01_why_normalize.ipynb"):
        execute(save(notebook_of(solve), tmp_path, name))
    assert run_nbval(tmp_path) == 0


def run_nbval(path: Path) -> int:
    """Run nbval as `make notebooks` does, with the project's options and conftest.py, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "--nbval", str(path)]
    options = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command + options, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode


@pytest.mark.parametrize(
    ("source", "what_is_said"),
    [
        ("1\n---\nraise KeyError('eps')", "KeyError: 'eps'"),
        ("1\n---\nimport time; time.sleep(60)", "took longer than 2 s"),
        ("1\n---\nimport os; os._exit(1)", "the kernel died"),
    ],
    ids=["raises", "endless", "dies"],
)
def test_when_a_cell_fails_the_file_stays_and_the_message_names_the_cell(
    source: str, what_is_said: str, tmp_path: Path
) -> None:
    path = save(notebook_of(source), tmp_path)
    before = path.read_bytes()
    with pytest.raises(ExecutionFailed, match=re.escape(what_is_said)) as failure:
        execute(path, timeout=2)
    assert "02_layer_norm.ipynb, cell 2 (id c1)" in str(failure.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_write_that_is_cut_short_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_text() == "old"
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
    assert find_notebooks(["03"], tmp_path) == [third]
    assert find_notebooks([str(second)], tmp_path) == [second]
    with pytest.raises(ValueError, match="got '04', known are 02, 03"):
        find_notebooks(["04"], tmp_path)


def folded_exercise() -> NotebookNode:
    notebook = notebook_of(
        "from course_utils import check\n---\n"
        'def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n    """Normalize."""\n    ...\n---\n'
        "def layer_norm_solution(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    secret = x - x.mean()\n    return secret\n\n\n"
        "layer_norm = check.layer_norm.choose(layer_norm, layer_norm_solution)\n---\n"
        "assert layer_norm is check.layer_norm.oracle",
        tagged={1: ["exercise"], 2: ["solution"]},
    )
    notebook.cells[3].metadata.update({"jupyter": {"source_hidden": True}, "stand_in": {"x": "math:pi"}})
    return notebook


def test_an_edit_in_the_text_view_keeps_ids_metadata_and_the_outputs_of_other_cells(tmp_path: Path) -> None:
    notebook = folded_exercise()
    notebook.cells[1].update(execution_count=1, outputs=[new_output("stream", name="stdout", text="kept\n")])
    path, views = save(notebook, tmp_path), tmp_path / "edit"
    view = text_view.open_view(path, views)
    view.write_text(view.read_text().replace("x.mean()", "x.mean(-1)"))
    assert text_view.bring_back(view, tmp_path) == (path, True)
    edited = read_notebook(path)
    assert "x.mean(-1)" in edited.cells[3].source
    assert [cell.id for cell in edited.cells] == [cell.id for cell in notebook.cells]
    assert [cell.metadata for cell in edited.cells] == [cell.metadata for cell in notebook.cells]
    assert edited.cells[1].outputs == notebook.cells[1].outputs
    assert text_view.bring_back(view, tmp_path) == (path, False)


def test_executing_between_two_edits_is_no_conflict(tmp_path: Path) -> None:
    source = "def f():\n    return 1\n---\nprint(f())"
    view = text_view.open_view(save(notebook_of(source), tmp_path), tmp_path / "edit")
    path, _ = text_view.bring_back(view, tmp_path)
    execute(path)
    view.write_text(view.read_text().replace("return 1", "return 2"))
    assert text_view.bring_back(view, tmp_path) == (path, True)
    assert read_notebook(path).cells[2].outputs[0].text == "1\n"  # stale until the notebook is executed again


def test_a_text_view_without_a_notebook_becomes_one(tmp_path: Path) -> None:
    view = tmp_path / "edit" / "03_batch_norm.py"
    write_atomically(view, b'# %% [markdown]\n# # Batch norm\n\n# %% tags=["exercise"]\ndef batch_norm(x): ...\n')
    path, changed = text_view.bring_back(view, tmp_path)
    notebook = read_notebook(path)
    assert changed
    assert [cell.source for cell in notebook.cells] == ["# Batch norm", "def batch_norm(x): ..."]
    assert notebook.cells[1].metadata.tags == ["exercise"]
    nbformat.validate(notebook)


def test_edits_on_either_side_are_never_lost_silently(tmp_path: Path) -> None:
    path, views = save(folded_exercise(), tmp_path), tmp_path / "edit"
    view = text_view.open_view(path, views)
    view.write_text(view.read_text().replace("secret", "hidden"))
    with pytest.raises(text_view.Conflict, match="holds edits"):
        text_view.open_view(path, views)

    notebook = read_notebook(path)
    notebook.cells[0].source = "# Another title"
    save(notebook, tmp_path)
    with pytest.raises(text_view.Conflict, match="has changed since"):
        text_view.bring_back(view, tmp_path)
    assert read_notebook(path).cells[0].source == "# Another title"


def test_a_students_copy_holds_no_solution_and_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = folded_exercise()
    notebook.cells[3].outputs = [new_output("stream", name="stdout", text="secret\n")]
    copy = make_student_copy(save(notebook, tmp_path), tmp_path / "student")
    assert "secret" not in copy.read_text()
    handed_out = read_notebook(copy)
    assert handed_out.cells[2].source == notebook.cells[2].source
    assert execute(copy)
    assert read_notebook(copy).cells[-1].execution_count == 4


def test_what_a_check_compares_with_stands_in_for_a_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    knows = SimpleNamespace(oracle=abs)
    monkeypatch.setitem(sys.modules, "course_utils.check", SimpleNamespace(halve=knows, other=knows))
    source = "def halve_solution(x):\n    return x / 2\n\n\nhalve = check.{}.choose(halve, halve_solution)"
    for check in ("halve", "other"):
        assert without_solution(source.format(check)).splitlines()[0] == f"halve_solution = check.{check}.oracle"
    with pytest.raises(ValueError, match="no check says what is right for 'halve'"):
        without_solution(source.format("unknown"))


def test_a_solution_that_no_check_knows_names_its_stand_in() -> None:
    source = (
        "@torch.no_grad()\ndef halve_solution(x):\n    return x / 2\n\n\nanswer_solution = 42\nhalve = halve_solution"
    )
    with pytest.raises(ValueError, match="no check says what is right for 'answer'"):
        without_solution(source)
    stand_ins = {"halve": "operator:neg", "answer": "math:pi"}
    assert without_solution(source, stand_ins).split("\n") == [
        "from operator import neg as halve_solution",
        "",
        "",
        "from math import pi as answer_solution",
        "halve = halve_solution",
    ]
    with pytest.raises(ValueError, match="got 'math:tau2'"):
        without_solution(source, stand_ins | {"answer": "math:tau2"})


def test_pins_are_of_everything_needed_and_of_no_local_build(monkeypatch: pytest.MonkeyPatch) -> None:
    requires = {
        "course": [
            "torch>=2; python_version >= '3'",
            "Anything[fast]",
            "gone; sys_platform == 'amiga'",
            "ruff; extra == 'test'",
        ],
        "torch": ["nvidia-nccl==1"],
        "anything": ["quick; extra == 'fast'", "slow; extra == 'slow'", "course"],
    }
    versions = {"torch": "2.13.0+cpu", "anything": "1.0", "quick": "2", "slow": "3", "ruff": "0.1", "nvidia-nccl": "1"}

    def version(name: str) -> str:
        if name not in versions | {"course": "0"}:
            raise freeze.metadata.PackageNotFoundError(name)
        return (versions | {"course": "0"})[name]

    monkeypatch.setattr(freeze.metadata, "requires", requires.get)
    monkeypatch.setattr(freeze.metadata, "version", version)
    pins = [line for line in freeze.constraints("course").splitlines() if not line.startswith("#")]
    assert pins == ["anything==1.0", "quick==2", "ruff==0.1", "torch==2.13.0"]
