"""Batch norm as a module, and one step of it."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, running_mean, running_var, momentum=0.1, eps=1e-5):
        super().__init__()
        self.register_buffer("running_mean", running_mean)
        self.register_buffer("running_var", running_var)
        self.momentum, self.eps = momentum, eps

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            with torch.no_grad():
                mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var * len(x) / (len(x) - 1), self.momentum)
        return (x - mean) / torch.sqrt(var + self.eps)


def run(x, running_mean, running_var, training, dy=None):
    """The output; given the gradient dy of the output, the gradient of x."""
    layer = BatchNorm(running_mean, running_var).train(training)
    if dy is None:
        with torch.no_grad():
            return layer(x)
    x = x.clone().requires_grad_()
    layer(x).backward(dy)
    return x.grad
