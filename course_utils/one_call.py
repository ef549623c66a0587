"""One call of a function or a module, and everything that it produces by name: outputs, gradients, buffers."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.cases import Case
from course_utils.session import generator

__all__ = ["cast", "observe", "to_dtype"]

_BUFFERS = ("running_mean", "running_var")  # arguments that a functional changes in place


def cast(case: Case, dtype: torch.dtype) -> Case:
    """Return ``case`` with its floating-point tensors in ``dtype``."""
    return Case(
        case.name, to_dtype(case.x, dtype), {name: to_dtype(value, dtype) for name, value in case.options.items()}
    )


def to_dtype(value: Any, dtype: torch.dtype) -> Any:
    """Return a floating-point tensor in ``dtype``, and anything else as it is."""
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def observe(fn, reference, case: Case, dtype: torch.dtype, rounded_to: torch.dtype | None = None, step: float = 0.0):
    """Run ``fn`` on fresh copies and return every quantity to compare by name, or the exception that it raised.

    Args:
        fn: a function ``fn(x, **options)`` or a module.
        reference: for a module, the one whose ``state_dict`` names the parameters and buffers that are drawn for it.
        case: the input and the options, in ``dtype``.
        dtype: what it runs in.
        rounded_to: the dtype whose rounding the values carry when they are run in float64; by default ``dtype``.
        step: moves every value by this share of its size, up or down.

    Returns:
        Tensors by name: the output, the gradients, the buffers, of a module its output in eval mode; or an exception.
    """
    rounded = rounded_to or dtype
    x = _nudge(case.x, step).detach().clone(memory_format=torch.preserve_format).requires_grad_()
    upstream = torch.randn(x.shape, generator=generator(6), dtype=torch.float64).to(rounded).to(dtype)
    upstream = _nudge(upstream, step)
    try:
        if isinstance(fn, nn.Module):
            return _observe_module(fn, _random_state(reference, rounded, step), x, upstream)
        return _observe_function(fn, {name: _nudge(value, step) for name, value in case.options.items()}, x, upstream)
    except Exception as raised:
        return raised


def _observe_function(fn, options: dict[str, Any], x: Tensor, upstream: Tensor) -> dict[str, Tensor]:
    options = {
        name: value.detach().clone().requires_grad_(value.is_floating_point() and name not in _BUFFERS)
        if isinstance(value, Tensor)
        else value
        for name, value in options.items()
    }
    y = fn(x, **options)
    leaves = {name: v for name, v in {"x": x, **options}.items() if isinstance(v, Tensor) and v.requires_grad}
    observed = {"output": y} | _gradients(y, leaves, upstream)
    return observed | {name: options[name] for name in _BUFFERS if isinstance(options.get(name), Tensor)}


def _observe_module(module, state: dict[str, Tensor], x: Tensor, upstream: Tensor) -> dict[str, Tensor]:
    module = copy.deepcopy(module).to(x.dtype)
    module.load_state_dict(state)
    y = module.train()(x)
    observed = {"output": y} | _gradients(y, {"x": x, **dict(module.named_parameters())}, upstream)
    with torch.no_grad():
        observed["output in eval"] = module.eval()(x)
    return observed | {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}


def _gradients(y: Tensor, leaves: dict[str, Tensor], upstream: Tensor) -> dict[str, Tensor]:
    # What y does not depend on has a gradient of zero, and that is what the reference's is held against.
    gradients = torch.autograd.grad(y, list(leaves.values()), upstream, allow_unused=True, materialize_grads=True)
    return {f"gradient of {name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}


def _random_state(module: nn.Module, dtype: torch.dtype, step: float) -> dict[str, Tensor]:
    """Return a state that no default can imitate, rounded to ``dtype`` so that float64 sees the same values."""
    state = {}
    for seed, (name, value) in enumerate(module.state_dict().items()):
        if value.is_floating_point():  # in [0.5, 1.5): a variance stays positive
            value = (0.5 + torch.rand(value.shape, generator=generator(seed), dtype=torch.float64)).to(dtype)
            value = _nudge(value.double(), step) if step else value
        state[name] = value
    return state


def _nudge(value: Any, step: float) -> Any:
    """Move every element by ``step`` of its size, up or down."""
    if not step or not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    sign = torch.randint(0, 2, value.shape, generator=generator(5)).double() * 2 - 1
    return value * (1 + step * sign)
