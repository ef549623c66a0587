"""Statements and the evidence for them: what is claimed stands in a TOML file, the evidence in a
cell that ran."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from string import Formatter
from typing import Any

from course_utils.table import Link, Table, format_number

__all__ = ["VERDICTS", "Card", "Claim", "Claims", "load"]

# verdict: its mark, the colour of its badge (each at least 4.5 to 1 against white), the word before
# a condition
_LOOKS = {
    "proved": ("■", "#0b5a8f", ""),
    "holds": ("●", "#00694f", ""),
    "holds if": ("◐", "#8a5500", ""),
    "does not hold": ("○", "#b03a00", ""),
    "seen here": ("◆", "#7a3f6d", "in "),
    "not reproduced here": ("◇", "#5a5f66", "in "),
    "undecided here": ("◌", "#6b5a00", "in "),
}
VERDICTS = tuple(_LOOKS)
CONDITIONED = ("holds if", "seen here", "not reproduced here", "undecided here")

# from what a claim's ``source`` says to the links of the works in it, by the words that name each
Links = Callable[[str], Mapping[str, str]]


def _no_links(source: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Claim:
    """One entry of a file of claims.

    Args:
        key: a short name, unique in the file.
        sentence: what is claimed.
        verdict: one of ``VERDICTS``.
        condition: when it holds ("holds if"), or the experiment: sizes, seeds, optimizer, budget
            ("seen here", "not reproduced here", "undecided here": too few seeds to say). No other
            verdict has one.
        found: what the cell found, in words, with ``{}`` or ``{:.1f}`` for each number that it
            computes.
        source: who says so, with the place, as in "Ba et al. 2016 §3; S2"; empty for a sentence of
            this course.
        quote: the source's own words, where ``sentence`` is not in them.
        url: where they are read, when the link of the work does not lead there.
    """

    key: str
    sentence: str
    verdict: str
    condition: str = ""
    found: str = ""
    source: str = ""
    quote: str = ""
    url: str = ""

    @property
    def mark(self) -> str:
        """The disc of its verdict: told apart by shape, not by colour."""
        return _LOOKS[self.verdict][0]

    @property
    def words(self) -> str:
        """The verdict with its condition: "holds if α > 0"."""
        return f"{self.verdict} {_LOOKS[self.verdict][2]}{self.condition}".rstrip()

    @property
    def line(self) -> str:
        """The claim as one line of text."""
        return f"{self.mark} {self.words}: {self.sentence}"


@cache
def load(file: Path) -> Mapping[str, Claim]:
    """Return the claims of a TOML file by key, in its order: a table for each, with the fields of
    ``Claim``."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))
    return {key: Claim(key, **fields) for key, fields in entries.items()}


