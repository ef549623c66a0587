"""A notebook as the lint reads it: its cells, and the Markdown in them taken apart."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.authoring.exercises import Exercise, find_exercises, is_code

__all__ = ["Element", "Finding", "Heading", "Page", "Rule", "html_elements"]


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
