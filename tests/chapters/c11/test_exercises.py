"""The exercises of chapter 11: mistakes in kernels are named, right kernels pass in other forms."""

import pytest
import torch
from naming import wrongly_named
from right_answers.kernels import KERNELS, MOVES_MORE, ONE_BY_ONE

from chapters import check
from chapters.c11_fused_kernels.traffic import remarks_on
from chapters.c11_fused_kernels.workbench import Requested, language


@pytest.mark.parametrize("name", ["norm_kernel", "norm_backward_kernel", "rope_kernel"])
def test_every_mistake_in_a_kernel_is_named_and_nothing_else_is(interpreter, name):
    assert interpreter(wrongly_named, name) == []


def reports_on_compiled_kernels():
    """Return what is said of a right kernel that is compiled already and has a helper, and of a
    wrong one that is in no catalogue."""
    global tl, load_row  # where a kernel looks for it
    triton, tl = language()

    @triton.jit
    def load_row(x_ptr, start, n_cols, BLOCK: tl.constexpr):
        slots = tl.arange(0, BLOCK)
        return tl.load(x_ptr + start + slots, mask=slots < n_cols, other=0.0).to(tl.float32)

    @triton.jit
    def norm(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        row, slots = tl.program_id(0), tl.arange(0, BLOCK)
        x = load_row(x_ptr, row * stride, n_cols, BLOCK)
        x = tl.where(slots < n_cols, x - tl.sum(x) / n_cols, 0.0)
        y = x * tl.rsqrt(tl.sum(x * x) / n_cols + EPS)
        tl.store(y_ptr + row * n_cols + slots, y, mask=slots < n_cols)

    @triton.jit
    def strayed(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        y = load_row(x_ptr, tl.program_id(0) * stride + 1_000, n_cols, BLOCK)
        tl.store(y_ptr + tl.arange(0, BLOCK), y)

    return [str(check.norm_kernel(kernel, record=False)) for kernel in (norm, strayed)]


def test_a_compiled_kernel_with_a_helper_passes_and_a_stray_access_is_shown_with_its_launch(
    interpreter,
):
    right, stray = interpreter(reports_on_compiled_kernels)
    assert "passed" in right
    assert "IndexError: a slot reads" in stray
    assert "past the end of x" in stray
    assert "norm_kernel[(1,)](x, y, stride=3, n_cols=3" in stray


def reports_on_styles(name):
    """Return by kernel whether it passes, what is said of it, and the remarks."""
    reports = {kernel.__name__: check[name](kernel, record=False) for kernel in KERNELS[name]}
    return {name: (one.passed, repr(one), list(one.remarks)) for name, one in reports.items()}


@pytest.mark.parametrize("name", KERNELS)
def test_right_kernels_in_unusual_styles_pass_and_hear_what_they_move_too_often(interpreter, name):
    for style, (passed, report, remarks) in interpreter(reports_on_styles, name).items():
        assert passed, report
        about_bytes = [remark for remark in remarks if remark.startswith("right, and moves")]
        if style in MOVES_MORE:
            moved, enough, times, too_often = MOVES_MORE[style]
            assert about_bytes == [
                f"right, and moves {times} times what it must: {moved} bytes, where {enough} are "
                f"enough. It {too_often}. A cache may answer what is asked for again."
            ]
        else:
            assert not about_bytes
        one_by_one = [remark.split()[0] for remark in remarks if "one number at a time" in remark]
        assert one_by_one == ([ONE_BY_ONE[style]] if style in ONE_BY_ONE else [])


def test_bytes_of_no_tensor_of_the_launch_are_too_many_and_a_twentieth_more_is_no_matter():
    least = {"x": Requested(400, 400)}
    assert not remarks_on({"x": Requested(440, 400)}, least)
    (remark,) = remarks_on({"x": Requested(400, 400), "others": Requested(read=200)}, least)
    assert remark.startswith(
        "right, and moves 1.2 times what it must: 1,000 bytes, where 800 are enough. "
        "It reads others, which it need not."
    )


OWN_ROW = "sums = sums_ptr + tl.program_id(0) * n_cols + slots"
ZEROS = "tl.store(sums, tl.zeros((BLOCK,), tl.float32), mask=inside)"
END = "tl.minimum(start + each, n_rows)"
SPOILT = {  # by kernel and edit: the mistake that it is told of
    ("norm_with_masks_as_products", "& (slots < n_cols)", "& (slots <= n_cols)"): "no_mask",
    ("backward_with_atomics_on_its_own_row", ZEROS, "pass"): "added_to_nothing",
    ("backward_with_atomics_on_its_own_row", OWN_ROW, "sums = sums_ptr + slots"): (
        "one_row_of_sums"  # each wipes out what was added before, and no other row is written
    ),
    (
        "backward_with_atomics_on_its_own_row",
        ZEROS,
        "if tl.program_id(0) == 0:\n"
        "        for p in range(tl.num_programs(0)):\n"
        "            tl.store(sums_ptr + p * n_cols + slots, 0.0, mask=inside)",
    ): "zeros_too_late",
    ("backward_in_chunks_of_rows", END, "start + each"): "no_row_guard",
    ("backward_in_chunks_of_rows", END, "n_rows"): "chunks_overlap",
    ("backward_with_a_remainder_for_the_last", "end = n_rows\n", "pass\n"): "rows_missed",
}  # fmt: skip


def names_of_spoilt_kernels():
    from course_utils.check.catalogue import edited

    kernels = {kernel.__name__: (name, kernel) for name in KERNELS for kernel in KERNELS[name]}
    named = []
    for style, old, new in SPOILT:
        name, kernel = kernels[style]
        report = check[name](edited(kernel, {old: new}), record=False)
        named.append((report.passed, report.misconception))
    return named


def test_lanes_atomics_and_chunks_that_are_wrong_are_named(interpreter):
    assert interpreter(names_of_spoilt_kernels) == [(False, key) for key in SPOILT.values()]


def message_on_a_name_of_torch():
    global tl
    triton, tl = language()

    @triton.jit
    def method(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n_cols, other=0.0)
        tl.store(y_ptr, x.mean())

    return check.norm_kernel(method, record=False).message


def test_a_name_of_torch_in_a_kernel_is_told_what_triton_has(interpreter):
    message = interpreter(message_on_a_name_of_torch)
    assert "Triton has no mean, and here it is tl.sum(x) / n (line" in message


@pytest.mark.parametrize(
    ("name", "size"), [("norm_backward_kernel", "n_rows"), ("rope_kernel", "n_positions")]
)
def test_an_example_says_whose_the_spare_rows_are(name, size):
    exercise = check[name].exercise
    for probe in exercise.probes:
        said = f"rows from {size} on are nobody's" in exercise.format_call(probe.call)
        assert said == ("spare" in probe.call.arguments)


def test_a_sum_that_is_0_but_for_rounding_is_shown_as_0():
    exercise = check.norm_backward_kernel.exercise
    x = torch.arange(1.0, 16).double().view(5, 3)
    _, dweight = exercise.adapt(exercise.oracle)(x, x, torch.tensor([1.0, 2.0, 3.0]).double())
    assert dweight.abs().gt(1).tolist() == [True, False, True]
    assert dweight[1] == 0


def report_on_nothing_to_run_it():
    report = check.norm_kernel(print, record=False)
    return report.attempted, report.message


def test_without_the_interpreter_a_kernel_s_check_says_what_is_missing(compiler):
    attempted, message = compiler(report_on_nothing_to_run_it)
    assert not attempted
    assert "TRITON_INTERPRET" in message
