"""The checks of the backward passes: right ways pass, unknown wrong ones are shown small."""

import time

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_utils.check.backward_check import batch_norm_backward, layer_norm_backward, rms_norm_backward
from course_utils.norms import backward

# Right ways to write them.


def wide(x):
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def last(normalized_shape):
    return tuple(range(-len(normalized_shape), 0))


def dtype_of(weight, x):
    return x.dtype if weight is None else weight.dtype


def flat(dy, x, normalized_shape, weight):
    """Return dy, x and g = dy·γ as (rows, n), and γ's dtype."""
    n = torch.Size(normalized_shape).numel()
    rows, dy = wide(x).reshape(-1, n), wide(dy).reshape(-1, n)
    g = dy if weight is None else dy * weight.reshape(n).to(dy)
    return dy, rows, g


def ln_one_line(dy, x, normalized_shape, weight=None, eps=1e-5):
    dims, front = last(normalized_shape), tuple(range(x.ndim - len(normalized_shape)))
    z, dy, dtype = wide(x), wide(dy), dtype_of(weight, x)
    g = dy if weight is None else dy * weight
    rstd = torch.rsqrt(z.var(dims, correction=0, keepdim=True) + eps)
    x_hat = (z - z.mean(dims, keepdim=True)) * rstd
    dx = rstd * (g - g.mean(dims, keepdim=True) - x_hat * (g * x_hat).mean(dims, keepdim=True))
    sums = [t.sum(front).to(dtype) if front else t.to(dtype) for t in (dy * x_hat, dy)]
    return dx.to(x.dtype), *sums


def ln_step_by_step(dy, x, normalized_shape, weight=None, eps=1e-5):
    """The chain rule one intermediate after the other, the variance's path through the mean included."""
    out_dtype, (dy, z, dx_hat) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    n = z.shape[1]
    mean = z.sum(1, keepdim=True) / n
    centred = z - mean
    variance = centred.pow(2).sum(1, keepdim=True) / n
    std = torch.sqrt(variance + eps)
    dvariance = (dx_hat * centred).sum(1, keepdim=True) * -0.5 * std**-3
    dmean = -(dx_hat / std).sum(1, keepdim=True) + dvariance * -2 * centred.mean(1, keepdim=True)
    dx = dx_hat / std + dvariance * 2 * centred / n + dmean / n
    dweight, dbias = (dy * centred / std).sum(0), dy.sum(0)
    return dx.reshape(x.shape).to(x.dtype), *(t.reshape(normalized_shape).to(out_dtype) for t in (dweight, dbias))


def ln_einsum(dy, x, normalized_shape, weight=None, eps=1e-5):
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    n = z.shape[1]
    centred = z - torch.einsum("rc->r", z)[:, None] / n
    rstd = torch.rsqrt(torch.einsum("rc,rc->r", centred, centred) / n + eps)
    x_hat = torch.einsum("rc,r->rc", centred, rstd)
    dx = g - torch.einsum("rc->r", g)[:, None] / n - torch.einsum("rc,rk,rk->rc", x_hat, g, x_hat) / n
    dx = torch.einsum("rc,r->rc", dx, rstd)
    sums = torch.einsum("rc,rc->c", dy, x_hat), torch.einsum("rc->c", dy)
    return dx.reshape(x.shape).to(x.dtype), *(t.reshape(normalized_shape).to(out_dtype) for t in sums)


def ln_jacobian_matrix(dy, x, normalized_shape, weight=None, eps=1e-5):
    """J = r(I − 11ᵀ/n − x̂x̂ᵀ/n) written out for every row; it is symmetric."""
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    n = z.shape[1]
    centred = z - z.mean(1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(1, keepdim=True) + eps)
    x_hat = centred * rstd
    jacobian = rstd[:, :, None] * (torch.eye(n).to(z) - 1 / n - x_hat[:, :, None] * x_hat[:, None, :] / n)
    dx = (jacobian @ g[:, :, None]).reshape(x.shape)
    return dx.to(x.dtype), *(t.sum(0).reshape(normalized_shape).to(out_dtype) for t in (dy * x_hat, dy))


