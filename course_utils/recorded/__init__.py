"""Results measured elsewhere: JSON files written by ``course bench``, with where they come from, checked on loading.

>>> from course_utils import recorded
>>> all(recorded.load(name).provenance["device"] for name in recorded.available())
True
"""

from pathlib import Path

from course_utils.recorded.record import Record, RecordError, read, write

__all__ = ["Record", "RecordError", "available", "describe", "load", "read", "write"]

FOLDER = Path(__file__).parent


def available(device_type: str | None = None) -> list[str]:
    """Return the names of the records that come with the course.

    Args:
        device_type: only those of this kind of device: "cpu" or "cuda".
    """
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    return [name for name in names if device_type is None or load(name).provenance["device_type"] == device_type]


def load(name: str) -> Record:
    """Return the record ``name``, one of ``available()``; ``read`` takes the path of any other.

    Raises:
        FileNotFoundError: no such record; the message lists those there are.
        RecordError: the file is not a sound record.
    """
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        known = ", ".join(available()) or "none"
        raise FileNotFoundError(f"name must be a record that comes with the course: got {name!r}, there are: {known}")
    return read(path)


def describe(device_type: str = "cuda") -> str:
    """Say in a sentence which results of this kind of device come with the course, or that none does.

    >>> print(describe("quantum"))
    No result of a quantum device is recorded in this copy of the course.
    """
    names = available(device_type)
    if names:
        return "Recorded: " + "; ".join(f"{name}, measured on {load(name).origin}" for name in names) + "."
    kind = {"cuda": "GPU", "cpu": "CPU"}.get(device_type, f"{device_type} device")
    sentence = f"No result of a {kind} is recorded in this copy of the course."
    if device_type in ("cpu", "cuda"):
        sentence += f" `course bench --device {device_type} --out FILE` measures one where there is such a device."
    return sentence
