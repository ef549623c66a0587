"""The gradient of a norm's weight: eight programs add up their rows, then their sums are added."""

import torch

PROGRAMS = 8


def weight_gradient(dy, x_hat):
    """The sum of dy * x_hat over the rows of both (N, C), in the dtype of dy."""
    sums = torch.zeros(PROGRAMS, dy.shape[1], dtype=dy.dtype)
    for dy_rows, x_rows in zip(dy.split(PROGRAMS), x_hat.split(PROGRAMS), strict=True):
        sums[: len(dy_rows)] += dy_rows.float() * x_rows.float()  # program p adds its next row
    return sums.float().sum(dim=0).to(dy.dtype)
