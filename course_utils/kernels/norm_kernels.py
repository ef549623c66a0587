"""Layer norm and RMS norm in Triton: each row in the registers of one program, sums without locks.

Chapter 11.

Notation: a *row* is one normalized set of ``num_columns`` features; a program holds a tile of ROWS
x BLOCK, BLOCK a power of two, so the slots from ``num_columns`` on are padding and must add nothing
to any sum. CENTRED is layer norm; without it the mean is taken as zero, which is RMS norm. A
pointer that is None (no weight, no gradient wanted) compiles to nothing. The number of columns and
the strides are compiled in: only then does the compiler know how many bytes it may load at a time
(16 where 8 divides the features of a 16-bit row), at a third of a second for each new number.
"""

import triton
import triton.language as tl

__all__ = ["backward", "column_sums", "forward"]


# what a load tells the cache, for rows that are read twice
ONCE = tl.constexpr("")
KEEP = tl.constexpr("evict_last")
LAST = tl.constexpr("evict_first")


@triton.jit
def load_tile(pointer, rows, stride, columns, inside, DTYPE: tl.constexpr, READ: tl.constexpr):
    """The tile in DTYPE, zeros in the padding; READ tells the cache what is read once more from
    what is read last."""
    # 64-bit row offsets: 65,536 rows of 65,536 features no longer fit 32 bits
    offsets = rows.to(tl.int64)[:, None] * stride + columns[None, :]
    return tl.load(pointer + offsets, mask=inside, other=0.0, eviction_policy=READ).to(DTYPE)


