"""Moments that merge, moving averages, and Precise BN: what a layer knows of data that it no longer
has (chapter 04; chapter 09 merges those of several machines).

*Two conventions of momentum.* In ``"torch"``'s it is the weight of the new value, and batch norm's
default is 0.1; in ``"keras"``' (TensorFlow and Flax too) it is the weight of the old average, and
the default is 0.99:

    torch    average ← (1 − momentum)·average + momentum·value
    keras    average ← momentum·average + (1 − momentum)·value

*Moments* are pooled, not averaged. The variance of a pool is the mean of the parts' variances plus
the variance of their means, so an average of variances comes out too small; a count, a mean and the
sum of the squared deviations of each part give the pool's exactly.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from course_utils.norms.core import centre

__all__ = ["Convention", "Moments", "bias_corrected", "ema", "precise_batch_norm"]

Convention = Literal["torch", "keras"]
Average = TypeVar("Average", float, Tensor)


class Moments:
    """How many values there are, their mean, and the sum of their squared deviations from it.

    Kept in float64 (in float32 on devices that have none) and merged to within its rounding in any
    order, however the values were split and wherever they lie, for up to 2⁵³ values. Near 10⁸ a
    float64 mean is itself 10⁻⁸ off, and the distance between two means would inherit that; so what
    its rounding took away is kept beside it.

    >>> a = Moments.of(torch.tensor([1.0, 2.0, 3.0]))
    >>> b = Moments.of(torch.tensor([5.0]))
    >>> a.merge(b).mean.item(), a.merge(b).variance().item()
    (2.75, 2.1875)
    """

    def __init__(
        self,
        count: Tensor | float,
        mean: Tensor | float,
        m2: Tensor | float,
        residue: Tensor | float = 0.0,
    ) -> None:
        """Take numbers or tensors: n, which broadcasts to the shape of μ; μ, not read where n is
        zero; Σ(x − μ)².

        ``residue`` is what the mean lacks beyond its precision, where that is known. A mean and an
        m2 of different shapes are a ValueError.
        """
        device = next((part.device for part in (mean, m2, count) if isinstance(part, Tensor)), None)
        self.count = _in_float64(count, device)
        mean, m2 = _in_float64(mean, device), _in_float64(m2, device)
        if mean.shape != m2.shape:
            raise ValueError(
                f"m2 must have the shape of mean: got {tuple(m2.shape)} beside {tuple(mean.shape)}"
            )
        # The mean of nothing is NaN, and NaN times zero is NaN: an empty part is zeros from the
        # start.
        is_empty = self.count == 0
        self.mean = torch.where(is_empty, 0.0, mean)
        self.m2 = torch.where(is_empty, 0.0, m2)
        self.residue = torch.where(is_empty, 0.0, _in_float64(residue, device))

    def __repr__(self) -> str:
        return f"Moments(count={self.count}, mean={self.mean}, m2={self.m2})"

    def __getitem__(self, index: Any) -> Any:
        """Return some of the parts, where count has a dimension of them in front; of one part its
        count, mean or m2, 0 to 2."""
        if not self.count.dim():
            return (self.count, self.mean, self.m2)[index]
        return Moments(self.count[index], self.mean[index], self.m2[index], self.residue[index])

    def __iter__(self) -> Iterator[Tensor]:
        """Yield count, mean and m2: ``count, mean, m2 = moments``."""
        yield from (self.count, self.mean, self.m2)

    @classmethod
    def of(cls, x: Tensor, dim: int | Sequence[int] | None = None) -> "Moments":
        """Return the moments of a real ``x`` over ``dim``, by default all dimensions; ``x`` may be
        empty."""
        if x.is_complex():
            raise ValueError(f"x must be real: got {x.dtype}")
        x = _in_float64(x)
        if dim is None:
            dim = range(x.dim())
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        # to torch's reductions () means every dimension; here it means none, and each value is its
        # mean
        if not dims:
            x, dims = x.unsqueeze(-1), (-1,)
        rounded = x.mean(dims, keepdim=True)
        centred, residue = centre(x, rounded, dims)
        mean, residue = _sum_and_residue(rounded.squeeze(dims), residue.squeeze(dims))
        count = math.prod([x.shape[d] for d in dims])
        return cls(count, mean, centred.square().sum(dims), residue)

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both parts' values together (Chan, Golub, LeVeque 1979, equations
        2.1)."""
        count = self.count + other.count
        smaller, larger = (
            torch.minimum(self.count, other.count),
            torch.maximum(self.count, other.count),
        )
        fraction = smaller / torch.where(count == 0, 1.0, count)  # of the pool: the smaller part's
        delta = (other.mean - self.mean) + (other.residue - self.residue)
        step = delta * fraction

        # The larger part's mean has the shorter way to the pool's, and beside an empty part it
        # stays as it is.
        is_other = other.count > self.count
        start = torch.where(is_other, other.mean, self.mean)
        residue = torch.where(is_other, other.residue, self.residue) + torch.where(
            is_other, -step, step
        )
        mean, residue = _sum_and_residue(start, residue)
        return Moments(count, mean, self.m2 + other.m2 + step * delta * larger, residue)

    def variance(self, correction: int = 0) -> Tensor:
        """Return m2 / (count − correction): biased with 0, unbiased with 1, NaN of no values, as
        `torch.var` has it."""
        return self.m2 / (self.count - correction).clamp(min=0)


