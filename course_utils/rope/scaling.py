"""RoPE scaled to a longer context (chapter 15): one function a method, and ``rope_frequencies``,
which picks one.

Notation: d is the rotary dimension, i = 0 … d/2 - 1 a pair, f_i = base^(-2i/d) its trained
frequency, L the trained window, s the factor. A pair makes L · f_i / 2π turns in the window. Pairs
of many turns tell neighbours apart; pairs of less than one turn have seen only a part of their
circle in training.

Every method takes the rotary dimension, the trained base and, by keyword, the keys that published
configurations have. It returns the frequencies, (d/2,) float64, and the attention factor: cosine
and sine are multiplied by it, so the scores by its square. A missing or impossible key is a
``ValueError`` that names it. An odd d, as a partial factor may give, is rounded up to whole pairs
and keeps its exponents 2i/d. What is computed is what ``ROPE_INIT_FUNCTIONS`` of transformers 5.23
computes, in float64.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST = 1e15  # far beyond what any model has, and small enough that no formula overflows

Frequencies = tuple[Tensor, float]


class RopeWarning(UserWarning):
    """A suspicious value among RoPE's parameters, with what was assumed."""


def turns(inv_freq: Tensor, length: float) -> Tensor:
    """Return how many full turns each pair of ``inv_freq`` (d/2,) makes in ``length`` positions.

    Source: Peng et al. 2023 (YaRN), §3.2, r(d) = L/λ_d.
    """
    return inv_freq * (length / (2 * math.pi))


def partial_inv_freq(dim: int, base: float) -> Tensor:
    """Return f_i = base^(-2i/d), (⌈d/2⌉,) float64: ``rope_inv_freq`` for the dimensions of a head
    that turn."""
    _above(1, rope_theta=base)
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def abf(dim: int, base: float = 500_000.0) -> Frequencies:
    """Adjusted base frequency: trained again with a larger base, which slows the slow pairs most
    and the first not.

    Formula: g_i = base^(-2i/d); attention factor 1. In a configuration it is ``rope_type``
    ``default`` with another ``rope_theta``; with the trained base these are the frequencies of an
    unscaled model.

    Source: Xiong et al. 2023, §2.1; ``compute_default_rope_parameters`` in transformers.
    """
    return partial_inv_freq(dim, base), 1.0


def linear(dim: int, base: float = 10_000.0, *, factor: float) -> Frequencies:
    """Position interpolation: all pairs slower by the factor, as if the positions were squeezed
    into the window.

    Formula: g_i = f_i / s; attention factor 1.

    Source: Chen et al. 2023, §2.3; ``_compute_linear_scaling_rope_parameters`` in transformers.
    """
    _at_least(1, factor=factor)
    return partial_inv_freq(dim, base) / factor, 1.0


def ntk(dim: int, base: float = 10_000.0, *, factor: float) -> Frequencies:
    """NTK-aware scaling: the base for which the last pair turns slower by exactly the factor, and
    the first as before.

    Formula: g_i = (base · s^(d/(d-2)))^(-2i/d); attention factor 1. The reach falls short of s
    windows.

    Source: bloc97's "NTK-aware scaled RoPE", 2023; Peng et al. 2023 (YaRN), §3.1. transformers has
    this static form for Hunyuan alone, as ``alpha``; ``ntk`` is the course's name.
    """
    _at_least(1, factor=factor)
    if dim <= 2:
        raise ValueError(
            f"the rotary dimension must be above 2 for NTK-aware scaling: got dim={dim}"
        )
    return partial_inv_freq(dim, base * factor ** (dim / (dim - 2))), 1.0


def dynamic(
    dim: int,
    base: float = 10_000.0,
    *,
    factor: float,
    max_position_embeddings: float,
    seq_len: float | None = None,
) -> Frequencies:
    """Dynamic NTK: NTK-aware scaling by what the present length needs: nothing up to the window,
    more and more beyond.

    Formula: n = max(seq_len, L), stretch = s · n / L - (s - 1), then ``ntk`` by the stretch;
    attention factor 1. At s windows that is not s but (s - 1)² + s: 57 for a factor of 8.

    Keys: L is ``max_position_embeddings``, the model's present window, and not
    ``original_max_position_embeddings``. ``seq_len`` is the length so far; None counts as short.

    Source: emozilla's "dynamically scaled RoPE", 2023; Peng et al. 2023 (YaRN), §3.3;
    ``_compute_dynamic_ntk_parameters`` in transformers.
    """
    _at_least(1, factor=factor)
    _at_least(2, max_position_embeddings=max_position_embeddings)
    length = max(seq_len or 1, max_position_embeddings)
    return ntk(dim, base, factor=factor * length / max_position_embeddings - (factor - 1))


