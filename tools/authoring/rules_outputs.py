"""Lint rules about what a notebook stores besides its text: counts, outputs, ids, widget state, size."""

import re
from collections import Counter
from collections.abc import Iterator

from tools.authoring.exercises import has_tag
from tools.authoring.page import Finding, Page, Rule, html_elements

__all__ = ["LARGEST_BYTES", "OUTPUT_RULES"]

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
