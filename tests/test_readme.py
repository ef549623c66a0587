"""README.md says what is so: its commands and its code run, its numbers are counted anew, its pictures redrawn."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from tools.readme import FOLDER, numbers, with_numbers, write_pictures

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCED.findall(README)
LINES = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
INLINE = re.findall(r"`([^`\n]+)`", FENCED.sub("", README))
PROGRAMS = ("make", "course", "conda", "torchrun", "python3", ".venv/bin/python", ".venv/bin/course", "%pip")
COMMANDS = [*LINES, *(text for text in dict.fromkeys(INLINE) if text.split()[0] in PROGRAMS and text not in LINES)]

# the test that really does what a target of make does; here only its recipe is printed
REALLY_RUN = {
    "": "test_set_up.py::test_make_alone_lists_every_target_in_a_line",
    "lab": "test_set_up.py::test_an_interrupted_set_up_goes_on_in_the_same_environment",
    "test": "test_authoring.py::test_strict_nbval_passes_on_what_was_executed_and_fails_on_a_changed_output",
    "browser": "browser/test_notebooks_in_browser.py::test_each_widget_follows_the_hand",
    "soak": "test_soak.py::test_a_notebook_meets_its_condition",
    "edit": "test_authoring.py::test_an_edit_in_the_text_view_keeps_ids_metadata_and_the_outputs_of_other_cells",
    "update": "test_authoring.py::test_executing_between_two_edits_is_no_conflict",
    "run": "test_authoring.py::test_executing_again_gives_the_same_bytes",
    "student": "test_authoring.py::test_a_students_copy_holds_no_solution_and_runs_from_top_to_bottom",
    "handbook": "test_handbook.py::test_the_command_writes_the_handbook",
    "html": "test_site.py::test_every_chapter_is_whole",
    "gpu": "test_bench.py::test_every_implementation_on_the_gpu_is_right_and_can_be_captured",
}


def stand_in(command: str) -> list[str]:
    """Return what shows, without installing, training or opening anything, that ``command`` is one that works."""
    program, *arguments = shlex.split(command)
    python = [sys.executable, "-m"]
    if program == "make":
        return ["make", "-n", *arguments]
    if program in ("course", ".venv/bin/course"):
        return [*python, "course_utils", *arguments[:1], "--help"]
    if program == "torchrun":
        return [*python, "torch.distributed.run", "--help"]
    if program == "conda":
        return ["conda", *arguments[: 2 if arguments[0] == "env" else 1], "--help"]
    if program == "%pip":
        return [*python, "pip", arguments[0], "--help"]
    if not arguments:  # the interpreter, by its name alone
        return [sys.executable, "--version"]
    module, *rest = arguments[1:]
    if module == "pip":
        return [*python, "pip", rest[0], "--help"]
    return [*python, module, *(["--help"] if module in ("venv", "jupyterlab") else rest)]


@cache
def run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    assert {"make", "make lab", "make test", "course train --help", "%pip install anywidget"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_understood_and_its_files_are_there(command: str) -> None:
    words = shlex.split(command)[1:]
    for word in words:
        if re.search(r"\.(ipynb|txt|yml)$", word):
            assert (ROOT / word).is_file(), word
    said = run(*stand_in(command))
    for word in words:
        if command.startswith("course ") and re.search(r"[a-z]-[a-z]|^--", word):  # an option, or what is to be trained
            assert word in said, word
        if command.startswith("%pip") and word.startswith("--"):
            assert word in said, word


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make")])
def test_what_make_does_is_done_by_a_test(command: str) -> None:
    target = next((word for word in command.split()[1:] if "=" not in word), "")
    file, test = REALLY_RUN[target].split("::")
    assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [block for kind, block in BLOCKS if kind == "python"])
def test_the_code_runs_and_shows_agreement(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {})
    table = capsys.readouterr().out
    assert "all agree" in table


def test_the_numbers_are_counted_anew() -> None:
    """Where this fails, `python -m tools readme` corrects them."""
    counted = numbers()
    assert with_numbers(README, counted) == README
    assert not [words for words, number in counted.items() if f"{number:,} {words}" not in README]


def test_the_pictures_are_those_that_would_be_drawn_today(tmp_path: Path) -> None:
    """Where this fails, `python -m tools readme` draws them."""
    fresh = write_pictures(tmp_path)
    shown = dict(re.findall(r"!\[([^\]]*)\]\(" + re.escape(str(FOLDER)) + r"/([\w.]+)\)", README))
    assert sorted(shown.values()) == sorted(path.name for path in fresh)
    assert all(len(alternative) > 40 for alternative in shown)
    for path in fresh:
        stored, today = (matplotlib.image.imread(file)[..., :3] for file in (ROOT / FOLDER / path.name, path))
        assert stored.shape == today.shape, path.name
        # another FreeType moves the edges of letters, another record moves bars
        assert np.mean(np.abs(stored - today).max(-1) > 0.05) < 0.02, path.name
        assert (ROOT / FOLDER / path.name).stat().st_size < 150_000


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
