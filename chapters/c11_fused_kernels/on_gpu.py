"""Chapter 11: a learner's ``norm_kernel`` on a GPU, timed beside PyTorch's own norms, and what the
GPU's counters say of their bytes.

The chapter's process interprets its kernels; a process of its own compiles and runs them.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chapters.c11_fused_kernels.compiled import kernel_text
from course_utils import norms
from course_utils.kernels import available
from course_utils.session import generator
from course_utils.timing.timers import copy_bandwidth, measure_in_turns

__all__ = ["COPY", "counted", "rates_of"]

COPY = "a copy"  # the limit: no kernel moves its bytes faster
_NAMES = ("norm_kernel", "F.layer_norm", "torch.compile", "an operator at a time")
_ROOT = Path(__file__).parents[2]
_COUNTERS = {
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
    "registers": "launch__registers_per_thread",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}


def rates_of(
    kernel: Any,
    num_warps: Mapping[int, int],
    device: str = "cuda",
    numbers: int = 2**28,
) -> dict[str, list[float]]:
    """Return the GB/s of ``kernel``, ``F.layer_norm``, ``torch.compile`` and a large copy, in
    bfloat16, each a list by length of a row.

    Every result is held against float64 first: a wrong one is a RuntimeError, and so is a missing
    GPU. With ``device="cpu"`` the interpreter runs the kernel, and nothing is timed: no rates.

    Args:
        kernel: one that is started as ``norm_kernel`` is.
        num_warps: of a program, by the length of a row.
        numbers: in the matrix, whatever the length of its rows.
    """
    answer = _in_a_process(kernel, num_warps, device, numbers, ())
    return json.loads(answer)  # type: ignore[no-any-return]


def counted(
    kernel: Any, num_warps: int, n_cols: int, numbers: int = 2**28
) -> dict[str, list[dict[str, float]]]:
    """Return what NVIDIA's ``ncu`` counts of each norm of (numbers / n_cols, n_cols) in bfloat16,
    and of ``norms.layer_norm``, which runs an operator at a time.

    That is for each of its kernels the bytes ``read`` from memory and ``written`` to it, the
    ``registers`` of a thread and the ``occupancy`` in percent. RuntimeError: there is no GPU or no
    ``ncu``, it may not read the counters, or a norm is wrong.
    """
    # the clocks as they are found; ncu empties the caches before each kernel
    asked = ("--metrics", ",".join(_COUNTERS.values()), "--print-units", "base", "--csv")
    ncu = ("ncu", "--clock-control", "none", "--profile-from-start", "off", *asked)
    table = _in_a_process(kernel, {n_cols: num_warps}, "cuda", numbers, ncu)
    rows = csv.DictReader(line for line in table.splitlines() if line.startswith('"'))
    names = {metric: name for name, metric in _COUNTERS.items()}
    found: list[list[dict[str, float]]] = []
    for (_, kernel_name), metrics in groupby(rows, key=itemgetter("ID", "Kernel Name")):
        if "spin_kernel" in kernel_name:  # _sleep's, in front of each way
            found.append([])
        else:
            of_kernel = {names[row["Metric Name"]]: row["Metric Value"] for row in metrics}
            found[-1].append({n: float(v.replace(",", "")) for n, v in of_kernel.items()})
    return dict(zip(_NAMES, found, strict=True))


def _in_a_process(
    kernel: Any, num_warps: Mapping[int, int], device: str, numbers: int, ncu: tuple[str, ...]
) -> str:
    """Return what this module prints in a process of its own, under ``ncu`` if that is given."""
    if device == "cuda" and not available(device):
        raise RuntimeError(available(device).reason)
    if ncu and not shutil.which(ncu[0]):
        raise RuntimeError(f"{ncu[0]} is missing: it comes with NVIDIA's Nsight Compute")
    task = {
        "text": kernel_text(kernel),
        "name": kernel.fn.__name__,
        "num_warps": list(num_warps.items()),
        "device": device,
        "numbers": numbers,
        "counters": bool(ncu),
    }
    done = subprocess.run(
        [*ncu, sys.executable, "-m", __name__],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1" if device == "cpu" else "0"},
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-2000:])
    return done.stdout


def _rates(task: Mapping[str, Any]) -> dict[str, list[float]]:
    device, rates = task["device"], dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:  # Triton reads the source from a file
        path = Path(folder, "kernels.py")
        path.write_text(task["text"], encoding="utf-8")
        kernels: dict[str, Any] = {"__name__": "kernels"}
        exec(compile(task["text"], path, "exec"), kernels)
        for n_cols, num_warps in task["num_warps"]:
            rows = max(1, task["numbers"] // n_cols)
            x = torch.randn(rows, n_cols, generator=generator(0, device), device=device) + 3
            x = x.bfloat16()
            ways = _ways(kernels[task["name"]], num_warps, x)
            _check(ways, x)
            if task["counters"]:
                _once_under_ncu([*ways.values(), partial(norms.layer_norm, x, (n_cols,))])
            elif device == "cuda":
                moved = 2 * x.nbytes
                for way, timing in measure_in_turns(ways, device, bytes_moved=moved).items():
                    rates.setdefault(way, []).append(timing.gbps or 0.0)
    if rates:
        rates[COPY] = [copy_bandwidth(device, torch.bfloat16)] * len(task["num_warps"])
    return rates


@torch.no_grad()
def _once_under_ncu(ways: Sequence[Callable[[], Tensor]]) -> None:
    for way in ways:
        way()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for way in ways:
        torch.cuda._sleep(1)  # a kernel of its own, by which the table can be cut
        way()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _ways(kernel: Any, num_warps: int, x: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Return the norms of ``x`` (M, N) that are compared, each as a call without arguments."""
    (rows, n_cols), y = x.shape, torch.empty_like(x)
    block = 1 << (n_cols - 1).bit_length()

    def yours() -> Tensor:
        kernel[(rows,)](x, y, n_cols, n_cols, EPS=1e-5, BLOCK=block, num_warps=num_warps)
        return y

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (n_cols,))

    calls = [yours, lambda: norm(x)]
    if x.is_cuda:  # on a CPU it would need a C++ compiler
        fused = torch.compile(norm, dynamic=False)
        calls.append(lambda: fused(x))
    return dict(zip(_NAMES, calls, strict=False))


def _check(ways: Mapping[str, Callable[[], Tensor]], x: Tensor) -> None:
    for name, way in ways.items():
        y = way()
        for part in (slice(8), slice(-8, None)):  # float64 of all rows may not fit
            truth = F.layer_norm(x[part].double(), x.shape[1:])
            if not torch.allclose(y[part].double(), truth, rtol=2**-7, atol=2**-7):
                raise RuntimeError(f"{name} is wrong on rows of {x.shape[1]:,}")


if __name__ == "__main__":
    print(json.dumps(_rates(json.load(sys.stdin))))
