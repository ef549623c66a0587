"""Sinusoidal codes and rotary embeddings, held against transformers, arbitrary precision, and rotation matrices."""

import math

import mpmath
import pytest
import torch
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl

from course_utils.rope import (
    apply_rope,
    axial_rope_2d,
    half_to_interleaved,
    interleaved_to_half,
    rope_cos_sin,
    rope_inv_freq,
    sinusoidal,
)
from course_utils.rope import rotation as positions

LAYOUTS = ("half", "interleaved")


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def exact_cos_sin(position, dim, base):
    """Cosine and sine of each pair's angle at ``position``, computed with 40 digits and rounded to float64."""
    with mpmath.workdps(40):
        angles = [position * mpmath.power(base, mpmath.mpf(-2 * k) / dim) for k in range(dim // 2)]
        values = [(float(mpmath.cos(angle)), float(mpmath.sin(angle))) for angle in angles]
    return torch.tensor(values, dtype=torch.float64).unbind(-1)


def pair_columns(dim, layout):
    """The two columns of each pair, spelled out."""
    half = dim // 2
    return [(i, i + half) if layout == "half" else (2 * i, 2 * i + 1) for i in range(half)]


# -- sinusoidal --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_sinusoidal_is_the_formula_of_the_paper(base):
    code = sinusoidal(50, 12, base)
    for position in (0, 1, 49):
        for i in range(6):
            angle = position / base ** (2 * i / 12)
            assert math.isclose(code[position, 2 * i], math.sin(angle), abs_tol=1e-7)
            assert math.isclose(code[position, 2 * i + 1], math.cos(angle), abs_tol=1e-7)


def test_sinusoidal_holds_the_values_of_gptj_in_another_order():
    theirs = gptj.create_sinusoidal_positions(64, 32)  # all sines, then all cosines
    ours = sinusoidal(64, 32)
    torch.testing.assert_close(torch.cat((ours[:, 0::2], ours[:, 1::2]), dim=1), theirs, atol=5e-6, rtol=0)


def test_a_count_of_positions_and_their_tensor_give_the_same_code():
    assert torch.equal(sinusoidal(9, 8), sinusoidal(torch.arange(9), 8))
    assert torch.equal(sinusoidal(torch.arange(12).view(3, 4), 8), sinusoidal(12, 8).view(3, 4, 8))


def test_shifting_the_sinusoid_is_one_rotation_for_all_positions():
    shift, dim = 17, 16
    code = sinusoidal(100, dim, dtype=torch.float64)
    rotation = torch.zeros(dim, dim, dtype=torch.float64)
    for i in range(dim // 2):
        angle = shift / 10_000 ** (2 * i / dim)
        sine, cosine = 2 * i, 2 * i + 1
        rotation[sine, sine] = rotation[cosine, cosine] = math.cos(angle)
        rotation[sine, cosine], rotation[cosine, sine] = math.sin(angle), -math.sin(angle)
    torch.testing.assert_close(code[:-shift] @ rotation.T, code[shift:], atol=1e-12, rtol=0)


# -- angles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "base"), [(128, 10_000.0), (128, 500_000.0), (64, 100.0), (256, 1e6)])
@pytest.mark.parametrize("position", [1, 4095, 131_071, 16_777_217])  # float32 lacks the last
def test_cos_and_sin_are_right_to_float32_at_far_positions(dim, base, position):
    cos, sin = rope_cos_sin(torch.tensor([position]), rope_inv_freq(dim, base))
    exact_cos, exact_sin = exact_cos_sin(position, dim, base)

    # Half a unit in the last place of float32 below 1 is 3e-8: nothing but the final rounding is left.
    assert (cos[0].double() - exact_cos).abs().max() < 3.1e-8
    assert (sin[0].double() - exact_sin).abs().max() < 3.1e-8


@pytest.mark.parametrize(
    ("rounded", "at_least"),
    [
        (lambda p, f: (p.float() * (1 / 10_000 ** (torch.arange(0, 128, 2).float() / 128))).cos(), 4.1e-3),
        (lambda p, f: (p.double() * f.float().double()).cos(), 1.5e-3),
        (lambda p, f: (p.double() * f).float().cos(), 1.0e-3),
    ],
    ids=["the usual float32 product", "float32 frequencies", "float32 angles"],
)
def test_rounding_any_part_of_the_angle_to_float32_costs_what_the_module_says(rounded, at_least):
    exact_cos, _ = exact_cos_sin(131_071, 128, 10_000.0)
    error = (rounded(torch.tensor(131_071), rope_inv_freq(128)).double() - exact_cos).abs().max()
    assert at_least < error < 1.1 * at_least


def test_half_precision_positions_and_results_do_not_lower_the_precision_of_the_angle():
    cos, _ = rope_cos_sin(torch.tensor([4096.0], dtype=torch.bfloat16), rope_inv_freq(64), dtype=torch.bfloat16)
    exact_cos, _ = exact_cos_sin(4096, 64, 10_000.0)
    torch.testing.assert_close(cos[0], exact_cos.bfloat16(), atol=0, rtol=0)


def test_frequencies_are_float64_and_run_from_one_to_the_base():
    inv_freq = rope_inv_freq(128, 500_000.0)
    assert inv_freq.dtype == torch.float64
    assert inv_freq[0] == 1.0
    assert math.isclose(inv_freq[-1], 500_000.0 ** (-126 / 128), rel_tol=1e-15)
    torch.testing.assert_close(inv_freq.diff().div(inv_freq[:-1]), (inv_freq[1] - 1).expand(63), rtol=1e-12, atol=0)


def test_the_attention_factor_multiplies_cos_and_sin_and_so_squares_in_the_score():
    inv_freq, place = rope_inv_freq(32), torch.arange(5)
    plain, scaled = rope_cos_sin(place, inv_freq), rope_cos_sin(place, inv_freq, attention_factor=1.2)
    q, k = randn(5, 32), randn(5, 32, seed=1)
    ratio = (apply_rope(q, *scaled) @ apply_rope(k, *scaled).T) / (apply_rope(q, *plain) @ apply_rope(k, *plain).T)
    torch.testing.assert_close(ratio, torch.full((5, 5), 1.44), rtol=1e-4, atol=0)  # of scores that may be near zero


# -- rotation ----------------------------------------------------------------------------------------------------------


def test_rope_is_that_of_llama():
    config = LlamaConfig(hidden_size=256, num_attention_heads=4, head_dim=64)
    q, k, place = randn(2, 4, 10, 64), randn(2, 4, 10, 64, seed=1), torch.arange(10)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, place[None])
    expected_q, expected_k = llama.apply_rotary_pos_emb(q, k, cos, sin)

    ours = rope_cos_sin(place, rope_inv_freq(64, config.rope_parameters["rope_theta"]))
    torch.testing.assert_close(apply_rope(q, *ours), expected_q, atol=5e-6, rtol=0)
    torch.testing.assert_close(apply_rope(k, *ours), expected_k, atol=5e-6, rtol=0)


def test_partial_rope_is_that_of_gpt_neox():
    config = GPTNeoXConfig(
        hidden_size=256, num_attention_heads=4, rope_parameters={"rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
    )
    q, k, place = randn(2, 4, 10, 64), randn(2, 4, 10, 64, seed=1), torch.arange(3, 13)
    cos, sin = gpt_neox.GPTNeoXRotaryEmbedding(config)(q, place[None])
    expected_q, _ = gpt_neox.apply_rotary_pos_emb(q, k, cos, sin)
    assert cos.shape[-1] == 16  # the quarter that rotates

    rotated = apply_rope(q, *rope_cos_sin(place, rope_inv_freq(16)))
    torch.testing.assert_close(rotated, expected_q, atol=5e-6, rtol=0)
    assert torch.equal(rotated[..., 16:], q[..., 16:])


def test_interleaved_rope_is_that_of_gptj():
    q, place = randn(2, 10, 4, 64), torch.arange(10)  # GPT-J keeps (B, T, H, dim)
    sin, cos = gptj.create_sinusoidal_positions(10, 64)[None].chunk(2, dim=-1)
    expected = gptj.apply_rotary_pos_emb(q, sin, cos).transpose(1, 2)

    ours = apply_rope(q.transpose(1, 2), *rope_cos_sin(place, rope_inv_freq(64)), layout="interleaved")
    torch.testing.assert_close(ours, expected, atol=5e-6, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [8, 12])
def test_rope_is_a_rotation_matrix_of_each_pair(layout, rotary_dim):
    position, dim = 7, 12
    matrix = torch.eye(dim, dtype=torch.float64)
    for k, (a, b) in enumerate(pair_columns(rotary_dim, layout)):
        angle = position / 10_000 ** (2 * k / rotary_dim)
        matrix[a, a] = matrix[b, b] = math.cos(angle)
        matrix[b, a], matrix[a, b] = math.sin(angle), -math.sin(angle)
    x = randn(1, dim, dtype=torch.float64)

    cos_sin = rope_cos_sin(torch.tensor([position]), rope_inv_freq(rotary_dim), dtype=torch.float64)
    torch.testing.assert_close(apply_rope(x, *cos_sin, layout=layout), x @ matrix.T, atol=1e-14, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_depend_on_the_distance_alone(layout):
    q, k = randn(64, dtype=torch.float64), randn(64, seed=1, dtype=torch.float64)
    place = torch.cat((torch.arange(40), torch.arange(100_000, 100_040)))
    cos_sin = rope_cos_sin(place, rope_inv_freq(64), dtype=torch.float64)
    rotated_q = apply_rope(q.expand(80, 64), *cos_sin, layout=layout)
    rotated_k = apply_rope(k.expand(80, 64), *cos_sin, layout=layout)

    near = (rotated_q[:40] @ rotated_k[:40].T) / (q.norm() * k.norm())  # relative to the largest possible score
    far = (rotated_q[40:] @ rotated_k[40:].T) / (q.norm() * k.norm())
    for distance in range(-39, 40):
        diagonal = near.diagonal(distance)
        assert (diagonal - diagonal[0]).abs().max() < 1e-12
    # A float64 angle of 1e5 is itself rounded by 7e-12, which is all that separates the far scores from the near ones.
    assert (near - far).abs().max() < 2e-11


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotating_keeps_every_norm_and_leaves_position_zero_alone(layout):
    x = randn(3, 50, 32, dtype=torch.float64)
    rotated = apply_rope(x, *rope_cos_sin(50, rope_inv_freq(32), dtype=torch.float64), layout=layout)
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1), atol=1e-13, rtol=0)
    assert torch.equal(rotated[:, 0], x[:, 0])


def test_the_rotation_turns_the_first_axis_towards_the_second():
    x = torch.tensor([[1.0, 0.0]])
    rotated = apply_rope(x, *rope_cos_sin(torch.tensor([1]), rope_inv_freq(2)))
    torch.testing.assert_close(rotated, torch.tensor([[math.cos(1), math.sin(1)]]))


def test_decoding_from_an_offset_gives_the_last_token_of_the_whole_sequence():
    x, inv_freq = randn(2, 9, 16), rope_inv_freq(16)
    whole = apply_rope(x, *rope_cos_sin(9, inv_freq))
    last = apply_rope(x[:, -1:], *rope_cos_sin(torch.tensor([8]), inv_freq))
    torch.testing.assert_close(last, whole[:, -1:], atol=0, rtol=0)


def test_each_sequence_of_a_batch_can_have_its_own_positions():
    x, inv_freq = randn(2, 4, 5, 16), rope_inv_freq(16)
    place = torch.stack((torch.arange(5), torch.arange(30, 35)))[:, None]  # (B, 1, T): the same for all heads
    together = apply_rope(x, *rope_cos_sin(place, inv_freq))
    for b in range(2):
        torch.testing.assert_close(together[b], apply_rope(x[b], *rope_cos_sin(place[b, 0], inv_freq)), atol=0, rtol=0)


def test_half_precision_is_rotated_in_float32_and_rounded_once():
    x = randn(6, 32).bfloat16()
    cos_sin = rope_cos_sin(torch.arange(1000, 1006), rope_inv_freq(32))
    rotated = apply_rope(x, *cos_sin)
    assert rotated.dtype == torch.bfloat16
    assert torch.equal(rotated, apply_rope(x.float(), *cos_sin).bfloat16())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_is_the_rotation_back(layout):
    cos, sin = rope_cos_sin(6, rope_inv_freq(8), dtype=torch.float64)
    x, dy = randn(6, 12, dtype=torch.float64).requires_grad_(), randn(6, 12, seed=1, dtype=torch.float64)
    apply_rope(x, cos, sin, layout=layout).backward(dy)
    torch.testing.assert_close(x.grad, apply_rope(dy, cos, -sin, layout=layout), atol=1e-15, rtol=0)


def test_rope_leaves_its_input_as_it_was():
    x = randn(4, 8)
    before = x.clone()
    apply_rope(x, *rope_cos_sin(4, rope_inv_freq(8)))
    assert torch.equal(x, before)


# -- the two layouts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_heads", "head_dim", "rotary_dim"), [(4, 16, None), (3, 16, 8), (1, 2, 2)])
def test_permuted_projections_give_the_same_scores_in_the_other_layout(num_heads, head_dim, rotary_dim):
    tokens, features = 7, 10
    x = randn(tokens, features, dtype=torch.float64)
    cos_sin = rope_cos_sin(tokens, rope_inv_freq(rotary_dim or head_dim), dtype=torch.float64)
    weights = [randn(num_heads * head_dim, features, seed=s, dtype=torch.float64) for s in (1, 2)]
    biases = [randn(num_heads * head_dim, seed=s, dtype=torch.float64) for s in (3, 4)]

    def scores(reorder, layout):
        projected = [x @ reorder(w).T + reorder(b) for w, b in zip(weights, biases, strict=True)]
        q, k = (p.view(tokens, num_heads, head_dim).transpose(0, 1) for p in projected)
        return apply_rope(q, *cos_sin, layout=layout) @ apply_rope(k, *cos_sin, layout=layout).mT

    as_is = scores(lambda w: w, "half")
    permuted = scores(lambda w: half_to_interleaved(w, num_heads, rotary_dim), "interleaved")
    torch.testing.assert_close(permuted, as_is, atol=1e-12, rtol=0)
    if head_dim > 2:  # with one pair the layouts are one
        assert (scores(lambda w: w, "interleaved") - as_is).abs().max() > 1


def test_half_to_interleaved_brings_the_two_rows_of_each_pair_together():
    rows = torch.arange(2 * 8)  # two heads of 8, as a bias: row i holds i
    assert half_to_interleaved(rows, 2).tolist() == [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]
    assert half_to_interleaved(rows, 2, rotary_dim=4).tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("rotary_dim", [None, 4, 12])
def test_the_two_permutations_undo_each_other(rotary_dim):
    weight = randn(3 * 12, 5)
    assert torch.equal(interleaved_to_half(half_to_interleaved(weight, 3, rotary_dim), 3, rotary_dim), weight)
    assert torch.equal(half_to_interleaved(interleaved_to_half(weight, 3, rotary_dim), 3, rotary_dim), weight)


# -- images ------------------------------------------------------------------------------------------------------------


def test_axial_rope_is_that_of_qwen2_vl():
    height, width, dim, base = 3, 5, 32, 300.0
    rope_parameters = {"rope_type": "axial", "rope_theta": base}
    config = qwen2_vl.Qwen2VLVisionConfig(embed_dim=4 * dim, num_heads=4, rope_parameters=rope_parameters)
    place = torch.cartesian_prod(torch.arange(height), torch.arange(width))  # (T, 2): row and column of each patch
    q = randn(height * width, 4, dim)  # (T, H, dim)
    cos, sin = qwen2_vl.Qwen2VLVisionRotaryEmbedding(config)(q, place)
    expected, _ = qwen2_vl.apply_rotary_pos_emb_vision(q, q, cos, sin)

    ours = apply_rope(q.transpose(0, 1), *axial_rope_2d(height, width, dim, base))
    torch.testing.assert_close(ours.transpose(0, 1), expected, atol=5e-6, rtol=0)


def test_cosines_are_float32_and_the_base_ten_thousand_unless_asked_otherwise():
    assert all(table.dtype == torch.float32 for table in (*rope_cos_sin(2, rope_inv_freq(8)), *axial_rope_2d(1, 2, 8)))
    _, sine = axial_rope_2d(2, 1, 8)
    torch.testing.assert_close(sine[1], torch.tensor([math.sin(1.0), math.sin(0.01), 0.0, 0.0]))


@pytest.mark.parametrize(("height", "width"), [(0, 3), (3, 0), (1, 2)])
def test_axial_rope_takes_the_smallest_dimension_and_an_image_of_no_patches(height, width):
    assert [table.shape for table in axial_rope_2d(height, width, 4)] == [(height * width, 2)] * 2


def test_axial_scores_depend_on_the_two_offsets_alone():
    height, width, dim = 4, 6, 16
    q, k = randn(dim, dtype=torch.float64), randn(dim, seed=1, dtype=torch.float64)
    cos_sin = axial_rope_2d(height, width, dim, dtype=torch.float64)
    scores = (apply_rope(q.expand(24, dim), *cos_sin) @ apply_rope(k.expand(24, dim), *cos_sin).T).view(4, 6, 4, 6)

    for down, right in ((0, 1), (1, 0), (2, -3), (3, 5)):
        same_offset = [
            scores[y, x, y + down, x + right]
            for y in range(height - down)
            for x in range(width)
            if 0 <= x + right < width
        ]
        assert max(same_offset) - min(same_offset) < 1e-12
    assert (scores[0, 0, 0, 3] - scores[0, 0, 3, 0]).abs() > 1  # right is not down


# -- errors ------------------------------------------------------------------------------------------------------------

COS_SIN = rope_cos_sin(4, rope_inv_freq(8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sinusoidal(4, 7), "dim must be a positive even number: got dim=7"),
        (lambda: sinusoidal(-1, 8), "positions must be a tensor or a count of at least 0: got -1"),
        (lambda: sinusoidal(2.5, 8), "positions must be a tensor or a count of at least 0: got 2.5"),
        (lambda: rope_cos_sin([0, 1], rope_inv_freq(8)), r"a tensor or a count of at least 0: got \[0, 1\]"),
        (lambda: rope_cos_sin(3, rope_inv_freq(8), 0.0), "attention_factor must be positive: got attention_factor=0.0"),
        (lambda: rope_cos_sin(3, rope_inv_freq(8), dtype=torch.int32), "floating-point .*: got dtype=torch.int32"),
        (lambda: rope_cos_sin(3, rope_inv_freq(8), dtype=float), "floating-point .*: got dtype=<class 'float'>"),
        (lambda: apply_rope(torch.ones(4, 8, dtype=torch.int64), *COS_SIN), "x must hold .*: got dtype torch.int64"),
        (lambda: rope_inv_freq(0), "dim must be a positive even number: got dim=0"),
        (lambda: rope_inv_freq(8, base=0.0), "base must be positive and finite: got base=0.0"),
        (lambda: rope_inv_freq(8, base=math.nan), "base must be positive and finite: got base=nan"),
        (lambda: rope_cos_sin(torch.ones(3, dtype=torch.bool), rope_inv_freq(8)), "real numbers: got dtype torch.bool"),
        (lambda: rope_inv_freq(8, base=math.inf), "base must be positive and finite: got base=inf"),
        (lambda: rope_cos_sin(torch.ones(3) + 0j, rope_inv_freq(8)), "real numbers: got dtype torch.complex64"),
        (lambda: rope_cos_sin(3, torch.arange(4)), r"floating-point vector: got shape \(4,\), torch.int64"),
        (lambda: rope_cos_sin(3, torch.ones(2, 4)), r"floating-point vector: got shape \(2, 4\)"),
        (lambda: apply_rope(randn(4, 8), *COS_SIN, layout="split"), "one of half, interleaved: got layout='split'"),
        (lambda: apply_rope(randn(4, 6), *COS_SIN), r"must not exceed the last of x: got x \(4, 6\), cos \(4, 4\)"),
        (lambda: apply_rope(randn(5, 8), *COS_SIN), r"one row per token of x: got x \(5, 8\), cos \(4, 4\)"),
        (lambda: apply_rope(randn(5, 8), *rope_cos_sin(1, rope_inv_freq(8))), "one row per token of x"),
        (lambda: apply_rope(randn(4, 8), COS_SIN[0], COS_SIN[1][:1]), r"cos and sin must both be"),
        (lambda: apply_rope(randn(8), *COS_SIN), r"and x \(..., T, dim\): got x \(8,\)"),
        (
            lambda: half_to_interleaved(randn(9, 2), 2),
            r"num_heads must divide the rows: got num_heads=2, weight \(9, 2\)",
        ),
        (lambda: interleaved_to_half(randn(8, 2), 2, rotary_dim=3), "from 2 to head_dim=4: got rotary_dim=3"),
        (lambda: half_to_interleaved(randn(8, 2), 2, rotary_dim=6), "from 2 to head_dim=4: got rotary_dim=6"),
        (lambda: axial_rope_2d(2, 2, 6), "dim must be a positive multiple of 4, half for each axis: got dim=6"),
        (lambda: axial_rope_2d(2, 2, 0), "dim must be a positive multiple of 4, half for each axis: got dim=0"),
        (lambda: axial_rope_2d(-1, 2, 8), "must not be negative: got height=-1, width=2"),
        (lambda: axial_rope_2d(2, -1, 8), "must not be negative: got height=2, width=-1"),
    ],
)
def test_bad_input_is_told_what_came_and_what_is_needed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_module_has_every_name_that_it_promises():
    assert all(callable(getattr(positions, name)) for name in positions.__all__)
