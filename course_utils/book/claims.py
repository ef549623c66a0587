"""Statements and the evidence for them: a claim exists only as a line that ran."""

from dataclasses import dataclass
from typing import Any

from course_utils.book.tables import Table, format_number

__all__ = ["VERDICTS", "Claim", "Claims"]

VERDICTS = ("holds", "holds with a condition", "does not hold")


@dataclass(frozen=True)
class Claim:
    """One statement, where it was made, and what the cell that tested it found."""

    key: str
    statement: str
    verdict: str
    number: str
    source: str


class Claims:
    """The claims of one chapter, in the order in which their evidence ran.

    A verdict is written beside its evidence, and the evidence decides: when it is false, the cell fails.

    >>> claims = Claims("02")
    >>> claims.prove("ln-shift", "layer norm forgets an added constant", abs(0.0) < 1e-12, number=0.0)
    claim ln-shift: holds (0)
    >>> claims.prove("ln-shift", "the same key twice", True)
    Traceback (most recent call last):
      ...
    ValueError: key must be new in its chapter: got 'ln-shift' with another statement
    """

    def __init__(self, chapter: str) -> None:
        self.chapter = chapter
        self._claims: dict[str, Claim] = {}

    def prove(
        self,
        key: str,
        statement: str,
        evidence: Any,
        *,
        verdict: str = "holds",
        number: Any = "",
        source: str = "",
    ) -> None:
        """Record ``statement`` with ``verdict`` when ``evidence`` is true, and print it in one line.

        Args:
            key: a short name, unique in the chapter, that links to this claim.
            statement: the claim, in one line.
            evidence: what must be true for the *verdict* to be right: for "does not hold", the counterexample's test.
            verdict: one of ``VERDICTS``.
            number: the measured quantity behind the evidence; floats are shown to 3 significant digits.
            source: who says so: paper and section, or a write-up's id (S0 to S4).

        Raises:
            AssertionError: the evidence is false.
            TypeError: the evidence is neither a truth value nor a tensor of one element.
            ValueError: an unknown verdict, or a key that the chapter has used for another statement.
        """
        if verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}: got {verdict!r}")
        if key in self._claims and self._claims[key].statement != statement:
            raise ValueError(f"key must be new in its chapter: got {key!r} with another statement")
        if not _is_true(evidence):
            raise AssertionError(f"the evidence does not support «{statement}» ({verdict}); measured {number!r}")
        shown = format_number(number)
        self._claims[key] = Claim(key, statement, verdict, shown, source)
        print(f"claim {key}: {verdict}" + (f" ({shown})" if shown else ""))

    def __iter__(self):
        return iter(self._claims.values())

    def table(self) -> Table:
        """Return the claims so far as a table, to end a chapter with."""
        rows = [(c.statement, c.source, c.verdict, c.number) for c in self]
        return Table(("claim", "source", "verdict", "measured"), rows, f"Claims tested in chapter {self.chapter}")


def _is_true(evidence: Any) -> bool:
    """Whether the evidence is true; a list, a string or a function would be so whatever is in it."""
    # Only here: the command line reads this module's words, and loading torch for them would take seconds.
    import numpy as np
    from torch import Tensor

    if not isinstance(evidence, bool | np.bool_) and not (isinstance(evidence, Tensor) and evidence.numel() == 1):
        raise TypeError(f"evidence must be True or False, or a tensor of one element: got {evidence!r}")
    return bool(evidence)
