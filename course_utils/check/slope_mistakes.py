"""The known mistakes about ALiBi's slopes."""

import math

import torch

from course_utils.check.mistakes import Catalogue

__all__ = ["MISTAKES", "slopes_with"]

MISTAKES = Catalogue()


def geometric(heads: int) -> list[float]:
    """Return 2^(−8/H), its square, its cube, ..., down to 2^−8."""
    return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]


def every_other(heads: int, missing: int) -> list[float]:
    """Return the slopes that are missing beyond ``heads``: every other one of twice as many heads."""
    return geometric(2 * heads)[::2][:missing]


def slopes_with(sequence=geometric, extra=every_other):
    """Return ``alibi_slopes(num_heads)`` with another sequence for powers of two, or another filling for the rest."""

    def alibi_slopes(num_heads):
        below = 2 ** int(math.log2(num_heads))
        return torch.tensor(sequence(below) + extra(below, num_heads - below), dtype=torch.float32)

    return alibi_slopes


MISTAKES.add(
    "starts_at_one",
    "the first slope is 1",
    "The exponents start at 0, so the first head has slope 1 and the last is a step short of 2^−8.",
    "The sequence starts at its own ratio, 2^(−8/H): with eight heads 1/2, 1/4, ..., 1/256.",
    "With eight heads, what are the first and the last slope?",
    slopes_with(lambda heads: [2.0 ** (-8.0 * head / heads) for head in range(heads)]),
)
MISTAKES.add(
    "always_halves",
    "always 1/2, 1/4, 1/8 and so on",
    "Each slope is half of the one before, whatever the number of heads.",
    "That is the sequence of eight heads. With sixteen the last would be 2^−16, a head that does not know order.",
    "Where should the sequence end with sixteen heads, and what is its ratio then?",
    slopes_with(lambda heads: [2.0 ** -(head + 1) for head in range(heads)]),
    lambda num_heads: 2.0 ** -torch.arange(1.0, num_heads + 1),
)
MISTAKES.add(
    "reversed",
    "the flattest head first",
    "The slopes are right and in the reverse order.",
    "Every head learns with the slope it has: trained weights would each meet a stranger's.",
    "Which head sees only its neighbourhood, the first or the last?",
    slopes_with(lambda heads: geometric(heads)[::-1]),
    lambda num_heads: slopes_with()(num_heads).flip(0),
)
MISTAKES.add(
    "linear",
    "evenly spaced slopes",
    "The slopes are evenly spaced, where each should be the same fraction of the one before.",
    "Most heads then forget at nearly one distance; a geometric sequence covers every scale from 2 to 256 tokens.",
    "What is the ratio of the second slope to the first, and of the third to the second?",
    slopes_with(lambda heads: torch.linspace(2.0 ** (-8.0 / heads), 2.0**-8, heads).tolist()),
    slopes_with(lambda heads: [(heads - head) / heads for head in range(heads)]),
    slopes_with(lambda heads: [(head + 1) / heads for head in range(heads)]),
)
MISTAKES.add(
    "negative",
    "negative slopes",
    "The slopes have a minus sign.",
    "In the paper the slope is positive and the bias is minus slope times distance; two minus signs reward distance.",
    "Who applies the minus sign, the slope or the bias?",
    lambda num_heads: -slopes_with()(num_heads),
)
MISTAKES.add(
    "powers_of_e",
    "powers of e",
    "The slopes are powers of e, where the paper has powers of 2.",
    "The last head would have a slope of 1/2981 instead of 1/256.",
    "With eight heads the first slope is a round number. Which?",
    slopes_with(lambda heads: [math.exp(-8.0 * (head + 1) / heads) for head in range(heads)]),
)
MISTAKES.add(
    "one_slope",
    "the same slope for every head",
    "Every head gets 2^(−8/H).",
    "Then all heads forget at one distance; that there are several is what lets some look far.",
    "2^(−8/H) is where the sequence starts. How does it go on?",
    slopes_with(lambda heads: [2.0 ** (-8.0 / heads)] * heads),
)
MISTAKES.add(
    "ready_to_broadcast",
    "extra dimensions",
    "The slopes come with extra dimensions, to be multiplied with a table of distances.",
    "That is the caller's business: here the result is (H,).",
    "What should alibi_slopes(4).shape be?",
    lambda num_heads: slopes_with()(num_heads)[:, None, None],
    lambda num_heads: slopes_with()(num_heads)[None, :, None, None],
    lambda num_heads: slopes_with()(num_heads)[:, None],
    lambda num_heads: slopes_with()(num_heads)[None],
)
MISTAKES.add(
    "geometric_for_any_count",
    "one geometric sequence for any number of heads",
    "It takes 2^(−8·h/H) also where H is no power of two.",
    "For twelve heads the first slope would be 0.63. The authors' code, and with it BLOOM's and MPT's, takes the "
    "slopes of the power of two below and fills up with every other slope of the one above.",
    "What should the first eight of twelve slopes be, if they are those of eight heads?",
    lambda num_heads: torch.tensor(geometric(num_heads)),
)
MISTAKES.add(
    "next_power_cut",
    "the power of two above, cut off",
    "Where H is no power of two, it takes the first H slopes of the power above.",
    "The flat slopes at the end, the heads that look far, are the ones cut off.",
    "Is the slope 2^−8 among your twelve?",
    lambda num_heads: torch.tensor(geometric(2 ** math.ceil(math.log2(num_heads)))[:num_heads]),
)
MISTAKES.add(
    "next_power_thinned",
    "the power of two above, thinned out",
    "Where H is no power of two, it sorts: the slopes are those of the authors' code, in descending order.",
    "The order decides which head gets which slope, and checkpoints have the extra ones at the end.",
    "Which slopes stand at the end, those of the power below or the added ones?",
    lambda num_heads: slopes_with()(num_heads).sort(descending=True).values,
)
MISTAKES.add(
    "extra_not_every_other",
    "the wrong slopes added",
    "Where H is no power of two, the slopes that are added are not every other one, from the first, of twice as many.",
    "Of twice as many heads every second slope is there already: added again, two heads are alike.",
    "Of the sixteen slopes, which are the eight of eight heads, and which lie between them?",
    slopes_with(extra=lambda heads, missing: geometric(2 * heads)[1::2][:missing]),
    slopes_with(extra=lambda heads, missing: geometric(2 * heads)[:missing]),
    slopes_with(extra=lambda heads, missing: geometric(heads)[:missing]),
    slopes_with(extra=lambda heads, missing: every_other(heads, heads)[heads - missing :]),
)
MISTAKES.add(
    "powers_of_two_only",
    "powers of two only",
    "It fails, or returns another number of slopes, where H is no power of two.",
    "BLOOM has 112 heads, and twelve are common.",
    "What does your function return for num_heads = 12?",
    lambda num_heads: slopes_with()(2 ** int(math.log2(num_heads))),
    lambda num_heads: slopes_with()(2 ** math.ceil(math.log2(num_heads))),
)
