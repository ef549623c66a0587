"""What the browser tests share: a Chromium, a JupyterLab on a copy of the notebooks, and each
notebook run in it."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make browser installs it")

from jupyterlab_driver import CHROMIUM_FLAGS, find_chromium, open_notebook, serve
from playwright.sync_api import sync_playwright
from xdist.scheduler import LoadScopeScheduling

from tools.notebooks import NOTEBOOKS, find_notebooks

# for --quick: the first has an exercise and a widget and is tried in full, the others are run and
# looked at
QUICK = ["00", "02", "15"]


def pytest_ignore_collect(config):
    """Leave out what drives a browser where nobody asked for it."""
    return None if config.getoption("--browser") else True


def pytest_collection_modifyitems(config, items):
    """Skip what drives a browser where there is none."""
    in_a_browser = [item for item in items if Path(__file__).parent in item.path.parents]
    if config.getoption("--quick"):
        items[:] = [item for item in items if not _is_left_out(item)]
    for item in in_a_browser:
        item.add_marker(pytest.mark.browser)
        if find_chromium() is None:
            reason = (
                "no Chromium: install one (Debian: apt-get install chromium), or name it in "
                "CHROMIUM"
            )
            item.add_marker(pytest.mark.skip(reason=reason))
    # the site takes longest: last of all, it would leave the other process idle
    items.sort(key=lambda item: "notebook_path" in getattr(item, "fixturenames", ()))


def _is_left_out(item):
    """Whether ``--quick`` leaves this test to ``make browser``: it looks closer, at another
    notebook than the first."""
    return item.get_closest_marker("thorough") is not None and f"[{QUICK[0]}" not in item.nodeid


def pytest_generate_tests(metafunc):
    """Give a test that opens a notebook every notebook there is, or those that --chapter or --quick
    name."""
    if "notebook_path" in metafunc.fixturenames:
        chapters = (
            QUICK
            if metafunc.config.getoption("--quick")
            else metafunc.config.getoption("--chapter")
        )
        paths = find_notebooks(chapters) if NOTEBOOKS.is_dir() else []
        metafunc.parametrize(
            "notebook_path", paths, ids=[path.stem for path in paths], scope="session"
        )


class _ByNotebook(LoadScopeScheduling):
    """With ``-n 2``: all tests of one notebook go to one process, which opens it once."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        _, _, notebook = test.partition("[")
        return notebook if notebook[:2].isdigit() else file


def pytest_xdist_make_scheduler(config, log):
    """Leave every other run its own way to share out tests."""
    if not config.getoption("--browser"):
        return None
    config.option.loadscopereorder = False  # which would put those with the most tests first
    return _ByNotebook(config, log)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A JupyterLab on a copy of the notebooks, so that running and typing change nothing here."""
    root, private = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("jupyter")
    ignored = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    shutil.copytree(NOTEBOOKS, root / NOTEBOOKS.name, ignore=ignored)
    for file in ("README.md", "LICENSE"):
        if Path(file).exists():
            shutil.copy(file, root)
    with serve(root, private) as lab:
        yield lab


@pytest.fixture(scope="session")
def opened(browser, server, notebook_path):
    """One notebook, open and run from top to bottom; pytest runs all tests of one before it opens
    the next."""
    notebook = open_notebook(browser, server, notebook_path.as_posix())
    notebook.run_all()
    yield notebook
    notebook.close()
