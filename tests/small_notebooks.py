"""Notebooks of a few cells, made for a test."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.notebooks import FOLDED

ROOT = Path(__file__).parents[1]


def notebook_of(source, tagged=None):
    cells = [new_code_cell(part.strip(), id=f"c{i}") for i, part in enumerate(source.split("---"))]
    for index, tags in (tagged or {}).items():
        cells[index].metadata["tags"] = tags
    return new_notebook(cells=[new_markdown_cell("# Title", id="title"), *cells])


def save(notebook, folder, name="02_layer_norm.ipynb"):
    path = folder / name
    nbformat.write(notebook, path)
    return path


def folded_exercise():
    notebook = notebook_of(
        "from chapters import check\n---\n"
        "def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n    "
        '"""Normalize."""\n    ...\n---\n'
        "def layer_norm_solution(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    secret = x - x.mean()\n    return secret\n\n\n"
        "layer_norm = check.layer_norm.choose(layer_norm, layer_norm_solution)\n---\n"
        "assert layer_norm is check.layer_norm.oracle",
        tagged={1: ["exercise"], 2: ["solution"]},
    )
    notebook.cells[1].update(
        execution_count=1, outputs=[new_output("stream", name="stdout", text="kept\n")]
    )
    notebook.cells[3].metadata.update({**FOLDED, "stand_in": {"x": "math:pi"}})
    return notebook


def run_nbval(path):
    """Run nbval as `make notebooks` does, with the project's options and conftest.py; return what
    it prints."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "conftest",
        "--nbval",
        str(path),
    ]
    options = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command + options, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100
    )
    return done.stdout + done.stderr
