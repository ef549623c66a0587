"""constraints.txt: the versions of everything the course needs, as installed here and now."""

import re
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["constraints", "needed"]

_HEADER = """\
# The one set of versions that is tested, written by `make freeze`; `make lab` and `make test` install from it.
# Ranges are in pyproject.toml. No local build tags, so that it holds for PyTorch's CPU and CUDA builds alike."""
_INSTALLERS = {"pip"}  # no dependency of the course
_CUDA = re.compile(r"^(nvidia|cuda)-")  # chosen by PyTorch itself, which names their exact versions


def constraints(project: str = "course-utils", extras: tuple[str, ...] = ("test",)) -> str:
    """Return the text of constraints.txt for what is installed."""
    pins = [
        f"{name}=={Version(metadata.version(name)).public}"
        for name in sorted(needed(project, extras))
        if name not in _INSTALLERS and not _CUDA.match(name)
    ]
    return "\n".join([_HEADER, *pins]) + "\n"


def needed(project: str, extras: tuple[str, ...] = ()) -> set[str]:
    """Return the installed packages that ``project`` with ``extras`` needs, directly or not, without itself."""
    found: set[tuple[str, str]] = set()
    waiting = [(project, extra) for extra in ("", *extras)]
    while waiting:
        for requirement in _requirements(*waiting.pop()):
            name = canonicalize_name(requirement.name)
            for extra in ("", *requirement.extras):
                if (name, extra) not in found and _is_installed(name):
                    found.add((name, extra))
                    waiting.append((name, extra))
    return {name for name, _ in found} - {canonicalize_name(project)}


def _requirements(package: str, extra: str) -> Iterator[Requirement]:
    for line in metadata.requires(package) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
