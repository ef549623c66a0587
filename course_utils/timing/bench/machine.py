"""What a figure depends on: the device, its driver and the versions of everything in between."""

import platform
from importlib.util import find_spec
from typing import Any

import torch

import course_utils
from course_utils.timing.bench import peers
from course_utils.timing.machine import device_name, driver

__all__ = ["provenance"]


def provenance(device: str, quick: bool, seed: int, freed_memory_kept: bool, processes: int) -> dict[str, Any]:
    """Return where figures come from, as a record has it, without the command.

    Args:
        device: "cpu" or "cuda".
        quick: whether the run is a short one.
        seed: of the inputs.
        freed_memory_kept: whether ``profiling.keep_freed_memory`` took effect.
        processes: how many processes measured each case.
    """
    return {
        "device": device_name(device),
        "device_type": device,
        "driver": driver(device),
        "processes": processes,
        "threads": torch.get_num_threads(),
        "allocator": "freed memory kept" if freed_memory_kept else "the system's",
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": peers.version("triton") if find_spec("triton") else None,
        "peers": peers.versions(),
        "course": course_utils.__version__,
        "seed": seed,
        "quick": quick,
    }
