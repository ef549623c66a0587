"""pyproject.toml, constraints.txt, environment.yml, Binder's and CI's files, and what is installed, held together."""

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]]
PIN_LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINS = {canonicalize_name(pin.name): pin for pin in map(Requirement, PIN_LINES)}
EVERY_SET_UP = [
    "Makefile",
    "pyproject.toml",
    "constraints.txt",
    "environment.yml",
    ".ci/run",
    ".ci/set_up",
    ".binder/environment.yml",
    ".binder/postBuild",
    ".github/workflows/ci.yml",
]
# chosen by PyTorch for each of its builds, or by pip itself
NEVER_PINNED = re.compile(r"nvidia-|cuda-|pip$|uv$")


def version_of(pin: Requirement) -> Version:
    (specifier,) = pin.specifier
    return Version(specifier.version)


def load(file: str) -> dict:
    return yaml.safe_load((ROOT / file).read_text())


def test_every_line_of_the_constraints_is_one_exact_version_of_one_package() -> None:
    assert len(PINS) == len(PIN_LINES)
    for line in PIN_LINES:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line), line  # no local build tag, no marker, no address
        assert not NEVER_PINNED.match(line), line


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_every_range_has_both_ends_and_contains_its_pin(requirement: Requirement) -> None:
    assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}
    assert requirement.specifier.contains(version_of(PINS[canonicalize_name(requirement.name)]))


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_what_is_installed_lies_in_its_range(requirement: Requirement) -> None:
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        pytest.skip(f"not for this platform: {requirement.marker}")
    assert requirement.specifier.contains(Version(metadata.version(requirement.name)).public)


def test_triton_comes_with_the_course_where_it_exists() -> None:
    """`make lab` shall be enough to start the kernels of chapter 10."""
    (triton,) = (line for line in map(Requirement, PROJECT["dependencies"]) if line.name == "triton")
    assert triton.marker
    assert triton.marker.evaluate({"sys_platform": "linux", "platform_machine": "x86_64"})
    for system, machine in (("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64")):
        assert not triton.marker.evaluate({"sys_platform": system, "platform_machine": machine})


@pytest.mark.parametrize("name", PINS)
def test_what_a_pinned_package_needs_is_pinned_too_and_in_its_range(name: str) -> None:
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        pytest.skip("not installed on this platform")
    if Version(metadata.version(name)).public != str(version_of(PINS[name])):
        pytest.skip(f"another version is installed: {metadata.version(name)}")
    for requirement in map(Requirement, lines):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not NEVER_PINNED.match(canonicalize_name(requirement.name)):
            assert requirement.specifier.contains(version_of(PINS[canonicalize_name(requirement.name)])), requirement


def test_the_metadata_of_the_installed_course_says_what_pyproject_says() -> None:
    """An environment that was set up before the ranges changed is no proof of them."""
    declared = {
        canonicalize_name(r.name): r.specifier for r in map(Requirement, metadata.requires("course-utils") or [])
    }
    assert declared == {canonicalize_name(r.name): r.specifier for r in DIRECT}


@pytest.mark.parametrize("file", ["environment.yml", ".binder/environment.yml"])
def test_conda_and_binder_name_a_python_that_the_course_supports_and_nothing_that_is_named_elsewhere(file: str) -> None:
    python, pip, *rest = load(file)["dependencies"]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python=") + ".0")
    assert pip == "pip"
    assert rest == ([{"pip": ["-c constraints.txt", "-e ."]}] if file == "environment.yml" else [])


def test_binder_installs_from_the_constraints() -> None:
    post_build = ROOT / ".binder" / "postBuild"
    installs = [
        line for line in post_build.read_text().splitlines() if " install " in line and not line.endswith(" uv")
    ]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)
    assert os.access(post_build, os.X_OK)


def test_ci_covers_the_promised_systems_and_the_newest_versions_every_week() -> None:
    workflow = load(".github/workflows/ci.yml")
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"] == {"os": ["ubuntu-latest", "macos-latest"], "python": ["3.11", "3.12", "3.13"]}
    supported = SpecifierSet(PROJECT["requires-python"])
    assert all(supported.contains(f"{python}.0") for python in job["strategy"]["matrix"]["python"])
    triggers = workflow[True]  # YAML 1.1 reads the key `on` as true
    assert "push" in triggers
    assert triggers["schedule"]
    commands = {step.get("run"): step.get("if", "") for step in job["steps"]}
    assert commands["make test"] == "github.event_name != 'schedule'"
    assert commands["make test CONSTRAINTS="] == "github.event_name == 'schedule'"


@pytest.mark.parametrize("file", EVERY_SET_UP)
def test_no_set_up_names_a_host(file: str) -> None:
    """Where packages come from is for the one who installs them to say: mirrors and offline wheels keep working."""
    text = (ROOT / file).read_text()
    assert not re.search(r"https?://|index-url|find-links", text)
