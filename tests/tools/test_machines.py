"""Playing other machines: what a notebook gets of them, and what is kept when a run is
interrupted."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import machines
from tools.notebooks import execute

SOURCE = """\
import os
print(os.environ.get("ATEN_CPU_CAPABILITY"), os.environ["OMP_NUM_THREADS"] in ("1", "2"))
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """A notebook in a project's folder with the settings of this one."""
    for name in ("conftest.py", "pyproject.toml", "course_utils", "tools", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "02_layer_norm.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(SOURCE), new_code_cell("1")]), path)
    assert execute(path)
    return path


@pytest.mark.slow
def test_a_notebook_is_held_to_each_machine_once(notebook, tmp_path, monkeypatch, capsys):
    names = ["sse", "three threads"]
    assert machines.machines([str(notebook)], names, tmp_path / "machines") == 1
    printed = capsys.readouterr().out
    assert "2 runs, 2 red" in printed
    assert "sse, 02_layer_norm: Cell 0 (" in printed
    assert "default True" in (tmp_path / "machines" / "02_layer_norm-sse.log").read_text()
    assert "None False" in (tmp_path / "machines" / "02_layer_norm-three-threads.log").read_text()

    record = tmp_path / "machines" / "runs.jsonl"
    record.write_text(record.read_text()[:-9])  # as when the last line was being written
    asked: list[str] = []
    run = machines._run
    monkeypatch.setattr(machines, "_run", lambda p, *rest: asked.append(p.name) or run(p, *rest))
    machines.machines([str(notebook)], names, tmp_path / "machines")
    assert len(asked) == 1
    assert "2 runs, 2 red" in capsys.readouterr().out
    # another notebook: it runs anew
    notebook.write_text(notebook.read_text().replace("None", "default"))
    assert machines.machines([str(notebook)], ["sse"], tmp_path / "machines") == 0


def test_a_machine_that_nobody_can_play_is_named(notebook):
    with pytest.raises(ValueError, match=r"must be one of as it is, sse, .*: got arm"):
        machines.machines([str(notebook)], ["arm"])
