"""The tiny networks of chapters 07, 08 and 12: an LSTM and its relatives, a CNN on 8×8 images, a
transformer and a ViT.

Notation used for tensor shapes: B batch, T sequence length, D input features, H hidden features, C
channels or model width, L layers.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.models.recurrence import linear_scan


class LSTM(nn.Module):
    """A one-layer LSTM, with layer norm inside if wanted; parameters as in
    ``torch.nn.LSTM(batch_first=True)``.

    With layer norm, a step is (Ba et al. 2016, supplementary material, equations 20 to 22)

        i, f, g, o = LN(W_h h) + LN(W_x x) + b
        c = σ(f) c + σ(i) tanh(g)
        h = σ(o) tanh(LN(c))

    where each LN over the gates sees all 4H sums of a sample together. Without it, each LN is left
    out. Chapter 08.
    """

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_ih_l0 = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh_l0 = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.bias_ih_l0 = nn.Parameter(torch.empty(4 * hidden_size))
        self.bias_hh_l0 = nn.Parameter(torch.empty(4 * hidden_size))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)
        sizes = (4 * hidden_size, 4 * hidden_size, hidden_size)
        # the biases of the gates are there already: the two norms before them have a weight only
        norms = [
            nn.LayerNorm(size, bias=i == 2) if layer_norm else nn.Identity()
            for i, size in enumerate(sizes)
        ]
        self.norm_x, self.norm_h, self.norm_c = norms

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Run over ``x`` (B, T, D); return every h (B, T, H), and the last h and c, (B, H) each."""
        # (B, T, 4H)
        from_input = self.norm_x(F.linear(x, self.weight_ih_l0)) + self.bias_ih_l0 + self.bias_hh_l0
        h = c = x.new_zeros(x.shape[0], self.hidden_size)
        outputs = []
        for input_sums in from_input.unbind(1):
            sums = input_sums + self.norm_h(F.linear(h, self.weight_hh_l0))  # (B, 4H)
            i, f, g, o = sums.chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
            outputs.append(h)
        return torch.stack(outputs, dim=1), (h, c)


