"""When two runs of a cell say the same: word for word, and each number to the precision that is
printed.

Another machine adds in another order, so the last digit that a cell prints may be another there.
nbval compares texts; ``conftest.py`` hands it this comparison, and ``make run`` keeps a stored
output that agrees with the fresh one.

The convention is that of pytest's doctest option NUMBER. Its own code is not used: it subtracts
floats, which makes 3.8e-08 and 3.7e-08 differ, and it accepts any number for one that is written
with no digit after the point. Nor is scipy-doctest's, which evaluates what is printed as Python and
holds it to a relative error.
"""

import re
from decimal import Decimal

__all__ = ["Printed", "say_the_same"]

# with a fraction or an exponent; no part of a name, a version or a colour
_NUMBER = re.compile(
    r"(?<![\w.#])[+\-−]?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?!\d|\.\d)", re.IGNORECASE
)
_ALT_TEXT = re.compile(r'\balt="[^"]*"')
_SPACES = re.compile(r"[ \t]+")
_RULES = re.compile(r"-{3,}")


def say_the_same(stored: str, fresh: str) -> bool:
    """Whether two printed texts differ at most in the last digit of numbers with a fraction or an
    exponent.

    Words, integers, alternative texts and the number of lines must be equal. Where a number
    differs, the columns that it stands in may be wider or narrower.

    >>> say_the_same("off by 3.8e-08 in 12 of 12", "off by 3.7e-08 in 12 of 12")
    True
    >>> say_the_same("off by 3.8e-08 in 12 of 12", "off by 3.8e-08 in 11 of 12")
    False
    """
    if stored == fresh:
        return True
    numbers, others = _NUMBER.findall(stored), _NUMBER.findall(fresh)
    if numbers == others or _ALT_TEXT.findall(stored) != _ALT_TEXT.findall(fresh):
        return False
    return _without_numbers(stored) == _without_numbers(fresh) and all(map(_agree, numbers, others))


def _without_numbers(text: str) -> list[str]:
    text = _RULES.sub("---", _SPACES.sub(" ", _NUMBER.sub("0.0", text)))
    return [line.strip() for line in text.splitlines()]


def _agree(stored: str, fresh: str) -> bool:
    """Whether two numbers differ by one unit in the last place of the one with more places, at
    most."""
    one, other = (Decimal(text.replace("−", "-")) for text in (stored, fresh))
    if one == other:
        return one.is_signed() == other.is_signed()  # 0.0 and -0.0 are two things
    unit = min(Decimal(1).scaleb(int(number.as_tuple().exponent)) for number in (one, other))
    return abs(one - other) <= unit


class Printed(str):
    """A text that equals every text that says the same: what nbval compares."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and say_the_same(str(self), str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other
