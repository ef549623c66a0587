"""Chapter 13: YaRN's frequencies and its temperature (Peng et al. 2023, as the authors' code has them)."""

import math
from typing import Any

import torch

from course_utils.check.catalogue import load
from course_utils.check.engine import Check
from course_utils.check.exercises.ntk_inv_freq import FLOAT64, RIGHT, ROUNDED
from course_utils.check.probes import Call, Probe

__all__ = ["yarn_frequencies"]


def _yarn_frequencies(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    low, high = (  # the pairs that make beta turns in the original window
        dim * math.log(original_length / (2 * math.pi * beta)) / (2 * math.log(base)) for beta in (beta_fast, beta_slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    return inv_freq * (1 - ramp) + inv_freq / factor * ramp, 0.1 * math.log(factor) + 1


def _probe(
    name: str, stage: str, dim: int, base: float, factor: float, original_length: int, remark: str = "", **options: Any
) -> Probe:
    call = Call({"dim": dim, "base": base, "factor": factor, "original_length": original_length, **options})
    compares = ("inv_freq",) if stage == "ramp" else None
    return Probe(name, stage, call, compares=compares, tolerance=RIGHT, remark=remark,
                 remark_beyond=FLOAT64 if remark else None)  # fmt: skip


yarn_frequencies = Check(
    "yarn_frequencies",
    _yarn_frequencies,
    [
        _probe("a window of 512", "ramp", 16, 10_000.0, 8.0, 512, ROUNDED),
        _probe("another base", "ramp", 32, 500_000.0, 4.0, 8192),
        _probe("a window where no pair makes 32 turns", "ramp", 16, 10_000.0, 8.0, 64),
        _probe("a window where all pairs make a turn", "ramp", 16, 100.0, 8.0, 2048),
        _probe("other betas", "ramp", 16, 10_000.0, 8.0, 512, beta_fast=16.0, beta_slow=2.0),
        _probe("truncate=False", "ramp", 16, 10_000.0, 8.0, 512, truncate=False),
        _probe("factor 8", "temperature", 16, 10_000.0, 8.0, 512),
        _probe("factor 40", "temperature", 16, 10_000.0, 40.0, 4096),
    ],
    load("yarn_frequencies", _yarn_frequencies),
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
    is_possible=lambda call: call.arguments["dim"] > 2 and call.arguments["original_length"] > 1,
)
