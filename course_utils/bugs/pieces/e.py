"""Batch norm in training: normalizes a batch and moves the running statistics."""

import torch


def batch_norm(x, running_mean, running_var, momentum, eps=1e-5):
    mean = x.mean(dim=0)
    var = ((x - mean) ** 2).mean(dim=0)
    running_mean.lerp_(mean, momentum)
    running_var.lerp_(var, momentum)
    return (x - mean) / torch.sqrt(var + eps)


def run(batches, momentum):
    """The last output, and the running statistics after all batches (steps, N, C)."""
    running_mean, running_var = torch.zeros(batches.shape[-1]), torch.ones(batches.shape[-1])
    for batch in batches:
        y = batch_norm(batch, running_mean, running_var, momentum)
    return y, running_mean, running_var
