"""memory: a forward pass that keeps nothing, and one that could not."""

import pytest
import torch
from torch import nn

from course_utils.timing.memory import saved_bytes


def test_without_a_gradient_to_find_there_is_nothing_to_measure():
    x = torch.ones(10)
    with pytest.raises(ValueError, match="args must hold a tensor that requires a gradient: got none"):
        saved_bytes(torch.exp, x)


def test_parameters_inside_the_function_count_too():
    assert saved_bytes(nn.Linear(10, 1), torch.ones(3, 10)) > 0


def test_zero_is_an_answer_where_something_requires_a_gradient():
    assert saved_bytes(lambda x: x + 1, torch.ones(10, requires_grad=True)) == 0
    assert saved_bytes(torch.argmax, torch.ones(10, requires_grad=True)) == 0
