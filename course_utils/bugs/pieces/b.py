"""Layer norm over the last dimension, with a weight and a bias."""


def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    std = x.std(dim=-1, keepdim=True, correction=0)
    return weight * (x - mean) / (std + eps) + bias
