"""What the glossary says of a word."""

from dataclasses import dataclass

__all__ = ["Entry"]


@dataclass(frozen=True)
class Entry:
    """One word.

    Args:
        term: the word, as the course writes it within a sentence.
        meaning: one line.
        chapters: numbers of the chapters that explain it, the most important one first.
        symbol: in LaTeX, as the first of the chapters writes it; empty where it has none.
        names: what implements it, importable, in PyTorch or transformers; a key of a dictionary stands in brackets.
    """

    term: str
    meaning: str
    chapters: tuple[str, ...]
    symbol: str = ""
    names: tuple[str, ...] = ()
