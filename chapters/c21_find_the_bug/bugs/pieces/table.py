"""RoPE in the half layout, for a decoder that reads its tokens in steps."""

import torch


class Rotary:
    def __init__(self, dim, base=10_000.0):
        self.inv_freq = base ** (-torch.arange(0, dim, 2) / dim)
        self.tables = {}

    def table(self, start, length):
        key = length
        if key not in self.tables:
            positions = torch.arange(start, start + length)
            angles = positions[:, None] * self.inv_freq
            self.tables[key] = angles.cos(), angles.sin()
        return self.tables[key]

    def __call__(self, x, start):
        cos, sin = self.table(start, len(x))
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def run(x, step):
    """x (T, D), turned by positions 0 to T - 1: step tokens, then the next, to the end."""
    rotary = Rotary(x.shape[1])
    turned = [rotary(part, i * step) for i, part in enumerate(x.split(step))]
    return torch.cat(turned)
