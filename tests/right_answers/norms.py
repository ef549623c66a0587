"""Right answers in unusual styles: five of each exercise."""

import math
import statistics
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd import Function


def wide(t):
    return t if t.dtype == torch.float64 else t.float()


def beside(t, x):
    """A (C,) tensor's place beside x (N, C, *)."""
    return t[(None, ...) + (None,) * (x.dim() - 2)]


def vjp(f, inputs, g):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    with torch.enable_grad():
        return torch.autograd.grad(f(*leaves), leaves, g)


# centre


def centre_einsum(x):
    return x - torch.einsum("bc->b", x)[:, None] / x.shape[1]


def centre_loop(x):
    rows = []
    for row in x:
        rows.append(row - sum(row) / len(row))
    return torch.stack(rows)


def centre_vmap(x):
    return torch.vmap(lambda row: row - row.mean())(x)


def centre_transposed(x):
    return (x.T - x.mean(1)).T


def centre_double(x):
    total = x.to(torch.float64).cumsum(-1)[:, [-1]]
    return torch.add(x, total, alpha=-1 / x.size(-1)).to(x.dtype)


# normalize


def normalize_var_mean(x, dims, eps=1e-5):
    var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return (x - mean) / (var + eps).sqrt()


def normalize_by_layer_norm(x, dims, eps=1e-5):
    dims = [dims] if isinstance(dims, int) else list(dims)
    last = list(range(-len(dims), 0))
    moved = x.movedim(dims, last)
    return F.layer_norm(moved, moved.shape[-len(dims) :], eps=eps).movedim(last, dims)


def normalize_sums(x, dims, eps=1e-5):
    dims = (dims,) if type(dims) is int else tuple(dims)
    n = math.prod(x.size(d) for d in dims)
    z = x.double()
    total = z
    for d in dims:
        total = total.sum(d, keepdim=True)
    z = z - total / n
    power = z * z
    for d in dims:
        power = power.sum(d, keepdim=True)
    return (z / (power / n + eps) ** 0.5).to(x.dtype)


def normalize_hypot(x, dims, eps=1e-5):
    centred = torch.sub(x, torch.mean(x, dims, keepdim=True))
    length = torch.linalg.vector_norm(centred, dim=dims, keepdim=True)
    n = x.numel() / length.numel()
    return centred / torch.hypot(length / n**0.5, torch.full_like(length, eps**0.5))


class NumpyNormalize(Function):
    @staticmethod
    def forward(ctx, x, dims, eps):
        a = x.detach().double().numpy()
        a = a - a.mean(axis=dims, keepdims=True)
        r = 1 / np.sqrt((a**2).mean(axis=dims, keepdims=True) + eps)
        ctx.kept = a * r, r, dims
        return torch.from_numpy(a * r).to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        hat, r, dims = ctx.kept
        g = dy.double().numpy()
        off = g.mean(axis=dims, keepdims=True) + hat * (g * hat).mean(axis=dims, keepdims=True)
        return torch.from_numpy(r * (g - off)).to(dy.dtype), None, None


def normalize_function(x, dims, eps=1e-5):
    return NumpyNormalize.apply(x, dims, eps)


# layer_norm


