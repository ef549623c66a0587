"""What a reader of the notebooks would trip over, and what to do about it.

nbval compares outputs; it says nothing of a cell that never ran, a figure without a description, or a link that leads
nowhere. Each rule is a function from a ``Page`` to findings.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_utils.book.chapters import CHAPTERS, Chapter, line_back, line_on
from tools.notebooks import (
    NOTEBOOKS,
    SOLUTION_SUFFIX,
    Exercise,
    defined_names,
    find_exercises,
    find_notebooks,
    has_tag,
    is_code,
    parse_code,
    read_notebook,
    stub_names,
    write_notebook,
)
from tools.student import without_solution

__all__ = [
    "CODE_RULES",
    "LARGEST_BYTES",
    "LONGEST_CELL",
    "OUTPUT_RULES",
    "RULES",
    "TEXT_RULES",
    "Element",
    "Finding",
    "Heading",
    "Page",
    "Rule",
    "chapter_at",
    "html_elements",
    "is_linked_back",
    "is_linked_on",
    "lint",
    "lint_notebook",
    "stray_notebooks",
    "write_links",
]


@dataclass(frozen=True)
class Finding:
    """One thing to mend. ``cell`` counts from 0, as nbval and JupyterLab's cell list do; None is the whole file."""

    path: Path
    cell: int | None
    rule: str
    message: str

    def __str__(self) -> str:
        where = f"{self.path}" if self.cell is None else f"{self.path}: cell {self.cell}"
        return f"{where}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class Heading:
    """A heading, the cell that it stands in, and its level from 1."""

    cell: int
    level: int
    text: str

    @property
    def anchor(self) -> str:
        """What a link to it says after the ``#``, as JupyterLab and nbconvert number their headings."""
        return self.text.replace(" ", "-")


@dataclass(frozen=True)
class Element:
    """An HTML element, or the Markdown that stands for one, with its attributes."""

    tag: str
    attributes: dict[str, str]


class Page:
    """A notebook and where it lies."""

    def __init__(self, path: Path, notebook: nbformat.NotebookNode) -> None:
        self.path = path
        self.notebook = notebook
        self.cells: list[nbformat.NotebookNode] = notebook.cells

    @classmethod
    def read(cls, path: Path) -> "Page":
        """Read the notebook at ``path`` as it is: nothing is repaired on the way in, only lines are joined."""
        raw = nbformat.reader.reads(path.read_text(encoding="utf-8"))
        if raw.get("nbformat") != 4:
            raise nbformat.ValidationError(f"nbformat must be 4: got {raw.get('nbformat')}")
        return cls(path, raw)

    def finding(self, cell: int | None, rule: str, message: str) -> Finding:
        """Return a finding in this notebook."""
        return Finding(self.path, cell, rule, message)

    def code_cells(self) -> Iterator[tuple[int, nbformat.NotebookNode]]:
        """Yield the index of each code cell, and the cell."""
        return ((index, cell) for index, cell in enumerate(self.cells) if is_code(cell))

    def markdown_cells(self) -> Iterator[tuple[int, nbformat.NotebookNode]]:
        """Yield the index of each Markdown cell, and the cell."""
        return ((index, cell) for index, cell in enumerate(self.cells) if cell.cell_type == "markdown")

    def outputs(self) -> Iterator[tuple[int, nbformat.NotebookNode]]:
        """Yield the index of the cell of each output, and the output."""
        return ((index, output) for index, cell in self.code_cells() for output in cell.get("outputs", ()))

    @cached_property
    def headings(self) -> list[Heading]:
        """The headings of all Markdown cells, in order."""
        found = []
        for index, cell in self.markdown_cells():
            tokens = MarkdownIt().parse(cell.source)
            for opening, inline in pairwise(tokens):
                if opening.type == "heading_open":
                    found.append(Heading(index, int(opening.tag[1]), _plain_text(inline)))
        return found

    @cached_property
    def elements(self) -> list[tuple[int, Element]]:
        """Links, images and other HTML elements of the Markdown cells and of the outputs, with their cells."""
        found = [
            (index, element) for index, cell in self.markdown_cells() for element in _markdown_elements(cell.source)
        ]
        for index, output in self.outputs():
            data = output.get("data", {})
            found += [(index, element) for element in html_elements(data.get("text/html", ""))]
            found += [(index, element) for element in _markdown_elements(data.get("text/markdown", ""))]
        return found

    @cached_property
    def exercises(self) -> list[Exercise]:
        """The exercises, in order."""
        return list(find_exercises(self.notebook))


