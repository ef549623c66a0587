"""Positions: held against transformers' models, arbitrary precision, rotation matrices, and the
papers' formulas."""

import copy
import io
import math
import pickle

import mpmath
import pytest
import torch
import transformers
from torch._subclasses import FakeTensorMode
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from course_utils.rope import (
    RotaryEmbedding,
    alibi_bias,
    alibi_slopes,
    apply_rope,
    axial_rope_2d,
    half_to_interleaved,
    interleaved_to_half,
    rope_cos_sin,
    rope_frequencies,
    rope_inv_freq,
    t5_relative_bucket,
    xpos_cos_sin,
)
from course_utils.rope.embedding import TABLE_ROWS

transformers.logging.set_verbosity_error()

LAYOUTS = ("half", "interleaved")


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def exact_cos_sin(position, dim, base):
    """Cosine and sine of each pair's angle at ``position``, computed with 40 digits and rounded to
    float64."""
    with mpmath.workdps(40):
        angles = [position * mpmath.power(base, mpmath.mpf(-2 * k) / dim) for k in range(dim // 2)]
        values = [(float(mpmath.cos(angle)), float(mpmath.sin(angle))) for angle in angles]
    return torch.tensor(values, dtype=torch.float64).unbind(-1)


def test_what_is_asked_for_on_a_device_or_in_a_dtype_is_there():
    assert rope_inv_freq(8, device="meta").device.type == "meta"
    bias = alibi_bias(4, 2, 3, device="meta", dtype=torch.bfloat16)
    assert (bias.device.type, bias.dtype) == ("meta", torch.bfloat16)
    assert torch.equal(alibi_bias(4, 2, 3, dtype=torch.bfloat16), alibi_bias(4, 2, 3).bfloat16())


# -- sinusoidal codes and angles -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "base"), [(128, 10_000.0), (128, 500_000.0), (64, 100.0), (256, 1e6)]
)
@pytest.mark.parametrize("position", [1, 4095, 131_071, 16_777_217])  # float32 lacks the last
def test_cos_and_sin_are_right_to_float32_at_far_positions(dim, base, position):
    cos, sin = rope_cos_sin(torch.tensor([position]), rope_inv_freq(dim, base))
    exact_cos, exact_sin = exact_cos_sin(position, dim, base)
    # Half a unit in the last place of float32 below 1 is 3e-8: nothing but the final rounding is
    # left.
    assert (cos[0].double() - exact_cos).abs().max() < 3.1e-8
    assert (sin[0].double() - exact_sin).abs().max() < 3.1e-8


def test_half_precision_positions_and_results_do_not_lower_the_precision_of_the_angle():
    cos, _ = rope_cos_sin(
        torch.tensor([4096.0], dtype=torch.bfloat16), rope_inv_freq(64), dtype=torch.bfloat16
    )
    assert torch.equal(cos[0], exact_cos_sin(4096, 64, 10_000.0)[0].bfloat16())


# -- rotation --------------------------------------------------------------------------------------


def test_half_split_rope_is_that_of_llama_and_partial_that_of_gpt_neox():
    q, k, place = randn(2, 4, 10, 64), randn(2, 4, 10, 64, seed=1), torch.arange(3, 13)
    sizes = {"hidden_size": 256, "num_attention_heads": 4}
    partial = {"rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
    for module, rotary_dim, table in (
        (llama, 64, llama.LlamaRotaryEmbedding(LlamaConfig(**sizes))),
        (
            gpt_neox,
            16,
            gpt_neox.GPTNeoXRotaryEmbedding(GPTNeoXConfig(**sizes, rope_parameters=partial)),
        ),
    ):
        expected = module.apply_rotary_pos_emb(q, k, *table(q, place[None]))
        cos_sin = rope_cos_sin(place, rope_inv_freq(rotary_dim))
        for x, wanted in zip((q, k), expected, strict=True):
            ours = apply_rope(x, *cos_sin)
            torch.testing.assert_close(ours, wanted, atol=5e-6, rtol=0)
            assert torch.equal(ours[..., rotary_dim:], x[..., rotary_dim:])
            for name in ("half", "neox", "llama"):
                assert torch.equal(apply_rope(x, *cos_sin, layout=name), ours)


@pytest.mark.parametrize("rotary_dim", [64, 48])
def test_interleaved_rope_is_that_of_gptj(rotary_dim):
    q = randn(2, 10, 4, 64)  # GPT-J keeps (B, T, H, dim)
    sin, cos = gptj.create_sinusoidal_positions(10, rotary_dim)[None].chunk(2, dim=-1)
    rotated = gptj.apply_rotary_pos_emb(q[..., :rotary_dim], sin, cos)
    expected = torch.cat((rotated, q[..., rotary_dim:]), -1).transpose(1, 2)
    cos_sin = rope_cos_sin(10, rope_inv_freq(rotary_dim))
    ours = apply_rope(q.transpose(1, 2), *cos_sin, layout="gptj")
    torch.testing.assert_close(ours, expected, atol=5e-6, rtol=0)


# -- the two layouts of a projection, and images ---------------------------------------------------


@pytest.mark.parametrize(
    ("num_heads", "head_dim", "rotary_dim"), [(4, 16, None), (3, 16, 8), (1, 2, 2)]
)
def test_what_a_permuted_projection_gives_is_turned_alike_in_the_other_layout(
    num_heads, head_dim, rotary_dim
):
    """Each column of the weight is what a token is projected to."""
    weight, tokens = randn(num_heads * head_dim, 7, dtype=torch.float64), 7
    cos_sin = rope_cos_sin(tokens, rope_inv_freq(rotary_dim or head_dim), dtype=torch.float64)

    def permuted(rows):
        return half_to_interleaved(rows, num_heads, rotary_dim)

    def turned(rows, layout):
        heads = rows.view(num_heads, head_dim, tokens).mT
        return apply_rope(heads, *cos_sin, layout=layout).mT.reshape(rows.shape)

    right = turned(permuted(weight), "interleaved")
    torch.testing.assert_close(permuted(turned(weight, "half")), right, atol=1e-12, rtol=0)
    assert torch.equal(permuted(weight[:, 0]), permuted(weight)[:, 0])  # a bias
    assert torch.equal(interleaved_to_half(permuted(weight), num_heads, rotary_dim), weight)


def test_axial_rope_turns_half_by_the_row_and_half_by_the_column():
    """As Qwen2-VL's: chapter 14 asserts it."""
    _, sine = axial_rope_2d(2, 1, 8)
    torch.testing.assert_close(sine[1], torch.tensor([math.sin(1.0), math.sin(0.01), 0.0, 0.0]))
    assert [table.shape for table in axial_rope_2d(0, 3, 4)] == [(0, 2)] * 2


# -- biases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6, 8, 12, 20, 32, 71, 112])
def test_alibi_slopes_are_those_of_bloom_and_mpt(num_heads):
    bloom = build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]
    # MPT writes the distance as a negative position, and for 1 head asks for 2^-8 as everyone does.
    mpt = -build_mpt_alibi_tensor(num_heads, 2)[:, 0, 0]
    # Bloom powers a rounded base
    torch.testing.assert_close(alibi_slopes(num_heads), bloom, rtol=1e-5, atol=0)
    torch.testing.assert_close(alibi_slopes(num_heads), mpt)


def test_alibi_bias_gives_the_attention_of_bloom_and_its_last_rows_while_decoding():
    num_heads, length = 6, 9
    scores = randn(num_heads, length, length)
    causal = torch.full((length, length), -math.inf).triu(1)
    # (H, 1, K): grows with the key
    bloom = build_alibi_tensor(torch.ones(1, length), num_heads, torch.float32)
    ours = (scores + alibi_bias(num_heads, length, length) + causal).softmax(-1)
    torch.testing.assert_close(ours, (scores + bloom + causal).softmax(-1))
    assert torch.equal(alibi_bias(12, 2, 31), alibi_bias(12, 31, 31)[:, -2:])
    bias = alibi_bias(4, 7, 7)  # keys ahead get the bias of their distance too
    assert torch.equal(bias, bias.mT)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(32, 128), (64, 256), (8, 20), (4, 3), (10, 160), (20, 160)]
)
def test_t5_buckets_are_those_of_transformers_at_every_distance(
    bidirectional, num_buckets, max_distance
):
    # With (10, 160), or (20, 160) for two directions, float64 would put distances 10, 20 and 80 one
    # bucket higher.
    relative = torch.arange(-1500, 1500)
    expected = T5Attention._relative_position_bucket(
        relative, bidirectional, num_buckets, max_distance
    )
    assert torch.equal(
        t5_relative_bucket(relative, bidirectional, num_buckets, max_distance), expected
    )
    as_table = relative.short().view(3, 1000)
    assert torch.equal(
        t5_relative_bucket(as_table, bidirectional, num_buckets, max_distance).flatten(), expected
    )


