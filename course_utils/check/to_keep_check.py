"""The check of chapter 09's third exercise: what a layer norm keeps for its backward pass, at the least cost."""

from collections.abc import Callable, Collection
from typing import Any

from course_utils.check.calls import Call, Probe
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue

__all__ = ["to_keep"]

MISTAKES = Catalogue()
EXACT = Tolerance(0.0, 1e-9)  # of bytes that are counted none may be missing
BYTES = {"x": 4096, "y": 4096, "x_hat": 4096, "mean": 4, "rstd": 4}  # of one row of 1,024 float32 numbers

Choice = Callable[[bool, bool], Collection[str]]


def _to_keep(x_is_kept, y_is_kept):
    if y_is_kept:
        return {"y", "rstd"}
    return {"x", "mean", "rstd"} if x_is_kept else {"x_hat", "rstd"}


def _weighed(choose: Choice) -> Callable[[bool, bool], tuple[int, bool, bool]]:
    """Return, in place of the names that ``choose`` returns, what they cost and what can be found again from them."""

    def weighed(x_is_kept, y_is_kept):
        chosen = _names(choose(x_is_kept, y_is_kept))
        kept_anyway = {name for name, kept in (("x", x_is_kept), ("y", y_is_kept)) if kept}
        has_x_hat = not chosen.isdisjoint({"x_hat", "y"}) or chosen >= {"x", "mean", "rstd"}
        return sum(BYTES[name] for name in chosen - kept_anyway), has_x_hat, "rstd" in chosen

    return weighed


def _names(chosen: Any) -> set[str]:
    """Return the names in a learner's answer, or say what is wrong with it."""
    if isinstance(chosen, str) or not isinstance(chosen, Collection):
        raise TypeError(f"expected a set of names, such as {{'x', 'mean'}}; got {chosen!r}")
    if unknown := [name for name in chosen if name not in BYTES]:
        raise ValueError(f"expected names among {', '.join(BYTES)}; got {unknown[0]!r}")
    return set(chosen)


