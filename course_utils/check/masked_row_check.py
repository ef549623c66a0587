"""The check of chapter 10: what a kernel does to a tile of rows whose last lanes are padding."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.check.norm_probes import offset_probe, pair_probes
from course_utils.check.norm_recipes import as_given, over_root, widen

__all__ = ["masked_layer_norm"]

MISTAKES = Catalogue()
Step = Callable[..., Any]


def _zeros_in_padding(x: Tensor, inside: Tensor) -> Tensor:
    return torch.where(inside, x, 0.0)


def _times_mask(x: Tensor, inside: Tensor) -> Tensor:
    return x * inside


def _columns(inside: Tensor) -> Any:
    return inside.sum()


def _width(inside: Tensor) -> Any:
    return len(inside)


def _row_sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def _lanes(block: Tensor, n_cols: int) -> Tensor:
    return torch.arange(block.shape[-1], device=block.device) < n_cols


def _with(
    *,
    inside: Step = lambda lanes, n_cols: lanes < n_cols,
    load: Step = _zeros_in_padding,
    total: Step = _row_sum,
    mean_over: Step = _columns,
    remask: Step = _zeros_in_padding,
    variance_over: Step = _columns,
    variance: Step = lambda c, x, total, count: total(c * c) / count,
    scale: Step = over_root,
    store: Step = _zeros_in_padding,
    precision: Step = widen,
) -> Callable[..., Tensor]:
    """Return the exercise's function with every step an argument: a mistake is one step replaced."""

    def masked(block, n_cols, eps=1e-5):
        lanes = inside(torch.arange(block.shape[-1], device=block.device), n_cols)
        x = load(precision(block), lanes)
        mean = total(x) / mean_over(lanes)
        c = remask(x - mean, lanes)
        y = scale(c, variance(c, x, total, variance_over(lanes)), eps)
        return store(y, lanes).to(block.dtype)

    return masked


MISTAKES.add(
    "not_masked_after_centring",
    "the padding not masked again after centring",
    "The padding is zero when the mean is taken, and −mean when the squares are: it is not masked a second time.",
    "Each padding lane then adds mean² to the sum of squares. With a mean of 0, or without padding, nothing shows.",
    "What does a lane that held 0 hold after x − mean?",
    _with(remask=as_given),
    _with(remask=as_given, store=as_given),
)
MISTAKES.add(
    "width_for_count",
    "divided by the width of the block",
    "A sum is divided by the number of lanes, where it should be by n_cols.",
    "Zeros in the padding add nothing to a sum, but a mean over the width counts them.",
    "For a row [3, 3, 3] in a block of four: what is its mean, and what is yours?",
    _with(mean_over=_width, variance_over=_width),
    _with(mean_over=_width),
    _with(variance_over=_width),
)
MISTAKES.add(
    "no_mask",
    "the padding takes part",
    "The statistics are those of the whole block: n_cols makes no difference to them.",
    "A kernel works on a power of two of lanes; those past the row hold whatever was there, and belong to nobody.",
    "Put 1,000 into a padding lane. Should the output of the others move?",
    _with(load=as_given, mean_over=_width, variance_over=_width, remask=as_given),
    _with(load=as_given, mean_over=_width, variance_over=_width, remask=as_given, store=as_given),
)
MISTAKES.add(
    "trusts_padding",
    "the padding trusted to be zero",
    "The padding is not masked before the mean is taken, as if it held zeros.",
    "Without `other=0.0` a masked load leaves the padding undefined: it is zero in a test and garbage in production.",
    "Which of your lines would notice a 1,000 in a padding lane?",
    _with(load=as_given),
    _with(load=as_given, store=as_given),
)
MISTAKES.add(
    "multiplied_by_mask",
    "masked by multiplying with zero",
    "The padding is multiplied by 0, which leaves NaN where there was NaN or infinity.",
    "Undefined memory may hold any bits, and some of them are NaN. NaN times zero is NaN, and the sum is lost.",
    "Which operation chooses one of two values, whatever the other one is?",
    _with(load=_times_mask),
    _with(load=_times_mask, remask=_times_mask),
    _with(load=_times_mask, remask=_times_mask, store=_times_mask),
    _with(store=_times_mask, load=_times_mask),
)


