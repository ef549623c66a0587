"""The methods that stretch RoPE: each reads its options, with the defaults of transformers, and applies its formula.

Most methods are static. Two depend on the length of the sequence: ``dynamic`` beyond the trained window, and
``longrope``, which has one set of frequencies up to the original window and another beyond. What they depend on is
the *regime* of a length, and a method's frequencies are a function of the regime alone: nothing is remembered.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_utils.arguments import require_length
from course_utils.rope.formulas import (
    blend,
    dynamic_ntk_factor,
    longrope_attention_factor,
    ntk_base,
    partial_inv_freq,
    proportional_inv_freq,
    yarn_attention_factor,
    yarn_correction_range,
    yarn_paper_ramp,
    yarn_ramp,
)
from course_utils.rope.options import DEFAULT_BASE, RopeOptions

__all__ = ["ROPE_TYPES", "RopeMethod", "rope_method"]

_WIDEST_HEAD = 1 << 16


@dataclass(frozen=True)
class RopeMethod:
    """A ``rope_parameters`` dictionary, checked and ready to use.

    ``factor`` is how far it stretches (1 for ``default``), ``trained_length`` the window that it stretches (None where
    none was given), ``rotary_dim`` how many dimensions of a head turn, ``warnings`` what looked suspicious.
    """

    rope_type: str
    base: float
    head_dim: int
    rotary_dim: int
    factor: float
    trained_length: int | None
    warnings: tuple[str, ...]
    regime: Callable[[int | None], Hashable]
    at: Callable[[Any], tuple[Tensor, float]]

    def frequencies(self, seq_len: int | None = None) -> tuple[Tensor, float]:
        """Return the frequencies and the attention factor of a sequence of this length.

        Args:
            seq_len: the length so far; None counts as short.

        Returns:
            inv_freq, (rotary_dim/2,) float64, and the factor for cosine and sine.

        Raises:
            ValueError: ``seq_len`` is no length.
        """
        return self.at(self.regime(None if seq_len is None else require_length("seq_len", seq_len, at_least=1)))


def rope_method(
    rope_parameters: Mapping[str, Any] | None, head_dim: int, max_position_embeddings: int | None
) -> RopeMethod:
    """Return the method that a ``rope_parameters`` dictionary describes.

    Args:
        rope_parameters: as for ``rope_scaling.rope_frequencies``.
        head_dim: the dimension of a head.
        max_position_embeddings: the model's window, or None if no option needs it.

    Returns:
        The method, with its warnings collected rather than issued.

    Raises:
        ValueError: as for ``rope_scaling.rope_frequencies``.
    """
    head_dim = require_length("head_dim", head_dim, at_most=_WIDEST_HEAD)
    if max_position_embeddings is not None:
        max_position_embeddings = require_length("max_position_embeddings", max_position_embeddings)
    options = RopeOptions(rope_parameters, ROPE_TYPES)
    base = options.number("rope_theta", DEFAULT_BASE, above=1)
    rotary_dim = head_dim if options.rope_type == "proportional" else _rotary_dim(options, head_dim)

    stretch = _METHODS[options.rope_type](options, _Rotary(rotary_dim, base, max_position_embeddings))
    options.report_unread()
    return RopeMethod(
        options.rope_type,
        base,
        head_dim,
        2 * math.ceil(rotary_dim / 2),
        stretch.factor,
        stretch.trained_length,
        tuple(options.warnings),
        stretch.regime,
        stretch.at,
    )


@dataclass(frozen=True)
class _Rotary:
    """What every method starts from."""

    dim: int
    base: float
    window: int | None

    @property
    def inv_freq(self) -> Tensor:
        return partial_inv_freq(self.dim, self.base)


@dataclass(frozen=True)
class _Stretch:
    """What a method makes of it: the regime of a length, and the frequencies at a regime."""

    regime: Callable[[int | None], Hashable]
    at: Callable[[Any], tuple[Tensor, float]]
    factor: float
    trained_length: int | None


def _static(inv_freq: Tensor, attention_factor: float, factor: float, trained_length: int | None) -> _Stretch:
    return _Stretch(lambda seq_len: None, lambda regime: (inv_freq.clone(), attention_factor), factor, trained_length)


def _default(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    return _static(rotary.inv_freq, 1.0, 1.0, rotary.window)


def _linear(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    factor = options.number("factor", at_least=1)
    # The frequencies do not depend on it: it only tells how far they reach.
    has_original = options.has("original_max_position_embeddings")
    trained_length = options.original_length(rotary.window) if has_original else rotary.window
    return _static(rotary.inv_freq / factor, 1.0, factor, trained_length)


def _ntk(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    factor = options.number("factor", at_least=1)
    inv_freq = partial_inv_freq(rotary.dim, ntk_base(rotary.base, factor, rotary.dim))
    return _static(inv_freq, 1.0, factor, rotary.window)


def _dynamic(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    factor = options.number("factor", at_least=1)
    # The trained window is the model's present one, not original_max_position_embeddings: so transformers has it.
    window = require_length("max_position_embeddings", rotary.window)
    ntk_base(rotary.base, factor, rotary.dim)  # refuses a single pair now rather than at the first long sequence

    def at(length: int) -> tuple[Tensor, float]:
        base = ntk_base(rotary.base, dynamic_ntk_factor(factor, length, window), rotary.dim)
        return partial_inv_freq(rotary.dim, base), 1.0

    return _Stretch(lambda seq_len: max(seq_len or 0, window), at, factor, window)


def _yarn(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    original = options.original_length(rotary.window)
    factor = _factor_or_ratio(options, rotary, original)
    beta_fast = options.number("beta_fast", 32.0, above=0)
    beta_slow = options.number("beta_slow", 1.0, above=0)
    if beta_fast < beta_slow:
        raise ValueError(f"beta_fast must be at least beta_slow: got beta_fast={beta_fast:g}, beta_slow={beta_slow:g}")
    ramp = (rotary.dim, rotary.base, original, beta_fast, beta_slow, options.flag("truncate", True))
    low, high = yarn_correction_range(*ramp)
    if low > high:
        options.warnings.append(
            f"beta_fast={beta_fast:g} and beta_slow={beta_slow:g} turns fall on pairs {low:g} and {high:g}: the ramp "
            "runs backwards, which is what transformers does with it and hardly what was meant"
        )
    inv_freq = blend(rotary.inv_freq, factor, yarn_ramp(*ramp))
    return _static(inv_freq, _yarn_attention_factor(options, factor), factor, original)


def _yarn_attention_factor(options: RopeOptions, factor: float) -> float:
    """An explicit factor wins; then mscale, but only together with mscale_all_dim; then the paper's."""
    given = options.number("attention_factor", above=0) if options.has("attention_factor") else None
    mscale, all_dim = options.number("mscale", 0.0, at_least=0), options.number("mscale_all_dim", 0.0, at_least=0)
    if bool(mscale) != bool(all_dim):
        options.warnings.append(
            f"mscale={mscale:g} and mscale_all_dim={all_dim:g} have no effect: transformers uses them only when both "
            "are given and not zero"
        )
    if given is not None:
        return given
    if mscale and all_dim:
        return yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, all_dim)
    return yarn_attention_factor(factor)


