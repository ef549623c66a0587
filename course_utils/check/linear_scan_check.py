"""The check of chapter 07: the linear recurrence h_t = a_t h_{t−1} + b_t, in whatever order it is computed."""

import torch
from torch import Tensor

from course_utils.check.calls import Call, Probe, integers
from course_utils.check.exercise import Check
from course_utils.check.mistakes import Catalogue
from course_utils.models import linear_recurrence

__all__ = ["linear_scan"]

CATALOGUE = Catalogue()


@CATALOGUE.mistake(
    title="off by one",
    wrong="It returns the state before each step, not after it.",
    matters="The first b is seen one step late, and the last one never.",
    hint="With a = 0 everywhere, what should the first state be?",
)
def off_by_one(a, b, h0=None):
    first = torch.zeros_like(b[:, :1]) if h0 is None else h0.unsqueeze(1)
    return torch.cat([first, linear_recurrence(a, b, h0)[:, :-1]], dim=1)


@CATALOGUE.mistake(
    title="a and b swapped",
    wrong="The state is multiplied by b, and a is added.",
    matters="It is a recurrence, but of another network.",
    hint="With b = 0 everywhere and no h0, what should every state be?",
)
def swapped(a, b, h0=None):
    return linear_recurrence(b, a, h0)


def _scan(a, b, h0, rounds, combine):
    """Scan with offsets 1, 2, 4, ... and ``combine`` for the two steps, earlier and later."""
    if h0 is not None:
        b = torch.cat([(a[:, 0] * h0 + b[:, 0]).unsqueeze(1), b[:, 1:]], dim=1)
    for k in (2**i for i in range(rounds)):
        new_a, new_b = combine(a[:, :-k], b[:, :-k], a[:, k:], b[:, k:])
        a, b = torch.cat([a[:, :k], new_a], dim=1), torch.cat([b[:, :k], new_b], dim=1)
    return b


def _all_rounds(length):
    return (length - 1).bit_length()


@CATALOGUE.mistake(
    title="the two steps in the wrong order",
    wrong="Where two steps become one, the earlier step is applied after the later one.",
    matters="Multiplication does not mind the order, and so the products of a are right; the sums are not.",
    hint="First h → a h + b, then h → a′ h + b′. Write out the second of the first: which a multiplies which b?",
)
def wrong_order(a, b, h0=None):
    return _scan(a, b, h0, _all_rounds(b.shape[1]), lambda a1, b1, a2, b2: (a1 * a2, a1 * b2 + b1))


@CATALOGUE.mistake(
    title="a renewed before b has used it",
    wrong="The product of the a's is put in place first, and then used for the b's.",
    matters="What comes from earlier steps is then multiplied by their own a once more.",
    hint="Which of the two new values needs the old a, and which of the two lines comes first?",
)
def a_before_b(a, b, h0=None):
    return _scan(a, b, h0, _all_rounds(b.shape[1]), lambda a1, b1, a2, b2: (a1 * a2, a1 * a2 * b1 + b2))


@CATALOGUE.mistake(
    title="a round short",
    wrong="It stops one round early when the length is no power of two.",
    matters="Late states then miss what came in at the beginning.",
    hint="For five steps, does an offset of 4 still reach anything?",
)
def round_short(a, b, h0=None):
    return _scan(a, b, h0, b.shape[1].bit_length() - 1, lambda a1, b1, a2, b2: (a1 * a2, a2 * b1 + b2))


@CATALOGUE.mistake(
    title="b is forgotten in the step that brings it",
    wrong="b is added before the state is multiplied: a (h + b).",
    matters="What comes in is then weakened at once by the gate that is there for the past.",
    hint="With a = 0 everywhere, what should the states be?",
)
def added_first(a, b, h0=None):
    return linear_recurrence(a, a * b, h0)


@CATALOGUE.mistake(
    title="b weighted by 1 − a",
    wrong="It adds (1 − a) b, as a moving average does.",
    matters="That is one choice of b. The recurrence leaves the choice to the network: minGRU makes it before.",
    hint="With a = 1 everywhere, should b be lost?",
)
def moving_average(a, b, h0=None):
    return linear_recurrence(a, (1 - a) * b, h0)


@CATALOGUE.mistake(
    title="along the batch",
    wrong="It runs over the sequences of the batch, not over the steps of each.",
    matters="Sequences that have nothing to do with each other are then chained together.",
    hint="In (B, T, C), which dimension is time?",
)
def along_batch(a, b, h0=None):
    return linear_recurrence(a.transpose(0, 1), b.transpose(0, 1), h0).transpose(0, 1)


