"""RMS norm over the last dimension."""

import torch


def rms_norm(x, eps=None):
    if eps is None:
        eps = torch.finfo(x.dtype).eps
    x32 = x.float()
    rms = torch.sqrt(x32.square().mean(dim=-1, keepdim=True) + eps)
    return (x32 / rms).to(x.dtype)
