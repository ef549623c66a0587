"""The exercises of chapters 11, 12 and 14: right answers in many forms pass; the slips that reviews found are named."""

import math

import numpy as np
import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from course_utils import check

FAR = "the angles are float32"


def float64_frequencies(dim, base=10_000.0):
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


# --- sinusoidal ---


def places(positions):
    return positions if isinstance(positions, torch.Tensor) else torch.arange(positions)


def by_loops(positions, dim, base=10_000.0):
    angles = [[t / base ** (2 * i / dim) for i in range(dim // 2)] for t in places(positions).tolist()]
    return torch.tensor([[f(angle) for angle in row for f in (math.sin, math.cos)] for row in angles])


def by_complex_numbers(positions, dim, base=10_000.0):
    turned = torch.exp(1j * torch.outer(places(positions).double(), float64_frequencies(dim, base)))
    return torch.stack((turned.imag, turned.real), -1).flatten(1).float()


def quarter_turn(positions, dim, base=10_000.0):
    """One sine for all columns: the cosine is a sine a quarter of a turn ahead."""
    column = torch.arange(dim)
    angles = places(positions).double()[:, None] * base ** (-(column - column % 2).double() / dim)
    return torch.sin(angles + (column % 2) * math.pi / 2).float()


def by_numpy(positions, dim, base=10_000.0):
    angles = places(positions).numpy()[:, None] / np.power(base, np.arange(0, dim, 2) / dim)
    return torch.from_numpy(np.stack((np.sin(angles), np.cos(angles)), -1).reshape(-1, dim).astype(np.float32))


def in_float64(positions, dim, base=10_000.0):
    angles = places(positions).double()[:, None] * float64_frequencies(dim, base)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def float32_frequencies_alone(positions, dim, base=10_000.0):
    angles = places(positions).double()[:, None] * float64_frequencies(dim, base).float()
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def tutorial_in_float32(positions, dim, base=10_000.0):
    """The form of PyTorch's own tutorial: exp and log, all in float32."""
    position = places(positions).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2) * (-math.log(base) / dim))
    code = torch.zeros(len(position), dim)
    code[:, 0::2] = torch.sin(position * div_term)
    code[:, 1::2] = torch.cos(position * div_term)
    return code


def powers_in_float32(positions, dim, base=10_000.0):
    angles = places(positions).float()[:, None] / base ** (torch.arange(0, dim, 2).float() / dim)
    return torch.stack((angles.sin(), angles.cos()), dim=2).view(len(angles), dim)


@pytest.mark.parametrize(
    ("function", "remarks"),
    [
        *((f, 0) for f in (by_loops, by_complex_numbers, quarter_turn, by_numpy, in_float64)),
        (float32_frequencies_alone, 0),
        (tutorial_in_float32, 1),
        (powers_in_float32, 1),
    ],
)
def test_right_sinusoids_pass_and_float32_angles_are_remarked_on(function, remarks):
    report = check.sinusoidal(function, record=False)
    assert report.passed, report
    assert len(report.remarks) == remarks
    assert all(FAR in remark for remark in report.remarks)


def test_the_smallest_input_that_shows_a_sinusoid_wrong_has_one_position_and_one_pair():
    report = check.sinusoidal(lambda positions, dim, base=1e4: by_loops(positions, dim, base) + 0.3, record=False)
    assert report.misconception is None
    assert report.evidence.arguments["positions"].numel() == 1
    assert report.evidence.arguments["dim"] == 2


# --- alibi_slopes ---


def bloom_slopes(num_heads):
    """What transformers' BLOOM multiplies positions with: its bias at position 1."""
    return build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]


def mpt_slopes(num_heads):
    """What transformers' MPT has: the distance 1 is one before the last key."""
    return -build_mpt_alibi_tensor(num_heads, 2)[:, 0, 0]


def paper_slopes(num_heads):
    """The recursion in the authors' fairseq code."""

    def slopes(n):
        if math.log2(n).is_integer():
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]
        closest = 2 ** math.floor(math.log2(n))
        return slopes(closest) + slopes(2 * closest)[0::2][: n - closest]

    return torch.tensor(slopes(num_heads))


