"""The exercises of chapters 12 to 15: right answers in many forms pass; the slips that reviews found are named."""

import math

import pytest
import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from chapters import check
from course_utils.rope import apply_rope, rope_cos_sin, rope_frequencies, rope_inv_freq

transformers.logging.set_verbosity_error()

FAR = "the angles are float32"


def places(positions):
    return positions if isinstance(positions, torch.Tensor) else torch.arange(positions)


def by_loops(positions, dim, base=10_000.0):
    angles = [[t / base ** (2 * i / dim) for i in range(dim // 2)] for t in places(positions).tolist()]
    return torch.tensor([[f(angle) for angle in row for f in (math.sin, math.cos)] for row in angles])


def tutorial_in_float32(positions, dim, base=10_000.0):
    """The form of PyTorch's own tutorial: exp and log, all in float32."""
    position = places(positions).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2) * (-math.log(base) / dim))
    code = torch.zeros(len(position), dim)
    code[:, 0::2] = torch.sin(position * div_term)
    code[:, 1::2] = torch.cos(position * div_term)
    return code


def test_right_sinusoids_pass_and_float32_angles_are_remarked_on():
    for function, remarks in ((by_loops, 0), (tutorial_in_float32, 1)):
        report = check.sinusoidal(function, record=False)
        assert report.passed, report
        assert len(report.remarks) == remarks
        assert all(FAR in remark for remark in report.remarks)


def bloom_slopes(num_heads):
    """What transformers' BLOOM multiplies positions with: its bias at position 1."""
    return build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]


