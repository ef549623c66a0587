"""The ledger as a table to search: by words, by source, by verdict; without a kernel, the whole
table. Chapter 20, which shows the shared row as well."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from chapters.c20_on_trial import ledger
from chapters.c20_on_trial.ledger import Entry, by_work
from chapters.sources import WORKS, Work
from course_utils.claims import VERDICTS
from course_utils.widgets import normalize_row
from course_utils.widgets.base import StatefulWidget, browser_module, one_of

__all__ = ["ledger_html", "ledger_table", "normalize_row"]

_HERE = Path(__file__).parent
_COLUMNS = ("claim", "verdict", "found", "tested in")


def ledger_html(entries: Iterable[Entry]) -> str:
    """Return the entries as one folded table for each source, each row with a link to the cell that
    tests it."""
    return "".join(_group(work, group) for work, group in by_work(entries).items())


def ledger_table(
    entries: Mapping[str, Entry] | None = None,
    *,
    text: str = "",
    source: str = "",
    verdict: str = "",
) -> StatefulWidget:
    """Return the ledger as a table with a field to search in, ready to display.

    Args:
        entries: by ``chapter:key``; by default the whole ledger.
        text: words that a row must hold.
        source: the name of a work, as in ``chapters.sources.WORKS``; empty for any.
        verdict: one of ``course_utils.claims.VERDICTS``; empty for any.
    """
    shown = list((ledger.load() if entries is None else entries).values())
    choices = {"source": ["", *(work.name for work in WORKS)], "verdict": ["", *VERDICTS]}
    works = [[work.name, f"{work.name} ({len(group)})"] for work, group in by_work(shown).items()]
    data = {"html": ledger_html(shown), "sources": works, "verdicts": list(VERDICTS)}
    table = _LedgerTable(one_of(choices, text=text, source=source, verdict=verdict), data)
    table.words = f"Ledger: {len(shown)} claims, to search by words, by source and by verdict."
    return table


class _LedgerTable(StatefulWidget):
    _esm = browser_module(_HERE / "ledger.js")
    _css = StatefulWidget._css + (_HERE / "ledger.css").read_text(encoding="utf-8")
    words = ""  # what stands for it where no table is seen

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        data["text/plain"] = self.words
        data["text/html"] = f"{self.data['html']}<p>Run this notebook to search in it.</p>"
        return data, metadata


def _group(work: Work, entries: list[Entry]) -> str:
    title = work.title if work.name == work.title else f"{work.name}: {work.title}"
    count = "1 claim" if len(entries) == 1 else f"{len(entries)} claims"
    head = "".join(f'<th scope="col" style="text-align:left">{column}</th>' for column in _COLUMNS)
    rows = "".join(_row(entry) for entry in entries)
    read = f'<p><a href="{escape(work.link)}">{escape(work.link)}</a></p>' if work.link else ""
    return (
        f'<details data-source="{escape(work.name)}"><summary>{escape(title)} · '
        f"{count}</summary>{read}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _row(entry: Entry) -> str:
    link = f'<a href="{escape(entry.link)}">{escape(entry.place)}</a>'
    claim = entry.claim
    cells = (
        escape(claim.sentence),
        f"{claim.mark} {escape(claim.words)}",
        escape(entry.found),
        link,
    )
    row = "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells)
    return f'<tr data-verdict="{claim.verdict}">{row}</tr>'
