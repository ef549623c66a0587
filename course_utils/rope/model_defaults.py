"""What transformers takes, by ``model_type``, for keys that a ``config.json`` leaves out.

Files of models with several parts leave out much of the text part: those of Gemma 3 name neither a base nor a window.
A base that is not named here either is 10,000.
"""

from typing import Any

__all__ = ["MODEL_DEFAULTS", "TRAINED_WINDOWS", "TWO_BASES"]

# In some models the layers that see a window turn at a base of their own. model_type: the key of the full layers' base,
# that of the sliding layers' base, and whether rope_scaling is for the sliding layers too.
TWO_BASES = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq", False),
    "gemma3n_text": ("rope_theta", "rope_local_base_freq", False),
    "modernbert": ("global_rope_theta", "local_rope_theta", True),
    "modernbert-decoder": ("global_rope_theta", "local_rope_theta", True),
    # As the file says it. transformers 5.23 gives a rope_theta outside the dictionary to the full layers alone, and to
    # the sliding ones its default, 500,000: the same for the published models.
    "olmo3": ("rope_theta", "rope_theta", False),
}

# What linear scaling stretches, where neither the file nor transformers tells: Gemma 3's files state 131,072, which the
# models were stretched to by a factor of 8, from 32,768. Source: Gemma 3 Technical Report, 2025, §5.3.
TRAINED_WINDOWS = {"gemma3_text": 32_768}


def _sizes(hidden_size: int, num_attention_heads: int, max_position_embeddings: int, **others: Any) -> dict[str, Any]:
    return {
        "hidden_size": hidden_size,
        "num_attention_heads": num_attention_heads,
        "max_position_embeddings": max_position_embeddings,
        **others,
    }


_GEMMA3_BASES = {"rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0}
_MODERNBERT_BASES = {"global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
_GEMMA4_LAYERS = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
}
_GPT_OSS_YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}

MODEL_DEFAULTS: dict[str, dict[str, Any]] = {
    "bamba": _sizes(4096, 32, 262_144, partial_rotary_factor=0.5),
    "cohere": _sizes(8192, 64, 8192, rope_theta=500_000.0),
    "cohere2": _sizes(8192, 64, 8192),
    "deepseek_v2": _sizes(4096, 32, 2048, qk_rope_head_dim=64),
    "deepseek_v3": _sizes(7168, 128, 4096, qk_rope_head_dim=64),
    "ernie4_5": _sizes(1024, 16, 131_072, head_dim=128, rope_theta=500_000.0),
    "falcon": _sizes(4544, 71, 2048),
    "gemma": _sizes(3072, 16, 8192, head_dim=256),
    "gemma2": _sizes(2304, 8, 8192, head_dim=256),
    "gemma3_text": _sizes(2304, 8, 131_072, head_dim=256, **_GEMMA3_BASES),
    "gemma3n_text": _sizes(2048, 8, 32_768, head_dim=256, **_GEMMA3_BASES),
    "gemma4_text": _sizes(2304, 8, 131_072, head_dim=256, global_head_dim=512, rope_parameters=_GEMMA4_LAYERS),
    "glm": _sizes(4096, 32, 131_072, head_dim=128, partial_rotary_factor=0.5),
    "glm4": _sizes(4096, 32, 131_072, head_dim=128, partial_rotary_factor=0.5),
    "glm4_moe": {"max_position_embeddings": 131_072, "partial_rotary_factor": 0.5},
    "glm4v_moe_text": {"max_position_embeddings": 65_536, "partial_rotary_factor": 0.5},
    "gpt_neox": _sizes(6144, 64, 2048, partial_rotary_factor=0.25),
    "gpt_oss": _sizes(2880, 64, 131_072, head_dim=64, rope_theta=150_000.0, rope_parameters=_GPT_OSS_YARN),
    "gptj": _sizes(4096, 16, 2048, rotary_dim=64),
    "granite": _sizes(4096, 32, 2048),
    "llama": _sizes(4096, 32, 2048),
    "llama4_text": _sizes(5120, 40, 131_072, head_dim=128, rope_theta=500_000.0),
    "mistral": _sizes(4096, 32, 131_072),
    "mixtral": _sizes(4096, 32, 131_072, rope_theta=1_000_000.0),
    "modernbert": _sizes(768, 12, 8192, **_MODERNBERT_BASES),
    "modernbert-decoder": _sizes(768, 12, 8192, **_MODERNBERT_BASES),
    "nemotron": _sizes(6144, 48, 4096, partial_rotary_factor=0.5),
    "olmo": _sizes(4096, 32, 2048),
    "olmo2": _sizes(4096, 32, 2048),
    "olmo3": _sizes(4096, 32, 2048, rope_theta=500_000.0),
    "persimmon": _sizes(4096, 64, 16_384, partial_rotary_factor=0.5),
    "phi": _sizes(2048, 32, 2048, partial_rotary_factor=0.5),
    "phi3": _sizes(3072, 32, 4096, original_max_position_embeddings=4096),
    "phimoe": _sizes(4096, 32, 131_072, rope_theta=1_000_000.0),
    "qwen2": _sizes(4096, 32, 32_768),
    "qwen2_moe": _sizes(2048, 16, 32_768),
    "qwen3": _sizes(4096, 32, 32_768, head_dim=128),
    "qwen3_moe": _sizes(2048, 32, 32_768),
    "qwen3_5_moe_text": _sizes(2048, 16, 32_768, head_dim=256, partial_rotary_factor=0.25),
    "qwen3_5_text": _sizes(4096, 16, 32_768, head_dim=256, partial_rotary_factor=0.25),
    "qwen3_next": _sizes(2048, 16, 32_768, head_dim=256, partial_rotary_factor=0.25),
    "recurrent_gemma": {"hidden_size": 2560, "num_attention_heads": 10, "partial_rotary_factor": 0.5},
    "smollm3": _sizes(2048, 16, 32_768, rope_theta=2_000_000.0),
    "stablelm": _sizes(2560, 32, 4096, partial_rotary_factor=0.25),
    "starcoder2": _sizes(3072, 24, 4096),
}
