"""What the notebooks of *Normalization and Position, Proved Cell by Cell* share.

Importing this package is light: each room below loads what it needs when it is first used.

    norms         layer, RMS, group, instance and batch norm: functions and modules, drop-in for
                  torch.nn; their gradients by hand; moments and moving averages
    rope          sinusoidal and rotary positions, ALiBi, T5; every way to scale RoPE; a model's
                  config.json
    kernels       layer norm, RMS norm and RoPE in Triton
    models        the small networks that the chapters train, and a real one, pretrained
    swap          the course's layers, or yours, inside the models of transformers
    verify        mine against a reference, both against float64; what anybody's layer computes
    check         the engine of the exercises: checks that name the mistake
    timing        timers, bytes, the roofline
    experiments   what is measured with several seeds: settings, runs, records, rows
    plots         the style and the figures that several chapters draw
    widgets       what the interactive figures share, and those that several chapters show
    data          small data, with its licence
    claims        sentences with a verdict, and the evidence that a cell computes for them
    table, progress, progress_bar, session   what a notebook shows, keeps and begins with

What one chapter alone needs lies in ``chapters/``, in a folder named like its notebook.
"""

import logging
import sys
from importlib import import_module
from typing import Any

from course_utils.rooms import MissingExtra, submodules

__version__ = "1.0.0"
__all__ = ["Claims", "Table", "__version__", "generator", "setup"]

# public name -> the module that defines it, imported when the name is first asked for
_HOMES = {"Claims": "claims", "Table": "table", "generator": "session", "setup": "session"}
_ROOMS = (
    "check", "data", "experiments", "kernels", "models", "norms", "plots", "rope", "runs", "swap",
    "timing", "verify", "widgets",
)  # fmt: skip
_room = submodules(__name__)

sys.meta_path.append(MissingExtra)  # type: ignore[arg-type]
# Where nothing can be written at home, matplotlib takes a temporary folder and would say so in the
# first cell.
logging.getLogger("matplotlib").addFilter(
    lambda record: record.funcName != "_get_config_or_cache_dir"
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"course_utils.{_HOMES[name]}"), name)
    return _room(name)


def __dir__() -> list[str]:
    return sorted((*__all__, *_ROOMS))
