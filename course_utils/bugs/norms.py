"""Pieces A to D: norms."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.bugs.piece import NearMiss, Piece
from course_utils.bugs.takes import Numbers
from course_utils.norms import backward

__all__ = ["NORMS"]

_HALF_OR_FLOAT = (torch.float32, torch.bfloat16, torch.float16)
_EPS = torch.finfo(torch.float32).eps


def _normal(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _batch_norm_or_gradient(x: Tensor, dy: Tensor | None) -> Tensor:
    if dy is None:
        return F.batch_norm(x, None, None, training=True)
    return backward.batch_norm_backward(dy, x)[0]


NORMS = (
    Piece(
        letter="A",
        function="layer_norm",
        claim="It claims to be `F.layer_norm` without weight and bias.",
        takes={"x": Numbers("NC", 1e5)},
        sizes={"N": (1, 64), "C": (2, 256)},
        draw=lambda generator: {"x": _normal(4, 16, generator=generator)},
        right=lambda x: F.layer_norm(x, x.shape[-1:]),
        mend=("(x**2).mean(dim=-1, keepdim=True) - mean**2", "((x - mean) ** 2).mean(dim=-1, keepdim=True)"),
        tolerance=1e-2,
        because="x is rounded to float32, and around 10,000 that alone moves the output by 0.001",
        hints=(
            "On paper the second line is right. Which numbers does it subtract from each other, and how large are "
            "they beside the result?",
            "A float32 has seven digits. What is left of them if the two numbers agree in six?",
            "Keep the spread of a row, and move its mean.",
        ),
        wrong="E[x²] − E[x]² is the variance on paper. In float32 both terms grow with the square of the mean, and "
        "their difference keeps only what their last digits hold; it can even be negative, and its root NaN.",
        seen="In the layer norm of a widely read collection of annotated papers, which is also one of the write-ups on "
        "trial in this course. PyTorch's own layer norm had it too (issue 51102), until PR 59987 brought Welford's "
        "method.",
        solution=lambda ordinary: {"x": torch.tensor([[8192.0, 8196.0]])},
        near=(
            NearMiss(
                lambda a: a["x"].abs().max() < 0.1,
                "Small numbers are squared into smaller ones, and nothing is lost: look the other way.",
            ),
            NearMiss(
                lambda a: a["x"].abs().max() > 100,
                "Large values alone do not do it: they are squared, but so is their spread. What about their mean?",
            ),
        ),
    ),
    Piece(
        letter="B",
        function="layer_norm",
        claim="It claims to be `F.layer_norm`, with its default epsilon.",
        takes={"x": Numbers("NC", 1e3), "weight": Numbers("C", 10), "bias": Numbers("C", 10)},
        sizes={"N": (1, 64), "C": (2, 256)},
        draw=lambda generator: {
            "x": _normal(4, 16, generator=generator),
            "weight": 1 + 0.1 * _normal(16, generator=generator),
            "bias": 0.1 * _normal(16, generator=generator),
        },
        right=lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
        mend=("(std + eps)", "(std**2 + eps) ** 0.5"),
        tolerance=1e-2,
        because="for values around 1 right and wrong differ by 1e-5, which no test in float32 should be blamed for",
        hints=(
            "The formula has a sum under a root. Which sum, and where is it here?",
            "Both ways keep the division from failing. For which rows does epsilon matter at all?",
            "√(σ² + ε) and σ + ε differ most where σ is below √ε = 0.003.",
        ),
        wrong="Epsilon belongs to the variance, under the root: a row with σ far below √ε should come out small, and "
        "here it comes out with a standard deviation of one, noise included.",
        seen="In the layer norm of the Annotated Transformer, with the unbiased deviation, and in one of the write-ups "
        "on trial here. A well-made course found that its own check accepted it (ARENA, issue 228), and added a test "
        "with a larger epsilon.",
        solution=lambda ordinary: {**ordinary, "x": 1e-3 * ordinary["x"]},
        near=(
            NearMiss(
                lambda a: 0.02 < a["x"].std() < 0.5, "The difference grows as the spread shrinks: go on that way."
            ),
            NearMiss(
                lambda a: a["x"].std() > 2,
                "Epsilon is 0.00001. Beside a large standard deviation it is nothing at all: go the other way.",
            ),
        ),
    ),
    Piece(
        letter="C",
        function="rms_norm",
        claim="It claims to be `F.rms_norm` without a weight, where an epsilon that is not given is the machine "
        "epsilon of the dtype that it computes in.",
        takes={"x": Numbers("NC", 1e3, _HALF_OR_FLOAT)},
        sizes={"N": (1, 64), "C": (1, 256)},
        draw=lambda generator: {"x": _normal(4, 16, generator=generator).bfloat16()},
        right=lambda x: F.rms_norm(x, x.shape[-1:], eps=_EPS),
        mend=("torch.finfo(x.dtype).eps", "torch.finfo(torch.float32).eps"),
        tolerance=5e-2,
        because="bfloat16 rounds each result by up to 0.4 %, and around 1 the bug moves it by as much",
        hints=(
            "The squares, the mean and the root are float32. What is not?",
            "Print `torch.finfo(torch.bfloat16).eps`. Beside which mean square is that no longer small?",
            "bfloat16 input, with values around 0.01.",
        ),
        wrong="The machine epsilon of bfloat16 is 0.0078, not 1.2e-7. A row with a root mean square of 0.01 has a mean "
        "square of 0.0001, and is scaled by the epsilon instead of by itself.",
        seen="PyTorch's documentation once said the input's dtype; since PR 142848 the epsilon is that of the dtype in "
        "which it computes. The mistake survives all of PyTorch's own samples for this operator.",
        solution=lambda ordinary: {"x": torch.full((1, 4), 0.01, dtype=torch.bfloat16)},
        near=(
            NearMiss(
                lambda a: not a["x"].any(),
                "Zeros come out as zeros, whatever is added to their mean square: small values, but not that small.",
            ),
            NearMiss(
                lambda a: a["x"].dtype == torch.float32 and a["x"].abs().max() < 0.1,
                "In float32 the line does what it should. The size is right; the dtype makes no difference yet.",
            ),
            NearMiss(
                lambda a: a["x"].dtype == torch.float16,
                "float16 has an epsilon of 0.001. It can be shown there too, with smaller values still.",
            ),
        ),
    ),
    Piece(
        letter="D",
        function="run",
        claim="It claims to be batch norm in training: the output where no gradient is given, as most tests look at "
        "it, and the gradient of x where one is.",
        takes={"x": Numbers("NC", 1e3), "dy": Numbers("NC", 1e3, optional=True)},
        sizes={"N": (2, 128), "C": (1, 16)},
        draw=lambda generator: {"x": _normal(16, 4, generator=generator), "dy": None},
        right=lambda x, dy: _batch_norm_or_gradient(x, dy),
        mend=(
            "    with torch.no_grad():\n        mean = x.mean(dim=0)\n        var = x.var(dim=0, correction=0)\n",
            "    mean = x.mean(dim=0)\n    var = x.var(dim=0, correction=0)\n",
        ),
        tolerance=1e-2,
        because="a gradient of a row of nearly equal values is large, and float32 rounds it",
        hints=(
            "The output is right for every x. What else does a layer hand out?",
            "How does the loss depend on x? In how many ways, by the formula; in how many here?",
            "Any random `dy` will do. So will a loss that looks at the first sample alone.",
        ),
        wrong="The statistics depend on x, and their gradient is cut off: what should be centred and freed of its part "
        "along x̂ goes back as it came. The forward pass is exact, so a test of outputs never sees it; nearly any "
        "gradient does.",
        seen="In the batch norm of a popular course's notebook on initialization, where the input's gradient is off by "
        "half of its largest entry.",
        solution=lambda ordinary: {**ordinary, "dy": F.one_hot(torch.tensor(0), 16).float()[:, None].expand(16, 4)},
    ),
)
