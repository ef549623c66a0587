"""The check of chapter 14: how many dimensions complete a whole turn inside the trained window."""

import math
from collections.abc import Callable

from course_utils.check.calls import Call, Probe
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.rope import critical_dimension as _critical_dimension

__all__ = ["critical_dimension"]

MISTAKES = Catalogue()
EXACT = Tolerance(0.0, 1e-9)  # dimensions are counted

_LogRatio = Callable[[float, int], float]


def _papers(base: float, window: int) -> float:
    return math.log(window / (2 * math.pi)) / math.log(base)


def _from(
    ratio: _LogRatio = _papers,
    rounded: Callable[[float], int] = math.ceil,
    times: int = 2,
    pairs: Callable = lambda d: d / 2,
) -> Callable[..., int]:
    """Return a count of dimensions by the paper's formula, with one part of it replaced."""

    def count(head_dim, base, window):
        return min(head_dim, max(0, times * rounded(pairs(head_dim) * ratio(base, window))))

    return count


MISTAKES.add(
    "pairs_not_dimensions",
    "pairs counted, not dimensions",
    "It counts pairs; asked for is the number of dimensions, two for each pair.",
    "A pair of dimensions shares one frequency, so the count of dimensions is even.",
    "How many numbers does one rotation turn?",
    _from(times=1),
)
MISTAKES.add(
    "rounded_down",
    "the last whole pair is left out",
    "It rounds the number of pairs down. Pairs are counted from 0, so pair 10 is the eleventh.",
    "Every pair up to the crossing belongs: rounding up counts the pair in which the crossing lies.",
    "If pairs 0 to 10 complete a turn, how many is that?",
    _from(rounded=math.floor),
    _from(rounded=round),
)
MISTAKES.add(
    "no_full_turn",
    "radians taken for turns",
    "It asks whether the angle reaches 1; a whole turn is 2π.",
    "A pair with frequency f has turned window · f radians at the end of the window.",
    "How far is a full circle, in radians?",
    _from(lambda base, window: math.log(window) / math.log(base)),
)
MISTAKES.add(
    "half_turn",
    "half a turn taken for a whole one",
    "It asks for half a turn, π.",
    "Cosine and sine have taken all their values together only after 2π.",
    "At which angle does a clock's hand point where it started?",
    _from(lambda base, window: math.log(window / math.pi) / math.log(base)),
)
MISTAKES.add(
    "natural_logarithm",
    "the logarithm has the wrong base",
    "The logarithm is to another base than the rotary one.",
    "Pair k has frequency base^(−2k/D): solving for k takes the logarithm to that base.",
    "Which x solves base^x = window / 2π?",
    _from(lambda base, window: math.log(window / (2 * math.pi))),
    _from(lambda base, window: math.log10(window / (2 * math.pi))),
    _from(lambda base, window: math.log2(window / (2 * math.pi))),
)
MISTAKES.add(
    "base_of_ten_thousand",
    "10,000 whatever the base",
    "It takes the base for 10,000.",
    "Llama 3's is 500,000 and the little model's of this chapter 100.",
    "What is the second argument for?",
    lambda head_dim, base, window: _critical_dimension(head_dim, 10_000.0, window),
)
MISTAKES.add(
    "doubled_exponent",
    "D pairs instead of D/2",
    "It spreads the frequencies over D pairs; there are D/2.",
    "The exponent is 2k/D: it reaches 1 after D/2 pairs.",
    "What is the exponent of the last pair?",
    _from(pairs=lambda head_dim: head_dim),
    _from(pairs=lambda head_dim: head_dim / 4),
)
MISTAKES.add(
    "complement",
    "the other dimensions counted",
    "It counts the dimensions that do *not* complete a turn.",
    "The critical dimension is where they begin: everything before it has seen the whole circle.",
    "Do the first pairs turn fast or slowly?",
    lambda head_dim, base, window: head_dim - _critical_dimension(head_dim, base, window),
)
MISTAKES.add(
    "beyond_the_head",
    "more dimensions than the head has",
    "With a small base every pair completes a turn, and the count must stop at the head's dimension.",
    "The formula knows nothing of D as a bound: it solves for a pair that may not exist.",
    "What does it give for base 10 and a window of 4,096?",
    lambda head_dim, base, window: max(0, 2 * math.ceil(head_dim / 2 * _papers(base, window))),
)
MISTAKES.add(
    "below_zero",
    "a negative count",
    "In a window of one token not even the fastest pair completes a turn, and no count is below zero.",
    "The logarithm of a number below one is negative.",
    "How many turns does pair 0 make in one token?",
    lambda head_dim, base, window: min(head_dim, 2 * math.ceil(head_dim / 2 * _papers(base, window))),
    lambda head_dim, base, window: 2 * math.ceil(head_dim / 2 * _papers(base, window)),
)
MISTAKES.add(
    "last_position",
    "the last position taken for the window",
    "It takes window − 1, the position of the last token, for the window.",
    "The paper sets the window's length against 2π, and a window of 7 tokens is one radian longer than position 6.",
    "How many tokens are at the positions 0 to window − 1?",
    lambda head_dim, base, window: _critical_dimension(head_dim, base, window - 1) if window > 1 else 0,
)


def _probe(stage: str, head_dim: int, base: float, window: int) -> Probe:
    name = f"D = {head_dim}, base {base:,g}, {window:,} tokens"
    return Probe(name, stage, Call({"head_dim": head_dim, "base": base, "window": window}), tolerance=EXACT)


critical_dimension = Check(
    "critical_dimension",
    _critical_dimension,
    [
        _probe("models", 32, 100.0, 128),
        _probe("models", 128, 10_000.0, 4096),
        _probe("models", 128, 500_000.0, 8192),
        _probe("models", 64, 10_000.0, 2048),
        _probe("models", 64, 10_000.0, 20),
        _probe("edges", 8, 10.0, 4096),
        _probe("edges", 8, 10.0, 1),
        _probe("edges", 32, 100.0, 7),
    ],
    MISTAKES,
)
