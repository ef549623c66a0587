"""Right kernels as others write them: five for each exercise of chapter 11.

Plain functions: a check makes kernels of them. By name: guards, chunks, tiles, block pointers,
scalars, other formulas.
"""

from types import SimpleNamespace

tl = SimpleNamespace(constexpr="constexpr")  # Triton's when they run


def norm_in_three_scalar_loops(
    x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr
):
    x_ptr += tl.program_id(0) * stride
    y_ptr += tl.program_id(0) * n_cols
    mean = 0.0
    for i in range(n_cols):
        mean += tl.load(x_ptr + i).to(tl.float32) / n_cols
    variance = 0.0
    for i in range(n_cols):
        centred = tl.load(x_ptr + i).to(tl.float32) - mean
        variance += centred * centred / n_cols
    for i in range(n_cols):
        tl.store(y_ptr + i, (tl.load(x_ptr + i).to(tl.float32) - mean) / tl.sqrt(variance + EPS))


def norm_by_block_pointers(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_block = tl.make_block_ptr(x_ptr + row * stride, (n_cols,), (1,), (0,), (BLOCK,), (0,))
    y_block = tl.make_block_ptr(y_ptr + row * n_cols, (n_cols,), (1,), (0,), (BLOCK,), (0,))
    x = tl.load(x_block, boundary_check=(0,), padding_option="zero").to(tl.float32)
    centred = tl.where(tl.arange(0, BLOCK) < n_cols, x - tl.sum(x, 0) / n_cols, 0.0)
    y = centred * tl.rsqrt(tl.sum(centred * centred, 0) / n_cols + EPS)
    tl.store(y_block, y.to(y_ptr.dtype.element_ty), boundary_check=(0,))


def norm_in_tiles_of_four(x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    slots = tl.arange(0, 4)
    total = tl.zeros((4,), dtype=tl.float32)
    for start in range(0, n_cols, 4):
        at = start + slots
        total += tl.load(x_ptr + row * stride + at, mask=at < n_cols, other=0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols
    squares = tl.zeros((4,), dtype=tl.float32)
    for start in range(0, n_cols, 4):
        at = start + slots
        x = tl.load(x_ptr + row * stride + at, mask=at < n_cols, other=0).to(tl.float32)
        squares += tl.where(at < n_cols, (x - mean) * (x - mean), 0.0)
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + EPS)
    for start in range(0, n_cols, 4):
        at = start + slots
        x = tl.load(x_ptr + row * stride + at, mask=at < n_cols, other=0).to(tl.float32)
        tl.store(y_ptr + row * n_cols + at, (x - mean) * rstd, mask=at < n_cols)


def norm_with_masks_as_products(
    x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr
):
    row, slots = tl.program_id(0), tl.arange(0, BLOCK)
    inside = (slots >= 0) * (slots < n_cols) * (row >= 0)
    counts = inside.to(tl.float32)
    x = tl.load(x_ptr + row * stride + slots, mask=inside, other=-7.0).to(tl.float32)
    mean = tl.sum(x * counts) / tl.sum(counts)
    variance = tl.sum((x - mean) * (x - mean) * counts) / tl.sum(counts)
    inside = (row >= 0) & (slots < n_cols)
    tl.store(y_ptr + row * n_cols + slots, (x - mean) / tl.sqrt(variance + EPS), mask=inside)


def norm_shifted_by_its_first_value(
    x_ptr, y_ptr, stride, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr
):
    row, slots = tl.program_id(0), tl.arange(0, BLOCK)
    inside = (slots < n_cols)[None, :]
    x = tl.load(x_ptr + row * stride + slots[None, :], mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(x_ptr + row * stride, mask=n_cols > 0, other=0.0).to(tl.float32)
    shifted = tl.where(inside, x - shift, 0.0)
    mean = tl.sum(shifted, 1, keep_dims=True) / n_cols
    variance = tl.sum(shifted * shifted, 1, keep_dims=True) / n_cols - mean * mean
    y = (shifted - mean) * tl.rsqrt(variance + EPS)
    tl.store(y_ptr + row * n_cols + slots[None, :], y, mask=inside)


def backward_in_chunks_of_rows(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, sums_ptr, n_rows, n_cols,
    BLOCK: tl.constexpr,
):  # fmt: skip
    each = tl.cdiv(n_rows, tl.num_programs(0))
    slots = tl.arange(0, BLOCK)
    inside = slots < n_cols
    w = tl.load(weight_ptr + slots, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK], dtype=tl.float32)
    start = tl.program_id(0) * each
    for row in range(start, tl.minimum(start + each, n_rows)):
        dy = tl.load(dy_ptr + row * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
        x_hat = tl.where(inside, (x - mean) * rstd, 0.0)
        wdy = w * dy
        c1 = tl.sum(x_hat * wdy, axis=0) / n_cols
        c2 = tl.sum(wdy, axis=0) / n_cols
        tl.store(dx_ptr + row * n_cols + slots, (wdy - (x_hat * c1 + c2)) * rstd, mask=inside)
        dweight += dy * x_hat
    tl.store(sums_ptr + tl.program_id(0) * n_cols + slots, dweight, mask=inside)


def backward_with_a_remainder_for_the_last(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, sums_ptr, n_rows, n_cols,
    BLOCK: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    row = program * (n_rows // programs)
    end = row + n_rows // programs
    if program == programs - 1:
        end = n_rows
    slots = tl.arange(0, BLOCK)
    inside = slots < n_cols
    total = tl.zeros((BLOCK,), tl.float32)
    while row < end:
        dy = tl.load(dy_ptr + row * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight_ptr + slots, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = (x - tl.load(mean_ptr + row)) * rstd
        slope = tl.sum(dy * w * x_hat)
        dx = rstd / n_cols * (n_cols * dy * w - tl.sum(dy * w) - x_hat * slope)
        tl.store(dx_ptr + row * n_cols + slots, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        total += x_hat * dy
        row += 1
    tl.store(sums_ptr + program * n_cols + slots, total, mask=inside)


def backward_by_block_pointers(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, sums_ptr, n_rows, n_cols,
    BLOCK: tl.constexpr,
):  # fmt: skip
    program, slots = tl.program_id(0), tl.arange(0, BLOCK)
    shape, strides, block = (n_rows, n_cols), (n_cols, 1), (1, BLOCK)
    at = (program, 0)
    dy_block = tl.make_block_ptr(dy_ptr, shape, strides, at, block, (1, 0))
    x_block = tl.make_block_ptr(x_ptr, shape, strides, at, block, (1, 0))
    dx_block = tl.make_block_ptr(dx_ptr, shape, strides, at, block, (1, 0))
    w = tl.load(weight_ptr + slots, mask=slots < n_cols, other=0.0)[None, :].to(tl.float32)
    total = tl.zeros((1, BLOCK), tl.float32)
    for row in range(program, n_rows, tl.num_programs(0)):
        dy = tl.load(dy_block, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = tl.where(slots[None, :] < n_cols, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        g = dy * w
        both = tl.sum(g, 1)[:, None] + x_hat * tl.sum(g * x_hat, 1)[:, None]
        dx = rstd * (g - both / n_cols)
        tl.store(dx_block, dx.to(dx_ptr.dtype.element_ty), boundary_check=(0, 1))
        total += dy * x_hat
        dy_block = tl.advance(dy_block, (tl.num_programs(0), 0))
        x_block = tl.advance(x_block, (tl.num_programs(0), 0))
        dx_block = tl.advance(dx_block, (tl.num_programs(0), 0))
    tl.store(sums_ptr + program * n_cols + slots, tl.sum(total, 0), mask=slots < n_cols)


def backward_two_rows_at_a_time(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, sums_ptr, n_rows, n_cols,
    BLOCK: tl.constexpr,
):  # fmt: skip
    slots = tl.arange(0, BLOCK)[None, :]
    weight = tl.load(weight_ptr + slots, mask=slots < n_cols, other=0.0).to(tl.float32)
    total = tl.zeros((2, BLOCK), tl.float32)
    for turn in range(tl.cdiv(n_rows, 2 * tl.num_programs(0))):
        rows = 2 * (tl.program_id(0) + turn * tl.num_programs(0)) + tl.arange(0, 2)[:, None]
        inside = (rows < n_rows) & (slots < n_cols)
        dy = tl.load(dy_ptr + rows * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < n_rows, other=0.0)
        rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)
        x_hat = tl.where(inside, (x - mean) * rstd, 0.0)
        g = dy * weight
        dx = g - tl.sum(g, 1, keep_dims=True) / n_cols
        dx -= x_hat * tl.sum(g * x_hat, 1, keep_dims=True) / n_cols
        tl.store(dx_ptr + rows * n_cols + slots, dx * rstd, mask=inside)
        total += dy * x_hat
    sums = tl.sum(total, 0, keep_dims=True)
    tl.store(sums_ptr + tl.program_id(0) * n_cols + slots, sums, mask=slots < n_cols)


def backward_with_atomics_on_its_own_row(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, sums_ptr, n_rows, n_cols,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Nobody else adds to that row, and it has been set to zero: right, and it moves more."""
    slots = tl.arange(0, BLOCK)
    inside = slots < n_cols
    sums = sums_ptr + tl.program_id(0) * n_cols + slots
    tl.store(sums, tl.zeros((BLOCK,), tl.float32), mask=inside)
    weight = tl.load(weight_ptr + slots, mask=inside, other=0.0).to(tl.float32)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        dy = tl.load(dy_ptr + row * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n_cols + slots, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = (x - tl.load(mean_ptr + row)) * rstd
        g = dy * weight
        dx = (g - tl.sum(g) / n_cols - x_hat * (tl.sum(g * x_hat) / n_cols)) * rstd
        tl.store(dx_ptr + row * n_cols + slots, dx, mask=inside)
        tl.atomic_add(sums, dy * x_hat, mask=inside)


def rope_on_a_flat_block(
    x_ptr, cos_ptr, sin_ptr, stride, n_positions, n_pairs, POSITIONS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    flat = tl.arange(0, POSITIONS * PAIRS)
    t, i = tl.program_id(0) * POSITIONS + flat // PAIRS, flat % PAIRS
    ok = (t < n_positions) * (i < n_pairs)
    x1 = tl.load(x_ptr + t * stride + i, mask=ok)
    x2 = tl.load(x_ptr + t * stride + i + n_pairs, mask=ok)
    cos = tl.load(cos_ptr + t * n_pairs + i, mask=ok).to(tl.float32)
    sin = tl.load(sin_ptr + t * n_pairs + i, mask=ok).to(tl.float32)
    y1 = x1.to(tl.float32) * cos - x2.to(tl.float32) * sin
    y2 = x2.to(tl.float32) * cos + x1.to(tl.float32) * sin
    tl.store(x_ptr + t * stride + i, y1.to(x_ptr.dtype.element_ty), mask=ok)
    tl.store(x_ptr + t * stride + i + n_pairs, y2.to(x_ptr.dtype.element_ty), mask=ok)


def rope_by_block_pointers(
    x_ptr, cos_ptr, sin_ptr, stride, n_positions, n_pairs, POSITIONS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    shape, block = (n_positions, n_pairs), (POSITIONS, PAIRS)
    at = (tl.program_id(0) * POSITIONS, 0)
    cos_block = tl.make_block_ptr(cos_ptr, shape, (n_pairs, 1), at, block, (1, 0))
    sin_block = tl.make_block_ptr(sin_ptr, shape, (n_pairs, 1), at, block, (1, 0))
    left_block = tl.make_block_ptr(x_ptr, shape, (stride, 1), at, block, (1, 0))
    right_block = tl.make_block_ptr(x_ptr + n_pairs, shape, (stride, 1), at, block, (1, 0))
    cos = tl.load(cos_block, boundary_check=(0, 1))
    sin = tl.load(sin_block, boundary_check=(0, 1))
    left = tl.load(left_block, boundary_check=(0, 1)).to(tl.float32)
    right = tl.load(right_block, boundary_check=(0, 1)).to(tl.float32)
    turned = (left * cos - right * sin).to(x_ptr.dtype.element_ty)
    tl.store(left_block, turned, boundary_check=(0, 1))
    turned = (left * sin + right * cos).to(x_ptr.dtype.element_ty)
    tl.store(right_block, turned, boundary_check=(0, 1))


def rope_in_scalar_loops(
    x_ptr, cos_ptr, sin_ptr, stride, n_positions, n_pairs, POSITIONS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * POSITIONS
    for t in range(first, first + POSITIONS):
        if t < n_positions:
            for i in range(n_pairs):
                cos = tl.load(cos_ptr + t * n_pairs + i)
                sin = tl.load(sin_ptr + t * n_pairs + i)
                one = tl.load(x_ptr + t * stride + i).to(tl.float32)
                two = tl.load(x_ptr + t * stride + n_pairs + i).to(tl.float32)
                tl.store(x_ptr + t * stride + i, one * cos - two * sin)
                tl.store(x_ptr + t * stride + n_pairs + i, one * sin + two * cos)


def rope_in_tiles_of_two_pairs(
    x_ptr, cos_ptr, sin_ptr, stride, n_positions, n_pairs, POSITIONS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    t = (tl.program_id(0) * POSITIONS + tl.arange(0, POSITIONS)).to(tl.int64)
    for start in range(tl.cdiv(n_pairs, 2)):
        i = 2 * start + tl.arange(0, 2)
        ok = (t < n_positions)[:, None] & (i < n_pairs)[None, :]
        angles = t[:, None] * n_pairs + i[None, :]
        places = t[:, None] * stride + i[None, :]
        sin, cos = tl.load(sin_ptr + angles, ok, 0.0), tl.load(cos_ptr + angles, ok, 1.0)
        second = tl.load(x_ptr + places + n_pairs, ok, 0.0).to(tl.float32)
        first = tl.load(x_ptr + places, ok, 0.0).to(tl.float32)
        tl.store(x_ptr + places + n_pairs, sin * first + cos * second, ok)
        tl.store(x_ptr + places, cos * first - sin * second, ok)


def rope_with_its_tables_read_twice(
    x_ptr, cos_ptr, sin_ptr, stride, n_positions, n_pairs, POSITIONS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * POSITIONS + tl.arange(0, POSITIONS)[:, None]
    i = tl.arange(0, PAIRS)[None, :]
    ok = (t < n_positions) & (i < n_pairs)
    x = tl.load(x_ptr + t * stride + i, mask=ok).to(tl.float32)
    y = tl.load(x_ptr + t * stride + n_pairs + i, mask=ok).to(tl.float32)
    angles = t * n_pairs + i
    new_x = x * tl.load(cos_ptr + angles, mask=ok) - y * tl.load(sin_ptr + angles, mask=ok)
    new_y = x * tl.load(sin_ptr + angles, mask=ok) + y * tl.load(cos_ptr + angles, mask=ok)
    tl.store(x_ptr + t * stride + i, new_x, mask=ok)
    tl.store(x_ptr + t * stride + n_pairs + i, new_y, mask=ok)


KERNELS = {
    "norm_kernel": (
        norm_in_three_scalar_loops,
        norm_by_block_pointers,
        norm_in_tiles_of_four,
        norm_with_masks_as_products,
        norm_shifted_by_its_first_value,
    ),
    "norm_backward_kernel": (
        backward_in_chunks_of_rows,
        backward_with_a_remainder_for_the_last,
        backward_by_block_pointers,
        backward_two_rows_at_a_time,
        backward_with_atomics_on_its_own_row,
    ),
    "rope_kernel": (
        rope_on_a_flat_block,
        rope_by_block_pointers,
        rope_in_scalar_loops,
        rope_in_tiles_of_two_pairs,
        rope_with_its_tables_read_twice,
    ),
}

# What some of them move, where it is more than they must: bytes, the bytes that are enough, how
# many times that is, and what is done too often.
MOVES_MORE = {
    "norm_in_three_scalar_loops": ("4,096", "2,048", "2.0", "reads x 3 times as often as it must"),
    "norm_in_tiles_of_four": ("4,096", "2,048", "2.0", "reads x 3 times as often as it must"),
    "backward_with_a_remainder_for_the_last": (
        *("3,296", "2,656", "1.2"),
        "reads weight 6 times as often as it must",
    ),
    "backward_with_atomics_on_its_own_row": (
        *("4,192", "2,656", "1.6"),
        "reads sums, which it need not, writes sums 7 times as often as it must",
    ),
    "rope_with_its_tables_read_twice": (
        *("4,096", "3,072", "1.3"),
        "reads cos and sin 2 times as often as it must",
    ),
}
ONE_BY_ONE = {"norm_in_three_scalar_loops": "100%", "rope_in_scalar_loops": "100%"}
