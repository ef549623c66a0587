"""The check of chapter 09: the fewest bytes that a layer norm has to move, forward and with its backward pass."""

from collections.abc import Callable

from course_utils.check.calls import Call, Probe
from course_utils.check.comparison import Tolerance
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue

__all__ = ["norm_bytes"]

MISTAKES = Catalogue()
EXACT = Tolerance(0.0, 1e-9)  # of bytes that are counted none may be missing


def _norm_bytes(rows, features, itemsize=4, backward=False):
    forward = 2 * rows * features + 2 * features  # x, weight and bias read, y written
    gradients = 3 * rows * features + 3 * features  # dy, x and weight read, dx, dweight and dbias written
    return (forward + gradients * backward) * itemsize


def _counting(
    forward: tuple[float, float] = (2, 2), gradients: tuple[float, float] = (3, 3), statistics: int = 0
) -> Callable[..., int]:
    """Return a count that charges so many matrices and so many vectors of features for each direction.

    Args:
        statistics: numbers for each row besides, in each direction.
    """

    def count(rows, features, itemsize=4, backward=False):
        matrices, vectors = (f + g * backward for f, g in zip(forward, gradients, strict=True))
        numbers = matrices * rows * features + vectors * features + statistics * rows * (1 + backward)
        return int(numbers * itemsize)

    return count


