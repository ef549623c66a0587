"""The ladder of chapters 09 and 10: each operation in every way the course knows, from loops to kernels.

An ``Operation`` makes its inputs, knows the truth, counts the bytes that any implementation must move, and names its
implementations, which all take the same inputs and compute with the same epsilon. ``attempt`` holds each against
float64 and then times all that ran, in turns.

Records on a CPU also have the row "compiled, tuned": layer and RMS norm written for what the compiler makes of them. It
needed the compiler's internals and is no longer in the course; what it took to come level with the built-in was this:

- Mean and variance are summed in one go, as E[d²] − E[d]² of the deviations d from the mean of the row's first 16
  features: a sum waits for its last addition, two sums wait together. Taken of x itself the formula cancels; taken of d
  its error is at most features / 16 times that of two passes, wherever the row lies.
- The compiler inlines the reciprocal root into the loop that uses it, and takes it again for every 16 elements. What is
  the result of a reduction it computes once: a maximum of the root with numbers below it is one.
- The gradient of the weight sums over rows, down a column, a cache line of each of thousands of rows: sums of blocks of
  8 neighbouring rows come first, then of 16 of those, then the rest.
- ``torch.compile`` makes sure before every call that what it compiled still applies: a fifth of the time of the
  built-in's whole forward pass of (4096, 1024). Looking up sizes, strides and dtypes alone is not public.
- What is left: the address of the output (a load waits for an earlier store whose address ends in the same 12 bits),
  and a backward pass that reads x and dy twice, since a sum along the rows and one across them are not fused.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils import kernels, norms
from course_utils.norms import backward
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq
from course_utils.session import generator
from course_utils.timing.timers import Call, forward_and_backward, keep_freed_memory, measure_in_turns

EPS = 1e-5  # added to the variance or the mean square in every implementation
LOOP_ELEMENTS = 512  # above that, loops in Python are no longer bearable
# Largest relative error ‖result − truth‖ / ‖truth‖. Rounding alone makes 3e-8, 1.2e-3 and 1.5e-4; the rest is room for
# sums in any order.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-3, "float16": 1e-3}

Function = Callable[..., Any]
Inputs = tuple[Tensor, ...]
# Results, and what was left out with the reason: each a list of objects as a record has them.
Outcome = tuple[list[dict[str, Any]], list[dict[str, Any]]]


class CheckFailed(Exception):
    """An implementation gave a wrong result."""


@dataclass(frozen=True)
class Implementation:
    """One way to compute an operation."""

    name: str
    fn: Function
    ours: bool = True  # written for this course, and so held to the dtype's tolerance in every result
    in_place: bool = False  # writes over its inputs and over the gradients that it is given, and so needs its own
    arrange: Callable[..., Inputs] | None = None  # prepares the inputs, once and not timed


@dataclass(frozen=True)
class Operation:
    """What is computed, and the ways to compute it.

    ``bytes_moved`` are the fewest bytes: each input read once and each result written once in each pass that needs it.
    What an implementation moves beyond that, such as a second pass or an intermediate, shows as a lower rate.
    """

    name: str
    differentiated: tuple[str, ...]  # the names of the inputs that get a gradient, which come first
    inputs: Callable[[Sequence[int], torch.dtype, str, int], Inputs]  # from shape, dtype, device and seed
    truth: Function  # the result for float64 inputs, by code that is not on trial
    bytes_moved: Callable[[Inputs, bool], int]  # from the inputs, and whether there is a backward pass
    loops: Function  # the definition, an element at a time
    eager: Mapping[str, Function]  # operator by operator
    to_compile: Function
    outputs: tuple[str, ...] = ("y",)  # the names of the results
    built_in: Function | None = None
    triton: Function | None = None
    peers: Sequence[tuple[str, Implementation]] = ()  # other people's, by library

    def implementations(self, shape: Sequence[int], device: str) -> Iterator[Implementation]:
        """Yield the implementations that there are for this shape on this kind of device, slowest kind first."""
        tiny = prod(shape) <= LOOP_ELEMENTS
        if tiny:
            yield Implementation("loops", self.loops)
        yield from (Implementation(name, fn) for name, fn in self.eager.items())
        if not tiny:  # where the time is all overhead, compiling shows nothing
            torch.compiler.reset()  # a new shape is compiled for itself, not for any shape
            yield Implementation("compiled", torch.compile(self.to_compile, dynamic=False))
        if self.built_in:
            yield Implementation("built-in", self.built_in, ours=False)
        if self.triton and device == "cuda" and kernels.available(device):  # its interpreter is not for speed
            yield Implementation("Triton", self.triton)
        for library, peer in self.peers:
            if find_spec(library) and (device == "cuda" or library == "transformers"):  # the others need a GPU
                yield peer


@dataclass(frozen=True)
class Case:
    """One operation in one direction at one shape and dtype, to be measured in every way there is."""

    operation: str
    direction: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.operation} {self.shape} {self.dtype} {self.direction}"

    def fields(self) -> dict[str, Any]:
        """Return the case as a record has it."""
        return {**asdict(self), "shape": list(self.shape)}

    @property
    def with_backward(self) -> bool:
        """Whether the gradients are part of it."""
        return self.direction == "forward+backward"


def attempt(case: Case, device: str, seed: int, rounds: int, seconds: float, skip: tuple[str, ...] = ()) -> Outcome:
    """Check and time every implementation of ``case`` on ``device``, "cpu" or "cuda". Chapter 09.

    Each is timed ``rounds`` times, and on a CPU for ``seconds``, at most; ``skip``: the first words of those left out.
    Returns the results, and what could not run, with the reason. An error above its tolerance is a ``CheckFailed``.
    """
    operation = OPERATIONS[case.operation]
    inputs = operation.inputs(case.shape, getattr(torch, case.dtype), device, seed)
    upstream: list[Tensor] = []
    if case.with_backward:  # the outputs have the shapes of the first inputs
        draw = partial(torch.randn, generator=generator(seed + 1, device), device=device)
        upstream = [draw(x.shape).to(x.dtype) for x in inputs[: len(operation.outputs)]]
    exact, exact_upstream = (tuple(tensor.double() for tensor in tensors) for tensors in (inputs, upstream))
    truth = _call(operation, Implementation("truth", operation.truth), exact, exact_upstream)()

    calls: dict[str, Call] = {}
    checks: dict[str, dict[str, Any]] = {}
    left_out = []
    for one in filter(lambda one: not one.name.startswith(skip), operation.implementations(case.shape, device)):
        try:
            call = _call(operation, one, inputs, upstream)
            found = {name: tensor.double() for name, tensor in call().items()}
            errors = {name: float((found[name] - true).norm() / true.norm()) for name, true in truth.items()}
            if device == "cuda":
                measure_in_turns({one.name: call}, device, rounds=1)  # can its kernels be captured?
        except Exception as error:  # whatever a compiler or another library raises; the others are still measured
            first_line = (str(error).strip().splitlines() or [""])[0]
            reason = f"{type(error).__name__}: {first_line}"[:300]
            left_out.append({**case.fields(), "implementation": one.name, "reason": reason})
            continue
        checks[one.name] = _checked(case, one, errors)
        calls[one.name] = call
    del truth

    source, destination = inputs[0], torch.empty_like(inputs[0])
    with_copy = {**calls, "copy": lambda: destination.copy_(source)}
    timings = measure_in_turns(with_copy, device, rounds=rounds, seconds=seconds)
    moved = operation.bytes_moved(inputs, case.with_backward)
    copy_gbps = 2 * source.nbytes / timings.pop("copy").median_ms / 1e6
    results = []
    for name, timing in timings.items():
        times = {key: getattr(timing, key) for key in ("median_ms", "p10_ms", "runs")}
        together = {"bytes_moved": moved, "copy_gbps": copy_gbps}
        results.append({**case.fields(), "implementation": name, **checks[name], **times, **together})
    return results, left_out


def attempt_elsewhere(case: Case, device: str = "cuda", rounds: int = 30, seconds: float = 1.0) -> Outcome:
    """Do what ``attempt`` does in a process of its own, in which Triton compiles. Chapter 10."""
    with new_process(torch.get_num_threads()) as process:
        return process.submit(attempt, case, device, 0, rounds, seconds).result()


def new_process(threads: int) -> ProcessPoolExecutor:
    """Return a process with so many threads, whose memory lies anew and in which Triton's interpreter is off."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (threads,))


