"""The exercises of chapter 10: mistakes in kernels are named, right kernels pass in other forms."""

import pytest

from chapters import check
from chapters.c10_fused_kernels.workbench import language


def wrongly_named(name, forms):
    """Return the examples of the mistakes in ``name``, those in the slice ``forms``, that a report
    does not name so."""
    from naming import keys_of

    its_check = getattr(check, name)
    mistakes = its_check.catalogue.items()
    examples = [
        (key, form) for key, mistake in mistakes for form in range(len(mistake.examples))[forms]
    ]
    named = [keys_of(its_check, its_check.catalogue[key].examples[form]) for key, form in examples]
    return [pair for pair in zip(examples, named, strict=True) if pair[1] != [pair[0][0]]]


@pytest.mark.parametrize(
    "forms",
    [slice(1), pytest.param(slice(1, None), marks=pytest.mark.slow)],
    ids=["first", "others"],
)
@pytest.mark.parametrize("name", ["norm_kernel", "norm_backward_kernel", "rope_kernel"])
def test_every_mistake_in_a_kernel_is_named_and_nothing_else_is(interpreter, name, forms):
    assert interpreter(wrongly_named, name, forms) == []


def reports_on_other_forms():
    """Return whether right kernels in other forms pass, and what is said of a wrong one that is in
    no catalogue."""
    global tl, load_row  # where a kernel looks for it
    triton, tl = language()

    @triton.jit
    def load_row(x_ptr, start, n_cols, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        return tl.load(x_ptr + start + lanes, mask=lanes < n_cols, other=0.0).to(tl.float32)

    @triton.jit
    def norm(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + tl.program_id(0) * stride + lanes, mask=lanes < n_cols).to(tl.float32)
        x = tl.where(lanes < n_cols, x, 0.0)
        x = tl.where(lanes < n_cols, x - tl.sum(x, axis=1)[:, None] / n_cols, 0.0)
        x *= tl.rsqrt(tl.sum(x * x, axis=1)[:, None] / n_cols + EPS)
        tl.store(
            y_ptr + tl.program_id(0) * n_cols + lanes,
            x.to(y_ptr.dtype.element_ty),
            mask=lanes < n_cols,
        )

    @triton.jit
    def backward(
        dy_ptr,
        x_ptr,
        weight_ptr,
        mean_ptr,
        rstd_ptr,
        dx_ptr,
        sums_ptr,
        n_rows,
        n_cols,
        BLOCK: tl.constexpr,
    ):  # each program takes neighbours
        each, lanes = tl.cdiv(n_rows, tl.num_programs(0)), tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float32)
        for turn in range(each):
            row = tl.program_id(0) * each + turn
            if row < n_rows:
                dy = load_row(dy_ptr, row * n_cols, n_cols, BLOCK)
                rstd = tl.load(rstd_ptr + row)
                x_hat = (
                    load_row(x_ptr, row * n_cols, n_cols, BLOCK) - tl.load(mean_ptr + row)
                ) * rstd
                g = dy * load_row(weight_ptr, 0, n_cols, BLOCK)
                dx = rstd / n_cols * (n_cols * g - tl.sum(g) - x_hat * tl.sum(g * x_hat))
                tl.store(dx_ptr + row * n_cols + lanes, dx, mask=lanes < n_cols)
                total += dy * x_hat
        tl.store(sums_ptr + tl.program_id(0) * n_cols + lanes, total, mask=lanes < n_cols)

    @triton.jit
    def rope(
        x_ptr,
        cos_ptr,
        sin_ptr,
        stride,
        n_positions,
        n_pairs,
        POSITIONS: tl.constexpr,
        PAIRS: tl.constexpr,
    ):  # a position after the other
        pair = tl.arange(0, PAIRS)
        for position in range(
            tl.program_id(0) * POSITIONS, min((tl.program_id(0) + 1) * POSITIONS, n_positions)
        ):
            cos = tl.load(cos_ptr + position * n_pairs + pair, mask=pair < n_pairs)
            sin = tl.load(sin_ptr + position * n_pairs + pair, mask=pair < n_pairs)
            first_ptr = x_ptr + position * stride + pair
            first = tl.load(first_ptr, mask=pair < n_pairs)
            second = tl.load(first_ptr + n_pairs, mask=pair < n_pairs)
            tl.store(first_ptr, first * cos - second * sin, mask=pair < n_pairs)
            tl.store(first_ptr + n_pairs, first * sin + second * cos, mask=pair < n_pairs)

    @triton.jit
    def doubled(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        y = load_row(x_ptr, tl.program_id(0) * stride + 1_000, n_cols, BLOCK)
        tl.store(y_ptr + tl.arange(0, BLOCK), y)

    answers = {"norm_kernel": norm, "norm_backward_kernel": backward, "rope_kernel": rope}
    reports = [getattr(check, name)(kernel, record=False) for name, kernel in answers.items()]
    return [str(one) for one in reports if not one], str(check.norm_kernel(doubled, record=False))


def test_right_kernels_pass_in_other_forms_and_a_stray_access_is_shown_with_its_launch(interpreter):
    failed, stray = interpreter(reports_on_other_forms)
    assert not failed
    assert "IndexError: a lane reads" in stray
    assert "past the end of x" in stray
    assert "norm_kernel[(1,)](x, y, stride=3, n_cols=3" in stray


def reports_on_row_guards():
    """Return what is said of right kernels with a scalar in their masks, and of one that is right
    but for a last store that goes one lane too far."""
    global tl
    triton, tl = language()

    @triton.jit
    def norm(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
        inside = (row >= 0) & (lanes < n_cols)
        x = tl.load(x_ptr + row * stride + lanes, mask=inside, other=0.0).to(tl.float32)
        x = tl.where(inside, x - tl.sum(x) / n_cols, 0.0)
        y = x * tl.rsqrt(tl.sum(x * x) / n_cols + EPS)
        tl.store(y_ptr + row * n_cols + lanes, y.to(y_ptr.dtype.element_ty), mask=inside)

    @triton.jit
    def too_far(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
        row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
        inside = (row >= 0) & (lanes < n_cols)
        x = tl.load(x_ptr + row * stride + lanes, mask=inside, other=0.0).to(tl.float32)
        x = tl.where(inside, x - tl.sum(x) / n_cols, 0.0)
        y = x * tl.rsqrt(tl.sum(x * x) / n_cols + EPS)
        one_more = (row >= 0) & (lanes <= n_cols)
        tl.store(y_ptr + row * n_cols + lanes, y.to(y_ptr.dtype.element_ty), mask=one_more)

    @triton.jit
    def backward(
        dy_ptr,
        x_ptr,
        weight_ptr,
        mean_ptr,
        rstd_ptr,
        dx_ptr,
        sums_ptr,
        n_rows,
        n_cols,
        BLOCK: tl.constexpr,
    ):
        lanes = tl.arange(0, BLOCK)
        weight = tl.load(weight_ptr + lanes, mask=lanes < n_cols, other=0.0).to(tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for turn in range(tl.cdiv(n_rows, tl.num_programs(0))):
            row = tl.program_id(0) + turn * tl.num_programs(0)
            inside = (row < n_rows) & (lanes < n_cols)
            dy = tl.load(dy_ptr + row * n_cols + lanes, mask=inside, other=0.0).to(tl.float32)
            x = tl.load(x_ptr + row * n_cols + lanes, mask=inside, other=0.0).to(tl.float32)
            mean = tl.load(mean_ptr + row, mask=row < n_rows, other=0.0)
            rstd = tl.load(rstd_ptr + row, mask=row < n_rows, other=0.0)
            x_hat = tl.where(inside, (x - mean) * rstd, 0.0)
            g = dy * weight
            dx = rstd / n_cols * (n_cols * g - tl.sum(g) - x_hat * tl.sum(g * x_hat))
            tl.store(dx_ptr + row * n_cols + lanes, dx, mask=inside)
            total += dy * x_hat
        mask = (tl.program_id(0) >= 0) & (lanes < n_cols)
        tl.store(sums_ptr + tl.program_id(0) * n_cols + lanes, total, mask=mask)

    answers = (
        (check.norm_kernel, norm),
        (check.norm_backward_kernel, backward),
        (check.norm_kernel, too_far),
    )
    reports = [its_check(kernel, record=False) for its_check, kernel in answers]
    return [(report.passed, str(report)) for report in reports]


def test_a_row_guard_in_the_mask_is_right_and_one_lane_too_many_is_not(interpreter):
    (norm, why), (backward, why_not), (too_far, _) = interpreter(reports_on_row_guards)
    assert norm, why
    assert backward, why_not
    assert not too_far


def report_on_nothing_to_run_it():
    report = check.norm_kernel(print, record=False)
    return report.attempted, report.message


def test_without_the_interpreter_a_kernel_s_check_says_what_is_missing(compiler):
    attempted, message = compiler(report_on_nothing_to_run_it)
    assert not attempted
    assert "TRITON_INTERPRET" in message
