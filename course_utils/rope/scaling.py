"""RoPE scaled to a longer context (chapter 13): one function a method, and ``rope_frequencies``, which picks one.

Notation: d is the rotary dimension, k = 0 … d/2 - 1 a pair, f_k = base^(-2k/d) its trained frequency, L the trained
window, s the factor. A pair makes L · f_k / 2π turns in the window. Pairs of many turns tell neighbours apart; pairs
of less than one turn have seen only a part of their circle in training.

Every method takes the rotary dimension, the trained base and, by keyword, the keys that published configurations have.
It returns the frequencies, (d/2,) float64, and the attention factor: cosine and sine are multiplied by it, so the
scores by its square. A missing or impossible key is a ``ValueError`` that names it. An odd d, as a partial factor may
give, is rounded up to whole pairs and keeps its exponents 2k/d. What is computed is what ``ROPE_INIT_FUNCTIONS`` of
transformers 5.23 computes, in float64.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "ROPE_TYPES",
    "RopeParameters",
    "RopeWarning",
    "abf",
    "dynamic",
    "linear",
    "llama3",
    "longrope",
    "ntk",
    "partial_inv_freq",
    "proportional",
    "rope_frequencies",
    "turns",
    "yarn",
    "yarn_paper_ramp",
    "yarn_ramp",
]

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
    """Return f_k = base^(-2k/d), (⌈d/2⌉,) float64: ``rope_inv_freq`` for the dimensions of a head that turn."""
    _require(dim >= 2, "dim", dim, "at least 2")
    _require(_is_number(base) and 1 < base <= 1e300, "rope_theta", base, "a number above 1")
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


# -- one function a method ---------------------------------------------------------------------------------------------


def abf(dim: int, base: float = 500_000.0) -> Frequencies:
    """Adjusted base frequency: trained again with a larger base, which slows the slow pairs most and the first not.

    Formula: g_k = base^(-2k/d); attention factor 1. In a configuration it is ``rope_type`` ``default`` with another
    ``rope_theta``; with the trained base these are the frequencies of an unscaled model.

    Source: Xiong et al. 2023, §2.1; ``compute_default_rope_parameters`` in transformers.
    """
    return partial_inv_freq(dim, base), 1.0


def linear(dim: int, base: float = 10_000.0, *, factor: float) -> Frequencies:
    """Position interpolation: all pairs slower by the factor, as if the positions were squeezed into the window.

    Formula: g_k = f_k / s; attention factor 1.

    Source: Chen et al. 2023, §2.3; ``_compute_linear_scaling_rope_parameters`` in transformers.
    """
    _at_least(1, factor=factor)
    return partial_inv_freq(dim, base) / factor, 1.0


def ntk(dim: int, base: float = 10_000.0, *, factor: float) -> Frequencies:
    """NTK-aware scaling: the base for which the last pair turns slower by exactly the factor, and the first as before.

    Formula: g_k = (base · s^(d/(d-2)))^(-2k/d); attention factor 1. The reach falls short of s windows.

    Source: bloc97's "NTK-aware scaled RoPE", 2023; Peng et al. 2023 (YaRN), §3.1. transformers has this static form
    for Hunyuan alone, as ``alpha``; ``ntk`` is the course's name.
    """
    _at_least(1, factor=factor)
    if dim <= 2:
        raise ValueError(f"the rotary dimension must be above 2 for NTK-aware scaling: got dim={dim}")
    return partial_inv_freq(dim, base * factor ** (dim / (dim - 2))), 1.0


def dynamic(
    dim: int, base: float = 10_000.0, *, factor: float, max_position_embeddings: float, seq_len: float | None = None
) -> Frequencies:
    """Dynamic NTK: NTK-aware scaling by what the present length needs: nothing up to the window, more and more beyond.

    Formula: n = max(seq_len, L), stretch = s · n / L - (s - 1), then ``ntk`` by the stretch; attention factor 1. At s
    windows that is not s but (s - 1)² + s: 57 for a factor of 8.

    Keys: L is ``max_position_embeddings``, the model's present window, and not ``original_max_position_embeddings``.
    ``seq_len`` is the length so far; None counts as short.

    Source: emozilla's "dynamically scaled RoPE", 2023; Peng et al. 2023 (YaRN), §3.3;
    ``_compute_dynamic_ntk_parameters`` in transformers.
    """
    _at_least(1, factor=factor, seq_len=1 if seq_len is None else seq_len)
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
    """YaRN as the world runs it: fast pairs stay, slow ones are divided by the factor, between them lies a ramp.

    Formula: the pair that makes β turns in L is k(β) = d · ln(L / 2πβ) / (2 ln base). Pairs up to k(``beta_fast``) are
    kept, from k(``beta_slow``) on they are f_k / s, and the share between falls along a straight line in the *index*
    of the pair, its ends rounded outwards to whole pairs with ``truncate``. (The paper prints a line in the number of
    turns, ``yarn_paper_ramp``: its frequencies differ by up to 2.3 times.)

    Temperature: attention factor m(1), with m(a) = 0.1 · a · ln s + 1; with ``mscale`` and ``mscale_all_dim`` both
    given and not zero, m(mscale) / m(mscale_all_dim), as in DeepSeek's models; ``attention_factor`` wins over both.

    Source: Peng et al. 2023, §3.2 and §3.4; jquesnelle/yarn; ``_compute_yarn_parameters`` in transformers.
    """
    _at_least(1, factor=factor)
    _at_least(2, original_max_position_embeddings=original_max_position_embeddings)
    _above(0, beta_fast=beta_fast, beta_slow=beta_slow)
    _require(beta_fast >= beta_slow, "beta_fast", beta_fast, f"at least beta_slow={beta_slow}")
    _at_least(0, mscale=mscale or 0, mscale_all_dim=mscale_all_dim or 0)
    _require(isinstance(truncate, bool), "truncate", truncate, "true or false")
    inv_freq = partial_inv_freq(dim, base)

    def pair_of(full_turns: float) -> float:  # solves L · base^(-2k/d) / 2π = full_turns for k
        return dim * math.log(original_max_position_embeddings / (2 * math.pi * full_turns)) / (2 * math.log(base))

    low, high = pair_of(beta_fast), pair_of(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)  # d - 1 as in the reference, although the last pair is d/2 - 1
    if low == high:
        high += 0.001  # the reference's way to avoid dividing by zero
    kept = 1 - ((torch.arange(len(inv_freq), dtype=torch.float64) - low) / (high - low)).clamp(0, 1)

    def m(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0

    if attention_factor is None:
        attention_factor = m(mscale) / m(mscale_all_dim) if mscale and mscale_all_dim else m(1.0)
    _above(0, attention_factor=attention_factor)
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
    """Llama 3.1's scaling: the ramp that the YaRN paper prints, straight in the number of turns, without temperature.

    Formula: r = L · f_k / 2π turns; the share γ = (r - low) / (high - low), clamped to 0 … 1, is kept, and
    g_k = γ · f_k + (1 - γ) · f_k / s; attention factor 1. Where low equals high, as in Llama 4 Scout, γ is a step.

    Keys: ``low_freq_factor`` and ``high_freq_factor`` are numbers of turns: 1 and 4 in Llama 3.1. With 1 and 32 these
    are the paper's frequencies.

    Source: llama-models, ``models/llama3/model.py``; Peng et al. 2023 (YaRN), §3.2; ``_compute_llama3_parameters`` in
    transformers.
    """
    _at_least(1, factor=factor)
    _at_least(2, original_max_position_embeddings=original_max_position_embeddings)
    _above(0, low_freq_factor=low_freq_factor, high_freq_factor=high_freq_factor)
    at_least_low = f"at least low_freq_factor={low_freq_factor}"
    _require(high_freq_factor >= low_freq_factor, "high_freq_factor", high_freq_factor, at_least_low)
    inv_freq = partial_inv_freq(dim, base)
    kept = yarn_paper_ramp(inv_freq, original_max_position_embeddings, low_freq_factor, high_freq_factor)
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
    """LongRoPE: a factor for each pair, found by search; one list up to the original window, another beyond.

    Formula: g_k = f_k / λ_k, with λ from ``short_factor`` for a ``seq_len`` of up to L (or None), else ``long_factor``.

    Temperature: √(1 + ln s / ln L), L the *original* length; s is ``factor``, or where it is not given
    ``max_position_embeddings`` / L. ``attention_factor`` wins, and over it PhiMoE's ``short_mscale``, ``long_mscale``.

    Source: Ding et al. 2024, §3, and its code, ``rope/longrope.py``; ``_compute_longrope_parameters`` in transformers.
    """
    _at_least(2, original_max_position_embeddings=original_max_position_embeddings)
    if factor is None:
        window = max_position_embeddings
        if window is None:
            raise ValueError("factor must be given, or max_position_embeddings, from which it follows: got neither")
        _at_least(2, max_position_embeddings=window)
        factor = window / original_max_position_embeddings
    _at_least(1, factor=factor, seq_len=1 if seq_len is None else seq_len)
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(factor) / math.log(original_max_position_embeddings))
    short_mscale = attention_factor if short_mscale is None else short_mscale
    long_mscale = attention_factor if long_mscale is None else long_mscale
    _above(0, attention_factor=attention_factor, short_mscale=short_mscale, long_mscale=long_mscale)
    inv_freq = partial_inv_freq(dim, base)
    for key, factors in (("short_factor", short_factor), ("long_factor", long_factor)):
        is_list = isinstance(factors, list | tuple) and len(factors) == len(inv_freq)
        _require(is_list and all(_is_number(each) and 0 < each <= LARGEST for each in factors), key, factors,
                 f"a list of {len(inv_freq)} positive numbers, one per rotary pair")  # fmt: skip

    is_long = (seq_len or 1) > original_max_position_embeddings
    factors, attention_factor = (long_factor, long_mscale) if is_long else (short_factor, short_mscale)
    return inv_freq / inv_freq.new_tensor(factors), float(attention_factor)


def proportional(
    dim: int, base: float = 10_000.0, *, factor: float = 1.0, partial_rotary_factor: float = 1.0
) -> Frequencies:
    """p-RoPE: the frequencies of the whole head, of which the slow pairs do not turn at all.

    Formula: g_k = f_k / s for the first ``partial_rotary_factor`` of the pairs, 0 for the others; attention factor 1.
    ``dim`` is the dimension of the whole head, even, and pair k is dimensions k and k + d/2. Partial rotation, in
    contrast, squeezes the whole range of wavelengths into fewer dimensions.

    Source: Barbero et al. 2024 ("Round and round we go"); ``_compute_proportional_rope_parameters`` in transformers,
    used by Gemma 4.
    """
    _require(dim % 2 == 0, "dim", dim, "even")
    _at_least(1, factor=factor)
    _at_least(0, partial_rotary_factor=partial_rotary_factor)
    _require(partial_rotary_factor <= 1, "partial_rotary_factor", partial_rotary_factor, "at most 1")
    inv_freq = partial_inv_freq(dim, base)
    inv_freq[int(partial_rotary_factor * dim // 2) :] = 0.0
    return inv_freq / factor, 1.0


# -- YaRN's two ramps --------------------------------------------------------------------------------------------------


def yarn_ramp(
    dim: int,
    base: float,
    original_length: float,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Tensor:
    """Return the share of each frequency that ``yarn`` keeps, (d/2,) from 0 to 1: straight in the index of the pair."""
    options: dict[str, Any] = {"beta_fast": beta_fast, "beta_slow": beta_slow, "truncate": truncate}
    halved, _ = yarn(dim, base, factor=2.0, original_max_position_embeddings=original_length, **options)
    return 2 * halved / partial_inv_freq(dim, base) - 1  # f (1 + kept) / 2, solved for kept


def yarn_paper_ramp(inv_freq: Tensor, original_length: float, alpha: float = 1.0, beta: float = 32.0) -> Tensor:
    """Return the ramp that the YaRN paper prints, (d/2,) from 0 to 1: straight in the number of *turns*.

    Pairs of fewer than ``alpha`` turns in ``original_length`` are divided by the factor, of more than ``beta`` kept;
    where the two are equal, the ramp is a step, and pairs from there on are kept. Llama 3.1 has (1, 4).

    Source: Peng et al. 2023 (YaRN), §3.2, γ(r).
    """
    if alpha == beta:
        return (turns(inv_freq, original_length) >= alpha).to(inv_freq.dtype)
    return ((turns(inv_freq, original_length) - alpha) / (beta - alpha)).clamp(0, 1)


# -- all of them by their names in a configuration ---------------------------------------------------------------------

METHODS: dict[str, Callable[..., Frequencies]] = {
    "default": abf,
    "linear": linear,
    "dynamic": dynamic,
    "ntk": ntk,
    "yarn": yarn,
    "llama3": llama3,
    "longrope": longrope,
    "proportional": proportional,
}
ROPE_TYPES = tuple(METHODS)

# What some models keep in this dictionary though it leaves the frequencies as they are: which axis of an image turns
# a pair, how queries grow with their position, and lengths that the method does not need.
_WITHOUT_EFFECT = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
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
    """Return the rotary frequencies and the attention factor that a model's ``rope_parameters`` ask for.

    ``rope_type`` names the method: ``default`` or one of this module's functions, whose keyword arguments are the keys
    that it reads. Every type reads ``rope_theta`` (10,000) and ``partial_rotary_factor`` (1); null counts as absent.

    Args:
        rope_parameters: the dictionary of a ``config.json``; of one layer type where it has several. None is
            ``default``. The older key ``type`` is read where ``rope_type`` is absent.
        head_dim: the dimension of a head.
        max_position_embeddings: the model's window, for ``dynamic``, and for ``longrope`` without a ``factor``; needed
            only where the dictionary has none.
        seq_len: the length of the sequence so far, for ``dynamic`` and ``longrope``; None counts as short.

    Returns:
        inv_freq, (rotary_dim/2,) float64 (head_dim/2 for ``proportional``), and what to multiply cosine and sine by,
        so that scores are multiplied by its square.

    Raises:
        ValueError: a value is missing or impossible; the message names the key, what was given, what is expected.

    Warns:
        RopeWarning: a value looks wrong; the message says what was assumed.

    >>> inv_freq, attention_factor = rope_frequencies({"rope_type": "linear", "factor": 4.0}, 4)
    >>> inv_freq, attention_factor
    (tensor([0.2500, 0.0025], dtype=torch.float64), 1.0)
    """
    parameters = RopeParameters(rope_parameters, head_dim, max_position_embeddings)
    warn(parameters.warnings, stacklevel=3)
    return parameters.frequencies(seq_len)


class RopeParameters:
    """The ``rope_parameters`` of one type of layer, checked but for the values, which the method checks.

    ``rope_type`` and ``base`` are what they say, ``rotary_dim`` the dimensions of a head that turn, ``warnings`` what
    looks suspicious.
    """

    def __init__(
        self, parameters: Mapping[str, Any] | None, head_dim: int, max_position_embeddings: int | None = None
    ) -> None:
        if not isinstance(parameters, Mapping | None):
            raise ValueError(f"rope_parameters must be a dictionary or None: got {parameters!r}")
        _require(isinstance(head_dim, int) and 2 <= head_dim <= 1 << 16, "head_dim", head_dim, "from 2 to 65,536")
        self.parameters = {key: value for key, value in (parameters or {}).items() if value is not None}
        self.head_dim = head_dim
        inside = self.parameters.get("max_position_embeddings")
        self.max_position_embeddings = inside if max_position_embeddings is None else max_position_embeddings
        self.warnings: list[str] = []
        self.rope_type = self._rope_type()
        self.base = self.parameters.get("rope_theta", 10_000.0)
        _above(1, rope_theta=self.base)
        self._dim = self._turning()
        self.rotary_dim = 2 * math.ceil(self._dim / 2)
        self._keys = self._keys_of_method()

    def frequencies(self, seq_len: int | None = None) -> Frequencies:
        """Return inv_freq, (rotary_dim/2,) float64, and the attention factor, for a sequence of this length."""
        length = {"seq_len": seq_len} if self.rope_type in ("dynamic", "longrope") else {}
        return METHODS[self.rope_type](self._dim, self.base, **self._keys, **length)

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
            return self._keys["max_position_embeddings"] / self._keys["original_max_position_embeddings"]
        return self._keys.get("factor", 1.0)

    def _rope_type(self) -> str:
        if nested := [key for key, value in self.parameters.items() if isinstance(value, Mapping)]:
            raise ValueError(f"rope_parameters must be of one layer type: pass that of one of {', '.join(nested)}")
        names = [self.parameters[key] for key in ("rope_type", "type") if key in self.parameters]
        if not names and not self.parameters.keys() <= _WITHOUT_EFFECT:
            raise ValueError(f"rope_type must be given with {', '.join(self.parameters)}: one of {', '.join(METHODS)}")
        name = names[0] if names else "default"
        _require(name in ROPE_TYPES, "rope_type", name, f"one of {', '.join(METHODS)}")
        if names[1:] not in ([], [name]):
            self.warnings.append(f"rope_type={name!r} is used, and type={names[1]!r} is ignored")
        return name

    def _turning(self) -> int:
        """The dimensions of a head that turn, rounded down as in transformers; possibly odd."""
        if self.rope_type == "proportional":
            return self.head_dim
        partial = self.parameters.get("partial_rotary_factor", 1.0)
        _above(0, partial_rotary_factor=partial)
        dim = int(self.head_dim * partial)
        got = f"got partial_rotary_factor={partial}, head_dim={self.head_dim}, so {dim}"
        if not 0 < 2 * math.ceil(dim / 2) <= self.head_dim:
            raise ValueError(f"the rotary dimension must be whole pairs within the head: {got}")
        if dim % 2:
            self.warnings.append(f"the rotary dimension should be even: {got}; it is rounded up to {dim + 1}")
        return dim

    def _keys_of_method(self) -> dict[str, Any]:
        """The arguments of the method's function."""
        parameters, window, original = self.parameters, self.max_position_embeddings, "original_max_position_embeddings"
        arguments = inspect.signature(METHODS[self.rope_type]).parameters.values()
        known = {argument.name: argument for argument in arguments if argument.kind is argument.KEYWORD_ONLY}
        known.pop("seq_len", None)
        keys = {key: parameters[key] for key in known if key in parameters}
        if window is not None:
            _at_least(2, max_position_embeddings=window)
            keys |= {key: window for key in known if key == "max_position_embeddings"}
        if original in known and original not in keys and window is not None:
            keys[original] = window
            self.warnings.append(
                f"{original} is missing for rope_type={self.rope_type!r}: max_position_embeddings={window} is taken "
                "for it, which is right only if that is the length before scaling"
            )
        for key, argument in known.items():
            if argument.default is argument.empty and key not in keys:
                raise ValueError(f"{key} must be given for rope_type={self.rope_type!r}: got none")
        self.warnings += _suspicions(self.rope_type, parameters, window, known)
        return keys


