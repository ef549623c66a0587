"""Records of experiments: what ``course train`` wrote, with where it comes from, checked on loading."""

import platform
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

import course_utils
from course_utils import recorded
from course_utils.experiments.rows import Rows
from course_utils.recorded.sealed import RecordError, read_sealed, write_sealed
from course_utils.timing.machine import device_name, driver

__all__ = ["available", "load", "provenance", "read", "record_path", "write"]

FOLDER = recorded.FOLDER / "experiments"
FORMAT, VERSION = "course train", 1
PROVENANCE: dict[str, Any] = {
    "study": str,
    "size": str,
    "device": str,
    "driver": (str, type(None)),
    "threads": int,
    "platform": str,
    "python": str,
    "torch": str,
    "course": str,
    "command": str,
    "date": str,
    "seconds": (int, float),
}


def available() -> list[str]:
    """Return the names of the records that come with the course."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def record_path(name: str) -> Path:
    """Return the file of the record ``name``, there or not."""
    return FOLDER / f"{name}.json"


def load(name: str) -> Rows:
    """Return the rows of the record ``name`` that comes with the course; ``.origin`` says where they were measured.

    Raises:
        FileNotFoundError: no such record; the message lists those there are.
        RecordError: the file is not a sound record.
    """
    if not record_path(name).is_file():
        known = ", ".join(available()) or "none"
        raise FileNotFoundError(f"name must be a recorded experiment: got {name!r}, there are: {known}")
    return read(record_path(name))


def provenance(study: str, size: str, threads: int) -> dict[str, Any]:
    """Return where results come from, as a record has it, without command, date and duration."""
    return {
        "study": study,
        "size": size,
        "device": device_name("cpu"),
        "driver": driver("cpu"),
        "threads": threads,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "course": course_utils.__version__,
    }


def write(origin: dict[str, Any], rows: list[dict[str, Any]], path: Path) -> None:
    """Check and write a record; a missing or impossible value is a ``RecordError`` and nothing is written."""
    write_sealed({"format": FORMAT, "version": VERSION, "provenance": origin, "rows": rows}, path, validate)


def read(path: Path) -> Rows:
    """Return the rows of any record of an experiment.

    Raises:
        FileNotFoundError: no such file.
        RecordError: no sound record.
    """
    content = read_sealed(path, validate)
    made = content["provenance"]
    origin = f"`{made['command']}` on {made['device']}, torch {made['torch']}, {made['date'][:10]}"
    return Rows(content["rows"], origin)


def validate(content: Any) -> None:
    """Raise ``RecordError`` unless ``content`` has the form of a record of an experiment."""
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, VERSION):
        raise RecordError(f"'format' and 'version' must be {FORMAT!r} and {VERSION}: `course train` did not write it")
    made, rows = content.get("provenance"), content.get("rows")
    if not isinstance(made, dict) or not isinstance(rows, list) or not rows:
        raise RecordError("'provenance' must be an object and 'rows' a list that is not empty")
    for key, kinds in PROVENANCE.items():
        if not isinstance(made.get(key), kinds):
            raise RecordError(f"provenance has no {key!r} of the right kind: got {made.get(key)!r}")
    try:
        datetime.fromisoformat(made["date"])
    except ValueError:
        raise RecordError(f"provenance has a 'date' that is none: got {made['date']!r}") from None
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("seed"), int):
            raise RecordError(f"rows[{i}] must be an object with a 'seed'")
        if set(row) != set(rows[0]):
            raise RecordError(f"rows[{i}] has other fields than rows[0]: {sorted(set(row) ^ set(rows[0]))}")
