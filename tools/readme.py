"""README.md: the numbers in it, counted, each with the words that follow it there; and its two pictures."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from course_utils import check, plots, widgets
from course_utils.book import ledger
from course_utils.book.claims import VERDICTS
from course_utils.timing import records
from course_utils.timing.ladder import Case
from tools.notebooks import find_exercises, find_notebooks, has_tag, is_code, read_notebook

__all__ = ["FOLDER", "numbers", "pictures", "with_numbers", "write_pictures"]


def numbers() -> dict[str, int]:
    """Return what is counted, keyed by its words, from the notebooks, the checks and the ledger of claims."""
    catalogues = [checked.catalogue for checked in vars(check).values() if isinstance(checked, check.Check)]
    notebooks = [read_notebook(path) for path in find_notebooks()]
    code_cells = [cell for notebook in notebooks for cell in notebook.cells if is_code(cell)]
    bug_hunts = sum(not catalogue for catalogue in catalogues)  # chapter 19's checks judge an input, not an answer
    entries = ledger.load()
    verdicts = Counter(entry.claim.verdict for entry in entries.values())
    return {
        "notebooks": len(notebooks),
        "code cells": len(code_cells),
        "cells of timings": sum(has_tag(cell, "nbval-ignore-output") for cell in code_cells),
        "exercises": sum(len(list(find_exercises(notebook))) for notebook in notebooks) - bug_hunts,
        "more exercises": bug_hunts,
        "known mistakes": len({key for catalogue in catalogues for key in catalogue}),
        "wrong answers": sum(len(mistake.examples) for catalogue in catalogues for mistake in catalogue.values()),
        "claims": len(entries),
        **{verdict.replace("does", "do").replace("holds", "hold"): verdicts[verdict] for verdict in VERDICTS},
        "configurations": _measured(entries, "14:one-function", r"(\d+) configurations"),
    }


def with_numbers(text: str, counted: Mapping[str, int]) -> str:
    """Return ``text`` with the number in front of each of the words of ``counted`` replaced by today's.

    >>> with_numbers("9 claims: 7 hold, 2 hold with a condition", {"hold": 1205, "hold with a condition": 3})
    '9 claims: 1,205 hold, 3 hold with a condition'
    """
    longest_first = "|".join(sorted(map(re.escape, counted), key=len, reverse=True))
    return re.sub(rf"\b[\d,]+ ({longest_first})\b", lambda found: f"{counted[found[1]]:,} {found[1]}", text)


def _measured(entries: Mapping[str, ledger.Entry], name: str, pattern: str) -> int:
    """Return the number that a cell found, from the line of its claim."""
    found = re.search(pattern, entries[name].found) if name in entries else None
    if found is None:
        raise ValueError(f"the ledger must have a claim {name!r} whose number says {pattern!r}: run `make ledger`")
    return int(found[1])


FOLDER = Path(".github")
RUNGS = Case("layer_norm", "forward", (4096, 1024), "float32")
_DPI = 120  # README shows them at half a page's width


def pictures() -> Iterator[tuple[str, Figure]]:
    """Yield each picture's file name and its figure; the ladder only where a CPU's record comes with the course."""
    yield "widget.png", widgets.rope_clocks().picture()[0]
    for record in map(records.load, records.available("cpu")[:1]):
        yield "ladder.png", plots.recorded_ladder(record, **RUNGS.fields())


def write_pictures(folder: Path = FOLDER) -> list[Path]:
    """Write the pictures into ``folder`` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in pictures():
        paths.append(folder / name)
        # matplotlib would write its own version into the file, which changes the bytes from one install to another
        figure.savefig(paths[-1], dpi=_DPI, metadata={"Software": None})
    return paths
