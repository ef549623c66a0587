"""An experiment as data and one function, and the loop that runs it: seeded, with progress, resumable."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from course_utils.book.progress_bar import ProgressBar
from course_utils.experiments import archive
from course_utils.experiments.rows import Rows
from course_utils.recorded.journal import Journal

__all__ = ["STUDIES", "Cell", "Progress", "Run", "Study", "find", "partial", "run_study"]

Cell = dict[str, Any]  # the settings of one run: flat, JSON, with a "seed"
Progress = Callable[[float], None]  # told the fraction of a run that is done
Run = Callable[[Cell, Progress], dict[str, Any]]  # from the settings of a run to what came out

# the word after `course train` -> where the Study is
STUDIES: dict[str, str] = {
    "long-context": "course_utils.experiments.long_context:ZERO_SHOT",
    "long-context-tuning": "course_utils.experiments.long_context_tuning:TUNING",
    "longrope-search": "course_utils.experiments.longrope_search:SEARCH",
    "norm-family": "course_utils.experiments.copying:NORM_FAMILY",
    "qk-norm": "course_utils.experiments.copying:QK_NORM",
    "lstm-length": "course_utils.experiments.lstm_length:LSTM_LENGTH",
    "lstm-batch": "course_utils.experiments.lstm_length:LSTM_BATCH",
    "batch-size": "course_utils.experiments.batch_size:BATCH_SIZE",
    "extrapolation": "course_utils.experiments.extrapolation:EXTRAPOLATION",
    "gradient-depth": "course_utils.experiments.norm_placement:GRADIENT_DEPTH",
    "vit-depth": "course_utils.experiments.norm_placement:VIT_DEPTH",
    "rnn-time": "course_utils.experiments.rnn_time:RNN_TIME",
}


@dataclass(frozen=True)
class Study:
    """One experiment.

    Attributes:
        name: the word after ``course train``, and the name of its record.
        about: the question that it answers, in a line.
        cells: from a size ("reduced" or "full") to the runs, the settings of each with a "seed".
        run: from the settings of one run and a function to tell progress to, to what came out (flat, JSON). It must
            give the same on the same machine each time, and leave no global state behind.
        sizes: those that ``cells`` knows.
        threads: CPU threads that a run uses; 1, with which small networks are fastest, unless there is a reason.
    """

    name: str
    about: str
    cells: Callable[[str], list[Cell]]
    run: Run
    sizes: tuple[str, ...] = ("reduced", "full")
    threads: int = 1


def find(name: str) -> Study:
    """Return the study ``name``.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if name not in STUDIES:
        raise ValueError(f"name must be one of {', '.join(STUDIES)}: got {name!r}")
    module, _, attribute = STUDIES[name].partition(":")
    return getattr(import_module(module), attribute)


def run_study(
    study: Study, size: str = "reduced", out: Path | str | None = None, *, command: str = "", progress: bool = True
) -> Rows:
    """Run every cell of ``study`` and return the rows; with ``out``, write the record.

    With ``out`` each run is on disk as soon as it ends, in ``partial(out)``: a run that was ended, by whatever, goes on
    from there when it is started again in the same way.

    Args:
        study: the experiment.
        size: one of ``study.sizes``.
        out: the record's file.
        command: the command line, for the record.
        progress: whether to show a bar.

    Returns:
        One row a run: its settings and what came out.

    Raises:
        ValueError: no study, an unknown size, runs that are there twice.
        RecordError: ``partial(out)`` belongs to another plan.
    """
    if not isinstance(study, Study):
        raise ValueError(f"study must be a Study, such as find('lstm-length'): got {study!r}")
    if size not in study.sizes:
        raise ValueError(f"size must be one of {', '.join(study.sizes)} for {study.name}: got {size!r}")
    cells = study.cells(size)
    if len({str(cell) for cell in cells}) < len(cells):
        raise ValueError(f"the runs of {study.name} must differ: some are there twice")
    out = None if out is None else Path(out)
    origin = archive.provenance(study.name, size, study.threads)
    journal = None if out is None else Journal(partial(out), {**origin, "cells": cells})
    rows = [] if journal is None else [entry["row"] for entry in journal.entries]

    title = f"{study.name}, {size}: {len(cells)} runs"
    with _on(study.threads), ProgressBar(title, len(cells), shown=progress) as bar:
        for cell in _unfinished(cells, rows):
            start = time.perf_counter()
            row = {**cell, **study.run(dict(cell), lambda fraction: bar.show(len(rows) + fraction))}
            _require_finite(study.name, cell, row)
            rows.append(row)
            bar.show(len(rows))
            if journal is not None:
                journal.append({"row": row, "seconds": time.perf_counter() - start})

    if out is None or journal is None:
        return Rows(rows)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    seconds = round(sum(entry["seconds"] for entry in journal.entries), 1)
    archive.write({**origin, "command": command, "date": date, "seconds": seconds}, rows, out)
    journal.remove()
    return archive.read(out)


def partial(out: Path) -> Path:
    """Return the file that keeps the finished runs until the record ``out`` is written."""
    return out.with_name(out.name + ".partial")


def _unfinished(cells: Iterable[Cell], rows: list[dict[str, Any]]) -> list[Cell]:
    return [cell for cell in cells if not any(cell.items() <= row.items() for row in rows)]


def _require_finite(name: str, cell: Cell, row: Cell) -> None:
    """Stop before a long run ends in a record that could not be written: JSON has no NaN."""
    for key, value in row.items():
        numbers = value if isinstance(value, list) else [value]
        if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
            raise ValueError(f"{name} must give finite numbers: got {key}={value} for {cell}")


@contextmanager
def _on(threads: int) -> Iterator[None]:
    """Use so many CPU threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
