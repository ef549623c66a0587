"""README.md says what is so: its commands and its code run, its links lead somewhere, its numbers
are counted anew."""

import contextlib
import io
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from PIL import Image

import course_utils
from chapters.contents import CHAPTERS
from course_utils.__main__ import main as course
from tools.readme import numbers, repository, with_addresses, with_numbers

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = Path(".github/course.gif")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCED.findall(README)
LINES = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
COMMANDS = [*LINES, *re.findall(r"`([^`\n]+)`", FENCED.sub("", README))]


def commands_of(program):
    return [words[1:] for command in COMMANDS if (words := shlex.split(command))[:1] == [program]]


def help_of(*command):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:
        course([*command, "--help"])
    return said.getvalue()


def test_every_target_of_make_that_the_readme_or_github_names_is_there():
    workflows = {path: path.read_text() for path in (ROOT / ".github").rglob("*.yml")}
    assert all(map(yaml.safe_load, workflows.values()))
    on_github = re.findall(r"run: make (.*)", "\n".join(workflows.values()))
    words = {
        word for command in [*commands_of("make"), *map(shlex.split, on_github)] for word in command
    }
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"lab", "test"} <= {word for word in words if "=" not in word} <= set(targets)


def test_every_command_of_the_course_is_there_with_its_options():
    known = help_of()
    for command, *words in filter(None, commands_of("course") + commands_of(".venv/bin/course")):
        assert f" {command} " in known
        for word in words:
            if word.startswith("--") or "-" in word:
                assert word in help_of(command), word


def test_every_file_that_a_command_or_a_link_names_is_there():
    files = [
        word for line in LINES for word in line.split() if re.search(r"\.(ipynb|txt|yml)$", word)
    ]
    links = [
        target
        for target in re.findall(r"\]\(([^)#]+)", README)
        if not target.startswith("https://")
    ]
    assert files
    made = [re.sub("^learn/", "notebooks/", file) for file in files]  # `make learn` makes them
    assert [file for file in made + links if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("code", [block for kind, block in BLOCKS if kind == "python"])
def test_the_code_runs_and_shows_agreement(code, capsys):
    exec(code, {})
    assert "all agree" in capsys.readouterr().out


def test_the_numbers_are_counted_anew_and_the_pictures_are_described():
    """Where this fails, `python -m tools readme` corrects them."""
    counted = numbers()
    assert with_numbers(README, counted) == README
    assert not [words for words, number in counted.items() if f"{number:,} {words}" not in README]
    [alternative] = re.findall(r"!\[([^\]]*)\]\(" + re.escape(str(PICTURE)) + r"\)", README)
    assert len(alternative) > 40
    with Image.open(ROOT / PICTURE) as picture:
        assert picture.n_frames > 20
    assert (ROOT / PICTURE).stat().st_size < 1_000_000


MINE = "https://github.com/somebody/their-course"


def test_one_setting_makes_every_address():
    """Where this fails, `python -m tools readme` writes them."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert with_addresses(README, repository()) == README
    assert with_addresses(citation, repository()) == citation
    page, cited = with_addresses(README, MINE), with_addresses(citation, MINE)
    addresses = re.findall(r"https://[^\s)]+", page)
    ours = [address for address in addresses if "somebody" in address]
    assert ours[0] == "https://somebody.github.io/their-course/"  # the live site first
    assert any(
        address.startswith("https://mybinder.org/v2/gh/somebody/their-course/HEAD")
        for address in ours
    )
    colab = "https://colab.research.google.com/github/somebody/their-course/blob/learn/"
    opened = [address.removeprefix(colab) for address in ours if address.startswith(colab)]
    assert opened == [chapter.file for chapter in CHAPTERS if chapter.is_written]
    assert f"git+{MINE}" in page
    assert f"`git clone {MINE}`" in page
    assert f"repository-code: {MINE}\n" in cited
    unset = with_addresses(README, "")
    assert "Unpack the archive" in unset.partition("```sh\nmake lab")[0]
    assert with_addresses(page, "") == unset


def test_the_version_is_the_same_wherever_it_stands():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest.groups() == (project["version"], citation["date-released"])
    assert citation["version"] == project["version"] == course_utils.__version__
