"""Layer norm over the last dimension."""

import torch


def layer_norm(x, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    var = (x**2).mean(dim=-1, keepdim=True) - mean**2
    return (x - mean) / torch.sqrt(var + eps)
