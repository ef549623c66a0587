"""The conventions of a rotary embedding's configuration: the keys of a file, and the temperature of attention."""

import math
from typing import Any

import torch

from course_utils.conventions.rope_oracle import config, frequencies, llama, plain
from course_utils.conventions.rows import Convention, convention

__all__ = ["ROPE_CONFIG_CONVENTIONS"]

ROPE_CONFIG_CONVENTIONS: list[Convention] = []

_CONFIG, _TEMPERATURE = "RoPE in a config.json", "RoPE's temperature"
_LISTS = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
_LONGROPE = {"rope_type": "longrope", "factor": 4.0, **_LISTS, "original_max_position_embeddings": 256}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}
_YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256}


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _CONFIG,
    "Where is the base?",
    "`rope_parameters['rope_theta']`, since transformers 5",
    "`rope_theta` beside it (transformers 4 and most files), `rotary_emb_base` (GPT-NeoX), `base` in papers",
    "old files are read as before: the value moves",
)
def _base() -> str:
    assert llama(rope_theta=5e5).rope_parameters == {"rope_theta": 5e5, "rope_type": "default"}
    assert llama().rope_parameters["rope_theta"] == 10_000.0
    assert config("GPTNeoX", rotary_emb_base=2e4).rope_parameters["rope_theta"] == 2e4
    return "rope_theta=500,000 is found in rope_parameters; without one, 10,000"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _CONFIG,
    "rope_scaling or rope_parameters?",
    "`rope_parameters`, with `rope_type` inside",
    "`rope_scaling`, with `rope_type` or, older still, `type` inside",
    "rename; `rope_scaling: null` is `rope_type: default`",
)
def _spelling() -> str:
    new = llama(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0})
    for name in ("rope_type", "type"):
        old = llama(rope_scaling={name: "linear", "factor": 4.0})
        assert torch.equal(frequencies(old)[0], frequencies(new)[0])
        assert old.rope_parameters["rope_type"] == "linear"
    assert llama(rope_scaling=None).rope_parameters["rope_type"] == "default"
    return "three spellings, the same frequencies"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _CONFIG,
    "Which name has which method?",
    "`linear` is PI; `dynamic` NTK by length; `yarn`; `llama3`; `longrope`; `proportional`",
    "`su` was an early name of `longrope`; NTK-aware with a fixed factor has no name: it is another `rope_theta`",
    "NTK-aware: `rope_theta · factor^(d/(d − 2))`",
)
def _methods() -> str:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    assert {"linear", "dynamic", "yarn", "llama3", "longrope", "proportional"} <= set(ROPE_INIT_FUNCTIONS)
    d, factor = 16, 4.0
    unscaled, ntk = plain(d), plain(d, 10_000.0 * factor ** (d / (d - 2)))
    pi, _ = frequencies(llama(d, rope_scaling={"rope_type": "linear", "factor": factor}))
    assert torch.allclose(pi, unscaled / factor)
    assert math.isclose(ntk[-1], unscaled[-1] / factor, rel_tol=1e-5)
    assert ntk[0] == unscaled[0]
    return "PI divides all by 4; NTK-aware the slowest by 4, the fastest by 1"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _CONFIG,
    "Which keys does it need?",
    "`factor`: linear, dynamic, yarn, llama3. `original_max_position_embeddings`: yarn, llama3, longrope. "
    "`low_freq_factor`, `high_freq_factor`: llama3. `short_factor`, `long_factor`: longrope",
    "`beta_fast`, `beta_slow`: yarn, 32 and 1 by default; in the paper β and α",
    "write them all: a missing one is a `KeyError`, or an assumption (next row)",
)
def _keys() -> str:
    needed: dict[str, dict[str, Any]] = {
        "linear": {"factor": 4.0},
        "dynamic": {"factor": 4.0},
        "yarn": {"factor": 4.0},
        "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "longrope": _LISTS,
    }
    refused = 0
    for method, settings in needed.items():
        for missing in settings:
            kept = {key: value for key, value in settings.items() if key != missing}
            try:
                llama(rope_scaling={"rope_type": method, **kept})
            except KeyError as error:
                refused += missing in str(error)
    assert refused == 8
    named = {**_YARN, "beta_fast": 32.0, "beta_slow": 1.0}
    assert torch.equal(frequencies(llama(rope_scaling=dict(_YARN)))[0], frequencies(llama(rope_scaling=named))[0])
    return f"{refused} configs, each without one of these keys, are refused"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _CONFIG,
    "How long was it trained?",
    "`original_max_position_embeddings` in `rope_parameters`; left out, it is taken to be `max_position_embeddings`",
    "beside `rope_scaling`, in Phi-3's files. The window itself: `max_position_embeddings`, `n_positions` (GPT-2)",
    "write it: left out, the frequencies of yarn are those of another window",
)
def _trained_length() -> str:
    silent = llama(window=2048, rope_scaling={"rope_type": "yarn", "factor": 8.0})
    assert silent.rope_parameters["original_max_position_embeddings"] == 2048
    written = llama(window=2048, rope_scaling=dict(_YARN))
    assert not torch.equal(frequencies(silent)[0], frequencies(written)[0])
    lists = {"rope_type": "longrope", "factor": 8.0, **_LISTS}
    phi3 = config(
        "Phi3", hidden_size=64, num_attention_heads=4, original_max_position_embeddings=512, rope_scaling=lists
    )
    assert phi3.rope_parameters["original_max_position_embeddings"] == 512
    return "left out of a window of 2,048: 2,048, whatever the factor"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _CONFIG,
    "Does a short text change?",
    "`linear`, `yarn`, `llama3`: yes, at every length. `dynamic`: not up to `max_position_embeddings`. "
    "`longrope`: its short list up to the trained length",
    "YaRN's paper also lets the factor grow with the text; transformers' yarn does not",
    "two configs: without scaling for short texts, with it for long ones",
)
def _static() -> str:
    unscaled = plain(16)
    longrope = llama(window=1024, rope_scaling=dict(_LONGROPE))
    yarn = llama(window=2048, rope_scaling=dict(_YARN))
    dynamic = llama(window=256, rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    linear = llama(window=1024, rope_scaling={"rope_type": "linear", "factor": 4.0})
    for static in (linear, yarn, llama(window=1024, rope_scaling=dict(_LLAMA3))):
        assert torch.equal(frequencies(static, 16)[0], frequencies(static, 2048)[0])
        assert not torch.allclose(frequencies(static, 16)[0], unscaled)
    assert torch.allclose(frequencies(dynamic, 256)[0], unscaled)
    assert not torch.allclose(frequencies(dynamic, 257)[0], unscaled)
    assert torch.allclose(frequencies(longrope, 256)[0], unscaled)
    assert torch.allclose(frequencies(longrope, 257)[0], unscaled / 4)
    return "linear, yarn and llama3 differ at length 16, dynamic and longrope from length 257 on"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _TEMPERATURE,
    "What does attention_factor multiply?",
    "cos and sin, of queries and keys: a logit is multiplied by its square",
    "YaRN's paper: $\\sqrt{1/t} = 0.1 \\ln s + 1$ on queries and keys, or 1/t on the logits",
    "`logit_scale = attention_factor²`",
)
def _attention_factor() -> str:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    yarn = llama(window=2048, rope_scaling=dict(_YARN))
    factor = 0.1 * math.log(8) + 1
    assert math.isclose(frequencies(yarn)[1], factor)
    q = torch.ones(1, 4, 1, 16)  # (B, H, T, D)
    cos, sin = LlamaRotaryEmbedding(yarn)(q, torch.tensor([[5]]))
    turned, _ = apply_rotary_pos_emb(q, q, cos, sin)
    gain = ((turned**2).sum() / (q**2).sum()).item()
    assert math.isclose(gain, factor**2, rel_tol=1e-5)
    return f"yarn at factor 8: {factor:.3f}, so logits grow by {gain:.3f}"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _TEMPERATURE,
    "What if it is left out?",
    "yarn: 0.1 ln s + 1. longrope: $\\sqrt{1 + \\ln s / \\ln L}$. linear, dynamic, llama3: 1",
    "a number in the file replaces the formula, in transformers; not every server reads it",
    "write it into the file when another program reads it",
)
def _default_factor() -> str:
    longrope = llama(window=1024, rope_scaling=dict(_LONGROPE))
    assert math.isclose(frequencies(longrope)[1], math.sqrt(1 + math.log(4) / math.log(256)))
    given = llama(window=2048, rope_scaling={**_YARN, "attention_factor": 1.5})
    assert frequencies(given)[1] == 1.5
    for others in (dict(_LLAMA3), {"rope_type": "linear", "factor": 4.0}, {"rope_type": "dynamic", "factor": 4.0}):
        assert frequencies(llama(window=1024, rope_scaling=others))[1] == 1.0
    return f"longrope, 256 to 1,024: {frequencies(longrope)[1]:.3f}"


@convention(
    ROPE_CONFIG_CONVENTIONS,
    _TEMPERATURE,
    "And with mscale?",
    "`(0.1·mscale·ln s + 1) / (0.1·mscale_all_dim·ln s + 1)`, if both are given",
    "DeepSeek-V3 gives both as 1: cos and sin keep 1, and the softmax's scale takes the square instead",
    "count it once: in cos and sin, or in the softmax",
)
def _mscale() -> str:
    both = llama(window=2048, rope_scaling={**_YARN, "mscale": 1.0, "mscale_all_dim": 1.0})
    other = llama(window=2048, rope_scaling={**_YARN, "mscale": 0.707, "mscale_all_dim": 1.0})
    assert frequencies(both)[1] == 1.0
    ratio = (0.1 * 0.707 * math.log(8) + 1) / (0.1 * math.log(8) + 1)
    assert math.isclose(frequencies(other)[1], ratio)
    return f"both 1: factor 1; 0.707 and 1: {ratio:.3f}"
