"""Compiled kernels: the longest rows fit on every GPU, and the record for `warps_for` is right."""

import json
from pathlib import Path

import pytest
import torch
from kernels.test_kernels import compiled_for_a_gpu, launch_norm
from triton_processes import process

from chapters.c11_fused_kernels import exercises
from chapters.c11_fused_kernels.compiled import WARPS


def launch_forward_alone(features, dtype):
    from course_utils.kernels.norm_function import launch_forward

    x, weight = torch.empty(16, features, dtype=dtype), torch.empty(features, dtype=dtype)
    launch_forward(x, torch.empty_like(x), weight, weight, 1e-5, True)


def spilled_by_the_longest_rows(capability):
    """Bytes spilled by a thread of each kernel, by dtype."""
    from course_utils.kernels.tiling import longest_row

    spilled = {}
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        backward = launch_norm, longest_row(dtype, backward=True), dtype, True
        forward = launch_forward_alone, longest_row(dtype, backward=False), dtype
        for case in (backward, forward):  # the forward kernel of the longer row is the one kept
            for name, (*_, stack) in compiled_for_a_gpu(*case, capability=capability).items():
                spilled[name, str(dtype)] = stack
    return spilled


@pytest.mark.parametrize("capability", [80, 90, 100, 120])
def test_the_longest_rows_spill_nothing(tmp_path, capability):
    for run in process(TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path)):
        spilled = run(spilled_by_the_longest_rows, capability)
    assert len(spilled) == 9
    assert {case: stack for case, stack in spilled.items() if stack} == {}


def test_the_record_of_warps_is_what_the_compiler_makes_of_the_kernel():
    text = Path(exercises.__file__).with_name("warps.json").read_text()
    for row, outcomes in json.loads(text).items():
        n_cols, itemsize = map(int, row.split(" x "))
        for num_warps, outcome in zip(WARPS, outcomes, strict=True):
            if n_cols <= 256 * num_warps:  # the others take a minute each to compile
                assert [*exercises.norm_compiled(n_cols, itemsize, num_warps)] == outcome
