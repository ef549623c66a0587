"""Which checks a learner has passed, in a small file of the learner's own (chapter 00).

Set ``COURSE_PROGRESS_DIR`` to keep it elsewhere, as the tests of the course do. Where nothing can
be written, progress lasts as long as the process.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

from platformdirs import user_data_dir

__all__ = ["attempted", "directory", "is_writable", "keep", "kept", "passed", "record", "reset"]

_FILE, _LOCK = "progress.json", "progress.lock"
_Entries = dict[str, dict[str, str]]  # exercise -> {"attempted": date, "passed": date}
_in_memory: _Entries = {}  # what could not be written
_answers_in_memory: dict[str, str] = {}


def directory() -> Path:
    """Return where progress is kept: ``COURSE_PROGRESS_DIR``, or the user's data directory for this
    course."""
    return Path(
        os.environ.get("COURSE_PROGRESS_DIR")
        or user_data_dir("normalization-and-position", appauthor=False)
    )


def is_writable() -> bool:
    """Return whether progress can be kept beyond this process."""
    try:
        directory().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory()):
            return True
    except OSError:
        return False


def record(name: str, passed: bool) -> None:
    """Note that ``name`` was attempted today, and passed if it was; what was once passed stays
    passed."""
    today = date.today().isoformat()
    try:
        with _locked():
            entries = _with_memory(_read())
            _note(entries, name, passed, today)
            _write(entries)
            _in_memory.clear()
    except OSError:
        _note(_in_memory, name, passed, today)


def passed() -> dict[str, str]:
    """Return the exercises that were passed, each with the date (ISO) of the first time."""
    return _dates("passed")


def attempted() -> dict[str, str]:
    """Return the exercises that were tried, passed or not, each with the date (ISO) of the first
    time."""
    return _dates("attempted")


def keep(name: str, source: str) -> None:
    """Keep the source of an answer that passed; of several the last."""
    _answers_in_memory[name] = source
    with suppress(OSError):
        (directory() / "answers").mkdir(parents=True, exist_ok=True)
        (directory() / "answers" / f"{name}.py").write_text(source, encoding="utf-8")


def kept(name: str) -> str | None:
    """Return the source of the last answer that passed, or None."""
    with suppress(OSError):
        return (directory() / "answers" / f"{name}.py").read_text(encoding="utf-8")
    return _answers_in_memory.get(name)


def reset() -> None:
    """Forget all progress, and the answers that were kept."""
    _in_memory.clear()
    _answers_in_memory.clear()
    with suppress(OSError), _locked():
        for path in (directory() / _FILE, *(directory() / "answers").glob("*.py")):
            path.unlink(missing_ok=True)


def _dates(what: str) -> dict[str, str]:
    try:
        entries = _read()
    except OSError:
        entries = {}
    dates = {name: entry[what] for name, entry in _with_memory(entries).items() if what in entry}
    return dict(sorted(dates.items()))


def _with_memory(entries: _Entries) -> _Entries:
    """Return the entries of the file with those that could not be written when they came."""
    names = entries.keys() | _in_memory.keys()
    return {name: _in_memory.get(name, {}) | entries.get(name, {}) for name in names}


def _note(entries: _Entries, name: str, passed: bool, today: str) -> None:
    entry = entries.setdefault(name, {})
    entry.setdefault("attempted", today)
    if passed:
        entry.setdefault("passed", today)


def _read() -> _Entries:
    """Return the entries of the file; a file that is none of ours is set aside under another name,
    with a warning."""
    path = directory() / _FILE
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        entries = None
    if _is_valid(entries):
        return entries
    aside = next(
        p
        for n in range(1, 10_000)
        if not (p := path.with_name(f"progress.damaged-{n}.json")).exists()
    )
    path.replace(aside)
    warnings.warn(
        f"The progress file could not be read. It is kept as {aside}, and a new one begins.",
        stacklevel=2,
    )
    return {}


def _is_valid(entries: object) -> bool:
    return isinstance(entries, dict) and all(
        isinstance(entry, dict)
        and set(entry) <= {"attempted", "passed"}
        and all(isinstance(d, str) for d in entry.values())
        for entry in entries.values()
    )


def _write(entries: _Entries) -> None:
    """Replace the file in one step, so that no reader and no crash ever meets half of one."""
    handle, temporary = tempfile.mkstemp(dir=directory(), prefix=_FILE, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=1, sort_keys=True)
        os.replace(temporary, directory() / _FILE)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the lock on the file against other kernels, where the system has such locks (not on
    Windows)."""
    directory().mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(directory() / _LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
