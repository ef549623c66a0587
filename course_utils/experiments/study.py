"""An experiment as data and one function, the loop that runs it, and the records (chapters 07, 08,
12, 13 and 16)."""

import inspect
import itertools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_utils import runs
from course_utils.experiments.rows import Rows
from course_utils.progress_bar import ProgressBar

THREADS = 1  # with which small networks are fastest

Settings = dict[str, Any]  # of one run: flat, JSON, with a "seed"
Progress = Callable[[float], None]  # told the fraction of a run that is done
Run = Callable[[Settings, Progress], dict[str, Any]]  # from the settings of a run to what came out


@dataclass(frozen=True)
class Study:
    """One experiment. ``run`` must give the same on the same machine each time, and leave no global
    state behind.

    ``full`` and ``reduced`` are the settings of its runs, no two alike; there may be none reduced.
    """

    name: str  # the word after `course train`, and the name of its record
    about: str  # the question that it answers
    run: Run
    full: Sequence[Settings]
    reduced: Sequence[Settings] = ()


def grid(**fields: Iterable[Any]) -> list[Settings]:
    """Return the settings for every combination of the fields' values; the last field changes from
    run to run."""
    return [
        dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())
    ]


def planned(name: str, run: Run) -> Study:
    """Return the study ``name`` as ``studies.toml`` beside the module of ``run`` plans it.

        [name]
        about = "does it help?"
        full = [{ lr = [0.1, 0.3], seed = [0, 1, 2], steps = 400 }]
        reduced = [{ lr = 0.1, seed = 0, steps = 80 }]

    Each line of a size is a `grid`, in which a field that does not vary needs no list.
    """
    path = Path(inspect.getfile(run)).with_name("studies.toml")
    entry = tomllib.loads(path.read_text(encoding="utf-8"))[name]
    plans: dict[str, list[Settings]] = {"full": [], "reduced": []}
    for size, plan in plans.items():
        for line in entry.get(size, []):
            fields = {
                key: value if isinstance(value, list) else [value] for key, value in line.items()
            }
            plan += grid(**fields)
    return Study(name, entry["about"], run, **plans)


def run_study(
    study: Study,
    size: str = "reduced",
    out: Path | str | None = None,
    *,
    command: str = "",
    progress: bool = True,
) -> Rows:
    """Run ``study`` in a size, "reduced" or "full", and return a row for each run: its settings and
    what came out.

    With ``out`` each run is recorded in that file as soon as it ends, with the ``command`` line:
    started again in the same way, only the runs that are not there are made. A file of another
    study or machine is a ``RecordError``.
    """
    plans = {"reduced": study.reduced, "full": study.full}
    if size not in plans:
        raise ValueError(f"size must be one of reduced, full for {study.name}: got {size!r}")
    plan = plans[size]
    if not plan:
        raise ValueError(f"size must be full for {study.name}, which has no {size} form")
    rows: list[dict[str, Any]] = []
    if out is not None:
        out = Path(out)
        origin = {"study": study.name, "size": size, **runs.machine("cpu"), "threads": THREADS}
        rows = runs.begin(out, {**origin, "command": command})
    missing = [
        settings for settings in plan if not any(settings.items() <= row.items() for row in rows)
    ]

    title = f"{study.name}, {size}: {len(plan)} runs"
    with _on(THREADS), ProgressBar(title, len(plan), shown=progress) as bar:
        for settings in missing:
            result = study.run(dict(settings), lambda fraction: bar.show(len(rows) + fraction))
            rows.append({**settings, **result})
            bar.show(len(rows))
            if out is not None:
                runs.append(out, rows[-1])
    return Rows(rows) if out is None else read(out)


def read(path: Path) -> Rows:
    """Return the rows of a record that ``course train`` wrote."""
    made, rows = runs.read(path)
    return Rows(
        rows, f"`{made['command']}` on {made['device']}, torch {made['torch']}, {made['date'][:10]}"
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from ``seed`` inside, for layers that initialise themselves; afterwards the global state
    is as it was."""
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
