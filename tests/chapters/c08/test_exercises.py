"""The exercises of chapter 08: what is called right is torch's gradient on the whole batch."""

import torch
import torch.nn.functional as F

from chapters import check
from chapters.c08_batch_norm_across_machines.simulate import simulate_ranks
from course_utils.session import generator


def test_what_sync_backward_calls_right_is_the_gradient_of_torchs_batch_norm_on_the_whole_batch():
    x = torch.randn(9, 4, generator=generator(1), dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(9, 4, generator=generator(2), dtype=torch.float64)
    (truth,) = torch.autograd.grad((F.batch_norm(x, None, None, training=True) * upstream).sum(), x)
    rstd = torch.rsqrt(x.var(0, correction=0) + 1e-5).detach()
    x_hat = ((x - x.mean(0)) * rstd).detach()
    shards = [
        (upstream[rows], x_hat[rows], rstd, 9) for rows in (slice(0, 2), slice(2, 2), slice(2, 9))
    ]
    torch.testing.assert_close(
        torch.cat(simulate_ranks(check.sync_backward.oracle, shards)), truth, atol=1e-13, rtol=0
    )