def _suspicions(rope_type: str, parameters: Mapping[str, Any], window: Any, known: Mapping[str, Any]) -> list[str]:
    found = []
    if unknown := sorted(parameters.keys() - known.keys() - _WITHOUT_EFFECT):
        knows = ", ".join(known) or "no key of its own"
        found.append(f"{', '.join(unknown)}: not known for rope_type={rope_type!r} and ignored; it knows {knows}")
    factor: Any = parameters.get("factor")
    original: Any = parameters.get("original_max_position_embeddings")
    if rope_type == "dynamic" and original is not None:
        found.append("original_max_position_embeddings: ignored for rope_type='dynamic', as in transformers")
    possible = all(_is_number(value) and 0 < value <= LARGEST for value in (factor, original, window))
    # A window equal to the original one means that the file was never told of the scaling, as Qwen advises.
    if rope_type in ("yarn", "longrope") and possible and window / original not in (1, factor):
        found.append(
            f"factor={factor:g} disagrees with max_position_embeddings / original_max_position_embeddings = "
            f"{window} / {original} = {window / original:g}: factor is used, as transformers does"
        )
    if rope_type == "yarn" and bool(parameters.get("mscale")) != bool(parameters.get("mscale_all_dim")):
        found.append("mscale and mscale_all_dim have no effect, as in transformers: both must be given and not zero")
    return found


def warn(messages: Sequence[str], stacklevel: int) -> None:
    """Issue each message, for the line ``stacklevel`` calls up."""
    for message in messages:
        warnings.warn(message, RopeWarning, stacklevel=stacklevel)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require(condition: bool, key: str, value: Any, need: str) -> None:
    if not condition:
        raise ValueError(f"{key} must be {need}: got {key}={value!r:.80}")


def _at_least(low: float, **keys: Any) -> None:
    for key, value in keys.items():
        _require(_is_number(value) and low <= value <= LARGEST, key, value, f"a number of at least {low:g}")


def _above(low: float, **keys: Any) -> None:
    for key, value in keys.items():
        _require(_is_number(value) and low < value <= LARGEST, key, value, f"a number above {low:g}")
