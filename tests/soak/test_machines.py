"""Playing other machines: what a notebook gets of them."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

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


def played(notebook, machines):
    command = ["sh", str(ROOT / ".ci" / "machines"), sys.executable, str(notebook)]
    environment = {**os.environ, "MACHINES": machines}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)


@pytest.mark.slow
def test_a_notebook_is_held_to_each_machine(notebook):
    done = played(notebook, "as-it-is,sse,three-threads")
    assert done.returncode == 1
    as_it_is, sse, three = done.stdout.split("machines: ")[1:4]
    assert "2 passed" in as_it_is
    assert "default True" in sse
    assert "None False" in three
    assert done.stdout.endswith("machines: red on 2\n")


def test_a_machine_that_nobody_can_play_is_named(notebook):
    done = played(notebook, "arm")
    assert done.returncode == 2
    assert "there is no machine arm: as-it-is, sse," in done.stderr
