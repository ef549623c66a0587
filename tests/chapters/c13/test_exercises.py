"""The exercises of chapter 13: right sinusoids and slopes in many forms pass."""

import math

import pytest
import torch
import transformers
from naming import assert_passes, assert_shown_without_a_name
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from chapters import check

transformers.logging.set_verbosity_error()
FAR = "the angles are float32"


def places(positions):
    return positions if isinstance(positions, torch.Tensor) else torch.arange(positions)


def by_loops(positions, dim, base=10_000.0):
    angles = [
        [t / base ** (2 * i / dim) for i in range(dim // 2)] for t in places(positions).tolist()
    ]
    return torch.tensor(
        [[f(angle) for angle in row for f in (math.sin, math.cos)] for row in angles]
    )


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


def test_the_slopes_of_bloom_pass():
    assert_passes(check.alibi_slopes, bloom_slopes)


@pytest.mark.parametrize(
    ("its_check", "function"),
    [
        (
            check.sinusoidal,
            lambda positions, dim, base=1e4: by_loops(places(positions).clamp(max=100), dim, base),
        ),
        (
            check.alibi_slopes,
            lambda num_heads: bloom_slopes(num_heads) if num_heads < 9 else torch.ones(num_heads),
        ),
    ],
)
def test_an_unknown_mistake_is_shown_with_an_input(its_check, function):
    assert_shown_without_a_name(its_check, function)
