"""Find the course's notebooks, read them, and write them back in one step or not at all."""

import os
from collections.abc import Sequence
from pathlib import Path

import nbformat

__all__ = ["NOTEBOOKS", "find_notebooks", "read_notebook", "write_atomically", "write_notebook"]

NOTEBOOKS = Path("notebooks")  # from the project's folder, where make and CI stand


def find_notebooks(chapters: Sequence[str] = (), folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of ``folder`` in the order of their names, or those that ``chapters`` choose.

    Args:
        chapters: a chapter's number ("02"), or the path of a notebook; none means every notebook.
        folder: where chapters are looked up.

    Raises:
        ValueError: a chapter names no notebook.
    """
    if not chapters:
        return sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    found: list[Path] = []
    for chapter in chapters:
        matches = [Path(chapter)] if Path(chapter).is_file() else sorted(folder.glob(f"{chapter}*.ipynb"))
        if not matches:
            known = ", ".join(path.stem.split("_")[0] for path in find_notebooks(folder=folder)) or "none"
            raise ValueError(f"NB must be a chapter's number or a notebook's path: got {chapter!r}, known are {known}")
        found.extend(matches)
    return found


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Return the notebook at ``path`` in today's format."""
    return nbformat.read(path, as_version=4)


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> bool:
    """Write ``notebook`` to ``path`` unless it holds the same bytes already; return whether anything was written."""
    text = nbformat.writes(notebook, version=4)
    data = (text if text.endswith("\n") else text + "\n").encode()
    if path.exists() and path.read_bytes() == data:
        return False
    write_atomically(path, data)
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` in place of ``path``: whoever reads it, or pulls the plug, finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
