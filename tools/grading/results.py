"""The rows of a grading: as CSV for a spreadsheet, and as a page to read."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import Environment

from chapters import check
from tools.notebooks import write_atomically

__all__ = ["STATUSES", "Row", "missing", "write_csv", "write_report"]

STATUSES = {
    "passed": "right on every probe",
    "ready-made": "right, by a call of torch's built-in, the course's own function or the check's "
    "oracle",
    "wrong": "attempted, and not right yet",
    "not attempted": "the stub as it was handed out",
    "not defined": "no cell defines the function",
    "error": "could not be judged; the message says why",
    "no exercise": "the chapter has no exercise of its own",
}


@dataclass(frozen=True)
class Row:
    """The result of one exercise in one file, or the reason why a file has none."""

    file: str  # relative to the graded folder
    chapter: str = ""
    exercise: str = ""  # empty where it is unknown or there is none
    status: str = "error"  # one of STATUSES
    mistakes: Sequence[
        str
    ] = ()  # the catalogue's keys of the known mistakes, the one to mend first first
    right: int = 0  # of the check's probes
    probes: int = 0
    message: str = ""  # what the check says, or what stood in the way, in one line
    seconds: float = 0.0  # wall-clock time, imports left out


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Write ``rows`` to ``path`` in one step, a line for each exercise of each file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(asdict(Row("")))
    for row in rows:
        mistakes = " ".join(row.mistakes)
        values = asdict(row) | {"mistakes": mistakes, "seconds": f"{row.seconds:.1f}"}
        # no cell is a formula, whatever a learner calls a file
        writer.writerow([re.sub(r"^(?=[=+\-@\t\r])", "'", str(value)) for value in values.values()])
    # a file name may be no UTF-8
    write_atomically(path, text.getvalue().encode(errors="backslashreplace"))


def missing(rows: Sequence[Row], expected: Iterable[str]) -> list[str]:
    """Return the ids that stand, as a word of its own, in the path of no file with an exercise."""
    files = " ".join({row.file for row in rows if row.exercise})
    absent = []
    for one in expected:
        # "ada" is not handed in by "ada_b", where both are expected
        longer = [other for other in expected if one in other and one != other]
        others = "|".join(map(re.escape, longer)) or "$^"
        if not re.search(rf"(?<![^\W_]){re.escape(one)}(?![^\W_])", re.sub(others, "", files)):
            absent.append(one)
    return absent


def write_report(rows: Sequence[Row], path: Path, title: str, expected: Sequence[str] = ()) -> None:
    """Write a page to ``path`` in one step: every result, every mistake that was made, and what
    there is not."""
    counts = Counter((row.exercise, key) for row in rows for key in row.mistakes)
    mistakes = [
        (count, exercise, check[exercise].catalogue[key])
        for (exercise, key), count in counts.most_common()
    ]
    nothing = [(row.file, row.message) for row in rows if not row.exercise]
    reason = "Missing: in no path of a file with an exercise."
    nothing += [(absent, reason) for absent in missing(rows, expected)]
    source = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True).from_string(source)
    page = template.render(
        title=title, rows=rows, mistakes=mistakes, nothing=nothing, statuses=STATUSES
    )
    write_atomically(path, page.encode(errors="backslashreplace"))
