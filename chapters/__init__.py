"""What each lesson alone needs: a folder a chapter, named like its notebook. What several share is
``course_utils``.

    c02_layer_norm/     claims.toml, exercises.py with mistakes/, widgets.py with its JavaScript,
                        figures.py, …
    contents            the chapters: their order, their ideas, their exercises
    sources             whose claims the course tests

A notebook imports from its own folder and from ``course_utils``; no chapter imports another.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from chapters.contents import CHAPTERS, chapter_of
from chapters.sources import links_in
from course_utils import claims
from course_utils.rooms import submodules

if TYPE_CHECKING:
    from course_utils.check import Checks
    from course_utils.experiments import Rows

    check: Checks

__all__ = [
    "cached_results_of",
    "check",
    "checks_of",
    "claims_of",
    "gpu_results_of",
    "known_claims",
    "records_of",
    "widgets_of",
]


def known_claims(number: str) -> Mapping[str, claims.Claim]:
    """Return what is claimed in a chapter, by key: its ``claims.toml``."""
    return claims.load(chapter_of(number).folder / "claims.toml")


def claims_of(number: str) -> claims.Claims:
    """Return the claims of a chapter, none of them tested yet; each work in them with its link."""
    return claims.Claims(chapter_of(number).folder / "claims.toml", links_in, f"chapter {number}")


def widgets_of(number: str) -> ModuleType:
    """Return the widgets of a chapter: its own module of them, which has what it shows of the
    shared ones, or those."""
    own = chapter_of(number).folder
    return import_module(
        f"chapters.{own.name}.widgets" if (own / "widgets.py").exists() else "course_utils.widgets"
    )


def checks_of(exercises: ModuleType) -> "Checks":
    """Return the checks of a chapter's exercises; what they report is noted, and an answer that
    passes is kept."""
    from chapters import yours
    from course_utils.check import Checks, Exercise

    found = [value for value in vars(exercises).values() if isinstance(value, Exercise)]
    checks = Checks(
        *found, on_report=lambda report, answer: yours.note(report, answer, checks[report.name])
    )
    return checks


def records_of(number: str) -> "Callable[[str], Rows]":
    """Return the function that reads a record of a chapter's experiments, by the name of the
    study."""

    def load(name: str) -> "Rows":
        from course_utils.experiments import read

        folder = chapter_of(number).folder / "recorded"
        if not (folder / f"{name}.jsonl").is_file():
            known = ", ".join(sorted(path.stem for path in folder.glob("*.jsonl")))
            raise FileNotFoundError(
                f"name must be a recorded experiment of chapter {number}: got {name!r}, there are: "
                f"{known}"
            )
        return read(folder / f"{name}.jsonl")

    return load


def cached_results_of(number: str) -> "Callable[..., Any]":
    """Return ``pretrained.cached_result`` with the record of a chapter: what its notebook computes
    with a language model, kept for those who lack it."""

    def cached_result(key: str, compute: Callable[[], Any], *, live: bool = True) -> Any:
        from course_utils.models import pretrained

        record = chapter_of(number).folder / "real_model.jsonl"
        return pretrained.cached_result(key, compute, record=record, live=live)

    return cached_result


def gpu_results_of(number: str) -> "Callable[..., tuple[Any, str]]":
    """Return the function that gives what a chapter's notebook measures on a GPU, and where that
    was: here where there is one, else where it was recorded."""

    def on_gpu(key: str, measure: Callable[[], Any], *, live: bool = True) -> tuple[Any, str]:
        import torch

        from course_utils import runs

        line = runs.result(
            key,
            measure,
            record=chapter_of(number).folder / "gpu.jsonl",
            live=live and torch.cuda.is_available(),
            provenance=lambda: runs.machine("cuda"),
        )
        return line["result"], runs.origin(line)

    return on_gpu


@cache
def _all_checks() -> "Checks":
    from course_utils.check import Checks

    checks = Checks()
    for chapter in CHAPTERS:
        checks.update(getattr(import_module(f"chapters.{chapter.folder.name}"), "check", {}))
    return checks


def __getattr__(name: str) -> Any:
    if name == "check":  # those of all chapters
        return _all_checks()
    return submodules(__name__)(name)
