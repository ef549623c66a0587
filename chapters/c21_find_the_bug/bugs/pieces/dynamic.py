"""Dynamic NTK: as trained up to the window, beyond it stretched for the length."""

import torch


def frequencies(dim, base):
    return base ** (-torch.arange(0, dim, 2) / dim)


class DynamicNTK:
    def __init__(self, window, factor, dim=64, base=10_000.0):
        self.window, self.factor, self.dim, self.base = window, factor, dim, base
        self.trained = frequencies(dim, base)
        self.inv_freq = self.trained

    def __call__(self, length):
        if length > self.window:
            stretch = self.factor * length / self.window - (self.factor - 1)
            base = self.base * stretch ** (self.dim / (self.dim - 2))
            self.inv_freq = frequencies(self.dim, base)
        elif length < self.window:
            self.inv_freq = self.trained
        return self.inv_freq


def run(lengths, window, factor):
    """The frequencies for the last of several texts."""
    rope = DynamicNTK(window, factor)
    for length in lengths:
        inv_freq = rope(length)
    return inv_freq
