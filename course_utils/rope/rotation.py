"""Sinusoidal codes and rotary embeddings as functions (chapters 13 and 14).

Notation used for tensor shapes: T tokens; ``...`` any leading dimensions, such as batch and heads.

Angles are products of a position and a frequency, and only their remainder modulo 2π matters. At
position 131,071 (dim 128, base 10,000) rounding the frequencies to float32 moves a cosine by
1.6e-3, rounding the angles by 1.1e-3, and the usual float32 product, which does both, by 4.2e-3. So
both stay in float64 until the cosine and the sine are taken, and what is left is the rounding of
the result, 3e-8. The cost is float64 cosines where float32 ones would do, paid once for a cache.
"""

import math
from numbers import Integral
from typing import Any, TypeGuard

import torch
from torch import Tensor

# each name of a layout, and the layout that it names
LAYOUTS = {
    "half": "half",
    "neox": "half",
    "llama": "half",
    "interleaved": "interleaved",
    "gptj": "interleaved",
}


def sinusoidal(
    positions: int | Tensor, dim: int, base: float = 10_000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return the sinusoidal code of each position: sine in the even columns, cosine in the odd
    ones. Chapter 13.

    ``positions`` are a count from 0 or a tensor (..., T) of any real dtype; the code is (T, dim) or
    (..., T, dim), on their device. The wavelengths of the ``dim`` columns, an even number, run from
    2π to nearly 2π · base.

    Source: Vaswani et al. 2017, §3.5.

    >>> sinusoidal(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    # (..., T, dim/2) each
    cosine, sine = rope_cos_sin(positions, rope_inv_freq(dim, base), dtype=dtype)
    return torch.stack((sine, cosine), dim=-1).flatten(-2)


def rope_inv_freq(
    dim: int, base: float = 10_000.0, *, device: torch.device | str | None = None
) -> Tensor:
    """Return the rotary frequencies f_i = base^(-2i/dim), in radians per position. Chapter 14.

    They are (dim/2,) float64 (see the module's first lines for why), on ``device``, for the rotary
    dimension ``dim``, an even number.

    Source: Su et al. 2021, §3.2.2.

    >>> rope_inv_freq(4)
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    if dim < 2 or dim % 2:
        raise ValueError(f"dim must be a positive even number: got dim={dim}")
    if not 0 < base < math.inf:
        raise ValueError(f"base must be positive and finite: got base={base}")
    return float(base) ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)


def rope_cos_sin(
    positions: int | Tensor,
    inv_freq: Tensor,
    attention_factor: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Return the cosine and the sine of every position's angles, (..., T, dim/2) each. Chapter 14.

    ``positions`` are a count from 0 or a tensor (..., T) of any real dtype, on whose device the
    result is; for a count it is where ``inv_freq`` is: (dim/2,), float64 as ``rope_inv_freq`` gives
    it, to keep far positions exact. The angles are float64 whatever ``dtype`` is.
    ``attention_factor`` multiplies both, and so the scores by its square.

    Source: Su et al. 2021, eq. 15 and 34.
    """
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point dtype: got dtype={dtype}")
    if not isinstance(positions, Tensor):
        if not is_count(positions):
            raise ValueError(
                f"positions must be a tensor or a count of at least 0: got {positions!r}"
            )
        positions = torch.arange(positions, device=inv_freq.device)
    if positions.is_complex() or positions.dtype == torch.bool:
        raise ValueError(f"positions must hold real numbers: got dtype {positions.dtype}")

    # Apple's GPUs have no float64: there the angles are computed on the CPU.
    device, exact_device = (
        positions.device,
        "cpu" if positions.device.type == "mps" else positions.device,
    )
    exact_positions = positions.to(exact_device).double()
    angles = exact_positions[..., None] * inv_freq.to(exact_device).double()  # (..., T, dim/2)
    return (
        (angles.cos() * attention_factor).to(dtype).to(device),
        (angles.sin() * attention_factor).to(dtype).to(device),
    )


def xpos_cos_sin(
    positions: int | Tensor,
    dim: int,
    base: float = 10_000.0,
    *,
    keys: bool = False,
    centre: float = 0.0,
    scale_base: float = 512.0,
    gamma: float = 0.4,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Return xPos' cosine and sine, (..., T, dim/2) each, for ``apply_rope``: pair i also grows by
    ζ_i^n, for ``keys`` by ζ_i^-n, so that a score decays with the distance. Chapter 14.

    ζ_i = (2i/dim + γ) / (1 + γ), as printed. The authors' code takes
    n = (position − centre) / ``scale_base``, which keeps the powers small; the paper prints the
    position itself. ``centre`` is one number for queries and keys, and cancels in their product.

    Source: Sun et al. 2022, algorithm 1; ``XPOS`` of microsoft/torchscale.
    """
    inv_freq = rope_inv_freq(dim, base)
    if not isinstance(positions, Tensor):
        positions = torch.arange(positions)
    cos, sin = rope_cos_sin(positions, inv_freq, dtype=torch.float64)
    zeta = (torch.arange(0, dim, 2, dtype=torch.float64) / dim + gamma) / (1 + gamma)  # (dim/2,)
    power = (positions.double()[..., None] - centre) / scale_base  # (..., T, 1)
    scale = zeta.to(power.device) ** (-power if keys else power)
    return (cos * scale).to(dtype), (sin * scale).to(dtype)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor, layout: str = "half") -> Tensor:
    """Rotate the pairs of ``x`` by their position's angles; dimensions beyond the rotary ones pass
    through. Chapter 14.

    Args:
        x: queries or keys (..., T, dim), floating point. The result has its shape and dtype, and is
            computed in the wider of the dtypes of ``x`` and ``cos``.
        cos, sin: (T, rotary_dim/2), or with leading dimensions that broadcast with those of ``x``;
            rotary_dim ≤ dim.
        layout: which two dimensions are a pair: ``"half"`` (also ``"neox"``, ``"llama"``) takes i
            and i + rotary_dim/2, ``"interleaved"`` (also ``"gptj"``; RoFormer, Meta's Llama) takes
            2i and 2i + 1.

    Source: Su et al. 2021, eq. 34; ``apply_rotary_pos_emb`` of transformers' Llama, GPT-NeoX and
    GPT-J.

    >>> apply_rope(torch.tensor([[1.0, 0.0]]), *rope_cos_sin(torch.tensor([1]), rope_inv_freq(2)))
    tensor([[0.5403, 0.8415]])
    """
    in_halves = layout_of(layout) == "half"
    if not x.is_floating_point():
        raise ValueError(f"x must hold floating-point numbers: got dtype {x.dtype}")
    # A single row or pair of cos would broadcast, and rotate everything by one angle without a
    # word.
    leading = zip(reversed(cos.shape[:-2]), reversed(x.shape[:-2]), strict=False)
    if (
        cos.shape != sin.shape
        or not 2 <= cos.dim() <= x.dim()
        or cos.shape[-2] != x.shape[-2]
        or 2 * cos.shape[-1] > x.shape[-1]
        or any(size not in (1, wanted) for size, wanted in leading)
    ):
        raise ValueError(
            "cos and sin must be (..., T, rotary_dim/2) for x (..., T, dim), with one row per "
            "token of x and leading dimensions that broadcast with those of x; for positions (B, "
            "T) and x (B, H, T, dim) pass "
            f"positions[:, None]: got x {tuple(x.shape)}, cos {tuple(cos.shape)}, sin "
            f"{tuple(sin.shape)}"
        )
    pairs = cos.shape[-1]
    rotary, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    first, second = rotary.chunk(2, dim=-1) if in_halves else (rotary[..., 0::2], rotary[..., 1::2])

    turned = (first * cos - second * sin, first * sin + second * cos)  # (..., T, rotary_dim/2) each
    rotated = torch.cat(turned, dim=-1) if in_halves else torch.stack(turned, dim=-1).flatten(-2)
    return torch.cat((rotated.to(x.dtype), rest), dim=-1)


def layout_of(layout: str) -> str:
    """Return ``"half"`` or ``"interleaved"`` for any name of a layout; another is a ``ValueError``.
    Chapter 14."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}: got layout={layout!r}")
    return LAYOUTS[layout]


def half_to_interleaved(weight: Tensor, num_heads: int, rotary_dim: int | None = None) -> Tensor:
    """Reorder a projection made for the half layout so that the interleaved layout gives the same
    scores. Chapter 14.

    Rows i and i + rotary_dim/2 of each head become rows 2i and 2i + 1, in a new tensor. ``weight``
    is that of the query's or key's projection (num_heads · head_dim, in_features), or its bias;
    ``num_heads`` are the heads in it, of grouped keys the key heads; of each, ``rotary_dim``
    dimensions rotate, by default all.
    """
    return _reorder(weight, num_heads, rotary_dim, grid=(2, -1))


def interleaved_to_half(weight: Tensor, num_heads: int, rotary_dim: int | None = None) -> Tensor:
    """Undo ``half_to_interleaved``: what turns Meta's Llama weights into those of transformers.
    Chapter 14.

    Source: ``permute`` in transformers' ``convert_llama_weights_to_hf.py``.
    """
    return _reorder(weight, num_heads, rotary_dim, grid=(-1, 2))


def axial_rope_2d(
    height: int, width: int, dim: int, base: float = 10_000.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return cosine and sine for the patches of an image: half of the pairs turn by row, half by
    column. Chapter 14.

    Cosine and sine are (height · width, dim/2) for ``apply_rope``, patches in row-major order, the
    row's pairs first. ``dim`` is the rotary dimension, a multiple of 4; each axis has the
    frequencies of a dimension of dim/2.

    Source: the vision tower of Qwen2-VL, as in transformers.
    """
    if dim < 4 or dim % 4:
        raise ValueError(f"dim must be a positive multiple of 4, half for each axis: got dim={dim}")
    inv_freq = rope_inv_freq(dim // 2, base)  # (dim/4,)
    rows = rope_cos_sin(torch.arange(height).repeat_interleave(width), inv_freq, dtype=dtype)
    columns = rope_cos_sin(torch.arange(width).repeat(height), inv_freq, dtype=dtype)
    return torch.cat((rows[0], columns[0]), dim=-1), torch.cat((rows[1], columns[1]), dim=-1)


def is_count(positions: Any) -> TypeGuard[int]:
    """Whether ``positions`` says how many there are; a compiler's symbol for a length does too."""
    whole = isinstance(positions, Integral | torch.SymInt)
    return whole and positions >= 0


def _reorder(
    weight: Tensor, num_heads: int, rotary_dim: int | None, grid: tuple[int, int]
) -> Tensor:
    """Reorder the rotary rows of every head: laid out on ``grid`` row by row, they are read column
    by column."""
    if num_heads < 1 or weight.dim() < 1 or weight.shape[0] % num_heads:
        raise ValueError(
            f"num_heads must divide the rows: got num_heads={num_heads}, weight "
            f"{tuple(weight.shape)}"
        )
    head_dim = weight.shape[0] // num_heads
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    if not 0 < rotary_dim <= head_dim or rotary_dim % 2:
        raise ValueError(
            f"rotary_dim must be even, from 2 to head_dim={head_dim}: got rotary_dim={rotary_dim}"
        )
    order = torch.cat(
        (torch.arange(rotary_dim).view(grid).T.flatten(), torch.arange(rotary_dim, head_dim))
    )
    heads = weight.reshape(num_heads, head_dim, *weight.shape[1:])
    return heads[:, order.to(weight.device)].reshape(weight.shape)
