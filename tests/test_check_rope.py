"""The check of rotary embeddings: right ones pass in either layout, unknown wrong ones are shown."""

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from course_utils import check
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq

INTERLEAVED, ROUNDED, FAR = "interleaved layout", "rotated in half precision", "the angles are float32"


def run(function):
    return check.rope(function, record=False)


# --- right ways to write it ---


def course(x, positions, base=10_000.0):
    return apply_rope(x, *rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base)))


def llama(x, positions, base=10_000.0):
    config = LlamaConfig(
        hidden_size=x.shape[-1], num_attention_heads=1, head_dim=x.shape[-1], rope_parameters={"rope_theta": base}
    )
    cos, sin = LlamaRotaryEmbedding(config).to(x.device)(x, positions[None])
    heads = x.reshape(1, -1, *x.shape[-2:])  # their (B, H, T, dim)
    return apply_rotary_pos_emb(heads, heads, cos, sin)[0].reshape(x.shape)


def meta(x, positions, base=10_000.0):
    """Complex multiplication, as in the code that came with Llama."""
    frequencies = 1.0 / (base ** (torch.arange(0, x.shape[-1], 2)[: x.shape[-1] // 2].float() / x.shape[-1]))
    turns = torch.polar(torch.ones(len(positions), x.shape[-1] // 2), torch.outer(positions.float(), frequencies))
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


def complex_in_float64(x, positions, base=10_000.0):
    half = x.shape[-1] // 2
    angles = positions.double()[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.exp(1j * angles)
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def matrices(x, positions, base=10_000.0):
    """S2's 2×2 matrices, and einsum."""
    half = x.shape[-1] // 2
    angles = positions.double()[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = angles.cos(), angles.sin()
    turn = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)  # (T, half, 2, 2)
    pairs = torch.stack((x[..., :half], x[..., half:]), dim=-1).double()
    rotated = torch.einsum("tkij,...tkj->...tki", turn, pairs)
    return torch.cat(rotated.unbind(-1), dim=-1).to(x.dtype)


def cached_table(x, positions, base=10_000.0):
    """A table as long as it has to be, and a row of it for each token."""
    inv_freq = torch.exp(-math.log(base) * torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = torch.arange(int(positions.max()) + 1)[:, None] * inv_freq
    table = torch.cat((angles, angles), dim=-1)
    cos, sin = table.cos()[positions].to(x.dtype), table.sin()[positions].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def float32_frequencies_alone(x, positions, base=10_000.0):
    angles = positions.double()[:, None] * rope_inv_freq(x.shape[-1], base).float()
    first, second = x.double().chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1).to(x.dtype)


RIGHT = {
    course: set(),
    float32_frequencies_alone: set(),
    llama: {ROUNDED, FAR},
    meta: {INTERLEAVED, FAR},
    complex_in_float64: set(),
    matrices: set(),
    cached_table: {ROUNDED, FAR},
}


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_a_right_way_to_write_it_passes_and_its_layout_and_precision_are_remarked_on(function):
    report = run(function)
    assert report.passed, f"{report}\n{report.table()}"
    assert len(report.remarks) == len(set(report.remarks))
    remarks = " ".join(report.remarks)
    assert {words for words in (INTERLEAVED, ROUNDED, FAR) if words in remarks} == RIGHT[function], remarks


# --- mistakes as they are published or first written ---


def llama_from_a_blog(x, positions, base=10_000.0):
    """θ from the paper's formula for k = 1, 2, ..., with k counted from 0."""
    theta = torch.tensor([base ** (-2.0 * (k - 1) / x.shape[-1]) for k in range(x.shape[-1] // 2)], dtype=torch.float64)
    return complex_with(x, positions, theta)


def complex_with(x, positions, theta):
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.exp(
        1j * positions.double()[:, None] * theta
    )
    return torch.cat((z.real, z.imag), dim=-1).to(x.dtype)


def positions_in_the_dtype_of_q(x, positions, base=10_000.0):
    inv_freq = 1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
    angles = torch.outer(positions.to(x.dtype).float(), inv_freq)
    first, second = x.float().chunk(2, dim=-1)
    c, s = angles.cos(), angles.sin()
    return torch.cat((first * c - second * s, first * s + second * c), dim=-1).to(x.dtype)


def buffer_of_a_model_cast_to_half(x, positions, base=10_000.0):
    inv_freq = (1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])).to(x.dtype)
    angles = torch.outer(positions.float(), inv_freq.float())
    first, second = x.float().chunk(2, dim=-1)
    c, s = angles.cos(), angles.sin()
    return torch.cat((first * c - second * s, first * s + second * c), dim=-1).to(x.dtype)


def batch_time_heads(x, positions, base=10_000.0):
    """Written for (B, T, H, dim), given (B, H, T, dim)."""
    if x.ndim < 4:
        return course(x, positions, base)
    cos, sin = rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base))
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def forgets_to_come_back_from_float32(x, positions, base=10_000.0):
    return course(x.float(), positions, base)


def with_pairs(x, positions, base, read, write):
    cos, sin = rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base))
    first, second = read(x.float())
    return write((first * cos - second * sin, first * sin + second * cos)).to(x.dtype)


def neighbours(x):
    return x[..., 0::2], x[..., 1::2]


def deepseek(x, positions, base=10_000.0):
    return with_pairs(x, positions, base, neighbours, lambda turned: torch.cat(turned, dim=-1))


def chunk_and_stack(x, positions, base=10_000.0):
    return with_pairs(x, positions, base, lambda x: x.chunk(2, -1), lambda turned: torch.stack(turned, -1).flatten(-2))


def neighbours_rotated_with_a_half_split_table(x, positions, base=10_000.0):
    cos, sin = (t.repeat(1, 2).to(x) for t in rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base)))
    even, odd = neighbours(x)
    return x * cos + torch.stack((-odd, even), dim=-1).flatten(-2) * sin


def rotate_half_of_neighbours(x, positions, base=10_000.0):
    cos, sin = (t.repeat(1, 2).to(x) for t in rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base)))
    even, odd = neighbours(x)
    return x * cos + torch.cat((-odd, even), dim=-1) * sin