def _llama3(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    factor = options.number("factor", at_least=1)
    low = options.number("low_freq_factor", above=0)
    high = options.number("high_freq_factor", above=0)
    if high < low:
        raise ValueError(
            f"high_freq_factor must be at least low_freq_factor: got high_freq_factor={high:g}, low_freq_factor={low:g}"
        )
    if high == low:  # as in Llama 4 Scout
        options.warnings.append(
            f"high_freq_factor and low_freq_factor are both {low:g}: pairs of that many turns and more are kept, all "
            "others divided by factor, and none is blended, as in transformers"
        )
    original = options.original_length(rotary.window)
    if rotary.window is not None and options.has("original_max_position_embeddings") and original >= rotary.window:
        options.warnings.append(
            f"original_max_position_embeddings={original} should be below max_position_embeddings={rotary.window}: it "
            "is used as it is"
        )
    # "Low" and "high" count turns in the original window: this is the by-parts ramp of the YaRN paper.
    ramp = yarn_paper_ramp(rotary.inv_freq, original, alpha=low, beta=high)
    return _static(blend(rotary.inv_freq, factor, ramp), 1.0, factor, original)


def _longrope(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    original = options.original_length(rotary.window)
    factor = _factor_or_ratio(options, rotary, original)
    inv_freq = rotary.inv_freq
    rescaled = {
        is_long: inv_freq / inv_freq.new_tensor(options.per_pair(key, len(inv_freq)))
        for is_long, key in ((False, "short_factor"), (True, "long_factor"))
    }
    attention = longrope_attention_factor(factor, original)
    attention = options.number("attention_factor", attention, above=0)
    # PhiMoE's two keys, which win over all others there.
    attention_of = {
        is_long: options.number(key, attention, above=0)
        for is_long, key in ((False, "short_mscale"), (True, "long_mscale"))
    }
    return _Stretch(
        lambda seq_len: (seq_len or 0) > original,
        lambda is_long: (rescaled[is_long].clone(), attention_of[is_long]),
        factor,
        original,
    )


def _proportional(options: RopeOptions, rotary: _Rotary) -> _Stretch:
    factor = options.number("factor", 1.0, at_least=1)
    proportion = options.number("partial_rotary_factor", 1.0, at_least=0, at_most=1)
    inv_freq = proportional_inv_freq(rotary.dim, rotary.base, proportion)
    return _static(inv_freq / factor, 1.0, factor, rotary.window)


_METHODS: dict[str, Callable[[RopeOptions, _Rotary], _Stretch]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": _proportional,
}
ROPE_TYPES = tuple(_METHODS)


def _rotary_dim(options: RopeOptions, head_dim: int) -> int:
    """The dimensions of a head that rotate, rounded down as transformers does."""
    partial = options.number("partial_rotary_factor", 1.0, above=0, at_most=1)
    rotary_dim = int(head_dim * partial)
    got = f"got partial_rotary_factor={partial:g}, head_dim={head_dim}, so {rotary_dim}"
    if not 0 < 2 * math.ceil(rotary_dim / 2) <= head_dim:
        raise ValueError(f"the rotary dimension must be whole pairs within the head: {got}")
    if rotary_dim % 2:
        options.warnings.append(
            f"the rotary dimension should be even: {got}; it is rounded up to {rotary_dim + 1}, with exponents over "
            f"{rotary_dim}, as in transformers"
        )
    return rotary_dim


def _factor_or_ratio(options: RopeOptions, rotary: _Rotary, original: int) -> float:
    """The factor, or the ratio of the two lengths where it is not given; a disagreement of the two is reported."""
    ratio = None if rotary.window is None else rotary.window / original
    if not options.has("factor"):
        if ratio is None:
            raise ValueError(
                f"factor must be a number of at least 1 for rope_type={options.rope_type!r}, or follow from "
                "max_position_embeddings: got neither"
            )
        if ratio < 1:
            raise ValueError(
                "factor must be at least 1: got none, and max_position_embeddings / original_max_position_embeddings "
                f"= {rotary.window} / {original} = {ratio:g}"
            )
        return ratio
    factor = options.number("factor", at_least=1)
    # A window equal to the original one means that the file was never told of the stretching, as Qwen advises.
    if ratio is not None and ratio != 1 and not math.isclose(ratio, factor):
        options.warnings.append(
            f"factor={factor:g} disagrees with max_position_embeddings / original_max_position_embeddings = "
            f"{rotary.window} / {original} = {ratio:g}: factor is used, as transformers does"
        )
    return factor
