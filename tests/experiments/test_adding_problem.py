"""The adding problem asks for what it says."""

import torch

from course_utils.experiments.adding_problem import adding_problem


def test_the_adding_problem_asks_for_the_sum_of_the_two_marked_numbers():
    x, target = adding_problem(200, 9, torch.Generator().manual_seed(0))
    numbers, marks = x.unbind(-1)
    assert torch.equal(marks.sum(dim=1), torch.full((200,), 2.0))
    assert torch.equal(marks[:, :4].sum(dim=1), torch.ones(200))
    torch.testing.assert_close((numbers * marks).sum(dim=1), target)
    assert marks.sum(dim=0).min() > 0
