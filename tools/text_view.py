"""A notebook as a Python file to edit (jupytext's percent format), and back, without losing outputs or edits.

The view lies in ``edit/``, which git ignores; beside it, a hidden file remembers which state of the notebook it shows.
"""

import hashlib
from pathlib import Path

import jupytext
import nbformat
from jupytext.combine import combine_inputs_with_outputs

from tools.notebooks import NOTEBOOKS, keep_only_known_metadata, read_notebook, write_atomically, write_notebook

__all__ = ["VIEWS", "Conflict", "bring_back", "open_view", "view_of"]

VIEWS = Path("edit")
_FORMAT = "py:percent"


class Conflict(Exception):
    """Going on would lose an edit; the message says which and what to do."""


def view_of(path: Path, views: Path = VIEWS) -> Path:
    """Return where the text view of the notebook at ``path`` lies."""
    return views / f"{path.stem}.py"


def open_view(path: Path, views: Path = VIEWS) -> Path:
    """Write the text view of the notebook at ``path``, and return where it is.

    Raises:
        Conflict: a view is there with edits that were not brought back.
    """
    view, text = view_of(path, views), _as_text(read_notebook(path))
    if view.exists() and _digest(view.read_text()) not in (_digest(text), _remembered(view)):
        raise Conflict(f"{view} holds edits that are not in {path} yet: bring them back (make update), or delete it")
    _show(view, text)
    return view


def bring_back(view: Path, folder: Path = NOTEBOOKS) -> tuple[Path, bool]:
    """Take the edits of a text view into its notebook; cells that did not change keep their ids and outputs.

    Args:
        view: a text view; where its notebook does not exist yet, it is made.
        folder: where the notebooks are.

    Returns:
        The notebook's path, and whether it changed.

    Raises:
        Conflict: the notebook has changed since the view was made.
    """
    path, text = folder / f"{view.stem}.ipynb", view.read_text()
    edited = jupytext.reads(text, fmt=_FORMAT)
    if path.exists():
        current = read_notebook(path)
        if _digest(_as_text(current)) not in (_digest(text), _remembered(view)):
            raise Conflict(
                f"{path} has changed since {view} was made: to keep the notebook, delete the view; "
                f"to keep the view, take the notebook back to what it was (git checkout {path})"
            )
        edited = combine_inputs_with_outputs(edited, current, fmt=_FORMAT)
    edited.nbformat, edited.nbformat_minor = 4, 5
    _, edited = nbformat.validator.normalize(edited)  # ids for new cells
    keep_only_known_metadata(edited)
    changed = write_notebook(edited, path)
    _show(view, _as_text(edited))
    return path, changed


def _as_text(notebook: nbformat.NotebookNode) -> str:
    return jupytext.writes(notebook, fmt=_FORMAT)


def _show(view: Path, text: str) -> None:
    write_atomically(view, text.encode())
    write_atomically(_memory(view), _digest(text).encode())


def _remembered(view: Path) -> str:
    memory = _memory(view)
    return memory.read_text() if memory.exists() else ""


def _memory(view: Path) -> Path:
    return view.with_name(f".{view.stem}.shown")


def _digest(text: str) -> str:
    """Return a fingerprint of what a view says; blank lines between its cells say nothing."""
    notebook = jupytext.reads(text, fmt=_FORMAT)
    keep_only_known_metadata(notebook)
    said = [(cell.cell_type, cell.source, sorted(cell.metadata.items())) for cell in notebook.cells]
    return hashlib.sha256(repr(said).encode()).hexdigest()
