"""The checks of chapter 11: right ways to write it pass, unknown wrong ones are shown."""

import math

import numpy as np
import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from course_utils.check.position_check import alibi_slopes, sinusoidal


def places(positions):
    return positions if isinstance(positions, torch.Tensor) else torch.arange(positions)


def by_loops(positions, dim, base=10_000.0):
    rows = []
    for t in places(positions).tolist():
        row = []
        for i in range(dim // 2):
            angle = t / base ** (2 * i / dim)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows)


def by_complex_numbers(positions, dim, base=10_000.0):
    angles = torch.outer(places(positions).double(), base ** (-torch.arange(0, dim, 2).double() / dim))
    turned = torch.polar(torch.ones_like(angles), angles)
    return torch.stack((turned.imag, turned.real), -1).flatten(1).float()


def by_powers_of_one_turn(positions, dim, base=10_000.0):
    """Each row is the one before, turned by one step: a complex power."""
    step = torch.exp(1j * base ** (-torch.arange(0, dim, 2).to(torch.complex128) / dim))
    turned = step[None] ** places(positions)[:, None]
    code = torch.empty(len(turned), dim)
    code[:, 0::2], code[:, 1::2] = turned.imag, turned.real
    return code


def by_einsum(positions, dim, base=10_000.0):
    angles = torch.einsum("t,k->tk", places(positions).double(), base ** -(torch.arange(dim // 2).double() * 2 / dim))
    return torch.einsum("ctk->tkc", torch.stack((angles.sin(), angles.cos()))).reshape(-1, dim).float()


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


def quarter_turn(positions, dim, base=10_000.0):
    """One sine for all columns: the cosine is a sine a quarter of a turn ahead."""
    column = torch.arange(dim)
    angles = places(positions).double()[:, None] * base ** (-(column - column % 2).double() / dim)
    return torch.sin(angles + (column % 2) * math.pi / 2).float()


def by_numpy(positions, dim, base=10_000.0):
    angles = places(positions).numpy()[:, None] / np.power(base, np.arange(0, dim, 2) / dim)
    return torch.from_numpy(np.stack((np.sin(angles), np.cos(angles)), -1).reshape(-1, dim).astype(np.float32))


def in_float64(positions, dim, base=10_000.0):
    angles = places(positions).double()[:, None] * base ** (-torch.arange(0, dim, 2).double() / dim)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


EXACT = [by_loops, by_complex_numbers, by_einsum, quarter_turn, by_numpy, in_float64]
IN_FLOAT32 = [tutorial_in_float32, powers_in_float32]


@pytest.mark.parametrize("function", [*EXACT, *IN_FLOAT32, by_powers_of_one_turn])
def test_right_ways_to_write_the_sinusoid_pass(function):
    report = sinusoidal(function, record=False)
    assert report.passed, report


@pytest.mark.parametrize("function", EXACT)
def test_exact_angles_need_no_remark(function):
    assert sinusoidal(function, record=False).remarks == ()


@pytest.mark.parametrize("function", IN_FLOAT32)
def test_float32_angles_pass_with_a_remark_on_far_positions(function):
    (remark,) = sinusoidal(function, record=False).remarks
    assert "131,071" in remark


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


def slopes_by_exponents(num_heads):
    below = 2 ** math.floor(math.log2(num_heads))
    exponents = [8 / below * (h + 1) for h in range(below)] + [
        4 / below * (2 * h + 1) for h in range(num_heads - below)
    ]
    return torch.pow(2, -torch.tensor(exponents))


@pytest.mark.parametrize("function", [bloom_slopes, mpt_slopes, paper_slopes, slopes_by_exponents])
def test_right_ways_to_write_the_slopes_pass(function):
    report = alibi_slopes(function, record=False)
    assert report.passed, report


def unknown_wave(positions, dim, base=10_000.0):
    return by_loops(positions, dim, base) + 0.3


def unknown_base(positions, dim, base=10_000.0):
    return by_loops(positions, dim, base * 2)


def clipped(positions, dim, base=10_000.0):
    return by_loops(places(positions).clamp(max=100), dim, base)


def triangular(positions, dim, base=10_000.0):
    return 2 / math.pi * torch.asin(by_loops(positions, dim, base))


def steep(num_heads):
    return bloom_slopes(num_heads) * 1.5


def harmonic(num_heads):
    return 1 / torch.arange(2.0, num_heads + 2)


def right_to_eight(num_heads):
    return bloom_slopes(num_heads) if num_heads <= 8 else torch.full((num_heads,), 0.25)


@pytest.mark.parametrize(
    ("check", "function"),
    [
        *((sinusoidal, function) for function in (unknown_wave, unknown_base, clipped, triangular)),
        *((alibi_slopes, function) for function in (steep, harmonic, right_to_eight)),
    ],
)
def test_an_unknown_mistake_is_shown_with_an_input(check, function):
    report = check(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.expected != report.evidence.got


def test_the_smallest_input_that_shows_a_sinusoid_wrong_has_one_position():
    evidence = sinusoidal(unknown_wave, record=False).evidence
    assert evidence.arguments["positions"].numel() == 1
    assert evidence.arguments["dim"] == 2


def test_a_stub_is_not_attempted():
    def untouched(positions, dim, base=10_000.0):
        """Return the code of each position."""

    assert not sinusoidal(untouched, record=False).attempted
