"""Positions (chapters 13 to 17).

rotation   sinusoidal codes and rotary embeddings as functions, the two layouts of the pairs
embedding  rotary embeddings as a module
scaling    RoPE scaled to a longer context: one function a method, and ``rope_frequencies``, which
           picks one
config     what a model's config.json says of RoPE
biases     ALiBi and T5's buckets
"""

from course_utils.rooms import submodules
from course_utils.rope.biases import alibi_bias, alibi_slopes, t5_relative_bucket
from course_utils.rope.config import RopeConfig, from_config
from course_utils.rope.embedding import RotaryEmbedding
from course_utils.rope.rotation import (
    apply_rope,
    axial_rope_2d,
    half_to_interleaved,
    interleaved_to_half,
    layout_of,
    rope_cos_sin,
    rope_inv_freq,
    sinusoidal,
    xpos_cos_sin,
)
from course_utils.rope.scaling import (
    ROPE_TYPES,
    RopeParameters,
    RopeWarning,
    abf,
    dynamic,
    linear,
    llama3,
    longrope,
    ntk,
    proportional,
    rope_frequencies,
    turns,
    yarn,
    yarn_paper_ramp,
    yarn_ramp,
)

__all__ = [
    "ROPE_TYPES",
    "RopeConfig",
    "RopeParameters",
    "RopeWarning",
    "RotaryEmbedding",
    "abf",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "axial_rope_2d",
    "dynamic",
    "from_config",
    "half_to_interleaved",
    "interleaved_to_half",
    "layout_of",
    "linear",
    "llama3",
    "longrope",
    "ntk",
    "proportional",
    "rope_cos_sin",
    "rope_frequencies",
    "rope_inv_freq",
    "sinusoidal",
    "t5_relative_bucket",
    "turns",
    "xpos_cos_sin",
    "yarn",
    "yarn_paper_ramp",
    "yarn_ramp",
]

__getattr__ = submodules(__name__)
