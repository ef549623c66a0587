"""Every example of every known mistake is rejected, and by name; so are everyday slips made several
at once."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from naming import keys_of

from chapters import check
from course_utils.check.diagnosis import function_with

# the kernels' are in c10/test_exercises.py, which has a process with Triton's interpreter
CHECKS = {
    name: its_check
    for name, its_check in check.items()
    if its_check.catalogue and not name.endswith("_kernel")
}
EVERYDAY = {
    name: everyday
    for name, its_check in CHECKS.items()
    if (everyday := [key for key, mistake in its_check.catalogue.items() if mistake.everyday])
}


@pytest.mark.parametrize("name", CHECKS)
def test_every_example_of_a_mistake_is_rejected_and_named_and_nothing_else_is(name):
    for mistake in CHECKS[name].catalogue.values():
        assert mistake.examples
        for form, example in enumerate(
            replace(mistake).examples
        ):  # new ones: some remember their calls
            assert keys_of(CHECKS[name], example) == [mistake.key], f"{mistake.key}, example {form}"


@pytest.mark.parametrize("name", CHECKS)
def test_the_first_example_gets_a_full_report(name):
    key, mistake = next(iter(CHECKS[name].catalogue.items()))
    report = CHECKS[name](mistake.examples[0], record=False)
    assert (report.passed, report.misconception) == (False, key)
    assert mistake.wrong in report.points
    assert report.evidence.lines()


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_slips_made_at_once_are_rejected_and_what_is_named_is_among_them(name):
    """All pairs, and all subsets of five."""
    its_check, keys = CHECKS[name], EVERYDAY[name]
    for slips in [
        slips for size in range(2, 6) for slips in combinations(keys[: 6 if size == 2 else 5], size)
    ]:
        function = function_with(its_check.exercise, tuple((key, 0) for key in slips))
        assert function is not None, f"edits overlap: {slips}"
        named = keys_of(its_check, function)
        assert named, slips
        assert set(named) <= set(slips)


def test_every_norm_rope_and_ema_know_five_slips_that_meet():
    names = {"layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "rope", "ema"}
    assert {name for name, everyday in EVERYDAY.items() if len(everyday) >= 5} >= names


def dims_of(normalized_shape):
    return tuple(range(-len(normalized_shape), 0))


def affine(y, weight, bias, column=None):
    weight, bias = (p if p is None or column is None else p.view(column) for p in (weight, bias))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


# Mistakes as they are published or first written, several at once: what is named is the one to mend
# first.
def annotated_transformer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = dims_of(normalized_shape)
    y = (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)
    return affine(y, weight, bias)


def s3(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = dims_of(normalized_shape)
    mean = x.mean(dim=dims, keepdim=True)
    var = (x**2).mean(dim=dims, keepdim=True) - mean**2
    y = (x - mean) / torch.sqrt(var + eps)
    return affine(y, weight, bias)


def llama(x, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    dims = dims_of(normalized_shape)
    z = x.to(torch.float32)
    z = z * torch.rsqrt(z.pow(2).mean(dims, keepdim=True) + eps)
    return z.to(x.dtype) if weight is None else weight * z.to(x.dtype)


def fastai_batch_norm(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    column = (1, -1) + (1,) * (x.ndim - 2)
    if training:
        with torch.no_grad():
            mean = x.mean((0, *range(2, x.ndim)))
            var = x.var((0, *range(2, x.ndim)))
            if running_mean is not None:
                running_mean.lerp_(mean, momentum)
                running_var.lerp_(var, momentum)
    else:
        mean, var = running_mean, running_var
    y = (x - mean.view(column)) / (var.view(column) + eps).sqrt()
    return affine(y, weight, bias, column)


def d2l_batch_norm(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """The mode from is_grad_enabled, the biased variance stored."""
    dims, column = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
    if torch.is_grad_enabled():
        mean = x.mean(dims)
        var = ((x - mean.view(column)) ** 2).mean(dims)
        if running_mean is not None:
            running_mean.data.lerp_(mean.data, momentum)
            running_var.data.lerp_(var.data, momentum)
    else:
        mean, var = running_mean, running_var
    y = (x - mean.view(column)) / torch.sqrt(var.view(column) + eps)
    return affine(y, weight, bias, column)


@pytest.mark.parametrize(
    ("its_check", "function", "keys"),
    [
        (
            check.layer_norm,
            annotated_transformer,
            ["unbiased_variance", "eps_outside_root", "half_statistics"],
        ),
        (check.layer_norm, s3, ["one_pass_variance"]),
        (check.rms_norm, llama, ["rounds_twice"]),
        (check.batch_norm, fastai_batch_norm, ["unbiased_variance"]),
        (check.batch_norm, d2l_batch_norm, ["eval_uses_batch"]),
    ],
    ids=lambda value: getattr(value, "__name__", None) or getattr(value, "name", value),
)
def test_published_code_is_told_what_it_gets_wrong_stage_by_stage(its_check, function, keys):
    assert keys_of(its_check, function)[: len(keys)] == keys


def without_keepdim(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = dims_of(normalized_shape)
    return affine((x - x.mean(dims)) / (x.std(dims) + eps), weight, bias).to(x.dtype)


def running_whenever_given(
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    if running_mean is None:
        return torch.nn.functional.instance_norm(x, None, None, weight, bias, True, momentum, eps)
    return torch.nn.functional.instance_norm(
        x, running_mean, running_var, weight, bias, False, momentum, eps
    )


@pytest.mark.parametrize(
    ("name", "function", "keys"),
    [
        ("layer_norm", without_keepdim, {"missing_keepdim"}),
        (
            "centre",
            lambda x: x - (x.sum(-1, keepdim=True) - x) / (x.shape[1] - 1),
            {"mean_divided_by_less"},
        ),
        ("instance_norm", running_whenever_given, {"prefers_running"}),
    ],
    ids=lambda value: (
        getattr(value, "__name__", None)
        if callable(value)
        else value
        if isinstance(value, str)
        else ""
    ),
)
def test_likely_slips_written_in_other_words_are_named(name, function, keys):
    assert keys <= set(keys_of(CHECKS[name], function))