# -- the module ------------------------------------------------------------------------------------

WINDOW = 64
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 32,
    "short_factor": [1.0 + 0.1 * k for k in range(8)],
    "long_factor": [1.0 + k for k in range(8)],
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 2.0}
PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
ALL_PARAMETERS = [
    None,
    LINEAR,
    {"rope_type": "ntk", "factor": 2.0},
    DYNAMIC,
    YARN,
    LONGROPE,
    PROPORTIONAL,
]
every_method = pytest.mark.parametrize(
    "parameters", ALL_PARAMETERS, ids=lambda p: p["rope_type"] if p else "none"
)


def rotary(parameters=None, **others):
    return RotaryEmbedding(16, rope_parameters=parameters, max_position_embeddings=WINDOW, **others)


def at(x, positions, parameters, seq_len, **others):
    """The answer, from the functions."""
    return apply_rope(
        x, *rope_cos_sin(positions, *rope_frequencies(parameters, 16, WINDOW, seq_len)), **others
    )


@every_method
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_rotates_by_the_frequencies_of_the_length_whatever_was_called_before(parameters, layout):
    module, x = rotary(parameters, layout=layout), randn(2, 3, 300, 16)
    for length in (WINDOW + 1, 300, WINDOW, 1, 100, 32, 33, 300, 32, 299, WINDOW - 1):
        rotated = module(x[..., :length, :])
        expected = at(x[..., :length, :], length, parameters, length, layout=layout)
        assert torch.equal(rotated, expected), length
        assert torch.equal(module.frequencies(length)[0], rotary(parameters).frequencies(length)[0])


