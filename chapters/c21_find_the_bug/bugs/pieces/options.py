"""YaRN's frequencies from a configuration."""

import math

import torch


def yarn(rope_parameters, layer_type, dim=64):
    parameters = rope_parameters.get(layer_type, rope_parameters)
    base, factor = parameters["rope_theta"], parameters["factor"]
    window = parameters["original_max_position_embeddings"]

    def pair_of(turns):
        return dim * math.log(window / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair_of(parameters.get("beta_fast", 32)), pair_of(parameters.get("beta_slow", 1))
    if rope_parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001

    inv_freq = base ** (-torch.arange(0, dim, 2) / dim)
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    return inv_freq * (1 - ramp) + inv_freq / factor * ramp