@MISTAKES.mistake(
    title="something left in the padding of the result",
    wrong="The row is right, and the padding of the result is not zero.",
    matters="The store is masked, so nobody sees it; but the backward pass adds up over lanes, and there it would "
    "count.",
    hint="What should a sum over all lanes of the result be?",
)
def padding_in_output(block, n_cols, eps=1e-5):
    return _unmasked_in_the_end(_zeros_in_padding(widen(block), _lanes(block, n_cols)), n_cols, eps).to(block.dtype)


@MISTAKES.form_of("padding_in_output")
def garbage_in_output(block, n_cols, eps=1e-5):
    return _unmasked_in_the_end(widen(block), n_cols, eps).to(block.dtype)


def _unmasked_in_the_end(x: Tensor, n_cols: int, eps: float) -> Tensor:
    inside = _lanes(x, n_cols)
    c = x - _row_sum(_zeros_in_padding(x, inside)) / n_cols
    return over_root(c, _row_sum(_zeros_in_padding(c * c, inside)) / n_cols, eps)


MISTAKES.add(
    "mask_too_wide",
    "one lane too many",
    "The mask lets one lane of the padding through.",
    "Lanes are counted from 0: a row of five ends at lane 4, and lane 5 may belong to the next row.",
    "For n_cols = 1, which lanes are inside?",
    _with(inside=lambda lanes, n_cols: lanes <= n_cols),
    _with(inside=lambda lanes, n_cols: lanes <= n_cols, mean_over=lambda m: m.sum() - 1),
)
MISTAKES.add(
    "mask_too_narrow",
    "one lane too few",
    "The mask shuts the last value of the row out.",
    "Lanes are counted from 0: a row of five needs lanes 0 to 4.",
    "For n_cols = 1, which lanes are inside?",
    _with(inside=lambda lanes, n_cols: lanes < n_cols - 1),
    _with(inside=lambda lanes, n_cols: lanes < n_cols - 1, mean_over=lambda m: m.sum() + 1,
          variance_over=lambda m: m.sum() + 1),
)  # fmt: skip
MISTAKES.add(
    "whole_tile",
    "one mean for all the rows of the block",
    "The sums run over the whole block and not along each row.",
    "A program that holds several rows must keep their statistics apart: they are different samples.",
    "Change the second row. Should the first row of the output move?",
    _with(total=lambda x: x.sum(), mean_over=lambda m: m.sum(), remask=_zeros_in_padding),
    _with(total=lambda x: x.mean(0, keepdim=True).sum(-1, keepdim=True)),
)
MISTAKES.add(
    "not_centred",
    "the mean is not subtracted",
    "The values are divided by a root, but their mean is still in them.",
    "An offset that all values share then stays in the output.",
    "Add 100 to every value of the row. What should happen to the output?",
    _with(mean_over=lambda m: float("inf")),
    _with(mean_over=lambda m: float("inf"), variance=lambda c, x, total, n: total(x * x) / n - (total(x) / n) ** 2),
)
MISTAKES.add(
    "sum_not_mean",
    "a sum of squares in place of their mean",
    "The squares are added up and never divided by n_cols.",
    "The output then shrinks as the rows grow longer.",
    "For [−1, 1, −1, 1], what should the output be?",
    _with(variance_over=lambda m: 1),
)
MISTAKES.add(
    "unbiased_variance",
    "the variance divided by n − 1",
    "The variance is divided by n_cols − 1.",
    "A norm divides by the number of values: for one value n − 1 is 0, and the result NaN.",
    "After normalizing [1, 2], what should the mean of the squares be?",
    _with(variance_over=lambda m: m.sum() - 1),
)
MISTAKES.add(
    "no_root",
    "divided by the variance, not by its root",
    "The values are divided by the variance itself; the root is missing.",
    "Double the input and the output halves, where it should stay as it is.",
    "If x is in metres, in which unit is what you divide by?",
    _with(scale=lambda c, v, eps: c / (v + eps)),
)
MISTAKES.add(
    "eps_outside_root",
    "epsilon outside the root",
    "Epsilon is added after the root, instead of to the variance under it.",
    "For values around 1 the two can hardly be told apart; for values around 0.001 they differ by a factor of three.",
    "In the formula, which symbols does the root sign cover?",
    _with(scale=lambda c, v, eps: c / (torch.sqrt(v) + eps)),
)
MISTAKES.add(
    "eps_ignored",
    "epsilon not the one that was given",
    "The argument eps has no effect on the result.",
    "Small inputs are scaled by it, and a row of equal values is divided by its root alone.",
    "Call it with eps = 1. What changes?",
    _with(scale=lambda c, v, eps: c * torch.rsqrt(v + 1e-5)),
    _with(scale=lambda c, v, eps: c * torch.rsqrt(v)),
)
MISTAKES.add(
    "one_pass_variance",
    "the variance as E[x²] − E[x]²",
    "The variance is the mean of the squares minus the square of the mean.",
    "It needs no second mask, which makes it tempting. In float32 the difference of two large numbers keeps only "
    "their last digits.",
    "What do the squares look like when the mean is 10,000? The row is still in registers: what could you do first?",
    _with(variance=lambda c, x, total, n: total(x * x) / n - (total(x) / n) ** 2),
    _with(variance=lambda c, x, total, n: (total(x * x) / n - (total(x) / n) ** 2).clamp_min(0)),
)
MISTAKES.add(
    "half_sums",
    "sums in half precision",
    "The sums are made in the type of the block.",
    "float16 ends at 65,504: twenty values of 4,000 overflow it, and one square of 300 does.",
    "What is 300 × 300 in float16?",
    _with(precision=as_given),
)


