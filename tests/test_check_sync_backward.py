"""The check of a rank's backward pass: autograd through the whole batch is the truth."""

import pytest
import torch
import torch.nn.functional as F

from course_utils.check.exercises.sync_backward import sync_backward
from course_utils.parallel.lockstep import run_ranks
from course_utils.session import generator


def two_calls(g, x_hat, rstd, count, all_reduce):
    return rstd * (g - all_reduce(g.sum(0)) / count - x_hat * (all_reduce((g * x_hat).sum(0)) / count))


def one_call(g, x_hat, rstd, count, all_reduce):
    mean_g, mean_gx = all_reduce(torch.stack([g.sum(0), (g * x_hat).sum(0)])) / count
    return rstd * (g - mean_g - x_hat * mean_gx)


def everything_in_one_vector(g, x_hat, rstd, count, all_reduce):
    sums = all_reduce(torch.cat([torch.ones(1) * len(g), g.sum(0), torch.einsum("nc,nc->c", g, x_hat)]))
    n, mean_g, mean_gx = sums[0], *(sums[1:] / sums[0]).chunk(2)
    return rstd * (n * g - n * mean_g - n * x_hat * mean_gx) / n


def in_float64(g, x_hat, rstd, count, all_reduce):
    return two_calls(g.double(), x_hat.double(), rstd.double(), count, all_reduce).to(g.dtype)


@pytest.mark.parametrize("right", [two_calls, one_call, everything_in_one_vector, in_float64])
def test_right_ways_to_write_it_pass(right):
    report = sync_backward(right, record=False)
    assert report.passed, f"{report}\n{report.table()}"


def test_what_it_calls_right_is_the_gradient_of_torchs_batch_norm_on_the_whole_batch():
    x = torch.randn(9, 4, generator=generator(1), dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(9, 4, generator=generator(2), dtype=torch.float64)
    (truth,) = torch.autograd.grad((F.batch_norm(x, None, None, training=True) * upstream).sum(), x)
    rstd = torch.rsqrt(x.var(0, correction=0) + 1e-5).detach()
    x_hat = ((x - x.mean(0)) * rstd).detach()
    shards = [(upstream[rows], x_hat[rows], rstd, 9) for rows in (slice(0, 2), slice(2, 2), slice(2, 9))]
    torch.testing.assert_close(torch.cat(run_ranks(sync_backward.oracle, shards)), truth, atol=1e-13, rtol=0)


def test_a_rank_that_returns_another_shape_is_told_so():
    report = sync_backward(lambda g, x_hat, rstd, count, all_reduce: all_reduce(g.sum(0)), record=False)
    assert "must return the gradient of its own shard" in report.message


def test_an_all_reduce_of_different_shapes_is_an_error_and_no_sum():
    report = sync_backward(lambda g, x_hat, rstd, count, all_reduce: all_reduce(g), record=False)
    assert not report.passed
    with pytest.raises(RuntimeError, match=r"one shape on all ranks: got \(1,\) and \(2,\)"):
        run_ranks(lambda x, all_reduce: all_reduce(x), [(torch.ones(1),), (torch.ones(2),)])


def test_ranks_in_lockstep_say_who_would_wait_for_whom():
    def only_the_large(x, all_reduce):
        return all_reduce(x) if x > 1 else x

    with pytest.raises(RuntimeError, match=r"rank 0 returned while ranks 1, 2 waited in all_reduce"):
        run_ranks(only_the_large, [(torch.tensor(float(x)),) for x in (1, 2, 3)])


def test_later_sums_may_depend_on_earlier_ones():
    def softmax(x, all_reduce):
        total = all_reduce(x.exp())
        return (x.exp() / total) * all_reduce(x / total)

    x = torch.tensor([0.0, 1.0, -2.0])
    expected = x.softmax(0) * (x / x.exp().sum()).sum()
    torch.testing.assert_close(torch.stack(run_ranks(softmax, [(value,) for value in x])), expected)
