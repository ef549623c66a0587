"""Chapter 16: what a copy costs over a jump of positions, how far a model copies, what is
remembered over a text; near order and far memory of a model."""

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

__all__ = ["copy_loss", "effective_window", "near_and_far", "share_remembered"]


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


def _copy_loss(model, passage, gap, skip=32):
    length = len(passage)
    tokens = torch.cat((passage, passage))
    positions = torch.arange(2 * length)
    positions[length:] += gap
    logits = model(tokens, positions)
    scored = logits[length + skip - 1 : -1]
    return F.cross_entropy(scored, passage[skip:]).item()


def _of_a_copier(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let an answer score a model that says what followed a token last time, as far as it sees."""

    def of_a_copier(passage, gap, skip, reach):
        table = torch.randn(10, 10, generator=torch.Generator().manual_seed(5))

        def model(tokens, positions):
            in_order = positions.diff(prepend=positions[:1] - 1) == 1
            logits = table[tokens] * in_order[:, None]  # (T, V): what it says without memory
            places, distance = torch.arange(len(tokens)), positions[:, None] - positions
            remembered = (tokens[:, None] == tokens) & (distance.abs() <= reach)
            remembered &= places[:, None] > places
            at, earlier = remembered.nonzero(as_tuple=True)
            values = torch.full((len(at),), 3.0)
            return logits.index_put((at, tokens[earlier + 1]), values, accumulate=True)

        return function(model, passage, gap, **({} if skip is None else {"skip": skip}))

    return of_a_copier


def _passage(length: int, seed: int, gap: int, reach: int, skip: int | None = None) -> Call:
    passage = torch.randint(10, (length,), generator=torch.Generator().manual_seed(seed))
    return Call({"passage": passage, "gap": gap, "skip": skip, "reach": reach}, {"passage": "T"})


def _format_passage(call: Call) -> list[str]:
    passage, gap, skip, reach = call.arguments.values()
    skips = "" if skip is None else f", skip={skip}"
    about = f"model: logits (T, 10) of a model that remembers over {reach:,} positions"
    return [f"copy_loss(model, passage, {gap}{skips})", f"passage = {passage.tolist()}", about]


copy_loss = Exercise(
    "copy_loss",
    _copy_loss,
    read_probes(__file__, "copy_loss", _passage, plain=True),
    load("copy_loss", _copy_loss),
    any_dtype=True,
    adapt=_of_a_copier,
    may_shrink_to=lambda call: len(call.arguments["passage"]) > (call.arguments["skip"] or 32) + 2,
    format_call=_format_passage,
)


def _effective_window(gaps, costs, enough=1.0):
    copies = costs < enough
    unbroken = copies.cumprod(0) > 0
    reach = gaps[unbroken][-1].item() if unbroken.any() else -1
    last = gaps[copies][-1].item() if copies.any() else -1
    return reach, last


effective_window = Exercise(
    "effective_window",
    _effective_window,
    read_probes(
        __file__,
        "effective_window",
        lambda gaps, costs, **more: Call(
            {"gaps": torch.tensor(gaps), "costs": torch.tensor(costs), **more},
            {"gaps": "N", "costs": "N"},
        ),
        COUNTED,
        plain=True,
    ),
    load("effective_window", _effective_window),
    returns=("reach", "last"),
)


def _share_remembered(losses, passage, between, skip=32):
    scored = len(passage) - skip
    again = losses(torch.cat((passage, between, passage)))[-scored:]
    control = losses(torch.cat((between, passage)))[-scored:]
    return (1 - again.mean() / control.mean()).item()


def _of_a_tiring_reader(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let an answer score a model that has seen a pair of tokens before, as far as it remembers,
    and reads worse the longer the text is."""

    def of_a_tiring_reader(passage, between, skip, reach):
        table = 0.5 + 3 * torch.rand(100, generator=torch.Generator().manual_seed(7))

        def losses(tokens):
            pairs = 10 * tokens[:-1] + tokens[1:]  # (T - 1,)
            places = torch.arange(len(pairs))
            distance = places[:, None] - places
            seen = (pairs[:, None] == pairs) & (distance > 0) & (distance <= reach)
            known = torch.where(seen.any(1), 0.1, 1.0)
            return known * table[pairs] + 0.02 * places

        return function(losses, passage, between, **({} if skip is None else {"skip": skip}))

    return of_a_tiring_reader


def _reading(length: int, text: int, seed: int, reach: int, skip: int | None = None) -> Call:
    tokens = torch.randint(10, (length + text,), generator=torch.Generator().manual_seed(seed))
    passage, between = tokens.split((length, text))
    arguments = {"passage": passage, "between": between, "skip": skip, "reach": reach}
    return Call(arguments, {"passage": "T", "between": "N"})


def _has_enough_text(call: Call) -> bool:
    """Whether a few tokens are scored, some stand between, and the model remembers over them."""
    passage, between, skip, reach = call.arguments.values()
    scored = len(passage) - (32 if skip is None else skip)
    return scored > 2 and len(between) > 3 and reach >= len(passage) + len(between)


def _format_reading(call: Call) -> list[str]:
    passage, between, skip, reach = call.arguments.values()
    skips = "" if skip is None else f", skip={skip}"
    texts = [f"passage = {passage.tolist()}", f"between = {between.tolist()}"]
    about = f"losses: of a model that remembers over {reach:,} tokens"
    return [f"share_remembered(losses, passage, between{skips})", *texts, about]


share_remembered = Exercise(
    "share_remembered",
    _share_remembered,
    read_probes(__file__, "share_remembered", _reading, plain=True),
    load("share_remembered", _share_remembered),
    any_dtype=True,
    adapt=_of_a_tiring_reader,
    may_shrink_to=_has_enough_text,
    format_call=_format_reading,
)