def ln_loops(dy, x, normalized_shape, weight=None, eps=1e-5):
    """Loops over rows and features in Python's own floats, as a C file would have them."""
    n = torch.Size(normalized_shape).numel()
    gamma = [1.0] * n if weight is None else weight.flatten().tolist()
    dweight, dbias, dx = [0.0] * n, [0.0] * n, []
    for row, dy_row in zip(x.reshape(-1, n).tolist(), dy.reshape(-1, n).tolist(), strict=True):
        mean = sum(row) / n
        rstd = (sum((v - mean) ** 2 for v in row) / n + eps) ** -0.5
        hat = [(v - mean) * rstd for v in row]
        g = [d * w for d, w in zip(dy_row, gamma, strict=True)]
        g_mean, g_hat_mean = sum(g) / n, sum(a * b for a, b in zip(g, hat, strict=True)) / n
        dx.append([rstd * (g[i] - g_mean - hat[i] * g_hat_mean) for i in range(n)])
        for i in range(n):
            dweight[i] += dy_row[i] * hat[i]
            dbias[i] += dy_row[i]
    sums = [torch.tensor(s).reshape(normalized_shape).to(dtype_of(weight, x)) for s in (dweight, dbias)]
    return torch.tensor(dx).reshape(x.shape).to(x.dtype), *sums


def ln_autograd(dy, x, normalized_shape, weight=None, eps=1e-5):
    z = wide(x).detach().clone().requires_grad_()
    w = (torch.ones(normalized_shape) if weight is None else wide(weight)).to(z).detach().requires_grad_()
    b = torch.zeros_like(w).requires_grad_()
    dx, dweight, dbias = torch.autograd.grad(F.layer_norm(z, normalized_shape, w, b, eps), (z, w, b), dy.to(z.dtype))
    return dx.to(x.dtype), dweight.to(dtype_of(weight, x)), dbias.to(dtype_of(weight, x))


def ln_vjp(dy, x, normalized_shape, weight=None, eps=1e-5):
    w = torch.ones(normalized_shape).to(wide(x)) if weight is None else wide(weight)
    _, pull = torch.func.vjp(
        lambda *xwb: F.layer_norm(xwb[0], normalized_shape, xwb[1], xwb[2], eps), wide(x), w, 0 * w
    )
    dx, *sums = pull(wide(dy))
    return dx.to(x.dtype), *(s.to(dtype_of(weight, x)) for s in sums)


def ln_raw_moments(dy, x, normalized_shape, weight=None, eps=1e-5):
    """torch's own form on a CPU, dx = a·g + b·x + c."""
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    n = z.shape[1]
    mean, rstd = z.mean(1, keepdim=True), torch.rsqrt(z.var(1, correction=0, keepdim=True) + eps)
    ds, db = (g * (z - mean)).sum(1, keepdim=True), g.sum(1, keepdim=True)
    b = -ds * rstd**3 / n
    dx = rstd * g + b * (z - mean) - db * rstd / n
    return dx.reshape(x.shape).to(x.dtype), *(
        t.sum(0).reshape(normalized_shape).to(out_dtype) for t in (dy * (z - mean) * rstd, dy)
    )


def ln_in_float64(dy, x, normalized_shape, weight=None, eps=1e-5):
    weight64 = None if weight is None else weight.double()
    dx, *sums = ln_one_line(dy.double(), x.double(), normalized_shape, weight64, eps)
    return dx.to(x.dtype), *(s.to(dtype_of(weight, x)) for s in sums)


