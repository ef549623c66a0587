"""The ladder of chapter 09: each operation in every way the course knows, from loops to kernels.

An ``Operation`` makes its inputs, knows the truth, counts the bytes that any implementation must move, and names its
rungs. All rungs of an operation take the same inputs and compute with the same epsilon.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils import kernels, norms
from course_utils.norms import backward, compiled
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq
from course_utils.session import generator
from course_utils.timing.bench import loops, peers

__all__ = ["OPERATIONS", "TOLERANCES", "Operation", "Rung"]

EPS = peers.EPS  # one for all implementations
LOOP_ELEMENTS = 512  # above that, loops in Python are no longer bearable
# Largest relative error ‖result − truth‖ / ‖truth‖. Rounding alone makes 3e-8, 1.2e-3 and 1.5e-4; the rest is room for
# sums in any order.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-3, "float16": 1e-3}

Function = Callable[..., Any]
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Rung:
    """One implementation of an operation.

    Args:
        name: what it is called in a record.
        fn: takes the operation's inputs.
        ours: written for this course, and so held to the dtype's tolerance in every result.
        in_place: writes over its inputs and over the gradients that it is given, and so needs its own.
        arrange: prepares the inputs, once and not timed.
    """

    name: str
    fn: Function
    ours: bool = True
    in_place: bool = False
    arrange: Callable[..., Inputs] | None = None


@dataclass(frozen=True)
class Operation:
    """What is computed, and the ways to compute it.

    Args:
        name: as in a record.
        axes: those that a shape has; "*" stands for any number.
        differentiated: the names of the inputs that get a gradient, which come first among the inputs.
        outputs: the names of the results.
        inputs: makes random inputs for a shape, a dtype, a device and a seed.
        truth: the result for float64 inputs, by code that is not on trial.
        bytes_moved: the fewest bytes for given inputs, forward or forward with backward: each input read once and each
            result written once in each pass that needs it. What an implementation moves beyond that, such as a second
            pass, an intermediate or saved statistics, is its own cost and shows as a lower rate.
        loops: the definition, an element at a time.
        eager: the ways that run operator by operator.
        to_compile: the way that ``torch.compile`` is given.
        on_cpu: further ways that are made for a CPU.
        built_in: PyTorch's own, where it has one.
        triton: the course's kernels; those whose name ends in "in place" write over their inputs.
    """

    name: str
    axes: tuple[str, ...]
    differentiated: tuple[str, ...]
    outputs: tuple[str, ...]
    inputs: Callable[[Sequence[int], torch.dtype, str, int], Inputs]
    truth: Function
    bytes_moved: Callable[[Inputs, bool], int]
    loops: Function
    eager: Mapping[str, Function]
    to_compile: Function
    on_cpu: Mapping[str, Function]
    built_in: Function | None
    triton: Mapping[str, Function]

    def require(self, shape: Sequence[int]) -> None:
        """Raise ``ValueError`` unless ``shape`` has the axes of this operation."""
        sizes = shape if isinstance(shape, (tuple, list)) else ()
        extra = len(sizes) - len([axis for axis in self.axes if axis != "*"])
        of_axes = extra >= 0 if "*" in self.axes else extra == 0
        if not of_axes or not all(isinstance(size, int) and size >= 1 for size in sizes):
            expected = f"({', '.join(self.axes)}), whole numbers of at least 1,"
            raise ValueError(f"shape must be {expected} for {self.name}: got {shape!r}")

    def rungs(self, shape: Sequence[int], device: str) -> Iterator[Rung]:
        """Yield the implementations that there are for this shape on this kind of device, slowest kind first."""
        tiny = prod(shape) <= LOOP_ELEMENTS
        if tiny:
            yield Rung("loops", self.loops)
        yield from (Rung(name, fn) for name, fn in self.eager.items())
        if not tiny:  # where the time is all overhead, compiling shows nothing
            yield Rung("compiled", torch.compile(self.to_compile, dynamic=False))
            yield from (Rung(name, fn) for name, fn in self.on_cpu.items() if device == "cpu")
        if self.built_in:
            yield Rung("built-in", self.built_in, ours=False)
        if device == "cuda" and kernels.available(
            device
        ):  # Triton's interpreter on a CPU is for checking, not for speed
            yield from (Rung(name, fn, in_place=name.endswith("in place")) for name, fn in self.triton.items())
        for peer in peers.installed(self.name, device):
            yield Rung(f"peer: {peer.library}", peer.fn, ours=False, in_place=peer.in_place, arrange=peer.arrange)


def _layer_norm_in_one_pass(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The mean and the mean square in one go: E[x²] − E[x]², in float32, fast and exact only near zero."""
    z = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = z.mean(-1, keepdim=True)
    variance = z.square().mean(-1, keepdim=True) - mean.square()
    return ((z - mean) * torch.rsqrt(variance + EPS) * weight + bias).to(x.dtype)


