"""lockstep: what it takes for shards; the rest is in test_check_sync_backward.py."""

import pytest
import torch

from course_utils.parallel import run_ranks


def test_shards_may_come_from_a_generator():
    results = run_ranks(lambda x, all_reduce: x / all_reduce(x), ((torch.tensor(x),) for x in (1.0, 3.0)))
    assert torch.equal(torch.stack(results), torch.tensor([0.25, 0.75]))


def test_no_ranks_are_refused():
    with pytest.raises(ValueError, match=r"shards must hold the arguments of at least one rank: got \[\]"):
        run_ranks(lambda all_reduce: None, iter(()))


def test_a_rank_may_write_into_the_sum_that_it_got():
    def added_to(x, all_reduce):
        return all_reduce(x).add_(x)

    results = run_ranks(added_to, [(torch.tensor(x),) for x in (1.0, 3.0)])
    assert torch.equal(torch.stack(results), torch.tensor([5.0, 7.0]))
