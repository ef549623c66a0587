"""The exercises of chapter 14: right answers in many forms pass; the slips that reviews found are
named."""

import pytest
import torch
import transformers
from naming import assert_shown_without_a_name
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


def test_mixed_pairs_and_a_mistake_in_the_other_layout_are_named():
    def with_pairs(x, positions, base, read, write):
        cos, sin = rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base))
        first, second = read(x.float())
        return write((first * cos - second * sin, first * sin + second * cos)).to(x.dtype)

    def deepseek(x, positions, base=10_000.0):
        return with_pairs(
            x,
            positions,
            base,
            lambda x: (x[..., 0::2], x[..., 1::2]),
            lambda both: torch.cat(both, -1),
        )

    def chunk_and_stack(x, positions, base=10_000.0):
        return with_pairs(
            x,
            positions,
            base,
            lambda x: x.chunk(2, -1),
            lambda both: torch.stack(both, -1).flatten(-2),
        )

    assert check.rope(deepseek, record=False).misconception == "reads_pairs_writes_halves"
    assert check.rope(chunk_and_stack, record=False).misconception == "reads_halves_writes_pairs"
    report = check.rope(lambda x, positions, base=10_000.0: meta(x, positions), record=False)
    assert report.misconception == "ignores_base"
    assert "base" in report.evidence.call


def order(rows, num_heads):
    head_dim = rows // num_heads
    half = head_dim // 2
    return torch.tensor(
        [
            h * head_dim + i + j * half
            for h in range(num_heads)
            for i in range(half)
            for j in range(2)
        ]
    )


def assigned_to_the_whole(weight, num_heads):
    result, size = torch.empty_like(weight), len(weight) // num_heads
    for start in range(0, len(weight), size):
        result[start : start + size : 2], result[start + 1 : start + size : 2] = weight[
            start : start + size
        ].chunk(2)
    return result


def test_right_permutations_pass_and_those_that_fail_under_autograd_or_move_columns_are_named():
    def chunk_and_assign(weight, num_heads):
        result = torch.zeros_like(weight)
        for target, source in zip(result.chunk(num_heads), weight.chunk(num_heads), strict=True):
            target[0::2], target[1::2] = source.chunk(2)
        return result

    for function, key in (
        (
            lambda weight, n: (
                weight.view(n, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
            ),
            None,
        ),
        (lambda weight, num_heads: weight[order(len(weight), num_heads)], None),
        (assigned_to_the_whole, None),
        (chunk_and_assign, "error_with_gradient"),
        (lambda weight, num_heads: weight[:, order(len(weight), num_heads)], "columns"),
        (lambda weight, num_heads: assigned_to_the_whole(weight.T, num_heads).T, "columns"),
    ):
        report = check.half_to_interleaved(function, record=False)
        assert (report.passed, report.misconception) == (key is None, key), report


@pytest.mark.parametrize(
    ("its_check", "function"),
    [
        (check.rope, lambda x, positions, base=1e4: course(x, positions % 4096, base)),
        (
            check.half_to_interleaved,
            lambda weight, num_heads: weight[order(len(weight), num_heads)].flip(0),
        ),
    ],
)
def test_an_unknown_mistake_is_shown_with_an_input(its_check, function):
    assert_shown_without_a_name(its_check, function)


@pytest.mark.parametrize("key", ["reversed", "ignores_base", "one_angle", "twice_the_exponent"])
def test_the_small_input_that_shows_a_mistake_of_rope_has_whole_pairs(key):
    report = check.rope(check.rope.catalogue[key].examples[0], record=False)
    assert report.evidence.arguments["x"].shape[-1] in (2, 4)