@CATALOGUE.mistake(
    title="from the end to the beginning",
    wrong="It runs backwards in time.",
    matters="Each state then knows the steps that are still to come, and not those that were.",
    hint="Change the last b. Which states may move?",
)
def backwards(a, b, h0=None):
    return linear_recurrence(a.flip(1), b.flip(1), h0).flip(1)


@CATALOGUE.mistake(
    title="divided by the product of the a's",
    wrong="It divides b by the running product of a, adds up, and multiplies by the product again.",
    matters="On paper that is right. The product of 200 forget gates is no float32 number, and a gate of 0 is 0 / 0.",
    hint="What is 0.5 to the power of 200 in float32, and what is b divided by it?",
)
def divided_by_product(a, b, h0=None):
    product = a.cumprod(dim=1)
    start = 0.0 if h0 is None else h0.unsqueeze(1)
    return product * (start + (b / product).cumsum(dim=1))


@CATALOGUE.mistake(
    title="h0 is ignored",
    wrong="It starts from zero, whatever h0 says.",
    matters="A sequence that is read in two halves then forgets the first.",
    hint="With a = 1 and b = 0 everywhere, what should every state be?",
)
def h0_ignored(a, b, h0=None):
    return linear_recurrence(a, b)


@CATALOGUE.mistake(
    title="h0 is added and never decays",
    wrong="h0 is added to every state as it is.",
    matters="The first step's a must act on it, and then every later one.",
    hint="With a = 0 everywhere, what is left of h0 after the first step?",
)
def h0_added(a, b, h0=None):
    states = linear_recurrence(a, b)
    return states if h0 is None else states + h0.unsqueeze(1)


@CATALOGUE.mistake(
    title="h0 in place of the first b",
    wrong="h0 is added to the first b without the first a.",
    matters="It enters one step late: the first gate never sees it.",
    hint="The first state is a₀ h0 + b₀. Which factor is missing?",
)
def h0_without_a(a, b, h0=None):
    if h0 is None:
        return linear_recurrence(a, b)
    return linear_recurrence(a, torch.cat([b[:, :1] + h0.unsqueeze(1), b[:, 1:]], dim=1))


@CATALOGUE.mistake(
    title="the state is detached",
    wrong="The state is taken out of the gradient from one step to the next.",
    matters="The states are right, and nothing is ever learnt over more than one step.",
    hint="Take the gradient of the last state. Which b should have one?",
)
def detached(a, b, h0=None):
    states = linear_recurrence(a, b, h0).detach()
    first = torch.zeros_like(b[:, :1]) if h0 is None else h0.unsqueeze(1)
    return a * torch.cat([first, states[:, :-1]], dim=1) + b


def _gates(*shape: int, seed: int) -> Tensor:
    """Return numbers of size 1/2, 1 or 2 with either sign: products of a few are exact, and none is zero."""
    generator = torch.Generator().manual_seed(seed)
    sign = 2 * torch.randint(2, shape, generator=generator) - 1
    return sign * 2.0 ** torch.randint(-1, 2, shape, generator=generator)


def _probe(name: str, stage: str, a: Tensor, b: Tensor, h0: Tensor | None = None, gradients=()) -> Probe:
    arguments = {"a": a, "b": b} | ({} if h0 is None else {"h0": h0})
    return Probe(name, stage, Call(arguments, {"a": "BTC", "b": "BTC", "h0": "BC"}), gradients)


def _of(length: int, seed: int, batch: int = 3, channels: int = 2) -> tuple[Tensor, Tensor]:
    shape = (batch, length, channels)
    return _gates(*shape, seed=seed), integers(*shape, seed=seed + 1)


_CUT = _of(6, 120)[0]
_CUT[:, 2] = 0.0
_START = integers(3, 2, seed=130)

linear_scan = Check(
    "linear_scan",
    linear_recurrence,
    [
        _probe("four steps", "values", *_of(4, 100)),
        _probe("five steps", "values", *_of(5, 102)),
        _probe("seven steps", "values", *_of(7, 104)),
        _probe("one step", "values", *_of(1, 106)),
        _probe("as many sequences as steps", "values", *_of(3, 108)),
        _probe("a gate of exactly 0", "forgetting", _CUT, integers(3, 6, 2, seed=121)),
        _probe("300 gates of 1/2", "forgetting", torch.full((2, 300, 1), 0.5), integers(2, 300, 1, seed=123)),
        _probe("h0, five steps", "h0", *_of(5, 110), _START),
        _probe("h0, one step", "h0", *_of(1, 112), _START),
        _probe("gradients", "gradient", *_of(5, 114), _START, ("a", "b", "h0")),
    ],
    CATALOGUE,
)
