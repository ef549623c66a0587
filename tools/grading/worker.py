"""The process that grades one exercise of one notebook: it runs what the answer needs, and checks the answer.

The parent starts it as ``python -P -m tools.grading.worker FD``, with the work as JSON on stdin. It answers in
lines of JSON on the file descriptor FD, each with the number that came with the work. What the notebook prints goes
nowhere.
"""

import ast
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

from tools.grading.needed import needed_statements
from tools.grading.process import one_line

__all__ = ["main"]

_MISSING = object()


def main(descriptor: int) -> None:
    """Do the work and end the process at once, whatever the notebook has left running or registered."""
    work = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # input() ends, and what came on stdin is out of reach
    os.set_inheritable(descriptor, False)
    _limit(**work["limits"])

    def say(**event: Any) -> None:
        os.write(descriptor, (json.dumps({"nonce": work["nonce"], **event}) + "\n").encode())

    run_cell, names = _shell()
    sys.path.append(work["folder"])  # a module that was handed in beside the notebook; it replaces none of ours
    say(ready=True)
    needed = needed_statements([source for _, source in work["cells"]], work["exercise"])
    cells = [(*cell, statements) for cell, statements in zip(work["cells"], needed, strict=True) if statements != []]
    answer, failures = _take_answer(work["exercise"], cells, run_cell, names, say)
    say(place="when the check called it")
    verdict = _judge(work["exercise"], answer, names.get(work["exercise"], _MISSING), failures)
    say(verdict=verdict)
    os._exit(0)


def _limit(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Bound what this process and its children may use.

    Memory is RLIMIT_DATA, what is allocated: RLIMIT_AS would count the gigabytes of libraries that PyTorch maps too.
    """
    import resource  # not on Windows, where this module can still be read

    limits = {
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_CPU: cpu_s,  # ends also what has left the process group and outlives the parent's clock
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for what, bound in limits.items():
        _, hard = resource.getrlimit(what)
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(what, (bound, bound))


class _Selected(ast.NodeTransformer):
    """Leaves of a cell the statements at some positions; None leaves all."""

    positions: Collection[int] | None = None

    def visit_Module(self, node: ast.Module) -> ast.Module:
        if self.positions is not None:
            node.body = [statement for position, statement in enumerate(node.body) if position in self.positions]
        return node


def _shell() -> tuple[Callable[[str, Collection[int] | None], Any], dict[str, Any]]:
    """Return what runs statements of a cell as a notebook would, magics included, and the names that cells share."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from course_utils import check  # noqa: F401  before the notebook can put anything else in its place

    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    selected = _Selected()
    shell.ast_transformers.append(selected)

    def run_cell(source: str, positions: Collection[int] | None) -> Any:
        selected.positions = positions
        return shell.run_cell(source, store_history=False)

    return run_cell, shell.user_ns


def _take_answer(
    exercise: str,
    cells: Iterable[tuple[int, str, Collection[int] | None]],
    run_cell: Callable[[str, Collection[int] | None], Any],
    names: dict[str, Any],
    say: Callable[..., None],
) -> tuple[Any, list[str]]:
    """Run ``cells``; return the last value of ``exercise`` that is not the course's own, and which cells failed."""
    from course_utils.check.engine import is_of_course

    answer, failures = _MISSING, []
    for index, source, positions in cells:
        place = f"cell {index} ({_first_line(source)})"
        say(place=f"in {place}")
        result = run_cell(source, positions)
        if error := result.error_before_exec or result.error_in_exec:
            failures.append(f"{place} fails with {_described(error)}")
        if exercise in names and not is_of_course(names[exercise]):
            answer = names[exercise]
    return answer, failures


def _judge(exercise: str, answer: Any, bound: Any, failures: list[str]) -> dict[str, Any]:
    """Return the verdict: an ``Outcome`` without its seconds."""
    from course_utils import check
    from course_utils.check.engine import is_of_torch
    from course_utils.check.ready_made import ready_made

    first = "; ".join(failures[:1])
    if answer is _MISSING and bound is not _MISSING:
        return _verdict("not attempted", f"{exercise} is the course's own function.")
    if answer is _MISSING:
        return _verdict("error", first) if failures else _verdict("not defined", f"No cell defines {exercise}.")
    its_check = getattr(check, exercise)
    try:
        if is_of_torch(answer):
            return _verdict("ready-made", f"{exercise} is torch's own function.")
        report = its_check(answer, record=False)
        if report.passed and (used := ready_made(its_check, answer)):
            return _verdict("ready-made", f"It is right, and calls {used}.")
    except BaseException as error:
        return _verdict("error", f"the check fails with {_described(error)}")
    if report.passed:
        return _verdict("passed", " ".join((report.message, *report.remarks)))
    if not report.attempted:
        return _verdict("not attempted", "")
    lines = map(one_line, report.evidence.lines()) if report.evidence else ()
    return _verdict(
        "wrong",
        f"{report.message} {'' if report.misconception else first}",
        mistake=report.misconception or "",
        right=sum(probe.passed for probe in report.probes),
        probes=len(its_check.probes),
        evidence="\n".join(lines),
        hint=report.hint,
    )


def _verdict(status: str, message: str, mistake: str = "", **details: str | int) -> dict[str, Any]:
    return {"status": status, "message": one_line(message), "mistake": mistake, **details}


def _first_line(source: str) -> str:
    return next((line.strip()[:40] for line in source.splitlines() if line.strip()), "empty")


def _described(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
