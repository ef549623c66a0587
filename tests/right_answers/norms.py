"""Right answers in unusual styles: five of each exercise.

Five ways to centre the rows of a matrix, to divide them by their root mean square, to move a
running average and to go back through a row; each norm takes its rows out of x, in the way of the
exercise, and hands them to one way of each.
"""

import itertools
import math
import statistics
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.nn.utils.fusion import fuse_conv_bn_weights


def wide(t):
    return t if t.dtype == torch.float64 else t.float()


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


# rows over their root mean square, and rows with both


def scaled_einsum(z, eps):
    power = torch.einsum("rn,rn->r", z, z) / z.shape[1]
    return torch.einsum("rn,r->rn", z, (power + eps) ** -0.5)


def scaled_hypot(z, eps):
    size = torch.linalg.vector_norm(z, dim=1, keepdim=True) / z.shape[1] ** 0.5
    return z / torch.hypot(size, torch.full_like(size, eps**0.5))


def scaled_vmap(z, eps):
    return torch.vmap(lambda row: row / (torch.dot(row, row) / len(row) + eps).sqrt())(z)


def scaled_loop(z, eps):
    rows = torch.empty_like(z)
    for i, row in enumerate(z):
        rows[i] = row * (sum(row.pow(2)) / row.numel() + eps).rsqrt()
    return rows


class NumpyScaled(Function):
    @staticmethod
    def forward(ctx, z, eps):
        a = z.detach().double().numpy()
        r = 1 / np.sqrt((a**2).mean(axis=1, keepdims=True) + eps)
        ctx.kept = a * r, r
        return torch.from_numpy(a * r).to(z.dtype)

    @staticmethod
    def backward(ctx, dy):
        (hat, r), g = ctx.kept, dy.double().numpy()
        off = hat * (g * hat).mean(axis=1, keepdims=True)
        return torch.from_numpy(r * (g - off)).to(dy.dtype), None


def both(centre, scaled, widen=wide):
    return lambda rows, eps: scaled(centre(widen(rows)), eps)


CENTRE = [centre_einsum, centre_loop, centre_vmap, centre_transposed, centre_double]
SCALED = [scaled_einsum, scaled_loop, scaled_vmap, scaled_hypot, NumpyScaled.apply]
IN_ROWS = [
    both(centre, scaled, torch.Tensor.double if "einsum" in centre.__name__ else wide)
    for centre, scaled in zip(CENTRE, SCALED, strict=True)
]


def by_lerp(old, new, momentum):
    old.lerp_(new.detach().to(old.dtype), momentum)


def by_copy(old, new, momentum):
    old.copy_((1 - momentum) * old + momentum * new.detach())


def by_item(old, new, momentum):
    for c in range(len(old)):
        old[c] = (1 - momentum) * old[c] + momentum * new[c].item()


def without_a_graph(old, new, momentum):
    with torch.no_grad():
        old *= 1 - momentum
        old += momentum * new


def in_its_data(old, new, momentum):
    old.data.mul_(1 - momentum).add_(new.detach(), alpha=momentum)


MOVES = [by_lerp, by_copy, by_item, without_a_graph, in_its_data]


# normalize, layer_norm, rms_norm


def normalize_by(in_rows):
    def normalize(x, dims, eps=1e-5):
        dims = [dims] if isinstance(dims, int) else list(dims)
        last = list(range(-len(dims), 0))
        moved = x.movedim(dims, last)
        y = in_rows(moved.reshape(-1, math.prod(moved.shape[-len(dims) :])), eps)
        return y.view(moved.shape).movedim(last, dims).to(x.dtype)

    return normalize


def normalize_by_layer_norm(x, dims, eps=1e-5):
    dims = [dims] if isinstance(dims, int) else list(dims)
    last = list(range(-len(dims), 0))
    moved = x.movedim(dims, last)
    return F.layer_norm(moved, moved.shape[-len(dims) :], eps=eps).movedim(last, dims)


def layer_norm_by(in_rows):
    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        y = in_rows(x.reshape(-1, math.prod(normalized_shape)), eps).view(x.shape)
        for change, by in ((torch.mul, weight), (torch.add, bias)):
            y = y if by is None else change(y, by)
        return y.to(x.dtype)

    return layer_norm


