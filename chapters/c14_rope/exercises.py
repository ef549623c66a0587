"""Chapter 14: rotary embeddings, the permutation between their layouts, and a key for one
distance."""

from dataclasses import replace

import torch

from course_utils.check.catalogue import edited, load
from course_utils.check.exercise import Exercise
from course_utils.check.norms import NARROW
from course_utils.check.probes import DOUBLE, Call, Probe, Tolerance, integers, read_probes

__all__ = ["aimed_key", "half_to_interleaved", "rope"]


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


_LETTERS = {2: "TC", 3: "BTC", 4: "BHTC"}


def _call(x, positions, seed=0, dtype="float32", transposed=False, **others) -> Call:
    """Return the call that an entry of probes.toml describes."""
    values = integers(*x, seed=seed) if seed else torch.tensor(x)
    if transposed:
        values = values.transpose(1, 2)
    arguments = {"x": values.to(getattr(torch, dtype)), "positions": torch.tensor(positions)}
    return Call({**arguments, **others}, {"x": _LETTERS[values.ndim], "positions": "T"})


def _probe(probe: Probe) -> Probe:
    """Return a probe of probes.toml with its tensors, and with what its stage allows."""
    call = _call(**probe.call.arguments)
    dtype, dim = call.arguments["x"].dtype, call.arguments["x"].shape[-1]
    probe = replace(probe, call=call, gradients=("x",) if probe.stage == "gradient" else ())
    if probe.stage == "half precision":
        return replace(
            probe,
            rough=dim > 2,
            tolerance=_ROUNDED_TABLES[dtype],
            remark=_ROUNDED,
            remark_beyond=_ROUNDED_ONCE[dtype],
        )
    if probe.stage == "long positions":
        probe = replace(probe, rough=True, tolerance=_FLOAT32_ANGLES)
    if probe.stage == "float64":
        return replace(probe, remark=NARROW, remark_beyond=DOUBLE)
    if probe.name.endswith("that float32 holds"):
        probe = replace(probe, remark=_FAR_REMARK, remark_beyond=Tolerance(0.0, 1e-5))
    return probe


rope = Exercise(
    "rope",
    _rope,
    [_probe(p) for p in read_probes(__file__, "rope", plain=True)],
    load("rope", _rope),
    conventions={_INTERLEAVED: edited(_rope, _READ_PAIRS | _WRITE_PAIRS)},
    may_shrink_to=lambda call: call.arguments["x"].shape[-1] % 2 == 0,
)


def _half_to_interleaved(weight, num_heads):
    heads = num_heads
    grid = weight.reshape(heads, 2, -1, weight.shape[-1])  # (H, half, i, in_features)
    pairs = grid.transpose(1, 2)
    return pairs.reshape(weight.shape)


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
        _rows("four heads", "other widths", 32, 5, 4),
        Probe(
            "gradient",
            "gradient",
            Call({"weight": integers(8, 3, seed=153), "num_heads": 2}),
            ("weight",),
        ),
    ],
    load("half_to_interleaved", _half_to_interleaved),
)


def _aimed_key(query, distance, base=10_000.0):
    dim = len(query)
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=query.device) / dim)
    angles = distance * inv_freq  # (dim/2,)
    cos, sin = angles.cos(), angles.sin()
    first, second = query.double().chunk(2)
    key = (first * cos - second * sin, first * sin + second * cos)
    return torch.cat(key).to(query.dtype)


aimed_key = Exercise(
    "aimed_key",
    _aimed_key,
    read_probes(__file__, "aimed_key"),
    load("aimed_key", _aimed_key),
    conventions={
        _INTERLEAVED: edited(
            _aimed_key,
            {
                "chunk(2)": "unflatten(-1, (-1, 2)).unbind(-1)",
                "torch.cat(key)": "torch.stack(key, dim=-1).flatten(-2)",
            },
        )
    },
    may_shrink_to=lambda call: (
        call.arguments["query"].shape[-1] % 2 == 0 and call.arguments["query"].any()
    ),
)
