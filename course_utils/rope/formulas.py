"""The formulas that stretch RoPE: from frequencies that suit the trained window to frequencies for a longer one.

Notation: d is the rotary dimension, k = 0 … d/2 - 1 a pair, f_k = base^(-2k/d) its frequency, L the trained window and
s the factor by which it is to be stretched. A pair makes L · f_k / 2π full turns in the window. Pairs of many turns
tell neighbours apart; pairs of less than one turn have seen only a part of their circle in training.

A *ramp* holds, for each pair, the share of its frequency that is kept: 1 keeps f_k, 0 divides it by s.
"""

import math

import torch
from torch import Tensor

from course_utils.rope.rotation import rope_inv_freq

__all__ = [
    "blend",
    "dynamic_ntk_factor",
    "longrope_attention_factor",
    "ntk_base",
    "partial_inv_freq",
    "proportional_inv_freq",
    "turns",
    "yarn_attention_factor",
    "yarn_correction_range",
    "yarn_paper_ramp",
    "yarn_ramp",
]


def turns(inv_freq: Tensor, length: float) -> Tensor:
    """Return how many full turns each pair makes in ``length`` positions.

    Args:
        inv_freq: (d/2,), radians per position.
        length: positions.

    Returns:
        (d/2,), the dtype of ``inv_freq``.

    Source: Peng et al. 2023 (YaRN), §3.2, r(d) = L/λ_d.
    """
    return inv_freq * (length / (2 * math.pi))


def partial_inv_freq(rotary_dim: int, base: float) -> Tensor:
    """Return the frequencies of the first ``rotary_dim`` dimensions of a head, whose exponent is over these alone.

    Args:
        rotary_dim: how many dimensions rotate. An odd one is rounded up to whole pairs and keeps its own exponent,
            2k/rotary_dim, as in transformers.
        base: the rotary base.

    Returns:
        (⌈rotary_dim/2⌉,), float64.

    Raises:
        ValueError: ``rotary_dim`` below 1, or a base that is not positive.

    Source: GPT-NeoX's ``rotary_pct``; ``partial_rotary_factor`` in transformers.
    """
    if rotary_dim % 2:
        even = rotary_dim + 1
        return rope_inv_freq(even, base ** (even / rotary_dim))  # (base^(even/odd))^(-2k/even) = base^(-2k/odd)
    return rope_inv_freq(rotary_dim, base)


