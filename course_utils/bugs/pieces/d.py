"""Batch norm for training: each column of x (N, C) by the statistics of its batch."""

import torch


def batch_norm(x, eps=1e-5):
    with torch.no_grad():
        mean = x.mean(dim=0)
        var = x.var(dim=0, correction=0)
    return (x - mean) * torch.rsqrt(var + eps)


def run(x, dy=None):
    """The output; where dy (N, C) comes back to it, the gradient that goes on to x."""
    x = x.clone().requires_grad_()
    y = batch_norm(x)
    if dy is None:
        return y.detach()
    (y * dy).sum().backward()
    return x.grad
