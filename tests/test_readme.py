"""README.md says what is so: its commands and its code run, its links lead somewhere, its numbers are counted anew."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tools.readme import FOLDER, numbers, with_numbers

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCED.findall(README)
LINES = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
COMMANDS = [*LINES, *re.findall(r"`([^`\n]+)`", FENCED.sub("", README))]


def commands_of(program: str) -> list[list[str]]:
    return [words[1:] for command in COMMANDS if (words := shlex.split(command))[:1] == [program]]


def help_of(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command, "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_target_of_make_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {word for words in commands_of("make") for word in words if "=" not in word}
    assert {"lab", "test"} <= named <= set(targets)


def test_every_command_of_the_course_is_there_with_its_options() -> None:
    known = help_of("course_utils")
    for command, *words in filter(None, commands_of("course") + commands_of(".venv/bin/course")):
        assert f" {command} " in known
        for word in words:
            if word.startswith("--") or "-" in word:
                assert word in help_of("course_utils", command), word


def test_every_file_that_a_command_or_a_link_names_is_there() -> None:
    files = [word for line in LINES for word in line.split() if re.search(r"\.(ipynb|txt|yml)$", word)]
    links = [target for target in re.findall(r"\]\(([^)#]+)", README) if not target.startswith("https://")]
    assert files
    assert [file for file in files + links if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("code", [block for kind, block in BLOCKS if kind == "python"])
def test_the_code_runs_and_shows_agreement(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {})
    assert "all agree" in capsys.readouterr().out


def test_the_numbers_are_counted_anew_and_the_pictures_are_described() -> None:
    """Where this fails, `python -m tools readme` corrects them."""
    counted = numbers()
    assert with_numbers(README, counted) == README
    assert not [words for words, number in counted.items() if f"{number:,} {words}" not in README]
    shown = dict(re.findall(r"!\[([^\]]*)\]\(" + re.escape(str(FOLDER)) + r"/([\w.]+)\)", README))
    assert all(len(alternative) > 40 for alternative in shown)
