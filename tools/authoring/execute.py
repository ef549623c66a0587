"""Run a notebook in a fresh kernel, as the course commits it."""

import os
import tempfile
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError, CellTimeoutError, DeadKernelError

from tools.authoring.files import read_notebook, write_notebook
from tools.authoring.normalize import normalize

__all__ = ["CELL_TIMEOUT_S", "ExecutionFailed", "execute"]

CELL_TIMEOUT_S = 120


class ExecutionFailed(Exception):
    """A cell failed, took too long, or killed its kernel; the message names the notebook and the cell."""


def execute(path: Path, *, timeout: float = CELL_TIMEOUT_S) -> bool:
    """Run the notebook at ``path`` from top to bottom and replace it by its executed, normalized form.

    A cell may raise only where it is tagged ``raises-exception``. When anything goes wrong, the file stays as it was.

    Args:
        path: a notebook.
        timeout: seconds that a cell may take.

    Returns:
        Whether the file changed.

    Raises:
        ExecutionFailed: a cell failed, took too long, or killed its kernel.
    """
    notebook = read_notebook(path)
    running: list[int] = []  # the cell that runs now, so that a failure can name it

    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=[
            "--log-level=ERROR"
        ],  # a kernel warns of its unencrypted connection, which stays on this machine
        coalesce_streams=True,  # how a program's prints are cut into messages is a matter of timing
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=lambda cell, cell_index: running.append(cell_index),
    )
    with tempfile.TemporaryDirectory() as fresh_progress:
        try:
            client.execute(env=_kernel_environment(fresh_progress))
        except (CellControlSignal, CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            index = running[-1] if running else 0
            raise ExecutionFailed(
                _explain(error, path, index, notebook.cells[index].get("id", "?"), timeout)
            ) from error
    normalize(notebook)
    return write_notebook(notebook, path)


def _kernel_environment(progress: str) -> dict[str, str]:
    """Return the environment of a kernel whose outputs do not depend on who runs it.

    Nothing that the author has solved shows in chapter 00, and PyTorch adds up in the order that two threads give.
    """
    return {
        **os.environ,
        "COURSE_PROGRESS_DIR": progress,
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",
    }


def _explain(error: Exception, path: Path, index: int, cell_id: str, timeout: float) -> str:
    if isinstance(error, CellTimeoutError):
        what = f"took longer than {timeout:g} s: make it smaller, or move the long part into recorded results"
    elif isinstance(error, CellExecutionError):
        what = f"{error.ename}: {error.evalue.splitlines()[0] if error.evalue else ''}\n{error.traceback}"
    else:
        what = f"the kernel died ({error}): look for a crash or for too little memory"
    return f"{path}, cell {index} (id {cell_id}): {what}\n{path} is as it was."
