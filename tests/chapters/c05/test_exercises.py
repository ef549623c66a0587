"""The exercises of chapter 05: what is called right is the gradient of autograd, and what a report
has to say."""

import pytest
import torch
import torch.nn.functional as F

from chapters import check

CHECKS = {
    "layer": check.layer_norm_backward,
    "batch": check.batch_norm_backward,
    "rms": check.rms_norm_backward,
}


def by_autograd(apply, has_bias=True):
    """Return autograd through a built-in in whatever dtype the input has, parameters in the
    same."""

    def gradients(dy, x, *shape, weight=None, eps=1e-5 if has_bias else None):
        z, w = (
            t.detach().clone().requires_grad_()
            for t in (x, _ones(x, *shape) if weight is None else weight)
        )
        leaves = (z, w, torch.zeros_like(w).requires_grad_()) if has_bias else (z, w)
        return torch.autograd.grad(apply(*shape, *leaves, eps), leaves, dy)

    return gradients


def _ones(x, shape=None):
    return x.new_ones(x.shape[1:2] if shape is None else shape)


AUTOGRAD = {
    "layer": by_autograd(lambda shape, x, w, b, eps: F.layer_norm(x, shape, w, b, eps)),
    "batch": by_autograd(lambda x, w, b, eps: F.batch_norm(x, None, None, w, b, True, 0.1, eps)),
    "rms": by_autograd(lambda shape, x, w, eps: F.rms_norm(x, shape, w, eps), has_bias=False),
}


@pytest.mark.parametrize("norm", CHECKS)
def test_what_is_called_right_is_autograds_gradient_in_float64(norm):
    its_check = CHECKS[norm]
    for probe in its_check.probes:
        arguments = its_check.exercise.fill_defaults(probe.call).fresh(double=True)
        positional = [
            arguments.pop(name) for name in ("dy", "x", "normalized_shape") if name in arguments
        ]
        right, truth = (
            its_check.oracle(*positional, **arguments),
            AUTOGRAD[norm](*positional, **arguments),
        )
        torch.testing.assert_close(right, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_the_cpu_builtins_own_gradient_in_half_precision_is_refused_by_name_and_right_before(norm):
    """torch 2.13 rounds mean and 1/σ to bfloat16 there: dx and dweight of rows near 256 are off by
    half."""
    report = CHECKS[norm](AUTOGRAD[norm], record=False)
    assert report.misconception == "statistics_saved_in_half", report
    assert all(probe.passed for probe in report.probes if "half" not in probe.stage)
