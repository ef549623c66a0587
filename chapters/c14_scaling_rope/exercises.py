"""Chapter 14: the frequencies of scaled RoPE."""

import math
from typing import Any

import torch

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance

__all__ = ["ntk_inv_freq", "plain_frequencies", "rope_frequencies", "yarn_frequencies"]


# Of the frequency itself: the slowest pair is a millionth of the fastest. Right float32 forms are
# off by up to 3e-6, the mildest mistake, clamping YaRN's ramp elsewhere, by a few percent.
_RIGHT = Tolerance(relative=1e-5, absolute=1e-12)
_FLOAT64 = Tolerance(relative=1e-9, absolute=1e-15)
_ROUNDED = (
    "The frequencies are rounded to float32. That moves a cosine at position 131,071 by up to "
    "0.004; torch.float64 in arange, up to the cosine, avoids it."
)


def _ntk_inv_freq(dim, base, factor):
    new_base = base * factor ** (dim / (dim - 2))
    return new_base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (dim/2,)


def _ntk(name: str, dim: int, base: float, factor: float, **remark) -> Probe:
    return Probe(
        name,
        "frequencies",
        Call({"dim": dim, "base": base, "factor": factor}),
        tolerance=_RIGHT,
        **remark,
    )


ntk_inv_freq = Exercise(
    "ntk_inv_freq",
    _ntk_inv_freq,
    [
        _ntk("8 dimensions, factor 4", 8, 10_000.0, 4.0, remark=_ROUNDED, remark_beyond=_FLOAT64),
        _ntk("16 dimensions, factor 8", 16, 10_000.0, 8.0),
        _ntk("another base", 12, 500_000.0, 2.5),
        _ntk("factor 1", 8, 100.0, 1.0),
    ],
    load("ntk_inv_freq", _ntk_inv_freq),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["dim"] > 2,
)


