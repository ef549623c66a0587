"""Chapter 11: ALiBi's slopes (Press et al. 2022, §3; for other numbers of heads than powers of two, its code)."""

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.probes import Call, Probe

__all__ = ["alibi_slopes"]


def _alibi_slopes(num_heads):
    def sequence(heads):
        return [2 ** (-8 * (head + 1) / heads) for head in range(heads)]

    below = 2 ** (num_heads.bit_length() - 1)  # the power of two
    extra = sequence(2 * below)[::2][: num_heads - below]
    return torch.tensor(sequence(below) + extra)


def _for(num_heads: int, stage: str) -> Probe:
    return Probe(f"{num_heads} heads", stage, Call({"num_heads": num_heads}))


alibi_slopes = Check(
    "alibi_slopes",
    _alibi_slopes,
    [
        *(_for(heads, "powers of two") for heads in (2, 4, 8, 16, 1)),
        *(_for(heads, "other numbers of heads") for heads in (3, 6, 12, 7, 112)),
    ],
    load("alibi_slopes", _alibi_slopes),
    any_dtype=True,
)
