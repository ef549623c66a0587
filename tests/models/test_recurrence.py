"""Linear recurrences: the scan is the loop, and minGRU a GRU whose gates see the input only."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_utils.models import MinGRU, linear_recurrence, linear_scan


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 100, 257])
def test_the_scan_is_the_loop(length):
    a, b, h0 = random(2, length, 3).sigmoid(), random(2, length, 3, seed=1), random(2, 3, seed=2)
    for start in (None, h0):
        assert_close(linear_scan(a, b, start), linear_recurrence(a, b, start), atol=1e-13, rtol=0)
    a[:, length // 2] = 0.0  # a gate that closes
    leaves = [leaf.requires_grad_() for leaf in (a, b, h0)]
    gradients = [
        torch.autograd.grad(fn(*leaves).cos().sum(), leaves)
        for fn in (linear_scan, linear_recurrence)
    ]
    assert_close(*gradients, atol=1e-13, rtol=0)


def test_mingru_is_a_gru_whose_gates_see_the_input_only():
    """nn.GRU with its recurrent weights at zero and its reset gate shut; its candidate has a tanh,
    which is undone."""
    mine = MinGRU(3, 4).double()
    theirs = nn.GRU(3, 4, batch_first=True).double()
    x = random(2, 6, 3)
    with torch.no_grad():
        theirs.weight_hh_l0.zero_()
        theirs.bias_hh_l0.zero_()
        theirs.weight_ih_l0[4:8], theirs.bias_ih_l0[4:8] = -mine.gate.weight, -mine.gate.bias
        theirs.weight_ih_l0[8:], theirs.bias_ih_l0[8:] = (
            1e-5 * mine.candidate.weight,
            1e-5 * mine.candidate.bias,
        )
        # tanh(u) = u - u³/3: with u near 1e-5 the two differ by 1e-10 of the value
        assert_close(1e5 * theirs(x)[0], mine(x), atol=1e-9, rtol=0)
    by_scan = mine(x)
    mine.recurrence = linear_recurrence
    assert_close(by_scan, mine(x), atol=1e-14, rtol=0)