def _begin(threads: int) -> None:
    os.environ["TRITON_INTERPRET"] = "0"
    torch.set_num_threads(threads)
    keep_freed_memory()


def _call(operation: Operation, one: Implementation, inputs: Inputs, upstream: Sequence[Tensor]) -> Call:
    """Return a call that gives the results by name: the outputs, or with ``upstream`` the gradients."""
    if one.in_place:
        inputs, upstream = tuple(tensor.clone() for tensor in inputs), [tensor.clone() for tensor in upstream]
    inputs = one.arrange(*inputs) if one.arrange else inputs
    if upstream:
        count = len(operation.differentiated)
        leaves = [tensor.detach().requires_grad_() for tensor in inputs[:count]]
        gradients = forward_and_backward(one.fn, *leaves, *inputs[count:], upstream=upstream)
        names = [f"d{name}" for name in operation.differentiated]
        return lambda: dict(zip(names, gradients(), strict=True))

    def outputs() -> dict[str, Tensor]:
        with torch.no_grad():
            results = one.fn(*inputs)
        return dict(zip(operation.outputs, results if isinstance(results, tuple) else (results,), strict=True))

    return outputs


def _checked(case: Case, one: Implementation, errors: Mapping[str, float]) -> dict[str, Any]:
    """Return errors and tolerances as a record has them, or raise."""
    allowed = TOLERANCES[case.dtype]
    tolerances = dict.fromkeys(errors, allowed)
    if not one.ours and case.dtype != "float32":
        # Other people's half precision: sums of a parameter's gradient in it may be tens of percent off, as PyTorch's
        # are on a CPU; cosines rounded to it cost some units more. That is recorded, not refused.
        tolerances = {name: 0.5 if name in ("dweight", "dbias") else 4 * allowed for name in errors}
    for name, error in errors.items():
        if not error <= tolerances[name]:  # so that NaN is refused
            raise CheckFailed(
                f"{one.name}, {case}: relative error of {name} against float64 is {error:.2g}, "
                f"allowed are {tolerances[name]:g}"
            )
    return {"errors": dict(errors), "tolerances": tolerances}