@pytest.mark.parametrize("function", [bloom_slopes, mpt_slopes, paper_slopes])
def test_right_slopes_pass(function):
    assert check.alibi_slopes(function, record=False).passed


# --- half_to_interleaved ---


def order(rows, num_heads):
    head_dim = rows // num_heads
    half = head_dim // 2
    return torch.tensor([h * head_dim + i + j * half for h in range(num_heads) for i in range(half) for j in range(2)])


def assigned_to_the_whole(weight, num_heads):
    result, size = torch.empty_like(weight), len(weight) // num_heads
    for start in range(0, len(weight), size):
        result[start : start + size : 2], result[start + 1 : start + size : 2] = weight[start : start + size].chunk(2)
    return result


@pytest.mark.parametrize(
    "function",
    [
        lambda weight, num_heads: weight.view(num_heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape),
        lambda weight, num_heads: weight[order(len(weight), num_heads)],
        lambda weight, num_heads: torch.eye(len(weight), dtype=weight.dtype)[order(len(weight), num_heads)] @ weight,
        lambda weight, num_heads: torch.cat(
            [torch.stack(head.chunk(2), dim=1).flatten(0, 1) for head in weight.chunk(num_heads)]
        ),
        assigned_to_the_whole,
    ],
    ids=["view and transpose", "index", "matrix", "stack", "assignment"],
)
def test_right_permutations_pass(function):
    report = check.half_to_interleaved(function, record=False)
    assert report.passed, report


def chunk_and_assign(weight, num_heads):
    result = torch.zeros_like(weight)
    for target, source in zip(result.chunk(num_heads), weight.chunk(num_heads), strict=True):
        first, second = source.chunk(2)
        target[0::2] = first
        target[1::2] = second
    return result


@pytest.mark.parametrize(
    ("function", "key"),
    [
        (chunk_and_assign, "error_with_gradient"),
        (lambda weight, num_heads: torch.from_numpy(weight.numpy()[order(len(weight), num_heads)]),
         "error_with_gradient"),
        (lambda weight, num_heads: weight[:, order(len(weight), num_heads)], "columns"),
        (lambda weight, num_heads: assigned_to_the_whole(weight.T, num_heads).T, "columns"),
    ],
)  # fmt: skip
def test_permutations_that_fail_under_autograd_or_move_columns_are_named(function, key):
    assert check.half_to_interleaved(function, record=False).misconception == key


# --- critical_dimension ---


@pytest.mark.parametrize(
    "function",
    [
        lambda D, base, L: 2 * sum(L * base ** (-2 * k / D) >= 2 * math.pi for k in range(D // 2)),
        lambda D, base, L: 2 * (2 * math.pi / float64_frequencies(D, base) <= L).sum(),
        lambda D, base, L: 2 * np.sum(L * base ** (-2 * np.arange(D // 2) / D) >= 2 * np.pi),
    ],
    ids=["counted", "by wavelengths", "numpy"],
)
def test_right_counts_pass(function):
    assert check.critical_dimension(function, record=False).passed


def test_a_count_rounded_in_dimensions_is_named_on_the_number_of_the_task():
    def count(head_dim, base, window):
        return min(head_dim, max(0, math.ceil(head_dim * math.log(window / (2 * math.pi), base))))

    assert count(32, 100.0, 128) == 21
    assert check.critical_dimension(count, record=False).misconception == "rounded_in_dimensions"


@pytest.mark.parametrize("number", [10**400, -(10**400), "22"])
def test_what_is_no_count_is_wrong_and_nothing_is_raised(number):
    report = check.critical_dimension(lambda head_dim, base, window: number, record=False)
    assert (report.attempted, report.passed) == (True, False)


# --- what none of the catalogues knows ---


@pytest.mark.parametrize(
    ("its_check", "function"),
    [
        (check.sinusoidal, lambda positions, dim, base=1e4: by_loops(positions, dim, base * 2)),
        (check.sinusoidal, lambda positions, dim, base=1e4: by_loops(places(positions).clamp(max=100), dim, base)),
        (check.alibi_slopes, lambda num_heads: bloom_slopes(num_heads) * 1.5),
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