Rule = Callable[[Page], Iterator[Finding]]


def html_elements(html: str) -> list[Element]:
    """Return the opening tags of ``html`` with their attributes."""
    parser = _Elements()
    parser.feed(html)
    return parser.found


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Element(tag, {name: value or "" for name, value in attrs}))


_MATHEMATICS = re.compile(r"(?<!\\)\$\$.+?\$\$|(?<![\\$])\$[^$\n]+?\$", re.DOTALL)  # $f[i](x)$ is no link


def _markdown_elements(markdown: str) -> Iterator[Element]:
    for token in _flattened(MarkdownIt().parse(_MATHEMATICS.sub("·", markdown))):
        if token.type == "link_open":
            yield Element("a", {"href": str(token.attrs.get("href", ""))})
        elif token.type == "image":
            yield Element("img", {"src": str(token.attrs.get("src", "")), "alt": token.content})
        elif token.type in ("html_inline", "html_block"):
            yield from html_elements(token.content)


def _flattened(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        if token.type == "inline":
            yield from token.children or ()


def _plain_text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


_BACK = re.compile(r"^Builds on .*?\.(?=\s|$)", re.MULTILINE)  # the dot of a file name stands before a letter
_ON = re.compile(r"^\*\*(?:Next|Also from here|Back|Map|Words):\*\*.*\Z", re.MULTILINE)


def chapter_at(path: Path) -> Chapter | None:
    """Return the chapter that the notebook at ``path`` holds; a notebook of another name holds none."""
    return next((chapter for chapter in CHAPTERS if chapter.file == path.name), None)


def is_linked_back(cell: NotebookNode, chapter: Chapter) -> bool:
    """Return whether ``cell``, the chapter's first, says what the chapter builds on."""
    return _BACK.findall(cell.source) == [line_back(chapter)]


def is_linked_on(cell: NotebookNode, chapter: Chapter) -> bool:
    """Return whether ``cell``, the chapter's last, ends with the links to what follows."""
    return cell.cell_type == "markdown" and cell.source.splitlines()[-1:] == [line_on(chapter)]


def write_links(path: Path) -> bool:
    """Write the two lines into the notebook at ``path``, over older ones, and leave the rest of it as it is.

    Returns:
        Whether the file changed.

    Raises:
        ValueError: the notebook is no chapter.
    """
    chapter = chapter_at(path)
    if chapter is None:
        raise ValueError(f"path must be a chapter's notebook: got {path}; course_utils/chapters.py lists them")
    notebook = read_notebook(path)
    if notebook.cells[-1].cell_type != "markdown":
        notebook.cells.append(new_markdown_cell())
    first, last = notebook.cells[0], notebook.cells[-1]
    if not is_linked_back(first, chapter):
        first.source = _put(_BACK, line_back(chapter), first.source)
    if not is_linked_on(last, chapter):
        last.source = _put(_ON, line_on(chapter), last.source)
    return write_notebook(notebook, path)


def _put(pattern: re.Pattern[str], line: str, text: str) -> str:
    """Return ``text`` with ``line`` where ``pattern`` is, or in a paragraph of its own at the end."""
    if pattern.search(text):
        return pattern.sub(lambda _: line, text, count=1)
    return f"{text.rstrip()}\n\n{line}".lstrip()


# a path from the root of somebody's machine, in POSIX or Windows dress; a URL's path and a fraction are none
_ABSOLUTE_PATH = re.compile(
    r"(?<![\w./:\\~])(?:/(?:home|Users|root|tmp|usr|opt|var|work|mnt|content|private)/[\w.-]+|[A-Z]:\\\w+|~/[\w.-]+)"
)
_WEB = {"http", "https"}
_FETCHES = {"img": "src", "script": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}


def one_title(page: Page) -> Iterator[Finding]:
    """Exactly one level-1 heading, in the first cell."""
    titles = [heading for heading in page.headings if heading.level == 1]
    if not titles or titles[0].cell != 0:
        yield page.finding(0, "title", "the first cell must hold the notebook's title: one line with a single #")
    for heading in titles[1:]:
        yield page.finding(heading.cell, "title", f"a second title, «{heading.text}»: make it level 2 (##)")


def headings_step_by_one(page: Page) -> Iterator[Finding]:
    """No heading skips a level on the way down."""
    for above, heading in pairwise(page.headings):
        if heading.level > above.level + 1:
            message = (
                f"«{heading.text}» is level {heading.level} below level {above.level}: use level {above.level + 1}"
            )
            yield page.finding(heading.cell, "headings", message)


def pictures_are_described(page: Page) -> Iterator[Finding]:
    """Every ``<img>`` and Markdown picture has an alternative text."""
    for index, element in page.elements:
        if element.tag == "img" and not element.attributes.get("alt", "").strip():
            yield page.finding(index, "alt-text", "a picture without alt text: say in a sentence what it shows")


def nothing_is_fetched(page: Page) -> Iterator[Finding]:
    """No picture, script or frame comes from the network."""
    for index, element in page.elements:
        source = element.attributes.get(_FETCHES.get(element.tag, ""), "")
        if source.startswith("//") or urlsplit(source).scheme in _WEB:
            yield page.finding(index, "remote", f"<{element.tag}> fetches {source}: keep the file in the project")


def links_resolve(page: Page) -> Iterator[Finding]:
    """A link to a file, a notebook, a heading or a cell leads there."""
    for index, element in page.elements:
        target = _local_target(element)
        if target is not None:
            problem = _broken(page, target)
            if problem:
                yield page.finding(index, "link", f"{target} {problem}")


def chapters_are_linked(page: Page) -> Iterator[Finding]:
    """A chapter begins with what it builds on and ends with what follows, as the list of chapters has it."""
    chapter = chapter_at(page.path)
    if chapter is None:
        return
    write = f"write it, or let `python -m tools links {chapter.number}` do so"
    if not is_linked_back(page.cells[0], chapter):
        yield page.finding(0, "links", f"must say, once, «{line_back(chapter)}»: {write}")
    if not is_linked_on(page.cells[-1], chapter):
        yield page.finding(len(page.cells) - 1, "links", f"must end with the line «{line_on(chapter)}»: {write}")


def paths_are_relative(page: Page) -> Iterator[Finding]:
    """No path of one machine, in code, text or output."""
    for index, cell in enumerate(page.cells):
        texts = [cell.source]
        for output in cell.get("outputs", ()):
            texts += [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", ())]
            texts += [content for mime, content in output.get("data", {}).items() if mime.startswith("text/")]
        found = next((match[0] for text in texts if (match := _ABSOLUTE_PATH.search(_without_pictures(text)))), None)
        if found:
            yield page.finding(index, "absolute-path", f"{found}… exists on one machine only: use a relative path")


def _without_pictures(text: str) -> str:
    return re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)


def _local_target(element: Element) -> str | None:
    if element.tag == "a" and "href" in element.attributes:
        target = element.attributes["href"]
    elif element.tag == "img":
        target = element.attributes.get("src", "")
    else:
        return None
    return None if urlsplit(target).scheme in {*_WEB, "mailto", "data", "attachment"} else target


def _broken(page: Page, target: str) -> str:
    """Return what is wrong with a local link and what to do, or nothing."""
    parts = urlsplit(target)
    if not target or parts.scheme or target.startswith("/"):
        return "is no relative link: write the path from this notebook"
    path = page.path.parent / unquote(parts.path) if parts.path else page.path
    if not path.exists():
        return "leads nowhere: correct the path, or add the file"
    if not parts.fragment or path.suffix != ".ipynb":
        return ""
    if unquote(parts.fragment) in _anchors(path, path.stat().st_mtime_ns):
        return ""
    return f"names no heading or cell of {path.name}: a heading's link is its text with - for spaces"


@lru_cache
def _anchors(path: Path, _modified: int) -> frozenset[str]:
    page = Page.read(path)
    cells = (f"cell-id={cell.get('id')}" for cell in page.cells)
    elements = (element.attributes.get("id", "") for _, element in page.elements)
    return frozenset({*(heading.anchor for heading in page.headings), *cells, *elements} - {""})


TEXT_RULES: tuple[Rule, ...] = (
    one_title,
    headings_step_by_one,
    pictures_are_described,
    nothing_is_fetched,
    links_resolve,
    chapters_are_linked,
    paths_are_relative,
)


LONGEST_CELL = 40
_MAGIC = re.compile(r"^\s*(?:!|%)", re.MULTILINE)
_REDRAWS_OUTPUT = {"interact", "interactive", "interact_manual", "interactive_output"}


def plain_python(page: Page) -> Iterator[Finding]:
    """No magics and no shell: an install or a shell line would not run for everyone, and no tool can read it."""
    for index, cell in page.code_cells():
        if parse_code(cell.source) is not None:
            continue
        if _MAGIC.search(cell.source):
            message = "a line starts with % or !: use Python, and leave installing to `make lab`"
        else:
            message = "not valid Python: mend the syntax; to show a mistake, put the code in a string"
        yield page.finding(index, "plain-python", message)


def short_cells(page: Page) -> Iterator[Finding]:
    """No cell over forty lines."""
    for index, cell in page.code_cells():
        lines = len(cell.source.splitlines())
        if lines > LONGEST_CELL:
            message = f"{lines} lines, {LONGEST_CELL} at most: split it, or move it into course_utils with a good name"
            yield page.finding(index, "long-cell", message)


def first_cell_sets_up(page: Page) -> Iterator[Finding]:
    """The first code cell calls ``course_utils.setup()``."""
    index, cell = next(page.code_cells(), (None, None))
    calls = [] if cell is None else [ast.unparse(node.func) for node in _nodes(cell.source, ast.Call)]
    if "course_utils.setup" not in calls:
        yield page.finding(index, "set-up", "the first code cell must call course_utils.setup()")


def no_search_path(page: Page) -> Iterator[Finding]:
    """No change of ``sys.path``."""
    for index, cell in page.code_cells():
        if any(ast.unparse(node) == "sys.path" for node in _nodes(cell.source, ast.Attribute)):
            yield page.finding(index, "sys-path", "leave sys.path alone: the package is installed, import it")


def value_widgets(page: Page) -> Iterator[Finding]:
    """No ``interact``, ``interactive`` or ``Output``: they hang execution and redraw slowest."""
    for index, cell in page.code_cells():
        names = {
            alias.name for node in _nodes(cell.source, ast.ImportFrom) if _from_ipywidgets(node) for alias in node.names
        }
        names |= {node.attr for node in _nodes(cell.source, ast.Attribute) if node.attr in _REDRAWS_OUTPUT}
        names |= {
            node.attr
            for node in _nodes(cell.source, ast.Attribute)
            if node.attr == "Output" and ast.unparse(node.value) in ("widgets", "ipywidgets", "W")
        }
        for name in sorted(names & (_REDRAWS_OUTPUT | {"Output"})):
            yield page.finding(
                index, "value-widget", f"{name} redraws an output area: use a widget of course_utils.widgets"
            )


def known_tags(page: Page) -> Iterator[Finding]:
    """No tag that keeps a cell from being run."""
    for index, cell in page.code_cells():
        for tag in ("nbval-skip", "skip-execution"):
            if has_tag(cell, tag):
                yield page.finding(
                    index, "skipped", f"a cell tagged {tag} is never proved: remove the tag, or the cell"
                )


def exercises_are_whole(page: Page) -> Iterator[Finding]:
    """A stub is empty and tagged; a check and a solution follow it."""
    solved = {exercise.solution for exercise in page.exercises}
    for exercise in page.exercises:
        names = ", ".join(exercise.names) or "?"
        if not stub_names(page.cells[exercise.stub].source):
            message = f"{names} is filled in: leave a docstring and `...` for the learner"
            yield page.finding(exercise.stub, "stub", message)
        if exercise.check is None:
            message = f"no check follows {names}: add a cell with check.NAME({names})"
            yield page.finding(exercise.stub, "exercise", message)
        if exercise.solution is None:
            message = (
                f"no solution follows {names}: add a folded cell tagged solution that defines {names}{SOLUTION_SUFFIX}"
            )
            yield page.finding(exercise.stub, "exercise", message)
    for index, cell in page.code_cells():
        if stub_names(cell.source) and not has_tag(cell, "exercise"):
            yield page.finding(index, "exercise", "a stub that is not tagged: add the tag exercise")
        if has_tag(cell, "solution") and index not in solved:
            yield page.finding(index, "solution", "no exercise before it: tag the stub with exercise")


def solutions_are_folded(page: Page) -> Iterator[Finding]:
    """A solution is tagged and collapsed, defines what its stub leaves open, and can be taken out for students."""
    for index, cell in page.code_cells():
        is_tagged, defined = has_tag(cell, "solution"), defined_names(cell.source)
        if not is_tagged and any(name.endswith(SOLUTION_SUFFIX) for name in defined):
            yield page.finding(
                index, "solution", "defines a solution in plain sight: add the tag solution, and fold it"
            )
        if not is_tagged:
            continue
        if not cell.metadata.get("jupyter", {}).get("source_hidden"):
            message = 'not folded: add {"jupyter": {"source_hidden": true}} to its metadata'
            yield page.finding(index, "solution", message)
        stub = next((exercise for exercise in page.exercises if exercise.solution == index), None)
        for name in stub.names if stub else ():
            if name + SOLUTION_SUFFIX not in defined:
                yield page.finding(index, "solution", f"must define {name}{SOLUTION_SUFFIX}, for the stub {name}")
        try:
            without_solution(cell.source, cell.metadata.get("stand_in"))
        except ValueError as error:
            yield page.finding(index, "stand-in", str(error))


def _nodes(source: str, kind: type) -> list:
    tree = parse_code(source)
    return [node for node in ast.walk(tree) if isinstance(node, kind)] if tree else []


def _from_ipywidgets(node: ast.ImportFrom) -> bool:
    return (node.module or "").split(".")[0] == "ipywidgets"


CODE_RULES: tuple[Rule, ...] = (
    plain_python,
    short_cells,
    first_cell_sets_up,
    no_search_path,
    value_widgets,
    known_tags,
    exercises_are_whole,
    solutions_are_folded,
)


LARGEST_BYTES = 1_500_000
_RUN = "run the notebook with `make run`"
_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PICTURE_TAGS = {"svg", "canvas"}


def executed_in_order(page: Page) -> Iterator[Finding]:
    """Every code cell was executed once, from top to bottom: counted 1 to n."""
    for count, (index, cell) in enumerate(page.code_cells(), start=1):
        stored = cell.get("execution_count")
        if not cell.source.strip():
            yield page.finding(index, "empty", "an empty code cell: delete it")
        elif stored is None:
            yield page.finding(index, "not-run", f"never executed: {_RUN}")
        elif stored != count:
            yield page.finding(index, "order", f"executed as number {stored}, stands as number {count}: {_RUN}")


def errors_are_tagged(page: Page) -> Iterator[Finding]:
    """An error is stored only where it is meant, and only meant where it is stored."""
    for index, cell in page.code_cells():
        errors = [output for output in cell.get("outputs", ()) if output.output_type == "error"]
        if errors and not has_tag(cell, "raises-exception"):
            message = (
                f"stores {errors[0].get('ename', 'an error')}: mend it, or tag the cell raises-exception if it is meant"
            )
            yield page.finding(index, "error", message)
        if not errors and has_tag(cell, "raises-exception"):
            yield page.finding(index, "error", "tagged raises-exception but raises nothing: remove the tag")


def no_stderr(page: Page) -> Iterator[Finding]:
    """Nothing on stderr: a warning on the page worries a learner."""
    for index, output in page.outputs():
        if output.output_type == "stream" and output.get("name") == "stderr":
            first_line = output.text.strip().split("\n")[0]
            yield page.finding(
                index, "stderr", f"prints to stderr ({first_line[:80]}): remove the cause, do not hide it"
            )


def no_widget_state(page: Page) -> Iterator[Finding]:
    """No stored widget state: it is large, and differs every time."""
    if "widgets" in page.notebook.metadata:
        yield page.finding(None, "widget-state", f"metadata.widgets is stored: {_RUN}, which drops it")


def ids_are_unique(page: Page) -> Iterator[Finding]:
    """Every cell has an id of its own, so that links to cells hold."""
    if (page.notebook.get("nbformat"), page.notebook.get("nbformat_minor", 0)) < (4, 5):
        yield page.finding(None, "ids", f"an old format without cell ids: {_RUN}, which writes format 4.5")
    ids = Counter(cell.get("id") for cell in page.cells)
    for index, cell in enumerate(page.cells):
        cell_id = cell.get("id")
        if cell_id is None or not _CELL_ID.fullmatch(cell_id):
            yield page.finding(index, "ids", f"no valid id ({cell_id!r}): give it one of letters, digits, - and _")
        elif ids[cell_id] > 1:
            yield page.finding(index, "ids", f"shares its id {cell_id!r} with another cell: give it its own")


def figures_are_described(page: Page) -> Iterator[Finding]:
    """A picture among the outputs comes as HTML with an alternative text, a widget's stand-in too."""
    for index, output in page.outputs():
        data = output.get("data", {})
        elements = html_elements(data.get("text/html", ""))
        described = any(element.tag == "img" and element.attributes.get("alt", "").strip() for element in elements)
        if any(mime.startswith("image/") for mime in data) and not described:
            message = 'a picture that says nothing to those who cannot see it: show it with plots.show(fig, alt="…")'
            yield page.finding(index, "alt-text", message)
        for element in elements:
            if element.tag in _PICTURE_TAGS and not _is_named(element.attributes):
                message = f'a drawn <{element.tag}> without a description: give it role="img" and aria-label="…"'
                yield page.finding(index, "alt-text", message)


def size_is_bounded(page: Page) -> Iterator[Finding]:
    """A notebook stays below 1.5 MB, so that it opens at once and GitHub shows it."""
    size = page.path.stat().st_size
    if size > LARGEST_BYTES:
        largest, _ = max(page.outputs(), key=lambda pair: len(str(pair[1])), default=(0, None))
        message = (
            f"{size / 1e6:.2f} MB, {LARGEST_BYTES / 1e6} at most: fewer or smaller figures, cell {largest}'s first"
        )
        yield page.finding(None, "size", message)


def _is_named(attributes: dict[str, str]) -> bool:
    return attributes.get("aria-hidden") == "true" or bool(
        attributes.get("role") == "img" and (attributes.get("aria-label") or attributes.get("aria-labelledby"))
    )


OUTPUT_RULES: tuple[Rule, ...] = (
    executed_in_order,
    errors_are_tagged,
    no_stderr,
    no_widget_state,
    ids_are_unique,
    figures_are_described,
    size_is_bounded,
)


RULES = (*TEXT_RULES, *CODE_RULES, *OUTPUT_RULES)
# made on demand or by others, and ignored by git
_NOT_OURS = {"edit", "student", "site", "build", "dist", "node_modules"}


def lint(paths: Iterable[Path], root: Path = Path()) -> list[Finding]:
    """Return the findings in the notebooks at ``paths`` and, below ``root``, notebooks that no test would run."""
    findings = [finding for path in paths for finding in lint_notebook(path)]
    return findings + list(stray_notebooks(root))


def lint_notebook(path: Path) -> list[Finding]:
    """Return the findings in one notebook, by cell; a file that cannot be read is a finding too."""
    try:
        page = Page.read(path)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, KeyError, AttributeError) as error:
        first_line = str(error).strip().splitlines()[0]
        return [
            Finding(path, None, "format", f"not a notebook ({first_line}): bring it back from git and run it again")
        ]
    findings = (finding for rule in RULES for finding in rule(page))
    return sorted(findings, key=lambda finding: -1 if finding.cell is None else finding.cell)


def stray_notebooks(root: Path) -> Iterator[Finding]:
    """Find notebooks outside ``notebooks/``, or in a folder that pytest skips there: nbval would never run them."""
    for path in find_notebooks(folder=root):
        folders = path.relative_to(root).parts[:-1]
        if not folders or folders[0] in _NOT_OURS or folders[0].startswith("."):
            if folders:
                continue
        elif folders[0] == NOTEBOOKS.name and not _skipped_by_pytest(folders[1:]):
            continue
        yield Finding(path, None, "covered", f"nbval never runs it: move it to {NOTEBOOKS}/, or delete it")


def _skipped_by_pytest(folders: tuple[str, ...]) -> bool:
    """Match pytest's own ``norecursedirs``."""
    skipped = {"build", "dist", "node_modules", "venv", "CVS", "_darcs", "{arch}"}
    return any(folder in skipped or folder.startswith(".") or folder.endswith(".egg") for folder in folders)
