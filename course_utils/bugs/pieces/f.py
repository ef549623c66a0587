"""Batch norm as a module: the batch's statistics in training, the running ones in evaluation."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, running_mean, running_var, eps=1e-5):
        super().__init__()
        self.register_buffer("running_mean", running_mean)
        self.register_buffer("running_var", running_var)
        self.eps = eps

    def forward(self, x):
        if torch.is_grad_enabled():
            mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) / torch.sqrt(var + self.eps)


def run(x, running_mean, running_var, training, gradients):
    """The output of a layer in training mode or not, with gradients recorded or not."""
    layer = BatchNorm(running_mean, running_var).train(training)
    with torch.set_grad_enabled(gradients):
        return layer(x)
