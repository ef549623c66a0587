"""Circumstances that a notebook must run in, and one run of it there, in a process of its own."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from tools.notebooks import has_tag, is_code

__all__ = ["CONDITIONS", "ROOT", "Condition", "run_notebook", "shown"]

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 900  # for one run; the longest notebook takes two minutes on two cores
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
    """What is unusual about a run.

    Args:
        name: the column of the table.
        wrapper: the command that starts the run's process in namespaces of its own.
        environment: variables that are set.
        without: variables that are not, by how their names begin.
        times: how often the cells run, one pass after the other in one kernel.
    """

    name: str
    wrapper: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: re.Pattern[str] | None = None
    times: int = 1

    def missing(self) -> str:
        """Return why this machine cannot make the condition, or nothing where it can."""
        if not self.wrapper:
            return ""
        if shutil.which(self.wrapper[0]) is None:
            return f"{self.name}: {self.wrapper[0]} is not installed"
        tried = subprocess.run([*self.wrapper, "true"], capture_output=True, text=True, timeout=30, check=False)
        return f"{self.name}: {' '.join(tried.stderr.split())}" if tried.returncode else ""


CONDITIONS = (
    Condition("alone"),
    Condition("twice", times=2),
    Condition("one thread", environment={"OMP_NUM_THREADS": "1"}),
    Condition("read-only", (*UNSHARE, "--mount", "sh", "-c", READ_ONLY, str(ROOT))),
    Condition("no home", environment=NO_HOME, without=HOMES),
    Condition("no network", (*UNSHARE, "--net", "sh", "-c", NO_NETWORK, "sh")),
)


def run_notebook(path: Path, condition: Condition, answers: Mapping[int, str] | None = None) -> list[list]:
    """Run the notebook at ``path`` and fail where a cell does; nothing is written beside it.

    Args:
        path: a notebook.
        condition: how.
        answers: source code by the position of the cell that it replaces.

    Returns:
        The executed cells of each pass.
    """
    notebook = nbformat.read(path, as_version=4)
    for index, source in (answers or {}).items():
        notebook.cells[index].source = source
    count = len(notebook.cells)
    notebook.cells = [
        nbformat.NotebookNode({**cell, "id": f"{cell.id}-{turn}"})
        for turn in range(condition.times)
        for cell in notebook.cells
    ]
    with tempfile.TemporaryDirectory(prefix="course-soak-") as folder:
        done = subprocess.run(
            [*condition.wrapper, sys.executable, str(Path(__file__).with_name("one_run.py")), str(path.parent)],
            cwd=ROOT,
            env=_environment(condition, folder),
            input=nbformat.writes(notebook),
            capture_output=True,
            text=True,
            timeout=LIMIT_S * condition.times,
            check=False,
        )
    if done.returncode != 0:
        pytest.fail(f"{path.name}, {condition.name}:\n{done.stderr[-6000:]}", pytrace=False)
    cells = nbformat.reads(done.stdout, as_version=4).cells
    return [cells[start : start + count] for start in range(0, len(cells), count)]


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


def _environment(condition: Condition, folder: str) -> dict[str, str]:
    """Return the variables of the run's process: progress starts anew, and Jupyter has a place for its sockets."""
    usual = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", "COURSE_PROGRESS_DIR": folder}
    kept = {name: value for name, value in usual.items() if not (condition.without and condition.without.match(name))}
    return {**kept, "JUPYTER_RUNTIME_DIR": folder, **condition.environment}
