"""The soak itself: each condition is in force, a failing cell fails the run, and the table tells what came of it."""

from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from soak.conditions import CONDITIONS, ROOT, run_notebook, shown
from soak.tables import tables

# a cell that raises where its condition is not in force
ONLY_THERE = {
    "alone": "import os\nassert os.environ['OMP_NUM_THREADS'] == '2'",
    "twice": "passes = globals().get('passes', 0) + 1\nprint(passes)",
    "one thread": "import os\nassert os.environ['OMP_NUM_THREADS'] == '1'",
    "read-only": f"import pytest\nwith pytest.raises(OSError, match='Read-only'):\n    open({str(ROOT / 'x')!r}, 'w')",
    "no home": (
        "import pathlib, pytest\nwith pytest.raises(OSError):\n"
        "    pathlib.Path.home().mkdir(parents=True, exist_ok=True)"
    ),
    "no network": (
        "import pytest, socket\nwith pytest.raises(OSError, match='unreachable'):\n"
        "    socket.create_connection(('192.0.2.1', 80), timeout=9)"  # an address that is reserved for examples
    ),
}


def write(folder: Path, *sources: str) -> Path:
    path = folder / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources]), path)
    return path


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_a_notebook_meets_its_condition(condition, tmp_path):
    if reason := condition.missing():
        pytest.skip(reason)
    passes = run_notebook(write(tmp_path, ONLY_THERE[condition.name], "print(6 * 7)"), condition)
    assert [shown(cells[1]) for cells in passes] == [["42\n"]] * condition.times
    if condition.times == 2:
        assert [shown(cells[0]) for cells in passes] == [["1\n"], ["2\n"]]


def test_a_cell_that_fails_fails_the_run_and_is_shown(tmp_path):
    with pytest.raises(pytest.fail.Exception, match=r"small.ipynb, alone:(.|\n)*division by zero"):
        run_notebook(write(tmp_path, "1 / 1"), CONDITIONS[0], {0: "1 / 0"})


def test_a_condition_that_cannot_be_made_gives_its_reason():
    assert CONDITIONS[0].missing() == ""
    broken = CONDITIONS[0].__class__("no moon", ("sh", "-c", "echo the moon stays >&2; exit 1"))
    assert broken.missing() == "no moon: the moon stays"
    assert CONDITIONS[0].__class__("no moon", ("no-such-command",)).missing().endswith("is not installed")


def test_the_tables_tell_one_run_from_ten_and_what_was_never_run():
    def report(outcome, row, column, file="notebooks"):
        return SimpleNamespace(
            nodeid=f"{file}::test",
            user_properties=[("soak", (row, column))],
            duration=1.6,
            **{kind: kind == outcome for kind in ("passed", "failed", "skipped")},
        )

    notebooks, walks = tables(
        [
            report("passed", "00", "alone"),
            report("failed", "01", "alone"),
            *(report("passed", "00", "nbval") for _ in range(7)),
            *(report("skipped", "00", "nbval") for _ in range(3)),
            report("skipped", "widget", "states", file="walks"),
        ]
    )
    assert notebooks.columns == ("", "alone", "nbval")
    assert notebooks.rows == [("00", "2 s", "7 of 10, 11 s"), ("01", "FAILED", "not run")]
    assert walks.rows == [("widget", "skipped")]
