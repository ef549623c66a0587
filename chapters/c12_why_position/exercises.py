"""Chapter 12: sinusoids, and ALiBi's slopes."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["alibi_slopes", "sinusoidal"]


def _sinusoidal(positions, dim, base=10_000.0):
    if isinstance(positions, int):
        positions = torch.arange(positions)
    exponents = torch.arange(0, dim, 2, dtype=torch.float64) / dim  # (dim/2,)
    angles = positions[:, None] * base**-exponents  # (T, dim/2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()  # (T, dim)


# A bfloat16 angle is off by 2^-9 of itself twice, so up to position 3 half precision stays below
# 0.02; the mildest mistake about the formula is off by 0.09 there. What half precision does is left
# to the stage that is about it.
_BY_FORMULA = Tolerance(0.0, 2e-2)
# A float32 frequency from exp and log is off by up to 2e-7 of the angle, and so is the product:
# 1.2e-5 at position 60. bfloat16 and float16 angles near 60 are off by 1e-2 and more.
_NEAR = Tolerance(0.0, 1e-4)
# The same at 131,071: right float32 forms measure 4e-3 to 2e-2. Anything else is wrong by whole
# turns.
_FAR = Tolerance(0.0, 6e-2)
_EXACT = Tolerance(0.0, 1e-5)
# The second frequency, 1/√base, has 24 binary digits: float32 holds it and does not hold its
# product with 131,071.
_BASE_OF_A_FLOAT32_FREQUENCY = 0.7071067690849304**-2
_FAR_REMARK = (
    "At position 131,071 it is off by more than float32 has to be: the angles are float32, as in "
    "most models. Multiply positions and frequencies in float64, take sine and cosine, then go "
    "down to float32."
)


def _at(
    name: str, stage: str, positions: int | list[int], dim: int, tolerance: Tolerance, **others
) -> Probe:
    base = {"base": others.pop("base")} if "base" in others else {}
    if isinstance(positions, int):
        call = Call({"positions": positions, "dim": dim, **base})
    else:
        call = Call({"positions": torch.tensor(positions), "dim": dim, **base}, {"positions": "T"})
    return Probe(name, stage, call, tolerance=tolerance, **others)


sinusoidal = Exercise(
    "sinusoidal",
    _sinusoidal,
    [
        _at("one pair of columns", "formula", [0, 1, 2, 3], 2, _BY_FORMULA),
        _at("two pairs", "formula", [0, 1, 2, 3], 4, _BY_FORMULA),
        _at("four pairs", "formula", [0, 1, 2, 3, 1], 8, _BY_FORMULA),
        _at("base 100", "base", [0, 1, 2, 3], 4, _BY_FORMULA, base=100.0),
        _at("positions out of order", "positions", [3, 1, 2], 4, _BY_FORMULA),
        _at("one late position", "positions", [3], 6, _BY_FORMULA),
        _at("positions near 60", "precision", [61, 58, 63], 8, _NEAR, rough=True),
        _at("position 131,071", "far positions", [131_071, 99_999], 8, _FAR),
        _at(
            "frequencies that float32 holds",
            "far positions",
            [131_071, 99_999],
            4,
            _FAR,
            base=_BASE_OF_A_FLOAT32_FREQUENCY,
            remark=_FAR_REMARK,
            remark_beyond=_EXACT,
        ),
        _at("a count of 2", "count", 2, 4, _NEAR),
        _at("a count of 5", "count", 5, 4, _NEAR),
        _at("a count of 1", "count", 1, 2, _NEAR),
    ],
    load("sinusoidal", _sinusoidal),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["dim"] > 1,
)


def _alibi_slopes(num_heads):
    def sequence(heads):
        return [2 ** (-8 * (head + 1) / heads) for head in range(heads)]

    below = 2 ** (num_heads.bit_length() - 1)  # the power of two
    extra = sequence(2 * below)[::2][: num_heads - below]
    return torch.tensor(sequence(below) + extra)


_HEADS = {"powers of two": (2, 4, 8, 16, 1), "other numbers of heads": (3, 6, 12, 7, 112)}

alibi_slopes = Exercise(
    "alibi_slopes",
    _alibi_slopes,
    [
        Probe(f"{n} heads", stage, Call({"num_heads": n}))
        for stage, numbers in _HEADS.items()
        for n in numbers
    ],
    load("alibi_slopes", _alibi_slopes),
    any_dtype=True,
)
