"""The check of chapter 09: its truth is what the ladder is held against."""

import pytest
import torch

from course_utils.check.exercises.norm_bytes import _norm_bytes, norm_bytes
from course_utils.timing.bench.ladder import OPERATIONS


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (64, 100)])
def test_the_truth_is_the_sum_of_the_tensors_that_go_in_and_come_out(shape, dtype, backward):
    x, weight, bias = inputs = OPERATIONS["layer_norm"].inputs(shape, dtype, "cpu", 0)
    tensors = [x, weight, bias, x]
    if backward:
        tensors += [x, x, weight, x, weight, bias]
    counted = _norm_bytes(*shape, dtype.itemsize, backward)
    assert counted == sum(tensor.nbytes for tensor in tensors)
    assert counted == OPERATIONS["layer_norm"].bytes_moved(inputs, backward)


def by_tensors(rows, features, itemsize=4, backward=False):
    x, vector = rows * features * itemsize, features * itemsize
    return 2 * x + 2 * vector + (3 * x + 3 * vector if backward else 0)


def as_a_float(rows, features, itemsize=4, backward=False):
    return float(by_tensors(rows, features, itemsize, backward))


def as_a_tensor(rows, features, itemsize=4, backward=False):
    return torch.tensor(by_tensors(rows, features, itemsize, backward))


def by_nbytes(rows, features, itemsize=4, backward=False):
    dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[itemsize]
    x, vector = torch.empty(rows, features, dtype=dtype), torch.empty(features, dtype=dtype)
    return (x.nbytes + vector.nbytes) * (5 if backward else 2)


@pytest.mark.parametrize("function", [by_tensors, as_a_float, as_a_tensor, by_nbytes])
def test_right_counts_pass(function):
    report = norm_bytes(function, record=False)
    assert report.passed, report


def test_an_unknown_mistake_is_shown_on_small_numbers():
    report = norm_bytes(lambda rows, features, itemsize=4, backward=False: 1234, record=False)
    assert report.misconception is None
    assert report.evidence.arguments["rows"] == 1
    assert report.evidence.arguments["features"] == 1


def test_a_stub_is_not_attempted():
    def untouched(rows, features, itemsize=4, backward=False):
        """Count."""

    assert not norm_bytes(untouched, record=False).attempted
