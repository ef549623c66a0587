"""What PyTorch, transformers and others mean by the same words: each row with the proof that it holds here.

>>> from course_utils import conventions
>>> conventions.table("ε").rows[0][0]
'Which ε by default?'
>>> conventions.proofs("ε").found[0][1]
'of ±0.001: 0.30 with 1e-5, 0.032 with 1e-3'
"""

from course_utils.book.tables import Table
from course_utils.conventions.norm_conventions import NORM_CONVENTIONS
from course_utils.conventions.rope_config_conventions import ROPE_CONFIG_CONVENTIONS
from course_utils.conventions.rope_conventions import ROPE_CONVENTIONS
from course_utils.conventions.rows import Convention, Proofs, as_table

__all__ = ["CONVENTIONS", "THEMES", "Convention", "proofs", "table"]

CONVENTIONS = (*NORM_CONVENTIONS, *ROPE_CONVENTIONS, *ROPE_CONFIG_CONVENTIONS)
THEMES = tuple(dict.fromkeys(row.theme for row in CONVENTIONS))


def table(theme: str) -> Table:
    """Return the conventions of one theme.

    Raises:
        ValueError: ``theme`` is none of ``THEMES``.
    """
    return as_table(_of(theme))


def proofs(theme: str) -> Proofs:
    """Return what the proofs of one theme's conventions found, with their code.

    Raises:
        AssertionError: a convention does not hold in what is installed.
        ValueError: ``theme`` is none of ``THEMES``.
    """
    return Proofs(_of(theme))


def _of(theme: str) -> list[Convention]:
    rows = [row for row in CONVENTIONS if row.theme == theme]
    if not rows:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}: got {theme!r}")
    return rows
