"""Long work in pieces, a few at a time: each result is kept as it comes, and work that was
interrupted goes on where it was. For ``course grade``."""

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any

from tqdm import tqdm

from course_utils import runs

__all__ = ["in_pieces"]

Result = Mapping[str, Any]


def in_pieces(
    tasks: Mapping[str, Callable[[], Result]],
    record: Path,
    provenance: Mapping[str, Any],
    jobs: int,
    stop: Event,
) -> dict[str, Result]:
    """Do those of ``tasks`` that ``record`` does not hold yet, and return the results of all by
    their keys. When it is interrupted, ``stop`` is set and no other task begins."""
    record.parent.mkdir(parents=True, exist_ok=True)
    begun = runs.begin(record, provenance)
    # a line in another form was written by another version of the course: its task is done anew
    done = {run["key"]: run["result"] for run in begun if "result" in run}
    todo = {key: task for key, task in tasks.items() if key not in done}
    bar = tqdm(total=len(todo), file=sys.stderr, disable=None)  # none where nobody watches
    with ThreadPoolExecutor(jobs) as pool, bar:
        futures = {pool.submit(task): key for key, task in todo.items()}
        try:
            for future in as_completed(futures):
                key = futures[future]
                done[key] = future.result()
                runs.append(record, {"key": key, "result": done[key]})
                bar.update()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {key: done[key] for key in tasks}
