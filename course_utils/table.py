"""One table for the whole course: HTML in a notebook, aligned text everywhere else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

__all__ = ["Inline", "Link", "Table", "format_number"]

# JupyterLab's own colours where it defines them, so that a table follows the light and the dark
# theme.
_CELL = (
    "padding:4px 12px;text-align:{align};border-bottom:1px solid "
    "var(--jp-border-color2,#bdbdbd);white-space:normal"
)
_COLOURS = "color:var(--jp-content-font-color1,#212121);background:var(--jp-layout-color0,#ffffff)"


def format_number(value: Any) -> str:
    """Return ``value`` as a reader wants it: floats to 3 significant digits, integers whole, the
    rest as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if value == 0 or value != value or value in (float("inf"), float("-inf")):
        return {"0.0": "0", "-0.0": "0", "nan": "NaN"}.get(str(value), str(value))
    if not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    return f"{value:,.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


class Inline(str):
    """A cell of inline Markdown, shown as such in a notebook: `code`, **bold**,
    [links](02_layer_norm.ipynb), and ``<br>`` where a line ends."""

    __slots__ = ()


class Link(str):
    """A cell that leads to ``address``: a link in a notebook, its text everywhere else."""

    address: str

    def __new__(cls, text: str, address: str) -> "Link":
        link = super().__new__(cls, text)
        link.address = address
        return link


def _as_html(cell: str) -> str:
    if isinstance(cell, Link):
        style = "color:inherit;text-decoration:underline"
        return f'<a href="{escape(cell.address)}" style="{style}">{escape(cell)}</a>'
    if not isinstance(cell, Inline):
        return escape(cell)
    from markdown_it import MarkdownIt  # of the extra `course`: a table of `verify` goes without

    return MarkdownIt().renderInline(cell)


@dataclass
class Table:
    """Rows under named columns.

    Args:
        columns: the column headings.
        rows: one sequence of cells per row; numbers are shown to 3 significant digits and aligned
            right.
        caption: one line above the table.
        folded: in a notebook, show the caption alone until it is clicked.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    folded: bool = False
    cells: list[list[str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"rows must have one cell per column: got {len(row)} cells for "
                    f"{len(self.columns)} columns"
                )
        self.cells = [[format_number(cell) for cell in row] for row in self.rows]

    def _is_numeric(self, column: int) -> bool:
        return bool(self.rows) and all(isinstance(row[column], (int, float)) for row in self.rows)

    def __repr__(self) -> str:
        lines = [
            list(self.columns),
            *([cell.replace("<br>", " ") for cell in row] for row in self.cells),
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        rule = ["-" * width for width in widths]
        text = [
            "  ".join(
                cell.rjust(width) if self._is_numeric(i) else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (lines[0], rule, *lines[1:])
        ]
        return "\n".join([self.caption, *text] if self.caption else text)

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            scope = ' scope="col"' if tag == "th" else ""
            styles = [
                _CELL.format(align="right" if self._is_numeric(i) else "left")
                for i in range(len(cells))
            ]
            pairs = zip(styles, cells, strict=True)
            return "".join(
                f'<{tag}{scope} style="{style}">{_as_html(cell)}</{tag}>' for style, cell in pairs
            )

        caption = (
            '<caption style="caption-side:top;text-align:left;padding:4px '
            f'12px">{escape(self.caption)}</caption>'
        )
        body = "".join(f"<tr>{row('td', cells)}</tr>" for cells in self.cells)
        html = (
            f'<table style="border-collapse:collapse;margin:4px 0;{_COLOURS}">'
            f"{caption if self.caption and not self.folded else ''}"
            f"<thead><tr>{row('th', self.columns)}</tr></thead><tbody>{body}</tbody></table>"
        )
        return (
            f"<details><summary>{escape(self.caption)}</summary>{html}</details>"
            if self.folded
            else html
        )
