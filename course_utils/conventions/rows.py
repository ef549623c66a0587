"""What a row of the tables of conventions is, and the two tables that are made of rows."""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from course_utils.book.tables import Inline, Table

__all__ = ["Convention", "Proofs", "as_table", "convention"]


@dataclass(frozen=True)
class Convention:
    """One question that libraries answer differently.

    Args:
        theme: the table that it stands in.
        question: what to ask.
        here: what PyTorch does, or transformers.
        elsewhere: what others do: papers, Keras 3, Flax, a checkpoint's publisher, older files.
        convert: how to get from one to the other.
        proof: a function without arguments that asserts ``here`` and ``convert``, and returns what it found.
    """

    theme: str
    question: str
    here: str
    elsewhere: str
    convert: str
    proof: Callable[[], str]

    @property
    def code(self) -> str:
        """The body of the proof."""
        lines = inspect.getsource(self.proof).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("def ")) + 1
        return textwrap.dedent("\n".join(lines[start:]))


def convention(
    rows: list[Convention], theme: str, question: str, here: str, elsewhere: str, convert: str
) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Return a decorator that puts a row into ``rows``, with the decorated function as its proof."""

    def add(proof: Callable[[], str]) -> Callable[[], str]:
        rows.append(Convention(theme, question, here, elsewhere, convert, proof))
        return proof

    return add


class Proofs:
    """The proofs of some conventions, run: what each found, with its code folded.

    Raises:
        AssertionError: a convention does not hold in what is installed; the message is its question.
    """

    def __init__(self, conventions: Sequence[Convention]) -> None:
        self.found = [(convention, _prove(convention)) for convention in conventions]

    def __repr__(self) -> str:
        return "\n".join(f"proved  {convention.question}  {found}" for convention, found in self.found)

    def _repr_html_(self) -> str:
        style = "margin:2px 0 8px 20px;padding:8px 12px;overflow-x:auto"
        return "".join(
            f"<details><summary>proved: {escape(convention.question)} <strong>{escape(found)}</strong></summary>"
            f'<pre tabindex="0" style="{style}">{escape(convention.code)}</pre></details>'
            for convention, found in self.found
        )


def _prove(convention: Convention) -> str:
    try:
        return convention.proof()
    except AssertionError as error:
        raise AssertionError(f"does not hold with what is installed here: «{convention.question}»") from error


def as_table(conventions: Sequence[Convention]) -> Table:
    """Return the rows as a table."""
    cells = [(row.question, Inline(row.here), Inline(row.elsewhere), Inline(row.convert)) for row in conventions]
    return Table(("question", "PyTorch, transformers", "elsewhere", "to convert"), cells)