def layer_norm_einsum(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    flat = x.double().reshape(-1, math.prod(normalized_shape))
    flat = flat - torch.einsum("nd->n", flat)[:, None] / flat.shape[1]
    power = torch.einsum("nd,nd->n", flat, flat) / flat.shape[1]
    y = torch.einsum("nd,n->nd", flat, (power + eps) ** -0.5).reshape(x.shape)
    gain = 1 if weight is None else weight.double()
    return (y * gain + (0 if bias is None else bias.double())).to(x.dtype)


def layer_norm_vmap(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    def one(row):
        var, mean = torch.var_mean(row, correction=0)
        return (row - mean) / torch.sqrt(var + eps)

    rows = wide(x).reshape(-1, *normalized_shape)
    y = torch.vmap(one)(rows).view_as(x)
    if weight is not None:
        y = y * wide(weight)
    if bias is not None:
        y = y + wide(bias)
    return y.type_as(x)


class HandMadeNorm(Function):
    @staticmethod
    def forward(ctx, z, dims, eps):
        z = z - z.mean(dims, keepdim=True)
        r = (z.square().mean(dims, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(z * r, r)
        ctx.dims = dims
        return z * r

    @staticmethod
    def backward(ctx, g):
        hat, r = ctx.saved_tensors
        along = hat * (g * hat).mean(ctx.dims, keepdim=True)
        return r * (g - g.mean(ctx.dims, keepdim=True) - along), None, None


def layer_norm_function(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = HandMadeNorm.apply(wide(x), [-1 - i for i in range(len(normalized_shape))], eps)
    for change, by in ((torch.mul, weight), (torch.add, bias)):
        y = y if by is None else change(y, by)
    return y.to(x.dtype)


def layer_norm_by_rms(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z = wide(x)
    z = z - z.mean([*range(-len(normalized_shape), 0)], keepdim=True)
    w = weight if weight is None else weight.to(z.dtype)
    y = F.rms_norm(z, list(normalized_shape), w, eps)
    return (y if bias is None else y + bias).to(x.dtype)


def layer_norm_loop(x, normalized_shape, weight=None, bias=None, eps=1e-5, *, inner=torch.float64):
    out = torch.empty(x.shape, dtype=inner).view(-1, *normalized_shape)
    for i, sample in enumerate(x.to(inner).reshape(out.shape)):
        centred = sample - sample.sum() / sample.numel()
        out[i] = centred / (centred.pow(2).sum() / sample.numel() + eps).sqrt()
    out = out.view(x.shape)
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out.to(x.dtype)


# batch_norm


def batch_norm_rows(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    last = wide(x).movedim(1, -1)
    rows = last.reshape(-1, x.shape[1])
    if training or running_mean is None:
        mean = rows.mean(0)
        var = ((rows - mean) ** 2).mean(0)
    else:
        mean, var = wide(running_mean), wide(running_var)
    if training and running_mean is not None:
        with torch.no_grad():
            running_mean += momentum * (mean - running_mean)
            running_var += momentum * (var * len(rows) / (len(rows) - 1) - running_var)
    y = (last - mean) / (var + eps).sqrt()
    y = y * (1 if weight is None else weight) + (0 if bias is None else bias)
    return y.movedim(-1, 1).to(x.dtype)


def batch_norm_lerp(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    z = wide(x)
    flat = z.transpose(0, 1).flatten(1)
    if training or running_mean is None:
        var, mean = torch.var_mean(flat, 1, correction=0)
        if training and running_mean is not None:
            unbiased = flat.detach().var(1)
            running_mean.lerp_(mean.detach().to(running_mean.dtype), momentum)
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    else:
        mean, var = wide(running_mean), wide(running_var)
    scale = torch.rsqrt(var + eps)
    scale = scale if weight is None else scale * weight
    y = (z - beside(mean, x)) * beside(scale, x)
    return (y if bias is None else y + beside(bias, x)).to(x.dtype)


def batch_norm_einsum(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    z = x.double()
    if use_batch := training or running_mean is None:
        m = z.numel() / z.shape[1]
        mean = torch.einsum("nc...->c", z) / m
        z = z - beside(mean, x)
        var = torch.einsum("nc...,nc...->c", z, z) / m
    else:
        mean, var = running_mean.double(), running_var.double()
        z = z - beside(mean, x)
    if use_batch and running_mean is not None:
        for buffer, new in ((running_mean, mean), (running_var, var * (m / (m - 1)))):
            buffer.copy_((buffer * (1 - momentum) + new * momentum).detach())
    y = torch.einsum("nc...,c->nc...", z, (var + eps) ** -0.5)
    y = y if weight is None else torch.einsum("nc...,c->nc...", y, weight.double())
    return (y if bias is None else y + beside(bias, x)).to(x.dtype)


def batch_norm_loop(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    channels = []
    for c in range(x.size(1)):
        values = wide(x[:, c])
        if training or running_mean is None:
            mean = values.mean()
            var = (values - mean).square().mean()
        else:
            mean, var = running_mean[c].item(), running_var[c].item()
        if training and running_mean is not None:
            running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean.item()
            running_var[c] = (1 - momentum) * running_var[c] + momentum * values.var().item()
        y = (values - mean) / (var + eps) ** 0.5
        y = y if weight is None else y * weight[c]
        channels.append(y if bias is None else y + bias[c])
    return torch.stack(channels, dim=1).to(x.dtype)


def batch_norm_function(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    z = wide(x)
    dims = [d for d in range(x.ndim) if d != 1]
    if training or running_mean is None:
        y = HandMadeNorm.apply(z, dims, eps)
        if training and running_mean is not None:
            for buffer, new in ((running_mean, z.mean(dims)), (running_var, z.var(dims))):
                buffer[:] = (1 - momentum) * buffer + momentum * new.detach()
    else:
        y = (z - beside(wide(running_mean), x)) / beside(wide(running_var) + eps, x) ** 0.5
    if weight is not None:
        y = y * beside(weight, x)
    if bias is not None:
        y = y + beside(bias, x)
    return y.to(x.dtype)


# pooled


def pooled_one_by_one(counts, means, variances):
    n, mean, m2 = 0, torch.zeros_like(means[0]), torch.zeros_like(means[0])
    for count, batch_mean, variance in zip(counts, means, variances, strict=True):
        delta, n = batch_mean - mean, n + count
        mean = mean + delta * (count / n)
        m2 = m2 + count * variance + delta * (batch_mean - mean) * count
    return mean, m2 / n


def pooled_pairs(counts, means, variances):
    share = counts / counts.sum()
    apart = (means[:, None] - means) ** 2  # of each two batches
    between = torch.einsum("i,j,ijc->c", share, share, apart) / 2
    return share @ means, share @ variances + between


def pooled_numpy(counts, means, variances):
    n, m, v = (tensor.double().numpy() for tensor in (counts, means, variances))
    mean = np.average(m, axis=0, weights=n)
    pool = np.average(v + (m - mean) ** 2, axis=0, weights=n)
    return tuple(torch.from_numpy(each).to(means.dtype) for each in (mean, pool))


def pooled_by_channel(counts, means, variances):
    results = []
    for m, v in zip(means.T, variances.T, strict=True):
        mean = torch.dot(counts, m) / counts.sum()
        results.append(
            torch.stack([mean, torch.dot(counts, v + (m - mean).square()) / sum(counts)])
        )
    return torch.stack(results).unbind(1)


def pooled_repeated(counts, means, variances):
    values = []
    for count, mean, variance in zip(counts.long().tolist(), means, variances, strict=True):
        values += count * [torch.stack([mean - variance.sqrt(), mean + variance.sqrt()])]
    values = torch.cat(values)
    return [values.mean(0), values.var(0, correction=0)]


# ema


def ema_match(average, value, momentum, convention="torch"):
    match convention:
        case "torch":
            return average * (1 - momentum) + value * momentum
        case "keras":
            return average * momentum + value * (1 - momentum)
    raise ValueError(convention)


def ema_zip(average, value, momentum, convention="torch"):
    weights = (1 - momentum, momentum)
    if convention != "torch":
        weights = weights[::-1]
    return sum(w * v for w, v in zip(weights, (average, value), strict=True))


def ema_swap(average, value, momentum, convention="torch"):
    if convention == "keras":
        return ema_swap(value, average, momentum)
    return (1 - momentum) * average + momentum * value


def ema_double(average, value, momentum, convention="torch"):
    if not torch.is_tensor(average):
        tensors = (torch.tensor(v, dtype=torch.float64) for v in (average, value))
        return ema_double(*tensors, momentum, convention).item()
    new = {"torch": momentum}.get(convention, 1 - momentum)
    return average.double().mul(1 - new).add(value.double(), alpha=new).to(average.dtype)


def ema_einsum(average, value, momentum, convention="torch"):
    pair = np.array([1 - momentum, momentum])
    pair = pair if convention == "torch" else np.flip(pair).copy()
    if isinstance(average, torch.Tensor):
        both = torch.stack([average, value])
        return torch.einsum("k,k...->...", torch.from_numpy(pair).to(both.dtype), both)
    return float(np.dot(pair, [average, value]))


# backward_steps


def steps_vjp(dy, steps, dims, rows):
    def back(step, g, *names):
        return vjp(step, [steps[name] for name in names], g)

    d, names = {}, ("bias", "weight", "x_hat")
    d |= zip(names, back(lambda b, w, h: w * h + b, dy, *names), strict=True)
    direct, d["rstd"] = back(torch.mul, d["x_hat"], "centred", "rstd")
    d["variance"] = vjp(torch.rsqrt, [steps["rstd"] ** -2], d["rstd"])[0]
    through = back(lambda c: c.square().mean(dims, keepdim=True), d["variance"], "centred")
    d["centred"] = direct + through[0]
    direct, d["mean"] = back(torch.sub, d["centred"], "x", "mean")
    d["x"] = direct + back(lambda x: x.mean(dims, keepdim=True), d["mean"], "x")[0]
    return d


def steps_sum_to_size(dy, steps, dims, rows):
    x, weight, bias, mean, centred, _, rstd, x_hat, _ = steps.values()
    n = x.numel() / mean.numel()
    d = {"bias": dy.sum_to_size(bias.shape), "weight": (dy * x_hat).sum_to_size(weight.shape)}
    d["x_hat"] = dy * weight
    d["rstd"] = (d["x_hat"] * centred).sum_to_size(rstd.shape)
    d["variance"] = -d["rstd"] * rstd.pow(3) / 2
    d["centred"] = d["x_hat"].mul(rstd).addcmul(d["variance"], centred, value=2 / n)
    d["mean"] = -d["centred"].sum_to_size(mean.shape)
    return d | {"x": d["centred"] + d["mean"] / n}


def steps_means(dy, steps, dims, rows):
    n = steps["x"].numel() // steps["mean"].numel()
    rstd = steps["rstd"]
    total = lambda t: n * t.mean(dims, keepdim=True)  # noqa: E731
    db = dy.sum(rows).reshape_as(steps["bias"])
    dw = torch.mul(dy, steps["x_hat"]).sum(rows).reshape_as(steps["weight"])
    dh = steps["weight"] * dy
    dr = total(dh * steps["centred"])
    dv = dr / -2 * rstd * rstd * rstd
    dc = rstd * dh + steps["centred"] * dv / (n / 2)
    dm = total(-dc)
    dx = dc + torch.ones_like(dc) / n * dm
    answers = (db, dw, dh, dr, dv, dc, dm, dx)
    names = "bias weight x_hat rstd variance centred mean x"
    return dict(zip(names.split(), answers, strict=True))


def steps_double(dy, steps, dims, rows):
    s = {name: t.double() for name, t in steps.items()}
    g = dy.double() * s["weight"]
    n = g.numel() / s["rstd"].numel()
    d = {"bias": dy.double().sum(rows).view(s["bias"].shape)}
    d["weight"] = (dy * s["x_hat"]).sum(rows).view(s["weight"].shape)
    d["x_hat"] = g
    d["rstd"] = (g * s["centred"]).sum(dims, keepdim=True)
    d["variance"] = -0.5 * s["rstd"] ** 3 * d["rstd"]
    d["centred"] = s["rstd"] * g + 2 / n * s["centred"] * d["variance"]
    d["mean"] = 0 - d["centred"].sum(dims, keepdim=True)
    d["x"] = d["centred"] + d["mean"].expand_as(g) / n
    return {name: t.to(dy.dtype) for name, t in d.items()}


def steps_closed(dy, steps, dims, rows):
    g, r, hat = dy * steps["weight"], steps["rstd"], steps["x_hat"]
    along = (g * hat).mean(dims, keepdim=True)
    return {
        "bias": dy.sum(rows).reshape(steps["bias"].shape),
        "weight": (dy * hat).sum(rows).reshape(steps["weight"].shape),
        "x_hat": g,
        "rstd": (g * steps["centred"]).sum(dims, keepdim=True),
        "variance": -0.5 * r**3 * (g * steps["centred"]).sum(dims, keepdim=True),
        "centred": r * (g - hat * along),
        "mean": -(r * (g - hat * along)).sum(dims, keepdim=True),
        "x": r * (g - g.mean(dims, keepdim=True) - hat * along),
    }


# layer_norm_backward


def lnb_autograd(dy, x, normalized_shape, weight=None, eps=1e-5):
    z = wide(x).detach().clone().requires_grad_()
    like = x if weight is None else weight
    w = torch.ones(normalized_shape) if weight is None else weight.detach().clone()
    w, b = w.to(z.dtype).requires_grad_(), torch.zeros_like(w, dtype=z.dtype, requires_grad=True)
    with torch.enable_grad():
        y = F.layer_norm(z, normalized_shape, w, b, eps)
    dx, dw, db = torch.autograd.grad(y, [z, w, b], dy.to(z.dtype))
    return dx.to(x.dtype), dw.to(like.dtype), db.to(like.dtype)


def lnb_numpy(dy, x, normalized_shape, weight=None, eps=1e-5):
    size = int(np.prod(normalized_shape))
    a, d = (t.detach().double().numpy().reshape(-1, size) for t in (x, dy))
    g = d if weight is None else d * weight.detach().double().numpy().ravel()
    a = a - a.mean(1, keepdims=True)
    r = 1 / np.sqrt((a * a).mean(1, keepdims=True) + eps)
    hat = a * r
    dx = r * (g - g.mean(1, keepdims=True) - hat * (g * hat).mean(1, keepdims=True))
    like = x if weight is None else weight
    sums = ((d * hat).sum(0), d.sum(0))
    dw, db = (torch.from_numpy(s.reshape(normalized_shape)).to(like.dtype) for s in sums)
    return torch.from_numpy(dx.reshape(x.shape)).to(x.dtype), dw, db


def lnb_vmap(dy, x, normalized_shape, weight=None, eps=1e-5):
    def one(d, z):
        z = z - z.mean()
        r = (z.square().mean() + eps).rsqrt()
        hat, g = z * r, d if weight is None else d * wide(weight)
        return r * (g - g.mean() - hat * (g * hat).mean()), d * hat, d

    rows = (wide(t).reshape(-1, *normalized_shape) for t in (dy, x))
    dx, dw, db = torch.vmap(one)(*rows)
    dtype = (x if weight is None else weight).dtype
    return dx.reshape(x.shape).to(x.dtype), dw.sum(0).to(dtype), db.sum(0).to(dtype)


def lnb_vjp(dy, x, normalized_shape, weight=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))

    def forward(z, w, b):
        z = z - z.mean(dims, keepdim=True)
        return z / (z.square().mean(dims, keepdim=True) + eps).sqrt() * w + b

    w = torch.ones(normalized_shape).to(x.dtype) if weight is None else weight
    inputs = (x.double(), w.double(), torch.zeros_like(w).double())
    grads = vjp(forward, inputs, dy.double())
    return tuple(t.to(like.dtype) for t, like in zip(grads, (x, w, w), strict=True))


def lnb_einsum(dy, x, normalized_shape, weight=None, eps=1e-5):
    n = math.prod(normalized_shape)
    z, d = wide(x).reshape(-1, n), wide(dy).reshape(-1, n)
    z = z - torch.einsum("rn->r", z)[:, None] / n
    r = (torch.einsum("rn,rn->r", z, z) / n + eps) ** -0.5
    hat = torch.einsum("rn,r->rn", z, r)
    g = d if weight is None else torch.einsum("rn,n->rn", d, wide(weight).flatten())
    dx = g - torch.einsum("rn->r", g)[:, None] / n
    dx = dx - torch.einsum("rn,rm,rm->rn", hat, g, hat) / n
    dtype = x.dtype if weight is None else weight.dtype
    return [
        torch.einsum("rn,r->rn", dx, r).reshape(x.shape).to(x.dtype),
        torch.einsum("rn,rn->n", d, hat).reshape(normalized_shape).to(dtype),
        torch.einsum("rn->n", d).reshape(normalized_shape).to(dtype),
    ]


# batch_norm_backward


def bnb_numpy(dy, x, weight=None, eps=1e-5):
    axes = tuple(a for a in range(x.ndim) if a != 1)
    a, g = x.detach().double().numpy(), dy.detach().double().numpy()
    a = a - a.mean(axes, keepdims=True)
    r = 1 / np.sqrt(np.square(a).mean(axes, keepdims=True) + eps)
    hat = a * r
    dx = r * (g - g.mean(axes, keepdims=True) - hat * (g * hat).mean(axes, keepdims=True))
    dx, dw, db = (torch.from_numpy(t) for t in (dx, (g * hat).sum(axes), g.sum(axes)))
    if weight is not None:
        dx = dx * weight.double().reshape(1, -1, *[1] * (x.ndim - 2))
    like = x if weight is None else weight
    return dx.to(x.dtype), dw.to(like.dtype), db.to(like.dtype)


def bnb_rows(dy, x, weight=None, eps=1e-5):
    z, d = (wide(t).movedim(1, 0) for t in (x, dy))
    shape = z.shape
    z, d = z.flatten(1), d.flatten(1)
    var, mean = torch.var_mean(z, 1, correction=0, keepdim=True)
    hat = (z - mean) / (var + eps).sqrt()
    g = d if weight is None else d * weight[:, None]
    dx = (g - g.mean(1, True) - hat * (g * hat).mean(1, True)) / (var + eps).sqrt()
    dtype = getattr(weight, "dtype", x.dtype)
    dx = dx.reshape(shape).movedim(0, 1).to(x.dtype)
    return dx, (d * hat).sum(1).to(dtype), d.sum(1).to(dtype)


def bnb_loop(dy, x, weight=None, eps=1e-5):
    dx, dweight, dbias = torch.empty_like(x), [], []
    for c in range(x.shape[1]):
        z, g = x[:, c].double(), dy[:, c].double()
        z = z - z.mean()
        r = 1 / math.sqrt(z.square().mean().item() + eps)
        hat = z * r
        dweight.append((g * hat).sum().item())
        dbias.append(g.sum().item())
        slope = r if weight is None else r * weight[c].item()
        dx[:, c] = slope * (g - dbias[-1] / z.numel() - hat * dweight[-1] / z.numel())
    dtype = x.dtype if weight is None else weight.dtype
    return dx, torch.tensor(dweight, dtype=dtype), torch.tensor(dbias, dtype=dtype)


def bnb_jacobian(dy, x, weight=None, eps=1e-5):
    z, d = (t.double().transpose(0, 1).flatten(1) for t in (x, dy))
    m = z.shape[1]
    z = z - z.mean(1, keepdim=True)
    r = (z.square().mean(1) + eps).rsqrt()
    hat = z * r[:, None]
    jacobian = torch.eye(m, dtype=z.dtype) - 1 / m - torch.einsum("ci,cj->cij", hat, hat) / m
    w = x.new_ones(x.shape[1]) if weight is None else weight
    dx = torch.einsum("c,cij,cj->ci", w.double() * r, jacobian, d)
    dx = dx.view(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1)
    return dx.to(x.dtype), (d * hat).sum(1).to(w.dtype), d.sum(1).to(w.dtype)


def bnb_vjp(dy, x, weight=None, eps=1e-5):
    w = torch.ones_like(x[0].flatten(1)[:, 0] if x.ndim > 2 else x[0]) if weight is None else weight

    def forward(z, w, b):
        return F.batch_norm(z, None, None, w, b, training=True, eps=eps)

    inputs = (x.double(), w.double(), torch.zeros_like(w).double())
    dx, dw, db = vjp(forward, inputs, dy.double())
    return [dx.to(x.dtype), dw.to(w.dtype), db.to(w.dtype)]


# rms_norm_backward


def default_eps(x, eps):
    return torch.finfo(wide(x).dtype).eps if eps is None else eps


def rmsb_numpy(dy, x, normalized_shape, weight=None, eps=None):
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    a, d = (t.detach().double().numpy() for t in (x, dy))
    g = d * (1.0 if weight is None else weight.detach().double().numpy())
    r = (np.square(a).mean(axes, keepdims=True) + default_eps(x, eps)) ** -0.5
    dx = r * g - r**3 * a * (g * a).mean(axes, keepdims=True)
    dw = (d * a * r).reshape(-1, *normalized_shape).sum(0)
    like = x if weight is None else weight
    return torch.from_numpy(dx).to(x.dtype), torch.from_numpy(dw).to(like.dtype)


def rmsb_autograd(dy, x, normalized_shape, weight=None, eps=None):
    w = torch.ones(tuple(normalized_shape), dtype=x.dtype) if weight is None else weight
    z, w2 = (t.detach().double().requires_grad_() for t in (x, w))
    with torch.enable_grad():
        y = F.rms_norm(z, normalized_shape, w2, default_eps(x, eps))
        y.backward(dy.double())
    return z.grad.to(x.dtype), w2.grad.to(w.dtype)


def rmsb_vmap(dy, x, normalized_shape, weight=None, eps=None):
    eps = default_eps(x, eps)

    def one(d, z):
        r = (z.square().mean() + eps).rsqrt()
        g = d if weight is None else d * weight
        return r * (g - z * r * (g * z * r).mean()), d * z * r

    rows = (wide(t).reshape(-1, *normalized_shape) for t in (dy, x))
    dx, dw = torch.vmap(one)(*rows)
    like = x if weight is None else weight
    return dx.reshape(x.shape).to(x.dtype), dw.sum(0).to(like.dtype)


def rmsb_einsum(dy, x, normalized_shape, weight=None, eps=None):
    n = math.prod(normalized_shape)
    z, d = (wide(t).reshape(-1, n) for t in (x, dy))
    r = (torch.einsum("rn,rn->r", z, z) / n + default_eps(x, eps)).rsqrt()
    g = d if weight is None else d * wide(weight).reshape(n)
    dots = torch.einsum("rn,rn,r->r", g, z, r**3) / n
    dx = torch.einsum("rn,r->rn", g, r) - torch.einsum("rn,r->rn", z, dots)
    dw = torch.einsum("rn,rn,r->n", d, z, r).reshape(normalized_shape)
    return [dx.reshape(x.shape).to(x.dtype), dw.to(x.dtype if weight is None else weight.dtype)]


def rmsb_loop(dy, x, normalized_shape, weight=None, eps=None):
    eps = default_eps(x, eps)
    z, d = x.double().reshape(-1, *normalized_shape), dy.double().reshape(-1, *normalized_shape)
    dx, dw = torch.zeros_like(z), torch.zeros(list(normalized_shape), dtype=torch.float64)
    for i in range(len(z)):
        r = (z[i].pow(2).mean() + eps) ** -0.5
        g = d[i] if weight is None else d[i] * weight.double()
        dx[i] = r * g - r**3 * z[i] * (g * z[i]).mean()
        dw += d[i] * z[i] * r
    dtype = x.dtype if weight is None else weight.dtype
    return dx.view(x.shape).to(x.dtype), dw.to(dtype)


# group_norm


def affine(y, x, weight, bias):
    y = y if weight is None else y * beside(weight, x)
    return (y if bias is None else y + beside(bias, x)).to(x.dtype)


def group_norm_by_layer_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    flat = wide(x).reshape(x.shape[0], num_groups, -1)
    return affine(F.layer_norm(flat, flat.shape[-1:], eps=eps).view(x.shape), x, weight, bias)


def group_norm_chunks(x, num_groups, weight=None, bias=None, eps=1e-5):
    parts = []
    for part in torch.chunk(wide(x), num_groups, dim=1):
        dims = list(range(1, part.ndim))
        part = part - part.mean(dims, keepdim=True)
        parts.append(part / torch.sqrt(part.pow(2).mean(dims, keepdim=True) + eps))
    return affine(torch.cat(parts, 1), x, weight, bias)


def group_norm_vmap(x, num_groups, weight=None, bias=None, eps=1e-5):
    def one(group):
        var, mean = torch.var_mean(group, correction=0)
        return (group - mean) * (var + eps) ** -0.5

    groups = wide(x).reshape(x.size(0), num_groups, x.size(1) // num_groups, *x.shape[2:])
    return affine(torch.vmap(torch.vmap(one))(groups).reshape(x.shape), x, weight, bias)


def group_norm_einsum(x, num_groups, weight=None, bias=None, eps=1e-5):
    g = x.double().reshape(len(x), num_groups, -1)
    g = g - torch.einsum("ngk->ng", g)[..., None] / g.shape[-1]
    r = (torch.einsum("ngk,ngk->ng", g, g) / g.shape[-1] + eps).rsqrt()
    return affine(torch.einsum("ngk,ng->ngk", g, r).reshape(x.shape), x, weight, bias)


def group_norm_function(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = wide(x).contiguous().view(-1, x[0].numel() // num_groups)
    y = HandMadeNorm.apply(groups, -1, eps)
    return affine(y.view_as(x), x, weight, bias)


# instance_norm


def instance_norm_var_mean(
    x, running_mean=None, running_var=None, weight=None, bias=None,
    use_input_stats=True, momentum=0.1, eps=1e-5,
):  # fmt: skip
    flat = wide(x).flatten(2)
    if use_input_stats:
        var, mean = torch.var_mean(flat, -1, correction=0, keepdim=True)
    else:
        mean, var = (wide(t)[None, :, None] for t in (running_mean, running_var))
    if use_input_stats and running_mean is not None:
        unbiased = flat.detach().var(-1).mean(0)
        running_mean.lerp_(mean.detach().mean((0, 2)).to(running_mean.dtype), momentum)
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return affine(((flat - mean) / (var + eps).sqrt()).view(x.shape), x, weight, bias)


def instance_norm_loop(
    x, running_mean=None, running_var=None, weight=None, bias=None,
    use_input_stats=True, momentum=0.1, eps=1e-5,
):  # fmt: skip
    n, c = x.shape[:2]
    z = wide(x)
    planes = [[z[i, j] for j in range(c)] for i in range(n)]
    out = []
    for row in planes:
        for j, plane in enumerate(row):
            mean = plane.mean() if use_input_stats else running_mean[j]
            var = plane.var(correction=0) if use_input_stats else running_var[j]
            out.append((plane - mean) / (var + eps) ** 0.5)
    if use_input_stats and running_mean is not None:
        with torch.no_grad():
            for j in range(c):
                new_mean = sum(row[j].mean() for row in planes) / n
                new_var = sum(row[j].var() for row in planes) / n
                running_mean[j] = (1 - momentum) * running_mean[j] + momentum * new_mean
                running_var[j] = (1 - momentum) * running_var[j] + momentum * new_var
    return affine(torch.stack(out).view(x.shape), x, weight, bias)


def instance_norm_einsum(
    x, running_mean=None, running_var=None, weight=None, bias=None,
    use_input_stats=True, momentum=0.1, eps=1e-5,
):  # fmt: skip
    z = x.double().flatten(2)
    k = z.shape[2]
    if use_input_stats:
        mean = torch.einsum("nck->nc", z) / k
        z = z - mean[..., None]
        power = torch.einsum("nck,nck->nc", z, z)
        r = (power / k + eps).rsqrt()
        if running_mean is not None:
            for old, new in ((running_mean, mean), (running_var, power / (k - 1))):
                old.data.mul_(1 - momentum).add_(new.detach().mean(0), alpha=momentum)
    else:
        z = z - running_mean.double()[:, None]
        r = (running_var.double() + eps).rsqrt().expand(len(x), -1)
    return affine(torch.einsum("nck,nc->nck", z, r).reshape(x.shape), x, weight, bias)


def instance_norm_by_group_norm(x, running_mean=None, running_var=None, *args, **kwargs):
    names = ("weight", "bias", "use_input_stats", "momentum", "eps")
    options = {"weight": None, "bias": None, "use_input_stats": True, "momentum": 0.1, "eps": 1e-5}
    options |= dict(zip(names, args, strict=False)) | kwargs
    weight, bias, from_input, momentum, eps = (options[name] for name in names)
    z, dims = wide(x), list(range(2, x.ndim))
    if not from_input:
        y = (z - beside(wide(running_mean), x)) * torch.rsqrt(beside(wide(running_var), x) + eps)
        return affine(y, x, weight, bias)
    if running_mean is not None:
        for old, new in ((running_mean, z.mean(dims)), (running_var, z.var(dims))):
            old.copy_((1 - momentum) * old + momentum * new.detach().mean(0))
    return affine(group_norm_by_layer_norm(z, z.shape[1], eps=eps), x, weight, bias)


def instance_norm_function(
    x, running_mean=None, running_var=None, weight=None, bias=None,
    use_input_stats=True, momentum=0.1, eps=1e-5,
):  # fmt: skip
    z = wide(x)
    dims = tuple(range(2, x.dim()))
    y = HandMadeNorm.apply(z, dims, eps) if use_input_stats else None
    with torch.no_grad():
        if use_input_stats and running_mean is not None:
            running_mean *= 1 - momentum
            running_mean += momentum * z.mean((0, *dims))
            running_var *= 1 - momentum
            running_var += momentum * z.var(dims).mean(0)
    if y is None:
        scale = 1 / torch.sqrt(wide(running_var) + eps)
        y = z * beside(scale, x) - beside(running_mean * scale, x)
    return affine(y, x, weight, bias)


# rms_norm


def rms_norm_einsum(x, normalized_shape, weight=None, eps=None):
    n = math.prod(normalized_shape)
    flat = wide(x).reshape(-1, n)
    r = (torch.einsum("rn,rn->r", flat, flat) / n + default_eps(x, eps)).rsqrt()
    y = torch.einsum("rn,r->rn", flat, r).reshape(x.shape)
    return (y * (1 if weight is None else weight)).to(x.dtype)


def rms_norm_hypot(x, normalized_shape, weight=None, eps=None):
    z, dims = wide(x), [-i for i in range(1, len(normalized_shape) + 1)]
    length = (
        torch.linalg.vector_norm(z, dim=dims, keepdim=True) / math.prod(normalized_shape) ** 0.5
    )
    y = z / torch.hypot(length, torch.full_like(length, default_eps(x, eps) ** 0.5))
    return y.to(x.dtype) if weight is None else (y * weight).to(x.dtype)


def rms_norm_vmap(x, normalized_shape, weight=None, eps=None):
    def one(row):
        y = row / (torch.dot(row.ravel(), row.ravel()) / row.numel() + default_eps(x, eps)).sqrt()
        return y if weight is None else y * weight

    rows = wide(x).reshape(-1, *normalized_shape)
    return torch.vmap(one)(rows).reshape(x.shape).to(x.dtype)


class HandMadeRms(Function):
    @staticmethod
    def forward(ctx, z, dims, eps):
        r = (z.square().mean(dims, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(z * r, r)
        ctx.dims = dims
        return z * r

    @staticmethod
    def backward(ctx, g):
        hat, r = ctx.saved_tensors
        return r * (g - hat * (g * hat).mean(ctx.dims, keepdim=True)), None, None


def rms_norm_function(x, normalized_shape, weight=None, eps=None):
    y = HandMadeRms.apply(wide(x), list(range(-len(normalized_shape), 0)), default_eps(x, eps))
    return (y if weight is None else torch.mul(y, weight)).to(x.dtype)


def rms_norm_loop(x, normalized_shape, weight=None, eps=None):
    if eps is None:
        eps = float(np.finfo(np.float64 if x.dtype == torch.float64 else np.float32).eps)
    out = []
    for row in x.double().reshape(-1, *normalized_shape):
        out.append(row * (row.pow(2).sum() / row.numel() + eps) ** -0.5)
        if weight is not None:
            out[-1] = out[-1] * weight.double()
    return torch.stack(out).reshape(x.shape).to(x.dtype)


# compare_arms


def compare_loop(validation, test):
    chosen, runs = [], []
    for tried, tested in zip(validation.tolist(), test.tolist(), strict=True):
        best = max(range(len(tried)), key=lambda r: sum(tried[r]))
        chosen.append(best)
        runs.append(tested[best])
    gaps = [one - other for one, other in zip(*runs, strict=True)]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    return torch.tensor(chosen), torch.tensor(statistics.fmean(gaps)), torch.tensor(error)


def compare_numpy(validation, test):
    v, t = validation.numpy(), test.numpy()
    rate = np.argmax(v.mean(-1), axis=-1)
    runs = np.take_along_axis(t, rate[:, None, None], axis=1).squeeze(1)
    gaps = runs[0] - runs[1]
    answers = rate, gaps.mean(), gaps.std(ddof=1) / np.sqrt(gaps.size)
    return tuple(torch.from_numpy(np.asarray(a)) for a in answers)


def compare_gather(validation, test):
    rate = validation.sum(-1).max(-1).indices
    runs = test.gather(1, rate[:, None, None].expand(-1, 1, test.shape[2])).squeeze(1)
    std, mean = torch.std_mean(runs[0] - runs[1], dim=-1)
    return [rate, mean, std / runs.shape[1] ** 0.5]


def compare_by_covariance(validation, test):
    rate = validation.mean(2).argmax(1)
    one, other = test[0, rate[0]], test[1, rate[1]]
    cov = torch.cov(torch.stack([one, other]))
    variance = cov[0, 0] + cov[1, 1] - 2 * cov[0, 1]
    return rate, one.mean() - other.mean(), (variance / len(one)).sqrt()


def compare_one_hot(validation, test):
    rate = torch.argsort(-validation.mean(2), dim=1, stable=True)[:, 0]
    runs = torch.einsum("ar,ars->as", F.one_hot(rate, test.shape[1]).to(test.dtype), test)
    gaps = torch.tensor([1.0, -1.0]) @ runs
    n = len(gaps)
    mean = gaps.sum() / n
    return rate, mean, ((gaps - mean).square().sum() / (n * (n - 1))).sqrt()


# lstm_step


def lstm_builtin(x, h, c, W_x, W_h, b, gamma=None):
    if gamma is None:
        return torch.lstm_cell(x, (h, c), W_x, W_h, b, torch.zeros_like(b))
    return lstm_by_rows(x, h, c, W_x, W_h, b, gamma)


def lstm_by_rows(x, h, c, W_x, W_h, b, gamma=None):
    width = h.shape[1]
    states, cells = [], []
    for x_n, h_n, c_n in zip(x, h, c, strict=True):
        parts = [W_h @ h_n, W_x @ x_n]
        if gamma is not None:
            parts = [gamma * F.layer_norm(part, (4 * width,)) for part in parts]
        sums = parts[0] + parts[1] + b
        i, f, o = (torch.sigmoid(sums[k * width : (k + 1) * width]) for k in (0, 1, 3))
        c_n = f * c_n + i * torch.tanh(sums[2 * width : 3 * width])
        seen = c_n if gamma is None else gamma * F.layer_norm(c_n, (width,))
        states.append(o * torch.tanh(seen))
        cells.append(c_n)
    return torch.stack(states), torch.stack(cells)


def lstm_by_hand(x, h, c, W_x, W_h, b, gamma=None):
    def ln(z):
        if gamma is None:
            return z
        variance, mean = torch.var_mean(z, dim=1, correction=0, keepdim=True)
        return gamma * (z - mean) / (variance + 1e-5).sqrt()

    sums = ln(F.linear(x, W_x)) + ln(F.linear(h, W_h)) + b
    i, f, g, o = sums.view(len(x), 4, -1).unbind(1)
    new = torch.sigmoid(f).mul(c) + torch.sigmoid(i).mul(torch.tanh(g))
    return torch.sigmoid(o) * torch.tanh(ln(new)), new


def lstm_einsum(x, h, c, W_x, W_h, b, gamma=None):
    def norm(z):
        weight = None if gamma is None else torch.full(z.shape[-1:], float(gamma), dtype=z.dtype)
        return z if weight is None else F.layer_norm(z, weight.shape, weight)

    sums = norm(torch.einsum("bh,gh->bg", h, W_h)) + norm(torch.einsum("bd,gd->bg", x, W_x)) + b
    i, f, g, o = torch.tensor_split(sums, 4, dim=1)
    c = c / (1 + torch.exp(-f)) + torch.tanh(g) / (1 + torch.exp(-i))
    return [torch.tanh(norm(c)) / (1 + torch.exp(-o)), c]


def lstm_numpy(x, h, c, W_x, W_h, b, gamma=None):
    def norm(z):
        if gamma is None:
            return z
        return gamma * (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)

    x, h, c, W_x, W_h, b = (t.numpy() for t in (x, h, c, W_x, W_h, b))
    sums = norm(h @ W_h.T) + norm(x @ W_x.T) + b
    i, f, g, o = np.split(sums, 4, axis=1)
    c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return torch.from_numpy(np.tanh(norm(c)) / (1 + np.exp(-o))), torch.from_numpy(c)


# merge_moments


def merge_pooled(a, b):
    n = a.count + b.count
    mean = torch.where(n > 0, (a.count * a.mean + b.count * b.mean) / n, 0.0)
    m2 = sum(p.m2 + p.count * (p.mean - mean) ** 2 for p in (a, b))
    return n, mean, m2


def merge_either(a, b):
    if a.count.max() == 0:
        return b
    if b.count.max() == 0:
        return a
    count_a, mean_a, m2_a = a
    count_b, mean_b, m2_b = b
    delta = mean_a - mean_b
    n = count_a + count_b
    return type(a)(
        n, mean_b + delta * (count_a / n), m2_a + m2_b + delta * delta / (1 / count_a + 1 / count_b)
    )


def merge_stacked(a, b):
    counts, means, m2s = (
        torch.stack(torch.broadcast_tensors(p, q)) for p, q in zip(a, b, strict=True)
    )
    total = counts.sum(0)
    share = torch.nan_to_num(counts / total)
    mean = means[0] + (share * (means - means[0])).sum(0)
    return [total, mean, (m2s + counts * (means - mean).square()).sum(0)]


def merge_numpy(a, b):
    (na, ma, sa), (nb, mb, sb) = ([t.numpy() for t in part] for part in (a, b))
    n = na + nb
    safe = np.maximum(n, 1)
    answers = n, ma + (mb - ma) * nb / safe, sa + sb + (mb - ma) ** 2 * na * nb / safe
    return tuple(torch.as_tensor(t) for t in answers)


def merge_fractions(a, b):
    na, nb = int(a.count.max()), int(b.count.max())
    means, m2s = [], []
    for ma, mb, sa, sb in zip(
        *(t.flatten().tolist() for t in (a.mean, b.mean, a.m2, b.m2)), strict=True
    ):
        ma, mb, sa, sb = map(Fraction, (ma, mb, sa, sb))
        means.append(float((na * ma + nb * mb) / max(na + nb, 1)))
        m2s.append(float(sa + sb + (mb - ma) ** 2 * na * nb / max(na + nb, 1)))
    mean, m2 = (torch.tensor(t, dtype=torch.float64).view(a.mean.shape) for t in (means, m2s))
    return type(a)(na + nb, mean, m2)


# sync_backward


def sync_cat(g, x_hat, rstd, count, all_reduce):
    both = all_reduce(torch.cat((g, g * x_hat), dim=1).sum(0))
    off, along = both.div(count).chunk(2)
    return (g - off - x_hat * along) * rstd


def sync_two_calls(g, x_hat, rstd, count, all_reduce):
    dg = all_reduce(torch.sum(g, dim=0, keepdim=True))
    dgx = all_reduce(torch.sum(g * x_hat, dim=0, keepdim=True))
    return rstd / count * (count * g - dg - x_hat * dgx)


def sync_einsum(g, x_hat, rstd, count, all_reduce):
    mean = all_reduce(torch.einsum("nc->c", g) / count)
    along = all_reduce(torch.einsum("nc,nc->c", g, x_hat) / count)
    return torch.einsum("nc,c->nc", g - mean - torch.einsum("nc,c->nc", x_hat, along), rstd)


def sync_double(g, x_hat, rstd, count, all_reduce):
    sums = torch.zeros(2, g.shape[1], dtype=torch.float64)
    for row, hat in zip(g.double(), x_hat.double(), strict=True):
        sums[0] += row
        sums[1] += row * hat
    sums = all_reduce(sums)
    out = torch.empty_like(g)
    for i in range(len(g)):
        out[i] = rstd * (g[i] - sums[0] / count - x_hat[i] * sums[1] / count)
    return out


def sync_numpy(g, x_hat, rstd, count, all_reduce):
    a, b = g.numpy(), x_hat.numpy()
    sums = all_reduce(torch.from_numpy(np.stack([a.sum(0), np.vecdot(a, b, axis=0)])))
    off, along = (sums / count).numpy()
    return torch.from_numpy((a - off - b * along) * rstd.numpy())


# sequence_backward


def tokens_einsum(dy, x_hat, rstd, weight, all_reduce):
    along = torch.einsum("nc,nc,c->n", dy, x_hat, weight) / dy.shape[1]
    dx = torch.einsum("nc,no->nc", dy * weight - torch.einsum("n,nc->nc", along, x_hat), rstd)
    return dx, all_reduce(torch.einsum("nc,nc->c", dy, x_hat))


def tokens_autograd(dy, x_hat, rstd, weight, all_reduce):
    x, gamma = (x_hat / rstd).requires_grad_(), weight.clone().requires_grad_()
    y = x * x.square().mean(1, keepdim=True).rsqrt() * gamma
    dx, part = torch.autograd.grad(y, (x, gamma), dy)
    return dx, all_reduce(part)


def tokens_numpy(dy, x_hat, rstd, weight, all_reduce):
    a, b, r, w = (t.numpy() for t in (dy, x_hat, rstd, weight))
    g = a * w
    dx = r * (g - b * np.vecdot(g, b)[:, None] / g.shape[1])
    return torch.from_numpy(dx), all_reduce(torch.from_numpy((a * b).sum(0)))


def tokens_matmul(dy, x_hat, rstd, weight, all_reduce):
    dweight = all_reduce(torch.diag(dy.T @ x_hat))
    g = dy @ torch.diag(weight)
    return (g - x_hat * torch.diag(g @ x_hat.T)[:, None] / g.shape[1]) * rstd, dweight


def tokens_loop(dy, x_hat, rstd, weight, all_reduce):
    part, dx = torch.zeros_like(weight), torch.empty_like(dy)
    for i, (row, hat) in enumerate(zip(dy, x_hat, strict=True)):
        part = part + row * hat
        dx[i] = rstd[i] * (row * weight - hat * torch.dot(row * weight, hat) / len(hat))
    return dx, all_reduce(part)


RIGHT = {
    "centre": [centre_einsum, centre_loop, centre_vmap, centre_transposed, centre_double],
    "normalize": [
        normalize_var_mean,
        normalize_by_layer_norm,
        normalize_sums,
        normalize_hypot,
        normalize_function,
    ],
    "layer_norm": [
        layer_norm_einsum,
        layer_norm_vmap,
        layer_norm_function,
        layer_norm_by_rms,
        layer_norm_loop,
    ],
    "batch_norm": [
        batch_norm_rows,
        batch_norm_lerp,
        batch_norm_einsum,
        batch_norm_loop,
        batch_norm_function,
    ],
    "pooled": [
        pooled_one_by_one,
        pooled_pairs,
        pooled_numpy,
        pooled_by_channel,
        pooled_repeated,
    ],
    "ema": [ema_match, ema_zip, ema_swap, ema_double, ema_einsum],
    "backward_steps": [steps_vjp, steps_sum_to_size, steps_means, steps_double, steps_closed],
    "layer_norm_backward": [lnb_autograd, lnb_numpy, lnb_vmap, lnb_vjp, lnb_einsum],
    "batch_norm_backward": [bnb_numpy, bnb_rows, bnb_loop, bnb_jacobian, bnb_vjp],
    "rms_norm_backward": [rmsb_numpy, rmsb_autograd, rmsb_vmap, rmsb_einsum, rmsb_loop],
    "group_norm": [
        group_norm_by_layer_norm,
        group_norm_chunks,
        group_norm_vmap,
        group_norm_einsum,
        group_norm_function,
    ],
    "instance_norm": [
        instance_norm_var_mean,
        instance_norm_loop,
        instance_norm_einsum,
        instance_norm_by_group_norm,
        instance_norm_function,
    ],
    "rms_norm": [rms_norm_einsum, rms_norm_hypot, rms_norm_vmap, rms_norm_function, rms_norm_loop],
    "compare_arms": [
        compare_loop,
        compare_numpy,
        compare_gather,
        compare_by_covariance,
        compare_one_hot,
    ],
    "lstm_step": [lstm_builtin, lstm_by_rows, lstm_by_hand, lstm_einsum, lstm_numpy],
    "merge_moments": [merge_pooled, merge_either, merge_stacked, merge_numpy, merge_fractions],
    "sync_backward": [sync_cat, sync_two_calls, sync_einsum, sync_double, sync_numpy],
    "sequence_backward": [
        tokens_einsum,
        tokens_autograd,
        tokens_numpy,
        tokens_matmul,
        tokens_loop,
    ],
}
