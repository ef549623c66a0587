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
from answers import gives_back_its_argument, with_check

from tools.notebooks import CELL_TIMEOUT_S, execute, find_exercises, is_code
from tools.student import make_student_copy

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 900  # for one run; the longest notebook takes two minutes on two cores
NBVAL = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:cacheprovider",
    "-c",
    os.devnull,
    "--nbval",
    "-p",
    "conftest",
    "--threads=2",
    "--nbval-current-env",
    f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval_sanitize.cfg'}",
    # the machine may be busy, and one thread is slower than two
    f"--nbval-cell-timeout={3 * CELL_TIMEOUT_S}",
)
# a process that is root only inside namespaces of its own may mount and set up interfaces there
UNSHARE = (
    ("unshare",)
    if not hasattr(os, "geteuid") or os.geteuid() == 0
    else ("unshare", "--map-root-user")
)
# the whole checkout, environment included; the shell stood in the writable one, so it goes there
# anew
READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" || exit 1
if touch .writable 2>/dev/null; then
    rm .writable; echo "the checkout is still writable" >&2; exit 1
fi
exec "$@"
"""
# a fresh network namespace has neither an address nor a route; kernels talk to their notebook over
# the loopback
NO_NETWORK = 'ip link set lo up && exec "$@"'
# below a file no directory can be made, not even by root
NO_HOME = {"HOME": os.devnull + "/home", "USERPROFILE": os.devnull + "/home"}
HOMES = re.compile(
    r"XDG_|JUPYTER_|IPYTHONDIR|MPLCONFIGDIR|HF_HOME|TORCHINDUCTOR_|TRITON_|COURSE_PROGRESS_DIR"
)


@dataclass(frozen=True)
class Condition:
    """What is unusual about a run: namespaces of its own, the environment, how often the cells run
    in one kernel."""

    name: str
    wrapper: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: re.Pattern[str] | None = None
    times: int = 1


CONDITIONS = (
    *(Condition(f"alone {time}") for time in range(1, 11)),
    Condition("twice", times=2),
    Condition("read-only", (*UNSHARE, "--mount", "sh", "-c", READ_ONLY, str(ROOT))),
    Condition("no home", environment=NO_HOME, without=HOMES),
    Condition("no network", (*UNSHARE, "--net", "sh", "-c", NO_NETWORK, "sh")),
)


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_a_notebook_shows_the_same_wherever_it_runs(condition, notebook_path, tmp_path):
    notebook = nbformat.read(notebook_path, as_version=4)
    notebook.cells = [
        nbformat.NotebookNode({**cell, "id": f"{cell.id}-{turn}"})
        for turn in range(condition.times)
        for cell in notebook.cells
    ]
    run_nbval(notebook, condition, tmp_path)


def test_a_notebook_goes_on_after_wrong_answers(notebook_path, tmp_path):
    notebook = nbformat.read(notebook_path, as_version=4)
    for exercise in list(find_exercises(notebook)):
        notebook.cells[exercise.stub].source = with_check(
            exercise, gives_back_its_argument(notebook, exercise)
        )
        for index in (exercise.stub, exercise.solution):
            notebook.cells[index].metadata.setdefault("tags", []).append("nbval-ignore-output")
    run_nbval(notebook, CONDITIONS[0], tmp_path)


def test_a_students_copy_runs_from_top_to_bottom(notebook_path, tmp_path):
    copy = make_student_copy(notebook_path, tmp_path)
    assert execute(copy, timeout=3 * CELL_TIMEOUT_S)
    assert all(cell.execution_count for cell in nbformat.read(copy, 4).cells if is_code(cell))


def run_nbval(notebook, condition, private):
    """Run ``notebook`` in a process of its own; fail where a cell does or shows something else than
    is stored."""
    if condition.wrapper:
        if shutil.which(condition.wrapper[0]) is None:
            pytest.skip(f"{condition.wrapper[0]} is not installed")
        tried = subprocess.run(
            [*condition.wrapper, "true"], capture_output=True, text=True, timeout=30
        )
        if tried.returncode:
            pytest.skip(f"this machine cannot make it: {' '.join(tried.stderr.split())}")
    nbformat.write(notebook, private / "copy.ipynb")
    # "-n 2" is meant for this pytest, not for the one inside
    usual = {**os.environ, "PYTEST_ADDOPTS": ""}
    kept = {
        name: value
        for name, value in usual.items()
        if not (condition.without and condition.without.match(name))
    }
    done = subprocess.run(
        [*condition.wrapper, *NBVAL, f"--rootdir={private}", str(private / "copy.ipynb")],
        cwd=ROOT,
        env={
            **kept,
            "JUPYTER_RUNTIME_DIR": str(private),
            "PYTHONPATH": str(ROOT),
            **condition.environment,
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S * condition.times,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
