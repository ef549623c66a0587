"""A layer in a block, with RMS norm before it."""

import torch
import torch.nn.functional as F


def rms_norm(x, weight, eps=1e-6):
    dtype = x.dtype
    x = x.float()
    mean_square = x.square().mean(dim=-1, keepdim=True)
    x.mul_(torch.rsqrt(mean_square + eps))
    return x.to(dtype).mul_(weight)


def block(x, weight):
    """x (N, C), and what the layer, here silu, makes of its norm."""
    normed = rms_norm(x, weight)
    return x + F.silu(normed)