def ln_products_in_half(dy, x, normalized_shape, weight=None, eps=1e-5):
    """Statistics in float32, every product rounded to half: less exact, and not wrong."""
    dims, front = last(normalized_shape), tuple(range(x.ndim - len(normalized_shape)))
    z = wide(x)
    rstd = torch.rsqrt(z.var(dims, correction=0, keepdim=True) + eps)
    x_hat = ((z - z.mean(dims, keepdim=True)) * rstd).to(x.dtype)
    g = dy if weight is None else dy * weight
    dx = rstd * (g - g.mean(dims, keepdim=True) - x_hat * (g * x_hat).mean(dims, keepdim=True))
    sums = [t.sum(front) if front else t for t in (dy * x_hat, dy.clone())]  # torch sums in float32 inside
    return dx.to(x.dtype), *(s.to(dtype_of(weight, x)) for s in sums)


def channels_first(dy, x, weight):
    """Return dy and x as (C, m) and γ as (C, 1)."""
    dy, z = (t.transpose(0, 1).reshape(x.shape[1], -1) for t in (wide(dy), wide(x)))
    return dy, z, 1 if weight is None else weight.to(z)[:, None]


def as_input(rows, x):
    return rows.reshape(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1).to(x.dtype)


def bn_reuses_its_sums(dy, x, weight=None, eps=1e-5):
    """dx = γ·r/m·(m·dy − dβ − x̂·dγ)."""
    dtype, (dy, z, gamma) = dtype_of(weight, x), channels_first(dy, x, weight)
    m = z.shape[1]
    rstd = torch.rsqrt(z.var(1, correction=0, keepdim=True) + eps)
    x_hat = (z - z.mean(1, keepdim=True)) * rstd
    dweight, dbias = (dy * x_hat).sum(1), dy.sum(1)
    dx = gamma * rstd / m * (m * dy - dbias[:, None] - x_hat * dweight[:, None])
    return as_input(dx, x), dweight.to(dtype), dbias.to(dtype)


def bn_as_a_layer_norm(dy, x, weight=None, eps=1e-5):
    dtype, (dy, z, gamma) = dtype_of(weight, x), channels_first(dy, x, weight)
    dx, _, _ = ln_einsum(dy * gamma, z, (z.shape[1],), None, eps)
    x_hat = F.layer_norm(z, (z.shape[1],), eps=eps)
    return as_input(dx, x), (dy * x_hat).sum(1).to(dtype), dy.sum(1).to(dtype)


def bn_jacobian_matrix(dy, x, weight=None, eps=1e-5):
    dtype, (dy, z, gamma) = dtype_of(weight, x), channels_first(dy, x, weight)
    m = z.shape[1]
    x_hat = F.layer_norm(z, (m,), eps=eps)
    dx = []
    for row, hat, g in zip(z, x_hat, dy * gamma, strict=True):
        rstd = torch.rsqrt(row.var(correction=0) + eps)
        dx.append(rstd * (torch.eye(m).to(z) - 1 / m - torch.outer(hat, hat) / m) @ g)
    return as_input(torch.stack(dx), x), (dy * x_hat).sum(1).to(dtype), dy.sum(1).to(dtype)


def bn_loop_over_channels(dy, x, weight=None, eps=1e-5):
    dx, dweight, dbias = torch.empty_like(x), [], []
    for c in range(x.shape[1]):
        z, d = wide(x)[:, c], wide(dy)[:, c]
        std = torch.sqrt(((z - z.mean()) ** 2).mean() + eps)
        hat = (z - z.mean()) / std
        scale = 1 if weight is None else weight[c].to(z)
        dx[:, c] = (scale / std * (d - d.mean() - hat * (d * hat).mean())).to(x.dtype)
        dweight.append((d * hat).sum())
        dbias.append(d.sum())
    return dx, *(torch.stack(s).to(dtype_of(weight, x)) for s in (dweight, dbias))


