"""Records of runs: JSON Lines, the first says where they come from, then one line a run.

A run is on disk as soon as it ends: what was interrupted goes on when it is started again, and
skips the runs that are there. A line that was cut short is no run.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "toy.jsonl"
>>> begin(path, {"device": "an abacus"})
[]
>>> append(path, {"seed": 0, "loss": 1.5})
>>> read(path)
({'device': 'an abacus'}, [{'seed': 0, 'loss': 1.5}])
"""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import course_utils

__all__ = [
    "RecordError",
    "append",
    "begin",
    "is_recording",
    "machine",
    "origin",
    "read",
    "replacing",
    "result",
    "write",
]

Fields = Mapping[str, Any]

_OF_EACH_START = ("command", "date")  # of the provenance: they may differ when a run goes on


class RecordError(ValueError):
    """A file that cannot be used, and why."""


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the provenance and the runs of a record, finished or not."""
    first, *runs = [_parsed(line) for line in path.read_text(encoding="utf-8").splitlines()] or [{}]
    if "provenance" not in first:
        raise RecordError(
            f"{path.name} is damaged or no record: its first line must hold the provenance"
        )
    return first["provenance"], [run for run in runs if run]


def write(path: Path, provenance: Fields, runs: Iterable[Fields]) -> None:
    """Write a record with all its runs, replacing ``path`` in one step."""
    with replacing(path) as unfinished:
        text = "".join(_line(content) for content in ({"provenance": provenance}, *runs))
        unfinished.write_text(text, encoding="utf-8")


def begin(path: Path, provenance: Fields) -> list[dict[str, Any]]:
    """Return the runs that the record at ``path`` holds already; begin it where there is none.

    Raises:
        RecordError: it was begun with another provenance, but for the command and the date.
    """
    if not path.exists():
        write(path, provenance, [])
        return []
    begun, runs = read(path)
    present = json.loads(json.dumps(provenance))  # tuples are lists in the file
    compared = [key for key in present if key not in _OF_EACH_START]
    if differing := [key for key in compared if begun.get(key) != present[key]]:
        differences = ", ".join(differing)
        raise RecordError(
            f"{path.name} was begun with another {differences}: delete it or choose another file"
        )
    write(path, begun, runs)  # without a line that was cut short
    return runs


def append(path: Path, run: Fields) -> None:
    """Write one more run at the end of a record that was begun."""
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(run))


def is_recording(key: str) -> bool:
    """Return whether the result ``key`` of a notebook is to be recorded anew: each is with
    ``COURSE_RECORD=1`` in the environment, that one with ``COURSE_RECORD=06-one-number``."""
    return os.environ.get("COURSE_RECORD") in ("1", key)


def result(
    key: str,
    compute: Callable[[], Any],
    *,
    record: Path,
    live: bool,
    provenance: Callable[[], Fields],
) -> dict[str, Any]:
    """Return what ``compute()`` returns, as JSON keeps it, under "result" beside its ``key`` and
    provenance; what was recorded of it if not ``live``, nor to be recorded.

    ``record`` is the file that keeps the results of a notebook, a line each.

    Raises:
        KeyError: it was never recorded.
    """
    recording = is_recording(key)
    if not recording and not live:
        results = _results_in(record)
        if key not in results:
            raise KeyError(f"{key} was never recorded: run its notebook with COURSE_RECORD={key}")
        return results[key]
    found = json.loads(json.dumps(compute(), default=lambda tensor: tensor.tolist()))
    line = {"key": key, "result": found, **provenance()}
    if recording:
        # read only now: computing may have taken long
        results = {**_results_in(record), key: line}
        write(record, {}, [results[name] for name in sorted(results)])
    return line


def _results_in(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a record by their keys, none where there is no record."""
    return {run["key"]: run for run in read(path)[1]} if path.exists() else {}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, which replaces ``path`` in one step when the block ends without an
    error."""
    unfinished = path.with_name(path.name + ".new")
    yield unfinished
    os.replace(unfinished, path)


def machine(device_type: str) -> dict[str, Any]:
    """Return what any figure depends on: the device ("cpu" or "cuda"), its driver, the versions,
    the date."""
    device, driver, gpu = _processor(), None, {}
    if device_type == "cuda":
        device = torch.cuda.get_device_name()
        fields = "driver_version", "clocks.max.sm", "power.limit"
        query = f"--query-gpu={','.join(fields)}"
        printed = _output_of("nvidia-smi", query, "--format=csv,noheader")
        told = dict(zip(fields, printed.partition("\n")[0].split(", "), strict=False))
        driver = told.pop("driver_version", "") or None
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        gpu = {
            "cuda": torch.version.cuda,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            **told,
        }
    return {
        "device": device,
        "driver": driver,
        **gpu,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "course": course_utils.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def origin(provenance: Fields) -> str:
    """Return where and when something was measured, in half a line."""
    driver = f", driver {provenance['driver']}" if provenance["driver"] else ""
    device, torch_version = provenance["device"], provenance["torch"]
    return f"{device} (torch {torch_version}{driver}, {provenance['date'][:10]})"


def _line(content: Fields) -> str:
    return json.dumps(content) + "\n"


def _parsed(line: str) -> dict[str, Any]:
    """Return what a line holds: nothing where it was cut short."""
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _processor() -> str:
    """Return the name of the processor, or its architecture where the system does not tell."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return (
        _output_of("sysctl", "-n", "machdep.cpu.brand_string")
        or platform.processor()
        or platform.machine()
    )


def _output_of(*command: str) -> str:
    """Return what ``command`` prints; nothing where there is no such command or it fails."""
    if not shutil.which(command[0]):
        return ""
    finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return finished.stdout.strip() if finished.returncode == 0 else ""