def _layer_norm_in_two_passes(x: Tensor, weight: Tensor, bias: Tensor, fewest_operators: bool = True) -> Tensor:
    """The mean first, then the mean square of what it leaves, in float32.

    Every operator passes over memory, so the fewest are fastest; compiled, the plain formula is.
    """
    z, weight, bias = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (x, weight, bias))
    centred = z - z.mean(-1, keepdim=True)
    if not fewest_operators:
        variance = centred.square().mean(-1, keepdim=True)
        return torch.addcmul(bias, centred * torch.rsqrt(variance + EPS), weight).to(x.dtype)
    variance = torch.linalg.vector_norm(centred, dim=-1, keepdim=True).square() / x.shape[-1]
    rstd = torch.rsqrt(variance + EPS)
    if torch.is_grad_enabled():
        return torch.addcmul(bias, centred * rstd, weight).to(x.dtype)
    # Nobody will ask for the intermediates: writing over them, no other memory is fetched to be written to.
    return torch.addcmul(bias, centred.mul_(rstd), weight, out=centred).to(x.dtype)


def _batch_norm_in_one_pass(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    z = x.to(torch.promote_types(x.dtype, torch.float32))
    dims = (0, *range(2, x.dim()))
    mean = z.mean(dims, keepdim=True)
    variance = z.square().mean(dims, keepdim=True) - mean.square()
    channels = mean.shape[1:]
    return ((z - mean) * torch.rsqrt(variance + EPS) * weight.view(channels) + bias.view(channels)).to(x.dtype)


def _rotated(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    return apply_rope(q, cos, sin), apply_rope(k, cos, sin)


def _rotated_as_complex(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """The rotation as a product of complex numbers."""

    def rotated(x: Tensor) -> Tensor:
        turned = torch.complex(*x.chunk(2, dim=-1)) * torch.complex(cos, sin)
        return torch.cat((turned.real, turned.imag), dim=-1)

    return rotated(q), rotated(k)


def _norm_inputs(
    shape: Sequence[int], dtype: torch.dtype, device: str, seed: int, channel_dim: int = -1, parameters: int = 2
) -> Inputs:
    """Return x, and a weight near 1 and a bias near 0 that are neither."""
    draw = partial(torch.randn, generator=generator(seed, device), device=device)
    x, weight, bias = draw(tuple(shape)), 1 + draw(shape[channel_dim]) / 4, draw(shape[channel_dim]) / 4
    return tuple(tensor.to(dtype) for tensor in (x, weight, bias)[: 1 + parameters])


def _rope_inputs(shape: Sequence[int], dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """Return q and k (B, H, T, D), in memory (B, T, H, D) as a projection leaves them, and float32 angles (T, D/2)."""
    batch, heads, tokens, head_dim = shape
    draw = partial(torch.randn, generator=generator(seed, device), device=device)
    q, k = (draw((batch, tokens, heads, head_dim)).to(dtype).transpose(1, 2) for _ in range(2))
    cos, sin = rope_cos_sin(tokens, rope_inv_freq(head_dim))
    return q, k, cos.to(device), sin.to(device)


def _norm_bytes(inputs: Inputs, with_backward: bool) -> int:
    x, *parameters = (tensor.nbytes for tensor in inputs)
    forward = 2 * x + sum(parameters)  # x and the parameters read, y written
    # dy, x and the weight read, dx and the gradients of the parameters written
    return forward + (3 * x + parameters[0] + sum(parameters) if with_backward else 0)


def _rope_bytes(inputs: Inputs, with_backward: bool) -> int:
    q, k, cos, sin = (tensor.nbytes for tensor in inputs)
    one_way = 2 * (q + k) + cos + sin  # the gradient is the rotation back: it needs no q and no k
    return 2 * one_way if with_backward else one_way


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            name="layer_norm",
            axes=("*", "C"),
            differentiated=("x", "weight", "bias"),
            outputs=("y",),
            inputs=_norm_inputs,
            truth=lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
            bytes_moved=_norm_bytes,
            loops=loops.layer_norm,
            eager={
                "eager, one pass": _layer_norm_in_one_pass,
                "autograd.Function": lambda x, w, b: backward.LayerNormFunction.apply(x, w.shape, w, b, EPS),
                "eager, centred twice": lambda x, w, b: norms.layer_norm(x, w.shape, w, b, EPS),
                "eager, two passes": _layer_norm_in_two_passes,
            },
            to_compile=partial(_layer_norm_in_two_passes, fewest_operators=False),
            on_cpu={"compiled, tuned": lambda x, w, b: compiled.layer_norm(x, w.shape, w, b, EPS)},
            built_in=lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
            triton={"Triton": lambda x, w, b: kernels.layer_norm(x, w.shape, w, b, EPS)},
        ),
        Operation(
            name="rms_norm",
            axes=("*", "C"),
            differentiated=("x", "weight"),
            outputs=("y",),
            inputs=partial(_norm_inputs, parameters=1),
            truth=lambda x, w: F.rms_norm(x, w.shape, w, EPS),
            bytes_moved=_norm_bytes,
            loops=loops.rms_norm,
            eager={
                "autograd.Function": lambda x, w: backward.RMSNormFunction.apply(x, w.shape, w, EPS),
                "eager": lambda x, w: norms.rms_norm(x, w.shape, w, EPS),
            },
            to_compile=lambda x, w: norms.rms_norm(x, w.shape, w, EPS),
            on_cpu={"compiled, tuned": lambda x, w: compiled.rms_norm(x, w.shape, w, EPS)},
            built_in=lambda x, w: F.rms_norm(x, w.shape, w, EPS),
            triton={"Triton": lambda x, w: kernels.rms_norm(x, w.shape, w, EPS)},
        ),
        Operation(
            name="batch_norm",
            axes=("N", "C", "*"),
            differentiated=("x", "weight", "bias"),
            outputs=("y",),
            inputs=partial(_norm_inputs, channel_dim=1),
            truth=lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            bytes_moved=_norm_bytes,
            loops=loops.batch_norm,
            eager={
                "eager, one pass": _batch_norm_in_one_pass,
                "autograd.Function": lambda x, w, b: backward.BatchNormFunction.apply(x, w, b, EPS),
                "eager, two passes": lambda x, w, b: norms.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            },
            to_compile=lambda x, w, b: norms.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            on_cpu={},
            built_in=lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            triton={},
        ),
        Operation(
            name="rope",
            axes=("B", "H", "T", "D"),
            differentiated=("q", "k"),
            outputs=("q", "k"),
            inputs=_rope_inputs,
            truth=_rotated_as_complex,
            bytes_moved=_rope_bytes,
            loops=loops.rope,
            eager={"eager": _rotated},
            to_compile=_rotated,
            on_cpu={},
            built_in=None,  # torch has none; the one of transformers is a peer
            triton={"Triton": kernels.rope, "Triton, in place": partial(kernels.rope, inplace=True)},
        ),
    )
}
