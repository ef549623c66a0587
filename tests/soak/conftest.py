"""The soak's choice of notebooks, its bound in time, and the tables that it ends in, also when it is interrupted."""

import signal
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "browser")]  # where the widgets' states and the known mistakes are

from soak.tables import tables  # noqa: E402 - found in a folder that is added above

from tools.notebooks import NOTEBOOKS, find_notebooks  # noqa: E402

STARTED = time.monotonic()
finished: list[pytest.TestReport] = []


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak(column): takes hours with the others; its column in the table")
    if config.getoption("--soak"):
        for told_to_end in (signal.SIGINT, signal.SIGTERM):  # in the background, too, as Ctrl-C does: with the tables
            signal.signal(told_to_end, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # after the conditions, so that each goes through all notebooks before the next
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test of a notebook every notebook there is, or those that --chapter names."""
    if "notebook_path" in metafunc.fixturenames:
        paths = find_notebooks(metafunc.config.getoption("--chapter")) if NOTEBOOKS.is_dir() else []
        metafunc.parametrize("notebook_path", [path.resolve() for path in paths], ids=[path.stem for path in paths])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note each test's place in the tables; leave out what takes hours where nobody asked for it (make soak does)."""
    of_the_soak = [item for item in items if item.get_closest_marker("soak")]
    for item in of_the_soak:
        row = next(value for name, value in item.callspec.params.items() if name in ("notebook_path", "widget"))  # type: ignore[attr-defined]
        item.user_properties.append(("soak", (getattr(row, "stem", row), item.get_closest_marker("soak").args[0])))
    if not config.getoption("--soak"):
        items[:] = [item for item in items if item not in of_the_soak]
        config.hook.pytest_deselected(items=of_the_soak)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start nothing after the time is up."""
    minutes = item.config.getoption("--soak-minutes")
    if time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(f"the time was up: SOAK_MINUTES={minutes:g}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what the tables are made of."""
    if dict(report.user_properties).get("soak") and (report.when == "call" or not report.passed):
        finished.append(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what came of every widget and every notebook in every condition."""
    if config.getoption("--soak"):
        terminalreporter.section("soak: passed in seconds, failed, or skipped")
        for table in tables(finished):
            terminalreporter.write_line(f"{table}\n")
