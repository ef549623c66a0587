"""JSON files that say when somebody has changed them: written whole or not at all, with a checksum of their content."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["RecordError", "read_sealed", "write_sealed"]


class RecordError(ValueError):
    """A file that is no sound record, and what is wrong with it."""


def write_sealed(content: Mapping[str, Any], path: Path, validate: Callable[[Any], None]) -> None:
    """Add ``checksum`` to ``content`` and write it, replacing ``path`` in one step.

    Raises:
        RecordError: ``validate`` says so; nothing is written.
    """
    content = {**content, "checksum": _checksum(content)}
    validate(content)
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def read_sealed(path: Path, validate: Callable[[Any], None]) -> dict[str, Any]:
    """Return the content of ``path``.

    Raises:
        FileNotFoundError: no such file.
        RecordError: it is no JSON, ``validate`` says so, or it has changed since it was written.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"{path.name} is no JSON: {error}") from None
    try:
        validate(content)
        if content["checksum"] != _checksum(content):
            raise RecordError("its figures are not those that were measured: the checksum does not match")
    except RecordError as error:
        raise RecordError(f"{path.name} is no sound record: {error}") from None
    return content


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
