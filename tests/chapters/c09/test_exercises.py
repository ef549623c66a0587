"""The exercises of chapter 09: the bytes that are called right."""

import pytest
import torch

from chapters import check
from chapters.c09_where_the_time_goes.ladder import OPERATIONS


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_what_norm_bytes_calls_right_is_the_sum_of_the_tensors_that_go_in_and_come_out(
    dtype, backward
):
    x, weight, bias = inputs = OPERATIONS["layer_norm"].inputs((3, 5), dtype, "cpu", 0)
    tensors = [x, weight, bias, x, *([x, x, weight, x, weight, bias] if backward else ())]
    counted = check.norm_bytes.oracle(3, 5, dtype.itemsize, backward)
    assert counted == sum(tensor.nbytes for tensor in tensors)
    assert counted == OPERATIONS["layer_norm"].bytes_moved(inputs, backward)
