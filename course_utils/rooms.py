"""How the rooms open: a submodule when it is first asked for, and in a sentence what an
installation lacks."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["MissingExtra", "submodules"]


def submodules(room: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: its submodules, imported when they are first asked
    for."""

    def get(name: str) -> Any:
        from difflib import get_close_matches
        from pkgutil import iter_modules

        package = sys.modules[room]
        names = [module.name for module in iter_modules(package.__path__)]
        if name in names:
            return import_module(f"{room}.{name}")
        similar = get_close_matches(name, [*dir(package), *names], n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise AttributeError(f"module {room!r} has no attribute {name!r}{hint}")

    return get


class MissingExtra:
    """Python asks it last, for a module that is nowhere; where a room imports that, it names the
    extra."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise ModuleNotFoundError where a room of the course imports ``name``."""
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
            frame = frame.f_back
        importer = frame.f_globals.get("__name__", "")
        if importer.startswith("course_utils.") and path is None:
            needs = (
                f"{importer} needs {name}, which the extra `course` brings: pip install "
                "'course-utils[course]'"
            )
            raise ModuleNotFoundError(needs, name=name)
