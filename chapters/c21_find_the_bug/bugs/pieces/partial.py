"""Partial RoPE: the first rotary_dim dimensions of a head turn, the others do not."""

import torch


def partial_rotate(x, rotary_dim, base):
    """x (T, D) in the half layout, positions 0 to T - 1."""
    length, dim = x.shape
    inv_freq = base ** (-torch.arange(0, rotary_dim, 2) / dim)
    angles = torch.arange(length)[:, None] * inv_freq
    cos, sin = angles.cos(), angles.sin()
    rotary, rest = x[:, :rotary_dim], x[:, rotary_dim:]
    first, second = rotary.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)
