"""Broken pieces, each modelled on a defect of published code, for a learner to find an input that shows it.

    from course_utils import bugs

    bugs.show("A")            # the piece: source, what it takes, hints
    bugs.reveal("A")          # what is wrong with it, folded

The learner's input is judged by ``check.input_a`` and its like: it counts where the piece is wrong on it and the piece
with its bug mended is right. That keeps out what every piece would fail on: NaN, overflow, the limits of a dtype.

    pieces/    the sources, a file each, as the learner reads them; nothing there says what is wrong
    piece      what there is to a piece
    takes      what an argument may be
    shown      how a piece shows itself
    norms, running, positions, scaling, kernels    the pieces, by subject
"""

from course_utils.bugs.kernels import KERNELS
from course_utils.bugs.norms import NORMS
from course_utils.bugs.piece import Piece
from course_utils.bugs.positions import POSITIONS
from course_utils.bugs.running import STATISTICS
from course_utils.bugs.scaling import SCALING
from course_utils.bugs.shown import Markdown, revealed, shown

__all__ = ["PIECES", "Piece", "piece", "reveal", "show"]

PIECES = {piece.letter: piece for piece in (*NORMS, *STATISTICS, *POSITIONS, *SCALING, *KERNELS)}


def piece(letter: str) -> Piece:
    """Return the piece of that letter.

    Raises:
        ValueError: there is none.
    """
    if letter not in PIECES:
        raise ValueError(f"letter must be one of {', '.join(PIECES)}: got {letter!r}")
    return PIECES[letter]


def show(letter: str) -> Markdown:
    """Return a piece for the learner to read: what it claims, its source, what it takes, hints."""
    return shown(piece(letter))


def reveal(letter: str) -> Markdown:
    """Return what is wrong with a piece and where such a bug was seen, folded."""
    return revealed(piece(letter))
