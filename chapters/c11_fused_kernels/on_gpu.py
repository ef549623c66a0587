"""Chapter 11: a learner's ``norm_kernel`` on a GPU, timed beside PyTorch's own norms.

The chapter's process interprets its kernels; a process of its own compiles and runs them.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from chapters.c11_fused_kernels.compiled import kernel_text
from course_utils.kernels import available
from course_utils.session import generator
from course_utils.timing.timers import copy_bandwidth, measure_in_turns

__all__ = ["COPY", "rates_of"]

COPY = "a copy"  # the limit: no kernel moves its bytes faster
_ROOT = Path(__file__).parents[2]


def rates_of(
    kernel: Any,
    num_warps: Mapping[int, int],
    device: str = "cuda",
    numbers: int = 2**26,
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
    if device == "cuda" and not available(device):
        raise RuntimeError(available(device).reason)
    task = {
        "text": kernel_text(kernel),
        "name": kernel.fn.__name__,
        "num_warps": list(num_warps.items()),
        "device": device,
        "numbers": numbers,
    }
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1" if device == "cpu" else "0"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-2000:])
    return json.loads(done.stdout)  # type: ignore[no-any-return]


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
            if device == "cuda":
                moved = 2 * x.nbytes
                for way, timing in measure_in_turns(ways, device, bytes_moved=moved).items():
                    rates.setdefault(way, []).append(timing.gbps or 0.0)
    if rates:
        rates[COPY] = [copy_bandwidth(device, torch.bfloat16)] * len(task["num_warps"])
    return rates


def _ways(kernel: Any, num_warps: int, x: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Return the norms of ``x`` (M, N) that are compared, each as a call without arguments."""
    (rows, n_cols), y = x.shape, torch.empty_like(x)
    block = 1 << (n_cols - 1).bit_length()

    def yours() -> Tensor:
        kernel[(rows,)](x, y, n_cols, n_cols, EPS=1e-5, BLOCK=block, num_warps=num_warps)
        return y

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (n_cols,))

    ways = {"norm_kernel": yours, "F.layer_norm": lambda: norm(x)}
    if x.is_cuda:  # on a CPU it would need a C++ compiler
        fused = torch.compile(norm, dynamic=False)
        ways["torch.compile"] = lambda: fused(x)
    return ways


def _check(ways: Mapping[str, Callable[[], Tensor]], x: Tensor) -> None:
    for name, way in ways.items():
        y = way()
        for part in (slice(8), slice(-8, None)):  # float64 of all rows may not fit
            truth = F.layer_norm(x[part].double(), x.shape[1:])
            if not torch.allclose(y[part].double(), truth, rtol=2**-7, atol=2**-7):
                raise RuntimeError(f"{name} is wrong on rows of {x.shape[1]:,}")


if __name__ == "__main__":
    print(json.dumps(_rates(json.load(sys.stdin))))
