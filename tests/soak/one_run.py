"""``python one_run.py FOLDER``: execute the notebook on stdin in FOLDER and write it to stdout."""

import sys

import nbformat
from nbclient import NotebookClient

from tools.notebooks import CELL_TIMEOUT_S

if __name__ == "__main__":
    notebook = nbformat.read(sys.stdin, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=3 * CELL_TIMEOUT_S,  # the machine may be busy, and one thread is slower than two
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        coalesce_streams=True,
        resources={"metadata": {"path": sys.argv[1]}},
    )
    client.execute()
    nbformat.write(notebook, sys.stdout)
