"""Every notebook in every condition: it goes on to its end, and shows what the stored one shows."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns
from test_typed_answers import gives_back_its_argument, with_check

from tools.notebooks import find_exercises, has_tag, is_code

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 900  # for one run; the longest notebook takes two minutes on two cores
NBVAL_ROUNDS = 10
SANITIZE = [
    (re.compile(regex), replacement)
    for regex, replacement in get_sanitize_patterns((ROOT / "tests/nbval_sanitize.cfg").read_text(encoding="utf-8"))
]
# a process that is root only inside namespaces of its own may mount and set up interfaces there
UNSHARE = ("unshare",) if not hasattr(os, "geteuid") or os.geteuid() == 0 else ("unshare", "--map-root-user")
# the whole checkout, environment included; the shell stood in the writable one, so it goes there anew
READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" || exit 1
if touch .writable 2>/dev/null; then rm .writable; echo "the checkout is still writable" >&2; exit 1; fi
exec "$@"
"""
# a fresh network namespace has neither an address nor a route; kernels talk to their notebook over the loopback
NO_NETWORK = 'ip link set lo up && exec "$@"'
# below a file no directory can be made, not even by root
NO_HOME = {"HOME": os.devnull + "/home", "USERPROFILE": os.devnull + "/home"}
HOMES = re.compile(r"XDG_|JUPYTER_|IPYTHONDIR|MPLCONFIGDIR|HF_HOME|TORCHINDUCTOR_|TRITON_|COURSE_PROGRESS_DIR")


@dataclass(frozen=True)
class Condition:
    """What is unusual about a run: namespaces of its own, the environment, how often the cells run in one kernel."""

    name: str
    wrapper: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: re.Pattern[str] | None = None
    times: int = 1


CONDITIONS = (
    Condition("alone"),
    Condition("twice", times=2),
    Condition("one thread", environment={"OMP_NUM_THREADS": "1"}),
    Condition("read-only", (*UNSHARE, "--mount", "sh", "-c", READ_ONLY, str(ROOT))),
    Condition("no home", environment=NO_HOME, without=HOMES),
    Condition("no network", (*UNSHARE, "--net", "sh", "-c", NO_NETWORK, "sh")),
)


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_a_notebook_shows_the_same_wherever_it_runs(condition: Condition, notebook_path: Path, tmp_path: Path) -> None:
    stored = nbformat.read(notebook_path, as_version=4)
    for cells in run(stored, notebook_path.parent, condition, tmp_path):
        assert differences(stored.cells, cells) == {}


def test_a_notebook_goes_on_after_wrong_answers(notebook_path: Path, tmp_path: Path) -> None:
    stored, answered = (nbformat.read(notebook_path, as_version=4) for _ in range(2))
    exercises = list(find_exercises(stored))
    for exercise in exercises:
        answered.cells[exercise.stub].source = with_check(exercise, gives_back_its_argument(stored, exercise))
    (cells,) = run(answered, notebook_path.parent, CONDITIONS[0], tmp_path)
    for exercise in exercises:
        assert "not attempted yet" in "\n".join(shown(stored.cells[exercise.stub]))
        assert "not yet" in "\n".join(shown(cells[exercise.stub]))
    about_answers = {index for exercise in exercises for index in (exercise.stub, exercise.solution)}
    assert not differences(stored.cells, cells).keys() - about_answers


@pytest.mark.parametrize("again", range(1, NBVAL_ROUNDS + 1))
def test_nbval_finds_nothing(again: int, notebook_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", str(notebook_path)]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-6000:]


def run(notebook: nbformat.NotebookNode, folder: Path, condition: Condition, private: Path) -> list[list]:
    """Run ``notebook`` in a process of its own and return the executed cells of each pass; fail where a cell does."""
    if condition.wrapper:
        if shutil.which(condition.wrapper[0]) is None:
            pytest.skip(f"{condition.wrapper[0]} is not installed")
        tried = subprocess.run([*condition.wrapper, "true"], capture_output=True, text=True, timeout=30)
        if tried.returncode:
            pytest.skip(f"this machine cannot make it: {' '.join(tried.stderr.split())}")
    passes = [
        nbformat.NotebookNode({**cell, "id": f"{cell.id}-{turn}"})
        for turn in range(condition.times)
        for cell in notebook.cells
    ]
    usual = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", "COURSE_PROGRESS_DIR": str(private)}
    kept = {name: value for name, value in usual.items() if not (condition.without and condition.without.match(name))}
    done = subprocess.run(
        [*condition.wrapper, sys.executable, str(Path(__file__).with_name("one_run.py")), str(folder)],
        cwd=ROOT,
        env={**kept, "JUPYTER_RUNTIME_DIR": str(private), "PYTHONPATH": str(ROOT), **condition.environment},
        input=nbformat.writes(nbformat.NotebookNode({**notebook, "cells": passes})),
        capture_output=True,
        text=True,
        timeout=LIMIT_S * condition.times,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    cells = nbformat.reads(done.stdout, as_version=4).cells
    return [cells[start : start + len(notebook.cells)] for start in range(0, len(cells), len(notebook.cells))]


def shown(cell: nbformat.NotebookNode) -> list[str]:
    """Return the texts that a code cell shows, without what may differ from run to run; none where all of it may."""
    if not is_code(cell) or has_tag(cell, "nbval-ignore-output"):
        return []
    texts = [
        output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    ]
    for pattern, replacement in SANITIZE:
        texts = [pattern.sub(replacement, text) for text in texts]
    return texts


def differences(stored: list, cells: list) -> dict[int, tuple[list[str], list[str]]]:
    """Return by position what the stored cells show and what the fresh ones show, where that is not the same."""
    pairs = [(shown(before), shown(now)) for before, now in zip(stored, cells, strict=True)]
    return {index: pair for index, pair in enumerate(pairs) if pair[0] != pair[1]}