def proportional_inv_freq(head_dim: int, base: float, proportion: float) -> Tensor:
    """Return the frequencies of p-RoPE: those of the whole head, with the slowest pairs set to zero.

    Partial rotation squeezes the whole range of wavelengths into fewer dimensions; here the pairs that rotate keep
    the wavelengths that they have in a whole head, and those that do not are spread over it: pair k is still made of
    dimensions k and k + head_dim/2.

    Args:
        head_dim: the dimension of a head; even.
        base: the rotary base.
        proportion: the share of the pairs that rotates, from 0 to 1.

    Returns:
        (head_dim/2,), float64; zeros at the end.

    Raises:
        ValueError: as ``rope_inv_freq``.

    Source: ``_compute_proportional_rope_parameters`` in transformers, used by Gemma 4; Barbero et al. 2024
        ("Round and round we go").
    """
    inv_freq = rope_inv_freq(head_dim, base)
    inv_freq[int(proportion * head_dim // 2) :] = 0.0
    return inv_freq


def ntk_base(base: float, factor: float, dim: int) -> float:
    """Return the base whose slowest pair is slower by ``factor`` while the fastest stays as it is.

    The exponent is what makes the last pair, base^(-(d-2)/d), come out divided by exactly ``factor``.

    Args:
        base: the trained base.
        factor: s.
        dim: the rotary dimension d, above 2.

    Returns:
        base · s^(d/(d-2)).

    Raises:
        ValueError: ``dim`` of 2 or less: a single pair cannot be both fastest and slowest.

    Source: bloc97's "NTK-aware scaled RoPE", 2023; Peng et al. 2023 (YaRN), §3.1.

    >>> round(ntk_base(10_000.0, 4.0, 128))
    40890
    """
    if dim <= 2:
        raise ValueError(f"the rotary dimension must be above 2 for NTK-aware scaling: got {dim}")
    return base * factor ** (dim / (dim - 2))


def dynamic_ntk_factor(factor: float, length: int, trained_length: int) -> float:
    """Return the factor that dynamic NTK puts into ``ntk_base`` at a length: 1 up to the trained one, growing after.

    It is not ``factor`` at ``factor`` times the trained length but (factor - 1)² + factor: 57 for a factor of 8.

    Args:
        factor: s.
        length: the length of the sequence so far.
        trained_length: L.

    Returns:
        s · max(length, L) / L - (s - 1).

    Source: emozilla's "dynamically scaled RoPE", 2023; Peng et al. 2023 (YaRN), §3.3;
        ``_compute_dynamic_ntk_parameters`` in transformers.

    >>> dynamic_ntk_factor(8.0, 8 * 4096, 4096), dynamic_ntk_factor(8.0, 100, 4096)
    (57.0, 1.0)
    """
    return factor * max(length, trained_length) / trained_length - (factor - 1)


def blend(inv_freq: Tensor, factor: float, ramp: Tensor) -> Tensor:
    """Return frequencies between the trained ones and those divided by ``factor``.

    Args:
        inv_freq: (d/2,), the trained frequencies.
        factor: s.
        ramp: (d/2,), the share of each that is kept.

    Returns:
        (d/2,): ramp · f + (1 - ramp) · f / s.

    Source: Peng et al. 2023 (YaRN), §3.2, h(θ_d).
    """
    return inv_freq * ramp + inv_freq / factor * (1 - ramp)


def yarn_paper_ramp(inv_freq: Tensor, original_length: int, alpha: float = 1.0, beta: float = 32.0) -> Tensor:
    """Return the ramp that the YaRN paper prints, straight in the number of *turns*: γ.

    Nearly all code that is called YaRN, the authors' included, runs ``yarn_ramp`` instead, which is straight in the
    *index* of the pair; the frequencies differ by up to a factor of 2.3 (d = 128, base 10,000, L = 4096, s = 8).
    This one is what Llama 3.1 uses, with (alpha, beta) = (1, 4).

    Args:
        inv_freq: (d/2,), the trained frequencies.
        original_length: L.
        alpha: pairs of fewer turns are divided by the factor.
        beta: pairs of more turns are kept; where it equals alpha, the ramp is a step, and pairs from there on are kept.

    Returns:
        (d/2,), from 0 to 1.

    Source: Peng et al. 2023 (YaRN), §3.2, γ(r).
    """
    if alpha == beta:
        return (turns(inv_freq, original_length) >= alpha).to(inv_freq.dtype)
    return ((turns(inv_freq, original_length) - alpha) / (beta - alpha)).clamp(0, 1)


def yarn_correction_range(
    dim: int, base: float, original_length: int, beta_fast: float = 32.0, beta_slow: float = 1.0, truncate: bool = True
) -> tuple[float, float]:
    """Return the pairs, as real numbers, that make ``beta_fast`` and ``beta_slow`` turns: YaRN's ramp lies between.

    Args:
        dim: the rotary dimension d.
        base: the trained base.
        original_length: L.
        beta_fast: turns from which on a pair is kept.
        beta_slow: turns up to which a pair is divided by the factor.
        truncate: round outwards to whole pairs.

    Returns:
        low and high. As in the reference they are clamped to 0 and d - 1, although the last pair is d/2 - 1: where
        ``high`` is beyond the last pair, even the slowest pair keeps a part of its frequency.

    Source: ``find_correction_range`` of the authors' code (jquesnelle/yarn), and ``_compute_yarn_parameters`` in
    transformers.
    """

    def pair_of(full_turns: float) -> float:  # solves L · base^(-2k/d) / 2π = full_turns for k
        return dim * math.log(original_length / (2 * math.pi * full_turns)) / (2 * math.log(base))

    low, high = pair_of(beta_fast), pair_of(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, dim - 1)


def yarn_ramp(
    dim: int, base: float, original_length: int, beta_fast: float = 32.0, beta_slow: float = 1.0, truncate: bool = True
) -> Tensor:
    """Return the ramp that YaRN's code runs, straight in the *index* of the pair (``yarn_paper_ramp`` is the paper's).

    Args:
        dim: the rotary dimension d.
        base: the trained base.
        original_length: L.
        beta_fast: turns from which on a pair is kept.
        beta_slow: turns up to which a pair is divided by the factor.
        truncate: round the ends of the ramp outwards to whole pairs, as the authors' code does.

    Returns:
        (⌈d/2⌉,), float64, from 0 to 1.

    Source: ``linear_ramp_mask`` of the authors' code (jquesnelle/yarn), and ``_compute_yarn_parameters`` in
    transformers.
    """
    low, high = yarn_correction_range(dim, base, original_length, beta_fast, beta_slow, truncate)
    if low == high:
        high += 0.001  # the reference's way to avoid dividing by zero
    pairs = torch.arange((dim + 1) // 2, dtype=torch.float64)
    return 1 - ((pairs - low) / (high - low)).clamp(0, 1)


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """Return what YaRN multiplies cosine and sine by: √(1/t) of the paper, so that the scores are divided by t.

    Args:
        factor: s.
        mscale: a weight of the logarithm; DeepSeek's models divide the value for ``mscale`` by the one for
            ``mscale_all_dim``, and multiply the scores by the latter's square elsewhere.

    Returns:
        0.1 · mscale · ln s + 1; 1 where nothing is stretched.

    Source: Peng et al. 2023 (YaRN), §3.4; ``get_mscale`` of the authors' code (jquesnelle/yarn).
    """
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def longrope_attention_factor(factor: float, original_length: int) -> float:
    """Return what LongRoPE multiplies cosine and sine by.

    Args:
        factor: s.
        original_length: L: the *original* length, not the extended one.

    Returns:
        √(1 + ln s / ln L); 1 where nothing is stretched.

    Source: Ding et al. 2024's code, ``rope/longrope.py``; ``_compute_longrope_parameters`` in transformers.
    """
    return math.sqrt(1 + math.log(factor) / math.log(original_length)) if factor > 1 else 1.0