def bn_einsum(dy, x, weight=None, eps=1e-5):
    dtype, (dy, z, gamma) = dtype_of(weight, x), channels_first(dy, x, weight)
    m = z.shape[1]
    centred = z - torch.einsum("cm->c", z)[:, None] / m
    rstd = torch.rsqrt(torch.einsum("cm,cm->c", centred, centred) / m + eps)[:, None]
    x_hat = centred * rstd
    dweight, dbias = torch.einsum("cm,cm->c", dy, x_hat), torch.einsum("cm->c", dy)
    dx = gamma * rstd * (dy - (dbias[:, None] + x_hat * dweight[:, None]) / m)
    return as_input(dx, x), dweight.to(dtype), dbias.to(dtype)


def bn_autograd(dy, x, weight=None, eps=1e-5):
    z = wide(x).detach().clone().requires_grad_()
    w = (torch.ones(x.shape[1]) if weight is None else wide(weight)).to(z).detach().requires_grad_()
    b = torch.zeros_like(w).requires_grad_()
    y = F.batch_norm(z, None, None, w, b, True, 0.1, eps)
    dx, *sums = torch.autograd.grad(y, (z, w, b), wide(dy))
    return dx.to(x.dtype), *(s.to(dtype_of(weight, x)) for s in sums)


def rms_eps(x, eps):
    return torch.finfo(wide(x).dtype).eps if eps is None else eps


def rms_one_line(dy, x, normalized_shape, weight=None, eps=None):
    dims, front = last(normalized_shape), tuple(range(x.ndim - len(normalized_shape)))
    z, dy, dtype = wide(x), wide(dy), dtype_of(weight, x)
    g = dy if weight is None else dy * weight
    rstd = torch.rsqrt(z.square().mean(dims, keepdim=True) + rms_eps(x, eps))
    x_hat = z * rstd
    dx = rstd * (g - x_hat * (g * x_hat).mean(dims, keepdim=True))
    return dx.to(x.dtype), ((dy * x_hat).sum(front) if front else dy * x_hat).to(dtype)


def rms_by_quotient_rule(dy, x, normalized_shape, weight=None, eps=None):
    """d(x / s) = dx/s − x·ds/s², without a thought of x̂."""
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    s = torch.sqrt(z.square().mean(1, keepdim=True) + rms_eps(x, eps))
    ds = -(g * z).sum(1, keepdim=True) / s / s
    dx = g / s + ds * z / (z.shape[1] * s)
    return dx.reshape(x.shape).to(x.dtype), (dy * z / s).sum(0).reshape(normalized_shape).to(out_dtype)


def rms_einsum(dy, x, normalized_shape, weight=None, eps=None):
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    n = z.shape[1]
    rstd = torch.rsqrt(torch.einsum("rc,rc->r", z, z) / n + rms_eps(x, eps))
    x_hat = z * rstd[:, None]
    dx = torch.einsum("r,rc->rc", rstd, g - torch.einsum("rc,rk,rk->rc", x_hat, g, x_hat) / n)
    return dx.reshape(x.shape).to(x.dtype), torch.einsum("rc,rc->c", dy, x_hat).reshape(normalized_shape).to(out_dtype)


def rms_jacobian_matrix(dy, x, normalized_shape, weight=None, eps=None):
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    n = z.shape[1]
    rstd = torch.rsqrt(z.square().mean(1, keepdim=True) + rms_eps(x, eps))
    x_hat = z * rstd
    jacobian = rstd[:, :, None] * (torch.eye(n).to(z) - x_hat[:, :, None] * x_hat[:, None, :] / n)
    dx = (jacobian @ g[:, :, None]).reshape(x.shape).to(x.dtype)
    return dx, (dy * x_hat).sum(0).reshape(normalized_shape).to(out_dtype)


