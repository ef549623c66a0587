"""The workbench of chapter 11: every slot that a mask lets through is counted."""

import torch

from chapters.c11_fused_kernels.workbench import guarded, language, requested
from course_utils import kernels


def counts_of_notebook_kernels():
    """(bytes read, bytes written) by tensor, for a kernel that is defined here and for layer
    norm."""
    global tl  # where a kernel looks for it
    triton, tl = language()

    @triton.jit
    def add_twice(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        slots = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + slots, mask=slots < n) + tl.load(x_ptr + slots, mask=slots < n)
        first = tl.load(y_ptr)
        tl.atomic_add(out_ptr + slots, x + first, mask=slots < n)

    x, y, out = torch.ones(10, dtype=torch.float16), torch.ones(3), torch.zeros(10)
    rows, weight, bias = torch.ones(6, 20), torch.ones(20), torch.ones(20)
    counts = [
        requested(lambda: add_twice[(3,)](x, y, out, 10, BLOCK=4), x=x, y=y, out=out),
        requested(lambda: add_twice[(3,)](x, y, out, 10, BLOCK=4), x=x),
        requested(lambda: kernels.layer_norm(rows, (20,), weight, bias), x=rows),
        requested(lambda: None, x=x),
    ]
    return out.tolist(), [
        {name: (one.read, one.written) for name, one in count.items()} for count in counts
    ]


def counts_of_copies():
    """(bytes read, bytes written, those one by one) with a scalar condition in the mask, and
    through block pointers."""
    global tl
    triton, tl = language()

    @triton.jit
    def guarded_rows(x_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
        row, slots = tl.program_id(0), tl.arange(0, BLOCK)
        inside = (row < n_rows) & (slots < n_cols)
        x = tl.load(x_ptr + row * n_cols + slots, mask=inside, other=0.0)
        tl.store(x_ptr + row * n_cols + slots, x, mask=inside)

    @triton.jit
    def by_block_pointers(x_ptr, n, BLOCK: tl.constexpr):
        block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
        x = tl.load(block, boundary_check=(0,), padding_option="zero")
        tl.store(block, x + tl.load(x_ptr), boundary_check=(0,))

    x = torch.ones(3, 5)
    launches = (
        lambda: guarded_rows[(4,)](x, 3, 5, BLOCK=8),
        lambda: by_block_pointers[(1,)](x, 5, BLOCK=8),
    )
    counts = [requested(launch, x=x)["x"] for launch in launches]
    return [(count.read, count.written, count.singly) for count in counts]


def test_row_guards_block_pointers_and_what_is_asked_for_singly_are_counted(interpreter):
    assert interpreter(counts_of_copies) == [(60, 60, 0), (24, 20, 4)]


def last_writers():
    """What each of three programs leaves where all of them write, in the open and guarded."""
    global tl
    triton, tl = language()

    @triton.jit
    def sign(x_ptr):
        tl.store(x_ptr + tl.program_id(1), tl.program_id(0))

    x = torch.zeros(2)
    sign[(3, 2)](x)
    plain = x.tolist()
    with guarded(x=x):
        sign[(3, 2)](x)
    return plain, x.tolist()


def test_the_last_program_runs_first_under_the_guard(interpreter):
    assert interpreter(last_writers) == ([2, 2], [0, 0])


def test_every_lane_that_the_mask_lets_through_is_counted(interpreter):
    out, (every, some, norm, none) = interpreter(counts_of_notebook_kernels)
    assert out == [6.0] * 10  # counted twice, and run each time
    # 10 halves loaded twice; one float for each of 3 programs; 10 floats read and written by atomic
    # additions
    assert every == {"x": (40, 0), "y": (12, 0), "out": (40, 40)}
    assert some == {"x": (40, 0), "others": (12 + 40, 40)}
    assert norm["x"] == (6 * 20 * 4, 0)
    # y, and two numbers a row for the backward pass
    assert norm["others"][1] == 6 * 20 * 4 + 2 * 6 * 4
    assert none == {"x": (0, 0)}
