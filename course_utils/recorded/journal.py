"""What a run has measured so far, safe from whatever ends it: a line of JSON for each case, on disk at once."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_utils.recorded.sealed import RecordError

__all__ = ["Journal"]


class Journal:
    """An append-only file beside the record that a run is making.

    Args:
        path: the file; one that exists is continued.
        plan: what the run is: device, versions, seed and cases. A journal of another plan is refused.

    Raises:
        RecordError: the file belongs to another plan, or is no journal.
    """

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        if path.exists() and (lines := _whole_lines(path)):
            found, *self.entries = lines
            _require_same_plan(path, found, plan)
        else:
            self._write(plan)

    def append(self, entry: dict[str, Any]) -> None:
        """Add ``entry`` and return when it is on disk."""
        self._write(entry)
        self.entries.append(entry)

    def remove(self) -> None:
        """Delete the file: the record is written."""
        self.path.unlink()

    def _write(self, item: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(item) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of ``path``; one that was being written when the run ended is cut off."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise RecordError(f"{path.name} is no journal of a run: {error}; delete it or choose another file") from None
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    return lines


def _require_same_plan(path: Path, found: Any, plan: Mapping[str, Any]) -> None:
    plan = json.loads(json.dumps(plan))  # tuples are lists in the file
    if not isinstance(found, dict) or set(found) != set(plan):
        raise RecordError(f"{path.name} is no journal of this command: delete it or choose another file")
    for key, value in plan.items():
        if found[key] != value:
            was = found[key] if len(str(found[key])) < 60 else "another"
            raise RecordError(f"{path.name} was begun with {key} {was}: delete it or choose another file")
