"""The notebooks as files: find and read them, run them so that the same source gives the same
bytes, find exercises."""

from __future__ import annotations

import ast
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.outputs import say_the_same

if TYPE_CHECKING:  # it takes seconds to import, and `make lab` needs nothing of it
    import nbformat

__all__ = [
    "CELL_TIMEOUT_S", "FOLDED", "METADATA", "NOTEBOOKS", "SOLUTION_SUFFIX", "ExecutionFailed",
    "Exercise", "clear_outputs", "defined_names", "execute", "find_exercises",
    "find_notebooks", "has_tag", "is_code", "is_folded", "keep_only_known_metadata", "lesson",
    "minutes", "minutes_text", "normalize", "parse_code", "read_notebook", "stub_names",
    "write_atomically", "write_notebook",
]  # fmt: skip

NOTEBOOKS = Path("notebooks")  # from the project's folder, where make and CI stand


def find_notebooks(chapters: Sequence[str] = (), folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of ``folder``, sorted, or those that ``chapters`` name: a number ("02")
    or a path."""
    if not chapters:
        return sorted(
            path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
        )
    found: list[Path] = []
    for chapter in chapters:
        path = Path(chapter)
        matches = [path] if path.is_file() else []
        if not matches and path.name == chapter:  # a number, and no way to a file
            matches = sorted(folder.glob(f"{chapter.zfill(2)}*.ipynb"))
        if not matches:
            numbers = [path.stem.split("_")[0] for path in find_notebooks(folder=folder)]
            known = ", ".join(numbers) or "none"
            raise ValueError(
                f"NB must be a chapter's number or a notebook's path: got {chapter!r}, known are "
                f"{known}"
            )
        found.extend(matches)
    return found


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Return the notebook at ``path`` in today's format."""
    import nbformat

    return nbformat.read(path, as_version=4)


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> bool:
    """Write ``notebook`` to ``path`` unless it holds the same bytes already; return whether
    anything was written."""
    import nbformat

    text = nbformat.writes(notebook, version=4)
    data = (text if text.endswith("\n") else text + "\n").encode()
    if path.exists() and path.read_bytes() == data:
        return False
    write_atomically(path, data)
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` in place of ``path``: whoever reads it, or pulls the plug, finds the old file or
    the new one."""
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


def clear_outputs(
    notebook: Mapping[str, Any], keep: Callable[[Mapping[str, Any]], bool] = lambda output: False
) -> None:
    """Take the outputs and the counts of runs out of ``notebook``, in place, but for the outputs of
    which ``keep`` is true."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [output for output in cell["outputs"] if keep(output)]
            cell["execution_count"] = None


SOLUTION_SUFFIX = "_solution"


@dataclass(frozen=True)
class Exercise:
    """The positions of an exercise's cells, counted from 0: the stub, which its check ends, and the
    solution."""

    names: tuple[str, ...]
    stub: int
    solution: int | None


_WORDS_A_MINUTE, _CODE_MIN, _EXERCISE_MIN, _DERIVATION_MIN = 200, 0.5, 15, 10
# said, or a fold that holds a formula and is neither a hint nor an answer to a question
_ON_PAPER = re.compile(
    r"[Oo]n paper|<summary>(?!Hint|An? (?:question|nudge|answer)|Answers?<|The key|At the)"
    r"[^<]*</summary>(?:(?!</details>).)*\$",
    re.DOTALL,
)


def lesson(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the cells of a chapter before its evidence."""
    cells = takewhile(lambda cell: not cell.source.startswith("## Evidence"), notebook.cells)
    return list(cells)


def minutes(notebook: nbformat.NotebookNode) -> tuple[int, int]:
    """Return the minutes that a chapter's lesson takes to read and to work through, to five.

    Reading is a minute for 200 words and half a minute for a code cell in sight; working is that,
    15 for each exercise and 10 for each derivation on paper: a text cell that says so, or that
    folds one.
    """
    cells = lesson(notebook)
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    in_sight = sum(is_code(cell) and not is_folded(cell) for cell in cells)
    derived = sum("</summary>" in text and bool(_ON_PAPER.search(text)) for text in texts)
    reading = sum(len(text.split()) for text in texts) / _WORDS_A_MINUTE + in_sight * _CODE_MIN
    exercises = sum(has_tag(cell, "exercise") for cell in cells)
    working = reading + exercises * _EXERCISE_MIN + derived * _DERIVATION_MIN
    return max(5, 5 * round(reading / 5)), max(5, 5 * round(working / 5))


def minutes_text(notebook: nbformat.NotebookNode) -> str:
    """Return the words for ``minutes``, as a chapter's first cell and its page have them."""
    reading, working = minutes(notebook)
    both = f", {working} to work through" if working > reading else ""
    return f"{reading} minutes to read{both}"


def is_code(cell: nbformat.NotebookNode) -> bool:
    """Return whether ``cell`` holds code."""
    return cell.cell_type == "code"


def is_folded(cell: nbformat.NotebookNode) -> bool:
    """Return whether the code of ``cell`` is out of sight until somebody asks for it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def has_tag(cell: nbformat.NotebookNode, tag: str) -> bool:
    """Return whether ``cell`` carries ``tag``."""
    return tag in cell.metadata.get("tags", ())


def parse_code(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell, or None where it is not plain Python (a magic, a
    half-written line)."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def stub_names(source: str) -> tuple[str, ...]:
    """Return the functions that a cell leaves to write: with ``...`` for a body."""
    return tuple(function.name for function in _functions(source) if _is_open(function))


def defined_names(source: str) -> tuple[str, ...]:
    """Return the functions that a cell defines at its top level."""
    return tuple(function.name for function in _functions(source))


def _functions(source: str) -> list[ast.FunctionDef]:
    body = (parse_code(source) or ast.Module([], [])).body
    return [node for node in body if isinstance(node, ast.FunctionDef)]


def _is_open(function: ast.FunctionDef) -> bool:
    body = function.body[ast.get_docstring(function) is not None :]
    return [ast.unparse(node) for node in body] == ["..."]


def find_exercises(notebook: nbformat.NotebookNode) -> Iterator[Exercise]:
    """Yield the exercises of ``notebook`` in order; each ends where the next one begins."""
    stubs = [index for index, cell in enumerate(notebook.cells) if has_tag(cell, "exercise")]
    for stub, end in pairwise([*stubs, len(notebook.cells)]):
        after = range(stub + 1, end)
        solution = next((i for i in after if has_tag(notebook.cells[i], "solution")), None)
        source = notebook.cells[stub].source
        names = stub_names(source) or defined_names(source)
        yield Exercise(names, stub, solution)


# The same for every notebook: the versions that a kernel reports about itself would only make noise
# in a diff.
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

# A solution is folded where a page can fold: in JupyterLab and VS Code, in Colab; what nbconvert
# exports leaves it out.
FOLDED = {
    "jupyter": {"source_hidden": True},
    "cellView": "form",
    "transient": {"remove_source": True},
}
# all that a cell may carry
_CELL_METADATA = frozenset({"tags", "editable", "deletable", "stand_in", *FOLDED})
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def normalize(notebook: nbformat.NotebookNode) -> None:
    """Make an executed ``notebook`` the same whenever and wherever it ran, in place.

    A live view means nothing without its kernel: in a trusted notebook it shows an error where the
    picture would be.
    """
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    keep_only_known_metadata(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.pop("transient", None)
            output.get("data", {}).pop(_WIDGET_VIEW, None)


def keep_only_known_metadata(notebook: nbformat.NotebookNode) -> None:
    """Drop all metadata but the kernel's name and what the course's conventions give a cell, in
    place."""
    import nbformat

    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        kept = {key: cell.metadata[key] for key in cell.metadata if key in _CELL_METADATA}
        cell.metadata = nbformat.from_dict(
            {**kept, **FOLDED} if has_tag(cell, "solution") else kept
        )


CELL_TIMEOUT_S = 120
_RECORDING_TIMEOUT_S = 3600  # a cell that computes a record anew


class ExecutionFailed(Exception):
    """A cell failed, took too long, or killed its kernel; the message names the notebook and the
    cell."""


def execute(path: Path, *, timeout: float = CELL_TIMEOUT_S) -> bool:
    """Replace the notebook at ``path`` by its executed, normalized form, and return whether the
    file changed.

    A stored text that says the same as the fresh one stays (``tools.outputs``), so that another
    machine's last digits change no file; a picture stays only where its bytes are the same. No cell
    may raise, nor take more than ``timeout`` seconds unless it records. Where anything goes wrong,
    the file stays as it was and an ``ExecutionFailed`` says why.
    """
    from nbclient import NotebookClient, exceptions

    notebook = read_notebook(path)
    stored = {cell.id: cell.outputs for cell in notebook.cells if is_code(cell)}
    running: list[int] = []  # the cell that runs now, so that a failure can name it

    client = NotebookClient(
        notebook,
        timeout=_RECORDING_TIMEOUT_S if "COURSE_RECORD" in os.environ else timeout,
        kernel_name="python3",
        record_timing=False,
        # a kernel warns of its unencrypted connection, which stays on this machine
        extra_arguments=["--log-level=ERROR"],
        coalesce_streams=True,  # how a program's prints are cut into messages is a matter of timing
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=lambda cell, cell_index: running.append(cell_index),
    )
    with tempfile.TemporaryDirectory() as fresh_progress:
        # nothing that the author has solved, and sums in the order that two threads give
        alike = {
            "COURSE_PROGRESS_DIR": fresh_progress,
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "passive",
        }
        try:
            client.execute(env={**os.environ, **alike})
        except (
            exceptions.CellControlSignal,
            exceptions.CellExecutionError,
            exceptions.CellTimeoutError,
            exceptions.DeadKernelError,
        ) as error:
            index = running[-1] if running else 0
            raise ExecutionFailed(
                _explain(error, path, index, notebook.cells[index].get("id", "?"), timeout)
            ) from error
    normalize(notebook)
    for cell in filter(is_code, notebook.cells):
        _keep_what_agrees(stored[cell.id], cell.outputs)
    return write_notebook(notebook, path)


def _keep_what_agrees(
    stored: list[nbformat.NotebookNode], fresh: list[nbformat.NotebookNode]
) -> None:
    if [output.output_type for output in stored] != [output.output_type for output in fresh]:
        return
    for old, new in zip(stored, fresh, strict=True):
        if "text" in new and say_the_same(old.text, new.text):
            new.text = old.text
        for mime, content in new.get("data", {}).items():
            before = old.data.get(mime)
            if isinstance(before, str) and say_the_same(before, str(content)):
                new.data[mime] = before


def _explain(error: Exception, path: Path, index: int, cell_id: str, timeout: float) -> str:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    if isinstance(error, CellTimeoutError):
        what = (
            f"took longer than {timeout:g} s: make it smaller, or move the long part into recorded "
            "results"
        )
    elif isinstance(error, CellExecutionError):
        what = (
            f"{error.ename}: "
            f"{error.evalue.splitlines()[0] if error.evalue else ''}\n{error.traceback}"
        )
    else:
        what = f"the kernel died ({error}): look for a crash or for too little memory"
    return f"{path}, cell {index} (id {cell_id}): {what}\n{path} is as it was."