def layer_norm_by_rms(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    z = wide(x)
    z = z - z.mean([*range(-len(normalized_shape), 0)], keepdim=True)
    w = weight if weight is None else weight.to(z.dtype)
    y = F.rms_norm(z, list(normalized_shape), w, eps)
    return (y if bias is None else y + bias).to(x.dtype)


def default_eps(x, eps):
    return torch.finfo(wide(x).dtype).eps if eps is None else eps


def rms_norm_by(scaled):
    def rms_norm(x, normalized_shape, weight=None, eps=None):
        rows = wide(x).reshape(-1, math.prod(normalized_shape))
        y = scaled(rows, default_eps(x, eps)).view(x.shape)
        return (y * (1 if weight is None else weight)).to(x.dtype)

    return rms_norm


# batch_norm, group_norm, instance_norm


def beside(t, x):
    """A (C,) tensor's place beside x (N, C, *)."""
    return t[(None, ...) + (None,) * (x.dim() - 2)]


def affine(y, x, weight, bias):
    y = y if weight is None else y * beside(weight, x)
    return (y if bias is None else y + beside(bias, x)).to(x.dtype)


def batch_norm_by(in_rows, move):
    def batch_norm(
        x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
    ):
        channels = wide(x).transpose(0, 1)
        rows = channels.flatten(1)
        if training and running_mean is not None:
            move(running_mean, rows.mean(1), momentum)
            move(running_var, rows.var(1), momentum)
        if training or running_mean is None:
            y = in_rows(rows, eps)
        else:
            y = (rows.T - wide(running_mean)).T / (wide(running_var)[:, None] + eps) ** 0.5
        return affine(y.reshape(channels.shape).transpose(0, 1), x, weight, bias)

    return batch_norm


def group_norm_by(in_rows):
    def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
        rows = x.reshape(len(x) * num_groups, -1)
        return affine(in_rows(rows, eps).view(x.shape), x, weight, bias)

    return group_norm


def group_norm_chunks(x, num_groups, weight=None, bias=None, eps=1e-5):
    parts = []
    for part in torch.chunk(wide(x), num_groups, dim=1):
        dims = list(range(1, part.ndim))
        part = part - part.mean(dims, keepdim=True)
        parts.append(part / torch.sqrt(part.pow(2).mean(dims, keepdim=True) + eps))
    return affine(torch.cat(parts, 1), x, weight, bias)


def instance_norm_by(in_rows, move):
    def instance_norm(
        x, running_mean=None, running_var=None, weight=None, bias=None,
        use_input_stats=True, momentum=0.1, eps=1e-5,
    ):  # fmt: skip
        planes = wide(x).flatten(2)
        if use_input_stats and running_mean is not None:
            move(running_mean, planes.mean((0, 2)), momentum)
            move(running_var, planes.var(2).mean(0), momentum)
        if use_input_stats:
            y = in_rows(planes.flatten(0, 1), eps)
        else:
            scale = 1 / torch.sqrt(wide(running_var) + eps)
            y = planes * scale[:, None] - (running_mean * scale)[:, None]
        return affine(y.view(x.shape), x, weight, bias)

    return instance_norm


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
        by_copy(running_mean, z.mean(dims).mean(0), momentum)
        by_copy(running_var, z.var(dims).mean(0), momentum)
    return affine(F.group_norm(z, z.shape[1], eps=eps), x, weight, bias)


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

    d, names = OrderedDict(), ("bias", "weight", "x_hat")
    d |= zip(names, back(lambda b, w, h: w * h + b, dy, *names), strict=True)
    direct, d["rstd"] = back(torch.mul, d["x_hat"], "centred", "rstd")
    d["variance"] = vjp(torch.rsqrt, [steps["rstd"] ** -2], d["rstd"])[0]
    through = back(lambda c: c.square().mean(dims, keepdim=True), d["variance"], "centred")
    d["centred"] = direct + through[0]
    direct, d["mean"] = back(torch.sub, d["centred"], "x", "mean")
    d["x"] = direct + back(lambda x: x.mean(dims, keepdim=True), d["mean"], "x")[0]
    return d


def steps_summed_by(total, widen=wide):
    """Steps whose sums are taken by ``total(t, shape, over)``."""

    def backward_steps(dy, steps, dims, rows):
        x, weight, bias, mean, centred, _, rstd, x_hat, _ = map(widen, steps.values())
        n, g = x.numel() / mean.numel(), widen(dy)
        d = {"bias": total(g, bias.shape, rows), "weight": total(g * x_hat, weight.shape, rows)}
        d["x_hat"] = g * weight
        d["rstd"] = total(d["x_hat"] * centred, rstd.shape, dims)
        d["variance"] = -d["rstd"] * rstd.pow(3) / 2
        d["centred"] = d["x_hat"].mul(rstd).addcmul(d["variance"], centred, value=2 / n)
        d["mean"] = total(-d["centred"], mean.shape, dims)
        d["x"] = d["centred"] + d["mean"] / n
        return {name: t.to(dy.dtype) for name, t in d.items()}

    return backward_steps


def summed_from_means(t, shape, over):
    mean = t.mean(over)
    return (mean * (t.numel() // mean.numel())).view(shape)


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


# layer_norm_backward, batch_norm_backward, rms_norm_backward: dx and x̂ of rows, ``centred`` or not


def back_numpy(g, z, eps, centred):
    g, a = (t.detach().double().numpy() for t in (g, z))
    a = a - centred * a.mean(1, keepdims=True)
    r = 1 / np.sqrt((a * a).mean(1, keepdims=True) + eps)
    off = centred * g.mean(1, keepdims=True) + a * r * (g * a * r).mean(1, keepdims=True)
    return torch.from_numpy(r * (g - off)), torch.from_numpy(a * r)


def back_vmap(g, z, eps, centred):
    def one(g, z):
        z = z - centred * z.mean()
        r = (z.square().mean() + eps).rsqrt()
        return r * (g - centred * g.mean() - z * r * (g * z * r).mean()), z * r

    return torch.vmap(one)(g, z)


def back_builtin(g, z, eps, centred):
    def norm(z):
        return (F.layer_norm if centred else F.rms_norm)(z, z.shape[1:], eps=eps)

    return *vjp(norm, [z.double()], g.double()), norm(z.double())


def back_einsum(g, z, eps, centred):
    g, z, n = g.double(), z.double(), z.shape[1]
    z = z - centred * torch.einsum("rn->r", z)[:, None] / n
    r = (torch.einsum("rn,rn->r", z, z) / n + eps) ** -0.5
    hat = torch.einsum("rn,r->rn", z, r)
    off = centred * torch.einsum("rn->r", g)[:, None] + torch.einsum("rn,rm,rm->rn", hat, g, hat)
    return torch.einsum("rn,r->rn", g - off / n, r), hat


def back_jacobian(g, z, eps, centred):
    dx, x_hat = torch.empty_like(g), torch.empty_like(z)
    for i in range(len(z)):
        centring = torch.eye(z.shape[1]).to(z) - centred / z.shape[1]
        row = centring @ z[i].clone() if centred else z[i]
        r = 1 / math.sqrt(row.square().mean().item() + eps)
        x_hat[i] = row * r
        dx[i] = r * ((centring - torch.outer(x_hat[i], x_hat[i]) / len(row)) @ g[i])
    return dx, x_hat


BACK = [back_numpy, back_vmap, back_builtin, back_einsum, back_jacobian]


def layer_norm_backward_by(back):
    def layer_norm_backward(dy, x, normalized_shape, weight=None, eps=1e-5, centred=1):
        d, z = (wide(t).reshape(-1, math.prod(normalized_shape)) for t in (dy, x))
        g = d if weight is None else d * wide(weight).flatten()
        dx, x_hat = back(g, z, eps, centred)
        dtype = (x if weight is None else weight).dtype
        sums = (t.sum(0).reshape(normalized_shape).to(dtype) for t in (d * x_hat, d))
        return dx.reshape(x.shape).to(x.dtype), *sums

    return layer_norm_backward


def rms_norm_backward_by(back):
    def rms_norm_backward(dy, x, normalized_shape, weight=None, eps=None):
        gradients = layer_norm_backward_by(back)
        return list(gradients(dy, x, normalized_shape, weight, default_eps(x, eps), 0)[:2])

    return rms_norm_backward


def batch_norm_backward_by(back):
    def batch_norm_backward(dy, x, weight=None, eps=1e-5):
        d, z = (wide(t).movedim(1, 0) for t in (dy, x))
        shape, d, z = z.shape, d.flatten(1), z.flatten(1)
        dx, x_hat = back(d if weight is None else d * weight[:, None], z, eps, 1)
        dtype = getattr(weight, "dtype", x.dtype)
        dx = dx.reshape(shape).movedim(0, 1).to(x.dtype)
        return dx, (d * x_hat).sum(1).to(dtype), d.sum(1).to(dtype)

    return batch_norm_backward


# fold


def fold_fused(weight, bias, mean, variance, gamma, beta, eps=1e-5):
    return fuse_conv_bn_weights(weight, bias, mean, variance, eps, gamma, beta)


def fold_probed(weight, bias, mean, variance, gamma, beta, eps=1e-5):
    """The layer and its norm on 0 and on each unit vector."""
    matrix = weight.flatten(1).double()
    z = torch.cat((torch.zeros_like(matrix[:, :1]), matrix), 1)
    z = z if bias is None else z + bias[:, None]
    y = (z.T - mean) / (variance.double() + eps).sqrt() * gamma + beta
    return (y[1:] - y[0]).T.reshape(weight.shape).to(weight.dtype), y[0].to(beta.dtype)


def fold_diagonal(weight, bias, mean, variance, gamma, beta, eps=1e-5):
    scale = torch.diag((variance + eps) ** -0.5) @ torch.diag(gamma)
    shift = -mean if bias is None else bias - mean
    return (scale @ weight.flatten(1)).view_as(weight), torch.addmv(beta, scale, shift)


def fold_loop(weight, bias, mean, variance, gamma, beta, eps=1e-5):
    filters, biases = [], []
    for o, row in enumerate(weight):
        a = gamma[o].item() / math.sqrt(variance[o].item() + eps)
        filters.append(a * row)
        c = 0 if bias is None else bias[o].item()
        biases.append(a * c + beta[o].item() - a * mean[o].item())
    return torch.stack(filters), torch.tensor(biases, dtype=beta.dtype)


def fold_numpy(weight, bias, mean, variance, gamma, beta, eps=1e-5):
    w, m, v, g, b = (t.numpy() for t in (weight, mean, variance, gamma, beta))
    a = g / np.sqrt(v + eps)
    c = (0 if bias is None else bias.numpy()) - m
    return torch.from_numpy((w.T * a).T), torch.from_numpy((b + a * c).astype(b.dtype))


# corrected


def corrected_matrix(values, momentum):
    ages = torch.arange(len(values))[:, None] - torch.arange(len(values))
    weights = (momentum * (1 - momentum) ** ages.clamp(min=0).to(values.dtype)).tril()
    return weights / weights.sum(1, keepdim=True) @ values


def corrected_rate(values, momentum):
    """The corrected average goes towards each value by a share that shrinks to the momentum."""
    rows = [values[0]]
    for n, value in enumerate(values[1:], start=2):
        rows.append(rows[-1].lerp(value, momentum / (1 - (1 - momentum) ** n)))
    return torch.stack(rows)


def corrected_ones(values, momentum):
    """A column of ones is averaged beside them: what it comes to is what the values weigh."""
    table = F.pad(values, (0, 1), value=1.0)
    average, rows = table[0] * 0, []
    for row in table:
        average = average + momentum * (row - average)
        rows.append(average[:-1] / average[-1:])
    return torch.vstack(rows)


def corrected_accumulate(values, momentum):
    rows = itertools.accumulate(
        values.double().numpy(), lambda a, v: (1 - momentum) * a + v, initial=0.0
    )
    weights = itertools.accumulate(values, lambda w, _: (1 - momentum) * w + 1, initial=0.0)
    both = zip(list(rows)[1:], list(weights)[1:], strict=True)
    return torch.from_numpy(np.stack([row / weight for row, weight in both])).to(values.dtype)


def corrected_recursive(values, momentum):
    if len(values) == 1:
        return values.clone()
    before = corrected_recursive(values[:-1], momentum)
    kept = (1 - momentum) * (1 - (1 - momentum) ** (len(values) - 1))
    last = (kept * before[-1] + momentum * values[-1]) / (kept + momentum)
    return torch.cat((before, last[None]))


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


# block_forward


def block_loop(block, x):
    branches = (block.attention, block.norm_1), (block.mlp, block.norm_2)
    for f, norm in branches:
        x = x + f(norm(x)) if block.placement == "pre" else norm(x + f(x))
    return x


def block_flags(block, x):
    pre, post = block.placement == "pre", block.placement != "pre"
    for part, number in (("attention", 1), ("mlp", 2)):
        norm = getattr(block, f"norm_{number}")
        added = x + getattr(block, part)(norm(x) if pre else x)
        x = norm(added) if post else added
    return x


def block_match(block, x):
    match block.placement:
        case "pre":
            x = torch.add(x, block.attention(block.norm_1(x)))
            x = torch.add(x, block.mlp(block.norm_2(x)))
        case "post":
            x = block.norm_1(torch.add(x, block.attention(x)))
            x = block.norm_2(torch.add(x, block.mlp(x)))
    return x


def block_sums(block, x):
    if block.placement == "post":
        h = block.norm_1(torch.stack([x, block.attention(x)]).sum(0))
        return block.norm_2(torch.stack([h, block.mlp(h)]).sum(0))
    a = block.attention(block.norm_1(x))
    return x + a + block.mlp(block.norm_2(x + a))


def block_in_place(block, x):
    x = x.clone()
    pre = block.placement == "pre"
    x += block.attention(block.norm_1(x) if pre else x)
    x = x if pre else block.norm_1(x)
    x += block.mlp(block.norm_2(x) if pre else x)
    return x if pre else block.norm_2(x)


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
    (na, ma, sa), (nb, mb, sb) = ([part[i].numpy() for i in range(3)] for part in (a, b))
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


def sync_by(sums):
    """Of one exchange, with both sums over the rows in it."""

    def sync_backward(g, x_hat, rstd, count, all_reduce):
        off, along = all_reduce(sums(g, x_hat)).div(count).to(g.dtype)
        return (g - off - x_hat * along) * rstd

    return sync_backward


def sums_of_both(g, x_hat):
    return torch.cat((g, g * x_hat), dim=1).sum(0).view(2, -1)


def sums_by_einsum(g, x_hat):
    return torch.einsum("nc,knc->kc", g, torch.stack((torch.ones_like(g), x_hat)))


def sums_in_double(g, x_hat):
    sums = torch.zeros(2, g.shape[1], dtype=torch.float64)
    for row, hat in zip(g.double(), x_hat.double(), strict=True):
        sums[0] += row
        sums[1] += row * hat
    return sums


def sums_by_numpy(g, x_hat):
    a, b = g.numpy(), x_hat.numpy()
    return torch.from_numpy(np.stack([a.sum(0), np.vecdot(a, b, axis=0)]))


def sync_two_calls(g, x_hat, rstd, count, all_reduce):
    dg = all_reduce(torch.sum(g, dim=0, keepdim=True))
    dgx = all_reduce(torch.sum(g * x_hat, dim=0, keepdim=True))
    return rstd / count * (count * g - dg - x_hat * dgx)


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
    "centre": CENTRE,
    "normalize": [normalize_by_layer_norm, *map(normalize_by, IN_ROWS[:4])],
    "layer_norm": [layer_norm_by_rms, *map(layer_norm_by, IN_ROWS[1:])],
    "rms_norm": [*map(rms_norm_by, SCALED)],
    "batch_norm": [*map(batch_norm_by, IN_ROWS, MOVES)],
    "fold": [fold_fused, fold_probed, fold_diagonal, fold_loop, fold_numpy],
    "group_norm": [group_norm_chunks, *map(group_norm_by, IN_ROWS[:4])],
    "instance_norm": [
        instance_norm_by_group_norm,
        *map(instance_norm_by, IN_ROWS[1:], reversed(MOVES[:4])),
    ],
    "pooled": [
        pooled_one_by_one,
        pooled_pairs,
        pooled_numpy,
        pooled_by_channel,
        pooled_repeated,
    ],
    "corrected": [
        corrected_matrix,
        corrected_rate,
        corrected_ones,
        corrected_accumulate,
        corrected_recursive,
    ],
    "ema": [ema_match, ema_zip, ema_swap, ema_double, ema_einsum],
    "backward_steps": [
        steps_vjp,
        steps_summed_by(lambda t, shape, over: t.sum_to_size(shape)),
        steps_summed_by(lambda t, shape, over: t.sum(over).reshape(shape), torch.Tensor.double),
        steps_summed_by(summed_from_means),
        steps_closed,
    ],
    "layer_norm_backward": [*map(layer_norm_backward_by, BACK)],
    "batch_norm_backward": [*map(batch_norm_backward_by, BACK)],
    "rms_norm_backward": [*map(rms_norm_backward_by, BACK)],
    "compare_arms": [
        compare_loop,
        compare_numpy,
        compare_gather,
        compare_by_covariance,
        compare_one_hot,
    ],
    "lstm_step": [lstm_builtin, lstm_by_rows, lstm_by_hand, lstm_einsum, lstm_numpy],
    "block_forward": [block_loop, block_flags, block_match, block_sums, block_in_place],
    "merge_moments": [merge_pooled, merge_either, merge_stacked, merge_numpy, merge_fractions],
    "sync_backward": [
        sync_two_calls,
        *map(sync_by, (sums_of_both, sums_by_einsum, sums_in_double, sums_by_numpy)),
    ],
    "sequence_backward": [
        tokens_einsum,
        tokens_autograd,
        tokens_numpy,
        tokens_matmul,
        tokens_loop,
    ],
}
