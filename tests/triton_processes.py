"""Processes of their own for Triton.

Triton reads TRITON_INTERPRET when it is imported, which another test of this run may have done
already, so the interpreter lives in a process of its own; a second such process compiles the
kernels for a GPU that need not be there.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

import pytest


def imports_triton(module):
    """Whether Triton is there after importing the module, in a process in which nothing else was
    imported."""
    import_module(module)
    return "triton" in sys.modules


def process(**environment):
    pytest.importorskip("triton", reason="Triton is not installed (it exists for Linux only)")
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with pytest.MonkeyPatch.context() as patch, pool:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield lambda function, *args: pool.submit(function, *args).result()