@pytest.mark.parametrize("parameters", [None, YARN, DYNAMIC, LONGROPE])
def test_the_last_position_tells_the_length_and_seq_len_may_tell_more(parameters):
    x, module = randn(2, 30, 16), rotary(parameters)
    for t in range(30):  # decoding
        expected = at(x, 30, parameters, 30)[:, t : t + 1]
        assert torch.equal(module(x[:, t : t + 1], positions=torch.tensor([t])), expected)
    for position, seq_len in ((100, None), (5, 101), (5, None)):
        place = torch.tensor([position])
        expected = at(x[:, :1], place, parameters, seq_len or position + 1)
        assert torch.equal(module(x[:, :1], positions=place, seq_len=seq_len), expected)


@pytest.mark.parametrize("parameters", [None, YARN])
@pytest.mark.parametrize(
    "positions",
    [
        torch.tensor([0.5, 1.5, 2.0]),  # interpolated
        torch.tensor([-3, -2, -1]),
        torch.tensor([TABLE_ROWS + 1, 5_000_000, 16_777_217]),
        torch.tensor([0, 2, 255], dtype=torch.uint8),
        torch.tensor([3, 1, 2], dtype=torch.int32),
    ],
    ids=["fractional", "negative", "beyond the table", "bytes", "int32"],
)
def test_positions_of_any_kind_are_rotated_as_the_formula_says(positions, parameters):
    x = randn(3, 16)
    assert torch.equal(
        rotary(parameters)(x, positions=positions), at(x, positions, parameters, None)
    )


