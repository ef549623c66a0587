"""The check of the permutation between the layouts: right ones pass, unknown wrong ones are shown."""

import pytest
import torch

from course_utils import check
from course_utils.rope import rotation as positions


def run(function):
    return check.half_to_interleaved(function, record=False)


def by_index(weight, num_heads):
    head_dim = weight.shape[0] // num_heads
    half = head_dim // 2
    order = [head * head_dim + i + j * half for head in range(num_heads) for i in range(half) for j in range(2)]
    return weight[torch.tensor(order)]


RIGHT = {
    "view and transpose": lambda weight, num_heads: (
        weight.view(num_heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
    ),
    "by index": by_index,
    "a permutation matrix": lambda weight, num_heads: (
        by_index(torch.eye(weight.shape[0], dtype=weight.dtype), num_heads) @ weight
    ),
    "stack": lambda weight, num_heads: torch.cat(
        [torch.stack(head.chunk(2), dim=1).flatten(0, 1) for head in weight.chunk(num_heads)]
    ),
    "the course's": lambda weight, num_heads: positions.half_to_interleaved(weight, num_heads),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_way_to_write_it_passes(name):
    report = run(RIGHT[name])
    assert report.passed, f"{report}\n{report.table()}"


def test_an_unknown_mistake_is_shown_on_a_small_input():
    report = run(lambda weight, num_heads: by_index(weight, num_heads).flip(0))
    assert report.misconception is None
    assert not report.passed
    assert report.evidence is not None
