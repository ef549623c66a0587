"""What differs from one run of a notebook to the next, and from one machine to another, taken out of it.

Kept are source, tags, collapsed inputs, and outputs as a reader sees them. Gone are timings, live widgets and their
state, memory addresses, and the folders of the machine it ran on.
"""

import os
import re
from pathlib import Path

import nbformat

__all__ = ["METADATA", "keep_only_known_metadata", "normalize"]

# The same for every notebook: the versions that a kernel reports about itself would only make noise in a diff.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}

_CELL_METADATA = frozenset({"tags", "jupyter", "editable", "deletable", "stand_in"})  # all that a cell may carry
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_BAR_TIME = re.compile(r"\[\d+:\d\d(?::\d\d)?<[^\]\n]*\]")  # tqdm's "[00:01<00:03, 12.3it/s]"
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b")
_KERNEL_FILE = re.compile(r"(?:/[^\s\x1b]*/|[A-Za-z]:\\[^\s\x1b]*\\)ipykernel_\d+[/\\]\d+\.py")
_PATH_START = r"(?:~|[A-Za-z]:|(?<![\w.]))[/\\][^\s\x1b\"'()]*[/\\]"  # home, drive or root, then folders
_SITE_PACKAGES = re.compile(_PATH_START + r"site-packages[/\\]")
_STANDARD_LIBRARY = re.compile(_PATH_START + r"lib[/\\](python3\.\d+[/\\])")


def normalize(notebook: nbformat.NotebookNode, root: Path | None = None) -> None:
    """Make ``notebook`` the same whenever and wherever it ran, in place.

    Args:
        notebook: version 4, executed.
        root: the project's folder; tracebacks show the files below it from there. By default the current folder.
    """
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    keep_only_known_metadata(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.pop("transient", None)
            if output.output_type == "stream":
                output.text = _clean(output.text)
            elif output.output_type == "error":
                output.evalue = _clean(output.evalue)
                output.traceback = [_without_folders(_clean(line), root or Path.cwd()) for line in output.traceback]
            else:
                _normalize_data(output.data)


def keep_only_known_metadata(notebook: nbformat.NotebookNode) -> None:
    """Drop all metadata but the kernel's name and what the course's conventions give a cell, in place."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in cell.metadata if key in _CELL_METADATA})


def _normalize_data(data: nbformat.NotebookNode) -> None:
    # A live view means nothing without its kernel: in a trusted notebook it shows an error where the picture would be.
    data.pop(_WIDGET_VIEW, None)
    for mime, content in data.items():
        if mime.startswith("text/") and isinstance(content, str):
            data[mime] = _clean(content)


def _clean(text: str) -> str:
    """Mask what a run leaves in a text, but for the base64 of a picture, where a match could only be an accident."""
    parts = re.split(r"(base64,[A-Za-z0-9+/=]+)", text)
    return "".join(
        part if index % 2 else _BAR_TIME.sub("[time]", _ADDRESS.sub("at 0x…", part)) for index, part in enumerate(parts)
    )


def _without_folders(line: str, root: Path) -> str:
    """Show the files of a traceback from the project, the packages, or the standard library, wherever they lie."""
    line = _KERNEL_FILE.sub("cell.py", line)
    line = _SITE_PACKAGES.sub("site-packages/", line)
    line = _STANDARD_LIBRARY.sub(r"\1", line)
    here, home = str(root.resolve()), str(Path.home())
    for folder in (here, here.replace(home, "~", 1)):  # IPython writes the home folder as ~
        line = line.replace(folder + os.sep, "")
    return line
