"""Chapter 20, whose claims the course tests: five write-ups, what they say, and the papers
(``sources.toml``).

>>> works_named("rich-junwang; Su et al. 2021 §3.4.3")
['rich-junwang', 'Su et al. 2021']
>>> works_named("torch 2.13.0, CPU"), works_named("")
(['libraries'], ['this course'])
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "LISTED",
    "OWN_WORDS",
    "WORKS",
    "WRITE_UPS",
    "ListedClaim",
    "Work",
    "links_in",
    "works_in",
    "works_named",
]


@dataclass(frozen=True)
class Work:
    """Something that claims come from: "Rico", "Ba et al. 2016", "libraries", "this course".

    ``pattern`` is a regular expression that finds it in a claim's ``source``; ``link`` is where to
    read it.
    """

    name: str
    title: str
    pattern: str
    link: str = ""


@dataclass(frozen=True)
class ListedClaim:
    """One thing that a write-up says, in the course's words, and the claims that answer it as
    ``chapter:key``."""

    source: str
    says: str
    answered_by: tuple[str, ...]


_DATA = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))

WORKS = tuple(Work(**work) for work in _DATA["works"])
LISTED = tuple(
    ListedClaim(source, says, tuple(names))
    for source, said in _DATA["listed"].items()
    for says, names in said.items()
)
WRITE_UPS = tuple(work for work in WORKS if work.name in _DATA["listed"])
# all that a claim's source may say besides a work's name
OWN_WORDS = {"", "this course", "measured here", "common practice", "chapter 14, decoding"}


def works_in(source: str) -> list[tuple[Work, str]]:
    """Return the works that a claim's ``source`` speaks of, each with the words that do."""
    return [(work, found[0]) for work in WORKS if (found := re.search(work.pattern, source))]


def works_named(source: str) -> list[str]:
    """Return the names of the works that a claim's ``source`` speaks of; "this course" where it
    names none."""
    return [work.name for work, _ in works_in(source)] or ["this course"]


def links_in(source: str) -> dict[str, str]:
    """Return the links of the works that a claim's ``source`` speaks of, by the words that do; ""
    where it has none."""
    return {words: work.link for work, words in works_in(source)}