def _masked_layer_norm(block, n_cols, eps=1e-5):
    if not 1 <= n_cols <= block.shape[-1]:
        raise ValueError(f"n_cols must be from 1 to the width of the block: got {n_cols}, width {block.shape[-1]}")
    y = F.layer_norm(block[:, :n_cols], (n_cols,), eps=eps)
    return F.pad(y, (0, block.shape[-1] - n_cols))


def _padded(rows: Tensor, width: int, padding: float = 0.0) -> Tensor:
    return F.pad(rows, (0, width - rows.shape[-1]), value=padding)


def _call(rows: Tensor, width: int = 4, padding: float = 0.0, **others) -> Call:
    return Call({"block": _padded(rows, width, padding), "n_cols": rows.shape[-1], **others}, {"block": "RW"})


def _probe(name: str, stage: str, rows: Tensor, width: int, padding: float = 0.0, rough=False, **others) -> Probe:
    return Probe(name, stage, _call(rows, width, padding, **others), rough=rough)


def _rows(*shape: int, seed: int, offset: float = 200.0) -> Tensor:
    return integers(*shape, seed=seed, scale=100.0, offset=offset)  # epsilon is below float32's rounding there


_FAR, _HALF = pair_probes(_call)

masked_layer_norm = Check(
    "masked_layer_norm",
    _masked_layer_norm,
    [
        _probe("a block without padding", "whole blocks", _rows(3, 8, seed=200), 8),
        _probe("rows of 5 in a block of 8", "padding", _rows(3, 5, seed=201), 8),
        _probe("rows of 100 in a block of 128", "padding", _rows(2, 100, seed=202), 128),
        _probe("rows of 2 in a block of 16", "padding", _rows(4, 2, seed=203), 16),
        _probe("1,000 in the padding", "garbage", _rows(3, 5, seed=204), 8, 1000.0),
        _probe("NaN in the padding", "NaN", _rows(3, 5, seed=205), 8, float("nan")),
        _probe("values around 0.001", "epsilon", integers(3, 5, seed=206, scale=3e-4), 8),
        _probe("eps=1", "epsilon", integers(3, 5, seed=207), 8, eps=1.0),
        _probe("one value a row", "epsilon", integers(3, 1, seed=208), 4),
        _FAR,
        offset_probe(_call(integers(64, 48, seed=209, scale=0.25, offset=1e4), 64)),
        _HALF,
        _probe(
            "float16, sums beyond it", "half precision", _rows(3, 100, seed=210, offset=4e3).half(), 128, rough=True
        ),
    ],
    MISTAKES,
)