# -- the definitions, an element at a time: each addition and product is an operation that autograd can follow


def _norm_in_loops(x: Tensor, weight: Tensor, bias: Tensor, centred: bool = True) -> Tensor:
    """Norm of each row of x (rows, features); weight and bias are broadcast to it."""
    results = []
    for row, weights, biases in zip(x, weight.expand_as(x), bias.expand_as(x), strict=True):
        zero = row.new_zeros(())
        mean = sum(row, start=zero) / len(row) if centred else zero
        variance = sum(((value - mean) ** 2 for value in row), start=zero) / len(row)
        rstd = 1 / torch.sqrt(variance + EPS)
        results.append(
            torch.stack([(value - mean) * rstd * w + b for value, w, b in zip(row, weights, biases, strict=True)])
        )
    return torch.stack(results)


def _batch_norm_in_loops(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    channels = x.transpose(0, 1)
    y = _norm_in_loops(channels.flatten(1), weight[:, None], bias[:, None])
    return y.view(channels.shape).transpose(0, 1)


def _rope_in_loops(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def rotated(x: Tensor) -> Tensor:
        tokens, half = x.shape[-2], cos.shape[-1]
        rows = []
        for t, row in enumerate(x.flatten(0, -2)):
            pairs = [(row[i], row[i + half], cos[t % tokens, i], sin[t % tokens, i]) for i in range(half)]
            first = [a * c - b * s for a, b, c, s in pairs]
            second = [a * s + b * c for a, b, c, s in pairs]
            rows.append(torch.stack(first + second))
        return torch.stack(rows).view(x.shape)

    return rotated(q), rotated(k)


# -- operator by operator


def _in_one_pass(x: Tensor, weight: Tensor, bias: Tensor, dims: tuple[int, ...] = (-1,)) -> Tensor:
    """The mean and the mean square in one go: E[x²] − E[x]², in float32, fast and exact only near zero."""
    z = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = z.mean(dims, keepdim=True)
    variance = z.square().mean(dims, keepdim=True) - mean.square()
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


# -- other people's libraries


def _angles_as_in_llama(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Prepare the angles as a model does once for all its layers: (1, T, D), each twice, in the dtype of ``q``."""
    return q, k, torch.cat((cos, cos), -1).to(q.dtype)[None], torch.cat((sin, sin), -1).to(q.dtype)[None]


def _liger(module: str, name: str) -> Any:
    return getattr(import_module(f"liger_kernel.ops.{module}"), f"Liger{name}Function")


def _rope_of_liger(*inputs: Tensor) -> tuple[Tensor, Tensor]:
    return _liger("rope", "Rope").apply(*inputs)


def _rope_of_transformers(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return import_module("transformers.models.llama.modeling_llama").apply_rotary_pos_emb(q, k, cos, sin)


def _peer(library: str, fn: Function, **how: Any) -> tuple[str, Implementation]:
    return library, Implementation(f"peer: {library}", fn, ours=False, **how)


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            name="layer_norm",
            differentiated=("x", "weight", "bias"),
            inputs=_norm_inputs,
            truth=lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
            bytes_moved=_norm_bytes,
            loops=_norm_in_loops,
            eager={
                "eager, one pass": _in_one_pass,
                "autograd.Function": lambda x, w, b: backward.layer_norm(x, w.shape, w, b, EPS),
                "eager, centred twice": lambda x, w, b: norms.layer_norm(x, w.shape, w, b, EPS),
                "eager, two passes": _layer_norm_in_two_passes,
            },
            to_compile=partial(_layer_norm_in_two_passes, fewest_operators=False),
            built_in=lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
            triton=lambda x, w, b: kernels.layer_norm(x, w.shape, w, b, EPS),
            peers=(_peer("liger_kernel", lambda x, w, b: _liger("layer_norm", "LayerNorm").apply(x, w, b, EPS)),),
        ),
        Operation(
            name="rms_norm",
            differentiated=("x", "weight"),
            inputs=partial(_norm_inputs, parameters=1),
            truth=lambda x, w: F.rms_norm(x, w.shape, w, EPS),
            bytes_moved=_norm_bytes,
            loops=lambda x, w: _norm_in_loops(x, w, torch.zeros_like(w), centred=False),
            eager={
                "autograd.Function": lambda x, w: backward.rms_norm(x, w.shape, w, EPS),
                "eager": lambda x, w: norms.rms_norm(x, w.shape, w, EPS),
            },
            to_compile=lambda x, w: norms.rms_norm(x, w.shape, w, EPS),
            built_in=lambda x, w: F.rms_norm(x, w.shape, w, EPS),
            triton=lambda x, w: kernels.rms_norm(x, w.shape, w, EPS),
            peers=(
                # offset 0, Llama's casts, and not in place: its default writes dx over the gradient that it was given
                _peer("liger_kernel", lambda x, w: _liger("rms_norm", "RMSNorm").apply(x, w, EPS, 0.0, "llama", False)),
                _peer("quack", lambda x, w: import_module("quack").rmsnorm(x, w, eps=EPS)),
            ),
        ),
        Operation(
            name="batch_norm",
            differentiated=("x", "weight", "bias"),
            inputs=partial(_norm_inputs, channel_dim=1),
            truth=lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            bytes_moved=_norm_bytes,
            loops=_batch_norm_in_loops,
            eager={
                "eager, one pass": lambda x, w, b: _in_one_pass(x, w.view(-1, 1, 1), b.view(-1, 1, 1), (0, 2, 3)),
                "autograd.Function": lambda x, w, b: backward.batch_norm(x, w, b, EPS),
                "eager, two passes": lambda x, w, b: norms.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            },
            to_compile=lambda x, w, b: norms.batch_norm(x, None, None, w, b, training=True, eps=EPS),
            built_in=lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=EPS),
        ),
        Operation(
            name="rope",
            differentiated=("q", "k"),
            outputs=("q", "k"),
            inputs=_rope_inputs,
            truth=_rotated_as_complex,
            bytes_moved=_rope_bytes,
            loops=_rope_in_loops,
            eager={"eager": _rotated},
            to_compile=_rotated,
            triton=kernels.rope,  # torch has none built in; the one of transformers is a peer
            peers=(
                _peer("liger_kernel", _rope_of_liger, in_place=True, arrange=_angles_as_in_llama),
                _peer("transformers", _rope_of_transformers, arrange=_angles_as_in_llama),
            ),
        ),
    )
}
