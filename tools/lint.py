"""What a reader of the notebooks would trip over, and what to do about it.

What nbval, which compares outputs, says nothing of. Each rule is a function from a ``Page`` to
problems.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import nbformat
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from chapters.contents import CHAPTERS, line_back, line_on
from tools.notebooks import (
    FOLDED,
    SOLUTION_SUFFIX,
    Exercise,
    defined_names,
    find_exercises,
    has_tag,
    is_code,
    is_folded,
    minutes_text,
    parse_code,
    read_notebook,
    stub_names,
    write_notebook,
)
from tools.student import without_solution

__all__ = [
    "RULES",
    "Element",
    "Finding",
    "Page",
    "html_elements",
    "lint",
    "lint_notebook",
    "write_links",
]

LONGEST_CELL, WIDEST_CODE, WIDEST_PRINT = 40, 88, 100  # lines, columns, columns
LARGEST_BYTES = 1_500_000
MOST_CARDS = 6  # in the flow of a chapter
_RUN = "run the notebook with `make run`"


@dataclass(frozen=True)
class Finding:
    """One thing to mend. ``cell`` counts from 0, as nbval and JupyterLab's cell list do; None is
    the whole file."""

    path: Path
    cell: int | None
    rule: str
    message: str

    def __str__(self) -> str:
        where = f"{self.path}" if self.cell is None else f"{self.path}: cell {self.cell}"
        return f"{where}: {self.rule}: {self.message}"


Problem = tuple[int | None, str, str]  # cell, rule and message of a finding


class Heading(NamedTuple):
    """A heading of Markdown, the cell that it stands in, and its level from 1."""

    cell: int
    level: int
    text: str


class Element(NamedTuple):
    """An HTML element, or the Markdown that stands for one, with its attributes."""

    tag: str
    attributes: dict[str, str]


class Page:
    """A notebook as the lint reads it: its cells, and the Markdown and HTML in them taken apart."""

    def __init__(self, path: Path, notebook: NotebookNode) -> None:
        self.path = path
        self.notebook = notebook
        self.cells: list[NotebookNode] = notebook.cells

    @classmethod
    def read(cls, path: Path) -> "Page":
        """Read the notebook at ``path`` as it is: nothing is repaired on the way in, only lines are
        joined."""
        raw = nbformat.reader.reads(path.read_text(encoding="utf-8"))
        if raw.get("nbformat") != 4:
            raise nbformat.ValidationError(f"nbformat must be 4: got {raw.get('nbformat')}")
        return cls(path, raw)

    def code_cells(self) -> Iterator[tuple[int, NotebookNode]]:
        """Yield the index of each code cell, and the cell."""
        return ((index, cell) for index, cell in enumerate(self.cells) if is_code(cell))

    def markdown_cells(self) -> Iterator[tuple[int, NotebookNode]]:
        """Yield the index of each Markdown cell, and the cell."""
        return (
            (index, cell) for index, cell in enumerate(self.cells) if cell.cell_type == "markdown"
        )

    def outputs(self) -> Iterator[tuple[int, NotebookNode]]:
        """Yield the index of the cell of each output, and the output."""
        return (
            (index, output)
            for index, cell in self.code_cells()
            for output in cell.get("outputs", ())
        )

    @cached_property
    def headings(self) -> list[Heading]:
        """The headings of all Markdown cells, in order."""
        return [
            Heading(index, int(tag.name[1]), tag.get_text())
            for index, cell in self.markdown_cells()
            for tag in _parsed(MarkdownIt().render(cell.source)).find_all(
                ["h1", "h2", "h3", "h4", "h5", "h6"]
            )
        ]

    @cached_property
    def elements(self) -> list[tuple[int, Element]]:
        """Links, images and other HTML elements of the Markdown cells and of the outputs, with
        their cells."""
        texts = [(index, cell.source) for index, cell in self.markdown_cells()]
        pages = []
        for index, output in self.outputs():
            data = output.get("data", {})
            texts.append((index, data.get("text/markdown", "")))
            pages.append((index, data.get("text/html", "")))
        found = [(index, each) for index, text in texts for each in _markdown_elements(text)]
        found += [(index, each) for index, page in pages for each in html_elements(page)]
        return found

    @cached_property
    def lesson_end(self) -> int:
        """The index of the cell that begins the evidence, or one past the last cell."""
        begins = (heading.cell for heading in self.headings if heading.text == "Evidence")
        return next(begins, len(self.cells))

    @cached_property
    def exercises(self) -> list[Exercise]:
        """The exercises, in order."""
        return list(find_exercises(self.notebook))


def html_elements(html: str) -> list[Element]:
    """Return the opening tags of ``html`` with their attributes."""
    return [
        Element(tag.name, {key: str(value) for key, value in tag.attrs.items()})
        for tag in _parsed(html).find_all(True)
    ]


def _parsed(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser", multi_valued_attributes=None)


# $f[i](x)$ is no link
_MATHEMATICS = re.compile(r"(?<!\\)\$\$.+?\$\$|(?<![\\$])\$[^$\n]+?\$", re.DOTALL)


def _markdown_elements(markdown: str) -> list[Element]:
    return html_elements(MarkdownIt().render(_MATHEMATICS.sub("·", markdown)))


# What a notebook says: headings, links, pictures, paths

# a path from the root of somebody's machine, in POSIX or Windows dress; a URL's path and a fraction
# are none
_ABSOLUTE_PATH = re.compile(
    r"(?<![\w./:\\~])(?:/(?:home|Users|root|tmp|usr|opt|var|work|mnt|content|private)/[\w.-]+|[A-Z]:\\\w+|~/[\w.-]+)"
)


def one_title(page: Page) -> Iterator[Problem]:
    """Exactly one level-1 heading, in the first cell."""
    titles = [heading for heading in page.headings if heading.level == 1]
    if not titles or titles[0].cell != 0:
        yield 0, "title", "the first cell must hold the notebook's title: one line with a single #"
    for heading in titles[1:]:
        yield heading.cell, "title", f"a second title, «{heading.text}»: make it level 2 (##)"


def pictures_are_described(page: Page) -> Iterator[Problem]:
    """Every picture has an alternative text, in the Markdown and among the outputs, a widget's
    stand-in too."""
    for index, (tag, attributes) in page.elements:
        if tag == "img" and not attributes.get("alt", "").strip():
            yield index, "alt-text", "a picture without alt text: say in a sentence what it shows"
    for index, output in page.outputs():
        data = output.get("data", {})
        if any(mime.startswith("image/") for mime in data) and "<img" not in data.get(
            "text/html", ""
        ):
            message = (
                "a picture that says nothing to those who cannot see it: show it with "
                'plots.show(fig, alt="…")'
            )
            yield index, "alt-text", message


def links_resolve(page: Page) -> Iterator[Problem]:
    """A link to a file, a notebook, a heading or a cell leads there."""
    for index, (tag, attributes) in page.elements:
        target = attributes.get({"a": "href", "img": "src"}.get(tag, ""))
        if target is None or urlsplit(target).scheme:
            continue
        if problem := _broken(page, target):
            yield index, "link", f"{target} {problem}"


def _broken(page: Page, target: str) -> str:
    """Return what is wrong with a local link and what to do, or nothing."""
    parts = urlsplit(target)
    if not target or target.startswith("/"):
        return "is no relative link: write the path from this notebook"
    path = page.path.parent / unquote(parts.path) if parts.path else page.path
    if not path.exists():
        return "leads nowhere: correct the path, or add the file"
    if not parts.fragment or path.suffix != ".ipynb":
        return ""
    if unquote(parts.fragment) in _anchors(path, path.stat().st_mtime_ns):
        return ""
    return (
        f"names no heading or cell of {path.name}: a heading's link is its text with - for spaces"
    )


@lru_cache
def _anchors(path: Path, _modified: int) -> frozenset[str]:
    page = Page.read(path)
    # as JupyterLab and nbconvert have it
    headings = map(_link, page.headings)
    cells = (f"cell-id={cell.get('id')}" for cell in page.cells)
    elements = (element.attributes.get("id", "") for _, element in page.elements)
    return frozenset({*headings, *cells, *elements} - {""})


def paths_are_relative(page: Page) -> Iterator[Problem]:
    """No path of one machine, in code, text or output."""
    for index, cell in enumerate(page.cells):
        texts = [cell.source]
        for output in cell.get("outputs", ()):
            texts.append(output.get("text", ""))
            texts += [str(content) for content in output.get("data", {}).values()]
        found = _ABSOLUTE_PATH.search(re.sub(r"base64,[A-Za-z0-9+/=]+", "", "\n".join(texts)))
        if found:
            yield (
                index,
                "absolute-path",
                f"{found[0]}… exists on one machine only: use a relative path",
            )


# The lines that link a chapter back to what it builds on and on to what follows, and its times

_CHAPTERS = {chapter.file: chapter for chapter in CHAPTERS}
# the dot of a file name stands before a letter
_BACK = re.compile(r"^Builds on .*?\.(?=\s|$)", re.MULTILINE)
# as they are counted, or as somebody wrote them in words
_TIMES = re.compile(
    r"\d+ minutes to read(?:, \d+ to work through)?|[A-Z][^.\n]* to (?:work through|read)(?=, )"
)
_ON = re.compile(r"^\*\*(?:Next|Also from here|Back|Map|Words):\*\*.*\Z", re.MULTILINE)


def chapters_are_linked(page: Page) -> Iterator[Problem]:
    """A chapter begins with what it builds on and the time that it takes, and its lesson, which
    evidence may follow, ends with what comes next, as the list of chapters has it."""
    chapter = _CHAPTERS.get(page.path.name)
    if chapter is None:
        return
    write = f"write it, or let `python -m tools links {chapter.number}` do so"
    first, last = page.cells[0], page.cells[page.lesson_end - 1]
    times = minutes_text(page.notebook)
    for pattern, line in ((_BACK, line_back(chapter)), (_TIMES, times)):
        if pattern.findall(first.source) != [line]:
            yield 0, "links", f"must say, once, «{line}»: {write}"
    if last.cell_type != "markdown" or last.source.splitlines()[-1:] != [line_on(chapter)]:
        yield page.lesson_end - 1, "links", f"must end with the line «{line_on(chapter)}»: {write}"


def write_links(path: Path) -> bool:
    """Write these lines into the notebook at ``path``, over older ones; return whether the file
    changed."""
    chapter = _CHAPTERS.get(path.name)
    if chapter is None:
        raise ValueError(
            f"path must be a chapter's notebook: got {path}; the list of chapters does not have it"
        )
    notebook = read_notebook(path)
    end = Page(path, notebook).lesson_end
    if notebook.cells[end - 1].cell_type != "markdown":
        notebook.cells.insert(end, nbformat.v4.new_markdown_cell())
        end += 1
    for cell, pattern, line in (
        (0, _BACK, line_back(chapter)),
        (0, _TIMES, minutes_text(notebook)),
        (end - 1, _ON, line_on(chapter)),
    ):
        text = notebook.cells[cell].source
        found = pattern.search(text)  # a new line stands in a paragraph of its own at the end
        new = (
            text[: found.start()] + line + text[found.end() :]
            if found
            else f"{text.rstrip()}\n\n{line}".lstrip()
        )
        notebook.cells[cell].source = new
    return write_notebook(notebook, path)


# The code: what a cell may do, and how an exercise is built


def plain_python(page: Page) -> Iterator[Problem]:
    """No magics and no shell: an install or a shell line would not run for everyone, and no tool
    can read it."""
    for index, cell in page.code_cells():
        if parse_code(cell.source) is None:
            message = (
                "not plain Python: no line with % or !, no half a line; installing is left to "
                "`make lab`"
            )
            yield index, "plain-python", message


def short_cells(page: Page) -> Iterator[Problem]:
    """No cell over forty lines."""
    for index, cell in page.code_cells():
        lines = len(cell.source.splitlines())
        if lines > LONGEST_CELL:
            message = (
                f"{lines} lines, {LONGEST_CELL} at most: split it, or move it into course_utils "
                "with a good name"
            )
            yield index, "long-cell", message


def lines_fit(page: Page) -> Iterator[Problem]:
    """No line of code, where it is in sight, and no printed line that a page would clip."""
    for index, cell in page.code_cells():
        lines = [] if is_folded(cell) else cell.source.splitlines()
        if widest := [line for line in lines if len(line) > WIDEST_CODE]:
            yield index, "wide", f"a line over {WIDEST_CODE} columns: {widest[0].strip()[:40]}…"
    for index, output in page.outputs():
        text = output.text if output.output_type == "stream" else ""
        if widest := [line for line in text.splitlines() if len(line) > WIDEST_PRINT]:
            yield (
                index,
                "wide",
                f"prints a line over {WIDEST_PRINT} columns: {widest[0].strip()[:40]}…",
            )


_TESTED = re.compile(r'\bclaims\.test\(\s*"([^"]+)"')


def what_shows_nothing_is_folded(page: Page) -> Iterator[Problem]:
    """A code cell in sight prints or draws something."""
    for index, cell in page.code_cells():
        if not is_folded(cell) and not cell.get("outputs"):
            message = (
                "prints nothing and draws nothing: fold it, or let it show what the text speaks of"
            )
            yield index, "silent", message


def the_proof_stands_behind(page: Page) -> Iterator[Problem]:
    """Few cards stand in the flow. After it, under the heading Evidence, each claim has a heading
    that is its key, so that links from the flow and from the index find it, and below it one folded
    cell that tests it."""
    tests = [
        (index, key) for index, cell in page.code_cells() for key in _TESTED.findall(cell.source)
    ]
    in_the_flow = [index for index, _ in tests if index < page.lesson_end]
    if len(in_the_flow) > MOST_CARDS:
        message = f"{len(in_the_flow)} cards in the flow, {MOST_CARDS} at most: move them below"
        yield in_the_flow[MOST_CARDS], "evidence", message
    above: dict[str, int] = {_link(heading): heading.cell for heading in page.headings}
    behind = [(index, cell) for index, cell in page.code_cells() if index > page.lesson_end]
    for index, cell in behind:
        if not is_folded(cell):
            yield index, "evidence", "evidence in sight: fold the cell"
        if len(_TESTED.findall(cell.source)) > 1:
            yield index, "evidence", "a cell a claim: split it, each part under its heading"
    for index, key in tests:
        if above.get(key, -1) < page.lesson_end:
            message = f"links to {key} lead nowhere: put the heading «### {key}» below Evidence"
            yield index, "evidence", message
        elif index > page.lesson_end and index != above[key] + 1:
            yield index, "evidence", f"{key} is not tested right below its heading"


def _link(heading: Heading) -> str:
    """Return the link of a heading in lower case, as JupyterLab, VS Code, GitHub and the site have
    it."""
    return heading.text.replace(" ", "-")


def first_cell_sets_up(page: Page) -> Iterator[Problem]:
    """The first code cell calls ``course_utils.setup()``."""
    index, cell = next(page.code_cells(), (None, None))
    if cell is None or "course_utils.setup(" not in cell.source:
        yield index, "set-up", "the first code cell calls course_utils.setup()"


def every_cell_runs(page: Page) -> Iterator[Problem]:
    """No tag that keeps a cell from being run."""
    for index, cell in page.code_cells():
        for tag in ("nbval-skip", "skip-execution"):
            if has_tag(cell, tag):
                message = f"a cell tagged {tag} is never proved: remove the tag, or the cell"
                yield index, "skipped", message


def exercises_are_whole(page: Page) -> Iterator[Problem]:
    """A stub is empty and tagged, and ends in its check: one run writes, checks and shows. A
    solution follows."""
    solved = {exercise.solution for exercise in page.exercises}
    for exercise in page.exercises:
        names = ", ".join(exercise.names) or "?"
        if not stub_names(page.cells[exercise.stub].source):
            message = f"{names} is filled in: leave a docstring and `...` for the learner"
            yield exercise.stub, "stub", message
        last_line = page.cells[exercise.stub].source.rstrip().rpartition("\n")[2]
        if not last_line.startswith("check."):
            yield exercise.stub, "exercise", f"its last line is no check: add check.NAME({names})"
        if exercise.solution is None:
            message = (
                f"no solution follows {names}: a folded cell tagged solution defines "
                f"{names}{SOLUTION_SUFFIX}"
            )
            yield exercise.stub, "exercise", message
    for index, cell in page.code_cells():
        if stub_names(cell.source) and not has_tag(cell, "exercise"):
            yield index, "exercise", "a stub that is not tagged: add the tag exercise"
        if has_tag(cell, "solution") and index not in solved:
            yield index, "solution", "no exercise before it: tag the stub with exercise"


def solutions_are_folded(page: Page) -> Iterator[Problem]:
    """A solution is tagged and collapsed, defines what its stub leaves open, and can be taken out
    for students."""
    names = {exercise.solution: exercise.names for exercise in page.exercises}
    for index, cell in page.code_cells():
        defined = defined_names(cell.source)
        if not has_tag(cell, "solution"):
            if any(name.endswith(SOLUTION_SUFFIX) for name in defined):
                yield (
                    index,
                    "solution",
                    "a solution in plain sight: add the tag solution, and fold it",
                )
            continue
        if {**cell.metadata, **FOLDED} != cell.metadata:
            yield index, "solution", f"not folded everywhere: {_RUN}, which completes its metadata"
        for name in names.get(index, ()):
            if name + SOLUTION_SUFFIX not in defined:
                yield index, "solution", f"must define {name}{SOLUTION_SUFFIX}, for the stub {name}"
        try:
            without_solution(cell.source, cell.metadata.get("stand_in"))
        except ValueError as error:
            yield index, "stand-in", str(error)


# What a notebook stores besides its text: counts, outputs, ids, widget state, size


def executed_in_order(page: Page) -> Iterator[Problem]:
    """Every code cell was executed once, from top to bottom: counted 1 to n."""
    for count, (index, cell) in enumerate(page.code_cells(), start=1):
        stored = cell.get("execution_count")
        if stored is None:
            yield index, "not-run", f"never executed: {_RUN}"
        elif stored != count:
            yield index, "order", f"executed as number {stored}, stands as number {count}: {_RUN}"


def nothing_goes_wrong(page: Page) -> Iterator[Problem]:
    """No error is stored, and no warning."""
    for index, output in page.outputs():
        if output.output_type == "error":
            yield index, "error", "stores an error: mend it, or catch it and print what it says"
        if output.get("name") == "stderr":
            first_line = output.text.strip().split("\n")[0][:80]
            yield (
                index,
                "stderr",
                f"prints to stderr ({first_line}): remove the cause, do not hide it",
            )


def stored_as_make_run_does(page: Page) -> Iterator[Problem]:
    """Every cell has an id of its own, so that links to cells hold; no widget state is stored: it
    is large, and differs every time."""
    if "widgets" in page.notebook.metadata:
        yield None, "widget-state", f"metadata.widgets is stored: {_RUN}, which drops it"
    if page.notebook.get("nbformat_minor", 0) < 5:
        yield None, "ids", f"an old format without cell ids: {_RUN}, which writes format 4.5"
    ids = Counter(cell.get("id") for cell in page.cells)
    for index, cell in enumerate(page.cells):
        cell_id = cell.get("id")
        if ids[cell_id] > 1 or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell_id or ""):
            yield index, "ids", f"id {cell_id!r}: give it its own, of letters, digits, - and _"


def size_is_bounded(page: Page) -> Iterator[Problem]:
    """A notebook stays below 1.5 MB, so that it opens at once and GitHub shows it."""
    size = page.path.stat().st_size
    if size > LARGEST_BYTES:
        message = f"{size / 1e6:.2f} MB, {LARGEST_BYTES / 1e6} at most: fewer or smaller figures"
        yield None, "size", message


RULES: tuple[Callable[[Page], Iterator[Problem]], ...] = (
    one_title, pictures_are_described, links_resolve,
    paths_are_relative, chapters_are_linked, plain_python, short_cells, lines_fit,
    what_shows_nothing_is_folded, the_proof_stands_behind,
    first_cell_sets_up, every_cell_runs,
    exercises_are_whole, solutions_are_folded, executed_in_order, nothing_goes_wrong,
    stored_as_make_run_does, size_is_bounded,
)  # fmt: skip


def lint(paths: Iterable[Path]) -> list[Finding]:
    """Return the findings in the notebooks at ``paths``."""
    return [finding for path in paths for finding in lint_notebook(path)]


def lint_notebook(path: Path) -> list[Finding]:
    """Return the findings in one notebook, by cell; a file that cannot be read is a finding too."""
    try:
        page = Page.read(path)
    except (
        nbformat.reader.NotJSONError,
        nbformat.ValidationError,
        KeyError,
        AttributeError,
    ) as error:
        first_line = str(error).strip().splitlines()[0]
        message = f"not a notebook ({first_line}): bring it back from git and run it again"
        return [Finding(path, None, "format", message)]
    findings = [Finding(path, *problem) for rule in RULES for problem in rule(page)]
    return sorted(findings, key=lambda finding: -1 if finding.cell is None else finding.cell)
