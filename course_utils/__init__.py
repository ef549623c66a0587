"""What the notebooks of *Normalization and Position, Proved Cell by Cell* share.

Importing this package is light: each room below loads what it needs when it is first used.

    norms         layer, RMS, group, instance and batch norm: functions and modules, drop-in for torch.nn; their
                  gradients by hand; moments and moving averages
    rope          sinusoidal and rotary positions, ALiBi, T5; every way to scale RoPE; a model's config.json
    models        the small networks that the chapters train, and a real one, pretrained
    kernels       layer norm, RMS norm and RoPE in Triton
    parallel      synchronised batch norm, processes to run it on, and what it costs
    verify        mine against a reference, both against float64
    timing        timers, bytes, the roofline, the ladder of `course bench`
    check         the exercises: checks that name the mistake
    bugs          the broken functions of chapter 19
    swap          the course's layers, or yours, inside the models of transformers
    experiments   what the chapters measure with several seeds: `course train`
    runs          records of what was measured, a line a run
    plots         the style and the static figures
    widgets       the interactive figures
    conventions   what libraries mean by the same words, each with its proof
    book          claims, the ledger, sources, chapters, words, tables, progress
    data          small data, with its licence
    session       a notebook's first cell
    yours         your passed answers
"""

import logging
import sys
from importlib import import_module
from typing import Any

from course_utils.rooms import MissingExtra, submodules

__version__ = "1.0.0"
__all__ = ["Claims", "Table", "__version__", "generator", "setup"]

# public name -> the module that defines it, imported when the name is first asked for
_HOMES = {"Claims": "book.claims", "Table": "book.tables", "generator": "session", "setup": "session"}
_ROOMS = (
    "bugs", "check", "conventions", "data", "experiments", "kernels", "models", "norms", "parallel", "plots", "rope",
    "runs", "swap", "timing", "verify", "widgets", "yours",
)  # fmt: skip
_room = submodules(__name__)

sys.meta_path.append(MissingExtra)  # type: ignore[arg-type]
# Where nothing can be written at home, matplotlib takes a temporary folder and would say so in the first cell.
logging.getLogger("matplotlib").addFilter(lambda record: record.funcName != "_get_config_or_cache_dir")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"course_utils.{_HOMES[name]}"), name)
    return _room(name)


def __dir__() -> list[str]:
    return sorted((*__all__, *_ROOMS))
