"""The words of the course: each once, in order, in the chapters that it names."""

import json
import pkgutil
import re

import pytest

from chapters.c22_words_and_conventions.glossary import ENTRIES
from chapters.contents import NOTEBOOKS, chapter_of

BY_TERM = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.term)


def text_of(number):
    cells = json.loads((NOTEBOOKS / chapter_of(number).file).read_text())["cells"]
    # "the *half* layout"
    return re.sub(r"[*`]", "", "\n".join("".join(cell["source"]) for cell in cells))


TEXTS = {number: text_of(number) for entry in ENTRIES for number in entry.chapters}


def test_no_term_stands_twice_and_all_are_in_the_order_of_the_alphabet():
    terms = [entry.term.casefold() for entry in ENTRIES if entry.term != "ε"]
    assert terms == sorted(set(terms))
    assert len(terms) == len(ENTRIES) - 1


@BY_TERM
def test_the_chapters_of_a_term_exist_and_speak_of_it(entry):
    spellings = {entry.term, entry.term[0].upper() + entry.term[1:]}
    spaced = (re.escape(spelling).replace("\\-", " ").replace("\\ ", " ") for spelling in spellings)
    word = "|".join(spelling.replace(" ", r"[\s_-]+") for spelling in spaced)
    for number in entry.chapters:
        assert chapter_of(number).is_written
        assert re.search(rf"(?<![A-Za-z])(?:{word})", TEXTS[number]), (
            f"{entry.term} is not in chapter {number}"
        )


@BY_TERM
def test_a_symbol_is_the_one_that_the_first_chapter_writes(entry):
    if entry.symbol:
        formulas = re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", TEXTS[entry.chapters[0]], re.DOTALL)
        symbol = re.compile(rf"(?<![A-Za-z\\]){re.escape(entry.symbol)}(?![A-Za-z])")
        assert any(symbol.search(formula.replace("{x}", " x")) for formula in formulas)


def test_a_symbol_means_one_thing_in_a_chapter():
    meanings: dict[tuple[str, str], str] = {}
    for entry in ENTRIES:
        for number in entry.chapters if entry.symbol else ():
            other = meanings.setdefault((entry.symbol, number), entry.term)
            assert other == entry.term, (
                f"${entry.symbol}$ in chapter {number} is {other} and {entry.term}"
            )


@pytest.mark.parametrize("name", sorted({name for entry in ENTRIES for name in entry.names}))
def test_a_name_leads_to_something_that_is_installed(name):
    path, _, key = name.partition("[")
    found = pkgutil.resolve_name(path)
    if key:
        assert key.strip("]'") in found
