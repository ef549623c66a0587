"""The checks of chapters 00 and 01: right answers pass, unknown ones are shown."""

import pytest
import torch
import torch.nn.functional as F

from course_utils.check.first_steps_check import centre, normalize

RIGHT_CENTRES = {
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "unsqueeze": lambda x: x - x.mean(1)[:, None],
    "transposed": lambda x: (x.T - x.mean(1)).T,
    "matrix": lambda x: x @ (torch.eye(x.shape[1]) - 1 / x.shape[1]).to(x),
    "in float64": lambda x: (x.double() - x.double().mean(-1, keepdim=True)).to(x.dtype),
}
RIGHT_NORMALIZES = {
    "var": lambda x, dims, eps=1e-5: (
        (x - x.mean(dims, keepdim=True)) / (x.var(dims, correction=0, keepdim=True) + eps).sqrt()
    ),
    "var_mean": lambda x, dims, eps=1e-5: (
        (x - torch.var_mean(x, dims, correction=0, keepdim=True)[1])
        * torch.rsqrt(torch.var_mean(x, dims, correction=0, keepdim=True)[0] + eps)
    ),
    "std squared": lambda x, dims, eps=1e-5: (
        (x - x.mean(dims, keepdim=True)) / (x.std(dims, correction=0, keepdim=True) ** 2 + eps).sqrt()
    ),
}


@pytest.mark.parametrize("name", RIGHT_CENTRES)
def test_right_ways_to_centre_pass(name):
    assert centre(RIGHT_CENTRES[name], record=False).passed


@pytest.mark.parametrize("name", RIGHT_NORMALIZES)
def test_right_ways_to_normalize_pass(name):
    report = normalize(RIGHT_NORMALIZES[name], record=False)
    assert report.passed, report


def test_a_layer_norm_is_not_a_normalize_of_any_dimensions():
    report = normalize(lambda x, dims, eps=1e-5: F.layer_norm(x, x.shape[-1:], eps=eps), record=False)
    assert report.misconception == "last_dimension"


def test_an_unknown_mistake_is_shown_on_a_small_input():
    report = centre(lambda x: x - x.mean(-1, keepdim=True) + (x > 5).float(), record=False)
    assert report.misconception is None
    assert not report.passed
    assert report.evidence is not None


def test_a_stub_is_not_attempted():
    def untouched(x):
        """Subtract from every row its mean."""

    report = centre(untouched, record=False)
    assert not report.attempted
    assert not report.passed