def _yarn_frequencies(
    dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True
):
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    low, high = (  # the pairs that make beta turns in the original window
        dim * math.log(original_length / (2 * math.pi * beta)) / (2 * math.log(base))
        for beta in (beta_fast, beta_slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    return inv_freq * (1 - ramp) + inv_freq / factor * ramp, 0.1 * math.log(factor) + 1


def _ramp_probe(
    name: str,
    stage: str,
    dim: int,
    base: float,
    factor: float,
    original_length: int,
    remark: str = "",
    **options: Any,
) -> Probe:
    call = Call(
        {"dim": dim, "base": base, "factor": factor, "original_length": original_length, **options}
    )
    compares = ("inv_freq",) if stage == "ramp" else None
    return Probe(
        name,
        stage,
        call,
        compares=compares,
        tolerance=_RIGHT,
        remark=remark,
        remark_beyond=_FLOAT64,
    )


yarn_frequencies = Exercise(
    "yarn_frequencies",
    _yarn_frequencies,
    [
        _ramp_probe("a window of 512", "ramp", 16, 10_000.0, 8.0, 512, _ROUNDED),
        _ramp_probe("another base", "ramp", 32, 500_000.0, 4.0, 8192),
        _ramp_probe("a window where no pair makes 32 turns", "ramp", 16, 10_000.0, 8.0, 64),
        _ramp_probe("a window where all pairs make a turn", "ramp", 16, 100.0, 8.0, 2048),
        _ramp_probe("other betas", "ramp", 16, 10_000.0, 8.0, 512, beta_fast=16.0, beta_slow=2.0),
        _ramp_probe("truncate=False", "ramp", 16, 10_000.0, 8.0, 512, truncate=False),
        _ramp_probe("factor 8", "temperature", 16, 10_000.0, 8.0, 512),
        _ramp_probe("factor 40", "temperature", 16, 10_000.0, 40.0, 4096),
    ],
    load("yarn_frequencies", _yarn_frequencies),
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["dim"] > 2 and call.arguments["original_length"] > 1,
)


def _plain_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    p = {"rope_theta": 10_000.0, "partial_rotary_factor": 1.0, **rope_parameters}
    kind, base, window = p["rope_type"], p["rope_theta"], max_position_embeddings
    dim = int(head_dim * p["partial_rotary_factor"])
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)

    if kind == "default":
        pass
    elif kind == "linear":
        inv_freq = inv_freq / p["factor"]
    elif kind in ("ntk", "dynamic"):
        factor = p["factor"]
        if kind == "dynamic":
            factor = factor * max(seq_len or 0, window) / window - (factor - 1)
        new_base = base * factor ** (dim / (dim - 2))
        inv_freq = new_base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    else:
        raise ValueError(f"rope_type must be default, linear, ntk or dynamic: got {kind!r}")
    return inv_freq


def _rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    p = {"rope_theta": 10_000.0, "partial_rotary_factor": 1.0, **rope_parameters}
    kind, base, window = p["rope_type"], p["rope_theta"], max_position_embeddings
    original_length = p.get("original_max_position_embeddings", window)
    factor = p.get("factor", window / original_length)
    dim = int(head_dim * p["partial_rotary_factor"])
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    attention_factor = 1.0

    if kind not in ("yarn", "llama3", "longrope", "proportional"):
        inv_freq = _plain_frequencies(rope_parameters, head_dim, window, seq_len)
    elif kind == "yarn":
        beta_fast, beta_slow, truncate = (
            p.get("beta_fast", 32.0),
            p.get("beta_slow", 1.0),
            p.get("truncate", True),
        )
        low, high = (
            dim * math.log(original_length / (2 * math.pi * beta)) / (2 * math.log(base))
            for beta in (beta_fast, beta_slow)
        )
        if truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        if low == high:
            high += 0.001
        ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
        inv_freq = inv_freq * (1 - ramp) + inv_freq / factor * ramp
        attention_factor = 0.1 * math.log(factor) + 1
        if "mscale" in p and "mscale_all_dim" in p:
            above, below = (
                0.1 * p[key] * math.log(factor) + 1 for key in ("mscale", "mscale_all_dim")
            )
            attention_factor = above / below
    elif kind == "llama3":
        turns = original_length * inv_freq / (2 * math.pi)
        low, high = p["low_freq_factor"], p["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        inv_freq = inv_freq * kept + inv_freq / factor * (1 - kept)
    elif kind == "longrope":
        is_long = (seq_len or 0) > original_length
        rescaling = p["long_factor" if is_long else "short_factor"]
        inv_freq = inv_freq / torch.tensor(rescaling, dtype=torch.float64)
        attention_factor = math.sqrt(1 + math.log(factor) / math.log(original_length))
    elif kind == "proportional":
        whole = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        whole[dim // 2 :] = 0
        inv_freq = whole / p.get("factor", 1.0)

    if kind in ("yarn", "longrope"):
        attention_factor = p.get("attention_factor", attention_factor)
    return inv_freq, attention_factor


_PARTIAL: dict[str, Any] = {"partial_rotary_factor": 0.5}
_THETA: dict[str, Any] = {"rope_theta": 10_000.0}
_DYNAMIC: dict[str, Any] = {"factor": 4.0, **_THETA}
_LLAMA3: dict[str, Any] = {
    "factor": 8.0, **_THETA, "original_max_position_embeddings": 512, "low_freq_factor": 1.0
}  # fmt: skip
_LONGROPE: dict[str, Any] = {
    **_THETA,
    "original_max_position_embeddings": 64,
    "short_factor": [1.0, 1.0, 1.5, 2.0],
    "long_factor": [1.0, 2.0, 4.0, 9.0],
}


def _call(
    rope_type: str, head_dim: int, window: int, seq_len: int | None, options: dict[str, Any]
) -> Call:
    parameters = {"rope_type": rope_type, **options}
    call = Call(
        {"rope_parameters": parameters, "head_dim": head_dim, "max_position_embeddings": window}
    )
    return call if seq_len is None else call.replace(seq_len=seq_len)


def _probe(
    name: str,
    stage: str,
    head_dim: int,
    window: int,
    seq_len: int | None = None,
    remark: str = "",
    **options: Any,
) -> Probe:
    """One call; the stage is its ``rope_type``, or begins with it and names what is compared."""
    rope_type = "default" if stage == "partial rotation" else stage.split(",")[0]
    compares = ("inv_freq",) if stage.endswith((", frequencies", ", lists")) else None
    call = _call(rope_type, head_dim, window, seq_len, options)
    return Probe(
        name,
        stage,
        call,
        compares=compares,
        tolerance=_RIGHT,
        remark=remark,
        remark_beyond=_FLOAT64,
    )


def _yarn(
    name: str, stage: str, head_dim: int, window: int, original: int, **options: Any
) -> Probe:
    options = {"factor": 8.0, **_THETA, "original_max_position_embeddings": original, **options}
    return _probe(name, f"yarn, {stage}", head_dim, window, **options)


_UNKNOWN = Probe(
    "a rope_type that does not exist",
    "unknown type",
    _call("nkt", 16, 512, None, _DYNAMIC),
    is_refused=True,
)

plain_frequencies = Exercise(
    "plain_frequencies",
    _plain_frequencies,
    [
        _probe("eight pairs", "default", 16, 512, remark=_ROUNDED, **_THETA),
        _probe("rope_theta of 500,000", "default", 16, 512, rope_theta=500_000.0),
        _probe("no rope_theta", "default", 8, 512),
        _probe("half of the head", "partial rotation", 16, 512, **_THETA, **_PARTIAL),
        _probe("a quarter", "partial rotation", 32, 512, **_THETA, partial_rotary_factor=0.25),
        _probe("four pairs, factor 4", "linear", 8, 2048, factor=4.0),
        _probe("factor 4", "linear", 16, 512, factor=4.0, **_THETA),
        _probe("half of the head", "linear", 16, 512, factor=2.5, **_THETA, **_PARTIAL),
        _probe("factor 8", "ntk", 16, 512, factor=8.0, **_THETA),
        _probe("half of the head", "ntk", 16, 512, factor=4.0, rope_theta=500_000.0, **_PARTIAL),
        # The longest call comes first: what is remembered shows in the others.
        _probe("10 windows long", "dynamic", 16, 64, 640, **_DYNAMIC),
        _probe("4 windows long", "dynamic", 16, 64, 256, **_DYNAMIC),
        _probe("a window long", "dynamic", 16, 64, 64, **_DYNAMIC),
        _probe("a little shorter", "dynamic", 16, 64, 56, **_DYNAMIC),
        _probe("no length", "dynamic", 16, 64, None, **_DYNAMIC),
        _probe("one more", "dynamic", 16, 64, 65, **_DYNAMIC),
        _probe(
            "factor 2, half of the head", "dynamic", 16, 64, 100, factor=2.0, **_THETA, **_PARTIAL
        ),
        _UNKNOWN,
    ],
    load("plain_frequencies", _plain_frequencies),
    any_dtype=True,
    may_shrink_to=lambda call: (
        call.arguments["head_dim"] > 1 and call.arguments["max_position_embeddings"] > 1
    ),
)

rope_frequencies = Exercise(
    "rope_frequencies",
    _rope_frequencies,
    [
        _probe("factor 4", "linear", 16, 512, remark=_ROUNDED, factor=4.0, **_THETA),
        _probe(
            "half of the head, 100 tokens", "dynamic", 16, 64, 100, factor=2.0, **_THETA, **_PARTIAL
        ),
        _yarn("a window of 512", "frequencies", 16, 4096, 512),
        _yarn("half of the head", "frequencies", 32, 4096, 512, **_PARTIAL),
        _yarn("a window where no pair makes 32 turns", "frequencies", 16, 512, 64),
        _yarn(
            "a window where all pairs make a turn",
            "frequencies",
            16,
            16_384,
            2048,
            rope_theta=100.0,
        ),
        _yarn("other betas", "frequencies", 16, 4096, 512, beta_fast=16.0, beta_slow=2.0),
        _yarn("truncate=False", "frequencies", 16, 4096, 512, truncate=False),
        _yarn("factor 8", "temperature", 16, 4096, 512),
        _yarn("factor 40", "temperature", 16, 163_840, 4096, factor=40.0),
        _yarn("attention_factor", "options", 16, 4096, 512, attention_factor=1.3),
        _yarn(
            "mscale and mscale_all_dim", "options", 16, 4096, 512, mscale=0.7, mscale_all_dim=1.0
        ),
        _yarn("mscale alone", "options", 16, 4096, 512, mscale=0.7),
        _probe("from 1 to 4 turns", "llama3", 16, 4096, **_LLAMA3, high_freq_factor=4.0),
        _probe("from 1 to 32 turns", "llama3", 16, 4096, **_LLAMA3, high_freq_factor=32.0),
        _probe("half of the head", "llama3", 32, 4096, **_LLAMA3, **_PARTIAL, high_freq_factor=4.0),
        _probe("no length", "longrope, lists", 8, 512, None, **_LONGROPE),
        _probe("short", "longrope, lists", 8, 512, 10, **_LONGROPE),
        _probe("as long as the original window", "longrope, lists", 8, 512, 64, **_LONGROPE),
        _probe("one more", "longrope, lists", 8, 512, 65, **_LONGROPE),
        _probe("longer", "longrope, lists", 8, 512, 600, **_LONGROPE),
        _probe("half of the head", "longrope, lists", 16, 512, 600, **_LONGROPE, **_PARTIAL),
        _probe("no factor", "longrope, temperature", 8, 512, **_LONGROPE),
        _probe("factor 4", "longrope, temperature", 8, 512, factor=4.0, **_LONGROPE),
        _probe(
            "attention_factor", "longrope, temperature", 8, 512, attention_factor=1.3, **_LONGROPE
        ),
        _probe("half of the head", "proportional", 16, 512, **_THETA, **_PARTIAL),
        _probe("a quarter", "proportional", 16, 512, **_THETA, partial_rotary_factor=0.25),
        _probe("the whole head, factor 4", "proportional", 16, 512, factor=4.0, **_THETA),
        _UNKNOWN,
    ],
    load("rope_frequencies", _rope_frequencies),
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
    may_shrink_to=lambda call: (
        call.arguments["head_dim"] > 1 and call.arguments["max_position_embeddings"] > 1
    ),
)
