"""Right ways to write a norm pass, whatever their algebra; wrong ones of no known kind are shown on
a small input."""

import pytest
import torch
import torch.nn.functional as F
from devices import on_every_device

from chapters import check
from course_utils import norms


@on_every_device
@pytest.mark.parametrize("library", [F, norms], ids=["torch", "the course"])
@pytest.mark.parametrize(
    "name", ["layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"]
)
def test_the_norms_of_torch_and_of_the_course_pass(name, library, device):
    report = getattr(check, name)(getattr(library, name), device=device, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert report.by_course == (library is norms)


# Wrong functions that are in no catalogue.


def layer_norm_but(change):
    """Return torch's layer norm with ``change(output, x, weight, bias, eps)`` made to its
    output."""

    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return change(F.layer_norm(x, normalized_shape, weight, bias, eps), x, weight, bias, eps)

    return layer_norm


exact = layer_norm_but(lambda y, *_: y)


def test_float32_inside_a_float64_norm_passes_with_a_remark():
    report = check.layer_norm(layer_norm_but(lambda y, *_: y.float().to(y.dtype)), record=False)
    assert report.passed
    assert any("float64" in remark for remark in report.remarks)
    assert not check.layer_norm(exact, record=False).remarks


@pytest.mark.slow
def test_a_compiled_function_passes_although_compiling_takes_longer_than_a_call_may(monkeypatch):
    monkeypatch.setattr("course_utils.check.engine.CALL_LIMIT_S", 0.1)
    torch.compiler.reset()
    report = check.layer_norm(torch.compile(exact, backend="eager"), record=False)
    assert report.passed, report


class Doubled(torch.autograd.Function):
    """Nothing, whose gradient is twice as large as it should be."""

    @staticmethod
    def forward(ctx, y):
        return y.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


def raises_without_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None:
        raise ValueError("a weight, please")  # the known mistake of needing one ends in a TypeError
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


# and how many numbers the smallest x has at most
REJECTED = [
    (layer_norm_but(lambda y, *_: y.masked_fill(y > 1.6, float("nan"))), 18),
    (layer_norm_but(lambda y, x, *_: y if x.dtype == torch.float32 else y + y.abs() / 64), 6),
    (layer_norm_but(lambda y, x, *_: y if x.is_contiguous() else y.contiguous() + 1), 12),
    (layer_norm_but(lambda y, *_: Doubled.apply(y)), 9),
    (raises_without_weight, 3),
]


@pytest.mark.parametrize(("function", "numbers"), REJECTED)
def test_an_unknown_mistake_is_rejected_with_a_small_input_that_shows_it(function, numbers):
    report = check.layer_norm(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.arguments["x"].numel() <= numbers, report
    if report.evidence.quantity:
        assert report.evidence.expected != report.evidence.got