class MinGRU(nn.Module):
    """A recurrent layer whose step is linear in the state, so that a scan computes all steps at
    once. Chapter 12.

    z = σ(W_z x), h_t = (1 − z_t) h_{t−1} + z_t W_h x_t: the gate looks at the input only (Feng et
    al. 2024, §3.1). ``recurrence`` computes h_t = a_t h_{t−1} + b_t: ``linear_scan`` or
    ``linear_recurrence``.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        recurrence: Callable[[Tensor, Tensor], Tensor] = linear_scan,
    ) -> None:
        super().__init__()
        self.gate, self.candidate = (
            nn.Linear(input_size, hidden_size),
            nn.Linear(input_size, hidden_size),
        )
        self.recurrence = recurrence

    def forward(self, x: Tensor) -> Tensor:
        """Run over ``x`` (B, T, D); return every state (B, T, H)."""
        z = torch.sigmoid(self.gate(x))
        return self.recurrence(1 - z, z * self.candidate(x))


def feature_norm(kind: str, channels: int, spatial: bool) -> nn.Module:
    """Return a norm for features (B, C), or for images (B, C, H, W), by its name: "batch", "layer",
    "group" or "none".

    Groups have four channels. As in Wu and He 2018 (§3.1), layer norm is group norm with one group:
    it averages over C, H and W, and its weight and bias are per channel. Chapter 08.
    """
    kinds: dict[str, Callable[[], nn.Module]] = {
        "batch": lambda: nn.BatchNorm2d(channels) if spatial else nn.BatchNorm1d(channels),
        "layer": lambda: nn.GroupNorm(1, channels),
        "group": lambda: nn.GroupNorm(channels // 4, channels),
        "none": nn.Identity,
    }
    if kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}: got {kind!r}")
    return kinds[kind]()


class DigitsCNN(nn.Sequential):
    """Three convolutions, each followed by a norm, one of ``feature_norm``'s, and a ReLU, for
    images (B, 1, 8, 8).

    Returns logits (B, 10). Chapter 08.
    """

    def __init__(self, norm: str) -> None:
        layers: list[nn.Module] = []
        for c_in, c_out, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 2)):
            convolution = nn.Conv2d(c_in, c_out, 3, stride, padding=1)
            # 8×8, 4×4, 2×2 pixels
            layers += [
                convolution,
                feature_norm(norm, c_out, spatial=True),
                nn.ReLU(),
            ]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


class DigitsMLP(nn.Sequential):
    """The same of three linear layers with 64 features each. Chapter 08."""

    def __init__(self, norm: str) -> None:
        layers: list[nn.Module] = [nn.Flatten()]
        for _ in range(3):
            layers += [nn.Linear(64, 64), feature_norm(norm, 64, spatial=False), nn.ReLU()]
        super().__init__(*layers, nn.Linear(64, 10))


class SelfAttention(nn.Module):
    """Multi-head self-attention without a mask, for (B, T, C). Chapters 07 and 08."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v of ``x`` (B, T, C), each (B, heads, T, C / heads)."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        return q, k, v

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, C)."""
        q, k, v = self.parts(x)
        mixed = F.scaled_dot_product_attention(q, k, v)  # (B, heads, T, C / heads)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class TransformerBlock(nn.Module):
    """Attention and a feed-forward part, each with a residual connection around it and a norm in
    one of two places.

    Chapter 08.

    "pre":  x + f(norm(x)): the residual path runs through untouched (GPT-2; Xiong et al. 2020,
    figure 1b). "post": norm(x + f(x)): every sum is normalized (Vaswani et al. 2017, §3.1).
    "none": no norm at all.
    """

    def __init__(self, width: int, heads: int, placement: str = "pre") -> None:
        super().__init__()
        if placement not in ("pre", "post", "none"):
            raise ValueError(f"placement must be 'pre', 'post' or 'none': got {placement!r}")
        self.placement = placement
        self.attention = SelfAttention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        self.norm1, self.norm2 = (
            nn.Identity() if placement == "none" else nn.LayerNorm(width) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, C) for ``x`` (B, T, C)."""
        for norm, part in ((self.norm1, self.attention), (self.norm2, self.feed_forward)):
            x = norm(x + part(x)) if self.placement == "post" else x + part(norm(x))
        return x


def patches(images: Tensor, size: int) -> Tensor:
    """Cut images (B, C, H, W) into tokens (B, HW / size², C size²), row by row. Chapter 08.

    Source: Dosovitskiy et al. 2021, §3.1.
    """
    if size < 1 or any(side % size for side in images.shape[-2:]):
        raise ValueError(
            f"size must divide the sides of the images: got size={size!r}, images "
            f"{tuple(images.shape)}"
        )
    return F.unfold(images, kernel_size=size, stride=size).transpose(1, 2)


class ViT(nn.Module):
    """A vision transformer for images (B, 1, 8, 8): patches of 2 × 2 pixels are tokens; logits (B,
    10).

    ``depth`` blocks have their norms at ``placement``; "pre" has one more after the last block.
    Chapter 08.
    """

    def __init__(self, depth: int, placement: str = "pre") -> None:
        super().__init__()
        width = 32
        self.embed = nn.Linear(4, width)
        self.position = nn.Parameter(torch.randn(16, width) / math.sqrt(width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, 4, placement) for _ in range(depth)))
        self.norm = nn.LayerNorm(width) if placement == "pre" else nn.Identity()
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, 10): the mean over the tokens after the last block, through a linear
        layer."""
        tokens = self.embed(patches(images, 2)) + self.position  # (B, T, C)
        return self.head(self.norm(self.blocks(tokens)).mean(dim=1))
