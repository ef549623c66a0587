"""Positions: sinusoidal, rotary, ALiBi, T5; ways to scale RoPE; a model's config.json (chapters 11 to 15)."""

from course_utils.rope.biases import alibi_bias, alibi_slopes, t5_relative_bucket
from course_utils.rope.embedding import RotaryEmbedding
from course_utils.rope.formulas import (
    blend,
    dynamic_ntk_factor,
    longrope_attention_factor,
    ntk_base,
    partial_inv_freq,
    turns,
    yarn_attention_factor,
    yarn_correction_range,
    yarn_paper_ramp,
    yarn_ramp,
)
from course_utils.rope.longrope import Candidate, critical_dimension, search
from course_utils.rope.rotation import (
    LAYOUTS,
    apply_rope,
    axial_rope_2d,
    half_to_interleaved,
    interleaved_to_half,
    rope_cos_sin,
    rope_inv_freq,
    sinusoidal,
)
from course_utils.rope.scaling import (
    ROPE_TYPES,
    RopeConfig,
    RopeMethod,
    RopeWarning,
    from_config,
    rope_frequencies,
    rope_method,
)

__all__ = [
    "LAYOUTS",
    "ROPE_TYPES",
    "Candidate",
    "RopeConfig",
    "RopeMethod",
    "RopeWarning",
    "RotaryEmbedding",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "axial_rope_2d",
    "blend",
    "critical_dimension",
    "dynamic_ntk_factor",
    "from_config",
    "half_to_interleaved",
    "interleaved_to_half",
    "longrope_attention_factor",
    "ntk_base",
    "partial_inv_freq",
    "rope_cos_sin",
    "rope_frequencies",
    "rope_inv_freq",
    "rope_method",
    "search",
    "sinusoidal",
    "t5_relative_bucket",
    "turns",
    "yarn_attention_factor",
    "yarn_correction_range",
    "yarn_paper_ramp",
    "yarn_ramp",
]
