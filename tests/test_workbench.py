"""Kernels written in a notebook: what they ask of memory is counted, and without Triton the chapter still runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.book.chapters import NOTEBOOKS
from course_utils.timing.ladder import Case, attempt_elsewhere

ROOT = Path(__file__).parent.parent
HIDDEN = "import sys; sys.modules['triton'] = None\n"  # as if it were not installed

COUNTING = """
import json
import torch
from course_utils import kernels
from course_utils.kernels.workbench import language, requested

triton, tl = language()

@triton.jit
def add_twice(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n) + tl.load(x_ptr + lanes, mask=lanes < n)
    first = tl.load(y_ptr)
    tl.atomic_add(out_ptr + lanes, x + first, mask=lanes < n)

x, y, out = torch.ones(10, dtype=torch.float16), torch.ones(3), torch.zeros(10)
counts = [requested(lambda: add_twice[(3,)](x, y, out, 10, BLOCK=4), x=x, y=y, out=out)]
assert out.tolist() == [3.0] * 10
counts.append(requested(lambda: add_twice[(3,)](x, y, out, 10, BLOCK=4), x=x))
rows, weight, bias = torch.ones(6, 20), torch.ones(20), torch.ones(20)
counts.append(requested(lambda: kernels.layer_norm(rows, (20,), weight, bias), x=rows))
counts.append(requested(lambda: None, x=x))
print(json.dumps([{name: [one.read, one.written] for name, one in count.items()} for count in counts]))
"""

RUN_NOTEBOOK = """
import json, linecache, pathlib, sys
from IPython.display import display

path = pathlib.Path(sys.argv[1])
cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
for number, cell in enumerate(cells):
    source, name = "".join(cell["source"]), f"<cell {number}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), globals())
print(f"ran {len(cells)} cells")
"""


def python(code, *arguments, **environment):
    """What a fresh Python prints; fails with its error where it ends in one."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, timeout=110
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_lane_that_the_mask_lets_through_is_counted():
    pytest.importorskip("triton", reason="Triton is not installed (it exists for Linux only)")
    every, some, norm, none = json.loads(python(COUNTING, TRITON_INTERPRET="1").splitlines()[-1])
    # 10 halves loaded twice; one float for each of 3 programs; 10 floats read and written by atomic additions
    assert every == {"x": [40, 0], "y": [12, 0], "out": [40, 40]}
    assert some == {"x": [40, 0], "others": [12 + 40, 40]}
    assert norm["x"] == [6 * 20 * 4, 0]
    assert norm["others"][1] == 6 * 20 * 4 + 2 * 6 * 4  # y, and two numbers a row for the backward pass
    assert none == {"x": [0, 0]}


@pytest.mark.slow
def test_without_triton_the_chapter_runs_from_top_to_bottom(tmp_path):
    notebook = next(Path(NOTEBOOKS).glob("10_*.ipynb"))
    printed = python(HIDDEN + RUN_NOTEBOOK, str(notebook), COURSE_PROGRESS_DIR=str(tmp_path))
    assert printed.count("kernels need Triton: pip install triton") == 2  # at the top, and where a GPU would be timed
    assert printed.splitlines()[-1].startswith("ran ")


@pytest.mark.slow
def test_a_trial_elsewhere_is_a_trial_with_the_interpreter_off_and_raises_what_it_raised(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    case = Case("rms_norm", "forward", (8, 16), "float32")
    results, left_out = attempt_elsewhere(case, "cpu", 5, 0.05)
    assert {"loops", "built-in"} <= {result["implementation"] for result in results}
    assert all(result["median_ms"] > 0 for result in results)
    assert left_out == []
    with pytest.raises(RuntimeError, match="no_such_device"):
        attempt_elsewhere(case, "no_such_device", 5, 0.05)
