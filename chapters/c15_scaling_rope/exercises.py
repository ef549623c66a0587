"""Chapter 15: the frequencies of scaled RoPE."""

import math
from dataclasses import replace

import torch

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Probe, Tolerance, read_probes

__all__ = ["first_new_position", "ntk_inv_freq", "rope_frequencies", "yarn_frequencies"]


# Of the frequency itself: the slowest pair is a millionth of the fastest. Right float32 forms are
# off by up to 3e-6, the mildest mistake, clamping YaRN's ramp elsewhere, by a few percent.
_RIGHT = Tolerance(relative=1e-5, absolute=1e-12)
_FLOAT64 = Tolerance(relative=1e-9, absolute=1e-15)
_ROUNDED = (
    "The frequencies are rounded to float32. That moves a cosine at position 131,071 by up to "
    "0.004; torch.float64 in arange, up to the cosine, avoids it."
)
# the stages that look at the frequencies and not at the attention factor
_FREQUENCIES_ALONE = ("ramp", "frequencies of yarn", "lists of longrope")


def _first_new_position(trained, now, window):
    is_unfinished = window * trained < 2 * math.pi  # less than a turn in the window
    if not is_unfinished.any():
        return math.inf
    return window * (trained / now)[is_unfinished].min().item()


def _two_sets(trained: list[float], now: list[float], window: int) -> Call:
    frequencies = {
        name: torch.tensor(values, dtype=torch.float64)
        for name, values in (("trained", trained), ("now", now))
    }
    return Call({**frequencies, "window": window}, dict.fromkeys(frequencies, "P"))


first_new_position = Exercise(
    "first_new_position",
    _first_new_position,
    read_probes(__file__, "first_new_position", _two_sets, _RIGHT, plain=True),
    load("first_new_position", _first_new_position),
    any_dtype=True,
    may_shrink_to=lambda call: bool((call.arguments["trained"] > 0).all()),
)


def _ntk_inv_freq(dim, base, factor):
    new_base = base * factor ** (dim / (dim - 2))
    return new_base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (dim/2,)


def _probes(exercise: str) -> list[Probe]:
    """Return the probes in probes.toml; the first says it of a function that rounds."""
    first, *others = (
        replace(probe, compares=("inv_freq",)) if probe.stage in _FREQUENCIES_ALONE else probe
        for probe in read_probes(__file__, exercise, tolerance=_RIGHT, plain=True)
    )
    return [replace(first, remark=_ROUNDED, remark_beyond=_FLOAT64), *others]


ntk_inv_freq = Exercise(
    "ntk_inv_freq",
    _ntk_inv_freq,
    _probes("ntk_inv_freq"),
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


yarn_frequencies = Exercise(
    "yarn_frequencies",
    _yarn_frequencies,
    _probes("yarn_frequencies"),
    load("yarn_frequencies", _yarn_frequencies),
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
    may_shrink_to=lambda call: call.arguments["dim"] > 2 and call.arguments["original_length"] > 1,
)


def _plain_frequencies(rope_parameters, dim, base, window, seq_len):
    """Return what the types with one rule for all pairs give; the notebook has it."""
    kind, factor = rope_parameters["rope_type"], rope_parameters.get("factor", 1.0)
    if kind not in ("default", "linear", "ntk", "dynamic"):
        raise ValueError(f"rope_type must be one of transformers' or ntk: got {kind!r}")
    if kind == "dynamic":
        factor = factor * max(seq_len or 0, window) / window - (factor - 1)
    if kind in ("ntk", "dynamic"):
        return _ntk_inv_freq(dim, base, factor)
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return inv_freq / factor if kind == "linear" else inv_freq


def _rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    p = {"rope_theta": 10_000.0, "partial_rotary_factor": 1.0, **rope_parameters}
    kind, base, window = p["rope_type"], p["rope_theta"], max_position_embeddings
    original_length = p.get("original_max_position_embeddings", window)
    factor = p.get("factor", window / original_length)
    dim = int(head_dim * p["partial_rotary_factor"])
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    attention_factor = 1.0

    if kind not in ("yarn", "llama3", "longrope", "proportional"):
        inv_freq = _plain_frequencies(p, dim, base, window, seq_len)
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


_UNKNOWN = Probe(
    "a rope_type that does not exist",
    "unknown type",
    Call(
        {
            "rope_parameters": {"rope_type": "nkt", "factor": 4.0, "rope_theta": 10_000.0},
            "head_dim": 16,
            "max_position_embeddings": 512,
        }
    ),
    is_refused=True,
)


def _has_pairs_and_a_window(call: Call) -> bool:
    return call.arguments["head_dim"] > 1 and call.arguments["max_position_embeddings"] > 1


rope_frequencies = Exercise(
    "rope_frequencies",
    _rope_frequencies,
    [*_probes("rope_frequencies"), _UNKNOWN],
    load("rope_frequencies", _rope_frequencies),
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
    may_shrink_to=_has_pairs_and_a_window,
)
