"""Every example of every known mistake is rejected, and by name; the catalogue says enough, and nothing twice."""

import pytest
import torch

from course_utils import check

NORMS = (check.layer_norm, check.rms_norm, check.group_norm, check.instance_norm, check.batch_norm)
CHECKS = tuple(one for name in check.__all__ if isinstance(one := getattr(check, name), check.Check))
MISTAKES = [
    pytest.param(its_check, mistake, id=f"{its_check.name}-{mistake.key}")
    for its_check in CHECKS
    for mistake in its_check.catalogue.values()
]
EXAMPLES = [
    pytest.param(its_check, mistake.key, example, id=f"{its_check.name}-{mistake.key}-{number}")
    for its_check in CHECKS
    for mistake in its_check.catalogue.values()
    for number, example in enumerate(mistake.examples)
]


@pytest.mark.parametrize(("its_check", "key", "example"), EXAMPLES)
def test_an_example_is_rejected_and_named(its_check, key, example):
    report = its_check(example, record=False)
    assert report.attempted
    assert not report.passed
    assert report.misconception == key, f"{report}\n{report.table()}"
    assert report.evidence is not None


@pytest.mark.parametrize(("its_check", "mistake"), MISTAKES)
def test_a_mistake_is_told_in_sentences_that_do_not_repeat_each_other(its_check, mistake):
    assert not mistake.title.endswith(".")
    for sentence in (mistake.wrong, mistake.matters, mistake.hint):
        assert sentence[-1] in ".?"
        assert 15 < len(sentence) < 400
    assert len({mistake.title, mistake.wrong, mistake.matters, mistake.hint}) == 4


def test_at_least_forty_different_mistakes_of_norms_are_known():
    keys = {mistake.key for its_check in NORMS for mistake in its_check.catalogue.values()}
    assert len(keys) >= 40, sorted(keys)


def test_examples_have_the_signature_of_the_function_that_they_stand_for():
    for its_check in NORMS:
        required = its_check._arguments[0]
        x = torch.arange(24.0).reshape(2, 4, 3)
        arguments = {
            "normalized_shape": (3,),
            "num_groups": 2,
            "running_mean": torch.zeros(4),
            "running_var": torch.ones(4),
        }
        call = [x, *(arguments[name] for name in required[1:])]
        assert its_check.oracle(*call).shape == x.shape


# Mistakes as they are published or first written, several at once: what is named is the one to mend first.
def annotated_transformer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    y = (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def s0(x, normalized_shape, weight=None, bias=None, eps=1e-8):
    dims = tuple(range(-len(normalized_shape), 0))
    y = (x - x.mean(dims, keepdim=True)) / torch.sqrt(x.var(dims, keepdim=True, unbiased=False) + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def s3(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = [-(i + 1) for i in range(len(normalized_shape))]
    mean = x.mean(dim=dims, keepdim=True)
    var = (x**2).mean(dim=dims, keepdim=True) - mean**2
    y = (x - mean) / torch.sqrt(var + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def s4(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    std = x.std(dim=dims, keepdim=True, unbiased=False)
    y = (x - x.mean(dim=dims, keepdim=True)) / (std + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def ten_lines_without_a_thought_of_half_precision(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(dims, keepdim=True)
    y = centred * torch.rsqrt(centred.square().mean(dims, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def llama(x, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    dims = tuple(range(-len(normalized_shape), 0))
    z = x.to(torch.float32)
    z = z * torch.rsqrt(z.pow(2).mean(dims, keepdim=True) + eps)
    return z.to(x.dtype) if weight is None else weight * z.to(x.dtype)


def fastai_batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
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
    y = y if weight is None else y * weight.view(column)
    return y if bias is None else y + bias.view(column)


def d2l_batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
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
    y = y if weight is None else y * weight.view(column)
    return y if bias is None else y + bias.view(column)


def labml_batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    dims, column = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
    if training:
        mean = x.mean(dims)
        var = (x**2).mean(dims) - mean**2
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(momentum * mean)
            running_var.mul_(1 - momentum).add_(momentum * var)
    else:
        mean, var = running_mean, running_var
    y = (x - mean.view(column)) / torch.sqrt(var + eps).view(column)
    y = y if weight is None else y * weight.view(column)
    return y if bias is None else y + bias.view(column)


@pytest.mark.parametrize(
    ("its_check", "function", "key"),
    [
        (check.layer_norm, annotated_transformer, "unbiased_variance"),
        (check.layer_norm, s0, "wrong_default_eps"),
        (check.layer_norm, s3, "one_pass_variance"),
        (check.layer_norm, s4, "eps_outside_root"),
        (check.layer_norm, ten_lines_without_a_thought_of_half_precision, "half_statistics"),
        (check.rms_norm, llama, "rounds_twice"),
        (check.batch_norm, fastai_batch_norm, "unbiased_variance"),
        (check.batch_norm, d2l_batch_norm, "eval_uses_batch"),
        (check.batch_norm, labml_batch_norm, "biased_running_var"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or getattr(value, "name", value),
)
def test_published_code_is_told_what_it_gets_wrong_first(its_check, function, key):
    report = its_check(function, record=False)
    assert report.misconception == key, f"{report}\n{report.table()}"
