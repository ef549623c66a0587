"""How a piece shows itself in a notebook: its source, what it takes, hints; and what was wrong with it."""

from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from torch import Tensor

from course_utils.bugs.piece import Piece

__all__ = ["Markdown", "revealed", "shown"]

_HINTS = ("Hint 1: a question", "Hint 2: a nudge", "Hint 3: the key")


@dataclass(frozen=True)
class Markdown:
    """A text that a notebook sets as Markdown, and that prints as it is."""

    text: str

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def shown(piece: Piece) -> Markdown:
    """Return the piece as the learner first meets it."""
    ordinary = piece.ordinary()
    lines = [f"- `{name}`: {take.says()} (ordinary: {_value(ordinary[name])})" for name, take in piece.takes.items()]
    limits = ", ".join(f"{letter} from {low:,} to {high:,}" for letter, (low, high) in piece.sizes.items())
    parts = [
        piece.claim,
        _code("python", piece.source),
        "Arguments:",
        "\n".join(lines),
        f"Sizes: {limits}." if limits else "",
        f"An answer counts as right within {piece.tolerance:g} of its largest element (of 1, if that is smaller).",
        *(_folded(title, hint) for title, hint in zip(_HINTS, piece.hints, strict=True)),
    ]
    return Markdown("\n\n".join(part for part in parts if part))


def revealed(piece: Piece) -> Markdown:
    """Return what was wrong, the mended line, and where it was seen, folded."""
    lines = unified_diff(piece.source.splitlines(), piece.mended_source.splitlines(), lineterm="", n=0)
    changed = "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))
    found = piece.difference(piece.broken, piece.solution(piece.ordinary())).told()
    found = f"On the course's input, {found}."
    tolerance = f"Why within {piece.tolerance:g}: {piece.because}."
    text = "\n\n".join((piece.wrong, _code("diff", changed), found, f"**Seen.** {piece.seen}", tolerance))
    return Markdown(_folded(f"Piece {piece.letter}: what was wrong", text))


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _value(value: Any) -> str:
    if isinstance(value, Tensor):
        spread = "standard normal" if value.ndim > 1 else "random"
        return f"{spread}, {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
    return f"`{value!r}`"
