"""The known mistakes about the angles of a rotary embedding: which way a pair turns, how fast, and which pairs."""

import torch

from course_utils.check.mistakes import Catalogue
from course_utils.check.rotation_recipes import LAYOUTS, in_both_layouts, inv_freq_with, pairs, rope_with

__all__ = ["add_angle_mistakes"]


def add_angle_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes that show in a single pair, then those about frequencies and about which entries are a pair."""
    _add_pair_mistakes(catalogue)
    _add_frequency_mistakes(catalogue)


def _add_pair_mistakes(catalogue: Catalogue) -> None:
    catalogue.add(
        "turns_the_other_way",
        "turned the other way",
        "Every pair turns by minus its angle.",
        "Scores between your own queries and keys still depend on the distance alone, with its sign flipped, so "
        "nothing seems wrong, until weights trained with the usual direction are loaded.",
        "Turn [1, 0] by a small positive angle. Is its second entry then positive or negative, and in your output?",
        *in_both_layouts(turn=lambda x, rotated, cos, sin: x * cos - rotated * sin),
    )
    catalogue.add(
        "no_minus",
        "the minus sign is missing",
        "Both entries of a pair get a plus sign: x₁ cos + x₂ sin and x₂ cos + x₁ sin.",
        "That matrix is no rotation: it changes the length of the vector with its position, and the score is no "
        "longer a function of the distance.",
        "A 2×2 rotation has one minus sign. What is the length of [1, 1] after your function has turned it?",
        rope_with(rotate=lambda x: torch.cat(x.chunk(2, -1)[::-1], dim=-1)),
        rope_with("interleaved", rotate=lambda x: x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)),
    )
    catalogue.add(
        "not_rotated",
        "the sine multiplies the same entry",
        "It computes x cos + x sin: the second term has x itself where the other entry of the pair belongs.",
        "Every entry is only scaled by a number that depends on its position; nothing turns.",
        "In x₁ cos − x₂ sin, which entry does the sine multiply?",
        *in_both_layouts(rotate=lambda x: x),
    )
    catalogue.add(
        "cos_sin_swapped",
        "cosine and sine exchanged",
        "The sine stands where the cosine belongs, and the other way round.",
        "At position 0 the angle is 0 and nothing should turn; here everything turns by a quarter.",
        "What are cos 0 and sin 0, and what should happen to a vector at position 0?",
        *in_both_layouts(turn=lambda x, rotated, cos, sin: x * sin + rotated * cos),
    )
    catalogue.add(
        "added",
        "added, not multiplied",
        "Cosine and sine are added to x, as sinusoidal codes are, and nothing is multiplied.",
        "A sum has cross terms between content and position in every score; a rotation has none.",
        "What is your output for x = 0, and what is a rotated zero vector?",
        *in_both_layouts(turn=lambda x, rotated, cos, sin: x + cos + sin),
        lambda x, positions, base=10_000.0: x + _code(x, positions, base, interleaved=True),
        lambda x, positions, base=10_000.0: x + _code(x, positions, base, interleaved=False),
    )

    catalogue.add(
        "overwrites_first",
        "the first entry is overwritten too early",
        "The second entry of each pair is computed from the first one's new value instead of its old one.",
        "Both entries of a rotated pair are made of both old ones. Here the length of the vector changes.",
        "In your second line, is x₁ still what it was before your first line?",
        *(rope_with(layout, turn=_overwriting(layout)) for layout in LAYOUTS),
    )
    catalogue.add(
        "positions_ignored",
        "the positions are not used",
        "It numbers the tokens 0, 1, 2, … itself, whatever ``positions`` says.",
        "While decoding there is one new token, at position 1,000, say; numbered anew it is at position 0, and every "
        "score with the cached keys is that of another distance.",
        "What does your function return for the same x at positions [0] and at positions [1000]?",
        *in_both_layouts(place=lambda positions: torch.arange(len(positions), device=positions.device)),
    )
    catalogue.add(
        "one_based",
        "one position too far",
        "Every token is turned as if it stood one position further on.",
        "Distances, and so scores, stay right; keys that were cached by other code do not fit, and a token at "
        "position 0 is turned where it should be left alone.",
        "What should happen to a token at position 0?",
        *in_both_layouts(place=lambda positions: positions + 1),
    )


def _add_frequency_mistakes(catalogue: Catalogue) -> None:
    catalogue.add(
        "mixed_layouts",
        "two layouts mixed",
        "The angles are laid out for one pairing of the dimensions, and the entries are combined in the other.",
        "Two entries that are combined then have different angles, which is no rotation: lengths change, and the "
        "score no longer depends on the distance alone.",
        "Which two dimensions share the angle θ₀ in your cosine, and which two does your rotation combine?",
        rope_with(spread=LAYOUTS["interleaved"][0]),
        rope_with(spread=LAYOUTS["half"][0], rotate=LAYOUTS["interleaved"][1]),
    )
    catalogue.add(
        "angle_for_each_dimension",
        "an angle for each dimension",
        "There are as many frequencies as dimensions, so that the two entries of a pair turn by different angles.",
        "A pair turns as one: d dimensions have d/2 angles.",
        "For dim = 8, how many different angles does a token have?",
        rope_with(inv_freq=inv_freq_with(lambda dim: torch.arange(dim) / dim), spread=lambda angles: angles),
        rope_with(
            "interleaved", inv_freq=inv_freq_with(lambda dim: torch.arange(dim) / dim), spread=lambda angles: angles
        ),
        rope_with(inv_freq=inv_freq_with(lambda dim: 2 * torch.arange(dim) / dim), spread=lambda angles: angles),
        rope_with(
            "interleaved", inv_freq=inv_freq_with(lambda dim: 2 * torch.arange(dim) / dim), spread=lambda angles: angles
        ),
    )
    catalogue.add(
        "one_angle",
        "one frequency for all pairs",
        "All pairs turn by the same angle.",
        "A single angle is back where it was after 2π positions: tokens 44 apart look as if they stood at one place. "
        "The slower pairs are what tells far from near.",
        "θ has an index. By how much does the last pair of a head turn from one position to the next?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: 0 * pairs(dim))),
    )
    catalogue.add(
        "half_the_exponent",
        "base^(−k/d) in place of base^(−2k/d)",
        "The exponent of the frequencies is half of what it should be.",
        "The slowest pair turns about a hundred times too fast: in a head of 128 its wavelength is 585 positions, "
        "where it should be 54,410.",
        "For dim = 8 and the last pair, k = 3: what is the exponent?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: pairs(dim) / dim)),
    )
    catalogue.add(
        "twice_the_exponent",
        "base^(−4k/d) in place of base^(−2k/d)",
        "The exponent of the frequencies is twice what it should be.",
        "Either the 2 is counted twice (``arange(0, dim, 2)`` already has it), or it is divided by dim/2. In a "
        "head of 128 the slowest pair then needs 470 million positions for a turn.",
        "For dim = 8 and the last pair, k = 3: what is the exponent?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: 4 * pairs(dim) / dim)),
    )
    catalogue.add(
        "last_is_one_over_base",
        "frequencies that reach 1/base",
        "The exponents run from 0 to 1 with both ends included; they should stop a step before 1.",
        "Every pair but the first then has another frequency than in models that are already trained.",
        "For dim = 8, what is the exponent of the last pair: 1, or 6/8?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: pairs(dim) / max(dim // 2 - 1, 1))),
    )
    catalogue.add(
        "index_shifted",
        "the pairs counted from the wrong number",
        "The index of the pairs is off by one, so that no pair has the frequency 1.",
        "The paper counts pairs from 1 and subtracts it again. Only one of the two goes wrong.",
        "What is θ for the first pair, and by how much does it turn at position 1?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: 2 * (pairs(dim) + 1) / dim)),
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: 2 * (pairs(dim) - 1) / dim)),
    )
    catalogue.add(
        "grows_with_k",
        "frequencies that grow",
        "The frequencies are base^(+2k/d): the exponent has lost its minus sign, or positions are divided by them.",
        "The last pair then turns thousands of radians from one position to the next, which is noise.",
        "Should the last pair turn faster or slower than the first?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: -2 * pairs(dim) / dim)),
    )
    catalogue.add(
        "reversed",
        "frequencies in reverse order",
        "The first pair gets the slowest frequency and the last one the fastest.",
        "Scores within your own code are those of a model with its dimensions reordered; trained weights do not fit.",
        "Which pair turns by one radian at every position?",
        *in_both_layouts(inv_freq=inv_freq_with(lambda dim: (2 * pairs(dim) / dim).flip(0))),
    )


def _code(x, positions, base, interleaved):
    angles = positions.double()[:, None] * base ** (-2 * pairs(x.shape[-1]).to(x.device) / x.shape[-1])
    parts = (angles.sin(), angles.cos())
    return (torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)).to(x.dtype)


def _overwriting(layout):
    """The turn that computes the second entry of a pair from the first one's new value."""

    def turn(x, rotated, cos, sin):
        pair = (-1, 2) if layout == "interleaved" else (2, -1)
        axis = -1 if layout == "interleaved" else -2
        first, second = x.unflatten(-1, pair).unbind(axis)
        c, s = (table.unflatten(-1, pair).select(axis, 0) for table in (cos, sin))
        first = first * c - second * s
        return torch.stack((first, first * s + second * c), dim=axis).flatten(-2)

    return turn
