"""``python -m tools COMMAND``: what the Makefile's targets for authors call."""

import argparse
import re
import sys
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.notebooks import NOTEBOOKS, find_notebooks, write_atomically

_CONSTRAINTS = """\
# The one set of versions that is tested, written by `make freeze`; `make lab` and `make test` install from it.
# Ranges are in pyproject.toml. No local build tags, so that it holds for PyTorch's CPU and CUDA builds alike."""
# not the course itself, not the installers, not what PyTorch chooses for its CUDA builds
_UNPINNED = re.compile(r"(course-utils|pip|uv)$|(nvidia|cuda)-")


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0, or 1 when there is something to mend."""
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run_it in {**OF_CHAPTERS, **OF_THE_COURSE}.items():
        command = commands.add_parser(name, help=run_it.__doc__, description=run_it.__doc__)
        if name in OF_CHAPTERS:
            command.add_argument("chapters", nargs="*", metavar="NB", help="a chapter's number or a notebook; or all")
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
    """Execute notebooks and store their outputs, the same bytes every time; a failure stops none of the others."""
    from tqdm import tqdm

    from tools.notebooks import ExecutionFailed, execute

    failures = []
    with tqdm(find_notebooks(chapters), unit="notebook", disable=None) as notebooks:
        for path in notebooks:
            notebooks.set_description(path.name)
            try:
                changed = execute(path)
                tqdm.write(f"{path}: {'executed, changed' if changed else 'executed, the same bytes as before'}")
            except ExecutionFailed as failure:
                failures.append(failure)
                tqdm.write(str(failure))
    if failures:
        print(f"failed: {len(failures)} of {len(notebooks)}", file=sys.stderr)
    return int(bool(failures))


def lint(chapters: list[str]) -> int:
    """Print what a reader would trip over, and claims that have no assertion that ran."""
    from tools.ledger import collect
    from tools.lint import LARGEST_HARNESS_OF_ALL, Page, harness_of
    from tools.lint import lint as findings_in

    paths = find_notebooks(chapters)
    findings = findings_in(paths) + collect(paths)[1]
    for finding in findings:
        print(finding)
    harness, lines = map(sum, zip(*(harness_of(Page.read(path)) for path in paths), strict=True))
    is_much = harness > LARGEST_HARNESS_OF_ALL * lines
    print(f"harness: {harness} of {lines} visible code lines, {harness / lines:.1%}{': too much' if is_much else ''}")
    print(f"notebooks: {len(paths)}, findings: {len(findings)}")
    return int(bool(findings) or is_much)


def edit(chapters: list[str]) -> int:
    """Write text views to edit, into ``edit/``."""
    from tools.text_view import open_view

    for path in find_notebooks(chapters):
        print(f"{open_view(path)}: edit it, then `make update` brings it back into {path}")
    return 0


def update(chapters: list[str]) -> int:
    """Bring edited text views back into their notebooks."""
    from tools.text_view import VIEWS, bring_back

    views = [view for chapter in chapters or [""] for view in sorted(VIEWS.glob(f"{chapter}*.py"))]
    if not views:
        raise ValueError(
            f"no text view of {' '.join(chapters) or 'any chapter'} in {VIEWS}/: make one with `make edit`"
        )
    for view in views:
        path, changed = bring_back(view)
        print(f"{path}: {'updated; now `make run`' if changed else 'already says the same'}")
    return 0


def links(chapters: list[str]) -> int:
    """Write the lines that link chapters back and on, from the list of chapters."""
    from tools.lint import write_links

    for path in find_notebooks(chapters):
        print(f"{path}: {'linked anew' if write_links(path) else 'already says the same'}")
    return 0


def student(chapters: list[str]) -> int:
    """Write copies without solutions into ``student/``."""
    from tools.student import make_student_copy

    for path in find_notebooks(chapters):
        print(make_student_copy(path, Path("student")))
    return 0


def html() -> int:
    """Write the notebooks as a static site into ``site/``."""
    from tools.site import build_site

    site = Path("site")
    status = build_site(site)
    if status == 0:
        size_mb = sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) / 1e6
        print(f"{site / 'index.html'}: open it in a browser; the whole site is {size_mb:.0f} MB")
    return status


def ledger() -> int:
    """Write the ledger of claims from what the notebooks say; a claim that did not run stops it."""
    from course_utils.book.ledger import LEDGER
    from tools.ledger import collect, ledger_text

    entries, findings = collect(find_notebooks())
    for finding in findings:
        print(finding)
    if not findings:
        write_atomically(LEDGER, ledger_text(entries).encode())
        print(f"ledger: {len(entries)} claims; chapter 18 shows them: `make run NB=18` if any has changed")
    return int(bool(findings))


def handbook() -> int:
    """Write the instructor's handbook to ``handbook.md``."""
    from tools.handbook import handbook as written

    write_atomically(Path("handbook.md"), written().encode())
    print("handbook.md")
    return 0


def numbers() -> int:
    """Print what the course holds, counted, in the words of README.md."""
    from tools.readme import numbers as counted

    for words, number in counted().items():
        print(f"{number:,} {words}")
    return 0


def readme() -> int:
    """Bring the numbers in README.md up to date, and draw its pictures anew."""
    from tools.readme import numbers as counted
    from tools.readme import with_numbers, write_pictures

    page = Path("README.md")
    write_atomically(page, with_numbers(page.read_text(encoding="utf-8"), counted()).encode())
    for path in write_pictures():
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


def freeze() -> int:
    """Write ``constraints.txt`` from what is installed in this environment, which holds nothing but the course."""
    installed = {canonicalize_name(package.name): Version(package.version) for package in metadata.distributions()}
    pins = [f"{name}=={version.public}" for name, version in sorted(installed.items()) if not _UNPINNED.match(name)]
    write_atomically(Path("constraints.txt"), ("\n".join([_CONSTRAINTS, *pins]) + "\n").encode())
    return 0


OF_CHAPTERS = {"run": run, "lint": lint, "edit": edit, "update": update, "links": links, "student": student}
OF_THE_COURSE = {
    "html": html,
    "ledger": ledger,
    "handbook": handbook,
    "numbers": numbers,
    "readme": readme,
    "freeze": freeze,
}


if __name__ == "__main__":
    sys.exit(main())
