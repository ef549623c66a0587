"""Rope as others write it: it passes, and its layout and its precision are remarked on."""

import pytest
import torch
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from chapters import check
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq

transformers.logging.set_verbosity_error()
FAR = "the angles are float32"
INTERLEAVED, ROUNDED = "interleaved layout", "rotated in half precision"
NARROW = "A float64 input is computed with float32's precision"


def course(x, positions, base=10_000.0):
    return apply_rope(x, *rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base)))


def llama(x, positions, base=10_000.0):
    sizes = {"hidden_size": x.shape[-1], "num_attention_heads": 1, "head_dim": x.shape[-1]}
    config = LlamaConfig(**sizes, rope_parameters={"rope_theta": base})
    cos, sin = LlamaRotaryEmbedding(config).to(x.device)(x, positions[None])
    heads = x.reshape(1, -1, *x.shape[-2:])  # their (B, H, T, dim)
    return apply_rotary_pos_emb(heads, heads, cos, sin)[0].reshape(x.shape)


def meta(x, positions, base=10_000.0):
    """Complex multiplication, as in the code that came with Llama."""
    frequencies = 1.0 / (
        base ** (torch.arange(0, x.shape[-1], 2)[: x.shape[-1] // 2].float() / x.shape[-1])
    )
    turns = torch.polar(
        torch.ones(len(positions), x.shape[-1] // 2), torch.outer(positions.float(), frequencies)
    )
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


RIGHT = {course: {NARROW}, llama: {ROUNDED, FAR, NARROW}, meta: {INTERLEAVED, FAR, NARROW}}


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_a_right_way_to_write_it_passes_and_its_layout_and_precision_are_remarked_on(function):
    report = check.rope(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert len(report.remarks) == len(set(report.remarks))
    remarks = " ".join(report.remarks)
    assert {words for words in (INTERLEAVED, ROUNDED, FAR, NARROW) if words in remarks} == RIGHT[
        function
    ], remarks


def test_a_mistake_in_the_other_layout_is_named():
    report = check.rope(lambda x, positions, base=10_000.0: meta(x, positions), record=False)
    assert report.misconception == "ignores_base"
    assert "base" in report.evidence.call


@pytest.mark.parametrize("key", ["reversed", "one_angle"])
def test_the_small_input_that_shows_a_mistake_of_rope_has_whole_pairs(key):
    report = check.rope(check.rope.catalogue[key].examples[0], record=False)
    assert report.evidence.arguments["x"].shape[-1] in (2, 4)
