"""The checks of chapter 13: NTK-aware frequencies, YaRN's, and all ways of scaling behind ``rope_parameters``."""

from typing import Any

from course_utils.check.calls import Call, Probe
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.check.rope_longer_mistakes import (
    add_llama3_mistakes,
    add_longrope_mistakes,
    add_proportional_mistakes,
)
from course_utils.check.rope_ntk_mistakes import (
    add_dynamic_mistakes,
    add_frequency_mistakes,
    add_linear_mistakes,
    add_ntk_mistakes,
)
from course_utils.check.rope_recipes import METHODS, rope_with, yarn_method
from course_utils.check.rope_temperature_mistakes import add_temperature_mistakes, add_yarn_option_mistakes
from course_utils.check.rope_yarn_mistakes import add_yarn_mistakes
from course_utils.rope import blend, ntk_base, partial_inv_freq, yarn_attention_factor, yarn_ramp
from course_utils.rope import rope_frequencies as every_method

__all__ = ["ntk_inv_freq", "rope_frequencies", "yarn_frequencies"]

# Of the frequency itself: the slowest pair is a millionth of the fastest. Right float32 forms are off by up to 3e-6,
# the mildest mistake, clamping YaRN's ramp elsewhere, by a few percent.
_RIGHT = Tolerance(relative=1e-5, absolute=1e-12)
_FLOAT64 = Tolerance(relative=1e-9, absolute=1e-15)
_ROUNDED = (
    "The frequencies are rounded to float32. That moves a cosine at position 131,071 by up to 0.004; torch.float64 in "
    "arange, up to the cosine, avoids it."
)


def _probe(name: str, stage: str, call: Call, compares: tuple[str, ...] | None = None, remark: str = "") -> Probe:
    beyond = _FLOAT64 if remark else None
    return Probe(name, stage, call, compares=compares, tolerance=_RIGHT, remark=remark, remark_beyond=beyond)


# --- one formula at a time ---

NTK = Catalogue()
add_ntk_mistakes(NTK)


@NTK.mistake(
    title="position interpolation",
    wrong="Every frequency is divided by the factor.",
    matters="That is position interpolation, which blurs neighbours; NTK-aware scaling spares the fast pairs.",
    hint="What is the first frequency of your result? For any base, what is base to the power of 0?",
)
def divides_all(dim, base, factor):
    return partial_inv_freq(dim, base) / factor


@NTK.mistake(
    title="nothing is stretched",
    wrong="The factor changes nothing.",
    matters="The slowest pair should come out divided by it.",
    hint="Which base makes the last frequency s times smaller?",
)
def unscaled(dim, base, factor):
    return partial_inv_freq(dim, base)


def _ntk_inv_freq(dim, base, factor):
    return partial_inv_freq(dim, ntk_base(base, factor, dim))


def _ntk_call(dim: int, base: float, factor: float) -> Call:
    return Call({"dim": dim, "base": base, "factor": factor})


ntk_inv_freq = Check(
    "ntk_inv_freq",
    _ntk_inv_freq,
    [
        _probe("8 dimensions, factor 4", "frequencies", _ntk_call(8, 10_000.0, 4.0), remark=_ROUNDED),
        _probe("16 dimensions, factor 8", "frequencies", _ntk_call(16, 10_000.0, 8.0)),
        _probe("another base", "frequencies", _ntk_call(12, 500_000.0, 2.5)),
        _probe("factor 1", "frequencies", _ntk_call(8, 100.0, 1.0)),
    ],
    NTK,
    any_dtype=True,
)

YARN = Catalogue()
for add_mistakes in (add_yarn_mistakes, add_temperature_mistakes):
    add_mistakes(YARN, lambda frequencies: frequencies)


