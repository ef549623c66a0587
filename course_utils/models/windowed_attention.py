"""Causal attention that reaches a fixed number of tokens back, in memory that grows with the length alone.

Notation used for tensor shapes: B batch, H heads, T tokens, D head dimension, W window.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["windowed_attention"]


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Return the attention of every token to the last ``window`` ones, itself included.

    Queries go through W at a time, with the keys of their own piece and of the one before: the largest mask is W × 2W,
    where a mask for all at once would be T × T, 4 GB at 32,768 tokens.

    Args:
        q, k, v: (B, H, T, D).
        window: W, at least 1.

    Returns:
        (B, H, T, D).

    Raises:
        ValueError: a window below 1.

    Source: Beltagy et al. 2020, §3.1 and appendix A (attention in chunks).
    """
    if window < 1:
        raise ValueError(f"window must be at least 1: got {window}")
    length, pieces = q.shape[2], []
    places = torch.arange(length, device=q.device)
    for start in range(0, length, window):
        queries, keys = slice(start, start + window), slice(max(0, start - window), start + window)
        back = places[queries, None] - places[keys]  # (W, 2W), at most
        sees = (back >= 0) & (back < window)
        pieces.append(F.scaled_dot_product_attention(q[:, :, queries], k[:, :, keys], v[:, :, keys], sees))
    return torch.cat(pieces, dim=2)
