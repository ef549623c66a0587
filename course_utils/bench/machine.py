"""What a figure depends on: the device, its driver and the versions of everything in between."""

import platform
import shutil
import subprocess
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import course_utils
from course_utils.bench import peers

__all__ = ["provenance"]


def provenance(device: str, quick: bool, seed: int, freed_memory_kept: bool) -> dict[str, Any]:
    """Return where figures come from, as a record has it, without the command.

    Args:
        device: "cpu" or "cuda".
        quick: whether the run is a short one.
        seed: of the inputs.
        freed_memory_kept: whether ``profiling.keep_freed_memory`` took effect.
    """
    on_gpu = device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if on_gpu else _processor(),
        "device_type": device,
        "driver": _driver() if on_gpu else None,
        "threads": torch.get_num_threads(),
        "allocator": "freed memory kept" if freed_memory_kept else "the system's",
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": metadata.version("triton") if find_spec("triton") else None,
        "peers": peers.versions(),
        "course": course_utils.__version__,
        "seed": seed,
        "quick": quick,
    }


def _processor() -> str:
    """Return the processor's name, or its architecture where the system does not tell the name."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or platform.machine()


def _driver() -> str | None:
    """Return the version of NVIDIA's driver, or None where ``nvidia-smi`` is missing."""
    lines = _output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()
    return lines[0].strip() if lines else None


def _output_of(*command: str) -> str:
    """Return what ``command`` prints; nothing where there is no such command or it fails."""
    if not shutil.which(command[0]):
        return ""
    finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return finished.stdout.strip() if finished.returncode == 0 else ""
