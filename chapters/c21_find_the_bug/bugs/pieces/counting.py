"""RoPE in the half layout, for a decoder that continues at position start."""

import torch


def rotate(x, start=0, base=10_000.0):
    """x (T, D) with its token t turned by the angles of position start + t."""
    length, dim = x.shape
    inv_freq = base ** (-torch.arange(0, dim, 2) / dim)
    positions = torch.arange(start, start + length, dtype=x.dtype)
    angles = positions.float()[:, None] * inv_freq
    cos, sin = angles.cos(), angles.sin()
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)
