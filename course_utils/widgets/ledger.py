"""The ledger as a table to search: by words, by source, by verdict; without a kernel, the whole table, folded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from course_utils.book import ledger
from course_utils.book.claims import VERDICTS
from course_utils.book.ledger import Entry, by_work
from course_utils.book.sources import WORKS, Work
from course_utils.widgets.base import StatefulWidget, browser_module

__all__ = ["LedgerState", "ledger_html", "ledger_table"]

# told apart by shape, not by colour: a full, a half and an empty disc
_MARKS = dict(zip(VERDICTS, ("●", "◐", "○"), strict=True))
_COLUMNS = ("claim", "verdict", "measured", "tested in")


@dataclass(frozen=True)
class LedgerState:
    """What is shown: rows that hold every word of ``text``, of one ``source``, with one ``verdict``; "" means any.

    Raises:
        ValueError: a source that no claim comes from, or an unknown verdict.
    """

    text: str = ""
    source: str = ""
    verdict: str = ""

    def __post_init__(self) -> None:
        known = {"source": [work.name for work in WORKS], "verdict": list(VERDICTS)}
        for name, values in known.items():
            value = getattr(self, name)
            if value and value not in values:
                raise ValueError(f"{name} must be one of {', '.join(values)}, or empty for any: got {value!r}")


def ledger_html(entries: Iterable[Entry]) -> str:
    """Return the entries as one folded table for each source, each row with a link to the cell that tests it."""
    return "".join(_group(work, group) for work, group in by_work(entries).items())


def ledger_table(
    entries: Mapping[str, Entry] | None = None, *, text: str = "", source: str = "", verdict: str = ""
) -> StatefulWidget:
    """Return the ledger as a table with a field to search in, ready to display.

    Args:
        entries: by ``chapter:key``; by default the whole ledger.
        text: words that a row must hold.
        source: the name of a work, as in ``course_utils.book.sources.WORKS``.
        verdict: one of ``course_utils.book.claims.VERDICTS``.

    Raises:
        ValueError: an unknown source or verdict.
    """
    shown = ledger.load() if entries is None else entries
    return _LedgerTable(list(shown.values()), LedgerState(text, source, verdict))


class _LedgerTable(StatefulWidget):
    _esm = browser_module("ledger")
    _css = StatefulWidget._css + (Path(__file__).parent / "js" / "ledger.css").read_text(encoding="utf-8")

    def __init__(self, entries: list[Entry], state: LedgerState) -> None:
        works = [[work.name, f"{work.name} ({len(group)})"] for work, group in by_work(entries).items()]
        self._html = ledger_html(entries)
        self._words = f"Ledger: {len(entries)} claims, to search by words, by source and by verdict."
        super().__init__(state, {"html": self._html, "sources": works, "verdicts": list(VERDICTS)})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        data["text/plain"] = self._words
        data["text/html"] = f"{self._html}<p>Run this notebook to search in it.</p>"
        return data, metadata


def _group(work: Work, entries: list[Entry]) -> str:
    title = work.title if work.name == work.title else f"{work.name}: {work.title}"
    count = "1 claim" if len(entries) == 1 else f"{len(entries)} claims"
    head = "".join(f'<th scope="col" style="text-align:left">{column}</th>' for column in _COLUMNS)
    rows = "".join(_row(entry) for entry in entries)
    read = f'<p><a href="{escape(work.link)}">{escape(work.link)}</a></p>' if work.link else ""
    return (
        f'<details data-source="{escape(work.name)}"><summary>{escape(title)} · {count}</summary>{read}'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _row(entry: Entry) -> str:
    link = f'<a href="{escape(entry.link)}">{escape(entry.place)}</a>'
    cells = (escape(entry.statement), f"{_MARKS[entry.verdict]} {entry.verdict}", escape(entry.number), link)
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
