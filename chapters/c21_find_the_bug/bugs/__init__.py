"""Chapter 21: pieces of code with one bug each, modelled on published defects, for a learner to
show; one is clean.

    from chapters.c21_find_the_bug import bugs

    bugs.show("A")            # the piece: source, what its arguments may be, hints
    bugs.reveal("A")          # what is wrong with it, folded

The learner's input is judged by ``check.input_a`` and its like: it counts where the piece is wrong
on it and the piece with its bug mended is right. That keeps out what every piece would fail on:
NaN, overflow, the limits of a dtype. Who calls a piece clean says so with a list of inputs.
"""

from chapters.c21_find_the_bug.bugs.catalogue import BUGS, WORKED
from chapters.c21_find_the_bug.bugs.piece import Markdown, Piece
from course_utils.rooms import submodules

__all__ = ["BUGS", "Piece", "bug", "reveal", "show"]

__getattr__ = submodules(__name__)


def bug(letter: str) -> Piece:
    """Return the piece of that letter, from A to N; 0 is the worked one."""
    if letter == WORKED.letter:
        return WORKED
    if letter not in BUGS:
        raise ValueError(f"letter must be one of {', '.join(BUGS)}: got {letter!r}")
    return BUGS[letter]


def show(letter: str, hints: int = 3) -> Markdown:
    """Return a piece to read: what it claims, its source, what its arguments may be, the first
    ``hints`` hints."""
    return bug(letter).show(hints)


def reveal(letter: str) -> Markdown:
    """Return what is wrong with a piece and where such a bug was seen, folded."""
    return bug(letter).reveal()
