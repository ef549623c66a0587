"""Every notebook in every condition: it goes on to its end, and shows what the stored one shows."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from soak.conditions import CONDITIONS, LIMIT_S, ROOT, Condition, run_notebook, shown
from test_typed_answers import KNOWN_MISTAKES

from tools.notebooks import find_exercises

NBVAL_ROUNDS = 10


@pytest.mark.parametrize(
    "condition",
    [pytest.param(condition, marks=pytest.mark.soak(condition.name), id=condition.name) for condition in CONDITIONS],
)
def test_a_notebook_shows_the_same_wherever_it_runs(condition: Condition, notebook_path: Path) -> None:
    if reason := condition.missing():
        pytest.skip(reason)
    stored = nbformat.read(notebook_path, as_version=4).cells
    for cells in run_notebook(notebook_path, condition):
        different = differences(stored, cells)
        assert different == {}


@pytest.mark.soak("wrong answers")
def test_a_notebook_goes_on_after_wrong_answers_and_names_each(notebook_path: Path) -> None:
    stored = nbformat.read(notebook_path, as_version=4)
    exercises = list(find_exercises(stored))
    if not exercises:
        pytest.skip(f"{notebook_path.stem} has no exercise")
    mistakes = [KNOWN_MISTAKES[notebook_path.stem, exercise.names[0]] for exercise in exercises]
    answers = {exercise.stub: code for exercise, (code, _) in zip(exercises, mistakes, strict=True)}
    (cells,) = run_notebook(notebook_path, CONDITIONS[0], answers)
    for exercise, (_, words) in zip(exercises, mistakes, strict=True):
        assert exercise.check is not None
        assert "not attempted yet" in "\n".join(shown(stored.cells[exercise.check]))
        assert words in "\n".join(shown(cells[exercise.check]))
    about_answers = {index for exercise in exercises for index in (exercise.stub, exercise.check, exercise.solution)}
    elsewhere = {index: pair for index, pair in differences(stored.cells, cells).items() if index not in about_answers}
    assert elsewhere == {}


@pytest.mark.soak(f"nbval, {NBVAL_ROUNDS} times")
@pytest.mark.parametrize("again", range(1, NBVAL_ROUNDS + 1))
def test_nbval_finds_nothing(again: int, notebook_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", str(notebook_path)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def differences(stored: list, cells: list) -> dict[int, tuple[list[str], list[str]]]:
    """Return by position what the stored cells show and what the fresh ones show, where that is not the same."""
    pairs = [(shown(before), shown(now)) for before, now in zip(stored, cells, strict=True)]
    return {index: pair for index, pair in enumerate(pairs) if pair[0] != pair[1]}
