"""The check of chapter 10: right ways to normalize a padded tile pass."""

import pytest
import torch

from course_utils.check.masked_row_check import masked_layer_norm


def as_the_kernel(block, n_cols, eps=1e-5):
    inside = torch.arange(block.shape[1]) < n_cols
    x = torch.where(inside, block.float(), 0.0)
    x = torch.where(inside, x - x.sum(1, keepdim=True) / n_cols, 0.0)
    return (x * torch.rsqrt((x * x).sum(1, keepdim=True) / n_cols + eps)).to(block.dtype)


def row_by_row(block, n_cols, eps=1e-5):
    y = torch.zeros_like(block)
    for i, row in enumerate(block):
        x = row[:n_cols].double()
        y[i, :n_cols] = (x - x.mean()) / (x.var(correction=0) + eps).sqrt()
    return y


def by_masked_fill(block, n_cols, eps=1e-5):
    outside = torch.arange(block.shape[-1]) >= n_cols
    x = block.to(torch.promote_types(block.dtype, torch.float32)).masked_fill(outside, torch.nan)
    c = x - x.nanmean(-1, keepdim=True)
    return (c / (c.square().nanmean(-1, keepdim=True) + eps).sqrt()).nan_to_num(0.0).to(block.dtype)


def second_mask_in_the_sum(block, n_cols, eps=1e-5):
    inside = torch.arange(block.shape[1]) < n_cols
    c = block.float() - torch.where(inside, block.float(), 0.0).sum(1, keepdim=True) / n_cols
    variance = torch.where(inside, c * c, 0.0).sum(1, keepdim=True) / n_cols
    return torch.where(inside, c / (variance + eps).sqrt(), 0.0).to(block.dtype)


@pytest.mark.parametrize("function", [as_the_kernel, row_by_row, by_masked_fill, second_mask_in_the_sum])
def test_right_ways_pass(function):
    report = masked_layer_norm(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"


def test_an_unknown_mistake_is_shown_on_a_small_input():
    report = masked_layer_norm(lambda block, n_cols, eps=1e-5: as_the_kernel(block, n_cols, eps) * 0.9, record=False)
    assert not report.passed
    assert report.misconception is None
    assert report.evidence.arguments["block"].numel() <= 8


def test_a_stub_is_not_attempted():
    def untouched(block, n_cols, eps=1e-5):
        """Normalize."""

    assert not masked_layer_norm(untouched, record=False).attempted
