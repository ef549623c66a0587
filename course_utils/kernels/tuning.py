"""Time a small set of launches on this GPU and keep the quickest."""

from collections.abc import Callable, Sequence

import torch
import triton

from course_utils.kernels.launch import Launch, backward_candidates, choose, forward_candidates
from course_utils.kernels.norm_function import launch_backward, launch_forward

__all__ = ["tune_norms"]

_TUNING_BYTES = 2**27  # of x: more than any L2 cache holds, so that memory is what is timed


def tune_norms(
    num_columns: int,
    dtype: torch.dtype,
    num_rows: int | None = None,
    device: str | torch.device = "cuda",
    time_ms: Callable[[Callable[[], object]], float] | None = None,
) -> dict[str, Launch]:
    """Choose the launches for layer and RMS norm of rows of ``num_columns``; see ``kernels.tune``."""
    if time_ms is None:
        time_ms = triton.testing.do_bench_cudagraph  # kernel time: replays of a graph, no Python in between
    if num_rows is None:
        num_rows = max(_TUNING_BYTES // (num_columns * dtype.itemsize), 1024)
    x = torch.randn(num_rows, num_columns, device=device).to(dtype)
    dy = torch.randn(num_rows, num_columns, device=device).to(dtype)
    weight, bias = torch.ones(2, num_columns, dtype=dtype, device=device)
    out, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
    mean, rstd = launch_forward(x, out, weight, bias, 1e-5, centred=True)

    def forward() -> None:
        launch_forward(x, out, weight, bias, 1e-5, centred=True)

    def backward() -> None:
        launch_backward(dy, x, weight, mean, rstd, out, dweight, dbias)

    size = num_columns, dtype.itemsize
    return {
        "forward": _choose_quickest("forward", size, forward_candidates(*size), forward, time_ms),
        "backward": _choose_quickest("backward", size, backward_candidates(*size), backward, time_ms),
    }


def _choose_quickest(
    direction: str,
    size: tuple[int, int],
    candidates: Sequence[Launch],
    run: Callable[[], object],
    time_ms: Callable[[Callable[[], object]], float],
) -> Launch:
    """Time ``run`` under each candidate, leave the quickest in use, pass over what the device cannot hold."""
    times: dict[Launch, float] = {}
    for candidate in candidates:
        choose(direction, *size, candidate)
        try:
            times[candidate] = time_ms(run)
        except triton.runtime.errors.OutOfResources:
            continue
    quickest = min(times, key=times.__getitem__) if times else None
    choose(direction, *size, quickest)
    return quickest or candidates[0]
