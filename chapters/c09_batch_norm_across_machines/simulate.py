"""Several ranks in one process, one after the other: enough to try out what they exchange.

No rank can know a sum before all have brought their part. So each is run until it asks for one, and
then from its start again with that sum known, until none asks any more. A rank that returns while
others still ask is an error here; on real machines the others would wait for it until their
timeout.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from chapters.c09_batch_norm_across_machines.sync_batch_norm import LostContact

__all__ = ["simulate_ranks"]


class _SumNeeded(BaseException):
    """Leaves a rank that needs a sum which is not known yet, through any ``except Exception`` on
    the way."""

    def __init__(self, part: Tensor) -> None:
        self.part = part


def simulate_ranks(function: Callable[..., Any], shards: Sequence[tuple]) -> list[Any]:
    """Return what ``function(*shard, all_reduce)`` returns for each shard, with ``all_reduce``
    adding over all of them.

    ``all_reduce(tensor)`` returns the sum of the tensors that the ranks bring to the same call of
    it. The function runs several times, so it must not change its arguments. Chapter 09.

    Raises:
        LostContact: a rank returns without a sum that others wait for.
        RuntimeError: the ranks bring different shapes.

    >>> ranks = [(torch.tensor(1.0),), (torch.tensor(3.0),)]
    >>> simulate_ranks(lambda x, all_reduce: x / all_reduce(x), ranks)
    [tensor(0.2500), tensor(0.7500)]
    """
    sums: list[Tensor] = []
    while True:
        results, parts = {}, {}
        for rank, shard in enumerate(shards):
            try:
                results[rank] = function(*shard, _all_reduce(sums))
            except _SumNeeded as needed:
                parts[rank] = needed.part
        if not parts:
            return list(results.values())
        if results:
            raise LostContact(
                f"{_name(results)} returned while {_name(parts)} waited in all_reduce: real ones, "
                "until a timeout"
            )
        sums.append(torch.stack(list(parts.values())).sum(0))


def _all_reduce(sums: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    known = iter(sums)

    def all_reduce(tensor: Tensor) -> Tensor:
        for total in known:
            return total.clone()
        raise _SumNeeded(torch.as_tensor(tensor).detach())

    return all_reduce


def _name(ranks: dict[int, Any]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
