"""Chapter 13: rotary embeddings, and the permutation between their layouts."""

import torch
from torch import Tensor

from course_utils.check.catalogue import edited, load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance, integers

__all__ = ["half_to_interleaved", "rope"]


def _rope(x, positions, base=10_000.0):
    dim = x.shape[-1]
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=x.device) / dim)
    angles = positions.double()[:, None] * inv_freq  # (T, dim/2)
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)
    first, second = x.to(wide).chunk(2, dim=-1)
    turned = (first * cos - second * sin, first * sin + second * cos)
    return torch.cat(turned, dim=-1).to(x.dtype)


_READ_PAIRS = {"chunk(2, dim=-1)": "unflatten(-1, (-1, 2)).unbind(-1)"}
_WRITE_PAIRS = {"torch.cat(turned, dim=-1)": "torch.stack(turned, dim=-1).flatten(-2)"}
_INTERLEAVED = (
    "It pairs dimensions 2i and 2i + 1, as RoFormer and GPT-J do (the interleaved layout). It is "
    "as right as the half layout of Llama and GPT-NeoX, but weights made for one give nonsense in "
    "the other."
)

# The second frequency, 1/√base, has 24 binary digits: float32 holds it and does not hold its
# product with 131,071.
_BASE_OF_A_FLOAT32_FREQUENCY = 0.7071067690849304**-2
_FAR_REMARK = (
    "At position 131,071 it is off by more than float32 has to be: the angles are float32, as in "
    "most models. Multiply positions and frequencies in float64, take sine and cosine, then go "
    "down to float32."
)

# A float32 angle near 131,071 is off by up to 131,071 * 2^-24 twice, from the frequency and from
# the product, and by as much again where the frequencies come from exp and log: a hundredth of a
# radian in all. Right float32 forms measure 2e-3 to 4e-3 of the largest element; an angle in half
# precision is wrong by whole turns.
_FLOAT32_ANGLES = Tolerance(0.0, 3e-2)
# With cosine and sine rounded to half precision, as transformers has them, and the products and
# their sum rounded too, a pair of length r is off by up to 3 half units of r, and r is at most √2
# of the largest element. Half-precision angles are off by a tenth of a radian and more.
_ROUNDED_TABLES = {
    torch.bfloat16: Tolerance(0.0, 6 * 2.0**-8),
    torch.float16: Tolerance(0.0, 6 * 2.0**-11),
}
_ROUNDED_ONCE = {
    torch.bfloat16: Tolerance(1.02 * 2.0**-8, 1e-3),
    torch.float16: Tolerance(1.02 * 2.0**-11, 1e-3),
}
_ROUNDED = (
    "Half-precision inputs are rotated in half precision, as in transformers. Rotating in float32 "
    "and rounding once comes out about twice as close."
)


def _turned(x: Tensor, positions: list[int] | Tensor, letters: str = "TC", **others: float) -> Call:
    return Call(
        {"x": x, "positions": torch.as_tensor(positions), **others},
        {"x": letters, "positions": "T"},
    )


def _near_half_precision(name: str, dtype: torch.dtype, dim: int, positions: list[int]) -> Probe:
    """One pair turns by its position, which tells a rounded position; many pairs tell a rounded
    frequency."""
    call = _turned(integers(len(positions), dim, seed=140 + dim).to(dtype), positions)
    return Probe(
        name,
        "half precision",
        call,
        rough=dim > 2,
        tolerance=_ROUNDED_TABLES[dtype],
        remark=_ROUNDED,
        remark_beyond=_ROUNDED_ONCE[dtype],
    )


def _far_away(name: str, dim: int, **others) -> Probe:
    base = {"base": others.pop("base")} if "base" in others else {}
    call = _turned(integers(3, dim, seed=131), [65_537, 100_000, 131_071], **base)
    return Probe(name, "long positions", call, rough=True, tolerance=_FLOAT32_ANGLES, **others)


# Positions stay below 20 up to the half-precision probes: there float32 angles are right to a few
# 1e-6.
_OF_HEADS = integers(2, 3, 5, 8, seed=126)  # (B, H, T, C)
_AS_PROJECTED = integers(2, 5, 3, 8, seed=127).transpose(1, 2)  # (B, T, H, C), seen as (B, H, T, C)

