"""An experiment as data and one function, the loop that runs it, and the records (chapters 06, 07, 11, 12 and 15)."""

import itertools
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
from course_utils.experiments.rows import Rows
from course_utils.timing import records
from course_utils.timing.records import partial

FOLDER = Path(__file__).parent / "recorded"

NEW_SEEDS = range(3, 13)  # of the runs that only report: seeds 0, 1 and 2 have chosen the rates

THREADS = 1  # with which small networks are fastest

Cell = dict[str, Any]  # the settings of one run: flat, JSON, with a "seed"
Progress = Callable[[float], None]  # told the fraction of a run that is done
Run = Callable[[Cell, Progress], dict[str, Any]]  # from the settings of a run to what came out

# the word after `course train` -> where the Study is
STUDIES: dict[str, str] = {
    "long-context": "course_utils.experiments.long_context:ZERO_SHOT",
    "hybrid-context": "course_utils.experiments.hybrid_context:HYBRID",
    "long-context-tuning": "course_utils.experiments.long_context_tuning:TUNING",
    "smollm2-length": "course_utils.experiments.smollm2_length:LENGTH",
    "smollm2-gap": "course_utils.experiments.smollm2_length:GAP",
    "smollm2-needle": "course_utils.experiments.smollm2_length:NEEDLE",
    "longrope-search": "course_utils.experiments.longrope_search:SEARCH",
    "critical-pair": "course_utils.experiments.longrope_search:CRITICAL_PAIR",
    "norm-family": "course_utils.experiments.copying:NORM_FAMILY",
    "qk-norm": "course_utils.experiments.copying:QK_NORM",
    "lstm-length": "course_utils.experiments.lstm_length:LSTM_LENGTH",
    "lstm-batch": "course_utils.experiments.lstm_length:LSTM_BATCH",
    "lstm-edges": "course_utils.experiments.lstm_length:LSTM_EDGES",
    "lstm-gamma": "course_utils.experiments.lstm_length:LSTM_GAMMA",
    "lstm-seeds": "course_utils.experiments.lstm_length:LSTM_SEEDS",
    "batch-size": "course_utils.experiments.batch_size:BATCH_SIZE",
    "cnn-long": "course_utils.experiments.batch_size:CNN_LONG",
    "digits-seeds": "course_utils.experiments.batch_size:DIGITS_SEEDS",
    "mlp-rates": "course_utils.experiments.batch_size:MLP_RATES",
    "extrapolation": "course_utils.experiments.extrapolation:EXTRAPOLATION",
    "gradient-depth": "course_utils.experiments.norm_placement:GRADIENT_DEPTH",
    "vit-depth": "course_utils.experiments.norm_placement:VIT_DEPTH",
    "vit-xavier": "course_utils.experiments.norm_placement:VIT_XAVIER",
    "vit-seeds": "course_utils.experiments.norm_placement:VIT_SEEDS",
    "rnn-time": "course_utils.experiments.rnn_time:RNN_TIME",
}


@dataclass(frozen=True)
class Study:
    """One experiment. ``run`` must give the same on the same machine each time, and leave no global state behind."""

    name: str  # the word after `course train`, and the name of its record
    about: str  # the question that it answers
    cells: Callable[
        [str], list[Cell]
    ]  # from a size, "reduced" or "full", to the runs, no two alike; maybe none reduced
    run: Run


def grid(**fields: Iterable[Any]) -> list[Cell]:
    """Return a cell for every combination of the fields' values; the last field changes from one cell to the next."""
    return [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]


def find(name: str) -> Study:
    """Return the study ``name``, one of ``STUDIES``."""
    if name not in STUDIES:
        raise ValueError(f"name must be one of {', '.join(STUDIES)}: got {name!r}")
    module, _, attribute = STUDIES[name].partition(":")
    return getattr(import_module(module), attribute)


def run_study(
    study: Study, size: str = "reduced", out: Path | str | None = None, *, command: str = "", progress: bool = True
) -> Rows:
    """Run every cell of ``study`` in a size, "reduced" or "full", and return a row for each: settings and results.

    With ``out`` the rows are recorded in that file, with the ``command`` line, and each run is on disk as soon as it
    ends, in ``partial(out)``: a run that was ended, by whatever, goes on from there when it is started again in the
    same way. A file of another run is a ``RecordError``.
    """
    if size not in ("reduced", "full"):
        raise ValueError(f"size must be one of reduced, full for {study.name}: got {size!r}")
    out = None if out is None else Path(out)
    cells = study.cells(size)
    if not cells:
        raise ValueError(f"size must be full for {study.name}, which has no {size} form")
    origin = {"study": study.name, "size": size, **records.machine("cpu"), "threads": THREADS}
    plan = {**origin, "cells": cells}
    finished = [] if out is None else records.resume(partial(out), plan)
    rows = [entry["row"] for entry in finished]

    title = f"{study.name}, {size}: {len(cells)} runs"
    with _on(THREADS), ProgressBar(title, len(cells), shown=progress) as bar:
        for cell in [cell for cell in cells if not any(cell.items() <= row.items() for row in rows)]:
            start = time.perf_counter()
            rows.append({**cell, **study.run(dict(cell), lambda fraction: bar.show(len(rows) + fraction))})
            bar.show(len(rows))
            finished.append({"row": rows[-1], "seconds": time.perf_counter() - start})
            if out is not None:
                records.keep(partial(out), plan, finished)

    if out is None:
        return Rows(rows)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    seconds = round(sum(entry["seconds"] for entry in finished), 1)
    made = {**origin, "command": command, "date": date, "seconds": seconds}
    records.write_json({"provenance": made, "rows": rows}, out)
    partial(out).unlink(missing_ok=True)
    return read(out)


def load(name: str) -> Rows:
    """Return the rows of the record ``name`` that comes with the course; ``.origin`` says where they were measured."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.json")))
        raise FileNotFoundError(f"name must be a recorded experiment: got {name!r}, there are: {known}")
    return read(path)


def read(path: Path) -> Rows:
    """Return the rows of a record that ``course train`` wrote."""
    made, rows = records.read_json(path, ("provenance", "rows"))
    return Rows(rows, f"`{made['command']}` on {made['device']}, torch {made['torch']}, {made['date'][:10]}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from ``seed`` inside, for layers that initialise themselves; afterwards the global state is as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _on(threads: int) -> Iterator[None]:
    """Use so many CPU threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
