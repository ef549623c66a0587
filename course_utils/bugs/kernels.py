"""Pieces M and N: kernels, their bodies written in PyTorch so that they run everywhere."""

import torch
import torch.nn.functional as F

from course_utils.bugs.piece import NearMiss, Piece
from course_utils.bugs.takes import Numbers

__all__ = ["KERNELS"]

_FLOAT_OR_HALF = (torch.float32, torch.bfloat16, torch.float16)

KERNELS = (
    Piece(
        letter="M",
        function="layer_norm",
        claim="It claims to be `F.layer_norm` without weight and bias, for rows of any length.",
        takes={"x": Numbers("NC", 1e3)},
        sizes={"N": (1, 16), "C": (1, 512)},
        draw=lambda generator: {
            "x": torch.randn(4, 64 << int(torch.randint(3, (), generator=generator)), generator=generator)
        },
        right=lambda x: F.layer_norm(x, x.shape[-1:]),
        mend=("count += BLOCK", "count += int(inside.sum())"),
        tolerance=1e-3,
        because="float32 sums of a thousand values are off by 1e-6, and a mean of 1,000 leaves 1e-4 of the output",
        hints=(
            "All loads are masked, and so are the squares. What does a mask not reach?",
            "A row of 100 is two blocks. How many values are that?",
            "A length that 64 does not divide.",
        ),
        wrong="The lanes are counted, where it should be the values: 128 for a row of 100. Mean and variance come out "
        "too small, by the share of the padding.",
        seen="A kernel's padding in the divisor, or in the sum, is what chapter 10 builds its exercise on; the sizes "
        "that benchmarks like are powers of two, and have no padding. We know of no public place for this very line.",
        solution=lambda ordinary: {"x": torch.arange(1.0, 4.0)[None]},
        near=(
            NearMiss(
                lambda a: a["x"].shape[1] % 64 == 0,
                "Your rows fill whole blocks.",
            ),
        ),
    ),
    Piece(
        letter="N",
        function="weight_gradient",
        claim="It claims to be the sum over the rows, rounded once to the dtype of its input.",
        takes={"dy": Numbers("NC", 100, _FLOAT_OR_HALF), "x_hat": Numbers("NC", 100, _FLOAT_OR_HALF)},
        sizes={"N": (1, 8192), "C": (1, 16)},
        draw=lambda generator: {name: torch.randn(256, 8, generator=generator).bfloat16() for name in ("dy", "x_hat")},
        right=lambda dy, x_hat: (dy * x_hat).sum(0),
        mend=("dtype=dy.dtype)\n", "dtype=torch.float32)\n"),
        tolerance=5e-2,
        because="random terms that cancel leave a sum that bfloat16's rounding moves by 1 to 2 %",
        hints=(
            "The products are float32. Into what are they added?",
            "In bfloat16, what is 256 + 1?",
            "Thousands of rows whose products have one sign.",
        ),
        wrong="Each program adds up in the dtype of the input. bfloat16 has eight binary digits: once a sum is 256 "
        "times as large as what is added, it stands still.",
        seen="In PyTorch's layer norm on the CPU, whose gradients of weight and bias are summed in the input's dtype "
        "(chapter 05 measures it), and in a stored version of Triton's own layer norm tutorial.",
        solution=lambda ordinary: dict.fromkeys(("dy", "x_hat"), torch.ones(4096, 1, dtype=torch.bfloat16)),
        near=(
            NearMiss(
                lambda a: a["dy"].dtype != torch.float32 and len(a["dy"]) >= 1024,
                "Many rows, in half precision: and do their products add up, or do they cancel?",
            ),
            NearMiss(
                lambda a: a["dy"].dtype != torch.float32,
                "Half precision, but each of the eight programs has few rows to add up.",
            ),
            NearMiss(
                lambda a: a["dy"].dtype == torch.float32 and len(a["dy"]) >= 1024,
                "Many rows, but a sum in float32 has 24 binary digits. Which dtype has fewer?",
            ),
            NearMiss(
                lambda a: a["dy"].dtype == torch.float32,
                "A sum in float32 has 24 binary digits. Which dtype has fewer, and how many rows does it take?",
            ),
        ),
    ),
)
