"""``python -m tools COMMAND``: what the Makefile's targets call."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tools.notebooks import NOTEBOOKS, find_notebooks, write_atomically


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0, or 1 when there is something to mend."""
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run_it in {**OF_CHAPTERS, **OF_THE_COURSE}.items():
        command = commands.add_parser(name, help=run_it.__doc__, description=run_it.__doc__)
        if name in OF_CHAPTERS:
            command.add_argument(
                "chapters", nargs="*", metavar="NB", help="a chapter's number or a notebook; or all"
            )
    arguments = parser.parse_args(argv)
    if not NOTEBOOKS.is_dir():
        parser.error(f"run it from the project's folder: there is no {NOTEBOOKS}/ here")
    try:
        if arguments.command in OF_THE_COURSE:
            return OF_THE_COURSE[arguments.command]()
        return OF_CHAPTERS[arguments.command](arguments.chapters)
    except ValueError as error:
        parser.error(str(error))


def run(chapters: list[str]) -> int:
    """Execute notebooks and store their outputs, the same bytes every time; a failure stops none of
    the others."""
    from tools.notebooks import ExecutionFailed, execute

    failed = 0
    for path in find_notebooks(chapters):
        try:
            outcome = "changed" if execute(path) else "the same bytes as before"
            print(f"{path}: executed, {outcome}", flush=True)
        except ExecutionFailed as failure:
            failed += 1
            print(failure, f"failed so far: {failed}", sep="\n", file=sys.stderr)
    return int(failed > 0)


def lint(chapters: list[str]) -> int:
    """Print what a reader would trip over, and claims that have no assertion that ran."""
    from tools.ledger import collect
    from tools.lint import lint as findings_in

    paths = find_notebooks(chapters)
    findings = findings_in(paths) + collect(paths)[1]
    for finding in findings:
        print(finding)
    print(f"notebooks: {len(paths)}, findings: {len(findings)}")
    return int(bool(findings))


def edit(chapters: list[str]) -> int:
    """Write text views to edit, into ``edit/``."""
    from tools.text_view import open_view

    return _each(
        chapters,
        lambda path: f"{open_view(path)}: edit it, then `make update` brings it back into {path}",
    )


def update(chapters: list[str]) -> int:
    """Bring edited text views back into their notebooks."""
    from tools.text_view import VIEWS, bring_back

    views = [view for chapter in chapters or [""] for view in sorted(VIEWS.glob(f"{chapter}*.py"))]
    if not views:
        raise ValueError(
            f"no text view of {' '.join(chapters) or 'any'} in {VIEWS}/: make one with `make edit`"
        )
    for path, changed in map(bring_back, views):
        print(f"{path}: {'updated; now `make run`' if changed else 'already says the same'}")
    return 0


def links(chapters: list[str]) -> int:
    """Write the lines that link chapters back and on, and the minutes that each takes."""
    from tools.lint import write_links

    return _each(
        chapters,
        lambda path: f"{path}: {'linked anew' if write_links(path) else 'already says the same'}",
    )


def fresh(chapters: list[str]) -> int:
    """Begin a learner's copy in ``learn/`` anew, and keep the present one beside it."""
    from tools.learn import start_afresh

    if not chapters:
        raise ValueError("NB must say which chapter begins anew, as in `make fresh NB=02`")
    return _each(chapters, start_afresh)


def learn() -> int:
    """Bring a learner's copies in ``learn/`` up to the notebooks; write over nothing that was
    changed."""
    from tools.learn import LEARN, bring_copies

    try:
        for sentence in bring_copies(find_notebooks()):
            print(sentence)
    except OSError as error:
        print(f"{LEARN}/ cannot be written ({error.strerror}): what you do is not kept.")
    return 0


def student(chapters: list[str]) -> int:
    """Write copies without answers into ``student/``."""
    from tools.student import make_student_copy

    return _each(chapters, lambda path: str(make_student_copy(path, Path("student"))))


def class_archive() -> int:
    """Write ``class.zip``: the course with students' copies for its notebooks."""
    from tools.student import write_class_archive

    print(write_class_archive(Path("class.zip"), find_notebooks()))
    return 0


def _each(chapters: list[str], work: Callable[[Path], str]) -> int:
    for path in find_notebooks(chapters):
        print(work(path))
    return 0


def html() -> int:
    """Write the notebooks as a static site into ``site/``."""
    from tools.site import build_site

    status = build_site(Path("site"))
    print("site/index.html: open it in a browser" if status == 0 else "the site is not built")
    return status


def ledger() -> int:
    """Write the ledger of claims from what the notebooks say; a claim that did not run stops it."""
    from chapters.c20_on_trial.ledger import LEDGER
    from tools.ledger import collect, ledger_text

    entries, findings = collect(find_notebooks())
    for finding in findings:
        print(finding)
    if not findings:
        write_atomically(LEDGER, ledger_text(entries).encode())
        print(
            f"ledger: {len(entries)} claims; chapter 20 shows them: `make run NB=20` if any has "
            "changed"
        )
    return int(bool(findings))


def handbook() -> int:
    """Write the instructor's handbook to ``handbook.md``, and every known mistake to
    ``mistakes.md``."""
    from tools.handbook import handbook as written
    from tools.handbook import mistakes

    for file, text in (("handbook.md", written()), ("mistakes.md", mistakes())):
        write_atomically(Path(file), text.encode())
        print(file)
    return 0


def readme() -> int:
    """Bring the numbers in README.md up to date, and the addresses there and in CITATION.cff."""
    from tools.readme import numbers, repository, with_addresses, with_numbers

    counted = numbers()
    for page in (Path("README.md"), Path("CITATION.cff")):
        text = with_numbers(with_addresses(page.read_text(encoding="utf-8"), repository()), counted)
        write_atomically(page, text.encode())
    print(*(f"{number:,} {words}" for words, number in counted.items()), sep="\n")
    return 0


OF_CHAPTERS = {f.__name__: f for f in (run, lint, edit, update, links, fresh, student)}
OF_THE_COURSE = {f.__name__: f for f in (learn, html, ledger, handbook, readme, class_archive)}


if __name__ == "__main__":
    sys.exit(main())