def rms_loop_over_rows(dy, x, normalized_shape, weight=None, eps=None):
    out_dtype, (dy, z, g) = dtype_of(weight, x), flat(dy, x, normalized_shape, weight)
    dx, dweight = [], torch.zeros_like(z[0])
    for row, dy_row, g_row in zip(z, dy, g, strict=True):
        rstd = torch.rsqrt((row @ row) / len(row) + rms_eps(x, eps))
        dx.append(rstd * g_row - rstd**3 * row * (g_row @ row) / len(row))
        dweight = dweight + dy_row * row * rstd
    return torch.stack(dx).reshape(x.shape).to(x.dtype), dweight.reshape(normalized_shape).to(out_dtype)


def rms_autograd_of_the_builtin_as_it_is(dy, x, normalized_shape, weight=None, eps=None):
    z = x.detach().clone().requires_grad_()
    w = (x.new_ones(normalized_shape) if weight is None else weight).detach().clone().requires_grad_()
    return torch.autograd.grad(F.rms_norm(z, normalized_shape, w, eps), (z, w), dy)


RIGHT = [
    (layer_norm_backward, backward.layer_norm_backward),
    (layer_norm_backward, ln_one_line),
    (layer_norm_backward, ln_step_by_step),
    (layer_norm_backward, ln_einsum),
    (layer_norm_backward, ln_jacobian_matrix),
    (layer_norm_backward, ln_loops),
    (layer_norm_backward, ln_autograd),
    (layer_norm_backward, ln_vjp),
    (layer_norm_backward, ln_raw_moments),
    (layer_norm_backward, ln_in_float64),
    (layer_norm_backward, ln_products_in_half),
    (batch_norm_backward, backward.batch_norm_backward),
    (batch_norm_backward, bn_reuses_its_sums),
    (batch_norm_backward, bn_as_a_layer_norm),
    (batch_norm_backward, bn_jacobian_matrix),
    (batch_norm_backward, bn_loop_over_channels),
    (batch_norm_backward, bn_einsum),
    (batch_norm_backward, bn_autograd),
    (rms_norm_backward, backward.rms_norm_backward),
    (rms_norm_backward, rms_one_line),
    (rms_norm_backward, rms_by_quotient_rule),
    (rms_norm_backward, rms_einsum),
    (rms_norm_backward, rms_jacobian_matrix),
    (rms_norm_backward, rms_loop_over_rows),
    (rms_norm_backward, rms_autograd_of_the_builtin_as_it_is),
]


@pytest.mark.parametrize(("its_check", "function"), RIGHT, ids=lambda value: getattr(value, "__name__", None))
def test_a_right_way_to_write_it_passes(its_check, function):
    report = its_check(function, record=False)
    assert report.passed, f"{report}\n{report.table()}"


def test_an_answer_may_come_as_a_list_and_take_gradients_with_gradients_switched_off():
    def as_list(dy, x, normalized_shape, weight=None, eps=1e-5):
        return list(ln_autograd(dy, x, normalized_shape, weight, eps))

    with torch.no_grad():
        assert layer_norm_backward(as_list, record=False).passed


# Wrong ones that no catalogue has.


def but(right, change):
    """Return ``right`` with ``change(results, arguments by name)`` made to what it returns."""

    def backward(dy, x, *args, **kwargs):
        return change(right(dy, x, *args, **kwargs), dy, x, kwargs.get("weight"), kwargs.get("eps"))

    return backward


LN, BN, RMS = backward.layer_norm_backward, backward.batch_norm_backward, backward.rms_norm_backward


def eps_squared(dy, x, normalized_shape, weight=None, eps=1e-5):
    return LN(dy, x, normalized_shape, weight, eps**2)


def arguments_swapped(dy, x, normalized_shape, weight=None, eps=1e-5):
    return LN(x, dy, normalized_shape, weight, eps)


