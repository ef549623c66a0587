"""Play other machines: every notebook, strictly, held to the instructions, sums and threads that
others have.

What ran is kept in ``machines/``, a line a run; a run that was interrupted goes on where it was.
Beside it lies what pytest printed of each run that was red.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from course_utils import runs
from course_utils.table import Table
from tools.notebooks import find_notebooks
from tools.pieces import in_pieces

__all__ = ["PERSONALITIES", "Personality", "machines"]

FOLDER = Path("machines")
LIMIT_S = 1200  # for one notebook; the longest takes 40 s on two quiet cores


@dataclass(frozen=True)
class Personality:
    """A machine to play: what PyTorch's own kernels, MKL and oneDNN may use, and on how many
    threads."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1

    @property
    def command(self) -> list[str]:
        """What runs a notebook on it, but for the notebook's path."""
        words = f"-m pytest -q -p no:cacheprovider --nbval --threads={self.threads}"
        return [sys.executable, *words.split()]


def _held_to(aten: str, mkl: str, onednn: str) -> dict[str, str]:
    return {
        "ATEN_CPU_CAPABILITY": aten,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "ONEDNN_MAX_CPU_ISA": onednn,
    }


PERSONALITIES = (
    Personality("as it is"),
    Personality("sse", _held_to("default", "SSE4_2", "SSE41")),
    Personality("avx2", _held_to("avx2", "AVX2", "AVX2")),
    Personality("compatible", {"MKL_CBWR": "COMPATIBLE"}),
    Personality("two threads", threads=2),
    Personality("three threads", threads=3),
)


def machines(chapters: Sequence[str], names: Sequence[str] = (), folder: Path = FOLDER) -> int:
    """Run the notebooks of ``chapters`` on each personality, or on those that ``names`` lists;
    print a table of both.

    Returns:
        0 when every run was green, else 1.

    Raises:
        ValueError: a name that no personality has.
    """
    known = [personality.name for personality in PERSONALITIES]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"a personality must be one of {', '.join(known)}: got {', '.join(unknown)}"
        )
    played = [p for p in PERSONALITIES if not names or p.name in names]
    notebooks = find_notebooks(chapters)
    digests = {path: _digest(path) for path in notebooks}
    keys = {
        (p.name, path): f"{p.name} {path.stem} {digests[path]}"
        for p in played
        for path in notebooks
    }
    tasks = {
        keys[p.name, path]: partial(_run, p, path, folder) for p in played for path in notebooks
    }
    jobs = os.cpu_count() or 1
    done = in_pieces(tasks, folder / "runs.jsonl", runs.machine("cpu"), jobs, Event())
    results = {where: done[key] for where, key in keys.items()}
    rows = [(path.stem, *(_cell(results[p.name, path]) for p in played)) for path in notebooks]
    in_all = [sum(results[p.name, path]["seconds"] for path in notebooks) for p in played]
    reds = sum(bool(result["red"]) for result in results.values())
    columns = ["notebook", *(p.name for p in played)]
    rows.append(("seconds", *map(round, in_all)))
    print(Table(columns, rows, f"{len(results)} runs, {reds} red"))
    for (name, path), result in results.items():
        if result["red"]:
            print(f"{name}, {path.stem}: {', '.join(result['red'])} ({_log(folder, name, path)})")
    return int(reds > 0)


def _cell(result: Mapping) -> str:
    return f"{len(result['red'])} red" if result["red"] else "green"


def _log(folder: Path, name: str, path: Path) -> Path:
    return folder / f"{path.stem}-{name.replace(' ', '-')}.log"


def _run(personality: Personality, path: Path, folder: Path) -> dict[str, Any]:
    """Run one notebook; return its red cells, and the seconds that it took."""
    started = time.monotonic()
    log = _log(folder, personality.name, path)
    try:
        ran = subprocess.run(
            [*personality.command, str(path)],
            env={**os.environ, **personality.environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        printed, is_green = ran.stdout + ran.stderr, ran.returncode == 0
    except subprocess.TimeoutExpired:
        printed, is_green = f"longer than {LIMIT_S} s", False
    log.unlink(missing_ok=True)
    if not is_green:
        log.write_text(printed, encoding="utf-8")
    red = re.findall(r"^(?:FAILED|ERROR) \S+?(?:::(Cell \d+))?(?: - .*)?$", printed, re.MULTILINE)
    if not red and not is_green:
        red = [""]
    seconds = time.monotonic() - started
    return {"red": [cell or "all of it" for cell in red], "seconds": seconds}


def _digest(notebook: Path) -> str:
    """Name the notebook and all that it may run or read by their contents: a change of one makes a
    run void."""
    digest = hashlib.sha256(notebook.read_bytes())
    for folder in ("chapters", "course_utils"):
        for file in sorted(Path(folder).rglob("*.*")):
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
