"""The process that grades one exercise of one notebook: it runs what the answer needs, and checks
the answer.

The parent starts it as ``python -P -m tools.grading.worker NOTEBOOK EXERCISE``, with a number on
stdin. On stdout it says in lines of JSON where it is, and at last the verdict, each line with that
number before it. What the notebook prints goes nowhere, so a gigabyte of it costs nothing.
"""

import ast
import json
import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from chapters import check
from chapters.ready_made import ready_made
from course_utils.check.functions import is_of_course, is_of_torch
from tools.grading.needed import needed_statements
from tools.grading.submissions import read_submission

__all__ = ["main"]

_MISSING = object()


def main(path: Path, exercise: str) -> None:
    """Do the work and end the process at once, whatever the notebook has left running or
    registered."""
    nonce = sys.stdin.read()
    descriptor = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)  # input() ends, and what came on stdin is out of reach
    os.dup2(nowhere, 1)

    def say(what: str | dict[str, Any]) -> None:
        os.write(descriptor, f"{nonce}{json.dumps(what)}\n".encode())

    # a module that was handed in beside the notebook; it replaces none of ours
    sys.path.append(str(path.parent))
    # magics run in it
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    names = shell.user_ns
    names["display"] = print
    answer, failures = _take_answer(path, exercise, names, say)
    say(", when the check called it")
    say(_judge(exercise, answer, exercise in names, failures))
    os._exit(0)


def _take_answer(
    path: Path, exercise: str, names: dict[str, Any], say: Callable[..., None]
) -> tuple[Any, list[str]]:
    """Run what is needed; return the last value of ``exercise`` that is not the course's, and which
    cells failed."""
    _, cells = read_submission(path)
    needed = needed_statements([source for _, source in cells], exercise)
    say(", before the first cell")  # the clock starts: on a cold disk all up to here takes seconds
    answer: Any = _MISSING
    failures: list[str] = []
    for (index, source), statements in zip(cells, needed, strict=True):
        if statements == []:
            continue
        place = f", in cell {index} ({source.strip().splitlines()[0][:40]})"
        say(place)
        try:
            plain = TransformerManager().transform_cell(source)
            tree = ast.parse(plain)
            if statements is not None:
                tree.body = statements
            file = f"<cell {index}>"
            lines = plain.splitlines(keepends=True)
            linecache.cache[file] = (len(plain), None, lines, file)  # for inspect
            exec(compile(tree, file, "exec"), names)
        except BaseException as error:
            failures.append(f"{_described(error)}{place}.")
        value = names.get(exercise, _MISSING)
        if value is not _MISSING and not is_of_course(value):
            answer = value
    return answer, failures


def _judge(exercise: str, answer: Any, is_bound: bool, failures: list[str]) -> dict[str, Any]:
    """Return the verdict: the fields of a row, but for the file and the seconds."""
    if answer is _MISSING and is_bound:
        return {"status": "not attempted", "message": f"{exercise} is the course's own function."}
    if answer is _MISSING and failures:
        return {"status": "error", "message": failures[0]}
    if answer is _MISSING:
        return {"status": "not defined", "message": f"No cell defines {exercise}."}
    if is_of_torch(answer):
        return {"status": "ready-made", "message": f"{exercise} is torch's own function."}
    its_check = check[exercise]
    try:
        report = its_check(answer, record=False)
        called = ready_made(its_check, answer) if report.passed else ""
    except BaseException as error:
        return {"status": "error", "message": f"The check fails with {_described(error)}."}
    if called:
        return {"status": "ready-made", "message": f"It is right, and calls {called}."}
    if not report.attempted:
        return {"status": "not attempted"}
    said = " ".join(report.points)
    message = said if said.endswith(".") else f"{said.capitalize()}."
    reasons = [] if report.passed or report.misconceptions else failures[:1]
    return {
        "status": "passed" if report.passed else "wrong",
        "message": " ".join([message, *report.remarks, *reasons]),
        "mistakes": report.misconceptions,
        "right": sum(probe.passed for probe in report.probes),
        "probes": len(its_check.probes),
    }


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
