"""A small decoder-only transformer whose way of telling positions apart is an argument (chapters 13
to 15).

Notation used for tensor shapes: B batch, T tokens, V vocabulary, C width, H heads, D = C / H, W
attention window.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.rope import (
    alibi_bias,
    apply_rope,
    rope_cos_sin,
    rope_inv_freq,
    sinusoidal,
    t5_relative_bucket,
)

__all__ = ["POSITIONS", "Decoder", "windowed_attention"]

POSITIONS = ("none", "sinusoidal", "learned", "t5", "alibi", "rope")
BIASES = ("t5", "alibi")
T5_BUCKETS = 32


class Decoder(nn.Module):
    """Pre-norm (RMS norm), no biases, GELU, untied head: what GPT and Llama have in common, at a
    size for a laptop.

    ``position`` is one of ``POSITIONS``, and ``window`` the length that the model is trained at:
    rows of the table of ``"learned"``, and the reach of T5's buckets. ``hidden`` are the features
    inside the feed-forward part, ``base`` is the rotary base, and the initial weights come from
    ``generator``. Tables start with the standard deviation ``embedding_std``, and the sinusoid,
    whose published amplitude is 1, is multiplied by it. The layers ``nope_layers``, counted from 0,
    are not rotated, and no window limits what they see. Chapters 13 to 16.

    Source: Radford et al. 2019, §2.3 (pre-norm); Touvron et al. 2023, §2.2 (RMS norm, RoPE).
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        position: str = "rope",
        window: int = 128,
        width: int = 128,
        heads: int = 4,
        depth: int = 2,
        hidden: int = 256,
        base: float = 10_000.0,
        nope_layers: tuple[int, ...] = (),
        embedding_std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if position not in POSITIONS:
            raise ValueError(f"position must be one of {', '.join(POSITIONS)}: got {position!r}")
        if heads < 1 or width % heads:
            raise ValueError(f"heads must divide width: got heads={heads}, width={width}")
        self.position, self.window, self.heads, self.base = position, window, heads, base
        self.head_dim, self.nope_layers = width // heads, nope_layers
        self.embedding_std = embedding_std
        self.attention_window: int | None = None
        self.embedding = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(window, width) if position == "learned" else None
        self.bias = nn.Embedding(T5_BUCKETS, heads) if position == "t5" else None
        self.blocks = nn.ModuleList(_Block(width, heads, hidden) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self._initialise(generator)
        if position == "rope":
            self.set_rope(rope_inv_freq(self.head_dim, base))

    def _initialise(self, generator: torch.Generator | None) -> None:
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.embedding_std, generator=generator)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5, generator=generator)

    def set_rope(
        self, inv_freq: Tensor, attention_factor: float = 1.0, first_tokens: int = 0
    ) -> "Decoder":
        """Rotate by other frequencies ``inv_freq`` (D/2,) float64 from now on, as
        ``rope.rope_frequencies`` gives them.

        ``attention_factor`` multiplies cosine and sine; the ``first_tokens`` at the start keep the
        frequencies of training (Ding et al. 2024, §3.1). Returns self.
        """
        if self.position != "rope":
            raise ValueError(
                f"position must be 'rope' to set frequencies: got a model with {self.position!r}"
            )
        if inv_freq.shape != (self.head_dim // 2,):
            raise ValueError(
                f"inv_freq must have shape ({self.head_dim // 2},): got {tuple(inv_freq.shape)}"
            )
        self.inv_freq, self.attention_factor, self.first_tokens = (
            inv_freq,
            attention_factor,
            first_tokens,
        )
        return self

    def set_attention_window(self, tokens: int | None) -> "Decoder":
        """Let every token see the last ``tokens`` only, itself included; None takes the limit away.
        Return self."""
        if tokens is not None and self.position in BIASES:
            raise ValueError(
                f"position must not be one of {', '.join(BIASES)} for a window: got "
                f"{self.position!r}"
            )
        self.attention_window = tokens
        return self

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token, (B, T, V)."""
        length, device = tokens.shape[1], tokens.device
        h = self.embedding(tokens)  # (B, T, C)
        if self.position == "sinusoidal":
            h = h + self.embedding_std * sinusoidal(length, h.shape[-1]).to(h)
        if self.places is not None:
            if length > self.window:
                raise ValueError(
                    f"a learned table has a row for each of {self.window} positions: got {length} "
                    "tokens"
                )
            h = h + self.places.weight[:length]
        rope = (
            self._cos_sin(torch.arange(length, device=device)) if self.position == "rope" else None
        )
        mask = self._mask(length, device)
        for layer, block in enumerate(self.blocks):
            h = (
                block(h, None, mask, None)
                if layer in self.nope_layers
                else block(h, rope, mask, self.attention_window)
            )
        return self.head(self.norm(h))

    def _cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        # (T, D/2), angles in float64
        cos, sin = rope_cos_sin(positions, self.inv_freq, self.attention_factor)
        if self.first_tokens == 0:
            return cos, sin
        original = rope_cos_sin(
            positions, rope_inv_freq(self.head_dim, self.base), self.attention_factor
        )
        keeps = positions[:, None] < self.first_tokens
        return torch.where(keeps, original[0], cos), torch.where(keeps, original[1], sin)

    def _mask(self, length: int, device: torch.device) -> Tensor | None:
        """Return what is added to the scores, (1, H, T, T); None where positions are told apart in
        another way."""
        if self.position not in BIASES:
            return None
        places = torch.arange(length, device=device)
        ahead = places - places[:, None]  # (T, T): key minus query
        if self.bias is None:
            bias = alibi_bias(self.heads, length, length).to(device)
        else:
            buckets = t5_relative_bucket(
                ahead, bidirectional=False, num_buckets=T5_BUCKETS, max_distance=self.window
            )
            bias = self.bias(buckets).permute(2, 0, 1)  # (H, T, T)
        return bias.masked_fill(ahead > 0, -math.inf)[None]


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_forward = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )
        self.up, self.down = (
            nn.Linear(width, hidden, bias=False),
            nn.Linear(hidden, width, bias=False),
        )

    def forward(
        self, h: Tensor, rope: tuple[Tensor, Tensor] | None, mask: Tensor | None, window: int | None
    ) -> Tensor:
        q, k, v = (
            self.qkv(self.norm_attention(h))
            .unflatten(-1, (3, self.heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        if rope is not None:
            q, k = apply_rope(q, *rope), apply_rope(k, *rope)  # (B, H, T, D)
        if window is None:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        else:
            mixed = windowed_attention(q, k, v, window)
        h = h + self.out(mixed.transpose(1, 2).flatten(-2))
        return h + self.down(F.gelu(self.up(self.norm_forward(h))))


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Return the attention (B, H, T, D) of every token to the last ``window`` ones, itself
    included.

    Queries go through W at a time, with the keys of their own chunk and of the one before: the
    largest mask is W × 2W, where a mask for all at once would be T × T, 4 GB at 32,768 tokens.

    Source: Beltagy et al. 2020, §3.1 and appendix A (attention in chunks).
    """
    length, chunks = q.shape[2], []
    places = torch.arange(length, device=q.device)
    for start in range(0, length, window):
        queries, keys = slice(start, start + window), slice(max(0, start - window), start + window)
        back = places[queries, None] - places[keys]  # (W, 2W), at most
        sees = (back >= 0) & (back < window)
        chunks.append(
            F.scaled_dot_product_attention(q[:, :, queries], k[:, :, keys], v[:, :, keys], sees)
        )
    return torch.cat(chunks, dim=2)
