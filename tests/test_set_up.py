"""``make lab`` on machines that are not ready for it: each missing thing ends in one line that says what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ("sh", "awk", "cat", "df", "rm", "uname", "mkdir", "cp", "chmod", "dirname")

# a Python that answers the questions that the set-up asks of one; what it answers is in its environment
FAKE_PYTHON = f"""#!/bin/sh
echo "python $*" >> "$CALLS"
case "$*" in
*version_info*) exit ${{TOO_OLD:-0}} ;;
*python_version*) echo "${{VERSION:-3.12.1}}" ;;
*ensurepip*) exit ${{NO_VENV:-0}} ;;
*tomllib*) exec {sys.executable} "$@" ;;
"-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && cp "$(dirname "$0")/uv" "$4/bin/uv" ;;
*"-m pip "*)
    [ -z "${{PIP_SAYS:-}}" ] || {{ echo "$PIP_SAYS" > "$5"; exit 1; }} ;;
*) exit 3 ;;
esac
"""
FAKE_UV = '#!/bin/sh\necho "uv $*" >> "$CALLS"\n[ -z "${UV_SAYS:-}" ] || { echo "$UV_SAYS" >&2; exit 2; }\n'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the project's set-up files, and beside it a PATH with nothing but the shell's own tools."""
    tools, project = tmp_path / "bin", tmp_path / "project"
    tools.mkdir()
    (project / ".ci").mkdir(parents=True)
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or "/missing")
    for file in ("pyproject.toml", "constraints.txt", ".ci/set_up"):
        shutil.copy(ROOT / file, project / file)
    return project


def install_fake(machine: Path, name: str, text: str) -> None:
    path = machine.parent / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def set_up(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    tools, calls = machine.parent / "bin", machine.parent / "calls"
    return subprocess.run(
        [str(tools / "sh"), ".ci/set_up", ".venv", ".[test]"],
        cwd=machine,
        env={"PATH": str(tools), "CALLS": str(calls), "CONSTRAINTS": "constraints.txt", **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


def with_python(machine: Path) -> None:
    install_fake(machine, "uv", FAKE_UV)
    install_fake(machine, "python3", FAKE_PYTHON)


def test_no_python(machine: Path) -> None:
    assert last_line(set_up(machine)).startswith("set-up: there is no Python here: install 3.11 or newer")


def test_python_too_old(machine: Path) -> None:
    with_python(machine)
    line = last_line(set_up(machine, TOO_OLD="1", VERSION="3.9.18"))
    assert line.startswith("set-up: the course needs Python 3.11 or newer, python3 is 3.9.18: install one")


def test_an_older_default_python_does_not_hide_a_newer_one(machine: Path) -> None:
    install_fake(machine, "uv", FAKE_UV)
    install_fake(machine, "python3", "#!/bin/sh\nexit 1\n")
    install_fake(machine, "python3.12", FAKE_PYTHON)
    done = set_up(machine)
    assert done.returncode == 0, done.stderr
    assert "making .venv with Python 3.12.1" in done.stdout


@pytest.mark.parametrize(
    ("python", "line"),
    [
        ("python9", "set-up: there is no python9: name an interpreter"),
        ("python3", "set-up: the course needs Python 3.11 or newer, python3 is 3.9.18: name another"),
    ],
)
def test_a_named_python_that_will_not_do(machine: Path, python: str, line: str) -> None:
    with_python(machine)
    assert last_line(set_up(machine, PYTHON=python, TOO_OLD="1", VERSION="3.9.18")).startswith(line)


def test_no_venv_module(machine: Path) -> None:
    with_python(machine)
    assert "lacks its venv module: on Debian or Ubuntu, sudo apt install" in last_line(set_up(machine, NO_VENV="1"))
    assert not (machine / ".venv").exists()


def test_no_disk(machine: Path) -> None:
    with_python(machine)
    install_fake(machine, "df", "#!/bin/sh\necho header\necho disk 9 9 102400 9% /\n")
    assert "100 MB are free on this disk and the course needs 2500: make room" in last_line(set_up(machine))
    assert not (machine / ".venv").exists()


@pytest.mark.parametrize(
    ("pip_says", "line"),
    [
        ("NewConnectionError('Failed to establish a new connection')", "set-up: no network: packages are downloaded"),
        ("OSError: [Errno 28] No space left on device", "set-up: the disk is full: free about 3 GB"),
        ("ERROR: No matching distribution found for torch==2.13.0", "set-up: 3.12.1 on "),
        ("ERROR: something else", "set-up: installing failed (above; all of it in .venv/set_up.log)"),
    ],
)
def test_a_failed_install_names_its_reason(machine: Path, pip_says: str, line: str) -> None:
    with_python(machine)
    assert last_line(set_up(machine, PIP_SAYS=pip_says)).startswith(line)


def test_an_interrupted_set_up_goes_on_in_the_same_environment(machine: Path) -> None:
    with_python(machine)
    set_up(machine, PIP_SAYS="ERROR: Operation cancelled by user")
    done = set_up(machine)
    assert done.returncode == 0, done.stderr
    assert "making" not in done.stdout


def test_one_variable_chooses_pytorchs_cpu_build(machine: Path) -> None:
    with_python(machine)
    done = set_up(machine, TORCH_BACKEND="cpu")
    assert done.returncode == 0, done.stderr
    calls = (machine.parent / "calls").read_text().splitlines()
    installs = [call for call in calls if " install " in call]
    assert [call.split()[0] for call in installs] == ["python", "uv", "python"]
    assert installs[0].endswith(" uv")
    assert "--torch-backend=cpu -c constraints.txt torch>=" in installs[1]
    assert installs[2].endswith("-c constraints.txt -e .[test]")


def test_no_network_while_uv_installs(machine: Path) -> None:
    with_python(machine)
    said = "error: Failed to fetch\n  Caused by: error sending request for url\n  Caused by: dns error"
    assert last_line(set_up(machine, TORCH_BACKEND="cpu", UV_SAYS=said)).startswith("set-up: no network")


def test_without_constraints_the_newest_versions_are_installed(machine: Path) -> None:
    with_python(machine)
    assert set_up(machine, CONSTRAINTS="").returncode == 0
    assert (machine.parent / "calls").read_text().splitlines()[-1].endswith("install -qq --progress-bar off -e .[test]")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_alone_lists_every_target_in_a_line() -> None:
    alone = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }  # not as a part of make test
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True, env=alone)
    makefile = (ROOT / "Makefile").read_text().splitlines()
    targets = next(line for line in makefile if line.startswith(".PHONY:")).split()[1:]
    assert sorted(line.split()[1] for line in listed.stdout.splitlines()) == sorted(targets)
