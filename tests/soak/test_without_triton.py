"""Chapter 11 where Triton is not installed: from top to bottom, in words."""

import subprocess
import sys

from chapters.contents import NOTEBOOKS

RUN_NOTEBOOK = """
import json, linecache, pathlib, sys

sys.modules["triton"] = None  # as if it were not installed
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
cells = json.loads(pathlib.Path(sys.argv[1]).read_text())["cells"]
for cell in cells:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"])).raise_error()
shell.run_cell("a_name_that_nothing_made").raise_error()
"""


def test_without_triton_the_chapter_runs_from_top_to_bottom():
    notebook = next(NOTEBOOKS.glob("11_*.ipynb"))
    done = subprocess.run(
        [sys.executable, "-c", RUN_NOTEBOOK, notebook], capture_output=True, text=True, timeout=300
    )
    *_, last = done.stderr.splitlines()
    assert last == "NameError: name 'a_name_that_nothing_made' is not defined"
    assert done.stdout.count("kernels need Triton: pip install triton") == 1
