"""The words of the course: what each means, its symbol, the chapters that explain it, and its name in PyTorch."""

from collections.abc import Sequence

from course_utils.book.chapters import chapter_of
from course_utils.book.glossary.entry import Entry
from course_utils.book.glossary.norm_words import NORM_WORDS
from course_utils.book.glossary.position_words import POSITION_WORDS
from course_utils.book.tables import Inline, Table

__all__ = ["ENTRIES", "Entry", "table"]

ENTRIES = tuple(sorted((*NORM_WORDS, *POSITION_WORDS), key=lambda entry: entry.term.replace("ε", "e").casefold()))


def table(entries: Sequence[Entry] = ENTRIES) -> Table:
    """Return the words as a table, with links to their chapters."""
    rows = [
        (
            Inline(f"**{entry.term}**"),
            Inline(f"${entry.symbol}$" if entry.symbol else ""),
            entry.meaning,
            Inline(", ".join(f"[{number}]({chapter_of(number).file})" for number in entry.chapters)),
            Inline(" ".join(f"`{_short(name)}`" for name in entry.names)),
        )
        for entry in entries
    ]
    return Table(("word", "symbol", "meaning", "chapters", "in PyTorch, transformers"), rows)


def _short(name: str) -> str:
    """Return the name as people write it."""
    name = name.replace("torch.nn.functional.", "F.").replace("torch.nn.", "nn.")
    return name.rsplit(".", 1)[-1] if name.startswith("transformers.") else name
