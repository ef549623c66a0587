"""RoPE of queries and keys, in every way the course knows.

Notation used for tensor shapes: B sequences, H heads, T tokens, D features of a head.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from chapters.c10_where_the_time_goes.ladder.operation import Implementation, Inputs, Operation
from course_utils import kernels
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq
from course_utils.session import generator

Rotated = tuple[Tensor, Tensor]


def inputs(shape: Sequence[int], dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """Return q and k (B, H, T, D), in memory (B, T, H, D) as a projection leaves them, and float32
    angles (T, D/2)."""
    batch, heads, tokens, head_dim = shape
    draw = partial(torch.randn, generator=generator(seed, device), device=device)
    q = draw((batch, tokens, heads, head_dim)).to(dtype).transpose(1, 2)
    k = draw((batch, tokens, heads, head_dim)).to(dtype).transpose(1, 2)
    cos, sin = rope_cos_sin(tokens, rope_inv_freq(head_dim))
    return q, k, cos.to(device), sin.to(device)


def bytes_moved(inputs: Inputs, with_backward: bool) -> int:
    """Return the fewest bytes: the gradient is the rotation back, which needs no q and no k."""
    q, k, cos, sin = inputs
    forward = 2 * (q.nbytes + k.nbytes) + cos.nbytes + sin.nbytes
    return 2 * forward if with_backward else forward


def in_loops(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Rotated:
    """An element at a time, each sum and product one for autograd to follow."""

    def rotated(x: Tensor) -> Tensor:
        tokens, half = x.shape[-2], cos.shape[-1]
        rows = []
        for place, row in enumerate(x.flatten(0, -2)):
            t = place % tokens
            pairs = [(row[i], row[i + half], cos[t, i], sin[t, i]) for i in range(half)]
            first = [a * c - b * s for a, b, c, s in pairs]
            second = [a * s + b * c for a, b, c, s in pairs]
            rows.append(torch.stack(first + second))
        return torch.stack(rows).view(x.shape)

    return rotated(q), rotated(k)


def eager(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Rotated:
    """The course's own."""
    return apply_rope(q, cos, sin), apply_rope(k, cos, sin)


def as_complex(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Rotated:
    """The rotation as a product of complex numbers."""

    def rotated(x: Tensor) -> Tensor:
        turned = torch.complex(*x.chunk(2, dim=-1)) * torch.complex(cos, sin)
        return torch.cat((turned.real, turned.imag), dim=-1)

    return rotated(q), rotated(k)


def angles_as_in_llama(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Inputs:
    """Prepare the angles as a model does once for all its layers: (1, T, D), each twice, in the
    dtype of ``q``."""
    return (
        q,
        k,
        torch.cat((cos, cos), -1).to(q.dtype)[None],
        torch.cat((sin, sin), -1).to(q.dtype)[None],
    )


def of_liger(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Rotated:
    """Liger's kernel."""
    from liger_kernel.ops.rope import LigerRopeFunction

    return LigerRopeFunction.apply(q, k, cos, sin)


def of_transformers(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Rotated:
    """The function in Llama's file."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    return apply_rotary_pos_emb(q, k, cos, sin)


of_others = partial(Implementation, ours=False, arrange=angles_as_in_llama)

ROPE = Operation(
    name="rope",
    differentiated=("q", "k"),
    outputs=("q", "k"),
    inputs=inputs,
    truth=as_complex,
    bytes_moved=bytes_moved,
    rungs=(  # PyTorch has none built in
        Implementation("loops", in_loops, "few elements"),
        Implementation("eager", eager),
        Implementation("compiled", eager, "many elements", compiled=True),
        Implementation("Triton", kernels.rope, "Triton"),
        of_others("peer: liger_kernel", of_liger, "GPU", library="liger_kernel", in_place=True),
        of_others("peer: transformers", of_transformers, library="transformers"),
    ),
)
