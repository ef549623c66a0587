"""Right answers in unusual styles; the forms of accepted_answers.py are two more of each."""

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


def centre_loop(x):
    rows = []
    for row in x:
        rows.append(row - sum(row) / len(row))
    return torch.stack(rows)


def centre_vmap(x):
    return torch.vmap(lambda row: row - row.mean())(x)


def centre_double(x):
    total = x.to(torch.float64).cumsum(-1)[:, [-1]]
    return torch.add(x, total, alpha=-1 / x.size(-1)).to(x.dtype)


# normalize


def normalize_by_layer_norm(x, dims, eps=1e-5):
    dims = [dims] if isinstance(dims, int) else list(dims)
    last = list(range(-len(dims), 0))
    moved = x.movedim(dims, last)
    return F.layer_norm(moved, moved.shape[-len(dims) :], eps=eps).movedim(last, dims)


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


# batch_norm


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


def pooled_repeated(counts, means, variances):
    values = []
    for count, mean, variance in zip(counts.long().tolist(), means, variances, strict=True):
        values += count * [torch.stack([mean - variance.sqrt(), mean + variance.sqrt()])]
    values = torch.cat(values)
    return [values.mean(0), values.var(0, correction=0)]


# ema


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


# batch_norm_backward


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


def group_norm_function(x, num_groups, weight=None, bias=None, eps=1e-5):
    groups = wide(x).contiguous().view(-1, x[0].numel() // num_groups)
    y = HandMadeNorm.apply(groups, -1, eps)
    return affine(y.view_as(x), x, weight, bias)


# instance_norm


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


# choose_and_report


def choose_loop(validation, test):
    chosen, means, spreads = [], [], []
    for tried, runs in zip(validation.tolist(), test.tolist(), strict=True):
        best = max(range(len(tried)), key=lambda r: sum(tried[r]))
        chosen.append(best)
        means.append(statistics.fmean(runs[best]))
        spreads.append(statistics.stdev(runs[best]))
    kind = {"dtype": test.dtype}
    return torch.tensor(chosen), torch.tensor(means, **kind), torch.tensor(spreads, **kind)


def choose_vmap(validation, test):
    def one(tried, runs):
        rate = tried.mean(1).argmax()
        run = runs.index_select(0, rate[None])[0]
        return rate, run.mean(), run.var().sqrt()

    return torch.vmap(one)(validation, test)


def choose_one_hot(validation, test):
    rate = torch.argsort(-validation.mean(2), dim=1, stable=True)[:, 0]
    runs = torch.einsum("ar,ars->as", F.one_hot(rate, test.shape[1]).to(test.dtype), test)
    mean = runs.sum(1) / runs.shape[1]
    squares = (runs - mean[:, None]).square().sum(1)
    return rate, mean, (squares / (runs.shape[1] - 1)).sqrt()


# merge_moments


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


def sync_numpy(g, x_hat, rstd, count, all_reduce):
    a, b = g.numpy(), x_hat.numpy()
    sums = all_reduce(torch.from_numpy(np.stack([a.sum(0), np.vecdot(a, b, axis=0)])))
    off, along = (sums / count).numpy()
    return torch.from_numpy((a - off - b * along) * rstd.numpy())


# sequence_backward


def tokens_autograd(dy, x_hat, rstd, weight, all_reduce):
    x, gamma = (x_hat / rstd).requires_grad_(), weight.clone().requires_grad_()
    y = x * x.square().mean(1, keepdim=True).rsqrt() * gamma
    dx, part = torch.autograd.grad(y, (x, gamma), dy)
    return dx, all_reduce(part)


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
    "centre": [centre_loop, centre_vmap, centre_double],
    "normalize": [normalize_by_layer_norm, normalize_hypot, normalize_function],
    "layer_norm": [layer_norm_function, layer_norm_by_rms],
    "batch_norm": [batch_norm_loop, batch_norm_function],
    "pooled": [pooled_pairs, pooled_numpy, pooled_repeated],
    "ema": [ema_swap, ema_double, ema_einsum],
    "backward_steps": [steps_vjp, steps_double, steps_closed],
    "layer_norm_backward": [lnb_numpy, lnb_vmap, lnb_vjp],
    "batch_norm_backward": [bnb_loop, bnb_jacobian, bnb_vjp],
    "rms_norm_backward": [rmsb_numpy, rmsb_autograd, rmsb_loop],
    "group_norm": [group_norm_by_layer_norm, group_norm_function],
    "instance_norm": [instance_norm_by_group_norm, instance_norm_function],
    "rms_norm": [rms_norm_function, rms_norm_loop],
    "choose_and_report": [choose_loop, choose_vmap, choose_one_hot],
    "merge_moments": [merge_either, merge_stacked, merge_fractions],
    "sync_backward": [sync_cat, sync_two_calls, sync_numpy],
    "sequence_backward": [tokens_autograd, tokens_matmul, tokens_loop],
}