def test_positions_with_an_axis_for_each_of_xs_or_fewer_fit_and_others_are_told_how_they_would():
    x = randn(2, 3, 5, 16)
    for leading in ((), (1,), (2,), (1, 1), (2, 1), (1, 3), (2, 3)):
        assert torch.equal(rotary()(x, positions=torch.arange(5).expand(*leading, 5)), rotary()(x))
    with pytest.raises(
        ValueError,
        match=r"must be \(B, T\) or \(1, T\) .* got positions \(3, 5\), x \(2, 3, 5, 16\)",
    ):
        rotary()(x, positions=torch.arange(5).expand(3, 5))
    for leading in ((5, 3), (1, 2, 3)):
        with pytest.raises(
            ValueError, match=r"for positions \(B, T\).* pass positions\[:, None\]: got x"
        ):
            rotary()(x, positions=torch.arange(5).expand(*leading, 5))


def test_positions_of_each_row_mean_what_they_mean_in_transformers():
    config = LlamaConfig(hidden_size=64, num_attention_heads=4)
    x, positions = (
        randn(4, 4, 6, 16),
        torch.randint(100, (4, 6), generator=torch.Generator().manual_seed(0)),
    )
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, positions)
    torch.testing.assert_close(
        RotaryEmbedding(16)(x, positions), llama.apply_rotary_pos_emb(x, x, cos, sin)[0]
    )


def test_a_count_is_computed_where_it_is_asked_for_and_no_tokens_are_no_trouble():
    # a device that holds shapes and no numbers
    cos, sin = rotary(DYNAMIC).cos_sin(100, device="meta")
    assert (cos.device.type, sin.shape) == ("meta", (100, 8))
    x = randn(5, 16)
    assert torch.equal(rotary()(x, positions=5), rotary()(x, positions=torch.arange(5)))
    assert rotary(DYNAMIC)(randn(2, 0, 16)).shape == (2, 0, 16)


def test_half_precision_leaves_the_frequencies_in_float64_and_float64_is_rotated_in_float64():
    module, x = rotary(YARN).half(), randn(40, 16).bfloat16()
    assert module.frequencies()[0].dtype == torch.float64
    assert torch.equal(module(x), rotary(YARN)(x.float()).bfloat16())  # rounded once, at the end
    x = randn(40, 16, dtype=torch.float64)
    cos_sin = rope_cos_sin(40, rope_inv_freq(16), dtype=torch.float64)
    assert torch.equal(rotary()(x), apply_rope(x, *cos_sin))


def test_tables_of_inference_mode_serve_training_and_a_tracers_are_not_kept():
    module, x = rotary(YARN), randn(10, 16)
    with FakeTensorMode(allow_non_fake_inputs=True):
        module(x)
    with torch.inference_mode():
        assert torch.equal(module(x), rotary(YARN)(x))
    leaf = x.clone().requires_grad_()
    module(leaf).sum().backward()
    assert leaf.grad is not None


@every_method
def test_copies_pickles_and_empty_state_dicts_rotate_alike(parameters):
    module, x = rotary(parameters), randn(100, 16)
    expected = module(x)
    assert module.state_dict() == {}
    saved = io.BytesIO()
    torch.save(module, saved)
    assert saved.tell() < 10_000  # without its tables
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), expected)
        assert repr(twin) == repr(module)
    module.frequencies()[0].zero_()
    for positions in (5, torch.arange(5)):
        for table in module.cos_sin(positions):
            table.zero_()
    assert torch.equal(module(x), expected)  # what it gave may be changed


