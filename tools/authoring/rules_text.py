"""Lint rules about what a notebook says: headings, links, pictures, paths."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from course_utils.book.chapters import line_back, line_on
from tools.authoring.links import chapter_at, is_linked_back, is_linked_on
from tools.authoring.page import Element, Finding, Page, Rule

__all__ = ["TEXT_RULES"]

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
    write = f"write it, or let `python -m tools.authoring links {chapter.number}` do so"
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
