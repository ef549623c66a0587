"""A learner's own copies of the chapters, in ``learn/``: what ``make lab`` opens.

A copy is the chapter without the outputs of its code, so that no guess is answered on the page
before it is made; the first picture of a widget stays, and solutions stay folded. ``learn/`` is no
part of the repository: what a learner writes there changes no tracked file.

Nothing that a learner saved is ever written over. What was written is noted by its hash in
``learn/.copies.json``: a copy that is still the same gives way to a newer version of its chapter;
one that was changed in any way stays, and the newer version is laid beside it. Whatever is
interrupted, a file is the old one or the new one, and a copy that no note knows counts as changed.
"""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import date
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from tools.notebooks import clear_outputs, write_atomically

__all__ = ["LEARN", "bring_copies", "learners_copy", "start_afresh"]

LEARN = Path("learn")
_NOTES = ".copies.json"
_Notes = dict[str, dict[str, str]]  # file -> {"written": hash, "newest": hash}


def learners_copy(path: Path) -> bytes:
    """Return the notebook at ``path`` as a learner's copy begins."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    clear_outputs(notebook, keep=_is_a_widgets_picture)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
    return f"{text}\n".encode()


def _is_a_widgets_picture(output: Mapping[str, Any]) -> bool:
    html = output.get("data", {}).get("text/html", "")
    return "this is its first state.</figcaption>" in "".join(html)


def bring_copies(notebooks: Iterable[Path], folder: Path = LEARN) -> list[str]:
    """Bring the copies in ``folder`` up to the ``notebooks``; return a sentence for each thing that
    a learner should know. A copy of a chapter that has another name now goes if it was never
    changed."""
    notebooks = list(notebooks)
    notes = _read_notes(folder)
    for name in set(notes) - {path.name for path in notebooks}:
        if _hash_of(folder / name) == notes.pop(name).get("written"):
            (folder / name).unlink()
    made: list[str] = []
    renewed: list[str] = []
    beside: list[str] = []
    for path in notebooks:
        copy, data = folder / path.name, learners_copy(path)
        now, new, noted = _hash_of(copy), _hash(data), notes.get(path.name, {})
        if now in (None, new, noted.get("written")):  # not there, the newest, or never changed
            if now != new:
                write_atomically(copy, data)
                (renewed if now else made).append(_number(copy))
            entry = {"written": new, "newest": new}
        elif noted.get("newest") != new:
            newer = _free_name(copy, "new_version", {new, noted.get("newest")})
            write_atomically(newer, data)
            beside.append(f"{copy.name} (the new version: {newer.name})")
            entry = {**noted, "newest": new}
        else:
            continue
        if entry != noted:
            notes[path.name] = entry
            _write_notes(folder, notes)
    sentences = []
    if made:
        sentences.append(f"{folder}/: your own copies of chapters {', '.join(made)}.")
    if renewed:
        sentences.append(f"In a new version, since you had not changed it: {', '.join(renewed)}.")
    if beside:
        sentences.append(
            f"You have worked in {', '.join(beside)}. Yours stays as it is, the new version lies "
            "beside it. To go on in the new one: `make fresh NB=` and the chapter's number."
        )
    return sentences


def start_afresh(path: Path, folder: Path = LEARN) -> str:
    """Begin the copy of the chapter at ``path`` anew, and keep the present one beside it; return a
    sentence on it."""
    copy, data = folder / path.name, learners_copy(path)
    new = _hash(data)
    if _hash_of(copy) == new:
        return f"{copy} is as it began: there is nothing to keep."
    kept = _free_name(copy, f"kept_{date.today().isoformat()}")
    if was_there := copy.exists():
        os.replace(copy, kept)
    write_atomically(copy, data)
    _write_notes(folder, _read_notes(folder) | {path.name: {"written": new, "newest": new}})
    for newer in folder.glob(f"{_number(copy)}_new_version*.ipynb"):
        if _hash_of(newer) == new:  # it stands in its place now
            newer.unlink()
    return f"{copy} begins anew{f'; what you had is {kept}' if was_there else ''}."


def _number(copy: Path) -> str:
    return copy.stem.partition("_")[0]


def _free_name(copy: Path, word: str, may_go: Iterable[str | None] = ()) -> Path:
    """Return a name beside ``copy`` that is free, or whose file's hash is one of ``may_go``."""
    for number in count(1):
        beside = copy.with_name(f"{_number(copy)}_{word}{f'_{number}' * (number > 1)}.ipynb")
        if not beside.exists() or _hash_of(beside) in may_go:
            return beside
    raise AssertionError("there are as many names as numbers")


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _hash_of(path: Path) -> str | None:
    return _hash(path.read_bytes()) if path.exists() else None


def _read_notes(folder: Path) -> _Notes:
    """Return the notes; where they are gone or damaged, none: every copy then counts as changed."""
    try:
        notes = json.loads((folder / _NOTES).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(notes, dict):
        return {}
    return {name: entry for name, entry in notes.items() if isinstance(entry, dict)}


def _write_notes(folder: Path, notes: _Notes) -> None:
    write_atomically(folder / _NOTES, json.dumps(notes, indent=1, sort_keys=True).encode())
