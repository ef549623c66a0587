"""Results of the ladder that were measured elsewhere, with where they come from (chapters 10 and
11).

A record of ``course bench`` has a line for each case: its errors and times, an implementation each,
and what could not run, with the reason. ``range_ms`` are the least and the largest median time of
several processes.

>>> [record.provenance["device_type"] for record in map(load, available("cpu"))]
['cpu']
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_utils import runs

FOLDER = Path(__file__).parent / "recorded"
CASE = ("operation", "direction", "shape", "dtype")


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
        return runs.origin(self.provenance)

    def select(self, **wanted: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the results whose fields equal ``wanted``, perhaps none; a shape may be a tuple."""
        wanted = {
            key: list(value) if isinstance(value, tuple) else value for key, value in wanted.items()
        }
        return (
            result
            for result in self.results
            if all(result[key] == value for key, value in wanted.items())
        )


def available(device_type: str) -> list[str]:
    """Return the names of the records of this kind of device, "cpu" or "cuda", that come with the
    course."""
    names = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
    return [name for name in names if load(name).provenance["device_type"] == device_type]


def load(name: str) -> Record:
    """Return the record ``name``, one of ``available()``; ``read`` takes the path of any other."""
    return read(FOLDER / f"{name}.jsonl")


def describe(device_type: str = "cuda") -> str:
    """Say in a sentence which results of this kind of device, "cpu" or "cuda", come with the
    course, or that none does.

    >>> print(describe("cpu").partition(", ")[0])
    Recorded: cpu
    """
    if names := available(device_type):
        return (
            "Recorded: "
            + "; ".join(f"{name}, measured on {load(name).origin}" for name in names)
            + "."
        )
    kind = {"cuda": "GPU", "cpu": "CPU"}[device_type]
    return (
        f"No result of a {kind} is recorded in this copy of the course. "
        f"`course bench --device {device_type} --out FILE` measures one where there is such a "
        "device."
    )


def read(path: Path) -> Record:
    """Return the record in a file that ``course bench`` wrote, named after the file."""
    provenance, cases = runs.read(path)
    return Record(path.stem, provenance, _flat(cases, "results"), _flat(cases, "left_out"))


def _flat(cases: Sequence[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [
        {**{field: case[field] for field in CASE}, **result}
        for case in cases
        for result in case[kind]
    ]
