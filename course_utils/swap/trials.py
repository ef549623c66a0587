"""What a model is asked to do before a swap is believed: plain, cached, padded, and backwards."""

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["trials"]


def trials(mine: Any, reference: Any, ids: Tensor) -> dict[str, float]:
    """Run two causal models of transformers in four ways and compare them.

    Args:
        mine: the model with something replaced.
        reference: the model as it was.
        ids: tokens, (B, T), at least 4 of them and none of them padding.

    Returns:
        For each way, the largest difference relative to the reference's largest value: ``logits`` of one pass;
        ``cached``, the first half at once and then a token at a time; ``left-padded``, the first row without its first
        quarter; ``gradients``, of all parameters. Both models are asked in the same way, since beyond the window the
        frequencies may depend on the length so far, and a cache then holds what no single pass computes.

    Raises:
        ValueError: ``ids`` are not (B, T) with T of at least 4, or the two models differ in their vocabulary.
    """
    if ids.ndim != 2 or ids.shape[1] < 4 or not len(ids):
        raise ValueError(f"ids must be tokens (B, T) with T of at least 4: got shape {tuple(ids.shape)}")
    sizes = [model.get_input_embeddings().num_embeddings for model in (mine, reference)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"mine and reference must have the same vocabulary: got {sizes[0]} and {sizes[1]} tokens")
    for model in (mine, reference):
        _logits(model, ids[:, :1])  # dynamic scaling of transformers keeps the longest length until a short one comes
    cached = _error(_one_at_a_time(mine, ids), _one_at_a_time(reference, ids))  # before any pass of the full length
    padded, mask, positions = _left_padded(ids)
    shown = mask.bool()
    here, there = (_logits(model, padded, attention_mask=mask, position_ids=positions) for model in (mine, reference))
    return {
        "logits": _error(_logits(mine, ids), _logits(reference, ids)),
        "cached": cached,
        "left-padded": _error(here[shown], there[shown]),
        "gradients": _error(_gradients(mine, ids), _gradients(reference, ids)),
    }


def _error(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


@torch.no_grad()
def _logits(model: Any, ids: Tensor, **inputs: Any) -> Tensor:
    return model(ids, **inputs).logits


@torch.no_grad()
def _one_at_a_time(model: Any, ids: Tensor) -> Tensor:
    """Return the logits of a prompt of half the tokens, and of one token after the other with a cache."""
    half = ids.shape[1] // 2
    output = model(ids[:, :half], use_cache=True)
    parts = [output.logits]
    for t in range(half, ids.shape[1]):
        output = model(ids[:, t : t + 1], past_key_values=output.past_key_values, use_cache=True)
        parts.append(output.logits)
    return torch.cat(parts, dim=1)


def _left_padded(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take the first row's first quarter for padding; return tokens, mask, and positions that start where it ends."""
    mask = torch.ones_like(ids)
    mask[0, : ids.shape[1] // 4] = 0
    return ids, mask, (mask.cumsum(dim=1) - 1).clamp(min=0)


def _gradients(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the gradient of the loss for all parameters, one after the other, by name."""
    model.zero_grad()
    model(ids, labels=ids).loss.backward()
    gradients = [p.grad.flatten() for _, p in sorted(model.named_parameters()) if p.grad is not None]
    model.zero_grad()
    return torch.cat(gradients)