def ema(
    average: Average, value: Average, momentum: float, convention: Convention = "torch"
) -> Average:
    """Return the exponential moving average (*) after one more value (*), a new tensor or number.

    ``momentum``, in [0, 1], is the weight of ``value`` in the convention ``"torch"`` and that of
    ``average`` in ``"keras"``; anything else is a ValueError. In half precision it stalls where a
    step is less than the spacing of the numbers: keep averages in float32.

    >>> ema(0.0, 1.0, momentum=0.1), ema(0.0, 1.0, momentum=0.9, convention="keras")
    (0.1, 0.09999999999999998)
    """
    old, new = _weights(momentum, convention)
    return old * average + new * value


def bias_corrected(
    average: Average,
    momentum: float,
    steps: int,
    convention: Convention = "torch",
    *,
    start: float = 0.0,
) -> Average:
    """Return a moving average without the trace of the constant that it started from.

    After n steps the start still has the weight oldⁿ, where old is that of the average in a step.
    Taken out, what is left is a weighted mean of the values alone. ``start`` is zero for batch
    norm's running mean and one for its running variance; ``momentum`` and ``convention`` are as in
    `ema`, and must give the new value some weight.

    Source: Kingma, Ba 2015, section 3.
    """
    _, new = _weights(momentum, convention)
    if new == 0:
        raise ValueError(
            f"momentum must give the new value a weight: got {momentum} in {convention}'s "
            "convention"
        )
    if steps < 1:
        raise ValueError(f"steps must be at least 1: got {steps}")
    # 1 − oldⁿ would round a small weight of the values away; log1p and expm1 keep it.
    log_old = math.log1p(-new) if new < 1 else -math.inf
    weight_of_values = -math.expm1(int(steps) * log_old)
    return (average - (1 - weight_of_values) * start) / weight_of_values


def precise_batch_norm(model: nn.Module, batches: Iterable[Any]) -> None:
    """Set the running statistics of the model's batch norms to those of ``batches``, without
    training.

    Each batch goes through the model once, batch norms normalizing by the batch as in training and
    everything else (dropout, say) as in evaluation. The running mean becomes the mean of all a
    layer has seen, and the running variance the unbiased variance of the pool: every value counts
    alike, in batches of any size. The batches should be as large as those trained on, since a
    layer's input depends on how the layers below normalized.

    Changed are the running statistics, and ``num_batches_tracked``, which becomes the number of
    batches they are made of. Parameters, gradients, modes, random state and hooks are as before,
    and after an error the statistics too. A layer is left alone that keeps no running statistics,
    that no batch reached, or that is in evaluation mode while the model is in training (frozen). Of
    a distributed model, each process sees its own batches only.

    ``batches`` are what the model is called with, one at a time; of a tuple or list, such as a
    `DataLoader` yields, the first element. No such layer, or no batch, is a ValueError.

    Source: Wu, Johnson 2021, section 3.
    """
    layers: list[Any] = [
        layer
        for layer in model.modules()
        if isinstance(layer, _BatchNorm)
        and layer.track_running_stats
        and layer.training >= model.training
    ]
    if not layers:
        raise ValueError(
            "model must have a batch norm layer that keeps running statistics and is not frozen: "
            "got none"
        )
    seen: dict[Any, list[Moments]] = {layer: [] for layer in layers}

    def pool(layer: nn.Module, inputs: tuple[Tensor, ...], keywords: dict[str, Tensor]) -> None:
        x = inputs[0] if inputs else keywords["input"]  # (N, C, *)
        seen[layer].append(Moments.of(x, (0, *range(2, x.dim()))))

    modes = {module: module.training for module in model.modules()}
    hooks = [layer.register_forward_pre_hook(pool, with_kwargs=True) for layer in layers]
    try:
        model.eval()
        for layer in layers:
            layer.train()
            layer.track_running_stats = False  # it would move them by its own rule
        with torch.no_grad():
            for batch in batches:
                model(batch[0] if isinstance(batch, (tuple, list)) else batch)
    finally:
        for layer in layers:
            layer.track_running_stats = True
        for module, training in modes.items():
            module.training = training
        for hook in hooks:
            hook.remove()

    if not any(seen.values()):
        raise ValueError("batches must bring these layers at least one batch: got none")
    for layer, parts in seen.items():
        if parts:
            moments = functools.reduce(Moments.merge, parts)
            layer.running_mean.copy_(moments.mean)
            layer.running_var.copy_(moments.variance(correction=1))
            layer.num_batches_tracked.fill_(len(parts))


def _weights(momentum: float, convention: str) -> tuple[float, float]:
    """Return the weights of the old average and of the new value."""
    if not isinstance(momentum, Real | Tensor) or not 0 <= momentum <= 1:
        raise ValueError(f"momentum must be between 0 and 1: got {momentum!r}")
    if convention not in ("torch", "keras"):
        raise ValueError(f"convention must be 'torch' or 'keras': got {convention!r}")
    return (1 - momentum, momentum) if convention == "torch" else (momentum, 1 - momentum)


def _in_float64(x: Any, device: torch.device | None = None) -> Tensor:
    """Return ``x`` as a tensor in float64, or in float32 on a device that has no float64 (Apple's
    GPUs)."""
    device = x.device if isinstance(x, Tensor) else device
    dtype = torch.float32 if device is not None and device.type == "mps" else torch.float64
    return torch.as_tensor(x, dtype=dtype, device=device)


def _sum_and_residue(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return a + b rounded, and exactly what the rounding took away (Knuth's TwoSum)."""
    total = a + b
    b_taken = total - a
    return total, (a - (total - b_taken)) + (b - b_taken)
