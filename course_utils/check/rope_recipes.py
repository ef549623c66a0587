"""Rotary frequencies for a longer context, taken apart so that a mistake can replace one step and leave the rest.

Written for the catalogue of mistakes and for nothing else: the truth that answers are held against is
``course_utils.rope.scaling``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "METHODS",
    "Asked",
    "Method",
    "dynamic_with",
    "growing",
    "llama3_with",
    "longrope_with",
    "ntk_with",
    "pair_of",
    "powers",
    "ramped",
    "rope_with",
    "share_kept",
    "yarn_method",
    "yarn_with",
]

Method = Callable[["Asked"], tuple[Tensor, float]]


def powers(dim: int, base: float) -> Tensor:
    """Return base^(-2k/dim) for each pair k, (dim/2,) float64."""
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


@dataclass(frozen=True)
class Asked:
    """What a call asks for; a mistake about the base or the rotary dimension is a subclass."""

    options: Mapping[str, Any]
    head_dim: int
    window: int
    seq_len: int | None

    @property
    def base(self) -> float:
        """The rotary base."""
        return self.options.get("rope_theta", 10_000.0)

    @property
    def dim(self) -> int:
        """How many dimensions rotate."""
        return int(self.head_dim * self.options.get("partial_rotary_factor", 1.0))

    @property
    def inv_freq(self) -> Tensor:
        """The frequencies before stretching."""
        return powers(self.dim, self.base)

    @property
    def original(self) -> int:
        """The window before stretching."""
        return self.options.get("original_max_position_embeddings", self.window)

    @property
    def factor(self) -> float:
        """How far to stretch: given, or the ratio of the windows."""
        return self.options.get("factor", self.window / self.original)


def default(asked: Asked) -> tuple[Tensor, float]:
    """Stretch nothing."""
    return asked.inv_freq, 1.0


def linear(asked: Asked) -> tuple[Tensor, float]:
    """Position interpolation."""
    return asked.inv_freq / asked.factor, 1.0


def ntk_with(
    exponent: Callable[[int], float] = lambda dim: dim / (dim - 2),
    then: Callable[[Tensor, float], Tensor] = lambda inv_freq, factor: inv_freq,
) -> Callable[[int, float, float], Tensor]:
    """Return ``ntk_inv_freq(dim, base, factor)`` with an exponent of its own, and something done after."""

    def ntk_inv_freq(dim, base, factor):
        return then(powers(dim, base * factor ** exponent(dim)), factor)

    return ntk_inv_freq


def ntk(asked: Asked) -> tuple[Tensor, float]:
    """A larger base."""
    return ntk_with()(asked.dim, asked.base, asked.factor), 1.0


def dynamic_with(stretch: Callable[[float, int | None, int], float]) -> Method:
    """Return dynamic NTK whose stretch is a function of the factor, the length (or None) and the window."""

    def dynamic(asked):
        return ntk_with()(asked.dim, asked.base, stretch(asked.factor, asked.seq_len, asked.window)), 1.0

    return dynamic


def growing(factor: float, seq_len: int | None, window: int) -> float:
    """1 up to the window, and growing after."""
    return factor * max(seq_len or 0, window) / window - (factor - 1)


def pair_of(turns: float, dim: int, base: float, original: int) -> float:
    """Return the pair, as a real number, that makes so many turns in the original window."""
    return dim * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))


def ramped(pairs: Tensor, low: float, high: float) -> Tensor:
    """Return the share of each frequency that is divided by the factor: 0 up to ``low``, 1 from ``high`` on."""
    return ((pairs - low) / (high - low)).clamp(0, 1)


def outwards(low: float, high: float) -> tuple[float, float]:
    """Round both ends of the ramp outwards, to whole pairs."""
    return math.floor(low), math.ceil(high)


def yarn_with(
    pair: Callable[..., float] = pair_of,
    rounded: Callable[[float, float], tuple[float, float]] = outwards,
    clamped: Callable[[float, float, int], tuple[float, float]] = lambda low, high, dim: (
        max(low, 0),
        min(high, dim - 1),
    ),
    blend: Callable[[Tensor, float, Tensor], Tensor] = lambda f, factor, ramp: f * (1 - ramp) + f / factor * ramp,
    temperature: Callable[[float], float] = lambda factor: 0.1 * math.log(factor) + 1,
) -> Callable[..., tuple[Tensor, float]]:
    """Return ``yarn_frequencies(dim, base, factor, original_length, ...)``, one step replaced."""

    def yarn_frequencies(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
        low, high = (pair(beta, dim, base, original_length) for beta in (beta_fast, beta_slow))
        low, high = clamped(*(rounded(low, high) if truncate else (low, high)), dim)
        ramp = ramped(torch.arange(dim // 2, dtype=torch.float64), low, high + (0.001 if low == high else 0))
        return blend(powers(dim, base), factor, ramp), temperature(factor)

    return yarn_frequencies


def yarn_method(frequencies: Callable[..., tuple[Tensor, float]]) -> Method:
    """Return ``frequencies`` as a method that reads YaRN's options."""

    def yarn(asked):
        given = {key: asked.options[key] for key in ("beta_fast", "beta_slow", "truncate") if key in asked.options}
        inv_freq, attention_factor = frequencies(asked.dim, asked.base, asked.factor, asked.original, **given)
        if asked.options.get("mscale") and asked.options.get("mscale_all_dim"):
            over, under = (
                0.1 * asked.options[key] * math.log(asked.factor) + 1 for key in ("mscale", "mscale_all_dim")
            )
            attention_factor = over / under
        return inv_freq, asked.options.get("attention_factor", attention_factor)

    return yarn