MISTAKES.add(
    "forgets_write",
    "the result is not written",
    "It counts what is read and forgets that the result is written, or the other way round.",
    "Both directions share the bus to memory: a copy of 1 GB moves 2 GB.",
    "How many bytes move when y = x.clone() for 100 bytes of x?",
    _counting((1, 2)),
    _counting((1, 0)),
    _counting((1, 2), (2, 3)),
)
MISTAKES.add(
    "counts_elements",
    "elements counted, not bytes",
    "It counts numbers, not bytes.",
    "A number is four bytes in float32 and two in bfloat16, and bandwidth is in bytes.",
    "What is the third argument for?",
    lambda rows, features, itemsize=4, backward=False: _norm_bytes(rows, features, 1, backward),
)
MISTAKES.add(
    "counts_bits",
    "bits counted, not bytes",
    "The result is eight times too large: bits, where bytes are asked for.",
    "Memory bandwidth is given in bytes per second, a network's in bits.",
    "How many bytes does one float32 take?",
    lambda rows, features, itemsize=4, backward=False: 8 * _norm_bytes(rows, features, itemsize, backward),
)
MISTAKES.add(
    "forgets_parameters",
    "weight and bias are not counted",
    "The weight and the bias are read too, once each.",
    "Beside thousands of rows they are nothing; beside one, as when a model writes a word at a time, they are half.",
    "For one row of 1,024 features: how many numbers go in?",
    _counting((2, 0), (3, 0)),
    _counting((2, 0)),
)
MISTAKES.add(
    "one_parameter",
    "one of weight and bias is missing",
    "It counts one vector of parameters; layer norm has a weight and a bias.",
    "Count what the function is given: x, weight, bias.",
    "How many arguments of F.layer_norm are tensors?",
    _counting((2, 1)),
    _counting((2, 1), (3, 2)),
)
MISTAKES.add(
    "parameters_for_each_row",
    "weight and bias counted for each row",
    "It counts the weight and the bias anew for every row.",
    "They are a few kilobytes: read once, they stay in cache for all the rows.",
    "Where do the bytes of the weight lie when the second row is worked on?",
    _counting((4, 0), (6, 0)),
    _counting((4, 0)),
)
MISTAKES.add(
    "intermediates",
    "x read more than once, or intermediates counted",
    "It counts passes over memory that an implementation may need and the task does not.",
    "A row fits into cache: mean, variance and output can be computed while it is there. Asked for is the least "
    "that any implementation must move; it is the yardstick for those that move more.",
    "If you could keep one row in your pocket, how often would you have to fetch it?",
    _counting((3, 2)),
    _counting((4, 2)),
    _counting((5, 2)),
    _counting((6, 2)),
    _counting((8, 2)),
)
MISTAKES.add(
    "counts_statistics",
    "the statistics of each row counted",
    "It counts a mean and a deviation for each row as well.",
    "Real kernels do store them for the backward pass, eight bytes beside a row of thousands; they could also be "
    "computed again, so they do not belong to the least.",
    "Could the backward pass do without them, given x?",
    _counting(statistics=2),
    lambda rows, features, itemsize=4, backward=False: _norm_bytes(rows, features, itemsize, backward) + 8 * rows,
)
MISTAKES.add(
    "always_four_bytes",
    "four bytes for every number",
    "It takes every number for four bytes.",
    "Half precision halves the traffic, which for a layer bound by memory is most of its use.",
    "What is torch.bfloat16.itemsize?",
    lambda rows, features, itemsize=4, backward=False: _norm_bytes(rows, features, 4, backward),
)
MISTAKES.add(
    "backward_ignored",
    "the backward pass is not counted",
    "With backward=True it still counts the forward pass alone.",
    "In training more than half of the traffic is on the way back.",
    "Which tensors does the backward pass read, and which does it write?",
    _counting(gradients=(0, 0)),
)
MISTAKES.add(
    "backward_alone",
    "the forward pass is dropped",
    "With backward=True it counts the backward pass alone.",
    "Asked for is what a training step moves: forward and backward.",
    "Can you go back without having gone forward?",
    lambda rows, features, itemsize=4, backward=False: (
        (3 * rows * features + 3 * features) * itemsize if backward else _norm_bytes(rows, features, itemsize)
    ),
)
MISTAKES.add(
    "backward_is_twice_forward",
    "backward taken for twice the forward",
    "It takes the backward pass for twice the forward one.",
    "That rule counts the operations of matrix products. The bytes of a norm follow another: dy and x in, dx out.",
    "List the matrices that the backward pass reads and writes. How many are there?",
    _counting(gradients=(4, 4)),
)
MISTAKES.add(
    "backward_without_x",
    "x is not read again",
    "In the backward pass it counts dy and dx, and not x.",
    "x̂ is needed to find dx and dweight, and it is not kept: it is computed from x, which must be read again.",
    "The formula of dx has x̂ in it. Where does that come from?",
    _counting(gradients=(2, 3)),
    _counting(gradients=(2, 2)),
    _counting(gradients=(2, 0)),
)
MISTAKES.add(
    "backward_parameters",
    "a vector of the backward pass is missing",
    "The matrices are right, and a vector is missing: the backward pass reads the weight and writes two gradients.",
    "The weight stands in dx = rstd · (g − …) with g = dy · weight; dweight and dbias are results.",
    "Which vectors of length features does the backward pass read or write?",
    _counting(gradients=(3, 0)),
    _counting(gradients=(3, 1)),
    _counting(gradients=(3, 2)),
)
MISTAKES.add(
    "backward_in_two_kernels",
    "x and dy read twice in the backward pass",
    "It reads x and dy twice on the way back, once for dx and once for the parameters' gradients.",
    "Many implementations do; one kernel can do both while the row is in cache, so the least is one read of each.",
    "What is left in cache when dx of a row is done?",
    _counting(gradients=(5, 3)),
    _counting(gradients=(4, 3)),
)


def _probe(stage: str, rows: int, features: int, **others: int | bool) -> Probe:
    name = f"{rows:,} rows of {features:,}" + "".join(f", {key}={value}" for key, value in others.items())
    return Probe(name, stage, Call({"rows": rows, "features": features, **others}), tolerance=EXACT)


norm_bytes = Check(
    "norm_bytes",
    _norm_bytes,
    [
        _probe("forward", 3, 5),
        _probe("forward", 1, 8),
        _probe("forward", 7, 1),
        _probe("forward", 4096, 1024),
        _probe("dtype", 3, 5, itemsize=2),
        _probe("dtype", 4096, 1024, itemsize=8),
        _probe("backward", 3, 5, backward=True),
        _probe("backward", 7, 2, backward=True, itemsize=2),
        _probe("backward", 4096, 1024, backward=True, itemsize=2),
    ],
    MISTAKES,
)
