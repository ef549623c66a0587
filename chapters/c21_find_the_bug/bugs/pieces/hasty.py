"""Layer norm over the features, the last dimension."""

import torch


def layer_norm(x, eps=1e-5):
    dims = tuple(range(1, x.ndim))
    mean = x.mean(dims, keepdim=True)
    var = (x - mean).square().mean(dims, keepdim=True)
    return (x - mean) * torch.rsqrt(var + eps)
