"""Known mistakes about the frequencies themselves, and about linear, NTK-aware and dynamic NTK scaling."""

from course_utils.check.mistakes import Catalogue
from course_utils.check.rope_recipes import METHODS, Asked, Method, dynamic_with, growing, ntk_with, powers, rope_with

__all__ = ["add_dynamic_mistakes", "add_frequency_mistakes", "add_linear_mistakes", "add_ntk_mistakes"]


class _HardCodedBase(Asked):
    @property
    def base(self):
        return 10_000.0


class _WholeHead(Asked):
    @property
    def dim(self):
        return self.head_dim


_STRETCHING = tuple(rope_type for rope_type in METHODS if rope_type not in ("default", "proportional"))


def _over_the_whole_head(rope_type: str) -> Method:
    def method(asked):
        return METHODS[rope_type](_WholeHead(asked.options, asked.head_dim, asked.window, asked.seq_len))

    return method


class _ExponentOverTheHead(Asked):
    @property
    def inv_freq(self):
        return powers(self.head_dim, self.base)[: self.dim // 2]


class _Wavelengths(Asked):
    @property
    def inv_freq(self):
        return 1 / powers(self.dim, self.base)


class _HalfTheExponent(Asked):
    @property
    def inv_freq(self):
        return powers(self.dim, self.base).sqrt()


class _TwiceTheExponent(Asked):
    @property
    def inv_freq(self):
        return powers(self.dim, self.base).square()


def add_frequency_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes that show before anything is stretched."""
    catalogue.add(
        "hard_coded_base",
        "a base of its own",
        "It uses a base of 10,000, whatever rope_theta says.",
        "A changed base is a way of stretching by itself (ABF): Llama 3 has 500,000, and its slow pairs turn 40 times "
        "slower than with 10,000.",
        "Which key of rope_parameters holds the base?",
        rope_with(_HardCodedBase),
    )
    catalogue.add(
        "wavelengths",
        "wavelengths for frequencies",
        "It returns base^(2k/d), without the minus sign: something that grows from pair to pair.",
        "Each pair should turn slower than the one before it. Multiplied by a position, these angles run wild.",
        "The first pair turns by 1 radian a position. By how much should the last one turn: more, or less?",
        rope_with(_Wavelengths),
    )
    catalogue.add(
        "wrong_exponent",
        "the 2 of the exponent",
        "The exponent is not 2k/d: the 2 is missing, or counted twice because the steps of `arange` are 2 already.",
        "The slowest pair then turns 100 times too fast for a base of 10,000, or thousands of times too slowly.",
        "With d = 16 there are 8 pairs. What is the exponent of the last one, and what does your code make of it?",
        rope_with(_HalfTheExponent),
        rope_with(_TwiceTheExponent),
    )
    catalogue.add(
        "partial_ignored",
        "the whole head rotates",
        "It takes frequencies for the whole head, whatever partial_rotary_factor says.",
        "GPT-NeoX, Phi and GLM rotate a part of each head and leave the rest to content; their tables have fewer "
        "columns.",
        "With head_dim=16 and partial_rotary_factor=0.5, how many pairs rotate?",
        rope_with(_WholeHead),
    )
    catalogue.add(
        "partial_ignored_by_a_type",
        "the whole head rotates for one of the types",
        "This type takes frequencies for the whole head, where others heed partial_rotary_factor.",
        "The share that rotates is the model's, whatever its rope_type: Phi-4-mini is LongRoPE on three quarters of a "
        "head.",
        "In how many places does your function compute the number of dimensions that rotate?",
        *(rope_with(Asked, **{rope_type: _over_the_whole_head(rope_type)}) for rope_type in _STRETCHING),
    )
    catalogue.add(
        "partial_exponent_over_head",
        "the exponent over the head instead of the part that rotates",
        "It takes the right number of pairs, but divides their exponent by head_dim and not by the rotary dimension.",
        "The pairs then span the fast half of the wavelengths only. That is how `proportional` counts, and no other.",
        "With head_dim=16 and partial_rotary_factor=0.5, what is d in base^(-2k/d)?",
        rope_with(_ExponentOverTheHead),
    )


def add_linear_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes about linear scaling."""
    catalogue.add(
        "linear_multiplies",
        "multiplied instead of divided",
        "Linear scaling multiplies the frequencies by the factor.",
        "Position 2,047 would then be seen as 8,188: further outside the trained window, not back inside it.",
        "At factor 4, at which trained position should position 8 look like it stands?",
        rope_with(linear=lambda asked: (asked.inv_freq * asked.factor, 1.0)),
    )
    catalogue.add(
        "factor_twice",
        "the factor applied twice",
        "Linear scaling divides by the square of the factor.",
        "It is easily done: once in the frequencies and once in the positions. Neighbours come closer than trained.",
        "By how much is the first frequency divided at factor 4?",
        rope_with(linear=lambda asked: (asked.inv_freq / asked.factor**2, 1.0)),
    )
    catalogue.add(
        "linear_in_the_base",
        "the factor multiplied into the base",
        "Linear scaling multiplies the base by the factor, and leaves the fastest pair as it was.",
        "That is a changed base (ABF), another method: position interpolation slows every pair by the same factor.",
        "Position interpolation maps position m to m/s. What does that do to the angle of the first pair?",
        rope_with(linear=lambda asked: (powers(asked.dim, asked.base * asked.factor), 1.0)),
    )
    catalogue.add(
        "linear_unscaled",
        "linear left unscaled",
        "For linear it returns the frequencies unscaled.",
        "A type that falls through to the default in silence is the worst kind: the model runs, and forgets far away.",
        "Does your function look at factor for this rope_type?",
        rope_with(linear=lambda asked: (asked.inv_freq, 1.0)),
    )


def add_ntk_mistakes(catalogue: Catalogue, recipe=lambda ntk: ntk) -> None:
    """Add the mistakes about NTK-aware scaling.

    Args:
        catalogue: where to add them.
        recipe: makes of an ``ntk_inv_freq(dim, base, factor)`` the function that the exercise asks for.
    """
    catalogue.add(
        "ntk_exponent_one",
        "the base multiplied by the factor alone",
        "The base is multiplied by s and not by s^(d/(d-2)).",
        "The slowest pair then falls short of being divided by s: it leaves what training saw before the end.",
        "There are d/2 pairs and so d/2 - 1 steps between them. Which power of the base does the last pair have?",
        recipe(ntk_with(lambda dim: 1.0)),
    )
    catalogue.add(
        "ntk_exponent_inverted",
        "the exponent upside down",
        "The exponent is (d-2)/d where it should be d/(d-2).",
        "The slowest pair is then divided by less than s, and by more or less according to the size of the head.",
        "Solve b'^(-(d-2)/d) = b^(-(d-2)/d) / s for b'.",
        recipe(ntk_with(lambda dim: (dim - 2) / dim)),
    )
    catalogue.add(
        "ntk_divides_base",
        "the base made smaller",
        "The base is divided where it should be multiplied.",
        "A smaller base turns every pair but the first faster: the window shrinks.",
        "Does the slowest pair turn slower for a larger base, or for a smaller one?",
        recipe(ntk_with(lambda dim: -dim / (dim - 2))),
    )
    catalogue.add(
        "ntk_and_linear",
        "the factor applied in the base and again after",
        "The frequencies of the larger base are divided by the factor once more.",
        "The first pair should stay as it is, since it tells neighbours apart, and the last come out divided by s "
        "exactly.",
        "What is the first frequency of your result? What should it be for any base?",
        recipe(ntk_with(then=lambda inv_freq, factor: inv_freq / factor)),
    )
    catalogue.add(
        "ntk_other_denominator",
        "another denominator in the exponent",
        "The exponent is d over something that is not d - 2, such as d - 1 or, with pairs counted for dimensions, "
        "d - 4.",
        "Only d/(d-2) divides the slowest pair by exactly s. The others miss by a few percent, which no error shows.",
        "Multiply the last frequency by s. Is it the last frequency before stretching, to the last digit?",
        recipe(ntk_with(lambda dim: (dim / 2) / (dim / 2 - 2))),
        recipe(ntk_with(lambda dim: dim / (dim - 1))),
    )


def add_dynamic_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes about dynamic NTK."""
    catalogue.add(
        "remembers_longest",
        "the longest sequence is remembered",
        "What it returns depends on the calls before: after a long sequence, a short one gets the long one's base.",
        "The frequencies are a function of the length alone. An answer should not depend on who asked before; "
        "transformers 5.23 has a milder form of this, at exactly the trained length.",
        "Call it with seq_len=256, then with 64. Is the second answer that of a fresh function?",
        rope_with(dynamic=_remembering()),
        rope_with(dynamic=_resetting_below()),
    )
    catalogue.add(
        "scales_below_the_window",
        "lengths below the window are scaled too",
        "It stretches by less than 1 where the sequence is shorter than the window.",
        "Up to the trained length nothing should change. A stretch below 1 turns the pairs faster, and one below 0 is "
        "no number at all.",
        "What is the larger of the length and the window for a length of 60 and a window of 64?",
        rope_with(dynamic=dynamic_with(lambda s, n, window: s * (n or window) / window - (s - 1))),
    )
    catalogue.add(
        "no_dynamic_offset",
        "the - (s - 1) is missing",
        "The stretch is s · n / L, without - (s - 1).",
        "At the trained length it is then s already, where the model needs no stretching at all.",
        "What should the stretch be at n = L?",
        rope_with(dynamic=dynamic_with(lambda s, n, window: s * max(n or 0, window) / window)),
    )
    catalogue.add(
        "dynamic_ratio_alone",
        "the ratio of the lengths alone",
        "The stretch is n / L, whatever the factor says.",
        "That is the formula for a factor of 1. The factor sets how fast the stretch grows beyond the window.",
        "Call it with factors of 2 and 8 at twice the window. Do the answers differ?",
        rope_with(dynamic=dynamic_with(lambda s, n, window: max(n or 0, window) / window)),
    )
    catalogue.add(
        "dynamic_is_static",
        "static: the length does not matter",
        "It stretches by the factor at every length.",
        "That is `ntk`. The point of the dynamic method is that short sequences are left as they were trained.",
        "What should it return for a sequence shorter than the window?",
        rope_with(dynamic=dynamic_with(lambda s, n, window: s)),
        rope_with(dynamic=dynamic_with(lambda s, n, window: s if (n or 0) > window else 1.0)),
    )
    catalogue.add(
        "frozen_beyond_the_factor",
        "the stretch frozen beyond s windows",
        "It no longer grows beyond s times the window.",
        "The formula has no end: ten windows in, a factor of 4 stretches by 37 and not by 13. Frozen at 13, the "
        "slowest pair meets new angles from 13 windows on at the latest.",
        "What does the formula give for s = 4 at n = 10L?",
        rope_with(dynamic=dynamic_with(lambda s, n, window: growing(s, min(n or 0, int(s * window)), window))),
    )
    catalogue.add(
        "stops_at_the_factor",
        "the stretch stops at the factor",
        "The stretch is cut off at s.",
        "At s times the window the formula gives s² - s + 1, 13 for a factor of 4, and goes on growing.",
        "What does the formula give for s = 4 at n = 4L?",
        rope_with(dynamic=dynamic_with(lambda s, n, window: min(s, s * max(n or 0, window) / window - (s - 1)))),
    )


def _remembering():
    longest = 0

    def stretch(factor, seq_len, window):
        nonlocal longest
        longest = max(longest, seq_len or 0, window)
        return factor * longest / window - (factor - 1)

    return dynamic_with(stretch)


def _resetting_below():
    """As transformers 5.23: grown on a longer sequence, and back only below the trained length."""
    cached = 0

    def stretch(factor, seq_len, window):
        nonlocal cached
        length = seq_len or window
        cached = max(cached if length >= window else 0, length, window)
        return factor * cached / window - (factor - 1)

    return dynamic_with(stretch)
