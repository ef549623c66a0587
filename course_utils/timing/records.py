"""Results that were measured elsewhere, with where they come from (chapters 09 and 10).

A record of ``course bench`` is one JSON object: ``provenance``, the device, the versions, the command and the date;
``results``, the errors and times of each implementation of each case; ``left_out``, what could not run, with the
reason. ``range_ms`` are the least and the largest median time of several processes.

>>> [record.provenance["device_type"] for record in map(load, available("cpu"))]
['cpu']
"""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import course_utils

FOLDER = Path(__file__).parent / "recorded"
FIELDS = ("provenance", "results", "left_out")


class RecordError(ValueError):
    """A file that cannot be used, and why."""


@dataclass(frozen=True)
class Record:
    """What ``course bench`` measured on one machine."""

    name: str
    provenance: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]]
    left_out: Sequence[Mapping[str, Any]]

    @property
    def origin(self) -> str:
        """Where and when it was measured, in half a line."""
        driver = f", driver {self.provenance['driver']}" if self.provenance["driver"] else ""
        return f"{self.provenance['device']} (torch {self.provenance['torch']}{driver}, {self.provenance['date'][:10]})"

    def select(self, **wanted: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the results whose fields equal ``wanted``, perhaps none; a shape may be a tuple."""
        wanted = {key: list(value) if isinstance(value, tuple) else value for key, value in wanted.items()}
        return (result for result in self.results if all(result[key] == value for key, value in wanted.items()))


def available(device_type: str) -> list[str]:
    """Return the names of the records of this kind of device, "cpu" or "cuda", that come with the course."""
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    return [name for name in names if load(name).provenance["device_type"] == device_type]


def load(name: str) -> Record:
    """Return the record ``name``, one of ``available()``; ``read`` takes the path of any other."""
    return read(FOLDER / f"{name}.json")


def describe(device_type: str = "cuda") -> str:
    """Say in a sentence which results of this kind of device, "cpu" or "cuda", come with the course, or that none does.

    >>> print(describe("cpu").partition(", ")[0])
    Recorded: cpu
    """
    if names := available(device_type):
        return "Recorded: " + "; ".join(f"{name}, measured on {load(name).origin}" for name in names) + "."
    kind = {"cuda": "GPU", "cpu": "CPU"}[device_type]
    return (
        f"No result of a {kind} is recorded in this copy of the course. "
        f"`course bench --device {device_type} --out FILE` measures one where there is such a device."
    )


def read(path: Path) -> Record:
    """Return the record in a file that ``course bench`` wrote, named after the file."""
    return Record(path.stem, *read_json(path, FIELDS))


def read_json(path: Path, fields: Sequence[str]) -> list[Any]:
    """Return the values of ``fields`` in a JSON file; a ``RecordError`` says what is wrong with a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [content[field] for field in fields]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path.name} is damaged or no record: it must hold {', '.join(fields)}") from error


def write_json(content: Mapping[str, Any], path: Path) -> None:
    """Write ``content``, replacing ``path`` in one step."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def partial(out: Path) -> Path:
    """Return the file that keeps what is measured until the record ``out`` is written."""
    return out.with_name(out.name + ".partial")


def keep(path: Path, plan: Mapping[str, Any], finished: Sequence[Any]) -> None:
    """Write what a run has finished, for ``resume``."""
    write_json({"plan": plan, "finished": finished}, path)


def resume(path: Path, plan: Mapping[str, Any]) -> list[Any]:
    """Return what an interrupted run of the same ``plan`` has finished: nothing where there is no file."""
    if not path.exists():
        return []
    begun, finished = read_json(path, ("plan", "finished"))
    plan = json.loads(json.dumps(plan))  # tuples are lists in the file
    if differing := [key for key in plan if begun.get(key) != plan[key]]:
        raise RecordError(
            f"{path.name} was begun with another {', '.join(differing)}: delete it or choose another file"
        )
    return finished


def machine(device_type: str) -> dict[str, Any]:
    """Return what any figure depends on: the device ("cpu" or "cuda"), its driver, the versions."""
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "device": torch.cuda.get_device_name() if device_type == "cuda" else _processor(),
        "driver": (_output_of(*query).partition("\n")[0].strip() or None) if device_type == "cuda" else None,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "course": course_utils.__version__,
    }


def _processor() -> str:
    """Return the name of the processor, or its architecture where the system does not tell."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or platform.machine()


def _output_of(*command: str) -> str:
    """Return what ``command`` prints; nothing where there is no such command or it fails."""
    if not shutil.which(command[0]):
        return ""
    finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return finished.stdout.strip() if finished.returncode == 0 else ""
