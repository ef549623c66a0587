"""Rotary position in Triton: queries and keys, both pairings, in one launch (chapter 11).

Notation: B batch, H heads, T positions, D features of a head, of which the first 2 * ``num_pairs``
are rotated; a program holds HEADS x POSITIONS x PAIRS, each a power of two, so some slots are
padding, neither read nor written.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from course_utils.kernels.tiling import rotary_tile
from course_utils.rope import layout_of

__all__ = ["launch_rotation", "rotate"]


@triton.jit
def rotate_tile(
    x_ptr, y_ptr, x_strides, y_strides, batch, heads, positions, num_heads, num_positions,
    num_pairs, num_rest, cos, sin, INTERLEAVED: tl.constexpr, DTYPE: tl.constexpr,
    PAIRS: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    # each (H, T, 1): where the head and position of a slot begin, in 64 bits, and whether they
    # exist
    batch, head, position = (
        batch.to(tl.int64),
        heads.to(tl.int64)[:, None, None],
        positions.to(tl.int64)[None, :, None],
    )
    x_ptr += batch * x_strides[0] + head * x_strides[1] + position * x_strides[2]
    y_ptr += batch * y_strides[0] + head * y_strides[1] + position * y_strides[2]
    exists = (heads < num_heads)[:, None, None] & (positions < num_positions)[None, :, None]

    if INTERLEAVED:  # features 2i and 2i + 1: load neighbours together, then part them
        feature = tl.arange(0, 2 * PAIRS)[None, None, :]
        inside = exists & (feature < 2 * num_pairs)
        x = tl.load(x_ptr + feature * x_strides[3], mask=inside).to(DTYPE)
        first, second = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], PAIRS, 2)))
        y = tl.join(first * cos - second * sin, second * cos + first * sin)
        y = tl.reshape(y, x.shape)
        tl.store(y_ptr + feature * y_strides[3], y.to(y_ptr.dtype.element_ty), mask=inside)
    else:  # features i and i + num_pairs
        pair = tl.arange(0, PAIRS)[None, None, :]
        inside = exists & (pair < num_pairs)
        first = tl.load(x_ptr + pair * x_strides[3], mask=inside).to(DTYPE)
        second = tl.load(x_ptr + (pair + num_pairs) * x_strides[3], mask=inside).to(DTYPE)
        y_type = y_ptr.dtype.element_ty
        tl.store(y_ptr + pair * y_strides[3], (first * cos - second * sin).to(y_type), mask=inside)
        tl.store(
            y_ptr + (pair + num_pairs) * y_strides[3],
            (second * cos + first * sin).to(y_type),
            mask=inside,
        )

    if REST > 0:  # the part that is not rotated
        rest = tl.arange(0, REST)[None, None, :]
        inside = exists & (rest < num_rest)
        rest += 2 * num_pairs
        tl.store(
            y_ptr + rest * y_strides[3],
            tl.load(x_ptr + rest * x_strides[3], mask=inside),
            mask=inside,
        )


@triton.jit
def rotate_queries_and_keys(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr,
    q_strides, k_strides, q_out_strides, k_out_strides, cos_strides, sin_strides,
    num_q_heads, num_k_heads, num_positions, num_pairs, num_rest,
    SIGN: tl.constexpr, INTERLEAVED: tl.constexpr, DTYPE: tl.constexpr,
    HEADS: tl.constexpr, POSITIONS: tl.constexpr, PAIRS: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin for each pair; SIGN is -1 for the gradient."""
    # one grid axis (the others end at 65,535): batch, then group of query or key heads, then tile
    # of positions
    tiles = tl.cdiv(num_positions, POSITIONS)
    q_groups = tl.cdiv(num_q_heads, HEADS)
    groups = q_groups + tl.cdiv(num_k_heads, HEADS)
    positions = tl.program_id(0) % tiles * POSITIONS + tl.arange(0, POSITIONS)
    group = tl.program_id(0) // tiles % groups
    batch = tl.program_id(0) // tiles // groups

    pair = tl.arange(0, PAIRS)[None, :]
    inside = (positions < num_positions)[:, None] & (pair < num_pairs)
    rows = positions.to(tl.int64)[:, None]
    cos = tl.load(
        cos_ptr + rows * cos_strides[0] + pair * cos_strides[1], mask=inside, other=0.0
    ).to(DTYPE)[None, :, :]
    sin = tl.load(
        sin_ptr + rows * sin_strides[0] + pair * sin_strides[1], mask=inside, other=0.0
    ).to(DTYPE)[None, :, :]
    sin = sin * SIGN

    if group < q_groups:
        heads = group * HEADS + tl.arange(0, HEADS)
        rotate_tile(
            q_ptr, q_out_ptr, q_strides, q_out_strides, batch, heads, positions,
            num_q_heads, num_positions, num_pairs, num_rest, cos, sin, INTERLEAVED, DTYPE, PAIRS,
            REST,
        )  # fmt: skip
    else:
        heads = (group - q_groups) * HEADS + tl.arange(0, HEADS)
        rotate_tile(
            k_ptr, k_out_ptr, k_strides, k_out_strides, batch, heads, positions,
            num_k_heads, num_positions, num_pairs, num_rest, cos, sin, INTERLEAVED, DTYPE, PAIRS,
            REST,
        )  # fmt: skip