def share_kept(asked: Asked, inv_freq: Tensor) -> Tensor:
    """Return Llama 3's share of each frequency that is kept: 1 from ``high_freq_factor`` turns on."""
    turns = asked.original * inv_freq / (2 * math.pi)
    return ramped(turns, asked.options["low_freq_factor"], asked.options["high_freq_factor"])


def llama3_with(share: Callable[[Asked, Tensor], Tensor] = share_kept, attention_factor: float = 1.0) -> Method:
    """Return Llama 3's method with a share of its own."""

    def llama3(asked):
        inv_freq = asked.inv_freq
        kept = share(asked, inv_freq)
        return inv_freq * kept + inv_freq / asked.factor * (1 - kept), attention_factor

    return llama3


def longrope_with(
    is_long: Callable[[Asked], bool] = lambda asked: (asked.seq_len or 0) > asked.original,
    lists: tuple[str, str] = ("short_factor", "long_factor"),
    rescale: Callable[[Tensor, Tensor], Tensor] = lambda inv_freq, factors: inv_freq / factors,
    attention: Callable[[Asked], float] = lambda asked: math.sqrt(
        1 + math.log(asked.factor) / math.log(asked.original)
    ),
) -> Method:
    """Return LongRoPE with one step replaced."""

    def longrope(asked):
        factors = torch.tensor(asked.options[lists[is_long(asked)]], dtype=torch.float64)
        return rescale(asked.inv_freq, factors), asked.options.get("attention_factor", attention(asked))

    return longrope


def proportional(asked: Asked) -> tuple[Tensor, float]:
    """The frequencies of the whole head, the slow ones set to zero."""
    inv_freq = powers(asked.head_dim, asked.base)
    inv_freq[asked.dim // 2 :] = 0
    return inv_freq / asked.options.get("factor", 1.0), 1.0


METHODS: dict[str, Method] = {
    "default": default,
    "linear": linear,
    "ntk": ntk,
    "dynamic": dynamic_with(growing),
    "yarn": yarn_method(yarn_with()),
    "llama3": llama3_with(),
    "longrope": longrope_with(),
    "proportional": proportional,
}


def rope_with(kind: type[Asked] = Asked, **methods: Method) -> Callable[..., tuple[Tensor, float]]:
    """Return ``rope_frequencies`` with some methods replaced, or with a mistake in what they all start from."""
    known = {**METHODS, **methods}

    def rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        options = {key: value for key, value in rope_parameters.items() if value is not None}
        return known[options["rope_type"]](kind(options, head_dim, max_position_embeddings, seq_len))

    return rope_frequencies
