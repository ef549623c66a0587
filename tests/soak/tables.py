"""What the soak prints at its end."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

from course_utils.book.tables import Table

__all__ = ["tables"]


def tables(reports: Sequence[pytest.TestReport]) -> list[Table]:
    """Return a table of the widgets and one of the notebooks; rows and columns come in the order of the reports."""
    places: dict[str, dict[tuple[str, str], list[pytest.TestReport]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        places[report.nodeid.split("::")[0]][dict(report.user_properties)["soak"]].append(report)
    made = []
    for cells in places.values():
        rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
        body = [(row, *(_outcome(cells.get((row, column), [])) for column in columns)) for row in rows]
        made.append(Table(("", *columns), body))
    return made


def _outcome(reports: Sequence[pytest.TestReport]) -> str:
    """Return in a few characters what came of a test, or of its repetitions."""
    passed = [report.duration for report in reports if report.passed]
    failed = sum(report.failed for report in reports)
    if not reports:
        return "not run"
    if failed:
        return "FAILED" if len(reports) == 1 else f"FAILED {failed} of {len(reports)}"
    if not passed:
        return "skipped"
    return f"{sum(passed):.0f} s" if len(reports) == 1 else f"{len(passed)} of {len(reports)}, {sum(passed):.0f} s"
