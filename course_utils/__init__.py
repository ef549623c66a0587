"""What the notebooks of *Normalization and Position, Proved Cell by Cell* share.

Importing this package is light: each module below loads what it needs when it is first used.

    norms         functional and module forms, drop-in for torch.nn; compiled: layer and RMS norm for
                  PyTorch's compiler
    backward      the gradients written by hand; intermediates: beside autograd's, step by step
    statistics    moments that merge, moving averages, Precise BN
    distributed   synchronised batch norm; launch: processes to run it on; lockstep: ranks in one process;
                  sync_cost: bytes and time
    positions     sinusoidal, rotary; position_biases: T5, ALiBi; rotary_embedding: the module with a cache
    rope_scaling  one interface over every way to stretch RoPE; rope_formulas, rope_methods, rope_options: what is
                  behind it; rope_config, rope_config_reader, rope_model_defaults: reading a model's config.json
    longrope      the search for per-pair factors, and the critical dimension
    swap          the course's parts, or yours, inside the models of transformers
    models        the tiny networks of the experiments; decoder: a transformer with exchangeable positions, its
                  windowed_attention; recurrence: a linear one as a loop and as a scan
    experiments   what the chapters measure with several seeds: `course train`
    verify        mine against reference, both against float64; cases: on which inputs; one_call: what is compared
    check         exercise checks and the catalogue of known mistakes
    claims        statements and the evidence for them; ledger: all of them; sources: whose they are;
                  source_layers: the layer norms of the write-ups
    widgets       the interactive figures
    plots         the style and the static figures
    profiling     timing and the limits it is held against; stopwatch: the times of single runs
    memory        what a forward pass keeps for the backward one
    dispatch      the operators that a call comes down to, and the bytes that they move
    bench         the ladder of implementations, timed
    recorded      results measured elsewhere; machine: what a record says of where
    data          small data, with its licence
    kernels       Triton kernels (Triton comes with the course on Linux with x86-64)
    chapters      the order of the notebooks and the ideas in them; progress: what the learner has solved
    conventions   what libraries mean by the same words, each with its proof; glossary: the words of the course
    bugs          the broken pieces of chapter 17
    grading       the checks over a folder of submitted notebooks: `course grade`
    authoring     the tools that make and check the notebooks
    arguments     what an argument must be, and an error that names it where it is something else
    session       a notebook's first cell; tables, progress_bar: how results and waiting look
    doctor        whether this machine can run the course: `course doctor`
"""

import logging
from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Claims", "Table", "__version__", "generator", "setup"]

# public name -> the module that defines it, imported when the name is first asked for
_HOMES = {"Claims": "book.claims", "Table": "book.tables", "generator": "session", "setup": "session"}

# Where nothing can be written at home, matplotlib takes a temporary folder and would say so in the first cell.
logging.getLogger("matplotlib").addFilter(lambda record: record.funcName != "_get_config_or_cache_dir")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'course_utils' has no attribute {name!r}")
    return getattr(import_module(f"course_utils.{_HOMES[name]}"), name)
