"""A notebook as a Python file to edit (jupytext's percent format), and back, without losing outputs
or edits.

The view lies in ``edit/``, which git ignores; beside it, a hidden copy remembers which state of the
notebook it shows.
"""

from pathlib import Path

import jupytext
import nbformat
from jupytext.combine import combine_inputs_with_outputs

from tools.notebooks import (
    NOTEBOOKS,
    keep_only_known_metadata,
    read_notebook,
    write_atomically,
    write_notebook,
)

__all__ = ["VIEWS", "Conflict", "bring_back", "open_view"]

VIEWS = Path("edit")
_FORMAT = "py:percent"


class Conflict(ValueError):
    """Going on would lose an edit; the message says which and what to do."""


def open_view(path: Path, views: Path = VIEWS) -> Path:
    """Write the text view of the notebook at ``path``, and return where it is; unsaved edits are a
    ``Conflict``."""
    view, text = views / f"{path.stem}.py", jupytext.writes(read_notebook(path), fmt=_FORMAT)
    if view.exists() and view.read_text() not in (text, _shown(view)):
        raise Conflict(
            f"{view} holds edits that are not in {path} yet: bring them back (make update), or "
            "delete it"
        )
    _show(view, text)
    return view


def bring_back(view: Path, folder: Path = NOTEBOOKS) -> tuple[Path, bool]:
    """Take the edits of a text view into its notebook, and return the notebook's path and whether
    it changed.

    Cells that did not change keep their ids and outputs. Where there is no notebook yet, it is
    made; where it has changed since the view was made, that is a ``Conflict``.
    """
    path, text = folder / f"{view.stem}.ipynb", view.read_text()
    edited = jupytext.reads(text, fmt=_FORMAT)
    if path.exists():
        current = read_notebook(path)
        if jupytext.writes(current, fmt=_FORMAT) not in (text, _shown(view)):
            raise Conflict(
                f"{path} has changed since {view} was made: to keep the notebook, delete the view; "
                f"to keep the view, take the notebook back to what it was (git checkout {path})"
            )
        edited = combine_inputs_with_outputs(edited, current, fmt=_FORMAT)
    edited.nbformat, edited.nbformat_minor = 4, 5
    _, edited = nbformat.validator.normalize(edited)  # ids for new cells
    keep_only_known_metadata(edited)
    changed = write_notebook(edited, path)
    _show(view, jupytext.writes(edited, fmt=_FORMAT))
    return path, changed


def _show(view: Path, text: str) -> None:
    for file in (view, view.with_name(f".{view.stem}.shown")):
        write_atomically(file, text.encode())


def _shown(view: Path) -> str:
    memory = view.with_name(f".{view.stem}.shown")
    return memory.read_text() if memory.exists() else ""
