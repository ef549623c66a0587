"""The body of a layer norm kernel for long rows, 64 slots at a time, written in PyTorch."""

import torch

BLOCK = 64


def load(x, start):
    """A masked load: the slots from start on, and which of them are in the row."""
    slots = start + torch.arange(BLOCK)
    inside = slots < x.shape[1]
    return torch.where(inside, x[:, slots.clamp(max=x.shape[1] - 1)], 0.0), inside


def layer_norm(x, eps=1e-5):
    total, squares, count = torch.zeros(len(x), 1), torch.zeros(len(x), 1), 0
    for start in range(0, x.shape[1], BLOCK):
        block, inside = load(x, start)
        total += block.sum(dim=-1, keepdim=True)
        count += int(inside.sum())
    mean = total / count
    for start in range(0, x.shape[1], BLOCK):
        block, inside = load(x, start)
        centred = torch.where(inside, block - mean, 0.0)
        squares += centred.square().sum(dim=-1, keepdim=True)
    return (x - mean) * torch.rsqrt(squares / count + eps)