@pytest.mark.parametrize(
    ("function", "key"),
    [
        (llama_from_a_blog, "index_shifted"),
        (deepseek, "reads_pairs_writes_halves"),
        (chunk_and_stack, "reads_halves_writes_pairs"),
        (neighbours_rotated_with_a_half_split_table, "mixed_layouts"),
        (rotate_half_of_neighbours, "mixed_layouts"),
        (positions_in_the_dtype_of_q, "half_angles"),
        (buffer_of_a_model_cast_to_half, "half_frequencies"),
        (batch_time_heads, "wrong_axis"),
        (forgets_to_come_back_from_float32, "wider_than_x"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_published_code_is_told_what_it_gets_wrong(function, key):
    report = run(function)
    assert report.misconception == key, f"{report}\n{report.table()}"


def test_a_mistake_in_the_interleaved_layout_is_named_under_that_layout():
    report = run(lambda x, positions, base=10_000.0: meta(x, positions))
    assert report.misconception == "ignores_base"
    assert report.evidence is not None
    assert "base" in report.evidence.call


# --- mistakes that nobody has listed ---


def turns_twice(x, positions, base=10_000.0):
    return course(course(x, positions, base), positions, base)


def wraps_at_a_table_of_4096(x, positions, base=10_000.0):
    return course(x, positions % 4096, base)


@pytest.mark.parametrize("function", [turns_twice, wraps_at_a_table_of_4096])
def test_an_unknown_mistake_is_rejected_with_an_input_that_shows_it(function):
    report = run(function)
    assert report.attempted
    assert not report.passed
    assert report.misconception is None
    assert report.evidence is not None
    assert report.evidence.expected != report.evidence.got


def test_a_table_that_is_too_short_is_a_finding_and_no_crash():
    def short(x, positions, base=10_000.0):
        return apply_rope(x, *(table[positions] for table in rope_cos_sin(2048, rope_inv_freq(x.shape[-1], base))))

    report = run(short)
    assert not report.passed
    assert "IndexError" in report.message


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_course_s_own_passes_on_a_gpu():
    assert check.rope(course, device="cuda", record=False).passed
