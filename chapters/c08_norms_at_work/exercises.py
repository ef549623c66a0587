"""Chapter 08: what to report of two arms, a step of an LSTM with layer norm, and a transformer's
block with its norms before the branches or after the sums."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Call, Tolerance, integers, read_probes
from course_utils.check.report import format_tensor

__all__ = ["block_forward", "compare_arms", "lstm_step"]


def _compare_arms(validation, test):
    rate = validation.mean(dim=2).argmax(dim=1)  # (2,)
    one, other = test[torch.arange(2), rate]  # (S,) each
    gaps = one - other
    error = gaps.std() / len(gaps) ** 0.5
    return rate, gaps.mean(), error


def _runs(
    size: Sequence[int] = (), seed: int = 0, validation: Any = None, test: Any = None
) -> Call:
    """Return a call with these accuracies; with a ``size``, drawn in percent, different wherever a
    mistake could hide: best means, runs and seeds lie apart."""
    if size:
        rng = torch.Generator().manual_seed(seed)
        count = math.prod(size)
        validation, test = (
            50 + torch.randperm(4 * count, generator=rng)[:count].view(*size).float() / count * 10
            for _ in range(2)
        )
    accuracies = {"validation": torch.as_tensor(validation), "test": torch.as_tensor(test)}
    return Call(accuracies, {"validation": "ARS", "test": "ARS"})


def _may_shrink(call: Call) -> bool:
    arms, _, seeds = call.arguments["test"].shape
    return arms == 2 and seeds > 1  # a comparison has two arms, and one seed has no spread


compare_arms = Exercise(
    "compare_arms",
    _compare_arms,
    read_probes(__file__, "compare_arms", _runs, plain=True),
    load("compare_arms", _compare_arms),
    returns=("rate", "difference", "error"),
    any_dtype=True,
    may_shrink_to=_may_shrink,
)


def _lstm_step(x, h, c, W_x, W_h, b, gamma=None):
    def norm(z):
        return z if gamma is None else gamma * F.layer_norm(z, z.shape[-1:])

    from_state, from_input = norm(h @ W_h.T), norm(x @ W_x.T)
    sums = from_state + from_input + b  # (B, 4H)
    i, f, g, o = sums.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * norm(c).tanh()
    return h, c


def _step(size: Sequence[int], seed: int, dtype: str = "float32", gamma: Any = None) -> Call:
    """Return a call with whole numbers, in eighths so that no gate is saturated; ``size`` is batch,
    inputs and hidden features."""
    batch, inputs, hidden = size
    shapes = {
        "x": (batch, inputs),
        "h": (batch, hidden),
        "c": (batch, hidden),
        "W_x": (4 * hidden, inputs),
        "W_h": (4 * hidden, hidden),
        "b": (4 * hidden,),
    }
    kind = getattr(torch, dtype)
    tensors = {
        name: integers(*shape, seed=seed + place).to(kind) / 8
        for place, (name, shape) in enumerate(shapes.items())
    }
    axes = {"x": "BD", "h": "BH", "c": "BH", "W_x": "GD", "W_h": "GH", "b": "G"}
    return Call(tensors | ({} if gamma is None else {"gamma": gamma}), axes)


lstm_step = Exercise(
    "lstm_step",
    _lstm_step,
    read_probes(__file__, "lstm_step", _step, Tolerance(0.0, 1e-4), plain=True),
    load("lstm_step", _lstm_step),
    returns=("h", "c"),
    # the rows of the weights are four gates of H
    may_shrink_to=lambda call: len(call.arguments["b"]) == 4 * call.arguments["h"].shape[1],
)


def _block_forward(block, x):
    if block.placement == "pre":
        h = x + block.attention(block.norm_1(x))
        return h + block.mlp(block.norm_2(h))
    h = block.norm_1(x + block.attention(x))
    return block.norm_2(h + block.mlp(h))


def _of_matrices(block_forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``block_forward`` as a function of its branches' matrices (2, C, C), the number that
    both add, and its norms' weights (2, C)."""

    def branch(weight, offset, h):
        return h @ weight.to(h.dtype) + offset

    def norm(gamma, h):
        return F.layer_norm(h, h.shape[-1:], gamma.to(h.dtype))

    def of_matrices(x, weights, offset, gammas, placement):
        attention, mlp = (partial(branch, weight, offset) for weight in weights)
        norm_1, norm_2 = (partial(norm, gamma) for gamma in gammas)
        parts = {"attention": attention, "mlp": mlp, "norm_1": norm_1, "norm_2": norm_2}
        return block_forward(SimpleNamespace(**parts, placement=placement), x)

    return of_matrices


def _format_block(call: Call) -> list[str]:
    x, weights, offset, gammas, placement = call.arguments.values()
    branches = [
        f"{name}(h) = h @ W + {offset:g}, W = {format_tensor(weight)}"
        for name, weight in zip(("attention", "mlp"), weights, strict=True)
    ]
    inputs = [f"the norms' weights: {format_tensor(gammas)}", f"x = {format_tensor(x)}"]
    return ["block_forward(block, x)", f'block.placement = "{placement}"', *branches, *inputs]


def _block(x: Tensor, weights: Tensor, gammas: Tensor, placement: str, offset: float = 1.0) -> Call:
    arguments = {"x": x, "weights": weights, "offset": offset, "gammas": gammas}
    axes = {"x": "TC", "weights": "PCC", "gammas": "PC"}
    return Call(arguments | {"placement": placement}, axes)


block_forward = Exercise(
    "block_forward",
    _block_forward,
    read_probes(__file__, "block_forward", _block),
    load("block_forward", _block_forward),
    adapt=_of_matrices,
    # a block has two branches, and of two features layer norm leaves the signs
    may_shrink_to=lambda call: (
        len(call.arguments["weights"]) == 2 and call.arguments["x"].shape[-1] > 2
    ),
    format_call=_format_block,
)