UNKNOWN = [  # what is wrong, and how many numbers the smallest x that shows it has at most
    (layer_norm_backward, but(LN, lambda out, *_: (out[0] * 1.01, *out[1:])), 6),
    (layer_norm_backward, but(LN, lambda out, *_: (-out[0], *out[1:])), 6),
    (layer_norm_backward, but(LN, lambda out, *_: (out[0].flip(0), *out[1:])), 6),
    (layer_norm_backward, but(LN, lambda out, *_: (out[0], -out[1], out[2])), 4),
    (layer_norm_backward, but(LN, lambda out, *_: (out[0], out[1], out[2] + 1)), 3),
    (layer_norm_backward, but(LN, lambda out, *_: (out[0], out[1].abs(), out[2])), 4),
    (layer_norm_backward, but(LN, lambda out, dy, x, w, e: (out[0] if w is None else out[0] * w.mean(), *out[1:])), 8),
    (layer_norm_backward, but(LN, lambda out, dy, x, w, e: (out[0] if x.ndim == 2 else 0 * out[0], *out[1:])), 8),
    (layer_norm_backward, but(LN, lambda out, dy, x, w, e: (out[0].clamp(-1, 1), *out[1:])), 6),
    (layer_norm_backward, but(LN, lambda out, dy, x, w, e: (out[0] + 1e-2, *out[1:])), 6),
    (layer_norm_backward, eps_squared, 8),
    (layer_norm_backward, arguments_swapped, 4),
    (batch_norm_backward, but(BN, lambda out, *_: (out[0] / 2, *out[1:])), 8),
    (batch_norm_backward, but(BN, lambda out, *_: (out[0], out[1].flip(0), out[2])), 8),
    (batch_norm_backward, but(BN, lambda out, dy, x, w, e: (out[0], out[1], out[2] * (1 if x.ndim < 4 else 2))), 4),
    (batch_norm_backward, but(BN, lambda out, dy, x, w, e: (out[0] * (x.dtype == torch.float32), *out[1:])), 32),
    (rms_norm_backward, but(RMS, lambda out, *_: (out[0] * 1.01, out[1])), 6),
    (rms_norm_backward, but(RMS, lambda out, *_: (out[0], out[1] * 2)), 2),
    (rms_norm_backward, but(RMS, lambda out, dy, x, w, e: (out[0], out[1] if w is None else out[1] * w.sign())), 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("its_check", "function", "numbers"),
    [pytest.param(*row, id=f"{row[0].name}-{i}") for i, row in enumerate(UNKNOWN)],
)
def test_an_unknown_mistake_is_rejected_with_a_small_input_that_shows_it(its_check, function, numbers):
    report = its_check(function, record=False)
    assert not report.passed
    assert report.misconception is None, report
    assert report.evidence.arguments["x"].numel() <= numbers, report
    assert report.evidence.expected != report.evidence.got


def test_what_is_shown_is_torchs_gradient_in_float64_and_what_the_function_gives():
    def doubled_dx(dy, x, normalized_shape, weight=None, eps=1e-5):
        dx, *sums = LN(dy, x, normalized_shape, weight, eps)
        return 1.5 * dx, *sums

    evidence = layer_norm_backward(doubled_dx, record=False).evidence
    arguments = dict(evidence.arguments)
    x = arguments["x"].double().requires_grad_()
    truth = torch.autograd.grad(F.layer_norm(x, arguments["normalized_shape"]), x, arguments["dy"].double())[0]
    assert evidence.quantity == "dx"
    assert evidence.expected == str([[float(f"{v:.3g}") for v in row] for row in truth.tolist()]).replace(
        ".0,", ","
    ).replace(".0]", "]")
    assert_close(doubled_dx(*(arguments[name] for name in ("dy", "x", "normalized_shape")))[0].double(), 1.5 * truth,
                 atol=1e-4, rtol=1e-4)  # fmt: skip


# What a comparison of numbers cannot say.


def runs_forever(dy, x, normalized_shape, weight=None, eps=1e-5):
    while True:
        pass


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda dy, x, shape, weight=None, eps=1e-5: LN(dy, x, shape, weight, eps)[0],
         "It returns a Tensor; expected a tuple of dx and dweight and dbias."),
        (lambda dy, x, shape, weight=None, eps=1e-5: LN(dy, x, shape, weight, eps)[:2],
         "expected a tuple of dx and dweight and dbias"),
        (lambda dy, x, shape, weight=None, eps=1e-5: (dy, None, dy.sum(0)), "It returns None; expected a tensor"),
        (lambda dy, x, shape, weight=None, eps=1e-5: (dy[:1], x[0], x[0]), "The dx has the shape (1, 6); expected"),
        (lambda dy, x, shape, weight=None, eps=1e-5: (dy.double(), x[0], x[0]), "The dx is float64; expected float32"),
        (lambda dy, x, shape, weight=None, eps=1e-5: 1 / 0, "It raises ZeroDivisionError"),
        (lambda dy, x, shape, weight=None, eps=1e-5: LN(dy.mul_(3), x, shape, weight, eps),
         "It changes dy"),
        (lambda dy, x: (dy, x, x), "It is called as layer_norm_backward(dy, x, normalized_shape, weight=None"),
        (lambda dy, x, shape, weight=None, eps=1e-5: (torch.rand(5), x, x), "global random state"),
        (runs_forever, "It was still running after 1.2 s"),
    ],
)  # fmt: skip
def test_what_is_wrong_about_the_call_itself_is_a_finding(function, words):
    state = torch.get_rng_state()
    report = layer_norm_backward(function, record=False)
    assert not report.passed
    assert words in report.message, report.message
    assert torch.equal(torch.get_rng_state(), state)