def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    """Check the arguments of the public ``rope``, which says what they are, and rotate."""
    layout = layout_of(layout)
    for name, x in (("q", q), ("k", k)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} must have 4 dimensions (B, H, T, D): got shape {tuple(x.shape)}"
            )
    batch, _, positions, features = q.shape
    if (k.shape[0], k.shape[2], k.shape[3]) != (batch, positions, features):
        raise ValueError(
            f"q and k must agree but for heads: got q {tuple(q.shape)}, k {tuple(k.shape)}"
        )
    if (
        cos.dim() != 2
        or cos.shape != sin.shape
        or len(cos) != positions
        or not 2 <= 2 * cos.shape[1] <= features
    ):
        raise ValueError(
            f"cos and sin must be (T, rotary_dim / 2) with T={positions} and rotary_dim from 2 to "
            f"{features}: got cos "
            f"{tuple(cos.shape)}, sin {tuple(sin.shape)}"
        )
    return _Rotary.apply(q, k, cos, sin, layout, 1)


class _Rotary(torch.autograd.Function):
    """The rotation of q and k, and as its gradient the rotation back: nothing but the angles is
    saved."""

    @staticmethod
    def forward(q, k, cos, sin, layout, sign):
        return launch_rotation(q, k, cos, sin, layout, sign)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, cos, sin, ctx.layout, ctx.sign = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, dq, dk):
        return (
            *_Rotary.apply(dq, dk, *ctx.saved_tensors, ctx.layout, -ctx.sign),
            None,
            None,
            None,
            None,
        )

    @staticmethod
    def vmap(info, in_dims, q, k, cos, sin, layout, sign):
        if in_dims[2] is not None or in_dims[3] is not None:
            raise ValueError("cos and sin must be the same for the whole batch of torch.vmap")
        q = _with_batch_first(q, in_dims[0], info.batch_size)  # (V, B, H, T, D)
        k = _with_batch_first(k, in_dims[1], info.batch_size)
        # (V·B, H, T, D) each
        rotated = _Rotary.apply(q.flatten(0, 1), k.flatten(0, 1), cos, sin, layout, sign)
        return tuple(x.unflatten(0, (info.batch_size, -1)) for x in rotated), (0, 0)


def _with_batch_first(x: Tensor, dim: int | None, size: int) -> Tensor:
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def launch_rotation(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str, sign: int
) -> tuple[Tensor, Tensor]:
    """Return q and k rotated, in one launch."""
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)
    if q.numel() == k.numel() == 0:
        return q_out, k_out
    batch, q_heads, positions, features = q.shape
    k_heads, pairs = k.shape[1], cos.shape[1]
    rest = features - 2 * pairs
    heads_per_tile, positions_per_tile = rotary_tile(max(q_heads, k_heads), pairs)
    groups = triton.cdiv(q_heads, heads_per_tile) + triton.cdiv(k_heads, heads_per_tile)
    in_double = torch.float64 in (q.dtype, k.dtype)
    with torch.cuda.device_of(q):
        rotate_queries_and_keys[(batch * groups * triton.cdiv(positions, positions_per_tile),)](
            q, k, q_out, k_out, cos, sin,
            q.stride(), k.stride(), q_out.stride(), k_out.stride(), cos.stride(), sin.stride(),
            q_heads, k_heads, positions, pairs, rest,
            SIGN=sign, INTERLEAVED=layout == "interleaved",
            DTYPE=tl.float64 if in_double else tl.float32, HEADS=heads_per_tile,
            POSITIONS=positions_per_tile, PAIRS=triton.next_power_of_2(pairs),
            REST=triton.next_power_of_2(rest) if rest else 0, num_warps=4,
        )  # fmt: skip
    return q_out, k_out