MISTAKES.add(
    "everything",
    "everything that the forward pass made",
    "It keeps all that the forward pass had in hand.",
    "What is kept stays in memory from the forward pass of this layer until its backward pass: for a whole model that "
    "is most of what training takes.",
    "Which of the five can be computed from the others, value by value?",
    lambda x_is_kept, y_is_kept: set(BYTES),
)
MISTAKES.add(
    "matrix_for_nothing",
    "a matrix kept beside one that is there",
    "It keeps a matrix of its own although x is kept anyway.",
    "With two numbers a row, x gives x̂ back: x̂ = (x − mean) · rstd. A second matrix of a thousand numbers a row buys "
    "nothing.",
    "How many numbers turn a row of x into a row of x̂?",
    lambda x_is_kept, y_is_kept: {"x_hat", "rstd"},
    lambda x_is_kept, y_is_kept: {"x_hat", "mean", "rstd"},
)
MISTAKES.add(
    "no_rstd",
    "rstd is not kept",
    "Without rstd the backward pass cannot scale: dx = rstd · (…).",
    "It comes from a sum over the row of x; from x̂ and y it cannot be found at all, since their spread is always the "
    "same.",
    "The backward pass multiplies by one number a row at its very end. Which?",
    lambda x_is_kept, y_is_kept: _to_keep(x_is_kept, y_is_kept) - {"rstd"},
    lambda x_is_kept, y_is_kept: {"x", "mean"},
    lambda x_is_kept, y_is_kept: {"x_hat"},
    lambda x_is_kept, y_is_kept: {"y"} if y_is_kept else _to_keep(x_is_kept, y_is_kept),
    lambda x_is_kept, y_is_kept: _to_keep(x_is_kept, y_is_kept) if x_is_kept or y_is_kept else {"x_hat"},
)
MISTAKES.add(
    "statistics_again",
    "x alone, and its statistics summed again",
    "It keeps x and nothing else: mean and rstd would have to be summed over every row again.",
    "That is a fair trade where memory is all that counts; activation checkpointing makes it. Here the task was to sum "
    "nothing again, and eight bytes a row are little.",
    "What do two numbers cost beside a row of 1,024?",
    lambda x_is_kept, y_is_kept: {"x"},
)
MISTAKES.add(
    "no_mean",
    "rstd without the mean",
    "From x it keeps rstd, and not the mean.",
    "x̂ = (x − mean) · rstd: from x alone it is found only by summing over the row again.",
    "Two numbers a row lead from x to x̂. Which?",
    lambda x_is_kept, y_is_kept: {"x", "rstd"},
)
MISTAKES.add(
    "not_named",
    "what others keep is not asked for",
    "It leaves out a matrix because it is kept anyway.",
    "Kept by another layer, it costs nothing; but the backward pass of this one gets only what it saved itself. "
    "Saving a tensor that is alive saves a reference.",
    "What does ctx.saved_tensors return for a tensor that was never saved?",
    lambda x_is_kept, y_is_kept: {"mean", "rstd"},
    lambda x_is_kept, y_is_kept: _to_keep(x_is_kept, y_is_kept) - {"y"},
)
MISTAKES.add(
    "as_pytorch",
    "x, mean and rstd, whatever else is kept",
    "It keeps x, mean and rstd in every case.",
    "So does PyTorch, which cannot know who keeps what. But where the next layer keeps y, as every linear layer does "
    "with its input, y gives x̂ back, and x need not stay at all.",
    "y = x̂ · weight + bias. Which way round can that be read?",
    lambda x_is_kept, y_is_kept: {"x", "mean", "rstd"},
)
MISTAKES.add(
    "y_overlooked",
    "y is there, and is not used",
    "Where y is kept anyway, it keeps a matrix of its own.",
    "x̂ = (y − bias) / weight, value by value: y and one number a row are enough.",
    "y = x̂ · weight + bias. Which way round can that be read?",
    lambda x_is_kept, y_is_kept: {"x", "mean", "rstd"} if x_is_kept else {"x_hat", "rstd"},
)
MISTAKES.add(
    "mean_beside_y",
    "a mean that nobody needs",
    "It keeps the mean beside y.",
    "The mean leads from x to x̂. From y the way is another, and the formulas of the gradients do not contain the mean.",
    "In dx, dweight and dbias: where does the mean stand?",
    lambda x_is_kept, y_is_kept: _to_keep(x_is_kept, y_is_kept) | {"mean"},
)
MISTAKES.add(
    "x_for_x_hat",
    "two numbers a row where one is enough",
    "Where neither is kept it keeps a matrix, rstd and the mean.",
    "If a matrix has to be kept, let it be one that needs the least beside it: x needs two numbers a row, x̂ needs one.",
    "Nothing is free here. Which matrix needs only one number a row beside it?",
    lambda x_is_kept, y_is_kept: {"y", "rstd"} if y_is_kept else {"x", "mean", "rstd"},
    lambda x_is_kept, y_is_kept: _to_keep(x_is_kept, y_is_kept) | (set() if x_is_kept or y_is_kept else {"mean"}),
)
MISTAKES.add(
    "x_before_y",
    "x taken where y is there as well",
    "With both kept it takes x, which needs two numbers a row beside it; y needs one.",
    "Four bytes a row are little. They are the whole cost of this layer, though, and it is halved.",
    "Both are free. Which needs less beside it?",
    lambda x_is_kept, y_is_kept: {"x", "mean", "rstd"} if x_is_kept else _to_keep(x_is_kept, y_is_kept),
)


def _probe(stage: str, x_is_kept: bool, y_is_kept: bool) -> Probe:
    return Probe(stage, stage, Call({"x_is_kept": x_is_kept, "y_is_kept": y_is_kept}), tolerance=EXACT)


to_keep = Check(
    "to_keep",
    _to_keep,
    [
        _probe("x is kept anyway", True, False),
        _probe("y is kept anyway", False, True),
        _probe("neither is kept", False, False),
        _probe("both are kept", True, True),
    ],
    MISTAKES,
    returns=("number of bytes for a row", "way back to x̂ (1 if there is one)", "way back to rstd (1 if there is one)"),
    flatten=_weighed,
)
