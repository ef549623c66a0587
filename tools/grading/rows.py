"""What a grading says of one exercise in one notebook; light, for every process that grades imports it."""

from dataclasses import dataclass

__all__ = ["STATUSES", "Row", "one_line"]

# status -> its sign in the report's overview, and what it means
STATUSES = {
    "passed": ("✓", "right on every probe"),
    "wrong": ("✗", "attempted, and not right yet"),
    "not attempted": ("·", "the stub as it was handed out, or a ready-made function of torch's or the course's"),
    "not defined": ("–", "no cell defines the function"),
    "error": ("!", "could not be judged; the message says why"),
    "no exercise": (" ", "the chapter has no exercise of its own"),
}
_LENGTH = 300  # characters of a message


@dataclass(frozen=True)
class Row:
    """The result of one exercise in one notebook, or the reason why a file has none.

    Args:
        learner: the name of the folder, or of the file without its ending.
        file: relative to the graded folder.
        chapter, exercise: empty where it is unknown or there is none.
        status: one of ``STATUSES``.
        mistake: the catalogue's key of a known mistake, else empty.
        message: what the check says, or what stood in the way, in one line.
        seconds: wall-clock time, imports left out.
    """

    learner: str
    file: str
    chapter: str = ""
    exercise: str = ""
    status: str = "error"
    mistake: str = ""
    message: str = ""
    seconds: float = 0.0


def one_line(text: str) -> str:
    """Return ``text`` as one printable line of at most 300 characters."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return line[:_LENGTH] + "…" * (len(line) > _LENGTH)