rope = Exercise(
    "rope",
    _rope,
    [
        Probe("[1, 0] at position 1", "one pair", _turned(torch.tensor([[1.0, 0.0]]), [1])),
        Probe(
            "one pair at positions 2 to 6",
            "one pair",
            _turned(integers(5, 2, seed=120), torch.arange(2, 7)),
        ),
        Probe("four pairs", "frequencies", _turned(integers(5, 8, seed=121), torch.arange(3, 8))),
        Probe("three pairs", "frequencies", _turned(integers(7, 6, seed=122), torch.arange(7))),
        Probe(
            "positions in any order",
            "positions",
            _turned(integers(6, 8, seed=123), [9, 0, 3, 3, 12, 17]),
        ),
        Probe("base 100", "base", _turned(integers(5, 8, seed=124), torch.arange(5), base=100.0)),
        Probe(
            "base 500,000",
            "base",
            _turned(integers(5, 8, seed=125), torch.arange(5), base=500_000.0),
        ),
        Probe(
            "as many heads as tokens",
            "heads",
            _turned(integers(2, 5, 5, 8, seed=128), torch.arange(5), "BHTC"),
        ),
        Probe("batch and heads", "heads", _turned(_OF_HEADS, torch.arange(5), "BHTC")),
        Probe(
            "a batch without heads",
            "heads",
            _turned(integers(3, 5, 6, seed=129), torch.arange(5), "BTC"),
        ),
        Probe("heads not contiguous", "heads", _turned(_AS_PROJECTED, torch.arange(4, 9), "BHTC")),
        Probe(
            "gradient of x", "gradient", _turned(integers(4, 6, seed=130), torch.arange(4)), ("x",)
        ),
        _near_half_precision("bfloat16, one pair near 257", torch.bfloat16, 2, [257, 259, 1001]),
        _near_half_precision("float16, one pair near 2,049", torch.float16, 2, [2049, 2051, 3001]),
        _near_half_precision("bfloat16, eight pairs", torch.bfloat16, 16, [101, 202, 256]),
        _near_half_precision("float16, eight pairs", torch.float16, 16, [500, 1000, 2000]),
        _far_away("positions up to 131,071", 32),
        _far_away(
            "the same, with frequencies that float32 holds",
            4,
            base=_BASE_OF_A_FLOAT32_FREQUENCY,
            remark=_FAR_REMARK,
            remark_beyond=Tolerance(0.0, 1e-5),
        ),
        Probe("float64", "float64", _turned(integers(4, 6, seed=132).double(), torch.arange(4))),
    ],
    load("rope", _rope),
    conventions={_INTERLEAVED: edited(_rope, _READ_PAIRS | _WRITE_PAIRS)},
    may_shrink_to=lambda call: call.arguments["x"].shape[-1] % 2 == 0,
)


def _half_to_interleaved(weight, num_heads):
    grid = weight.reshape(num_heads, 2, -1, weight.shape[-1])  # (H, half, i, in_features)
    return grid.transpose(1, 2).reshape(weight.shape)


def writes_into_chunks(weight, num_heads):
    """Right, until autograd has to follow: chunk returns several views of one tensor, which it does
    not let change."""
    result = torch.zeros_like(weight)
    for rows, head in zip(result.chunk(num_heads), weight.chunk(num_heads), strict=True):
        rows[0::2], rows[1::2] = head.chunk(2)
    return result


def _rows(name: str, stage: str, rows: int, columns: int, num_heads: int) -> Probe:
    # A row says where it came from by its first entry; square weights let a permutation of the
    # columns run through.
    weight = integers(rows, columns, seed=150 + rows)
    weight[:, 0] = torch.arange(rows)
    return Probe(name, stage, Call({"weight": weight, "num_heads": num_heads}, {"weight": "RC"}))


half_to_interleaved = Exercise(
    "half_to_interleaved",
    _half_to_interleaved,
    [
        _rows("one head of six rows", "order", 6, 6, 1),
        _rows("one head", "order", 8, 8, 1),
        _rows("two heads", "order", 12, 12, 2),
        _rows("three heads", "other widths", 24, 5, 3),
        Probe(
            "gradient",
            "gradient",
            Call({"weight": integers(8, 3, seed=153), "num_heads": 2}),
            ("weight",),
        ),
    ],
    load("half_to_interleaved", _half_to_interleaved),
)
