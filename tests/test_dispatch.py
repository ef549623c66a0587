"""What is counted as moved and as nested, on operators whose bytes and calls are known."""

import os

import pytest
import torch
import torch.nn.functional as F

from course_utils.timing.dispatch import nesting, traffic

X, Y = torch.ones(10, 10), torch.ones(10, 10)


def moved(fn, *args):
    return [(step.operator, step.bytes_read, step.bytes_written) for step in traffic(fn, *args)]


@pytest.mark.parametrize(
    ("fn", "steps"),
    [
        pytest.param(lambda x, y: x + y, [("add", 800, 400)], id="two tensors in, one out"),
        pytest.param(lambda x, y: x.clone().mul_(y), [("clone", 400, 400), ("mul_", 800, 400)], id="in place"),
        pytest.param(lambda x, y: x.sum(), [("sum", 400, 4)], id="a reduction"),
        pytest.param(lambda x, y: x.view(100)[:50].view(5, 10).mT, [], id="views"),
        pytest.param(lambda x, y: torch.empty_like(x), [], id="an allocation"),
        pytest.param(
            lambda x, y: x + y.sum(0).expand(10, 10), [("sum", 400, 40), ("add", 440, 400)], id="an expanded tensor"
        ),
        pytest.param(lambda x, y: torch.add(x, y, out=torch.empty(10, 10)), [("add", 800, 400)], id="out="),
        pytest.param(lambda x, y: x.double() * 2, [("_to_copy", 400, 800), ("mul", 800, 800)], id="another dtype"),
    ],
)
def test_bytes_are_those_of_the_tensors_that_go_in_and_come_out(fn, steps):
    assert moved(fn, X, Y) == steps


def test_the_built_in_layer_norm_reads_its_input_once_and_writes_its_output_and_two_numbers_a_row():
    x, weight, bias = torch.randn(32, 100), torch.ones(100), torch.zeros(100)
    (step,) = traffic(F.layer_norm, x, (100,), weight, bias)
    assert step.operator == "native_layer_norm"
    assert step.bytes_read == 4 * (3200 + 200)
    assert step.bytes_written == 4 * (3200 + 64)
    assert step.bytes_moved == step.bytes_read + step.bytes_written


def test_the_operators_of_the_backward_pass_are_seen_as_well():
    x = torch.randn(10, 10, requires_grad=True)
    names = [step.operator for step in traffic(lambda x: torch.autograd.grad((x * x).sum(), x), x)]
    assert names[:2] == ["mul", "sum"]
    assert len(names) > 2


def test_an_operator_called_by_another_is_one_level_deeper():
    events = nesting(lambda: F.layer_norm(X, (10,)))
    assert events[:2] == [(1, "aten::layer_norm"), (2, "aten::native_layer_norm")]
    assert {level for level, _ in events[2:]} == {3}


def test_profiling_writes_nothing(capfd):
    nesting(lambda: X + Y)
    assert capfd.readouterr() == ("", "")
    assert os.environ["KINETO_LOG_LEVEL"]
