"""How the rooms open: every module by its name, with types, in words where something is missing,
and one way round."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import course_utils
from course_utils import check, norms

PACKAGE = Path(course_utils.__file__).parent

EVERY_MODULE = """
import pkgutil, sys
import course_utils

for module in pkgutil.walk_packages(course_utils.__path__, "course_utils."):
    _, room, *inside = module.name.split(".")
    if room == "__main__" or len(inside) > 1:
        continue
    for loaded in [name for name in sys.modules if name.startswith(f"course_utils.{room}")]:
        del sys.modules[loaded]
    vars(course_utils).pop(room, None)
    value = getattr(course_utils, room)
    for name in inside:
        value = getattr(value, name)
    if getattr(value, "__name__", "") != module.name:
        print(f"{module.name} is {value!r}")
"""

WITHOUT_THE_COURSE = """
import sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
absent = ("platformdirs", "matplotlib", "triton")
PathFinder.find_spec = lambda name, *others: None if name in absent else find(name, *others)
import course_utils
from course_utils import kernels

print(kernels.available())
for statement in ("from course_utils.plots import lines", "import platformdirs"):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
"""


def python(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=240)
    assert not done.stderr, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_every_module_is_an_attribute_of_its_room_whatever_was_imported_before():
    assert python("-c", EVERY_MODULE) == ""


def test_importing_the_package_imports_no_torch_and_no_room():
    code = (
        "import sys, course_utils; print([m for m in sys.modules if m.startswith(('torch', "
        "'course_utils.'))])"
    )
    assert python("-c", code) == "['course_utils.rooms']\n"


@pytest.mark.slow
def test_what_is_missing_is_said_with_the_extra_that_brings_it():
    extra = "which the extra `course` brings: pip install 'course-utils[course]'"
    kernels, plots, others = python("-c", WITHOUT_THE_COURSE).splitlines()
    assert "kernels need Triton" in kernels
    assert plots.endswith(f" needs matplotlib, {extra}")
    assert others == "No module named 'platformdirs'"  # of other people's code nothing is known


@pytest.mark.parametrize(
    ("room", "name", "hint"), [(check, "runners", "runner"), (norms, "backwards", "backward")]
)
def test_a_mistyped_name_is_answered_with_the_nearest(room, name, hint):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {hint}?"):
        getattr(room, name)


def test_the_types_are_for_other_people_too():
    assert (PACKAGE / "py.typed").exists()


def test_every_file_in_the_table_of_norms_is_there():
    files = re.findall(r"  (\w+/\S+\.py)  ", norms.__doc__)
    assert len(files) == 11
    assert all(list(PACKAGE.parent.glob(file)) for file in files)


def test_the_package_shows_its_names_and_rooms_and_each_opens():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= {*dir(course_utils), "book", "recorded"}
    for name in dir(course_utils):
        assert getattr(course_utils, name) is not None


def imports_of(nodes):
    """Yield the modules that are imported from, and rooms and chapters by their names."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("chapters", "course_utils"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_the_library_imports_no_chapter_and_no_chapter_another():
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.parent.glob("chapters/c*/**/*.py")]:
        _, own, *_ = path.relative_to(PACKAGE.parent).parts
        foreign = "chapters|tools" if PACKAGE in path.parents else rf"chapters\.(?!{own})c\d|tools"
        imported = imports_of(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        assert not [name for name in imported if re.match(foreign, name)], path


def test_imports_run_one_way_between_the_rooms():
    uses: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for name in imports_of(ast.parse(path.read_text(encoding="utf-8")).body):
            top, _, rest = name.partition(".")
            if top == "course_utils" and rest.partition(".")[0] != room:
                uses.setdefault(room, set()).add(rest.partition(".")[0])
    TopologicalSorter(uses).prepare()  # raises CycleError, which names the circle
