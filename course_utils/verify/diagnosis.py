"""What does this layer compute? Its conventions, found by calling it alone, and the course's own
call that does the same.

Every answer is what a probe returned; where a probe cannot decide, the answer begins with "unsure".
The course's own call is found by trying: candidates with the numbers that the probes found are run
beside the layer, and the first that agrees is it.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.verify.norm_probes import describe_norm
from course_utils.verify.position_probes import describe_rotation, describe_table
from course_utils.verify.subject import Diagnosis, Subject, normal, said

__all__ = ["diagnose"]

_MOST = 2**22  # numbers in x: a buffer may be a table of all positions


def diagnose(layer: Callable[..., Any] | Tensor, *example: Any) -> Diagnosis:
    """Say what a norm, a rotation, a bias or a code computes: any module, function or table.

    Args:
        layer: called on copies and never changed. A tensor is a table that a layer returned: codes
            (T, D), biases of heads (H, Q, K).
        example: one call, ``layer(*example)``, where a lone x of a shape that the parameters tell
            is not what it takes. Of a rotation, x (..., T, ..., D) has 64 positions or so.

    Raises:
        ValueError: the layer is none of these, needs other arguments, or runs only on a GPU; the
            message says which in one sentence.

    >>> print(diagnose(nn.RMSNorm(64, eps=1e-6)).summary)
    RMS norm over the last axis, ε 1e-06 inside the root, weight γ: `torch.nn.RMSNorm`
    """
    is_module = isinstance(layer, nn.Module)
    name = type(layer).__name__ if is_module else getattr(layer, "__name__", "table")
    found = Diagnosis(name)
    if isinstance(layer, Tensor):
        describe_table(found, layer.detach().cpu().double())
        return found
    subject, x = _first_call(name, layer, example)
    y, other = subject(x), normal(x.shape, 7)
    if y.shape != x.shape or not x.is_floating_point() or not x.dim():
        describe_table(found, y, x if y.shape == x.shape and x.dim() else None)
        return found
    code = _same_for_all(subject, x, other)
    if code is not None and subject.parameters:
        subject.draw()  # a weight that starts at zero hides everything
        code = _same_for_all(subject, x, other)
    neither = f"{name} is neither a norm nor a position: it is"
    if code is not None:
        if (code - code[..., :1, :1]).abs().max() < 1e-4:
            raise ValueError(f"{neither} x, or a constant")
        describe_table(found, code.reshape(-1, *code.shape[-2:])[0])
        return found
    y = subject(x)
    sum_of_two = y + subject(other) - subject(x + other)
    near = 1e-4 * (y.abs().max() + 1e-3)
    if sum_of_two.abs().max() < near:
        describe_rotation(found, subject, x)
    elif (sum_of_two - subject(0 * x)).abs().max() < near:
        raise ValueError(f"{neither} linear, and adds a bias")
    else:
        describe_norm(found, subject, x)
    if subject.overwrites:
        found.answers["its input"] = "is overwritten: it was handed copies"
    return found


def _same_for_all(subject: Subject, x: Tensor, other: Tensor) -> Tensor | None:
    """What comes back for any input, or is added to any; None where it depends on the input."""
    y, y_other = subject(x), subject(other)
    for code, again in ((y, y_other), (y - x, y_other - other)):
        if (code - again).abs().max() < 1e-4 * (code.abs().max() + 1e-3):
            return code
    return None


def _first_call(
    name: str, layer: Callable[..., Any], example: Sequence[Any]
) -> tuple[Subject, Tensor]:
    """A call that succeeds: the example, or a lone x of the shapes that the parameters tell."""
    call, inputs, rest = layer, example[:1], example[1:]
    if example and not isinstance(example[0], Tensor):  # numbers in, a table out
        call, inputs, rest = (lambda _: layer(*example)), (torch.zeros(()),), ()
    messages = []
    for dtype in (torch.float64, torch.float32):
        subject = Subject(call, dtype, rest)
        for x in inputs or [normal(shape) for shape in _shapes(subject)]:
            subject.dtype = dtype if x.is_floating_point() else x.dtype
            try:
                y = subject(x)
            except Exception as error:
                messages.append(said(error, 160))
                continue
            if y.shape == x.shape:
                return subject, normal(x.shape) if x.is_floating_point() else x
            if example:
                return subject, x
            messages.append(f"{tuple(x.shape)} becomes {tuple(y.shape)}")
    for message in messages:
        if re.search("cuda|active driver|triton", message, re.IGNORECASE):
            raise ValueError(
                f"{name} runs only on a GPU, and its parameters are not on one here: {message}"
            )
    if example:
        raise ValueError(f"{name} cannot be called with this example: {messages[0]}")
    raise ValueError(
        f"{name} needs other arguments than a lone x: give an example call, diagnose({name}, x, "
        f"...): {messages[0]}"
    )


def _shapes(subject: Subject) -> list[tuple[int, ...]]:
    """What x may be: (..., C), images, a list of vectors, C by the largest tensor of the layer."""
    tensors = (*subject.parameters.values(), *subject.buffers.values())
    own = max(tensors, key=Tensor.numel, default=torch.ones(64)).shape
    c = math.prod(own)
    full: tuple[int, ...] = (2, 5, 4, 64)  # where it has none, or one of several axes
    if len(own) > 1:
        full = (2,) * (4 - len(own)) + tuple(5 if n == 1 else n for n in own)
    shapes = [(3, 5, c), (6, c, 5, 4), (6, c, 5), (6, c), (6, c, 3, 4, 2)]
    shapes = [full, *shapes] if len(own) > 1 or not tensors else shapes
    return [shape for shape in shapes if math.prod(shape) <= _MOST] or [(6, 64)]
