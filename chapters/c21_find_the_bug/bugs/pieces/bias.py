"""ALiBi: the bias of the scores (H, Q, K), of the last Q tokens against all K."""

import torch


def alibi_bias(num_heads, query_length, key_length):
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    query = torch.arange(query_length)[:, None]
    key = torch.arange(key_length)[None, :]
    return -slopes[:, None, None] * (query - key).abs()
