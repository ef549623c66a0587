"""Rotary embeddings as a module (chapters 14 and 15): any way of scaling, any positions, with a
table of angles.

Notation used for tensor shapes: T tokens; ``...`` any leading dimensions, such as batch and heads.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.rope.rotation import apply_rope, is_count, layout_of, rope_cos_sin
from course_utils.rope.scaling import RopeParameters, warn

# positions beyond are computed as they come rather than kept: a row of 128 dimensions is 512 bytes
TABLE_ROWS = 1 << 17


class RotaryEmbedding(nn.Module):
    """Rotates queries and keys by their positions. Chapters 14 and 15.

    The frequencies depend on the length of the sequence alone (for ``dynamic`` and ``longrope``): a
    call gives what a fresh module would give, whatever was called before. They are float64 and no
    buffer, so that ``.half()`` leaves them alone, and ``state_dict`` is empty, as in transformers.
    Where a decoder crosses a boundary at which they change, the keys that it cached are rotated by
    the older ones; scores are right only after rotating them anew.

    How many rows of the table are needed is read off the numbers in ``positions``. Where there are
    none yet, as in ``torch.export``, ``torch.compile`` with ``fullgraph=True`` or ``vmap``, write
    ``apply_rope(x, *rope_cos_sin(positions, *rotary.frequencies(seq_len)), rotary.layout)``.

    ``rope_parameters`` are as for ``rope_frequencies``, None scales nothing; ``base`` is another
    way to give their ``rope_theta``; ``max_position_embeddings`` is the model's window, for the
    methods that need it; ``layout`` is as for ``apply_rope``.

    Source: Su et al. 2021, eq. 34; ``LlamaRotaryEmbedding`` in transformers.

    >>> rotary = RotaryEmbedding(4)
    >>> rotary(torch.tensor([[1.0, 1.0, 0.0, 0.0]]), positions=torch.tensor([1]))
    tensor([[0.5403, 0.9999, 0.8415, 0.0100]])
    """

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        rope_parameters: Mapping[str, Any] | None = None,
        max_position_embeddings: int | None = None,
        layout: str = "half",
    ) -> None:
        super().__init__()
        stated = (rope_parameters or {}).get("rope_theta")
        if stated is not None and base not in (10_000.0, stated):
            raise ValueError(
                f"base and rope_theta must agree: got base={base}, rope_theta={stated}"
            )
        self.head_dim = head_dim
        self.layout = layout_of(layout)
        self.rope_parameters = {
            **(rope_parameters or {}),
            "rope_theta": base if stated is None else stated,
        }
        self.scaling = RopeParameters.read(self.rope_parameters, head_dim, max_position_embeddings)
        warn(self.scaling.warnings, stacklevel=3)
        self.frequencies()  # refuses impossible values now rather than at the first call
        # beyond this length the frequencies are others
        changes = self.scaling.rope_type in ("dynamic", "longrope")
        self._short = self.scaling.trained_length or math.inf if changes else math.inf
        # (whether long, dtype, device) -> cosines and sines
        self._tables: dict[tuple[bool, torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def frequencies(self, seq_len: int | None = None) -> tuple[Tensor, float]:
        """Return inv_freq, (rotary_dim/2,) float64, and the attention factor, for sequences of this
        length."""
        return self.scaling.frequencies(seq_len)

    def cos_sin(
        self,
        positions: int | Tensor,
        dtype: torch.dtype = torch.float32,
        seq_len: int | None = None,
        device: torch.device | str = "cpu",
    ) -> tuple[Tensor, Tensor]:
        """Return what ``apply_rope`` needs to rotate tokens at these positions, (..., T,
        rotary_dim/2) each.

        ``positions`` are a count from 0, with the result on ``device``, or a tensor (..., T), with
        the result beside it; ``seq_len`` is the length of the sequence so far, where it is more
        than the last of the positions tells.
        """
        rows, is_whole = _rows_needed(positions)
        if is_count(positions):
            positions = torch.arange(positions, device=device)
        length = max(rows, seq_len or 0)
        is_long = length > self._short
        # Beyond the trained window dynamic scaling has other frequencies at every length: nothing
        # to keep there.
        if not is_whole or rows > TABLE_ROWS or (is_long and self.scaling.rope_type == "dynamic"):
            return rope_cos_sin(positions, *self.frequencies(length or None), dtype)
        assert isinstance(positions, Tensor)
        key = (is_long, dtype, positions.device)
        table = self._tables.get(key)
        if table is None or len(table[0]) < rows:
            grown = torch.arange(
                min(TABLE_ROWS, 1 << (rows - 1).bit_length()), device=positions.device
            )
            table = rope_cos_sin(grown, *self.frequencies(length or None), dtype)
            if (
                type(table[0]) is Tensor
            ):  # a tracer's table holds no numbers: the next call must not meet it
                self._tables[key] = table
        places = positions.long()  # a tensor of bytes would be taken for a mask
        # Copies, never views: the caller may change them, and a table made in inference mode must
        # serve training too.
        return table[0][places], table[1][places]

    def forward(
        self, x: Tensor, positions: int | Tensor | None = None, seq_len: int | None = None
    ) -> Tensor:
        """Rotate queries or keys ``x`` (..., T, head_dim); in float32, or in float64 for float64.

        ``positions`` are (T,), or (B, T) or (1, T) for ``x`` (B, H, T, head_dim) as in
        transformers, or with leading dimensions that broadcast with those of ``x``; 0 … T - 1 if
        None or T. While decoding, those of the new tokens. ``seq_len`` is as for ``cos_sin``.
        """
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"x must end in head_dim={self.head_dim}: got x {tuple(x.shape)}")
        if is_count(positions) and positions != x.shape[-2]:
            raise ValueError(
                f"positions is a count, and must be that of the {x.shape[-2]} tokens of x: got "
                f"positions={positions}; for token "
                f"{positions} pass torch.tensor([{positions}])"
            )
        if isinstance(positions, Tensor) and positions.ndim == 2 and x.ndim == 4:
            if positions.shape[0] not in (1, x.shape[0]):
                got = f"got positions {tuple(positions.shape)}, x {tuple(x.shape)}"
                raise ValueError(
                    "positions of two dimensions must be (B, T) or (1, T) for x (B, H, T, D): "
                    f"{got}"
                )
            positions = positions[:, None]  # (B, 1, T)
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        # A count, unlike a tensor on a GPU, tells the length without waiting for the device.
        cos, sin = self.cos_sin(
            x.shape[-2] if positions is None else positions, dtype, seq_len, x.device
        )
        return apply_rope(x, cos.to(x.device), sin.to(x.device), self.layout)

    def extra_repr(self) -> str:
        """Return what tells one module from another."""
        return f"{self.head_dim}, rope_parameters={self.rope_parameters}, layout={self.layout!r}"

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables out, so that copies and pickles stay small."""
        return {**self.__dict__, "_tables": {}}


def _rows_needed(positions: int | Tensor) -> tuple[int, bool]:
    """The length of the sequence that ends with these positions, and whether a table has a row for
    each of them."""
    if is_count(positions):
        return positions, True
    if not isinstance(positions, Tensor) or positions.numel() == 0 or positions.is_complex():
        return 0, False  # nothing to look up, or rope_cos_sin has something to say
    first, last = positions.aminmax()
    return int(
        last
    ) + 1, not positions.is_floating_point() and positions.dtype != torch.bool and int(first) >= 0
