"""What was handed in: the files of a folder, and the chapter that each of them is."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from chapters.contents import CHAPTERS, Chapter
from tools.notebooks import is_code, read_notebook

__all__ = ["Unreadable", "find_files", "read_submission"]

_SIZE_LIMIT_MB = 50  # of a file; a chapter of this course with all its figures has one or two


class Unreadable(Exception):
    """A file that cannot be graded; the message is the reason."""


def find_files(folder: Path) -> Iterator[Path]:
    """Yield what was handed in: every entry of ``folder`` is a file, or a folder of notebooks.

    Other files beside the notebooks of such a folder are passed over. A folder without one is
    yielded itself.
    """
    for entry in sorted(folder.iterdir()):
        paths = [entry, *sorted(entry.rglob("*"))]
        visible = [path for path in paths if not _is_hidden(path.relative_to(folder))]
        yield from [path for path in visible if path.suffix.lower() == ".ipynb"] or visible[:1]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in path.parts)


def read_submission(path: Path) -> tuple[Chapter, list[tuple[int, str]]]:
    """Return the chapter that the file at ``path`` is, and its code cells with their positions; or
    Unreadable."""
    if path.is_dir():
        raise Unreadable("There is no notebook in this folder.")
    if not path.is_file():  # a pipe could block, a device never end
        raise Unreadable("It is not a regular file.")
    size_mb = path.stat().st_size / 1e6
    if size_mb > _SIZE_LIMIT_MB:
        raise Unreadable(
            f"It has {size_mb:,.0f} MB, and at most {_SIZE_LIMIT_MB} are read: clear its outputs."
        )
    try:
        cells = read_notebook(path).cells
        text = "\n".join(cell.source for cell in cells if not is_code(cell))
        code = [(index, cell.source) for index, cell in enumerate(cells) if is_code(cell)]
    except (
        Exception
    ) as error:  # nbformat raises whatever its readers run into, and every reason is the file's
        raise Unreadable(f"It is no notebook: {type(error).__name__}: {error}") from None
    chapter = max(CHAPTERS, key=lambda chapter: _evidence(chapter, path.stem, text, code))
    if not any(_evidence(chapter, path.stem, text, code)):
        raise Unreadable(
            "It is none of the course's notebooks: no chapter's heading, exercise or file name in "
            "it."
        )
    return chapter, code


def _evidence(
    chapter: Chapter, stem: str, text: str, code: Sequence[tuple[int, str]]
) -> tuple[bool, bool, float]:
    """Return what speaks for a chapter: its heading; where that is gone, the file's name; then the
    exercises."""
    is_headed = (
        re.search(rf"^# {chapter.number} · {re.escape(chapter.title)}\s*$", text, re.MULTILINE)
        is not None
    )
    is_named = f"{chapter.number}_{chapter.name}" in stem
    sources = "\n".join(source for _, source in code)
    present = [
        name for name in chapter.exercises if re.search(rf"\b(def |check\.){name}\(", sources)
    ]
    return is_headed, is_named, len(present) / max(len(chapter.exercises), 1)
