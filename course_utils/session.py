"""What a notebook needs in its first cell: the figure style, a thread count, seeds, one line of
versions.

Every chapter.
"""

import os
import platform

import torch

import course_utils

__all__ = ["generator", "setup"]


def setup(threads: int | None = None) -> None:
    """Set the course's figure style and thread count, and print what the notebook runs on in one
    line.

    Args:
        threads: CPU threads for PyTorch; by default two, the machine every time in this course is
            quoted for, or ``OMP_NUM_THREADS`` where it is set.
    """
    from course_utils import plots

    if threads is None:
        threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
    torch.set_num_threads(threads)
    plots.use_style()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(
        f"course {course_utils.__version__} · Python {platform.python_version()} · "
        f"torch {torch.__version__} · {torch.get_num_threads()} thread{'s' * (threads != 1)} · "
        f"{device}"
    )


def generator(seed: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a fresh ``torch.Generator`` on ``device`` seeded with ``seed``; the global state stays
    as it was."""
    return torch.Generator(device=device).manual_seed(seed)
