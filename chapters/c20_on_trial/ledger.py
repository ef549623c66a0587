"""Chapter 20, the ledger: every claim of the course with what its cell found, from stored outputs.

``python -m tools ledger`` writes it; nothing in it is typed.

>>> entry = load()["02:eps-1e-12-safe"]
>>> entry.claim.verdict, entry.works
('holds if', ('rich-junwang',))
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chapters import known_claims
from chapters.contents import chapter_of
from chapters.sources import LISTED, WORKS, Work, works_named
from course_utils import claims
from course_utils.table import Table

__all__ = ["LEDGER", "Entry", "by_work", "counts_table", "load"]

_KINDS = (
    "Rico",
    "Road to ML",
    "rich-junwang",
    "labml.ai",
    "Clay",
    "papers",
    "libraries",
    "this course",
)
_ALL = "all, each counted once"

LEDGER = Path(__file__).with_name("ledger.json")


@dataclass(frozen=True)
class Entry:
    """A claim that ran: where, and what its cell's stored output says was found.

    Args:
        chapter: the chapter's number.
        key: the claim's key, unique in its chapter.
        cell: the id of the cell that tests it.
        found: what was found, in words and numbers, as it was shown.
    """

    chapter: str
    key: str
    cell: str
    found: str

    @property
    def name(self) -> str:
        """What the entry is called from outside its chapter: ``chapter:key``."""
        return f"{self.chapter}:{self.key}"

    @cached_property
    def claim(self) -> claims.Claim:
        """The sentence, its source and its verdict."""
        return known_claims(self.chapter)[self.key]

    @property
    def place(self) -> str:
        """The chapter's number and title."""
        return chapter_of(self.chapter).label

    @property
    def link(self) -> str:
        """A link from one notebook to the cell of this claim."""
        return f"{chapter_of(self.chapter).file}#cell-id={self.cell}"

    @cached_property
    def works(self) -> tuple[str, ...]:
        """The names of the works that this claim comes from or answers, in the order of
        ``WORKS``."""
        answered = {listed.source for listed in LISTED if self.name in listed.answered_by}
        named = set(works_named(self.claim.source))
        return tuple(work.name for work in WORKS if work.name in _foreign_first(named | answered))


def _foreign_first(works: set[str]) -> set[str]:
    """Return ``works`` without "this course" where there is another: it stands for the lack of a
    source."""
    return works - {"this course"} or works


def load() -> Mapping[str, Entry]:
    """Return the ledger's entries by ``chapter:key``, in the order of the chapters, without claims
    that were cut."""
    entries = (Entry(**fields) for fields in json.loads(LEDGER.read_text(encoding="utf-8")))
    return {entry.name: entry for entry in entries if entry.key in known_claims(entry.chapter)}


def by_work(entries: Iterable[Entry]) -> dict[Work, list[Entry]]:
    """Return the entries grouped by the works they come from: one with two sources stands in both
    groups."""
    found = list(entries)
    groups = {work: [entry for entry in found if work.name in entry.works] for work in WORKS}
    return {work: group for work, group in groups.items() if group}


def counts_table(entries: Iterable[Entry]) -> Table:
    """Return how many claims of each write-up, of all papers, of libraries and of the course have
    each verdict."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in (*_KINDS, _ALL)}
    for entry in entries:
        for kind in {_ALL, *map(_kind, entry.works)}:
            counts[kind][entry.claim.verdict] += 1
    rows = [
        (kind, verdicts.total(), *(verdicts[verdict] for verdict in claims.VERDICTS))
        for kind, verdicts in counts.items()
        if verdicts
    ]
    return Table(("source", "claims", *claims.VERDICTS), rows, "Claims and their verdicts")


def _kind(work: str) -> str:
    return work if work in _KINDS else "papers"
