"""What this machine is, in the words that a record quotes."""

import platform
import shutil
import subprocess
from pathlib import Path

import torch

__all__ = ["device_name", "driver"]


def device_name(device_type: str) -> str:
    """Return the name of the GPU ("cuda") or of the processor, or its architecture where the system does not tell."""
    if device_type == "cuda":
        return torch.cuda.get_device_name()
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or platform.machine()


def driver(device_type: str) -> str | None:
    """Return the version of NVIDIA's driver; None for the processor, and where ``nvidia-smi`` is missing."""
    if device_type != "cuda":
        return None
    lines = _output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()
    return lines[0].strip() if lines else None


def _output_of(*command: str) -> str:
    """Return what ``command`` prints; nothing where there is no such command or it fails."""
    if not shutil.which(command[0]):
        return ""
    finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return finished.stdout.strip() if finished.returncode == 0 else ""