def test_rope_theta_wins_over_the_default_base_and_must_not_contradict_another():
    for module in (
        RotaryEmbedding(16, base=500.0),
        rotary({"rope_theta": 500.0}),
        rotary({"rope_theta": 500.0}, base=500.0),
        rotary({"rope_theta": None}, base=500.0),
    ):
        assert torch.equal(module.frequencies()[0], rope_inv_freq(16, 500.0))
    with pytest.raises(
        ValueError, match=r"base and rope_theta must agree: got base=300\.0, rope_theta=500\.0"
    ):
        rotary({"rope_theta": 500.0}, base=300.0)


# -- bad arguments ---------------------------------------------------------------------------------

COS_SIN = rope_cos_sin(4, rope_inv_freq(8))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: rope_cos_sin([0, 1], rope_inv_freq(8)), "positions must be"),
        (lambda: rope_cos_sin(3, rope_inv_freq(8), dtype=torch.int32), "dtype must be"),
        (lambda: rope_inv_freq(0), "dim must be"),
        (lambda: rope_inv_freq(8, base=math.nan), "base must be"),
        (lambda: apply_rope(torch.ones(4, 8, dtype=torch.int64), *COS_SIN), "x must hold"),
        (
            lambda: apply_rope(randn(4, 8), *COS_SIN, layout="split"),
            "one of half, neox, llama, interleaved, gptj: got",
        ),
        (lambda: apply_rope(randn(4, 6), *COS_SIN), r"cos and sin .* got x \(4, 6\), cos \(4, 4\)"),
        (lambda: apply_rope(randn(5, 8), *COS_SIN), "one row per token of x"),
        (lambda: half_to_interleaved(randn(9, 2), 2), "num_heads must divide"),
        (lambda: interleaved_to_half(randn(8, 2), 2, rotary_dim=3), "rotary_dim must be"),
        (lambda: axial_rope_2d(2, 2, 6), "dim must be"),
        (lambda: alibi_slopes(2.5), "num_heads must be"),
        (lambda: alibi_bias(2, 5, 4), "query_length must be"),
        (lambda: t5_relative_bucket(torch.arange(3), num_buckets=7), "num_buckets must be"),
        (lambda: RotaryEmbedding(16, rope_parameters=DYNAMIC), "max_position_embeddings must be"),
        (lambda: rotary()(randn(4, 32)), "x must end in head_dim=16"),
        (lambda: rotary()(randn(1, 16), positions=29), r"for token 29 pass torch.tensor\(\[29\]\)"),
        (
            lambda: rotary()(randn(1, 16), positions=torch.tensor([1j])),
            "positions must hold real numbers",
        ),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it(call, argument):
    with pytest.raises((ValueError, TypeError), match=argument):
        call()


# Source: XPOS(8)(torch.ones(1, 4, 8)) of torchscale 0.3.0: its first pair, and its second, at each
# of four positions, centred on the third; downscale=True for keys.
XPOS = {
    False: [
        [1.0049056, 1.0049056, 1.0030016, 1.0030016],
        [-0.3019064, 1.3851583, 0.8965132, 1.0964794],
        [-1.3254442, 0.4931506, 0.7813973, 1.178736],
        [-1.1283482, -0.846798, 0.6588283, 1.2489836],
    ],
    True: [
        [0.9951184, 0.9951184, 0.9970074, 0.9970074],
        [-0.3004326, 1.3783965, 0.8938304, 1.0931982],
        [-1.3254442, 0.4931506, 0.7813973, 1.178736],
        [-1.1338835, -0.850952, 0.6608058, 1.2527325],
    ],
}


@pytest.mark.parametrize("keys", [False, True])
def test_xpos_is_that_of_its_authors_code(keys):
    tables = xpos_cos_sin(4, 8, centre=2, keys=keys)
    turned = apply_rope(torch.ones(1, 4, 8), *tables, layout="interleaved")
    torch.testing.assert_close(turned[0, :, :4], torch.tensor(XPOS[keys]), rtol=1e-6, atol=1e-6)
