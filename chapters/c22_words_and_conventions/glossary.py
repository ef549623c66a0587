"""The words of the course (``glossary.toml``): meaning, symbol, chapters, and the name in PyTorch
(chapter 22)."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chapters.contents import chapter_of
from course_utils.table import Inline, Table

__all__ = ["ENTRIES", "Entry", "table"]


@dataclass(frozen=True)
class Entry:
    """One word.

    Args:
        term: the word, as the course writes it within a sentence.
        meaning: one line.
        chapters: numbers of the chapters that explain it, the most important one first.
        symbol: in LaTeX, as the first of the chapters writes it; empty where it has none.
        names: what implements it, importable, in PyTorch or transformers; a key of a dictionary
            stands in brackets.
    """

    term: str
    meaning: str
    chapters: Sequence[str]
    symbol: str = ""
    names: Sequence[str] = ()


_TEXT = Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8")
ENTRIES = tuple(Entry(term, **entry) for term, entry in tomllib.loads(_TEXT).items())


def table(entries: Sequence[Entry] = ENTRIES) -> Table:
    """Return the words as a table, with links to their chapters."""
    rows = [
        (
            Inline(f"**{entry.term}**"),
            Inline(f"${entry.symbol}$" if entry.symbol else ""),
            entry.meaning,
            Inline(
                ", ".join(f"[{number}]({chapter_of(number).file})" for number in entry.chapters)
            ),
            Inline(" ".join(f"`{_short(name)}`" for name in entry.names)),
        )
        for entry in entries
    ]
    return Table(("word", "symbol", "meaning", "chapters", "in PyTorch, transformers"), rows)


def _short(name: str) -> str:
    """Return the name as people write it."""
    name = name.replace("torch.nn.functional.", "F.").replace("torch.nn.", "nn.")
    return name.rsplit(".", 1)[-1] if name.startswith("transformers.") else name