INTERLEAVED, ROUNDED = "interleaved layout", "rotated in half precision"


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
    frequencies = 1.0 / (base ** (torch.arange(0, x.shape[-1], 2)[: x.shape[-1] // 2].float() / x.shape[-1]))
    turns = torch.polar(torch.ones(len(positions), x.shape[-1] // 2), torch.outer(positions.float(), frequencies))
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


RIGHT = {course: set(), llama: {ROUNDED, FAR}, meta: {INTERLEAVED, FAR}}


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_a_right_way_to_write_it_passes_and_its_layout_and_precision_are_remarked_on(function):
    report = check.rope(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert len(report.remarks) == len(set(report.remarks))
    remarks = " ".join(report.remarks)
    assert {words for words in (INTERLEAVED, ROUNDED, FAR) if words in remarks} == RIGHT[function], remarks


def test_mixed_pairs_and_a_mistake_in_the_other_layout_are_named():
    def with_pairs(x, positions, base, read, write):
        cos, sin = rope_cos_sin(positions, rope_inv_freq(x.shape[-1], base))
        first, second = read(x.float())
        return write((first * cos - second * sin, first * sin + second * cos)).to(x.dtype)

    def deepseek(x, positions, base=10_000.0):
        return with_pairs(x, positions, base, lambda x: (x[..., 0::2], x[..., 1::2]), lambda both: torch.cat(both, -1))

    def chunk_and_stack(x, positions, base=10_000.0):
        return with_pairs(x, positions, base, lambda x: x.chunk(2, -1), lambda both: torch.stack(both, -1).flatten(-2))

    assert check.rope(deepseek, record=False).misconception == "reads_pairs_writes_halves"
    assert check.rope(chunk_and_stack, record=False).misconception == "reads_halves_writes_pairs"
    report = check.rope(lambda x, positions, base=10_000.0: meta(x, positions), record=False)
    assert report.misconception == "ignores_base"
    assert "base" in report.evidence.call


def order(rows, num_heads):
    head_dim = rows // num_heads
    half = head_dim // 2
    return torch.tensor([h * head_dim + i + j * half for h in range(num_heads) for i in range(half) for j in range(2)])


def assigned_to_the_whole(weight, num_heads):
    result, size = torch.empty_like(weight), len(weight) // num_heads
    for start in range(0, len(weight), size):
        result[start : start + size : 2], result[start + 1 : start + size : 2] = weight[start : start + size].chunk(2)
    return result


def test_right_permutations_pass_and_those_that_fail_under_autograd_or_move_columns_are_named():
    def chunk_and_assign(weight, num_heads):
        result = torch.zeros_like(weight)
        for target, source in zip(result.chunk(num_heads), weight.chunk(num_heads), strict=True):
            target[0::2], target[1::2] = source.chunk(2)
        return result

    for function, key in (
        (lambda weight, n: weight.view(n, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape), None),
        (lambda weight, num_heads: weight[order(len(weight), num_heads)], None),
        (assigned_to_the_whole, None),
        (chunk_and_assign, "error_with_gradient"),
        (lambda weight, num_heads: weight[:, order(len(weight), num_heads)], "columns"),
        (lambda weight, num_heads: assigned_to_the_whole(weight.T, num_heads).T, "columns"),
    ):  # fmt: skip
        report = check.half_to_interleaved(function, record=False)
        assert (report.passed, report.misconception) == (key is None, key), report


def test_right_counts_and_slopes_pass():
    assert check.alibi_slopes(bloom_slopes, record=False).passed
    counted = lambda D, base, L: 2 * sum(L * base ** (-2 * k / D) >= 2 * math.pi for k in range(D // 2))  # noqa: E731
    assert check.critical_dimension(counted, record=False).passed


@pytest.mark.parametrize(
    ("its_check", "function"),
    [
        (check.sinusoidal, lambda positions, dim, base=1e4: by_loops(places(positions).clamp(max=100), dim, base)),
        (check.rope, lambda x, positions, base=1e4: course(x, positions % 4096, base)),
        (check.alibi_slopes, lambda num_heads: bloom_slopes(num_heads) if num_heads < 9 else torch.ones(num_heads)),
        (check.half_to_interleaved, lambda weight, num_heads: weight[order(len(weight), num_heads)].flip(0)),
        (check.critical_dimension, lambda head_dim, base, window: 6),
    ],
)
def test_an_unknown_mistake_is_shown_with_an_input(its_check, function):
    report = its_check(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.expected != report.evidence.got


def by_transformers(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    """What transformers answers: its own functions, float32; `default` and `ntk` from the nearest that it has."""
    parameters = {"rope_theta": 10_000.0, **rope_parameters}
    window = max_position_embeddings
    if parameters["rope_type"] == "default":
        parameters |= {"rope_type": "linear", "factor": 1.0}
    if parameters["rope_type"] == "ntk":
        seq_len = int(parameters["factor"] * window)
        parameters |= {"rope_type": "dynamic", "factor": 1.0}
    sizes = {"head_dim": head_dim, "hidden_size": 2 * head_dim, "num_attention_heads": 2}
    config = LlamaConfig(**sizes, max_position_embeddings=window)
    config.rope_parameters = parameters
    return ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=seq_len)


@pytest.mark.parametrize("right", [by_transformers, rope_frequencies])
@pytest.mark.parametrize("name", ["plain_frequencies", "rope_frequencies"])
def test_right_answers_pass_whoever_wrote_them(right, name):
    its_check = getattr(check, name)
    asked = right if name == "rope_frequencies" else lambda *given, **named: right(*given, **named)[0]
    report = its_check(asked, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert any("rounded to float32" in remark for remark in report.remarks) == (right is by_transformers)


def changed(condition, change):
    """The right answer, with ``change`` made to it where ``condition`` holds for the parameters."""

    def rope(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        inv_freq, factor = rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)
        return change(inv_freq, factor) if condition(rope_parameters) else (inv_freq, factor)

    return rope


@pytest.mark.parametrize(
    ("rope_type", "change", "stage"),
    [
        ("yarn", lambda f, a: (f, a + 0.01), "yarn, temperature"),
        ("yarn", lambda f, a: (f.roll(1), a), "yarn, frequencies"),
        ("llama3", lambda f, a: (f, 1.01), "llama3"),
        ("longrope", lambda f, a: (torch.cat((f[:1] * 2, f[1:])), a), "longrope, lists"),
    ],
)
def test_an_unknown_mistake_is_rejected_with_an_input_that_shows_it(rope_type, change, stage):
    report = check.rope_frequencies(changed(lambda p: p["rope_type"] == rope_type, change), record=False)
    assert not report.passed
    assert report.misconception is None
    assert repr(rope_type) in report.evidence.call
    assert next(probe.stage for probe in report.probes if not probe.passed) == stage


def test_a_type_that_is_not_written_yet_leaves_word_of_what_is_right_already():
    def so_far(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ("default", "linear", "ntk"):
            raise ValueError(f"unknown rope_type {rope_parameters['rope_type']!r}")
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)[0]

    report = check.plain_frequencies(so_far, record=False)
    assert not report.passed
    assert "ValueError: unknown rope_type 'dynamic'" in report.message
    assert "Right already: default, partial rotation, linear, ntk." in report.message


@pytest.mark.parametrize("key", ["reversed", "ignores_base", "one_angle", "twice_the_exponent"])
def test_the_small_input_that_shows_a_mistake_of_rope_has_whole_pairs(key):
    report = check.rope(check.rope.catalogue[key].examples[0], record=False)
    assert report.evidence.arguments["x"].shape[-1] in (2, 4)
