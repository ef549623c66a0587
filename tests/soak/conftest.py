"""The soak's choice of notebooks and its bound in time: for hours, where --soak asks for it (make
soak)."""

import time

import pytest

from tools.notebooks import NOTEBOOKS, find_notebooks

STARTED = time.monotonic()


# after the conditions, so that each goes through all notebooks before the next
@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    """Give a test of a notebook every notebook there is, or those that --chapter names."""
    if "notebook_path" in metafunc.fixturenames:
        paths = find_notebooks(metafunc.config.getoption("--chapter")) if NOTEBOOKS.is_dir() else []
        metafunc.parametrize(
            "notebook_path", [path.resolve() for path in paths], ids=[path.stem for path in paths]
        )


def pytest_ignore_collect(config):
    """Leave out what takes hours where nobody asked for it."""
    return None if config.getoption("--soak") else True


def pytest_runtest_setup(item):
    """Start nothing after the time is up."""
    minutes = item.config.getoption("--soak-minutes")
    if time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(f"the time was up: SOAK_MINUTES={minutes:g}")
