"""Compiling without a GPU in chapter 11: what is read from machine code, and what is refused."""

import pytest
import torch

from chapters.c11_fused_kernels import exercises
from chapters.c11_fused_kernels.compiled import compiled
from chapters.c11_fused_kernels.on_gpu import rates_of
from chapters.c11_fused_kernels.workbench import language

pytest.importorskip("triton", reason="Triton is not installed (it exists for Linux only)")
HALF = torch.bfloat16
triton, tl = language()


def decorated(function):
    return function


@decorated  # as by a check: not known where it is compiled
@triton.jit
def inside(n, BLOCK: tl.constexpr):
    return tl.arange(0, BLOCK) < n


@decorated
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    slots = tl.program_id(0) * n + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + slots, mask=inside(n, BLOCK), other=0.0).to(tl.float32)
    tl.store(y_ptr + slots, 2 * x / tl.sum(x), mask=inside(n, BLOCK))


@triton.jit
def unknown(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), nobody)  # noqa: F821


def doubled(n, **how):
    return compiled(double, HALF, HALF, n, BLOCK=1 << (n - 1).bit_length(), **how)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_row_that_16_divides_is_read_once_16_bytes_at_a_time(target):
    code = doubled(4096, target=target)
    assert code.threads == {"sm_80": 128, "gfx942": 256}[target]
    assert set(code.loads) == {16}
    assert code.read == 4096 * 2
    assert 16 < code.registers < 80
    assert code.spilled == 0


def test_other_rows_are_loaded_a_number_at_a_time_and_masked_slots_count():
    code = doubled(4100)
    assert code.loads == {2: 8192 // 128}
    assert code.read == 8192 * 2


def test_a_row_that_does_not_fit_spills():
    code = doubled(8192, num_warps=1)
    assert (code.registers, code.spilled > 0) == (255, True)
    assert doubled(8192, num_warps=8).spilled == 0


@pytest.mark.parametrize(
    ("arguments", "how", "error", "words"),
    [
        ((HALF, HALF, 16), {"target": "h100"}, ValueError, "target must be .*: got 'h100'"),
        (
            (HALF, HALF, 16),
            {"target": "sm_1"},
            RuntimeError,
            "double does not compile for .*'sm_1'",
        ),
        ((HALF, HALF, 16), {"num_warps": 3}, ValueError, "num_warps must be .*: got 3"),
        ((HALF, 16), {}, TypeError, "missing a required argument: 'n'"),
        ((HALF, "x", 16), {}, TypeError, "y_ptr must be a dtype, .*: got 'x'"),
    ],
)
def test_an_argument_that_is_wrong_is_named(arguments, how, error, words):
    with pytest.raises(error, match=words):
        compiled(double, *arguments, BLOCK=16, **how)


def test_what_the_compiler_refuses_is_told():
    with pytest.raises(RuntimeError, match=r"(?s)unknown does not compile.*nobody is not defined"):
        compiled(unknown, HALF, BLOCK=16)


def test_without_triton_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("chapters.c11_fused_kernels.compiled.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="needs Triton"):
        compiled(double, HALF, HALF, 16, BLOCK=16)


def test_bytes_spilled_and_of_the_narrowest_load_are_those_recorded():
    """Of two cases; tests/soak has the others."""
    assert exercises.norm_compiled(256, 2, num_warps=2) == (0, 8)
    assert exercises.norm_compiled(3072, 2, num_warps=4) == (0, 16)


def test_without_a_gpu_a_kernel_is_run_there_by_the_interpreter_and_a_wrong_one_is_refused():
    with pytest.raises(RuntimeError, match="norm_kernel is wrong on rows of 100"):
        rates_of(hasty, {64: 1, 100: 2}, device="cpu", numbers=1000)
    right = exercises._jitted(exercises._norm_kernel)
    assert rates_of(right, {64: 1, 100: 2}, device="cpu", numbers=1000) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_told_before_anything_runs():
    with pytest.raises(RuntimeError, match="PyTorch sees none"):
        rates_of(double, {64: 1})


@triton.jit
def hasty(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
    slots = tl.arange(0, BLOCK)
    here = tl.program_id(0) * stride + slots
    x = tl.load(x_ptr + here, mask=slots < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(x) / n_cols
    rstd = tl.rsqrt(tl.sum((x - mean) * (x - mean)) / n_cols + EPS)  # wrong with padding
    tl.store(y_ptr + here, (x - mean) * rstd, mask=slots < n_cols)