def test_a_result_of_nan_is_wrong():
    report = layer_norm_backward(lambda dy, x, *args, **kwargs: [t * float("nan") for t in LN(dy, x, *args, **kwargs)])
    assert not report.passed


def test_a_stub_is_not_attempted():
    def untouched(dy, x, normalized_shape, weight=None, eps=1e-5):
        """Return the gradients."""

    report = layer_norm_backward(untouched, record=False)
    assert not report.attempted
    assert not report.passed


def as_it_is(apply):
    """Return autograd through a built-in in whatever dtype the input has, parameters in the same."""

    def backward(dy, x, *args, weight=None, eps=1e-5):
        shape = args[0] if args else x.shape[1:2]
        z = x.detach().clone().requires_grad_()
        w = (x.new_ones(shape) if weight is None else weight).detach().clone().requires_grad_()
        b = torch.zeros_like(w).requires_grad_()
        return torch.autograd.grad(apply(z, shape, w, b, eps), (z, w, b), dy)

    return backward


@pytest.mark.parametrize(
    ("its_check", "apply"),
    [
        (layer_norm_backward, F.layer_norm),
        (batch_norm_backward, lambda x, shape, w, b, eps: F.batch_norm(x, None, None, w, b, True, 0.1, eps)),
    ],
    ids=["layer_norm", "batch_norm"],
)
def test_the_cpu_builtins_own_gradient_in_half_precision_is_refused_by_name_and_right_before(its_check, apply):
    """torch 2.13 rounds mean and 1/σ to bfloat16 there: dx and dweight of rows near 256 are off by half."""
    report = its_check(as_it_is(apply), record=False)
    assert report.misconception == "statistics_saved_in_half", report
    assert all(probe.passed for probe in report.probes if "half" not in probe.stage)


def test_the_cpu_layer_norms_own_sums_in_half_precision_fail_the_probe_of_sums():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # of enough threads none gets more than 256 rows, where a sum of ones stops
    try:
        report = layer_norm_backward(as_it_is(F.layer_norm), record=False)
    finally:
        torch.set_num_threads(threads)
    assert not next(probe for probe in report.probes if probe.stage == "sums in half precision").passed


def test_a_check_of_a_right_answer_is_quick():
    started = time.perf_counter()
    layer_norm_backward(LN, record=False)
    assert time.perf_counter() - started < 10  # 0.2 s on an idle core, most of it the truth, which is kept
