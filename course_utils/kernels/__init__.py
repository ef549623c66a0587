"""Triton kernels for layer norm, RMS norm and RoPE (chapter 11): each tensor read once and written
once.

They need Triton, and a CUDA device or Triton's interpreter. Triton reads ``TRITON_INTERPRET`` once,
when it is first imported, so the interpreter is chosen at the top of a program, before anything
(``transformers`` and ``torch.compile`` included) imports Triton::

    import os

    os.environ["TRITON_INTERPRET"] = "1"

Importing this module imports no Triton; the first call of a kernel does. A fused module is two
lines::

    class FusedLayerNorm(norms.LayerNorm):
        function = staticmethod(kernels.layer_norm)

    tiling          tiles, warps and programs
    norm_kernels    the Triton code of both norms
    norm_function   the autograd function around it
    rotary          the Triton code of RoPE and its autograd function
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.norms import builtin_errors
from course_utils.rooms import submodules

__all__ = ["Availability", "available", "layer_norm", "rms_norm", "rope"]

__getattr__ = submodules(__name__)

_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Availability:
    """Whether the kernels run on a device: true or false as a condition, and in ``reason`` what is
    missing."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


def available(device: str | torch.device = "cuda") -> Availability:
    """Return whether the kernels run on ``device``: "cuda", or "cpu" for Triton's interpreter.

    Triton is imported only where it could be used.
    """
    device_type = torch.device(device).type
    if find_spec("triton") is None:
        return Availability(
            "kernels need Triton: pip install triton (Linux; the rest of the course runs without "
            "it)"
        )
    if device_type == "cuda":
        return Availability(
            "" if torch.cuda.is_available() else "kernels need a CUDA device: PyTorch sees none"
        )
    if device_type != "cpu" or os.environ.get("TRITON_INTERPRET", "0").lower() not in (
        "1",
        "true",
        "on",
        "yes",
        "y",
    ):
        return Availability(
            f"kernels need a CUDA device, or the CPU with TRITON_INTERPRET=1: got {device_type} "
            "without"
        )

    import triton

    # Triton's own library functions are interpreted only if the variable was set when Triton was
    # imported.
    if isinstance(triton.language.sum, triton.runtime.JITFunction):
        return Availability(
            "kernels need TRITON_INTERPRET=1 before Triton is imported: restart Python, set it "
            "first"
        )
    return Availability()


@cache
def _require_device(device_type: str) -> None:
    """Raise unless the kernels run on ``device_type``; an answer that is yes is remembered, one
    that is no is not."""
    answer = available(device_type)
    if not answer:
        raise RuntimeError(answer.reason)


def _require(**tensors: Tensor | None) -> None:
    """Raise unless the tensors lie together on a device where the kernels run, in types that they
    compute in."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    first = next(iter(given.values()))
    _require_device(first.device.type)
    for name, tensor in given.items():
        if tensor.dtype not in _DTYPES:
            wanted = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
            raise NotImplementedError(f"kernels compute in {wanted}: got {name} of {tensor.dtype}")
        if tensor.device != first.device:
            raise RuntimeError(
                f"Expected all tensors to be on the same device: got {name} on {tensor.device}, "
                f"not {first.device}"
            )


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return layer norm of ``input`` over its last dimensions, one pass over memory forward and one
    backward.

    A row must fit into the registers of one program: 32,768 features forward (float64: 8,192), and
    where gradients are asked for 32 KB; a longer one is a ValueError. Above 16 KB in half
    precision, backward reads it twice.

    Statistics, and the sums that make the gradients of weight and bias, are float32 whatever the
    type of ``input`` (float64 for float64), and every output is rounded once. Weight and bias may
    have another type than ``input``.

    Args:
        input: (..., *normalized_shape), bfloat16, float16, float32 or float64 (else
            NotImplementedError); any strides.
        normalized_shape: the trailing sizes to normalize over, any number of features.
        weight, bias: ``normalized_shape``, or None.
        eps: added to the variance.

    Returns:
        (..., *normalized_shape), contiguous, in the type of ``input``.

    Source: Ba, Kiros and Hinton 2016, eq. 4; the backward pass of
    ``torch.nn.functional.layer_norm``.
    """
    _require(input=input, weight=weight, bias=bias)
    if not builtin_errors.ends_in(input, normalized_shape, weight, bias):
        F.layer_norm(input, normalized_shape, weight, bias, eps)  # raises what PyTorch raises
    return _row_norm(input, weight, bias, prod(normalized_shape), eps, centred=True)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return RMS norm of ``input`` over its last dimensions; passes, types and arguments as in
    `layer_norm`.

    An ``eps`` of None is the machine epsilon of the type computed in, as in PyTorch.

    Source: Zhang and Sennrich 2019, eq. 4; the rounding of ``torch.nn.functional.rms_norm`` (weight
    in float32).
    """
    _require(input=input, weight=weight)
    if not builtin_errors.ends_in(input, normalized_shape, weight):
        F.rms_norm(input, normalized_shape, weight, eps)  # raises what PyTorch raises
    if eps is None:
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    return _row_norm(input, weight, None, prod(normalized_shape), eps, centred=False)


def _row_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    num_columns: int,
    eps: float,
    *,
    centred: bool,
) -> Tensor:
    from course_utils.kernels.norm_function import RowNorm
    from course_utils.kernels.tiling import longest_row

    tensors = [tensor for tensor in (input, weight, bias) if tensor is not None]
    backward = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    longest = longest_row(input.dtype, backward)
    if num_columns > longest:
        raise ValueError(
            f"normalized_shape must hold at most {longest:,} features of {input.dtype} "
            f"{'with gradients' if backward else 'without gradients'}: got {num_columns:,}; norms "
            "has no limit"
        )
    return RowNorm.apply(input, weight, bias, num_columns, eps, centred)[0]


def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str = "half"
) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys by their positions' angles, both in one launch.

    The rotation is computed in float32 (float64 where an input is) and rounded once; its gradient
    is the rotation by the negative angle. No gradient flows to ``cos`` and ``sin``.

    Args:
        q: (B, Hq, T, D), any strides: a transposed view of (B, T, Hq, D) is read where it lies.
        k: (B, Hk, T, D).
        cos, sin: (T, rotary_dim / 2), of ``rope.rope_cos_sin``; a rotary_dim below D leaves the
            rest as it is.
        layout: "half" pairs features i and i + rotary_dim / 2 (Llama, NeoX), "interleaved" 2i and
            2i + 1 (RoFormer).

    Returns:
        The rotated q and k, in the types of the given and laid out in the same order.

    Source: Su et al. 2021 (RoFormer), eq. 34; pairs as in ``apply_rotary_pos_emb`` of
    ``transformers``' Llama.
    """
    _require(q=q, k=k, cos=cos, sin=sin)
    from course_utils.kernels.rotary import rotate

    return rotate(q, k, cos, sin, layout)
