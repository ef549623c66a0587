"""Who handed in what: the notebooks of a folder, and the chapter that each of them is."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from course_utils.book.chapters import CHAPTERS, Chapter

__all__ = ["Notebook", "Submission", "Unreadable", "find_submissions"]

_SIZE_LIMIT_MB = 50  # of a file; a chapter of this course with all its figures has one or two


class Unreadable(Exception):
    """A file that cannot be graded; the message is the reason."""


@dataclass(frozen=True)
class Submission:
    """One file that somebody handed in: ``learner``, where it lies, and its name relative to the graded folder."""

    learner: str
    path: Path
    file: str

    def read(self) -> "Notebook":
        """Return the notebook; Unreadable where it is none, or none of this course."""
        cells = _cells(_bytes(self.path))
        chapter = _chapter_of(self.path.stem, cells)
        if chapter is None:
            raise Unreadable("it is none of the course's notebooks: no chapter's heading, exercise or file name in it")
        code = tuple((index, source) for index, (kind, source) in enumerate(cells) if kind == "code")
        return Notebook(chapter, code, _without(chapter, self.learner))


@dataclass(frozen=True)
class Notebook:
    """What is graded: the chapter, the code cells with their positions, and whose it is."""

    chapter: Chapter
    cells: tuple[tuple[int, str], ...]
    learner: str


def find_submissions(folder: Path) -> Iterator[Submission]:
    """Yield what lies in ``folder``: every entry is a learner's, either a folder of notebooks or one file.

    Files beside the notebooks in a learner's folder are passed over. What is no notebook where one is expected is
    yielded too, and reading it says what is wrong.
    """
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__MACOSX")):
            continue
        if not entry.is_dir() or _is_notebook(entry.name):
            yield Submission(entry.stem, entry, entry.name)
            continue
        found = sorted(_notebooks_in(entry))
        for path in found or [entry]:
            yield Submission(entry.name, path, str(path.relative_to(folder)))


def _without(chapter: Chapter, learner: str) -> str:
    """Return a file's name without its chapter and the numbers of Canvas: alice_00 and alice_02 are one learner's."""
    cut = re.sub(rf"(^|[ _-]+){chapter.number}(_{chapter.name})?(?=$|[ _-])( ?[(-]\d+\)?)?", "", learner)
    return re.sub(r"(_late)?(_\d{3,}){2}$", "", cut, flags=re.IGNORECASE).strip(" _-") or learner


def _notebooks_in(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):  # does not follow links, so that a loop of them ends
        yield from (Path(place, name) for name in (*folders, *files) if _is_notebook(name))
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX")) and not _is_notebook(name)]


def _is_notebook(name: str) -> bool:
    return name.lower().endswith(".ipynb")


def _bytes(path: Path) -> bytes:
    """Return the content of a file of a sensible size; nothing that could block or never end is opened."""
    if path.is_dir():
        raise Unreadable("it is a folder, not a file" if _is_notebook(path.name) else "no notebook in this folder")
    if not path.is_file():
        raise Unreadable("it is not a regular file")
    if (size_mb := path.stat().st_size / 1e6) > _SIZE_LIMIT_MB:
        raise Unreadable(f"it has {size_mb:,.0f} MB, and at most {_SIZE_LIMIT_MB} are read: clear its outputs")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror or error}") from None


def _cells(content: bytes) -> list[tuple[str, str]]:
    """Return kind and source of every cell."""
    try:
        notebook = nbformat.reads(content.decode("utf-8-sig"), as_version=4)
        return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook.cells]
    except Exception as error:  # nbformat raises whatever its readers run into, and every reason is the file's
        raise Unreadable(f"it is no notebook: {type(error).__name__}: {error}") from None


def _chapter_of(stem: str, cells: list[tuple[str, str]]) -> Chapter | None:
    """Return the chapter that a notebook is, whatever its file is called.

    Its heading decides; where that is gone, a chapter's name in the file's; where that is gone, the exercises in it.
    """
    text = "\n".join(source for kind, source in cells if kind == "markdown")
    code = "\n".join(source for kind, source in cells if kind == "code")

    def evidence(chapter: Chapter) -> tuple[bool, bool, float]:
        headed = re.search(rf"^# {chapter.number} · {re.escape(chapter.title)}\s*$", text, re.MULTILINE) is not None
        found = [re.search(rf"\bdef {name}\(|\bcheck\.{name}\(", code) is not None for name in chapter.exercises]
        return headed, f"{chapter.number}_{chapter.name}" in stem, sum(found) / max(len(found), 1)

    best = max(CHAPTERS, key=evidence)
    return best if any(evidence(best)) else None
