"""Every right way to write an answer passes its check: other algebra, other dtype policies, other machinery."""

import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from course_utils import check


def wide(x):
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def affine(y, weight, bias, dtype):
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(dtype)


def last(normalized_shape):
    return tuple(range(-len(normalized_shape), 0))


def ln_two_pass(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z, dims = wide(x), last(normalized_shape)
    centred = z - z.mean(dims, keepdim=True)
    return affine(centred / torch.sqrt((centred**2).mean(dims, keepdim=True) + eps), weight, bias, x.dtype)


def ln_var_mean(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    variance, mean = torch.var_mean(wide(x), last(normalized_shape), correction=0, keepdim=True)
    return affine((wide(x) - mean) * (variance + eps) ** -0.5, weight, bias, x.dtype)


def ln_std_squared(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """S4's layer with epsilon where it belongs."""
    z, dims = wide(x), last(normalized_shape)
    # The root of 0 has no gradient; a floor far below epsilon keeps the detour through std differentiable.
    std = z.var(dims, correction=0, keepdim=True).clamp_min(1e-30).sqrt()
    return affine((z - z.mean(dims, keepdim=True)) / torch.sqrt(std**2 + eps), weight, bias, x.dtype)


def ln_shifted_one_pass(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """S3's layer, E[x²] − E[x]², after subtracting a value of the row, which keeps the digits."""
    z = wide(x).flatten(-len(normalized_shape))
    z = z - z[..., :1].detach()
    mean = z.mean(-1, keepdim=True)
    variance = z.square().mean(-1, keepdim=True) - mean.square()
    y = ((z - mean) / torch.sqrt(variance.clamp_min(0) + eps)).reshape(x.shape)
    return affine(y, weight, bias, x.dtype)


def ln_one_pass_in_float64(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z, dims = x.double(), last(normalized_shape)
    mean = z.mean(dims, keepdim=True)
    variance = z.square().mean(dims, keepdim=True) - mean.square()
    weight, bias = (None if p is None else p.double() for p in (weight, bias))
    return affine((z - mean) * torch.rsqrt(variance + eps), weight, bias, x.dtype)


def ln_welford(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    rows = wide(x).reshape(-1, torch.Size(normalized_shape).numel())
    mean, m2 = torch.zeros_like(rows[:, 0]), torch.zeros_like(rows[:, 0])
    for count, column in enumerate(rows.unbind(1), start=1):
        delta = column - mean
        mean = mean + delta / count
        m2 = m2 + delta * (column - mean)
    y = (rows - mean[:, None]) / torch.sqrt(m2[:, None] / rows.shape[1] + eps)
    return affine(y.reshape(x.shape), weight, bias, x.dtype)


def ln_einsum(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    rows = wide(x).reshape(-1, torch.Size(normalized_shape).numel())
    n = rows.shape[1]
    centred = rows - torch.einsum("rc->r", rows)[:, None] / n
    y = torch.einsum("rc,r->rc", centred, torch.rsqrt(torch.einsum("rc,rc->r", centred, centred) / n + eps))
    return affine(y.reshape(x.shape), weight, bias, x.dtype)


def ln_centring_matrix(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    n = torch.Size(normalized_shape).numel()
    z = wide(x).reshape(-1, n)
    centring = torch.eye(n, dtype=torch.float64) - 1 / n
    centred = (z.double() @ centring).to(z.dtype)
    with_eps = torch.cat([centred, torch.full_like(centred[:, :1], (n * eps) ** 0.5)], 1)  # its length is √(n (σ² + ε))
    y = centred * n**0.5 / torch.linalg.vector_norm(with_eps, dim=1, keepdim=True)
    return affine(y.reshape(x.shape), weight, bias, x.dtype)


def ln_loops(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """S2's pseudo-code: a Python loop over the samples."""
    rows = wide(x).reshape(-1, *normalized_shape)
    rows = torch.stack([(row - row.mean()) / torch.sqrt(((row - row.mean()) ** 2).mean() + eps) for row in rows])
    return affine(rows.reshape(x.shape), weight, bias, x.dtype)


def ln_in_place_on_temporaries(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = last(normalized_shape)
    z = wide(x).clone()
    z -= z.mean(dims, keepdim=True)
    y = z * z.square().mean(dims, keepdim=True).add_(eps).rsqrt_()
    return affine(y, weight, bias, x.dtype)


def ln_by_native(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return torch.native_layer_norm(x, list(normalized_shape), weight, bias, eps)[0]


def ln_by_group_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    rows = wide(x).reshape(-1, 1, torch.Size(normalized_shape).numel())
    return affine(F.group_norm(rows, 1, eps=eps).reshape(x.shape), weight, bias, x.dtype)


def ln_by_batch_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    rows = wide(x).reshape(1, -1, torch.Size(normalized_shape).numel())
    y = F.batch_norm(rows, None, None, training=True, eps=eps)
    return affine(y.reshape(x.shape), weight, bias, x.dtype)


def ln_by_rms_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    centred = wide(x) - wide(x).mean(last(normalized_shape), keepdim=True)
    return affine(F.rms_norm(centred, normalized_shape, eps=eps), weight, bias, x.dtype)


def ln_by_module(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    module = torch.nn.LayerNorm(normalized_shape, eps=eps, elementwise_affine=False)
    return affine(module(wide(x)), weight, bias, x.dtype)


class HandWritten(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dims, eps):
        centred = x - x.mean(dims, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(dims, keepdim=True) + eps)
        ctx.save_for_backward(centred * rstd, rstd)
        ctx.dims = dims
        return centred * rstd

    @staticmethod
    def backward(ctx, dy):
        x_hat, rstd = ctx.saved_tensors
        means = dy.mean(ctx.dims, keepdim=True) + x_hat * (dy * x_hat).mean(ctx.dims, keepdim=True)
        return rstd * (dy - means), None, None


def ln_autograd_function(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return affine(HandWritten.apply(wide(x), last(normalized_shape), eps), weight, bias, x.dtype)


def ln_other_names(inp, shape, *, weight=None, bias=None, eps=1e-5, unused=None):
    return ln_two_pass(inp, shape, weight, bias, eps)


def ln_any_arguments(*args, **kwargs):
    return F.layer_norm(*args, **kwargs)


def ln_checkpointed(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(ln_two_pass, x, normalized_shape, weight, bias, eps, use_reentrant=False)


def ln_vmapped(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    rows = wide(x).reshape(-1, *normalized_shape)
    y = torch.func.vmap(lambda row: F.layer_norm(row, row.shape, eps=eps))(rows)
    return affine(y.reshape(x.shape), weight, bias, x.dtype)


class Callable:
    def __call__(self, x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return ln_two_pass(x, normalized_shape, weight, bias, eps)


def ln_with_warnings(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    warnings.warn("still thinking about it", stacklevel=1)
    return ln_two_pass(x, normalized_shape, weight, bias, eps)


def rms_plain(x, normalized_shape, weight=None, eps=None):
    z = wide(x)
    eps = torch.finfo(z.dtype).eps if eps is None else eps
    return affine(z / torch.sqrt(z.pow(2).mean(last(normalized_shape), keepdim=True) + eps), weight, None, x.dtype)


def rms_vector_norm(x, normalized_shape, weight=None, eps=None):
    z, n = wide(x), torch.Size(normalized_shape).numel()
    eps = torch.finfo(z.dtype).eps if eps is None else eps
    square = torch.linalg.vector_norm(z, dim=last(normalized_shape), keepdim=True) ** 2 / n
    return affine(z * (square + eps) ** -0.5, weight, None, x.dtype)


def rms_flattened(x, normalized_shape, weight=None, eps=None):
    z = wide(x).flatten(-len(normalized_shape))
    eps = torch.finfo(z.dtype).eps if eps is None else eps
    square = torch.einsum("...c,...c->...", z, z)[..., None] / z.shape[-1]
    return affine((z * torch.rsqrt(square + eps)).reshape(x.shape), weight, None, x.dtype)


def rms_in_float64(x, normalized_shape, weight=None, eps=None):
    eps = (2.0**-52 if x.dtype == torch.float64 else 2.0**-23) if eps is None else eps
    z = x.double()
    y = z * torch.rsqrt(z.square().mean(last(normalized_shape), keepdim=True) + eps)
    return affine(y, None if weight is None else weight.double(), None, x.dtype)


def rms_float32_eps_everywhere(x, normalized_shape, weight=None, eps=None):
    return rms_plain(x, normalized_shape, weight, 2.0**-23 if eps is None else eps)


def gn_reshape(x, num_groups, weight=None, bias=None, eps=1e-5):
    z = wide(x).reshape(x.shape[0], num_groups, -1)
    centred = z - z.mean(-1, keepdim=True)
    y = (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)).reshape(x.shape)
    column = (1, -1) + (1,) * (x.ndim - 2)
    return affine(y, *(None if p is None else p.view(column) for p in (weight, bias)), x.dtype)


def gn_chunks(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = [g - g.mean(tuple(range(1, x.ndim)), keepdim=True) for g in wide(x).chunk(num_groups, dim=1)]
    y = torch.cat([g / (g.var(tuple(range(1, x.ndim)), correction=0, keepdim=True) + eps).sqrt() for g in groups], 1)
    y = y.movedim(1, -1)
    return affine(y, weight, bias, x.dtype).movedim(-1, 1)


def gn_by_layer_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    z = wide(x).reshape(x.shape[0] * num_groups, -1)
    y = F.layer_norm(z, z.shape[1:], eps=eps).reshape(x.shape).movedim(1, -1)
    return affine(y, weight, bias, x.dtype).movedim(-1, 1)


def gn_by_batch_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    z = wide(x).reshape(1, x.shape[0] * num_groups, -1)
    y = F.batch_norm(z, None, None, training=True, eps=eps).reshape(x.shape).movedim(1, -1)
    return affine(y, weight, bias, x.dtype).movedim(-1, 1)


def update(running, new, momentum):
    with torch.no_grad():
        running.lerp_(new.to(running.dtype), momentum)


def in_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    dims = tuple(range(2, x.ndim))
    z = wide(x)
    if use_input_stats:
        variance, mean = torch.var_mean(z, dims, correction=0, keepdim=True)
        if running_mean is not None:
            n = z[0, 0].numel()
            update(running_mean, mean.mean(0).flatten(), momentum)
            update(running_var, variance.mean(0).flatten() * n / (n - 1), momentum)
    else:
        mean, variance = (s.reshape(1, -1, *[1] * len(dims)) for s in (running_mean, running_var))
    y = ((z - mean) / torch.sqrt(variance + eps)).movedim(1, -1)
    return affine(y, weight, bias, x.dtype).movedim(-1, 1)


def in_by_group_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if not use_input_stats:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    z = wide(x)
    if running_mean is not None:
        update(running_mean, z.flatten(2).mean((0, 2)), momentum)
        update(running_var, z.flatten(2).var(2).mean(0), momentum)
    y = F.group_norm(z, x.shape[1], eps=eps).movedim(1, -1)
    return affine(y, weight, bias, x.dtype).movedim(-1, 1)


def bn_textbook(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    dims, column = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
    z = wide(x)
    if training:
        mean, variance = z.mean(dims), z.var(dims, correction=0)
        if running_mean is not None:
            n = z.numel() // z.shape[1]
            with torch.no_grad():
                running_mean.mul_(1 - momentum).add_(momentum * mean)
                running_var.mul_(1 - momentum).add_(momentum * variance * n / (n - 1))
    else:
        mean, variance = running_mean, running_var
    y = (z - mean.view(column)) * torch.rsqrt(variance.view(column) + eps)
    return affine(y, *(None if p is None else p.view(column) for p in (weight, bias)), x.dtype)


def bn_flattened(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    rows = wide(x).movedim(1, -1).reshape(-1, x.shape[1])
    if training:
        mean = rows.mean(0)
        centred = rows - mean
        variance = torch.einsum("nc,nc->c", centred, centred) / len(rows)
        if running_mean is not None:
            running_mean += momentum * (mean.detach() - running_mean)
            running_var += momentum * (centred.detach().square().sum(0) / (len(rows) - 1) - running_var)
    else:
        centred, variance = rows - running_mean, running_var
    y = affine(centred / (variance + eps) ** 0.5, weight, bias, x.dtype)
    return y.reshape(x.movedim(1, -1).shape).movedim(-1, 1)


def bn_scale_and_shift(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Evaluation as one multiplication and one addition, as it is folded into a convolution."""
    if training:
        return bn_textbook(x, running_mean, running_var, weight, bias, True, momentum, eps)
    column = (1, -1) + (1,) * (x.ndim - 2)
    scale = torch.rsqrt(running_var.double() + eps) * (1 if weight is None else weight.double())
    shift = (0 if bias is None else bias.double()) - running_mean.double() * scale
    return (x.double() * scale.view(column) + shift.view(column)).to(x.dtype)


def bn_by_layer_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if not training:
        return bn_textbook(x, running_mean, running_var, weight, bias, False, momentum, eps)
    rows = wide(x).transpose(0, 1).flatten(1)
    if running_mean is not None:
        running_mean.copy_(((1 - momentum) * running_mean + momentum * rows.mean(1)).detach())
        running_var.copy_(((1 - momentum) * running_var + momentum * rows.var(1)).detach())
    y = F.layer_norm(rows, rows.shape[1:], eps=eps).reshape(x.transpose(0, 1).shape).transpose(0, 1)
    return affine(y.movedim(1, -1), weight, bias, x.dtype).movedim(-1, 1)


def bn_by_data(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Buffers written through .data and numpy: not pretty, and right."""
    y = bn_textbook(x, None, None, weight, bias, True, momentum, eps) if training else None
    if training and running_mean is not None:
        rows = wide(x).detach().movedim(1, -1).reshape(-1, x.shape[1]).numpy()
        running_mean.data[:] = (1 - momentum) * running_mean + momentum * torch.from_numpy(rows.mean(0))
        running_var.data[:] = (1 - momentum) * running_var + momentum * torch.from_numpy(np.var(rows, 0, ddof=1))
    return y if training else bn_textbook(x, running_mean, running_var, weight, bias, False, momentum, eps)


def as_the_kernel(block, n_cols, eps=1e-5):
    inside = torch.arange(block.shape[1]) < n_cols
    x = torch.where(inside, block.float(), 0.0)
    x = torch.where(inside, x - x.sum(1, keepdim=True) / n_cols, 0.0)
    return (x * torch.rsqrt((x * x).sum(1, keepdim=True) / n_cols + eps)).to(block.dtype)


def row_by_row(block, n_cols, eps=1e-5):
    y = torch.zeros_like(block)
    for i, row in enumerate(block):
        x = row[:n_cols].double()
        y[i, :n_cols] = (x - x.mean()) / (x.var(correction=0) + eps).sqrt()
    return y


def by_masked_fill(block, n_cols, eps=1e-5):
    outside = torch.arange(block.shape[-1]) >= n_cols
    x = block.to(torch.promote_types(block.dtype, torch.float32)).masked_fill(outside, torch.nan)
    c = x - x.nanmean(-1, keepdim=True)
    return (c / (c.square().nanmean(-1, keepdim=True) + eps).sqrt()).nan_to_num(0.0).to(block.dtype)


def second_mask_in_the_sum(block, n_cols, eps=1e-5):
    inside = torch.arange(block.shape[1]) < n_cols
    c = block.float() - torch.where(inside, block.float(), 0.0).sum(1, keepdim=True) / n_cols
    variance = torch.where(inside, c * c, 0.0).sum(1, keepdim=True) / n_cols
    return torch.where(inside, c / (variance + eps).sqrt(), 0.0).to(block.dtype)


def by_nan_to_num(y, truth):
    return (y.double() - truth).abs().nan_to_num(nan=math.inf, posinf=math.inf).max().item()


def by_promotion(y, truth):
    error = (truth - y).abs()  # float64, as truth is
    return torch.where(error.isnan(), torch.inf, error).amax()


def by_loop(y, truth):
    largest = 0.0
    for ours, true in zip(y.flatten().tolist(), truth.flatten().tolist(), strict=True):
        error = abs(ours - true)
        largest = max(largest, math.inf if math.isnan(error) else error)
    return largest


def by_norm(y, truth):
    error = torch.linalg.vector_norm(y.double() - truth, ord=math.inf).item()
    return math.inf if math.isnan(error) else error


def by_numpy(y, truth):
    error = np.abs(y.double().numpy() - truth.numpy())
    return np.where(np.isnan(error), np.inf, error).max()


CENTRES = {
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "unsqueeze": lambda x: x - x.mean(1)[:, None],
    "transposed": lambda x: (x.T - x.mean(1)).T,
    "matrix": lambda x: x @ (torch.eye(x.shape[1]) - 1 / x.shape[1]).to(x),
    "in float64": lambda x: (x.double() - x.double().mean(-1, keepdim=True)).to(x.dtype),
}
NORMALIZES = {
    "var": lambda x, dims, eps=1e-5: (
        (x - x.mean(dims, keepdim=True)) / (x.var(dims, correction=0, keepdim=True) + eps).sqrt()
    ),
    "var_mean": lambda x, dims, eps=1e-5: (
        (x - torch.var_mean(x, dims, correction=0, keepdim=True)[1])
        * torch.rsqrt(torch.var_mean(x, dims, correction=0, keepdim=True)[0] + eps)
    ),
    "std squared": lambda x, dims, eps=1e-5: (
        (x - x.mean(dims, keepdim=True)) / (x.std(dims, correction=0, keepdim=True) ** 2 + eps).sqrt()
    ),
}


ACCEPTED = {
    check.layer_norm: [
        F.layer_norm, torch.layer_norm, ln_two_pass, ln_var_mean, ln_std_squared, ln_shifted_one_pass,
        ln_one_pass_in_float64, ln_welford, ln_einsum, ln_centring_matrix, ln_loops, ln_in_place_on_temporaries,
        ln_by_native, ln_by_group_norm, ln_by_batch_norm, ln_by_rms_norm, ln_by_module, ln_autograd_function,
        ln_other_names, ln_any_arguments, ln_checkpointed, ln_vmapped, Callable(), ln_with_warnings,
    ],
    check.rms_norm: [
        F.rms_norm, rms_plain, rms_vector_norm, rms_flattened, rms_in_float64, rms_float32_eps_everywhere,
    ],
    check.group_norm: [F.group_norm, gn_reshape, gn_chunks, gn_by_layer_norm, gn_by_batch_norm],
    check.instance_norm: [F.instance_norm, in_norm, in_by_group_norm],
    check.batch_norm: [
        F.batch_norm, bn_textbook, bn_flattened, bn_scale_and_shift, bn_by_layer_norm, bn_by_data,
    ],
    check.centre: CENTRES.values(),
    check.normalize: NORMALIZES.values(),
    check.masked_layer_norm: [as_the_kernel, row_by_row, by_masked_fill, second_mask_in_the_sum],
    check.largest_error: [by_nan_to_num, by_promotion, by_loop, by_norm, by_numpy],
}  # fmt: skip


def name(function):
    return getattr(function, "__name__", type(function).__name__)


@pytest.mark.parametrize(
    ("its_check", "function"),
    [
        pytest.param(its_check, function, id=f"{its_check.name}-{number}-{name(function)}")
        for its_check, functions in ACCEPTED.items()
        for number, function in enumerate(functions)
    ],
)
def test_a_right_way_to_write_it_passes(its_check, function):
    report = its_check(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert report.misconception is None


def test_the_course_s_own_norms_pass():
    from course_utils import norms

    for its_check in list(ACCEPTED)[:5]:
        report = its_check(getattr(norms, its_check.name), record=False)
        assert report.passed, report
        assert report.by_course


def test_float32_inside_a_float64_norm_passes_with_a_remark():
    def rounded(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return ln_two_pass(x.float(), normalized_shape, weight, bias, eps).to(x.dtype)

    report = check.layer_norm(rounded, record=False)
    assert report.passed
    assert any("float64" in remark for remark in report.remarks)
    assert not check.layer_norm(ln_two_pass, record=False).remarks


@pytest.mark.slow
def test_a_compiled_function_passes_although_compiling_takes_longer_than_a_call_may():
    torch.compiler.reset()
    report = check.layer_norm(torch.compile(ln_two_pass), record=False)
    assert report.passed, report