def _yarn_frequencies(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    ramp = yarn_ramp(dim, base, original_length, beta_fast, beta_slow, truncate)
    return blend(partial_inv_freq(dim, base), factor, ramp), yarn_attention_factor(factor)


def _yarn_call(dim: int, base: float, factor: float, original_length: int, **options: Any) -> Call:
    return Call({"dim": dim, "base": base, "factor": factor, "original_length": original_length, **options})


_BOTH_BETAS: dict[str, Any] = {"beta_fast": 16.0, "beta_slow": 2.0}
_INV_FREQ = ("inv_freq",)

yarn_frequencies = Check(
    "yarn_frequencies",
    _yarn_frequencies,
    [
        _probe("a window of 512", "ramp", _yarn_call(16, 10_000.0, 8.0, 512), _INV_FREQ, _ROUNDED),
        _probe("another base", "ramp", _yarn_call(32, 500_000.0, 4.0, 8192), _INV_FREQ),
        _probe("a window where no pair makes 32 turns", "ramp", _yarn_call(16, 10_000.0, 8.0, 64), _INV_FREQ),
        _probe("a window where all pairs make a turn", "ramp", _yarn_call(16, 100.0, 8.0, 2048), _INV_FREQ),
        _probe("other betas", "ramp", _yarn_call(16, 10_000.0, 8.0, 512, **_BOTH_BETAS), _INV_FREQ),
        _probe("truncate=False", "ramp", _yarn_call(16, 10_000.0, 8.0, 512, truncate=False), _INV_FREQ),
        _probe("factor 8", "temperature", _yarn_call(16, 10_000.0, 8.0, 512)),
        _probe("factor 40", "temperature", _yarn_call(16, 10_000.0, 40.0, 4096)),
    ],
    YARN,
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
)

# --- all of them ---

MISTAKES = Catalogue()
add_frequency_mistakes(MISTAKES)
add_linear_mistakes(MISTAKES)
add_ntk_mistakes(MISTAKES, lambda ntk: rope_with(ntk=lambda asked: (ntk(asked.dim, asked.base, asked.factor), 1.0)))


def _ntk_over_the_head(asked):
    return partial_inv_freq(asked.dim, ntk_base(asked.base, asked.factor, asked.head_dim)), 1.0


MISTAKES.add(
    "ntk_head_dim",
    "the head's dimension in NTK's exponent",
    "The exponent d/(d-2) takes head_dim for d, where only a part of the head rotates.",
    "The last pair that rotates then misses its frequency divided by s.",
    "With head_dim=16 and partial_rotary_factor=0.5, which d has the last pair that rotates?",
    rope_with(ntk=_ntk_over_the_head),
)
add_dynamic_mistakes(MISTAKES)
for add_mistakes in (add_yarn_mistakes, add_temperature_mistakes):
    add_mistakes(MISTAKES, lambda frequencies: rope_with(yarn=yarn_method(frequencies)))
add_yarn_option_mistakes(MISTAKES, lambda method: rope_with(yarn=method))
add_llama3_mistakes(MISTAKES)
add_longrope_mistakes(MISTAKES)
add_proportional_mistakes(MISTAKES)


@MISTAKES.mistake(
    title="an unknown rope_type raises no error",
    wrong="A rope_type that does not exist raises no error.",
    matters="After a slip of the pen in a configuration file the model runs on frequencies it was not trained with.",
    hint="What does your function do where no `if` applies?",
)
def unknown_type_taken(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    rope_type = rope_parameters["rope_type"] if rope_parameters["rope_type"] in METHODS else "default"
    return rope_with()({**rope_parameters, "rope_type": rope_type}, head_dim, max_position_embeddings, seq_len)


def _rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    return every_method(rope_parameters, head_dim, max_position_embeddings, seq_len)


def _asked(rope_type: str, head_dim: int, window: int, seq_len: int | None = None, **options: Any) -> Call:
    parameters = {"rope_type": rope_type, **options}
    call = Call({"rope_parameters": parameters, "head_dim": head_dim, "max_position_embeddings": window})
    return call if seq_len is None else call.replace(seq_len=seq_len)


_PARTIAL: dict[str, Any] = {"partial_rotary_factor": 0.5}
_THETA: dict[str, Any] = {"rope_theta": 10_000.0}
_LISTS: dict[str, Any] = {"short_factor": [1.0, 1.0, 1.5, 2.0], "long_factor": [1.0, 2.0, 4.0, 9.0]}


def _default_probes() -> list[Probe]:
    return [
        _probe("eight pairs", "default", _asked("default", 16, 512, **_THETA), remark=_ROUNDED),
        _probe("rope_theta of 500,000", "default", _asked("default", 16, 512, rope_theta=500_000.0)),
        _probe("no rope_theta", "default", _asked("default", 8, 512)),
        _probe("half of the head", "partial rotation", _asked("default", 16, 512, **_THETA, **_PARTIAL)),
        _probe("a quarter", "partial rotation", _asked("default", 32, 512, **_THETA, partial_rotary_factor=0.25)),
    ]


def _stretched_probes() -> list[Probe]:
    """Linear, NTK-aware, dynamic. The longest dynamic call comes first: what is remembered shows in the others."""
    dynamic: dict[str, Any] = {"factor": 4.0, **_THETA}
    lengths = (
        ("10 windows long", 640),
        ("4 windows long", 256),
        ("a window long", 64),
        ("a little shorter", 56),
        ("no length", None),
        ("one more", 65),
    )
    return [
        _probe("factor 4", "linear", _asked("linear", 16, 512, factor=4.0, **_THETA)),
        _probe("half of the head", "linear", _asked("linear", 16, 512, factor=2.5, **_THETA, **_PARTIAL)),
        _probe("factor 8", "ntk", _asked("ntk", 16, 512, factor=8.0, **_THETA)),
        _probe("half of the head", "ntk", _asked("ntk", 16, 512, factor=4.0, rope_theta=500_000.0, **_PARTIAL)),
        *(_probe(name, "dynamic", _asked("dynamic", 16, 64, seq_len, **dynamic)) for name, seq_len in lengths),
        _probe(
            "factor 2, half of the head", "dynamic", _asked("dynamic", 16, 64, 100, factor=2.0, **_THETA, **_PARTIAL)
        ),
    ]


def _yarn_probes() -> list[Probe]:
    def probe(name: str, stage: str, head_dim: int, window: int, original: int, **options: Any) -> Probe:
        options = {"factor": 8.0, **_THETA, "original_max_position_embeddings": original, **options}
        compares = _INV_FREQ if stage == "yarn, frequencies" else None
        return _probe(name, stage, _asked("yarn", head_dim, window, **options), compares)

    frequencies, temperature, options = "yarn, frequencies", "yarn, temperature", "yarn, options"
    return [
        probe("a window of 512", frequencies, 16, 4096, 512),
        probe("half of the head", frequencies, 32, 4096, 512, **_PARTIAL),
        probe("a window where no pair makes 32 turns", frequencies, 16, 512, 64),
        probe("a window where all pairs make a turn", frequencies, 16, 16_384, 2048, rope_theta=100.0),
        probe("other betas", frequencies, 16, 4096, 512, **_BOTH_BETAS),
        probe("truncate=False", frequencies, 16, 4096, 512, truncate=False),
        probe("factor 8", temperature, 16, 4096, 512),
        probe("factor 40", temperature, 16, 163_840, 4096, factor=40.0),
        probe("attention_factor", options, 16, 4096, 512, attention_factor=1.3),
        probe("mscale and mscale_all_dim", options, 16, 4096, 512, mscale=0.7, mscale_all_dim=1.0),
        probe("mscale alone", options, 16, 4096, 512, mscale=0.7),
    ]


def _longer_probes() -> list[Probe]:
    llama3: dict[str, Any] = {"factor": 8.0, **_THETA, "original_max_position_embeddings": 512, "low_freq_factor": 1.0}
    longrope: dict[str, Any] = {**_THETA, "original_max_position_embeddings": 64, **_LISTS}
    lengths = (
        ("no length", None),
        ("short", 10),
        ("as long as the original window", 64),
        ("one more", 65),
        ("longer", 600),
    )
    return [
        _probe("from 1 to 4 turns", "llama3", _asked("llama3", 16, 4096, **llama3, high_freq_factor=4.0)),
        _probe("from 1 to 32 turns", "llama3", _asked("llama3", 16, 4096, **llama3, high_freq_factor=32.0)),
        _probe("half of the head", "llama3", _asked("llama3", 32, 4096, **llama3, **_PARTIAL, high_freq_factor=4.0)),
        *(_probe(name, "longrope, lists", _asked("longrope", 8, 512, n, **longrope), _INV_FREQ) for name, n in lengths),
        _probe(
            "half of the head", "longrope, lists", _asked("longrope", 16, 512, 600, **longrope, **_PARTIAL), _INV_FREQ
        ),
        _probe("no factor", "longrope, temperature", _asked("longrope", 8, 512, **longrope)),
        _probe("factor 4", "longrope, temperature", _asked("longrope", 8, 512, factor=4.0, **longrope)),
        _probe(
            "attention_factor", "longrope, temperature", _asked("longrope", 8, 512, attention_factor=1.3, **longrope)
        ),
        _probe("half of the head", "proportional", _asked("proportional", 16, 512, **_THETA, **_PARTIAL)),
        _probe("a quarter", "proportional", _asked("proportional", 16, 512, **_THETA, partial_rotary_factor=0.25)),
        _probe("the whole head, factor 4", "proportional", _asked("proportional", 16, 512, factor=4.0, **_THETA)),
    ]


_UNKNOWN = Probe(
    "a rope_type that does not exist", "unknown type", _asked("nkt", 16, 512, factor=4.0, **_THETA), is_refused=True
)

rope_frequencies = Check(
    "rope_frequencies",
    _rope_frequencies,
    [*_default_probes(), *_stretched_probes(), *_yarn_probes(), *_longer_probes(), _UNKNOWN],
    MISTAKES,
    returns=("inv_freq", "attention_factor"),
    any_dtype=True,
)
