"""Chapter 16: near order and far memory of a model, and how many dimensions make a whole turn in a
window."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chapters.c16_longer_context.tags import Tags
from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import COUNTED, Call, read_probes
from course_utils.check.report import format_tensor

__all__ = ["critical_dimension", "near_and_far"]


def _near_and_far(model, tokens, distance, fillers, first_answer):
    with torch.no_grad():
        logits = model(tokens)
    logits, targets = logits[:, :-1], tokens[:, 1:]  # of each token but the last, the next one
    is_filler = targets < fillers
    among_fillers = logits[is_filler][:, :fillers]
    near_order = F.cross_entropy(among_fillers, targets[is_filler])
    asks = distance[:, :-1] > 0
    values = logits[asks][:, first_answer:]
    right = values.argmax(-1) == targets[asks] - first_answer
    recall = right.double().mean()
    return near_order.item(), recall.item()


class _Table(nn.Module):
    """A model that looks at one token alone: its logits are a row of a table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]


def _of_a_table(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_a_table(table, tokens, distance, fillers, first_answer):
        return function(_Table(table), tokens, distance, fillers, first_answer)

    return of_a_table


def _streams(streams: int, length: int, seed: int, values: int = 3, questions: int = 3) -> Call:
    """Return a call with streams of a small form of the task, and a model that knows nothing."""
    task = Tags(fillers=4, names=2, values=values, questions=questions)
    rng = torch.Generator().manual_seed(seed)
    tokens, distance = task.draw(streams, length, rng)
    entries = torch.randperm(task.vocabulary**2, generator=rng)
    table = entries.view(task.vocabulary, -1).float() / task.vocabulary**2 * 6  # no two alike
    table[task.first_question :, task.first_answer :] += 2  # after a question a value is likelier
    arguments = {"table": table, "tokens": tokens, "distance": distance}
    sizes = {"fillers": task.fillers, "first_answer": task.first_answer}
    return Call({**arguments, **sizes}, {"tokens": "BT", "distance": "BT"})


def _has_both_halves(call: Call) -> bool:
    """Whether a filler is to be foreseen, and a question answered."""
    targets = call.arguments["tokens"][:, 1:]
    is_filler = targets < call.arguments["fillers"]
    return bool(is_filler.any()) and bool((call.arguments["distance"][:, :-1] > 0).any())


def _format_streams(call: Call) -> list[str]:
    arguments = call.arguments
    sizes = f"fillers={arguments['fillers']}, first_answer={arguments['first_answer']}"
    streams = [f"{name} = {arguments[name].tolist()}" for name in ("tokens", "distance")]
    logits = format_tensor(arguments["table"][arguments["tokens"]])
    return [f"near_and_far(model, tokens, distance, {sizes})", *streams, f"logits: {logits}"]


near_and_far = Exercise(
    "near_and_far",
    _near_and_far,
    read_probes(__file__, "near_and_far", _streams, plain=True),
    load("near_and_far", _near_and_far),
    returns=("near_order", "recall"),
    any_dtype=True,
    adapt=_of_a_table,
    may_shrink_to=_has_both_halves,
    format_call=_format_streams,
)


def _critical_dimension(head_dim, base, window):
    # solves window · base^(-2i/D) = 2π for i
    pairs = head_dim / 2 * math.log(window / (2 * math.pi), base)
    return min(head_dim, max(0, 2 * math.ceil(pairs)))


critical_dimension = Exercise(
    "critical_dimension",
    _critical_dimension,
    read_probes(__file__, "critical_dimension", tolerance=COUNTED, plain=True),
    load("critical_dimension", _critical_dimension),
    may_shrink_to=lambda call: call.arguments["head_dim"] > 1 and call.arguments["window"] > 1,
)
