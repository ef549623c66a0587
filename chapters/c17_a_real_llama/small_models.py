"""Small models of four families, with random weights, and a Llama scaled in six ways: what the
evidence of chapter 17 puts the course's parts into."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from course_utils.session import generator
from course_utils.swap import swap

__all__ = ["SCALINGS", "WINDOW", "convention_of", "families", "scaled_llamas"]

WINDOW = 64
_SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": WINDOW,
    "pad_token_id": 0,
    "initializer_range": 0.15,  # logits of about 1, as a trained model's
}
SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": WINDOW},
    "llama3": {
        "factor": 4.0,
        "original_max_position_embeddings": WINDOW,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
    "longrope": {
        "factor": 4.0,
        "original_max_position_embeddings": WINDOW,
        "short_factor": [1.0] * 8,
        "long_factor": [1.0 + 0.5 * pair for pair in range(8)],
    },
}


def families() -> dict[str, Any]:
    """Return a Llama, a Qwen3, a GPT-NeoX and a Gemma of two layers, by name."""
    return {
        "Llama": _build(LlamaConfig, LlamaForCausalLM, num_key_value_heads=2),
        "Qwen3, QK norm": _build(Qwen3Config, Qwen3ForCausalLM, num_key_value_heads=2, head_dim=16),
        "GPT-NeoX, LayerNorm, a quarter of each head turns": _build(
            GPTNeoXConfig, GPTNeoXForCausalLM
        ),
        "Gemma, weight 1 + w": _build(
            GemmaConfig, GemmaForCausalLM, num_key_value_heads=2, head_dim=16
        ),
    }


def scaled_llamas(rope_type: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return a fresh Llama with the course's parts, and the Llama itself, both scaled so."""
    window = 4 * WINDOW if "original_max_position_embeddings" in options else WINDOW
    rope = {"rope_type": rope_type, "rope_theta": 1000.0, **options}
    shape = {"num_key_value_heads": 2, "max_position_embeddings": window}
    original = _build(LlamaConfig, LlamaForCausalLM, rope_parameters=rope, **shape)
    mine = copy.deepcopy(original)
    swap(mine)
    return mine, original


def convention_of(norm: Any) -> str:
    """Return which of the two formulas ``norm`` computes, found by trying."""
    eps = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
    x = torch.randn(3, 64, generator=generator(1))
    x = x * torch.tensor([1e-3, 1.0, 1e3])[:, None]  # in the first row eps matters
    formulas: dict[str, Tensor] = {"x̂ · w": norm.weight, "x̂ · (1 + w)": 1 + norm.weight}
    for name, weight in formulas.items():
        if torch.allclose(norm(x), F.rms_norm(x, (64,), weight, eps), rtol=1e-5):
            return name
    return "something else"


def _build(config: Any, model: Any, **changes: Any) -> Any:
    """A model with random weights from a fixed seed, those of its norms too."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built: nn.Module = model(config(**{**_SMALL, **changes})).eval()
        for name, weight in built.named_parameters():
            if "norm" in name:  # 1, or 0 for Gemma, would hide what is done with it
                weight.data += 0.2 * torch.randn(weight.shape)
    return built
