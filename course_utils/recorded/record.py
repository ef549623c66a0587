"""The form of a record: what it must hold, reading with every check, and writing whole or not at all.

A record is one JSON object:

    format, version      what it is, and which edition of this form
    provenance           device, driver, versions, command, seed
    sessions             when it was measured, and the bandwidth of a large copy then (an interrupted run has several)
    results              for each implementation of each case: errors, times, and what a copy as large as its input
                         moved in the same rounds; with several processes the medians over them, and as range_ms the
                         smallest and the largest median time of one
    left_out             implementations that could not run, with the reason
    checksum             SHA-256 of all the rest, so that an edited figure does not pass for a measured one
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from course_utils.arguments import is_number
from course_utils.book.tables import Table
from course_utils.recorded.sealed import RecordError, read_sealed, write_sealed
from course_utils.recorded.selection import require_values

__all__ = ["FORMAT", "VERSION", "Record", "RecordError", "read", "validate", "write"]

FORMAT, VERSION = "course bench", 2
NUMBER = (int, float)
MAYBE_NUMBER = (int, float, type(None))

PROVENANCE = {
    "device": str,
    "device_type": str,
    "driver": (str, type(None)),
    "processes": int,
    "threads": int,
    "allocator": str,
    "platform": str,
    "python": str,
    "torch": str,
    "triton": (str, type(None)),
    "peers": dict,
    "course": str,
    "command": str,
    "seed": int,
    "quick": bool,
}
SESSION = {"date": str, "copy_gbps": dict}
RESULT = {
    "operation": str,
    "direction": str,
    "shape": list,
    "dtype": str,
    "implementation": str,
    "errors": dict,
    "tolerances": dict,
    "bytes_moved": int,
    "median_ms": NUMBER,
    "p10_ms": NUMBER,
    "range_ms": list,
    "runs": int,
    "launch_ms": MAYBE_NUMBER,
    "copy_gbps": NUMBER,
    "session": int,
}
LEFT_OUT = {"operation": str, "direction": str, "shape": list, "dtype": str, "implementation": str, "reason": str}
TOP = {"format": str, "version": int, "provenance": dict, "sessions": list, "results": list, "left_out": list}


@dataclass(frozen=True)
class Record:
    """A record that has passed every check."""

    name: str
    provenance: Mapping[str, Any]
    sessions: list[Mapping[str, Any]]
    results: list[Mapping[str, Any]]
    left_out: list[Mapping[str, Any]]

    @property
    def origin(self) -> str:
        """Where and when it was measured, in half a line."""
        driver = f", driver {self.provenance['driver']}" if self.provenance["driver"] else ""
        day = self.sessions[0]["date"][:10]
        return f"{self.provenance['device']} (torch {self.provenance['torch']}{driver}, {day})"

    def select(self, **wanted: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the results whose fields equal ``wanted``, perhaps none; a shape may be a tuple.

        Raises:
            ValueError: a name that is no field of a result.
        """
        if unknown := sorted(set(wanted) - set(RESULT)):
            raise ValueError(f"fields must be among {', '.join(RESULT)}: got {', '.join(unknown)}")
        wanted = _as_in_json(wanted)
        return (result for result in self.results if all(result[key] == value for key, value in wanted.items()))

    def large_copy_gbps(self, result: Mapping[str, Any]) -> float:
        """Return what a copy larger than any cache moved in the session of ``result``, for its dtype."""
        return self.sessions[result["session"]]["copy_gbps"][result["dtype"]]

    def table(self, **wanted: Any) -> Table:
        """Return the selected results as a table, each beside a copy of its size in the same rounds.

        Raises:
            ValueError: a name that is no field of a result, or a value that no result has.
        """
        columns = ("case", "implementation", "median ms", "range ms", "p10 ms", "GB/s", "% of copy", "error")
        rows = []
        selected = self.select(**wanted)
        require_values(self.results, _as_in_json(wanted))
        for result in selected:
            gbps = result["bytes_moved"] / result["median_ms"] / 1e6
            case = f"{result['operation']} {tuple(result['shape'])} {result['dtype']} {result['direction']}"
            share = round(100 * gbps / result["copy_gbps"])
            error = float(max(result["errors"].values()))
            several = self.provenance["processes"] > 1
            between = " to ".join(f"{time:.3g}" for time in result["range_ms"]) if several else ""
            rows.append(
                (case, result["implementation"], result["median_ms"], between, result["p10_ms"], gbps, share, error)
            )
        return Table(columns, rows, f"{self.name}: measured on {self.origin}")


def _as_in_json(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in wanted.items()}


def read(path: str | os.PathLike[str]) -> Record:
    """Read a record and check all of it.

    Args:
        path: a file that ``course bench`` wrote.

    Returns:
        The ``Record``, named after the file.

    Raises:
        FileNotFoundError: no such file.
        RecordError: not JSON, an unknown version, a missing or impossible value, or changed since it was written.
    """
    path = Path(path)
    content = read_sealed(path, validate)
    return Record(path.stem, *(content[key] for key in ("provenance", "sessions", "results", "left_out")))