@triton.jit
def store_tile(pointer, rows, stride, columns, inside, values):
    offsets = rows.to(tl.int64)[:, None] * stride + columns[None, :]
    tl.store(pointer + offsets, values.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def load_columns(
    pointer, columns, num_columns, ABSENT: tl.constexpr, DTYPE: tl.constexpr, READ: tl.constexpr
):
    """A parameter's (1, BLOCK) in DTYPE; ABSENT everywhere for a pointer that is None."""
    values = tl.full((columns.shape[0],), ABSENT, DTYPE)
    if pointer is not None:
        values = tl.load(
            pointer + columns, mask=columns < num_columns, other=0.0, eviction_policy=READ
        ).to(DTYPE)
    return values[None, :]


@triton.jit
def standardise(x, mean, rstd, inside, CENTRED: tl.constexpr):
    """x_hat, and zero in the padding: after centring a padding slot holds -mean, not 0."""
    if CENTRED:
        x = x - mean[:, None]
    return tl.where(inside, x * rstd[:, None], 0.0)


@triton.jit
def rounded_mean(total, count):
    """total / count, rounded to nearest.

    A GPU's own float32 division may be two last places off. And its last step is a product, of
    which the assembler makes one operation with a subtraction behind it: the mean that is
    subtracted would not be rounded at all. Behind the sum here it cannot.
    """
    mean = total / count
    return mean + tl.fma(-mean, count, total) / count


@triton.jit
def centre(x, inside, count):
    """Mean of the ``count`` values of each row, and their deviations from it: zero in the
    padding."""
    mean = rounded_mean(tl.sum(x, axis=1), count)
    x = tl.where(inside, x - mean[:, None], 0.0)
    # The mean of what is left is the mean's rounding error; kept in, it gives a constant row of 1e6
    # an output of 1.
    error = rounded_mean(tl.sum(x, axis=1), count)
    return mean + error, tl.where(inside, x - error[:, None], 0.0)


@triton.jit
def forward(
    x_ptr, y_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr,
    num_rows, x_stride: tl.constexpr, num_columns: tl.constexpr,
    EPS: tl.constexpr, CENTRED: tl.constexpr, DTYPE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y = (x - mean) * rstd * weight + bias: x is read once, both statistics are taken from
    registers."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
    x = load_tile(x_ptr, rows, x_stride, columns, inside, DTYPE, ONCE)

    if CENTRED:
        mean, x = centre(x, inside, num_columns)
        tl.store(mean_ptr + rows, mean, mask=rows < num_rows)
    variance = tl.sum(x * x, axis=1) / num_columns
    rstd = tl.rsqrt(variance + EPS)
    tl.store(rstd_ptr + rows, rstd, mask=rows < num_rows)

    y = x * rstd[:, None] * load_columns(weight_ptr, columns, num_columns, 1.0, DTYPE, ONCE)
    if bias_ptr is not None:
        y += load_columns(bias_ptr, columns, num_columns, 0.0, DTYPE, ONCE)
    store_tile(y_ptr, rows, num_columns, columns, inside, y)


@triton.jit
def load_statistics(mean_ptr, rstd_ptr, rows, num_rows, CENTRED: tl.constexpr):
    rstd = tl.load(rstd_ptr + rows, mask=rows < num_rows, other=0.0)
    mean = tl.zeros_like(rstd)
    if CENTRED:
        mean = tl.load(mean_ptr + rows, mask=rows < num_rows, other=0.0)
    return mean, rstd


@triton.jit
def load_for_backward(
    dy_ptr, x_ptr, dy_stride, x_stride, rows, columns, inside, mean, rstd,
    CENTRED: tl.constexpr, DTYPE: tl.constexpr, READ: tl.constexpr,
):  # fmt: skip
    """dy and x_hat, which is computed from x again rather than saved."""
    x = load_tile(x_ptr, rows, x_stride, columns, inside, DTYPE, READ)
    dy = load_tile(dy_ptr, rows, dy_stride, columns, inside, DTYPE, READ)
    return dy, standardise(x, mean, rstd, inside, CENTRED)


@triton.jit
def input_gradient(g, x_hat, rstd, mean_gx, mean_g, CENTRED: tl.constexpr):
    """dx = rstd * (g - x_hat * mean(g * x_hat) - mean(g)) with g = dy * weight."""
    dx = g - x_hat * mean_gx[:, None]
    if CENTRED:
        dx -= mean_g[:, None]
    return dx * rstd[:, None]


@triton.jit
def backward(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dweight_ptr, dbias_ptr,
    num_rows, dy_stride: tl.constexpr, x_stride: tl.constexpr, num_columns: tl.constexpr,
    CENTRED: tl.constexpr, DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    RELOAD: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """All three gradients in one pass: dy and x come from memory once.

    A program takes every num_programs-th tile of rows (with STAGES above 1 the next is fetched
    while one is computed) and keeps its own sums of dweight and dbias in registers; it writes them
    at the end as row ``program_id`` of (num_programs, num_columns), which ``column_sums`` adds up.
    """
    columns = tl.arange(0, BLOCK)
    weight = load_columns(weight_ptr, columns, num_columns, 1.0, DTYPE, ONCE)
    dweight = tl.zeros((ROWS, BLOCK), DTYPE)
    dbias = tl.zeros((ROWS, BLOCK), DTYPE)

    for first in tl.range(
        tl.program_id(0) * ROWS, num_rows, tl.num_programs(0) * ROWS, num_stages=STAGES
    ):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
        mean, rstd = load_statistics(mean_ptr, rstd_ptr, rows, num_rows, CENTRED)
        dy, x_hat = load_for_backward(
            dy_ptr, x_ptr, dy_stride, x_stride, rows, columns, inside, mean, rstd,
            CENTRED, DTYPE, KEEP if RELOAD else ONCE,
        )  # fmt: skip
        if RELOAD:
            weight = load_columns(weight_ptr, columns, num_columns, 1.0, DTYPE, KEEP)
        g = dy * weight
        mean_gx = tl.sum(g * x_hat, axis=1) / num_columns
        mean_g = tl.sum(g, axis=1) / num_columns if CENTRED else mean_gx
        if RELOAD:  # too long a row to be held across the sums: once more, from the cache
            dy, x_hat = load_for_backward(
                dy_ptr,
                x_ptr,
                dy_stride,
                x_stride,
                rows,
                columns,
                inside,
                mean,
                rstd,
                CENTRED,
                DTYPE,
                LAST,
            )
            g = dy * load_columns(weight_ptr, columns, num_columns, 1.0, DTYPE, LAST)

        dx = input_gradient(g, x_hat, rstd, mean_gx, mean_g, CENTRED)
        store_tile(dx_ptr, rows, num_columns, columns, inside, dx)
        dweight += dy * x_hat
        dbias += dy

    mine = tl.program_id(0).to(tl.int64) * num_columns + columns
    if dweight_ptr is not None:
        tl.store(dweight_ptr + mine, tl.sum(dweight, axis=0), mask=columns < num_columns)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + mine, tl.sum(dbias, axis=0), mask=columns < num_columns)


@triton.jit
def sum_columns(
    sums_ptr,
    out_ptr,
    num_programs,
    num_columns,
    DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), DTYPE)
    for first in range(0, num_programs, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < num_programs)[:, None] & (columns < num_columns)[None, :]
        total += load_tile(sums_ptr, rows, num_columns, columns, inside, DTYPE, ONCE)
    tl.store(
        out_ptr + columns,
        tl.sum(total, axis=0).to(out_ptr.dtype.element_ty),
        mask=columns < num_columns,
    )


@triton.jit
def column_sums(
    dweight_sums_ptr, dbias_sums_ptr, dweight_ptr, dbias_ptr, num_programs,
    num_columns: tl.constexpr, DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up the programs' sums, always in the same order, and round once to the parameters' types.

    The grid is (blocks of columns, 2): weight and bias side by side.
    """
    if tl.program_id(1) == 0:
        if dweight_ptr is not None:
            sum_columns(
                dweight_sums_ptr, dweight_ptr, num_programs, num_columns, DTYPE, ROWS, BLOCK
            )
    else:
        if dbias_ptr is not None:  # the outer condition is the program's, this one the compiler's
            sum_columns(dbias_sums_ptr, dbias_ptr, num_programs, num_columns, DTYPE, ROWS, BLOCK)
