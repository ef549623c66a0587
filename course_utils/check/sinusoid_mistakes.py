"""The known mistakes about the sinusoidal code, each the right function with one step replaced."""

import math

import torch
from torch import Tensor

from course_utils.check.mistakes import Catalogue

__all__ = ["MISTAKES", "sinusoid_with"]

MISTAKES = Catalogue()


def as_positions(positions: int | Tensor, first: int = 0) -> Tensor:
    """Return a tensor of positions; a count is counted from ``first``."""
    return positions if isinstance(positions, Tensor) else torch.arange(first, first + positions)


def pair_exponents(dim: int) -> Tensor:
    """Return 2i/dim for each pair of columns, (dim/2,)."""
    return torch.arange(0, dim, 2).double() / dim


def slowing(base: float, exponents: Tensor) -> Tensor:
    """Return base^(−exponent)."""
    return base**-exponents


def product(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Return every position times every frequency, (T, dim/2)."""
    return positions.double()[:, None] * frequencies


def alternate(angles: Tensor) -> Tensor:
    """Return sine in the even columns and cosine in the odd ones, (T, dim)."""
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def sinusoid_with(places=as_positions, exponents=pair_exponents, frequency=slowing, angles=product, columns=alternate):
    """Return ``sinusoidal(positions, dim, base)`` with some of its steps replaced."""

    def sinusoidal(positions, dim, base=10_000.0):
        frequencies = frequency(base, exponents(dim))
        return columns(angles(places(positions), frequencies)).float()

    return sinusoidal


# --- which column holds what ---

MISTAKES.add(
    "halves",
    "sines in the first half, cosines in the second",
    "All the sines come first and all the cosines after them.",
    "Tensor2Tensor and fairseq lay them out so, and a model trained that way works. The formula puts a pair side by "
    "side: with weights of the other layout every column is a stranger's.",
    "In which columns does the formula put sin(t) and cos(t), the pair with the highest frequency?",
    sinusoid_with(columns=lambda angles: torch.cat((angles.sin(), angles.cos()), -1)),
)
MISTAKES.add(
    "cosine_first",
    "cosine in the even columns",
    "The cosine stands in the even columns and the sine in the odd ones.",
    "At position 0 the code is then 1, 0, 1, 0, ... instead of 0, 1, 0, 1, ...; trained weights expect the latter.",
    "What does the formula give at position 0 in column 0?",
    sinusoid_with(columns=lambda angles: torch.stack((angles.cos(), angles.sin()), -1).flatten(1)),
    sinusoid_with(columns=lambda angles: torch.cat((angles.cos(), angles.sin()), -1)),
)
MISTAKES.add(
    "one_function",
    "the same function in every column",
    "Both columns of a pair hold the same function.",
    "With the sine alone there is no matrix that shifts a code by k positions: a rotation needs both coordinates.",
    "A point on a circle has two coordinates. Which one is missing?",
    sinusoid_with(columns=lambda angles: angles.sin().repeat_interleave(2, -1)),
    sinusoid_with(columns=lambda angles: angles.cos().repeat_interleave(2, -1)),
)
MISTAKES.add(
    "negative_sine",
    "minus the sine",
    "The sine has the wrong sign.",
    "The clock runs backwards, as exp(−iωt) does: position 3 gets the code of position −3.",
    "For a small positive position, is the entry of column 0 positive or negative?",
    sinusoid_with(columns=lambda angles: torch.stack((-angles.sin(), angles.cos()), -1).flatten(1)),
)
MISTAKES.add(
    "a_frequency_per_column",
    "a frequency for each column",
    "Every column has a frequency of its own, where the two columns of a pair share one.",
    "Sine and cosine of different angles are no point on a circle: the code can no longer be shifted by a rotation.",
    "For dim = 4, how many different frequencies are there?",
    *(
        sinusoid_with(
            exponents=lambda dim, times=times: torch.arange(dim).double() * times / dim,
            columns=lambda angles: torch.stack((angles[:, 0::2].sin(), angles[:, 1::2].cos()), -1).flatten(1),
        )
        for times in (1, 2)
    ),
)

# --- how fast each pair turns ---

MISTAKES.add(
    "index_doubled_twice",
    "the index doubled twice",
    "The exponent is 4i/dim: arange(0, dim, 2) is 2i already, and it is doubled again.",
    "The frequencies fall twice as fast on a logarithmic scale, down to 1/base²: the last pairs hardly move at all.",
    "For dim = 4 the second pair should turn by 0.01 a step. By how much does yours?",
    sinusoid_with(exponents=lambda dim: 2 * pair_exponents(dim)),
)
MISTAKES.add(
    "index_not_doubled",
    "the 2 of the exponent is missing",
    "The exponent is i/dim, where the formula has 2i/dim.",
    "The frequencies stop at the root of where they should: the longest wave is 2π·√base, and far positions repeat.",
    "Which i is the last, and what should its exponent be close to?",
    sinusoid_with(exponents=lambda dim: pair_exponents(dim) / 2),
)
MISTAKES.add(
    "exponent_reaches_one",
    "the exponent runs all the way to 1",
    "The exponents are spread over dim/2 − 1 steps, so that the last frequency is exactly 1/base.",
    "Tensor2Tensor computes it so; the paper's formula divides by dim, and its last frequency is a step above 1/base.",
    "For dim = 4 there are two pairs. What is 2i/dim for the second?",
    sinusoid_with(exponents=lambda dim: torch.arange(dim // 2).double() / max(dim // 2 - 1, 1)),
)
MISTAKES.add(
    "one_frequency",
    "one frequency for all pairs",
    "All pairs turn alike: the exponent is 0 everywhere (an integer division, perhaps).",
    "The code then repeats after 2π positions, and most of its columns say nothing new.",
    "What does 2 * i // dim give for i below dim / 2?",
    sinusoid_with(exponents=lambda dim: torch.zeros(dim // 2, dtype=torch.float64)),
)
MISTAKES.add(
    "growing_frequencies",
    "the frequencies grow",
    "Positions are multiplied by base^(2i/dim), where the formula divides.",
    "The last pairs turn thousands of times between two neighbours, which for whole positions is noise.",
    "Is the last column a slow wave or a fast one?",
    sinusoid_with(frequency=lambda base, exponents: base**exponents),
)
MISTAKES.add(
    "slowest_first",
    "the slowest pair first",
    "The frequencies are right and in the reverse order.",
    "It would do as a code, but it is not the formula's, and trained weights would meet other columns.",
    "Which pair turns by one radian a step?",
    sinusoid_with(exponents=lambda dim: pair_exponents(dim).flip(0)),
)
MISTAKES.add(
    "another_logarithm",
    "an exponential without the natural logarithm of the base",
    "The frequencies are exp(−2i/dim), or have log10 of the base in place of its natural logarithm.",
    "base^(−x) = exp(−x · ln base). Without ln base the wavelengths run from 2π to 17 only.",
    "What should exp(...) return for x = 1, at the end of the range?",
    *(
        sinusoid_with(frequency=lambda base, exponents, log=log: torch.exp(-exponents * log(base)))
        for log in (lambda base: 1.0, math.log10)
    ),
)
MISTAKES.add(
    "ignores_base",
    "the argument base is ignored",
    "It uses 10,000, whatever ``base`` says.",
    "The base sets the longest wave, which is what one changes for longer texts.",
    "Call it with base=100. Does the result change?",
    sinusoid_with(frequency=lambda base, exponents: 10_000.0**-exponents),
)
MISTAKES.add(
    "turns_for_radians",
    "turns or degrees in place of radians",
    "The angle is taken in other units: multiplied by 2π, or converted from degrees.",
    "In the formula the first pair turns by one radian a step. In whole turns it would stand still.",
    "sin takes radians. By how much should the first pair turn from one position to the next?",
    sinusoid_with(angles=lambda positions, frequencies: 2 * math.pi * product(positions, frequencies)),
    sinusoid_with(angles=lambda positions, frequencies: torch.deg2rad(product(positions, frequencies))),
    sinusoid_with(angles=lambda positions, frequencies: product(positions, frequencies) / (2 * math.pi)),
)

# --- which positions ---

MISTAKES.add(
    "positions_from_one",
    "positions counted from 1",
    "The first token gets the code of position 1.",
    "A shift by one is only another code, until it meets weights, or a cache, that count from 0.",
    "What should the first row be for positions 0, 1, 2?",
    sinusoid_with(places=lambda positions: as_positions(positions) + 1),
    sinusoid_with(places=lambda positions: as_positions(positions, first=1)),
)
MISTAKES.add(
    "own_positions",
    "the positions given are not used",
    "It counts the rows 0, 1, 2, ..., whatever the positions are.",
    "When a model writes one token at a time, each call has one row, and its position is not 0.",
    "What should sinusoidal(torch.tensor([7]), 4) have in common with sinusoidal(8, 4)?",
    sinusoid_with(places=lambda positions: torch.arange(len(as_positions(positions)))),
)
MISTAKES.add(
    "relative_to_length",
    "positions as a share of the length",
    "Positions are divided by their number.",
    "The code of a token then depends on how long the text is, and a step of one means something else in each.",
    "Should position 1 have the same code in a short text and in a long one?",
    sinusoid_with(places=lambda positions: as_positions(positions).double() / len(as_positions(positions))),
    sinusoid_with(places=lambda positions: as_positions(positions).double() / max(len(as_positions(positions)) - 1, 1)),
)
MISTAKES.add(
    "transposed",
    "columns and positions exchanged",
    "The result is (dim, T), one row for each column of the code.",
    "It is added to embeddings (T, dim): where T equals dim, nothing complains.",
    "Which index of the result is the position?",
    lambda positions, dim, base=10_000.0: sinusoid_with()(positions, dim, base).T,
)


def _in_half_precision(dtype: torch.dtype):
    def angles(positions, frequencies):
        return positions.to(dtype)[:, None] * frequencies.to(dtype)

    return sinusoid_with(angles=angles)


MISTAKES.add(
    "half_precision_angles",
    "angles in half precision",
    "The angles are computed in half precision.",
    "bfloat16 has no odd numbers above 256, and near 60 its steps are a quarter: neighbours get one code. Only the "
    "finished code may be rounded.",
    "Which of 255, 256, 257, 258 does bfloat16 have? In which dtype is your product?",
    _in_half_precision(torch.bfloat16),
    _in_half_precision(torch.float16),
)
MISTAKES.add(
    "no_count",
    "a plain count does not work",
    "It works for a tensor of positions, and not for a number of them.",
    "sinusoidal(512, dim) is how the table of a model is made.",
    "What is positions in sinusoidal(512, 64), and which call makes 0, 1, ..., 511 of it?",
    sinusoid_with(places=lambda positions: positions),
    lambda positions, dim, base=10_000.0: sinusoid_with()(positions[:, None].squeeze(1), dim, base),
    sinusoid_with(
        places=lambda positions: torch.as_tensor(positions)[None] if isinstance(positions, int) else positions
    ),
)
MISTAKES.add(
    "count_only",
    "a tensor of positions does not work",
    "It works for a number of positions, and not for a tensor of them.",
    "With a cache a model asks for one late position, and padded batches for positions of their own.",
    "Which positions does sinusoidal(torch.tensor([7]), 64) ask for, and where does your function count its own?",
    sinusoid_with(places=torch.arange),
    sinusoid_with(places=range),
)
