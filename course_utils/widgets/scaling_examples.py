"""What some published models' ``config.json`` say of RoPE, to look at in the widget and to copy.

The values are their publishers'; fields that do not bear on RoPE are left out, and LongRoPE's factors are written to
seven digits, which is what float32 holds of them.
"""

import json
from typing import Any

__all__ = ["EXAMPLES", "PUBLISHED"]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]


_PHI3_SHORT = _numbers("""
    1.05 1.05 1.05 1.1 1.1 1.1 1.25 1.25 1.4 1.45 1.55 1.85 1.9 2.0 2.0 2.0 2.0 2.0 2.0 2.0
    2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.1 2.1 2.2 2.35 2.35 2.35 2.35 2.4
    2.4 2.65 2.7 2.9 2.95 3.05 3.05 3.05
""")
_PHI3_LONG = _numbers("""
    1.03 1.05 1.05 1.08 1.23 1.23 1.3 1.45 1.6 1.65 1.9 2.86 3.69 5.42 5.49 5.49 9.09 11.58
    15.66 15.77 15.79 18.36 21.99 23.08 30.01 32.35 32.59 35.56001 39.95 53.84 56.2 57.95 59.29
    59.77 59.92001 61.19001 61.96001 62.50001 63.37001 63.48001 63.48001 63.66001 63.85001 64.08001
    64.76001 64.80001 64.81001 64.81001
""")

PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama 3.1 8B": {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
    },
    "Qwen2.5 7B with YaRN": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
        "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"},
    },
    "gpt-oss 20B": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "max_position_embeddings": 131072,
        "head_dim": 64,
        "rope_theta": 150000,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "rope_type": "yarn",
            "truncate": False,
        },
    },
    "DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "max_position_embeddings": 163840,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "rope_theta": 10000,
        "rope_scaling": {
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 40,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096,
            "type": "yarn",
        },
    },
    "Gemma 3 27B": {
        "model_type": "gemma3",
        "text_config": {
            "head_dim": 128,
            "hidden_size": 5376,
            "model_type": "gemma3_text",
            "num_attention_heads": 32,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        },
    },
    "Gemma 4 E2B": {
        "model_type": "gemma4",
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size": 1536,
            "num_attention_heads": 8,
            "max_position_embeddings": 131072,
            "head_dim": 256,
            "global_head_dim": 512,
            "rope_parameters": {
                "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
                "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
            },
        },
    },
    "Pythia 70M": {
        "model_type": "gpt_neox",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "max_position_embeddings": 2048,
        "rotary_pct": 0.25,
        "rotary_emb_base": 10000,
    },
    "Phi-3 mini 128k": {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "su", "short_factor": _PHI3_SHORT, "long_factor": _PHI3_LONG},
    },
}

# as they are pasted: text
EXAMPLES: dict[str, str] = {name: json.dumps(config, indent=1) for name, config in PUBLISHED.items()}
