"""The exercises of chapter 13: what is right and less exact is remarked on."""

import math

import torch

from chapters import check


def tutorial_in_float32(positions, dim, base=10_000.0):
    """The form of PyTorch's own tutorial: exp and log, all in float32."""
    is_count = not isinstance(positions, torch.Tensor)
    position = (torch.arange(positions) if is_count else positions).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2) * (-math.log(base) / dim))
    code = torch.zeros(len(position), dim)
    code[:, 0::2] = torch.sin(position * div_term)
    code[:, 1::2] = torch.cos(position * div_term)
    return code


def test_float32_angles_pass_and_are_remarked_on():
    report = check.sinusoidal(tutorial_in_float32, record=False)
    assert report.passed, report
    assert ["the angles are float32" in remark for remark in report.remarks] == [True]