class _Slots(Formatter):
    """``str.format`` where ``{}`` shows a number as the course does."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return format(value, format_spec) if format_spec else format_number(value)


@dataclass(frozen=True)
class Card:
    """A claim whose evidence ran, with the numbers that its cell computed; shown as a card."""

    claim: Claim
    numbers: tuple = ()
    links: Links = _no_links

    @property
    def found(self) -> str:
        """What was found, in words and numbers; the numbers alone where the claim has no words for
        them."""
        template = self.claim.found or ", ".join("{}" for _ in self.numbers)
        return _Slots().format(template, *self.numbers)

    def __repr__(self) -> str:
        return self.claim.line + (f" [{self.found}]" if self.found else "")

    def _repr_html_(self) -> str:
        # GitHub keeps the elements and drops the styles: the order and the bold words must do there
        claim = self.claim
        badge = (
            f"background:{_LOOKS[claim.verdict][1]};color:#fff;border-radius:4px;padding:1px "
            "8px;white-space:nowrap"
        )
        box = (
            "border:1px solid var(--jp-border-color2,#bdbdbd);border-radius:6px;padding:6px "
            "12px;margin:6px 0;"
            "max-width:60em;line-height:1.5;color:var(--jp-content-font-color1,#212121);"
            "background:var(--jp-layout-color0,#ffffff)"
        )
        mark = f'<strong style="{badge}">{claim.mark} {claim.verdict}</strong>'
        sentence = f'<strong style="font-weight:600">{escape(claim.sentence)}</strong>'
        condition = claim.words.removeprefix(claim.verdict.removesuffix("if")).strip()
        quote = f"“{escape(claim.quote)}” " if claim.quote else ""
        details = [escape(words) for words in (condition, self.found) if words]
        lines = (
            f"{mark} {sentence}",
            *details,
            f"<small>{quote}{source_html(claim, self.links)}</small>",
        )
        body = "".join(f"<div>{line}</div>" for line in lines)
        return f'<div id="claim-{claim.key}" class="course-claim" style="{box}">{body}</div>'


def source_html(claim: Claim, links: Links) -> str:
    """Return who says so, each work with its link."""
    html = escape(claim.source or "this course")
    for words, address in links(claim.source).items():
        if address := claim.url or address:
            link = (
                f'<a href="{escape(address)}" target="_blank" '
                f'style="color:inherit">{escape(words)}</a>'
            )
            html = html.replace(escape(words), link, 1)
    return html


class Claims:
    """The claims of one file that were tested so far, in the order in which their evidence ran.

    The verdict is written beside the sentence, and the evidence decides: when it is false, the cell
    fails.

    Args:
        file: TOML, as ``load`` reads it.
        links: from what a claim's ``source`` says to the links of the works in it, by the words
            that name each.
        where: what the claims belong to, "chapter 02".
    """

    def __init__(self, file: Path, links: Links = _no_links, where: str = "") -> None:
        self.file = file
        self.links = links
        self.where = where or file.name
        self._cards: dict[str, Card] = {}

    def test(
        self,
        key: str,
        evidence: Any = None,
        *,
        holds: Any = None,
        fails: Any = None,
        number: Any = (),
    ) -> None:
        """Show the claim's card when the evidence is true.

        Args:
            key: the claim's name in the file.
            evidence: what must be true for the *verdict* to be right: for "does not hold", the
                counterexample's test.
            holds: for "holds if": that it is true where the condition is met.
            fails: for "holds if": that it is false where the condition is not met.
            number: the measured quantity, or several in a tuple, for the slots of ``found``.

        Raises:
            AssertionError: the evidence is false.
            KeyError: the file has no such claim.
            TypeError: evidence that is no truth value and no tensor of one element, or the other
                kind of evidence.
        """
        claims = load(self.file)
        if key not in claims:
            raise KeyError(
                f"key must be a claim in {self.file.parent.name}/{self.file.name}: got {key!r}"
            )
        claim = claims[key]
        asked = ("holds", "fails") if claim.verdict == "holds if" else ("evidence",)
        given = {"evidence": evidence, "holds": holds, "fails": fails}
        if extra := [
            name for name, value in given.items() if value is not None and name not in asked
        ]:
            raise TypeError(
                f"{key} «{claim.verdict}» is tested by {' and '.join(asked)}: got "
                f"{' and '.join(extra)}"
            )
        for name in asked:
            if not _is_true(name, given[name]):
                raise AssertionError(
                    f"{name} is false for «{claim.sentence}» ({claim.words}); measured {number!r}"
                )
        numbers = number if isinstance(number, tuple) else (number,)
        self._cards[key] = Card(
            claim, tuple(n.item() if hasattr(n, "item") else n for n in numbers), self.links
        )
        _show(self._cards[key])

    def __iter__(self) -> Iterator[Card]:
        return iter(self._cards.values())

    def index(self) -> Table:
        """Return the claims so far as a table, each leading to its evidence: the heading that is
        its key. In a notebook it is folded."""
        rows = [
            (
                f"{one.claim.mark} {one.claim.words}",
                Link(one.claim.sentence, f"#{one.claim.key}"),
                one.found,
                one.claim.source,
            )
            for one in self
        ]
        caption = f"{len(rows)} claims tested in {self.where}"
        return Table(("verdict", "claim", "found", "source"), rows, caption, folded=True)


def _show(card: Card) -> None:
    try:
        from IPython.display import display
    except ImportError:  # the base of the package comes without
        print(card)
    else:
        display(card)


def _is_true(name: str, evidence: Any) -> bool:
    """Whether the evidence is true; a list, a string or a function would be so whatever is in
    it."""
    # Only here: the command line reads this module's words, and loading torch for them would take
    # seconds.
    import numpy as np
    from torch import Tensor

    if not isinstance(evidence, bool | np.bool_) and not (
        isinstance(evidence, Tensor) and evidence.numel() == 1
    ):
        raise TypeError(
            f"{name} must be True or False, or a tensor of one element: got {evidence!r}"
        )
    return bool(evidence)
