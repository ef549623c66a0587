"""What PyTorch, transformers and others mean by the same words: each row with the proof that it
holds (chapter 22).

The words are in ``conventions.toml``; the proof of a row is the function of its name in ``norms``
or ``rope``.

>>> from chapters.c22_words_and_conventions import conventions
>>> conventions.table("ε").rows[0][0]
'Which ε by default? (LayerNorm and BatchNorm, default eps)'
>>> conventions.proofs("ε").found[0][1]
'of ±0.001: 0.30 with 1e-5, 0.032 with 1e-3'
"""

import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from chapters.c22_words_and_conventions.conventions import norms, rope
from course_utils.rooms import submodules
from course_utils.table import Inline, Table

__all__ = ["CONVENTIONS", "THEMES", "Convention", "Proofs", "proofs", "table"]

__getattr__ = submodules(__name__)


@dataclass(frozen=True)
class Convention:
    """One question that libraries answer differently."""

    theme: str  # the table that it stands in
    question: str
    keywords: str  # what somebody types who looks for it
    here: str  # what PyTorch does, or transformers
    elsewhere: str  # what others do: papers, Keras 3, Flax, llama.cpp, vLLM, ONNX, older files
    convert: str  # how to get from one to the other
    proof: Callable[[], str]  # asserts ``here`` and ``convert``, and returns what it found

    @property
    def code(self) -> str:
        """The body of the proof."""
        return textwrap.dedent(inspect.getsource(self.proof).partition(":\n")[2])


_TEXT = Path(__file__).with_name("conventions.toml").read_text(encoding="utf-8")
CONVENTIONS = tuple(
    Convention(**row, proof=getattr(norms, name, None) or getattr(rope, name))
    for name, row in tomllib.loads(_TEXT).items()
)
THEMES = tuple(dict.fromkeys(row.theme for row in CONVENTIONS))


class Proofs:
    """The proofs of some conventions, run: what each found, with its code folded.

    Raises:
        AssertionError: a convention does not hold in what is installed; the message is its
            question.
    """

    def __init__(self, conventions: Sequence[Convention]) -> None:
        self.found: list[tuple[Convention, str]] = []
        for convention in conventions:
            try:
                self.found.append((convention, convention.proof()))
            except AssertionError as error:
                what = f"does not hold with what is installed here: «{convention.question}»"
                raise AssertionError(what) from error

    def __repr__(self) -> str:
        return "\n".join(
            f"checked  {convention.question}  {found}" for convention, found in self.found
        )

    def _repr_html_(self) -> str:
        style = "margin:2px 0 8px 20px;padding:8px 12px;overflow-x:auto;white-space:pre"
        return "".join(
            f"<details{' open' * (convention is CONVENTIONS[0])}>"  # one shows what the others hide
            f"<summary>checked: {escape(convention.question)} "
            f"<strong>{escape(found)}</strong></summary>"
            f'<pre tabindex="0" style="{style}">{escape(convention.code)}</pre></details>'
            for convention, found in self.found
        )


def proofs(theme: str) -> Proofs:
    """Return what the proofs of one theme's conventions found, with their code; errors as in
    `Proofs` and `table`."""
    return Proofs(_of(theme))


def table(theme: str) -> Table:
    """Return the conventions of one theme; a ``theme`` that is none of ``THEMES`` is a
    ValueError."""
    cells = [
        (
            f"{row.question} ({row.keywords})",
            *(_a_fact_a_line(cell) for cell in (row.here, row.elsewhere, row.convert)),
        )
        for row in _of(theme)
    ]
    return Table(("question", "PyTorch, transformers", "elsewhere", "to convert"), cells)


def _a_fact_a_line(cell: str) -> Inline:
    """Break a line after each sentence, and before what is set off by a semicolon."""
    return Inline(re.sub(r"(?<!al)([.;]) (?=\S)", r"\1<br>", cell))


def _of(theme: str) -> list[Convention]:
    rows = [row for row in CONVENTIONS if row.theme == theme]
    if not rows:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}: got {theme!r}")
    return rows
