"""What transformers makes of a RoPE configuration, for the proofs."""

from typing import Any

from torch import Tensor

from course_utils.rope import rotation as positions

__all__ = ["config", "frequencies", "llama", "plain"]


def config(model: str, **settings: Any) -> Any:
    """Return the configuration of a model of transformers; ``settings`` may have any spelling that it takes."""
    import transformers

    return getattr(transformers, f"{model}Config")(**settings)


def llama(head_dim: int = 16, window: int = 256, **settings: Any) -> Any:
    """Return a small Llama's configuration."""
    sizes = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "max_position_embeddings": window}
    return config("Llama", **sizes, **settings)


def frequencies(model: Any, seq_len: int | None = None) -> tuple[Tensor, float]:
    """Return what a model's configuration comes to: inverse frequencies (dim/2,), and the factor on cos and sin."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    return ROPE_INIT_FUNCTIONS[model.rope_parameters["rope_type"]](model, seq_len=seq_len)


def plain(dim: int, base: float = 10_000.0) -> Tensor:
    """Return the frequencies (dim/2,) without scaling, in float32."""
    return positions.rope_inv_freq(dim, base).float()
