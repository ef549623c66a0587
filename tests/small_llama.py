"""A small Llama with the rotation of SmolLM2-135M."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from chapters.c16_longer_context.smollm2_length import HEAD_DIM, WINDOW

BASE = 100_000.0  # of SmolLM2-135M


def llama(**rope):
    sizes = {
        "vocab_size": 50,
        "hidden_size": 64,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "head_dim": HEAD_DIM,
    }
    keys = {"rope_type": "default", "rope_theta": BASE, **rope}
    config = LlamaConfig(
        **sizes, num_attention_heads=1, max_position_embeddings=WINDOW, rope_parameters=keys
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()
