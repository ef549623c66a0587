"""ALiBi and T5's buckets, held against the models in transformers that use them and against the papers' words."""

import math

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from course_utils.rope import alibi_bias, alibi_slopes, t5_relative_bucket


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6, 8, 12, 20, 32, 71, 112])
def test_alibi_slopes_are_those_of_bloom_and_mpt(num_heads):
    one = torch.ones(1, 2)
    bloom = build_alibi_tensor(one, num_heads, torch.float32)[:, 0, 1]
    # MPT writes the distance as a negative position, and for 1 head asks for 2^-8 as everyone does.
    mpt = -build_mpt_alibi_tensor(num_heads, 2)[:, 0, 0]

    torch.testing.assert_close(alibi_slopes(num_heads), bloom, rtol=1e-5, atol=0)  # Bloom powers a rounded base
    torch.testing.assert_close(alibi_slopes(num_heads), mpt)


def test_alibi_slopes_of_eight_heads_are_halves_down_to_two_to_the_minus_eight():
    torch.testing.assert_close(alibi_slopes(8), 0.5 ** torch.arange(1.0, 9.0), rtol=0, atol=0)


def test_alibi_slopes_of_twelve_heads_add_every_other_slope_of_sixteen():
    expected = [2.0**-k for k in range(1, 9)] + [2.0**-k for k in (0.5, 1.5, 2.5, 3.5)]
    torch.testing.assert_close(alibi_slopes(12), torch.tensor(expected))


def test_alibi_bias_gives_the_attention_of_bloom():
    num_heads, length = 6, 9
    scores = torch.randn(num_heads, length, length, generator=torch.Generator().manual_seed(0))
    causal = torch.full((length, length), -math.inf).triu(1)
    bloom = build_alibi_tensor(torch.ones(1, length), num_heads, torch.float32)  # (H, 1, K): grows with the key

    ours = (scores + alibi_bias(num_heads, length, length) + causal).softmax(-1)
    torch.testing.assert_close(ours, (scores + bloom + causal).softmax(-1))


def test_alibi_bias_grows_more_negative_with_distance_on_both_sides():
    bias = alibi_bias(4, 7, 7)
    assert (bias[:, 3, :3].diff(dim=-1) > 0).all()
    assert (bias[:, 3, 3:].diff(dim=-1) < 0).all()
    assert (bias[:, 3, 3] == 0).all()


def test_decoding_against_a_cache_sees_the_last_rows_of_the_whole_table():
    torch.testing.assert_close(alibi_bias(12, 2, 31), alibi_bias(12, 31, 31)[:, -2:], rtol=0, atol=0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (64, 256), (8, 20), (4, 3), (10, 160), (20, 160)])
def test_t5_buckets_are_those_of_transformers_at_every_distance(bidirectional, num_buckets, max_distance):
    # With (10, 160), or (20, 160) for two directions, float64 would put distances 10, 20 and 80 one bucket higher.
    relative = torch.arange(-1500, 1501)
    expected = T5Attention._relative_position_bucket(relative, bidirectional, num_buckets, max_distance)
    assert torch.equal(t5_relative_bucket(relative, bidirectional, num_buckets, max_distance), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets_use_every_bucket_and_never_fall_with_distance(bidirectional):
    past = t5_relative_bucket(-torch.arange(400), bidirectional)
    used = t5_relative_bucket(torch.arange(-400, 401), bidirectional).unique()

    assert (past.diff() >= 0).all()
    assert used.tolist() == [bucket for bucket in range(32) if not (bidirectional and bucket == 16)]


def test_a_causal_t5_layer_puts_every_key_ahead_into_bucket_zero():
    assert (t5_relative_bucket(torch.arange(0, 300), bidirectional=False) == 0).all()


def test_t5_buckets_keep_the_shape_and_accept_any_integer_dtype():
    relative = torch.arange(-6, 6, dtype=torch.int16).view(3, 4)
    bucket = t5_relative_bucket(relative)
    assert bucket.shape == (3, 4)
    assert torch.equal(bucket, t5_relative_bucket(relative.long()))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: alibi_slopes(0), ValueError, "num_heads must be a whole number of at least 1: got num_heads=0"),
        (lambda: alibi_slopes(2.5), ValueError, "num_heads must be a whole number of at least 1: got num_heads=2.5"),
        (lambda: alibi_bias(2, 5, 4), ValueError, "query_length must be .* got query_length=5, key_length=4"),
        (lambda: t5_relative_bucket(torch.zeros(3)), TypeError, "must hold integers: got dtype torch.float32"),
        (lambda: t5_relative_bucket(torch.arange(3), num_buckets=7), ValueError, "even number .* got num_buckets=7"),
        (lambda: t5_relative_bucket(torch.arange(3), False, 1), ValueError, "at least 2: got num_buckets=1"),
        (lambda: t5_relative_bucket(torch.arange(3), max_distance=8), ValueError, "above the 8 .* got max_distance=8"),
    ],
)
def test_bad_input_is_told_what_came_and_what_is_needed(call, error, message):
    with pytest.raises(error, match=message):
        call()