def write(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Check ``content`` and write it with its checksum; a record that fails its checks is not written.

    Args:
        content: a record without ``format``, ``version`` and ``checksum``, which are added.
        path: the file, replaced in one step.

    Raises:
        RecordError: a missing or impossible value, or an implementation whose error exceeds its tolerance.
    """
    write_sealed({"format": FORMAT, "version": VERSION, **content}, Path(path), validate)


def validate(content: Any) -> None:
    """Raise ``RecordError`` unless ``content`` has the form of a record and every figure in it is possible."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RecordError(f"'format' must be {FORMAT!r}: it was not written by `course bench`")
    if content.get("version") != VERSION:
        raise RecordError(f"'version' must be {VERSION}: got {content.get('version')!r}; use the course that wrote it")
    _require_fields(content, {**TOP, "checksum": str}, "the record")
    _require_fields(content["provenance"], PROVENANCE, "provenance")
    if not content["sessions"] or not content["results"]:
        raise RecordError("'sessions' and 'results' must not be empty")
    for i, session in enumerate(content["sessions"]):
        _require_session(session, f"sessions[{i}]")
    for i, left_out in enumerate(content["left_out"]):
        _require_fields(left_out, LEFT_OUT, f"left_out[{i}]")
    seen = set()
    for i, result in enumerate(content["results"]):
        _require_result(result, f"results[{i}]", content["sessions"])
        identity = json.dumps([result[key] for key in ("operation", "direction", "shape", "dtype", "implementation")])
        if identity in seen:
            raise RecordError(f"results[{i}] is there twice: {identity}")
        seen.add(identity)


def _require_fields(item: Any, fields: Mapping[str, Any], where: str) -> None:
    if not isinstance(item, dict):
        raise RecordError(f"{where} must be an object: got {type(item).__name__}")
    for key, kinds in fields.items():
        if key not in item:
            raise RecordError(f"{where} lacks {key!r}")
        # In Python a bool is an int; in a record it never stands for a number.
        if not isinstance(item[key], kinds) or (isinstance(item[key], bool) and kinds is not bool):
            raise RecordError(f"{where} has a {key!r} of the wrong kind: got {item[key]!r}")


def _require_session(session: Any, where: str) -> None:
    _require_fields(session, SESSION, where)
    try:
        datetime.fromisoformat(session["date"])
    except ValueError:
        raise RecordError(f"{where} has a 'date' that is none: got {session['date']!r}") from None
    for dtype, gbps in session["copy_gbps"].items():
        _require_positive(gbps, f"{where}, copy_gbps of {dtype}")


def _require_result(result: Any, where: str, sessions: list[dict[str, Any]]) -> None:
    _require_fields(result, RESULT, where)
    for key in ("median_ms", "p10_ms", "runs", "bytes_moved", "copy_gbps"):
        _require_positive(result[key], f"{where}, {key}")
    if result["launch_ms"] is not None:
        _require_positive(result["launch_ms"], f"{where}, launch_ms")
    if result["p10_ms"] > result["median_ms"]:
        raise RecordError(f"{where}: p10_ms {result['p10_ms']} is above median_ms {result['median_ms']}")
    low, high = _range(result["range_ms"], where)
    if not low <= result["median_ms"] <= high:
        raise RecordError(f"{where}: median_ms {result['median_ms']} lies outside range_ms {result['range_ms']}")
    if not 0 <= result["session"] < len(sessions):
        raise RecordError(f"{where}: session {result['session']} is not among the {len(sessions)} of the record")
    if result["dtype"] not in sessions[result["session"]]["copy_gbps"]:
        raise RecordError(f"{where}: its session has no copy bandwidth for {result['dtype']}")
    if not result["errors"] or set(result["errors"]) != set(result["tolerances"]):
        raise RecordError(f"{where}: 'errors' and 'tolerances' must have the same names, at least one")
    for name, error in result["errors"].items():
        tolerance = result["tolerances"][name]
        if not (isinstance(error, NUMBER) and isinstance(tolerance, NUMBER) and 0 <= error <= tolerance):
            case = f"{result['implementation']}, {result['operation']} {result['shape']} {result['dtype']}"
            raise RecordError(f"{where}: its check failed ({case}): error of {name} {error}, tolerance {tolerance}")


def _range(times: list[Any], where: str) -> tuple[float, float]:
    if len(times) != 2:
        raise RecordError(f"{where}, range_ms must be two times: got {times!r}")
    for time in times:
        _require_positive(time, f"{where}, range_ms")
    return times[0], times[1]


def _require_positive(number: Any, where: str) -> None:
    if not is_number(number) or not 0 < number < math.inf:
        raise RecordError(f"{where} must be a positive number: got {number!r}")