def yarn(
    dim: int,
    base: float = 10_000.0,
    *,
    factor: float,
    original_max_position_embeddings: float,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
) -> Frequencies:
    """YaRN as the world runs it: fast pairs stay, slow ones are divided by the factor, between them
    lies a ramp.

    Formula: the pair that makes β turns in L is i(β) = d · ln(L / 2πβ) / (2 ln base). Pairs up to
    i(``beta_fast``) are kept, from i(``beta_slow``) on they are f_i / s, and the share between
    falls along a straight line in the *index* of the pair, its ends rounded outwards to whole pairs
    with ``truncate``. (The paper prints a line in the number of turns, ``yarn_paper_ramp``: its
    frequencies differ by up to 2.3 times.)

    Temperature: attention factor m(1), with m(a) = 0.1 · a · ln s + 1; with ``mscale`` and
    ``mscale_all_dim`` both given and not zero, m(mscale) / m(mscale_all_dim), as in DeepSeek's
    models; ``attention_factor`` wins over both.

    Source: Peng et al. 2023, §3.2 and §3.4; jquesnelle/yarn; ``_compute_yarn_parameters`` in
    transformers.
    """
    _at_least(1, factor=factor)
    _at_least(0, mscale=mscale or 0, mscale_all_dim=mscale_all_dim or 0)
    kept = yarn_ramp(
        dim,
        base,
        original_max_position_embeddings,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        truncate=truncate,
    )

    def m(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0

    if attention_factor is None:
        attention_factor = m(mscale) / m(mscale_all_dim) if mscale and mscale_all_dim else m(1.0)
    _above(0, attention_factor=attention_factor)
    inv_freq = partial_inv_freq(dim, base)
    return kept * inv_freq + (1 - kept) * inv_freq / factor, float(attention_factor)


def llama3(
    dim: int,
    base: float = 10_000.0,
    *,
    factor: float,
    original_max_position_embeddings: float,
    low_freq_factor: float,
    high_freq_factor: float,
) -> Frequencies:
    """Llama 3.1's scaling: the ramp that the YaRN paper prints, straight in the number of turns,
    without temperature.

    Formula: r = L · f_i / 2π turns; the share γ = (r - low) / (high - low), clamped to 0 … 1, is
    kept, and g_i = γ · f_i + (1 - γ) · f_i / s; attention factor 1. Where low equals high, as in
    Llama 4 Scout, γ is a step.

    Keys: ``low_freq_factor`` and ``high_freq_factor`` are numbers of turns: 1 and 4 in Llama 3.1.
    With 1 and 32 these are the paper's frequencies.

    Source: llama-models, ``models/llama3/model.py``; Peng et al. 2023 (YaRN), §3.2;
    ``_compute_llama3_parameters`` in transformers.
    """
    _at_least(1, factor=factor)
    _at_least(2, original_max_position_embeddings=original_max_position_embeddings)
    _above(0, low_freq_factor=low_freq_factor)
    _at_least(low_freq_factor, high_freq_factor=high_freq_factor)
    inv_freq = partial_inv_freq(dim, base)
    kept = yarn_paper_ramp(
        inv_freq, original_max_position_embeddings, low_freq_factor, high_freq_factor
    )
    return kept * inv_freq + (1 - kept) * inv_freq / factor, 1.0


def longrope(
    dim: int,
    base: float = 10_000.0,
    *,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: float,
    factor: float | None = None,
    max_position_embeddings: float | None = None,
    attention_factor: float | None = None,
    short_mscale: float | None = None,
    long_mscale: float | None = None,
    seq_len: float | None = None,
) -> Frequencies:
    """LongRoPE: a factor for each pair, found by search; one list up to the original window,
    another beyond.

    Formula: g_i = f_i / λ_i, with λ from ``short_factor`` for a ``seq_len`` of up to L (or None),
    else ``long_factor``.

    Temperature: √(1 + ln s / ln L), L the *original* length; s is ``factor``, or where it is not
    given ``max_position_embeddings`` / L. ``attention_factor`` wins, and over it PhiMoE's
    ``short_mscale``, ``long_mscale``.

    Source: Ding et al. 2024, §3, and its code, ``rope/longrope.py``;
    ``_compute_longrope_parameters`` in transformers.
    """
    _at_least(2, original_max_position_embeddings=original_max_position_embeddings)
    if factor is None:
        if max_position_embeddings is None:
            raise ValueError(
                "factor must be given, or max_position_embeddings, from which it follows: got "
                "neither"
            )
        factor = max_position_embeddings / original_max_position_embeddings
    _at_least(1, factor=factor)
    inv_freq = partial_inv_freq(dim, base)
    for key, factors in (("short_factor", short_factor), ("long_factor", long_factor)):
        if not isinstance(factors, list | tuple) or len(factors) != len(inv_freq):
            raise ValueError(
                f"{key} must be a list of {len(inv_freq)} numbers, one per rotary pair: got "
                f"{factors}"
            )
        for each in factors:
            _above(0, **{key: each})

    is_long = (seq_len or 1) > original_max_position_embeddings
    factors, mscale = (long_factor, long_mscale) if is_long else (short_factor, short_mscale)
    if mscale is not None:
        attention_factor = mscale
    elif attention_factor is None:
        attention_factor = math.sqrt(
            1 + math.log(factor) / math.log(original_max_position_embeddings)
        )
    _above(0, attention_factor=attention_factor)
    return inv_freq / inv_freq.new_tensor(factors), float(attention_factor)


def proportional(
    dim: int, base: float = 10_000.0, *, factor: float = 1.0, partial_rotary_factor: float = 1.0
) -> Frequencies:
    """p-RoPE: the frequencies of the whole head, of which the slow pairs do not turn at all.

    Formula: g_i = f_i / s for the first ``partial_rotary_factor`` of the pairs, 0 for the others;
    attention factor 1. ``dim`` is the dimension of the whole head, even, and pair i is dimensions i
    and i + d/2. Partial rotation, in contrast, squeezes the whole range of wavelengths into fewer
    dimensions.

    Source: Barbero et al. 2024 ("Round and round we go"); ``_compute_proportional_rope_parameters``
    in transformers, used by Gemma 4.
    """
    _at_least(1, factor=factor)
    inv_freq = partial_inv_freq(dim, base)
    inv_freq[int(partial_rotary_factor * dim // 2) :] = 0.0
    return inv_freq / factor, 1.0


def yarn_ramp(
    dim: int,
    base: float,
    original_max_position_embeddings: float,
    *,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Tensor:
    """Return the share of each frequency that ``yarn`` keeps, (d/2,) from 0 to 1: straight in the
    index of the pair.

    1 up to the pair that makes ``beta_fast`` turns in the original window, 0 from the one that
    makes ``beta_slow`` on; ``truncate`` rounds the two outwards to whole pairs.
    """
    _at_least(2, original_max_position_embeddings=original_max_position_embeddings)
    _above(0, beta_fast=beta_fast, beta_slow=beta_slow)
    _at_least(beta_slow, beta_fast=beta_fast)
    index = torch.arange(len(partial_inv_freq(dim, base)), dtype=torch.float64)

    def pair_of(full_turns: float) -> float:  # solves L · base^(-2i/d) / 2π = full_turns for i
        slowdown = original_max_position_embeddings / (2 * math.pi * full_turns)
        return dim * math.log(slowdown) / (2 * math.log(base))

    low, high = pair_of(beta_fast), pair_of(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    # d - 1 as in the reference, although the last pair is d/2 - 1
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001  # the reference's way to avoid dividing by zero
    return 1 - ((index - low) / (high - low)).clamp(0, 1)


def yarn_paper_ramp(
    inv_freq: Tensor, original_length: float, alpha: float = 1.0, beta: float = 32.0
) -> Tensor:
    """Return the ramp that the YaRN paper prints, (d/2,) from 0 to 1: straight in the number of
    *turns*.

    Pairs of fewer than ``alpha`` turns in ``original_length`` are divided by the factor, of more
    than ``beta`` kept; where the two are equal, the ramp is a step, and pairs from there on are
    kept. Llama 3.1 has (1, 4).

    Source: Peng et al. 2023 (YaRN), §3.2, γ(r).
    """
    if alpha == beta:
        return (turns(inv_freq, original_length) >= alpha).to(inv_freq.dtype)
    return ((turns(inv_freq, original_length) - alpha) / (beta - alpha)).clamp(0, 1)


_METHODS: tuple[Callable[..., Frequencies], ...] = (
    linear,
    dynamic,
    ntk,
    yarn,
    llama3,
    longrope,
    proportional,
)
METHODS = {"default": abf} | {method.__name__: method for method in _METHODS}
ROPE_TYPES = tuple(METHODS)

# What models keep in this dictionary though it leaves the method's frequencies as they are.
_WITHOUT_EFFECT = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
}
_WITHOUT_EFFECT |= {
    "llama_4_scaling_beta",
    "max_position_embeddings",
    "original_max_position_embeddings",
}


def rope_frequencies(
    rope_parameters: Mapping[str, Any] | None,
    head_dim: int,
    max_position_embeddings: int | None = None,
    seq_len: int | None = None,
) -> tuple[Tensor, float]:
    """Return the rotary frequencies and the attention factor that a model's ``rope_parameters`` ask
    for.

    Chapter 15. ``rope_type`` (or the older key ``type``) names the method: ``default`` or one of
    this module's functions, whose keyword arguments are the keys that it reads. Every type reads
    ``rope_theta`` (10,000) and ``partial_rotary_factor`` (1). Null counts as absent, and None is
    ``default``.

    Args:
        rope_parameters: the dictionary of a ``config.json``, of one layer type.
        head_dim: the dimension of a head.
        max_position_embeddings: the model's window, needed only where a method reads it and the
            dictionary has none.
        seq_len: the length of the sequence so far, for ``dynamic`` and ``longrope``; None counts as
            short.

    Returns:
        inv_freq, (rotary_dim/2,) float64 (head_dim/2 for ``proportional``), and what to multiply
        cosine and sine by.

    Raises:
        ValueError: a value is missing or impossible; the message names the key. What looks wrong is
            a RopeWarning.

    >>> inv_freq, attention_factor = rope_frequencies({"rope_type": "linear", "factor": 4.0}, 4)
    >>> inv_freq, attention_factor
    (tensor([0.2500, 0.0025], dtype=torch.float64), 1.0)
    """
    parameters = RopeParameters.read(rope_parameters, head_dim, max_position_embeddings)
    warn(parameters.warnings, stacklevel=3)
    return parameters.frequencies(seq_len)


@dataclass
class RopeParameters:
    """The ``rope_parameters`` of one type of layer, and in ``warnings`` what looks wrong about
    them.

    ``parameters``, ``head_dim`` and ``max_position_embeddings`` are as for ``rope_frequencies``.
    """

    parameters: Mapping[str, Any]
    head_dim: int
    max_position_embeddings: int | None = None
    rope_type: str = field(init=False)
    warnings: tuple[str, ...] = field(init=False, repr=False)
    # the keyword arguments of the method's function
    _keys: Mapping[str, Any] = field(init=False, repr=False)

    @classmethod
    def read(
        cls,
        parameters: Mapping[str, Any] | None,
        head_dim: int,
        max_position_embeddings: int | None = None,
    ) -> "RopeParameters":
        """Read a dictionary in which null counts as absent; None is ``default``."""
        if not isinstance(parameters, Mapping | None):
            raise ValueError(f"rope_parameters must be a dictionary or None: got {parameters!r}")
        if not isinstance(head_dim, Integral):
            raise ValueError(f"head_dim must be a whole number: got head_dim={head_dim!r}")
        stated = {
            key: _plain(value) for key, value in (parameters or {}).items() if value is not None
        }
        window = (
            stated.get("max_position_embeddings")
            if max_position_embeddings is None
            else max_position_embeddings
        )
        return cls(stated, int(head_dim), _plain(window))

    def __post_init__(self) -> None:
        unscaled = "default" if self.parameters.keys() <= _WITHOUT_EFFECT else "none"
        self.rope_type = self.parameters.get("rope_type", self.parameters.get("type", unscaled))
        if self.rope_type not in ROPE_TYPES:
            raise ValueError(
                f"rope_type must be one of {', '.join(ROPE_TYPES)}: got "
                f"rope_type={self.rope_type!r}"
            )
        self._keys = self._keys_of_the_method()
        self.warnings = tuple(
            suspicion for look in SUSPICIONS if (suspicion := look(self, self._keys))
        )

    def frequencies(self, seq_len: int | None = None) -> Frequencies:
        """Return inv_freq, (rotary_dim/2,) float64, and the attention factor, for a sequence of
        this length."""
        share = self.parameters.get("partial_rotary_factor", 1.0)
        _at_least(0, partial_rotary_factor=share)
        dim = self.head_dim if self.rope_type == "proportional" else int(self.head_dim * share)
        if not 0 < 2 * math.ceil(dim / 2) <= self.head_dim:
            got = f"got partial_rotary_factor={share}, head_dim={self.head_dim}, so {dim}"
            raise ValueError(f"the rotary dimension must be whole pairs within the head: {got}")
        length = {"seq_len": seq_len} if self.rope_type in ("dynamic", "longrope") else {}
        base = self.parameters.get("rope_theta", 10_000.0)
        return METHODS[self.rope_type](dim, base, **self._keys, **length)

    @property
    def trained_length(self) -> int | None:
        """The window that is scaled, L; None where nothing tells."""
        if self.rope_type == "dynamic":
            return self.max_position_embeddings
        return self.parameters.get("original_max_position_embeddings", self.max_position_embeddings)

    @property
    def factor(self) -> float:
        """How far the window is scaled, s; 1 for ``default``."""
        if self.rope_type == "longrope" and "factor" not in self._keys:
            return (
                self._keys["max_position_embeddings"]
                / self._keys["original_max_position_embeddings"]
            )
        return self._keys.get("factor", 1.0)

    @property
    def known(self) -> dict[str, inspect.Parameter]:
        """The keys that the method's function reads."""
        arguments = inspect.signature(METHODS[self.rope_type]).parameters.values()
        keys = {
            argument.name: argument
            for argument in arguments
            if argument.kind is argument.KEYWORD_ONLY
        }
        keys.pop("seq_len", None)
        return keys

    def _keys_of_the_method(self) -> dict[str, Any]:
        keys = {key: self.parameters[key] for key in self.known if key in self.parameters}
        if (window := self.max_position_embeddings) is not None:
            _at_least(2, max_position_embeddings=window)
            if "max_position_embeddings" in self.known:
                keys["max_position_embeddings"] = window
            if ORIGINAL in self.known:
                keys.setdefault(ORIGINAL, window)  # ``_missing_original`` says so
        for key, argument in self.known.items():
            if argument.default is argument.empty and key not in keys:
                raise ValueError(f"{key} must be given for rope_type={self.rope_type!r}: got none")
        return keys


def _missing_original(read: RopeParameters, keys: Mapping[str, Any]) -> str | None:
    if ORIGINAL not in keys or ORIGINAL in read.parameters:
        return None
    return (
        f"{ORIGINAL} is missing for rope_type={read.rope_type!r}: "
        f"max_position_embeddings={keys[ORIGINAL]} is taken for it, which is right only if that is "
        "the length before scaling"
    )


def _unknown_keys(read: RopeParameters, keys: Mapping[str, Any]) -> str | None:
    unknown = sorted(read.parameters.keys() - read.known.keys() - _WITHOUT_EFFECT)
    knows = ", ".join(read.known) or "no key of its own"
    ignored = f"not known for rope_type={read.rope_type!r} and ignored; it knows {knows}"
    return f"{', '.join(unknown)}: {ignored}" if unknown else None


def _two_factors(read: RopeParameters, keys: Mapping[str, Any]) -> str | None:
    window = read.max_position_embeddings
    if read.rope_type not in ("yarn", "longrope") or "factor" not in keys or window is None:
        return None
    factor, original = keys["factor"], keys[ORIGINAL]
    _at_least(1, factor=factor, **{ORIGINAL: original})
    # A window equal to the original one means that the file was never told of the scaling, as Qwen
    # advises.
    if window / original in (1, factor):
        return None
    return (
        f"factor={factor:g} disagrees with max_position_embeddings / {ORIGINAL} = {window} / "
        f"{original} = "
        f"{window / original:g}: factor is used, as transformers does"
    )


def _one_mscale(read: RopeParameters, keys: Mapping[str, Any]) -> str | None:
    if read.rope_type != "yarn" or bool(keys.get("mscale")) == bool(keys.get("mscale_all_dim")):
        return None
    return "mscale and mscale_all_dim have no effect, as in transformers: both must be given"


ORIGINAL = "original_max_position_embeddings"
# each tells, of what was read and the keys that the method gets, what looks wrong
SUSPICIONS = (_missing_original, _unknown_keys, _two_factors, _one_mscale)


def warn(messages: Iterable[str], stacklevel: int) -> None:
    """Issue each message, for the line ``stacklevel`` calls up."""
    for message in messages:
        warnings.warn(message, RopeWarning, stacklevel=stacklevel)


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _at_least(low: float, **keys: Any) -> None:
    for key, value in keys.items():
        number = _plain(value)
        if not isinstance(number, int | float) or not low <= number <= LARGEST:
            raise ValueError(f"{key} must be a number of at least {low:g}: got {key}={value!r:.80}")


def _above(low: float, **keys: Any) -> None:
    for key, value in keys.items():
        number = _plain(value)
        if not isinstance(number, int | float) or not low < number <= LARGEST:
            raise ValueError(f"{key} must be a number above {low:g}: got {key}={value!r:.80}")
