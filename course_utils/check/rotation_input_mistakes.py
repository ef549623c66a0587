"""The known mistakes about what a rotary embedding is given: positions, base, leading axes, dtypes, x itself."""

import torch

from course_utils.check.mistakes import Catalogue
from course_utils.check.rotation_recipes import in_both_layouts, pairs, rope_with

__all__ = ["add_input_mistakes"]


def add_input_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes that show only with other positions, another base, more axes or other dtypes."""
    catalogue.add(
        "only_the_first_position",
        "only the first position is used",
        "It counts on from the first position instead of using each one.",
        "Packed sequences, padding on the left and candidates that share a position all need positions that do not run "
        "up by one.",
        "What does your function do with positions [3, 3, 4]?",
        *in_both_layouts(place=lambda positions: positions[0] + torch.arange(len(positions), device=positions.device)),
    )
    catalogue.add(
        "ignores_base",
        "the argument base is ignored",
        "It uses a base of 10,000, whatever ``base`` says.",
        "Llama 3 has 500,000, Qwen 1,000,000: with another base than the one it was trained with, a model is lost.",
        "Call your function with base=100 and with base=10_000. Do the outputs differ?",
        *in_both_layouts(inv_freq=lambda dim, base, x: 10_000.0 ** (-2 * pairs(dim) / dim)),
    )
    catalogue.add(
        "wrong_axis",
        "the positions lie along the wrong axis",
        "An earlier axis is taken for the tokens, where they are the last but one.",
        "With as many heads as tokens nothing complains: every head gets a position, and all tokens of a head the same "
        "one. With other sizes it is an error.",
        "In x of shape (2, 8, 5, 64) with five positions, which axis holds the tokens?",
        *in_both_layouts(beside=lambda table, x: _along(1, table, x)),
        *in_both_layouts(beside=lambda table, x: _along(0, table, x)),
        *in_both_layouts(beside=lambda table, x: table[None, :, None]),  # and with the batch axis that x may not have
    )
    catalogue.add(
        "rows_misnumbered",
        "heads and tokens mixed up",
        "The leading axes are flattened together with the tokens, and the positions then fall on the wrong rows.",
        "In memory the tokens of one head follow each other, so the positions repeat as a whole: 0 1 2 0 1 2, and not "
        "0 0 1 1 2 2.",
        "Flatten x of shape (2, 3, 4): to which head and token does the second row belong?",
        *in_both_layouts(
            beside=lambda table, x: table.repeat_interleave(x[..., 0].numel() // len(table), dim=0).view(x.shape)
        ),
    )

    catalogue.add(
        "cut_off",
        "no gradient reaches x",
        "The rotation is computed without a gradient for x.",
        "The tables need none, but x does: without it the query and key projections never learn.",
        "Which of your lines are under no_grad, or use .data, .detach() or numpy?",
        *in_both_layouts(prepare=lambda x: x.detach()),
        lambda x, positions, base=10_000.0: rope_with()(x, positions, base).detach(),
    )
    catalogue.add(
        "half_angles",
        "angles in half precision",
        "For half-precision inputs the positions, or the angles, are rounded to half precision too.",
        "bfloat16 has 8 bits: it does not know position 257, and beyond that tokens share a position. float16 ends at "
        "65,504. The angles are to be computed in float32 at least, whatever x is.",
        "What is torch.tensor(257).bfloat16()?",
        *in_both_layouts(angles=lambda positions, inv_freq, x: positions.to(x.dtype).double()[:, None] * inv_freq),
        *in_both_layouts(angles=lambda positions, inv_freq, x: positions.to(x.dtype)[:, None] * inv_freq.to(x.dtype)),
        *in_both_layouts(angles=lambda positions, inv_freq, x: (positions.double()[:, None] * inv_freq).to(x.dtype)),
        *in_both_layouts(angles=lambda positions, inv_freq, x: (positions.double()[:, None] * inv_freq).bfloat16()),
        *in_both_layouts(angles=lambda positions, inv_freq, x: (positions.double()[:, None] * inv_freq).half()),
    )
    catalogue.add(
        "half_frequencies",
        "frequencies in half precision",
        "The frequencies are rounded to half precision before they are multiplied by the positions.",
        "It is what ``model.bfloat16()`` does to a buffer of frequencies. An error of 0.2 % is a fifth of a radian in "
        "an angle of 100.",
        "In which dtype are your frequencies for a bfloat16 input? Multiply one of them by 1,000 in float64, and "
        "compare.",
        *in_both_layouts(inv_freq=lambda dim, base, x: (base ** (-2 * pairs(dim) / dim)).to(x.dtype).float()),
        *in_both_layouts(inv_freq=lambda dim, base, x: (base ** (-2 * pairs(dim) / dim)).bfloat16()),
        *in_both_layouts(inv_freq=lambda dim, base, x: (base ** (-2 * pairs(dim) / dim)).half()),
    )
    catalogue.add(
        "wider_than_x",
        "a result wider than x",
        "The result has the wider dtype of the tables instead of the dtype of x.",
        "Attention would then run in float32 or float64, at twice the memory and more, or refuse to mix with the "
        "values.",
        "What is the dtype of a bfloat16 tensor times a float32 one, and which call brings it back?",
        *in_both_layouts(close=lambda y, x: y),
        *in_both_layouts(close=lambda y, x: y.double()),
    )

    @catalogue.mistake(
        title="x is changed in place",
        wrong="It writes the rotated values into x itself.",
        matters="Whoever called it still has x: a second call then turns what was turned already.",
        hint="Call your function twice on the same x. Is the second result the first one?",
    )
    def changes_x(x, positions, base=10_000.0):
        return x.data.copy_(rope_with()(x, positions, base))

    @catalogue.form_of("changes_x")
    def changes_x_and_overwrites(x, positions, base=10_000.0):
        half = x.shape[-1] // 2
        angles = positions[:, None] * base ** (-pairs(x.shape[-1]).to(x) / half)
        first, second = x.data[..., :half], x.data[..., half:]
        first.copy_(first * angles.cos() - second * angles.sin())
        second.copy_(first * angles.sin() + second * angles.cos())
        return x


def _along(axis, table, x):
    """The table (T, dim) with its tokens along the axis of ``x``, or of a plain (T, dim) along the first."""
    after = x.ndim - 2 - axis if x.ndim > 2 else 0
    return table[(slice(None), *(None,) * after)]
