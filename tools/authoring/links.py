"""The lines that link a chapter back to what it builds on and on to what follows, written into its notebook."""

import re
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_utils.book.chapters import CHAPTERS, Chapter, line_back, line_on
from tools.authoring.files import read_notebook, write_notebook

__all__ = ["chapter_at", "is_linked_back", "is_linked_on", "write_links"]

_BACK = re.compile(r"^Builds on .*?\.(?=\s|$)", re.MULTILINE)  # the dot of a file name stands before a letter
_ON = re.compile(r"^\*\*(?:Next|Also from here|Back|Map|Words):\*\*.*\Z", re.MULTILINE)


def chapter_at(path: Path) -> Chapter | None:
    """Return the chapter that the notebook at ``path`` holds; a notebook of another name holds none."""
    return next((chapter for chapter in CHAPTERS if chapter.file == path.name), None)


def is_linked_back(cell: NotebookNode, chapter: Chapter) -> bool:
    """Return whether ``cell``, the chapter's first, says what the chapter builds on."""
    return _BACK.findall(cell.source) == [line_back(chapter)]


def is_linked_on(cell: NotebookNode, chapter: Chapter) -> bool:
    """Return whether ``cell``, the chapter's last, ends with the links to what follows."""
    return cell.cell_type == "markdown" and cell.source.splitlines()[-1:] == [line_on(chapter)]


def write_links(path: Path) -> bool:
    """Write the two lines into the notebook at ``path``, over older ones, and leave the rest of it as it is.

    Returns:
        Whether the file changed.

    Raises:
        ValueError: the notebook is no chapter.
    """
    chapter = chapter_at(path)
    if chapter is None:
        raise ValueError(f"path must be a chapter's notebook: got {path}; course_utils/chapters.py lists them")
    notebook = read_notebook(path)
    if notebook.cells[-1].cell_type != "markdown":
        notebook.cells.append(new_markdown_cell())
    first, last = notebook.cells[0], notebook.cells[-1]
    if not is_linked_back(first, chapter):
        first.source = _put(_BACK, line_back(chapter), first.source)
    if not is_linked_on(last, chapter):
        last.source = _put(_ON, line_on(chapter), last.source)
    return write_notebook(notebook, path)


def _put(pattern: re.Pattern[str], line: str, text: str) -> str:
    """Return ``text`` with ``line`` where ``pattern`` is, or in a paragraph of its own at the end."""
    if pattern.search(text):
        return pattern.sub(lambda _: line, text, count=1)
    return f"{text.rstrip()}\n\n{line}".lstrip()
