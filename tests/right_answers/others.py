import functools
import itertools
import math
import statistics
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F

from chapters.c12_scan import exercises as chapter12


def bytes_by_list(rows, features, itemsize=4, backward=False):
    shapes = [(rows, features), (features,), (features,), (rows, features)]
    if backward:
        shapes += [(rows, features)] * 3 + [(features,)] * 3
    return sum(itemsize * math.prod(shape) for shape in shapes)


def bytes_closed_form(rows, features, itemsize=4, backward=False):
    return itemsize * features * (rows + 1) * (2 + 3 * bool(backward))


def bytes_of_meta_tensors(rows, features, itemsize=4, backward=False):
    matrix = torch.empty(rows, features, dtype=torch.int8, device="meta")
    vector = torch.empty(features, dtype=torch.int8, device="meta")
    read = [matrix, vector, vector] + [matrix, matrix, vector] * backward
    written = [matrix] + [matrix, vector, vector] * backward
    return sum(each.nbytes for each in read + written) * itemsize


def bytes_dot(rows, features, itemsize=4, backward=False):
    passes = np.array([[2, 2], [3, 3]])[: 2 if backward else 1]
    return (passes @ np.array([rows * features, features])).sum() * itemsize


def bytes_recursive(rows, features, itemsize=4, backward=False):
    if itemsize > 1:
        return itemsize * bytes_recursive(rows, features, 1, backward)
    if backward:
        forward = bytes_recursive(rows, features, 1)
        return forward + forward * 3 // 2
    return 2 * rows * features + 2 * features


def eager_by_table(rows, features, itemsize=4):
    """Each operator by the shapes that it reads and writes."""
    m, r, v = rows * features, rows, features
    ratio = [(r, r)] * 4  # square, division, sum with eps, rsqrt
    table = [(m, r), (m, r, m), (m, r), *ratio, (m, r, m), (v, m, v, m)]
    return itemsize * sum(map(sum, table))


def eager_by_row(rows, features, itemsize=4):
    return itemsize * (sum(8 * features + 12 for _ in range(rows)) + features + features)


def eager_counted(rows, features, itemsize=4):
    """Every tensor that goes in or comes out, without its numbers."""
    dtype = {2: torch.float16, 4: torch.float32, 8: torch.float64}[itemsize]
    x = torch.empty(rows, features, dtype=dtype, device="meta")
    mean, centred = x.mean(-1, keepdim=True), x
    moved = [x, mean, x, mean, centred, centred, mean] + [mean] * 8
    moved += [centred, mean, centred, x[0], centred, x[0], centred]
    return sum(each.nbytes for each in moved)


def eager_numpy(rows, features, itemsize=4):
    return np.dot([8, 12, 2], [rows * features, rows, features]) * itemsize


def eager_recursive(rows, features, itemsize=4):
    if rows == 0:
        return 2 * features * itemsize
    return eager_recursive(0, 8 * features + 12, itemsize) * rows // 2 + 2 * features * itemsize


def ms_sorted(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    return sorted((bytes_moved / bandwidth_gbps, operations / peak_gflops))[-1] * 1e-6


def ms_numpy(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    work, rates = np.array([bytes_moved, operations]), np.array([bandwidth_gbps, peak_gflops])
    return np.max(1e3 * work / (rates * 1e9))


def ms_by_balance(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    if operations * bandwidth_gbps > bytes_moved * peak_gflops:
        return operations / (peak_gflops * 1_000_000)
    return bytes_moved / (bandwidth_gbps * 1_000_000)


def ms_fractions(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    memory = Fraction(bytes_moved) / Fraction(bandwidth_gbps)
    return float(max(memory, Fraction(operations) / Fraction(peak_gflops)) / 10**6)


def ms_relu(bytes_moved, operations, bandwidth_gbps, peak_gflops):
    memory, work = bytes_moved / bandwidth_gbps / 1e6, operations / peak_gflops / 1e6
    return (memory + work + abs(memory - work)) / 2


def rate_sorted(call, bytes_moved, clock, runs):
    for _ in range(3):  # more runs that are not timed do no harm
        call()
    stamps = []
    for _ in range(runs):
        stamps.append((clock(), call(), clock()))
    times = sorted(after - before for before, _, after in stamps)
    middle = times[(runs - 1) // 2] + times[runs // 2]
    return 2 * bytes_moved / middle * 1e-9


def rate_numpy(call, bytes_moved, clock, runs):
    call()
    edges = [clock()]  # one reading ends a run and begins the next
    for _ in range(runs):
        call()
        edges.append(clock())
    return bytes_moved / np.median(np.diff(edges)) / 10**9


def rate_of_rates(call, bytes_moved, clock, runs):
    def one():
        start = clock()
        call()
        return bytes_moved / (1e9 * (clock() - start))

    return statistics.median([one() for _ in range(runs + 1)][1:])


def rate_torch(call, bytes_moved, clock, runs):
    times = torch.empty(runs + 1, dtype=torch.float64)
    for k in range(runs + 1):
        times[k] = -clock()
        call()
        times[k] += clock()
    return bytes_moved / torch.quantile(times[1:], 0.5) / 1e9


def rate_fractions(call, bytes_moved, clock, runs):
    times = {}
    for k in range(-1, runs):
        start = Fraction(clock())
        call()
        times[k] = Fraction(clock()) - start
    del times[-1]
    return float(Fraction(bytes_moved, 10**9) / statistics.median(times.values()))


def queue_closed(call_us, kernels_us):
    """The last stretch without a wait begins at one of the calls."""
    return max(call_us * (k + 1) + sum(kernels_us[k:]) for k in range(len(kernels_us)))


def queue_recursive(call_us, kernels_us):
    if not kernels_us:
        return 0
    *before, last = kernels_us
    return max(queue_recursive(call_us, before), call_us * len(kernels_us)) + last


def queue_numpy(call_us, kernels_us):
    kernels = np.asarray(kernels_us)
    ends = np.cumsum(kernels)
    waits = call_us * np.arange(1, len(kernels) + 1) - (ends - kernels)
    return (np.maximum.accumulate(waits) + ends)[-1]


def queue_by_the_microsecond(call_us, kernels_us):
    now, waiting, left, to_call = 0, [], 0, [*kernels_us]
    while to_call or waiting or left:
        now += 1
        left = max(left - 1, 0)
        if to_call and now % call_us == 0:
            waiting.append(to_call.pop(0))
        if waiting and not left:
            left = waiting.pop(0)
    return torch.tensor(now)


def queue_by_waits(call_us, kernels_us):
    """The kernels' own time, and what the GPU waits before each."""
    ahead = waited = 0.0
    for kernel in kernels_us:
        wait = max(0, call_us - ahead)
        waited += wait
        ahead = max(0, ahead - call_us) + kernel
    return waited + sum(kernels_us)


def waits_table(share_of_copy, kept, twice, share_of_peak):
    """Two questions, four answers; a third one first."""
    names = [["memory latency", "bandwidth"], ["instructions", "arithmetic"]]
    in_processor = kept >= 3 / 4
    row = names[in_processor][(share_of_peak if in_processor else share_of_copy) >= 1 / 2]
    return row if twice >= 3 / 2 else "overhead"


def waits_match(share_of_copy, kept, twice, share_of_peak):
    match (twice < 1.5, kept < 0.75, share_of_copy < 0.5, share_of_peak < 0.5):
        case (True, _, _, _):
            return "overhead"
        case (_, True, True, _):
            return "memory latency"
        case (_, True, False, _):
            return "bandwidth"
        case (_, False, _, True):
            return "instructions"
    return "arithmetic"


def waits_numpy(share_of_copy, kept, twice, share_of_peak):
    rules = [twice < 1.5, kept < 0.75 and share_of_copy >= 0.5, kept < 0.75, share_of_peak >= 0.5]
    names = ["overhead", "bandwidth", "memory latency", "arithmetic"]
    return str(np.select(rules, names, "instructions"))


def waits_excluded(share_of_copy, kept, twice, share_of_peak):
    """What remains when each measurement has had its say."""
    left = {"overhead", "bandwidth", "memory latency", "arithmetic", "instructions"}
    left &= {"overhead"} if twice < 1.5 else left - {"overhead"}
    if len(left) > 1:
        left -= {"bandwidth", "memory latency"} if kept >= 0.75 else {"arithmetic"}
        left -= {"instructions"} if kept < 0.75 or share_of_peak >= 0.5 else {"arithmetic"}
    if len(left) > 1:
        left -= {"memory latency"} if share_of_copy >= 0.5 else {"bandwidth"}
    return left.pop()


def waits_tensor(share_of_copy, kept, twice, share_of_peak):
    """The words of a sentence, some of them struck out."""
    borders = torch.tensor([0.5, 0.75, 1.5, 0.5], dtype=torch.float64)
    measured = torch.tensor([share_of_copy, kept, twice, share_of_peak], dtype=torch.float64)
    near, keeps, works, busy = (measured >= borders).tolist()
    if not works:
        return "overhead"
    if (busy if keeps else near) == 1:
        return ("bandwidth", "arithmetic")[keeps]
    return ("memory latency", "instructions")[keeps]


def gap_sweep(operators, start, end):
    """Counts how many run, from event to event."""
    events = [(start, 0), (end, 0)]
    for begin, stop in operators:
        if stop > start and begin < end:
            events += [(max(begin, start), 1), (min(stop, end), -1)]
    events.sort(key=lambda event: (event[0], -event[1]))
    running, gaps, since = 0, [], start
    for time, change in events:
        if running == 0 and time > since:
            gaps.append((since, time))
        running += change
        since = time
    return max(gaps, key=lambda gap: gap[1] - gap[0])


def gap_merged(operators, start, end):
    busy = []
    for begin, stop in sorted(operators):
        if busy and begin <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], stop)
        else:
            busy.append([begin, stop])
    edges = [start, *(min(max(t, start), end) for stretch in busy for t in stretch), end]
    gaps = list(zip(edges[::2], edges[1::2], strict=True))
    return max(reversed(gaps), key=lambda gap: gap[1] - gap[0])  # of equal ones the last


def gap_by_the_microsecond(operators, start, end):
    best, since = (start, start), None
    for time in range(start, end + 1):
        idle = time < end and not any(b <= time < e for b, e in operators)
        if idle and since is None:
            since = time
        if not idle and since is not None:
            if time - since > best[1] - best[0]:
                best = (since, time)
            since = None
    return torch.tensor(best[0]), torch.tensor(best[1])


def gap_numpy(operators, start, end):
    ordered = np.array(sorted(operators)).clip(start, end)
    free = np.maximum.accumulate(np.concatenate([[start], ordered[:, 1]]))
    begins = np.concatenate([ordered[:, 0], [end]])
    widest = (begins - free).argmax()
    return free[widest], begins[widest]


def gap_recursive(operators, start, end):
    inside = [(b, e) for b, e in operators if e > start and b < end]
    if not inside:
        return start, end
    begin, stop = min(inside)
    first = (start, max(begin, start))
    rest = gap_recursive(inside, min(max(stop, start), end), end) if stop < end else (end, end)
    return max(first, rest, key=lambda gap: gap[1] - gap[0])


def keep_table(x_is_kept, y_is_kept):
    table = {(False, False): ["x_hat"], (True, False): ["x", "mean"]}
    return {*table.get((bool(x_is_kept), bool(y_is_kept)), ["y"]), "rstd"}


def keep_match(x_is_kept, y_is_kept):
    match (x_is_kept, y_is_kept):
        case (_, True):
            return {"y", "rstd"}
        case (True, _):
            return {"x", "mean", "rstd"}
    return {"x_hat", "rstd"}


def keep_search(x_is_kept, y_is_kept):
    cost = {"x": 0 if x_is_kept else 1e3, "y": 0 if y_is_kept else 1e3, "x_hat": 1e3}
    cost |= {"mean": 1, "rstd": 1}
    enough = ({"x_hat", "rstd"}, {"y", "rstd"}, {"x", "mean", "rstd"})
    return min(enough, key=lambda names: sum(cost[name] for name in names))


def keep_frozen(x_is_kept, y_is_kept):
    return frozenset({"rstd"}) | ({"y"} if y_is_kept else {"x", "mean"} if x_is_kept else {"x_hat"})


def keep_flags(x_is_kept, y_is_kept):
    from_x = x_is_kept and not y_is_kept
    flags = {"x": from_x, "mean": from_x, "y": y_is_kept, "rstd": True}
    flags["x_hat"] = not (x_is_kept or y_is_kept)
    return {name for name, flag in flags.items() if flag}


def warps_numpy(n_cols, itemsize):
    slots = 2 ** int(np.ceil(np.log2(n_cols)))
    return int(np.clip(slots // 1024, 1, 16))


def warps_doubled(n_cols, itemsize):
    warps = 1
    while warps < 16 and n_cols * itemsize > warps * 32 * 128:
        warps *= 2
    return warps


def warps_searched(n_cols, itemsize):
    fewest = (n for n in (1, 2, 4, 8, 16, 32) if n_cols / n / 32 <= 128)
    return next(fewest)


def warps_most(n_cols, itemsize):
    block = 1 << math.ceil(math.log2(n_cols))
    return max(n for n in (1, 2, 4, 8, 16, 32) if n == 1 or block * itemsize >= n * 32 * 16)


def warps_bits(n_cols, itemsize):
    return 1 << min(5, max(0, (n_cols * itemsize - 1).bit_length() - 10))


def scan_neutral(a, b, h0=None):
    if h0 is not None:
        b = torch.cat([torch.addcmul(b[:, :1], a[:, :1], h0.unsqueeze(1)), b[:, 1:]], dim=1)
    for log in range((b.shape[1] - 1).bit_length()):
        back = (0, 0, 2**log, -(2**log))  # shifted, a step that changes nothing in front
        a, b = a * F.pad(a, back, value=1.0), torch.addcmul(b, a, F.pad(b, back))
    return b


def scan_halves(a, b, h0=None):
    """Both halves of a power of two at once, as two sequences."""
    if h0 is not None:
        a, b = (torch.cat((first[:, None], x), 1) for first, x in ((0 * h0, a), (h0, b)))
        return scan_halves(a, b)[:, 1:]
    B, T, C = b.shape
    if T == 1:
        return b
    half = 1 << (T - 1).bit_length() - 1
    fill = (0, 0, 0, 2 * half - T)
    gates, added = (F.pad(x, fill, value=1.0).reshape(2 * B, half, C) for x in (a, b))
    earlier, later = scan_halves(gates, added).view(B, 2, half, C).unbind(1)
    passed = gates.view(B, 2, half, C)[:, 1].cumprod(1)
    return torch.cat((earlier, later + passed * earlier[:, -1:]), 1)[:, :T]


def scan_matrix(a, b, h0=None):
    T = b.shape[1]
    t, s = torch.arange(T)[:, None], torch.arange(T)[None]
    gates = torch.where((t > s)[None, :, :, None], a[:, :, None], 1.0).cumprod(1)
    gates = gates * (t >= s).to(a.dtype)[None, :, :, None]
    states = torch.einsum("btsc,bsc->btc", gates, b)
    return states if h0 is None else states + a.cumprod(1) * h0[:, None]


def scan_affine(a, b, h0=None):
    """Steps as matrices of 2 by 2, put to (h0, 1)."""
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    steps = torch.stack([a, b, zero, one], -1).unflatten(-1, (2, 2))
    k = 1
    while k < a.shape[1]:
        steps = torch.cat((steps[:, :k], steps[:, k:] @ steps[:, :-k]), 1)
        k <<= 1
    start = torch.zeros_like(b[:, 0]) if h0 is None else h0
    return steps[..., 0, 0] * start[:, None] + steps[..., 0, 1]


def scan_odd_even(a, b, h0=None):
    if h0 is not None:
        ones = torch.ones_like(a[:, :1])
        return scan_odd_even(torch.cat((ones, a), 1), torch.cat((h0[:, None], b), 1))[:, 1:]
    if (T := b.shape[1]) == 1:
        return b
    n = T // 2 * 2
    a_odd, b_odd = a[:, 1:n:2], b[:, 1:n:2]
    odd = scan_odd_even(a[:, 0:n:2] * a_odd, a_odd * b[:, 0:n:2] + b_odd)
    before = torch.cat((torch.zeros_like(b[:, :1]), odd), 1)[:, : (T + 1) // 2]
    states = torch.empty_like(b)
    states[:, 0::2], states[:, 1::2] = a[:, 0::2] * before + b[:, 0::2], odd
    return states


def chunks_by_border(a, q, k, v, L=64):
    """Chunk by chunk, the state in hand."""
    H, y = torch.zeros_like(k[0])[:, None] * v[0], []
    for gates, queries, keys, values in zip(*(x.split(L) for x in (a, q, k, v)), strict=True):
        left, passed = chapter12.left_of(gates), gates.cumprod(0)[:, None]
        y.append(queries @ keys.T * left @ values + passed * (queries @ H))
        H = passed[-1] * H + (left[-1, :, None] * keys).T @ values
    return torch.cat(y)


def chunks_all_pairs(a, q, k, v, L=64):
    return torch.einsum("td,sd,ts,se->te", q, k, chapter12.left_of(a), v)


def chunks_of_states(a, q, k, v, L=64):
    """Every state by the scan; L is not needed."""
    written = torch.einsum("td,te->tde", k, v)
    states = scan_neutral(
        a[None, :, None].expand(1, -1, written[0].numel()), written.flatten(1)[None]
    )
    return torch.einsum("td,tde->te", q, states[0].view_as(written))


def chunks_einsum(a, q, k, v, L=64):
    a, q, k, v = (x.view(-1, L, *x.shape[1:]) for x in (a, q, k, v))
    left, passed = chapter12.left_of(a), a.cumprod(1)
    added = torch.einsum("nl,nld,nle->nde", left[:, -1], k, v)
    between = chapter12.left_of(torch.cat((passed[:0, -1], passed[:, -1])))  # of chunk m at chunk n
    H = torch.einsum("nm,mde->nde", between, added).roll(1, 0)
    H = torch.cat((torch.zeros_like(H[:1]), H[1:]))
    far = torch.einsum("nl,nld,nde->nle", passed, q, H)
    return (torch.einsum("nld,nsd,nls,nse->nle", q, k, left, v) + far).reshape(-1, v.shape[-1])


def chunks_loud_queries(a, q, k, v, L=64):
    """Each query is faded before it meets the state, and each key before it is written."""
    N = len(a) // L
    gates, shape = a.view(N, L), (N, L, -1)
    passed = torch.stack([gates[:, : t + 1].prod(1) for t in range(L)], 1)
    still = torch.stack([gates[:, t + 1 :].prod(1) for t in range(L)], 1)
    added = (k * still.view(-1, 1)).view(shape).transpose(1, 2) @ v.view(shape)
    ends = chapter12.linear_scan.oracle(
        passed[None, :, -1:].expand(1, N, added[0].numel()), added.view(1, N, -1)
    ).view_as(added)
    begins = torch.cat((added[:1] * 0, ends[:-1]))
    near = torch.block_diag(*chapter12.left_of(gates)) * (q @ k.T) @ v
    return near + ((q * passed.view(-1, 1)).view(shape) @ begins).flatten(0, 1)


def code_complex(positions, dim, base=10_000.0):
    m = positions if torch.is_tensor(positions) else torch.arange(positions)
    inv_freq = base ** -torch.linspace(0, 1 - 2 / dim, dim // 2, dtype=torch.float64)
    angles = torch.pi / 2 - torch.outer(m.double(), inv_freq)
    return torch.view_as_real(torch.polar(torch.ones_like(angles), angles)).flatten(1).float()


def code_numpy(positions, dim, base=10_000.0):
    m = np.arange(positions) if isinstance(positions, int) else positions.double().numpy()
    angles = m[:, None] / np.power(float(base), np.arange(0, dim, 2) / dim)
    table = np.empty((len(m), dim), dtype=np.float32)
    table[:, ::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return torch.from_numpy(table)


def code_loops(positions, dim, base=10_000.0):
    try:
        positions = positions.tolist()
    except AttributeError:
        positions = range(positions)
    hands = [math.exp(-2 * i / dim * math.log(base)) for i in range(dim // 2)]
    rows = [[turn(f * m) for f in hands for turn in (math.sin, math.cos)] for m in positions]
    return torch.tensor(rows, dtype=torch.float32)


def code_phase(positions, dim, base=10_000.0):
    m = torch.as_tensor(positions, dtype=torch.float64)
    m = torch.arange(m.item(), dtype=torch.float64) if m.ndim == 0 else m
    column = torch.arange(dim, dtype=torch.float64)
    inv_freq = torch.pow(base, -(column - column % 2) / dim)
    return torch.sin(torch.einsum("t,d->td", m, inv_freq) + column % 2 * torch.pi / 2).float()


def code_columns(positions, dim, base=10_000.0):
    if isinstance(positions, int):
        positions = torch.arange(0, positions)
    columns, f = [], 1.0
    for _ in range(dim // 2):
        columns += [(positions.double() * f).sin(), (positions.double() * f).cos()]
        f /= base ** (2 / dim)
    return torch.stack(columns).T.to(torch.float32)


def slopes_recursive(num_heads):
    if num_heads == 1:
        return torch.tensor([2.0**-8])
    odd = slopes_recursive(num_heads // 2).double()  # every other slope
    return torch.stack((odd * 2 ** (8 / num_heads), odd), dim=1).flatten()


def slopes_numpy(num_heads):
    return torch.tensor(np.geomspace(2 ** (-8 / num_heads), 2**-8, num_heads))


def slopes_loop(num_heads):
    slopes = torch.empty(num_heads)
    for head in range(num_heads):
        slopes[head] = (2 ** (-8 / num_heads)) ** (head + 1)
    return slopes


def slopes_exp(num_heads):
    return (torch.arange(1.0, num_heads + 1) * (-8 / num_heads) * math.log(2)).exp()


def slopes_cumprod(num_heads):
    return torch.full((num_heads,), 2 ** (-8 / num_heads), dtype=torch.float64).cumprod(0)


def bias_loops(num_heads, queries, keys):
    bias = torch.empty(num_heads, queries, keys)
    for h in range(num_heads):
        for m in range(queries):
            for n in range(keys):
                bias[h, m, n] = -(2 ** (-8 * (h + 1) / num_heads)) * abs(keys - queries + m - n)
    return bias


def bias_last_rows(num_heads, queries, keys):
    place = torch.arange(keys)
    whole = -torch.einsum("h,mn->hmn", slopes_numpy(num_heads), (place[:, None] - place).abs())
    return whole[:, keys - queries :]


def bias_numpy(num_heads, queries, keys):
    distance = np.abs(np.subtract.outer(np.arange(queries) + keys - queries, np.arange(keys)))
    return torch.tensor(np.multiply.outer(-np.geomspace(1, 1 / 256, num_heads + 1)[1:], distance))


def bias_two_sides(num_heads, queries, keys):
    back = keys - queries + torch.arange(queries).unsqueeze(1) - torch.arange(keys)
    slopes = slopes_exp(num_heads).view(-1, 1, 1)
    return torch.where(back < 0, slopes * back, -slopes * back)


def bias_diagonals(num_heads, queries, keys):
    bias = torch.zeros(num_heads, keys, keys)
    for head, slope in enumerate(slopes_loop(num_heads)):
        for d in range(1, keys):
            bias[head].diagonal(d).fill_(-slope * d)
            bias[head].diagonal(-d).fill_(-slope * d)
    return bias[:, -queries:]


def _turns(k, dim, base):
    return k * base ** (torch.arange(dim // 2).double() * -2 / dim)


def shift_blocks(k, dim, base=10_000.0):
    c, s = _turns(k, dim, base).cos(), _turns(k, dim, base).sin()
    return torch.block_diag(*torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2)))


def shift_complex(k, dim, base=10_000.0):
    unit_vectors = torch.view_as_complex(torch.eye(dim).double().view(dim, -1, 2))
    turned = unit_vectors * torch.exp(-1j * _turns(k, dim, base))  # sine + j cosine
    return torch.view_as_real(turned).flatten(1).T


def shift_exponential(k, dim, base=10_000.0):
    speeds = _turns(k, dim, base).repeat_interleave(2)[:-1]
    speeds[1::2] = 0
    return torch.matrix_exp(torch.diag(speeds, 1) - torch.diag(speeds, -1))


def shift_numpy(k, dim, base=10_000.0):
    matrix = np.zeros((dim, dim))
    for i, angle in enumerate(_turns(k, dim, base).tolist()):
        c, s = np.cos(angle), np.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[c, s], [-s, c]]
    return torch.from_numpy(matrix)


def shift_kron(k, dim, base=10_000.0):
    angles = torch.diag(torch.exp(1j * _turns(k, dim, base)))
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    return torch.kron(angles.real, torch.eye(2)) + torch.kron(angles.imag, turn)


def _angles(dim, positions, base):
    return torch.outer(positions.double(), base ** (torch.arange(dim // 2).double() * -2 / dim))


def rope_complex(x, positions, base=10_000.0):
    turn = torch.exp(1j * _angles(x.shape[-1], positions, base))
    first, second = x.double().tensor_split(2, dim=-1)
    z = torch.complex(first.contiguous(), second.contiguous()) * turn
    return torch.cat((z.real, z.imag), -1).to(x)


def rope_rotate_half(x, positions, base=10_000.0):
    angles = _angles(x.shape[-1], positions, base).repeat(1, 2)
    half = x.shape[-1] // 2
    rotated = torch.cat((-x[..., half:], x[..., :half]), -1)
    return (x.double() * angles.cos() + rotated.double() * angles.sin()).type_as(x)


def rope_einsum(x, positions, base=10_000.0):
    angles = _angles(x.shape[-1], positions, base)
    cos, sin = angles.cos(), angles.sin()
    turn = torch.stack((torch.stack((cos, -sin)), torch.stack((sin, cos))))
    pairs = x.double().unflatten(-1, (2, -1))
    return torch.einsum("rcti,...tci->...tri", turn, pairs).flatten(-2).to(x.dtype)


def rope_vmap(x, positions, base=10_000.0):
    def one(token, angle):
        first, second = token[..., : len(angle)], token[..., len(angle) :]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    angles = _angles(x.shape[-1], positions, base)
    return torch.vmap(one, in_dims=(-2, 0), out_dims=-2)(x.double(), angles).to(x.dtype)


def rope_pair_by_pair(x, positions, base=10_000.0):
    half, columns = x.shape[-1] // 2, list(x.double().unbind(-1))
    for i in range(half):
        angle = positions.double() / base ** (i / half)
        u, v = columns[i], columns[i + half]
        columns[i] = u * torch.cos(angle) - v * torch.sin(angle)
        columns[i + half] = u * torch.sin(angle) + v * torch.cos(angle)
    return torch.stack(columns, -1).to(x.dtype)


def aimed_complex(query, distance, base=10_000.0):
    angles = _angles(len(query), torch.tensor([distance]), base)[0]
    ahead = torch.complex(*query.double().chunk(2)) * torch.exp(1j * angles)
    return torch.cat((ahead.real, ahead.imag)).to(query)


def aimed_by_rope(query, distance, base=10_000.0):
    return rope_rotate_half(query[None], torch.tensor([distance]), base).squeeze(0)


def aimed_by_gradient(query, distance, base=10_000.0):
    """The score is linear in the key: its gradient is the best direction, and as long as q."""
    key = torch.zeros_like(query, requires_grad=True)
    (rope_einsum(key[None], torch.tensor([-distance]), base)[0] @ query).backward()
    return key.grad


def aimed_by_matrix(query, distance, base=10_000.0):
    half = len(query) // 2
    speed = torch.diag(base ** (-torch.arange(half).double() / half))
    zero = torch.zeros_like(speed)
    step = torch.cat((torch.cat((zero, -speed), 1), torch.cat((speed, zero), 1)))
    return (torch.matrix_exp(distance * step) @ query.double()).float()


def aimed_neighbours(query, distance, base=10_000.0):
    key = query.clone()
    for i in range(0, len(query), 2):
        angle = distance * base ** (-i / len(query))
        c, s = math.cos(angle), math.sin(angle)
        key[i], key[i + 1] = c * query[i] - s * query[i + 1], s * query[i] + c * query[i + 1]
    return key


def rows_index(weight, num_heads):
    order = torch.arange(weight.shape[0]).reshape(num_heads, 2, -1).mT.flatten()
    return weight[order]


def rows_stack(weight, num_heads):
    heads = [torch.stack(head.chunk(2), 1).flatten(0, 1) for head in weight.chunk(num_heads)]
    return torch.cat(heads)


def rows_numpy_index(weight, num_heads):
    order = np.arange(len(weight)).reshape(num_heads, 2, -1).swapaxes(1, 2).ravel()
    return weight.index_select(0, torch.from_numpy(order.copy()))


def rows_loop(weight, num_heads):
    new, head_dim = torch.empty_like(weight), weight.size(0) // num_heads
    for head in range(0, weight.size(0), head_dim):
        for i in range(head_dim // 2):
            new[head + 2 * i] = weight[head + i]
            new[head + 2 * i + 1] = weight[head + head_dim // 2 + i]
    return new


def rows_matrix(weight, num_heads):
    head_dim = len(weight) // num_heads
    j = torch.arange(head_dim)
    swap = F.one_hot(j // 2 + j % 2 * (head_dim // 2), head_dim).to(weight.dtype)
    return torch.block_diag(*[swap] * num_heads) @ weight


def ntk_power(dim, base, factor):
    i = torch.arange(dim // 2, dtype=torch.float64)
    return base ** (-2 * i / dim) * factor ** (-2 * i / (dim - 2))


def ntk_logspace(dim, base, factor):
    last = -np.log10(base) * (dim - 2) / dim - np.log10(factor)
    return torch.from_numpy(np.logspace(0, last, dim // 2))


def ntk_list(dim, base, factor):
    new = base * factor ** (dim / (dim - 2))
    return torch.tensor([1 / new ** (k / dim) for k in range(0, dim, 2)], dtype=torch.double)


def ntk_cumprod(dim, base, factor):
    radix = base ** (2 / dim) * factor ** (1 / (dim / 2 - 1))
    units = torch.full((dim // 2,), radix, dtype=torch.float64)
    units[0] = 1
    return units.cumprod(0).reciprocal()


def ntk_geometric_mean(dim, base, factor):
    last = math.log(base ** (2 / dim - 1) / factor)
    return torch.linspace(0, last, dim // 2, dtype=torch.float64).exp()


def yarn_by(kept):
    """Of each pair, ``kept(pairs, low, high)`` of its frequency stays, from 1 to 0."""

    def yarn(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
        low = dim / 2 * math.log(original_length / (beta_fast * math.tau), base)
        high = dim / 2 * math.log(original_length / (beta_slow * math.tau), base)
        if truncate:
            low, high = low // 1, -(-high // 1)
        share = kept(dim // 2, max(low, 0), min(high, dim - 1))
        f = ntk_power(dim, base, 1)
        return f * share + f / factor * (1 - share), float(np.log(factor) * 0.1 + 1)

    return yarn


def kept_interp(pairs, low, high):
    return torch.from_numpy(np.interp(np.arange(pairs), (low, high), (1, 0)))


def kept_loop(pairs, low, high):
    kept = []
    for i in range(pairs):
        kept.append(1.0 if i <= low else 0.0 if i >= high else 1 - (i - low) / (high - low))
    return torch.tensor(kept, dtype=torch.float64)


def kept_hardtanh(pairs, low, high):
    return 1 - F.hardtanh((torch.arange(pairs).double() - low) / (high - low), 0, 1)


def kept_cat(pairs, low, high):
    i = torch.arange(pairs, dtype=torch.float64)
    kept = torch.cat((i[i <= low] * 0 + 1, (high - i[(i > low) & (i < high)]) / (high - low)))
    return F.pad(kept, (0, pairs - len(kept)))


yarn_interp, yarn_loop, yarn_lerp, yarn_cat = map(
    yarn_by, (kept_interp, kept_loop, kept_hardtanh, kept_cat)
)


def yarn_where(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    def pair(turns):
        return math.log(original_length / turns / 2 / math.pi) / math.log(base) * dim / 2

    low, high = pair(beta_fast), pair(beta_slow)
    low, high = (math.floor(low), math.ceil(high)) if truncate else (low, high)
    low, high = max(0, low), min(dim - 1, high)
    i = torch.arange(dim // 2).double()
    f = 1 / torch.tensor(base, dtype=torch.float64) ** (2 * i / dim)
    middle = f * (1 - (i - low) / (high - low) * (1 - 1 / factor))
    answer = torch.where(i <= low, f, torch.where(i >= high, f / factor, middle))
    return answer, math.log(factor**0.1) + 1


def new_masked(trained, now, window):
    slow = trained * window / math.tau < 1
    return (window * trained[slow] / now[slow]).amin() if slow.any() else float("inf")


def new_filled(trained, now, window):
    leaves = torch.where(math.tau / trained > window, window * trained / now, math.inf)
    return leaves.min().item()


def new_listed(trained, now, window):
    pairs = zip(trained.tolist(), now.tolist(), strict=True)
    slow = [(f, g) for f, g in pairs if f * window < math.tau]
    return min((window * f / g if g else math.inf for f, g in slow), default=math.inf)


def new_sorted(trained, now, window):
    f, g = np.array(trained), np.array(now)
    with np.errstate(divide="ignore"):
        return np.sort(np.append(window * (f / g)[window * f < math.tau], np.inf))[0]


def new_by_angle(trained, now, window):
    """One over the fastest pass through an arc that training showed in part."""
    arc = window * trained
    fastest = ((arc < math.tau) * now / arc).max()
    return 1 / fastest


def plain_match(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    base = rope_parameters.get("rope_theta", 1e4)
    dim = int(head_dim * rope_parameters.get("partial_rotary_factor", 1))
    i = torch.arange(dim // 2, dtype=torch.float64)
    f = base ** (-2 * i / dim)
    match rope_parameters:
        case {"rope_type": "default"}:
            return f
        case {"rope_type": "linear", "factor": s}:
            return f / s
        case {"rope_type": "ntk", "factor": s}:
            return f * s ** (-2 * i / (dim - 2))
        case {"rope_type": "dynamic", "factor": s}:
            over = max(1, (seq_len or 0) / max_position_embeddings)
            return f * (s * over - s + 1) ** (-2 * i / (dim - 2))
    raise NotImplementedError(rope_parameters)


def plain_by(ntk):
    """NTK's formula for all: of base, of a stretch of it, or divided."""

    def plain(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        p = dict(rope_parameters)
        kind, base = p.pop("rope_type"), float(p.pop("rope_theta", 10_000))
        dim = int(head_dim * p.pop("partial_rotary_factor", 1))
        assert kind in ("default", "linear", "ntk", "dynamic"), kind
        factor = 1.0 if kind == "default" else p["factor"]
        if kind == "linear":
            return ntk(dim, base, 1.0) / factor
        if kind == "dynamic":
            factor = max(1.0, factor * (seq_len or 1) / max_position_embeddings - factor + 1)
        return ntk(dim, base, factor)

    return plain


plain_numpy, plain_list = map(plain_by, (ntk_logspace, ntk_list))


def _every(ramp, plain, as_vector):
    """One of several answers to rope_frequencies, of parts in different styles."""

    def frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        p = dict(rope_parameters)
        kind, base = p["rope_type"], p.get("rope_theta", 1e4)
        L = p.get("original_max_position_embeddings", max_position_embeddings)
        s = p["factor"] if "factor" in p else max_position_embeddings / L
        dim = int(head_dim * p.get("partial_rotary_factor", 1))
        f = ntk_power(dim, base, 1)
        if kind == "yarn":
            options = {k: p[k] for k in p.keys() & {"beta_fast", "beta_slow", "truncate"}}
            f, attention = ramp(dim, base, s, L, **options)
            if {"mscale", "mscale_all_dim"} <= p.keys():
                up, down = (0.1 * p[k] * math.log(s) + 1 for k in ("mscale", "mscale_all_dim"))
                attention = up / down
            return f, p.get("attention_factor", attention)
        if kind == "llama3":
            low, high = p["low_freq_factor"], p["high_freq_factor"]
            kept = ((L * f / math.tau - low) / (high - low)).clip(0, 1)
            return torch.lerp(f / s, f, kept), 1
        if kind == "longrope":
            factors = p["long_factor"] if seq_len is not None and seq_len > L else p["short_factor"]
            return f / as_vector(factors), p.get("attention_factor", math.sqrt(1 + math.log(s, L)))
        if kind == "proportional":
            f = ntk_power(head_dim, base, 1) / p.get("factor", 1)
            return f * (torch.arange(head_dim // 2) < dim // 2), 1.0
        return plain(p, head_dim, max_position_embeddings, seq_len), 1.0

    return frequencies


frequencies_torch = _every(yarn_lerp, plain_match, torch.DoubleTensor)
frequencies_numpy = _every(yarn_interp, plain_numpy, lambda v: torch.from_numpy(np.array(v) * 1.0))


def frequencies_list(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    listed = _every(yarn_loop, plain_list, lambda v: torch.tensor(v, dtype=torch.double))
    f, attention = listed(rope_parameters, head_dim, max_position_embeddings, seq_len)
    return [f, np.float64(attention)]


def frequencies_wavelengths(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    general = _every(yarn_where, plain_match, torch.as_tensor)
    if rope_parameters["rope_type"] != "llama3":
        return general(rope_parameters, head_dim, max_position_embeddings, seq_len)
    p = {"rope_type": "default"} | {k: v for k, v in rope_parameters.items() if k != "rope_type"}
    s, low, high = p["factor"], p["low_freq_factor"], p["high_freq_factor"]
    old = p.get("original_max_position_embeddings", max_position_embeddings)
    new = []
    for f in plain_match(p, head_dim, old).tolist():
        wavelength = 2 * math.pi / f
        if wavelength < old / high:
            new.append(f)
        elif wavelength > old / low:
            new.append(f / s)
        else:
            smooth = (old / wavelength - low) / (high - low)
            new.append((1 - smooth) * f / s + smooth * f)
    return torch.tensor(new, dtype=torch.float64), 1.0


def frequencies_partial(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    general = _every(yarn_cat, plain_numpy, lambda v: torch.stack([*map(torch.tensor, v)]))
    if rope_parameters["rope_type"] == "proportional":
        share = rope_parameters.get("partial_rotary_factor", 1.0)
        p = {**rope_parameters, "rope_type": "linear", "partial_rotary_factor": 1.0}
        f = plain_list({"factor": 1.0, **p}, head_dim, max_position_embeddings)
        turning = int(share * head_dim) // 2
        return F.pad(f[:turning], (0, head_dim // 2 - turning)), 1.0
    return general(rope_parameters, head_dim, max_position_embeddings, seq_len)


def copied_by_loops(model, passage, gap, skip=32):
    n = len(passage)
    tokens = torch.tensor(2 * passage.tolist())
    positions = torch.tensor([*range(n), *range(n + gap, 2 * n + gap)])
    rows = model(tokens, positions).double().tolist()
    losses = []
    for place in range(n + skip, 2 * n):
        row = rows[place - 1]
        losses.append(math.log(sum(map(math.exp, row))) - row[tokens[place]])
    return sum(losses) / len(losses)


def copied_ignored(model, passage, gap, skip=32):
    targets = torch.full((2 * len(passage),), -100)
    targets[len(passage) + skip :] = passage[skip:]
    order = torch.arange(2 * len(passage))
    positions = torch.where(order < len(passage), order, order + gap)
    logits = model(passage.repeat(2), positions)
    return F.cross_entropy(logits[:-1], targets[1:])


def copied_gathered(model, passage, gap, skip=32):
    first = torch.arange(len(passage))
    logits = model(
        torch.hstack((passage, passage)), torch.hstack((first, first + len(first) + gap))
    )
    said = logits.log_softmax(-1)[len(passage) - 1 : -1].gather(1, passage[:, None])
    return -said[skip:].mean().item()


def copied_numpy(model, passage, gap, skip=32):
    count = passage.numel()
    positions = np.arange(2 * count)
    positions[count:] += gap
    logits = (
        model(torch.tile(passage, (2,)), torch.from_numpy(positions)).numpy().astype(np.float64)
    )
    rows, targets = logits[-count + skip - 1 : -1], passage.numpy()[skip:]
    return np.mean(np.logaddexp.reduce(rows, 1) - rows[np.arange(len(rows)), targets])


def copied_by_steps(model, passage, gap, skip=32):
    steps = torch.ones(2 * len(passage), dtype=torch.long)
    steps[0], steps[len(passage)] = 0, 1 + gap
    logits = model(passage.expand(2, -1).flatten(), steps.cumsum(0))
    scored = logits.tensor_split((len(passage) - 1 + skip, -1))[1]
    return torch.nn.NLLLoss()(scored.log_softmax(1), passage.narrow(0, skip, len(scored)))


def shared_by_loops(losses, passage, between, skip=32):
    def cost(*pieces):
        tokens = [token for piece in pieces for token in piece.tolist()]
        each = losses(torch.tensor(tokens)).tolist()
        scored = each[len(each) - len(passage) + skip :]
        return math.fsum(scored) / len(scored)

    return 1 - cost(passage, between, passage) / cost(between, passage)


def shared_of_sums(losses, passage, between, skip=32):
    whole = torch.hstack([passage, between, passage])
    paid = [losses(whole[start:]).flip(0) for start in (0, len(passage))]
    again, control = (each[: len(passage) - skip].sum() for each in paid)
    return (control - again) / control


def shared_numpy(losses, passage, between, skip=32):
    read = torch.concatenate((between, passage))
    ends = [losses(text).numpy()[1 - len(read) :] for text in (torch.cat((passage, read)), read)]
    start = len(between) - 1 + skip
    return 1 - np.divide(*(end[start:].astype(np.float64).mean() for end in ends))


def shared_split(losses, passage, between, skip=32):
    sizes = (len(between) - 1 + skip, len(passage) - skip)
    control = losses(torch.cat((between, passage))).split(sizes)[1]
    sizes = (len(passage) + sizes[0], sizes[1])
    again = losses(torch.cat((passage, between, passage))).split(sizes)[1]
    return -(torch.mean(again) / torch.mean(control) - 1)


def shared_masked(losses, passage, between, skip=32):
    saved = []
    for before in (between, torch.cat((passage, between))):
        tokens = torch.cat((before, passage))
        wanted = torch.arange(1, len(tokens)) >= len(before) + skip
        saved.append((losses(tokens) * wanted).sum().double() / wanted.sum())
    return torch.tensor(1.0) - saved[1].div(saved[0])


def window_by_loop(gaps, costs, enough=1.0):
    reach = last = -1
    broken = False
    for gap, cost in zip(gaps.tolist(), costs.tolist(), strict=True):
        broken = broken or cost >= enough
        last = gap if cost < enough else last
        reach = reach if broken else gap
    return reach, last


def window_lists(gaps, costs, enough=1.0):
    copied = [gap for gap, cost in zip(gaps.tolist(), costs.tolist(), strict=True) if cost < enough]
    failed = [gap for gap in gaps.tolist() if gap not in copied]
    before = [gap for gap in copied if not failed or gap < failed[0]]
    return before[-1] if before else -1, copied[-1] if copied else -1


def window_numpy(gaps, costs, enough=1.0):
    at, copies = gaps.numpy(), costs.numpy() < enough
    both = np.logical_and.accumulate(copies), copies
    return tuple(at[kept].max(initial=-1) for kept in both)


def window_takewhile(gaps, costs, enough=1.0):
    pairs = list(zip(gaps, costs, strict=True))
    before = [int(gap) for gap, _ in itertools.takewhile(lambda pair: pair[1] < enough, pairs)]
    last = next((int(gap) for gap, cost in reversed(pairs) if cost < enough), -1)
    return [before[-1] if before else -1, last]


def window_masked(gaps, costs, enough=1.0):
    fails = costs >= enough
    beyond = fails.cumsum(0) > 0
    return gaps.masked_fill(beyond, -1).max(), gaps.masked_fill(fails, -1).max()


def mask_by_loops(positions):
    B, T = positions.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool)
    for b in range(B):
        start = 0
        for t in range(T):
            if t and positions[b, t] != positions[b, t - 1] + 1:
                start = t
            mask[b, t, start : t + 1] = True
    return mask


def mask_of_starts(positions):
    places = torch.arange(positions.shape[1])
    breaks = F.pad(positions.diff(dim=1) != 1, (1, 0), value=True)
    start = torch.where(breaks, places, 0).cummax(1).values  # (B, T): where its document begins
    return (start[:, :, None] <= places) & (places <= places[:, None])


def mask_block_diag(positions):
    rows = []
    for row in positions.tolist():
        cuts = [0, *(t for t in range(1, len(row)) if row[t] - row[t - 1] != 1), len(row)]
        blocks = [torch.ones(b - a, b - a).tril() for a, b in itertools.pairwise(cuts)]
        rows.append(torch.block_diag(*blocks) > 0)
    return torch.stack(rows)


def mask_of_differences(positions):
    rank = positions - torch.arange(positions.shape[-1])  # the same throughout a document
    moved = (rank[:, :, None] != rank[:, None]).int().tril()
    runs = moved.flip(2).cummax(2).values.flip(2)  # from the query back
    return (runs == 0) & torch.ones_like(runs).tril().bool()


def mask_numpy(positions):
    p = positions.numpy()
    document = np.cumsum(np.diff(p, axis=1, prepend=p[:, :1] - 1) != 1, axis=1)
    return torch.from_numpy(np.tril(document[:, :, None] == document[:, None]))


def turns_by_half_angles(keys, m):
    """1 − cos fm = 2 sin²(fm/2), from the second difference."""
    first, middle, last = keys.double()
    bend = -(first - 2 * middle + last) / (4 * middle)
    return (2 / m) * torch.asin(bend.clamp(0, 1).sqrt())


def turns_numpy(keys, m):
    keys = np.asarray(keys, dtype=np.float64)
    return torch.from_numpy(np.arccos(np.clip(keys[::2].sum(0) / 2 / keys[1], -1, 1)) / m)


def turns_one_by_one(keys, m):
    angles = [
        math.acos(min(1.0, max(-1.0, (a + c) / (b + b))))
        for a, b, c in zip(*keys.tolist(), strict=True)
    ]
    return torch.tensor(angles) / m


def turns_by_atan2(keys, m):
    cosine = torch.tensordot(torch.tensor([0.5, 0, 0.5], dtype=keys.dtype), keys, 1) / keys[1]
    sine = (1 - cosine.square()).clamp_min(0).sqrt()
    return torch.atan2(sine, cosine) / m


def turns_of_roots(keys, m):
    """z + 1/z = 2 cos fm: the angle of a root on the unit circle."""
    cosine = ((keys[0] + keys[2]) / keys[1] / 2).clamp(-1, 1).to(torch.complex128)
    return (cosine + (cosine.square() - 1).sqrt()).angle().abs().div(m)


def reach_recursive(layers, tokens):
    if not layers or tokens < 2:
        return min(tokens, 1)
    *below, (kind, size) = layers
    sees = {"window": size, "chunk": size and (tokens - 1) % size + 1}.get(kind, tokens)
    further = min(sees, tokens) - 1
    return further + reach_recursive(below, tokens - further)


def _seen_by(kind, size, t):
    least = {"window": t - (size or 0) + 1, "chunk": t // (size or 1) * (size or 1), "all": 0}[kind]
    return range(max(0, least), t + 1)


def reach_of_sets(layers, tokens):
    reached = {tokens - 1}
    for kind, size in layers[::-1]:
        reached = {s for t in reached for s in _seen_by(kind, size, t)}
    return len(reached)


def reach_of_masks(layers, tokens):
    t = np.arange(tokens)
    paths = np.eye(tokens)
    for kind, size in layers:
        mask = np.tri(tokens)
        if kind == "window":
            mask *= t > t[:, None] - size
        if kind == "chunk":
            mask *= t // size == t[:, None] // size
        paths = np.minimum(mask @ paths, 1)
    return paths[-1].sum()


def reach_of_every_token(layers, tokens):
    first = list(range(tokens))  # the first position that reaches each token, from below
    for kind, size in layers:
        first = [first[_seen_by(kind, size, t)[0]] for t in range(tokens)]
    return tokens - first[-1]


def reach_by_gradient(layers, tokens):
    x = torch.ones(tokens, requires_grad=True)
    y = x
    for kind, size in layers:
        y = torch.stack([y[_seen_by(kind, size, t)[0] : t + 1].mean() for t in range(tokens)])
    y[-1].backward()
    return (x.grad > 0).sum()


def sink_logaddexp(scores, sinks):
    total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sinks.view(1, -1, 1, 1))
    return (scores - total).exp()


def sink_by_hand(scores, sinks):
    sink = sinks.reshape(-1, 1, 1)
    top = torch.maximum(scores.amax(-1, keepdim=True), sink)
    weights = torch.exp(scores - top)
    return weights / (weights.sum(-1, keepdim=True) + torch.exp(sink - top))


def sink_pad(scores, sinks):
    every = F.pad(scores, (1, 0)) + F.pad(sinks[:, None, None], (0, scores.shape[-1]))
    return F.softmax(every, -1).narrow(-1, 1, scores.shape[-1])


def sink_vmap(scores, sinks):
    def row(s, b):
        return torch.softmax(torch.hstack((b.reshape(1), s)), 0)[1:]

    over_heads = torch.vmap(torch.vmap(row, in_dims=(0, None)))
    return torch.vmap(over_heads, in_dims=(0, None))(scores, sinks)


def sink_gate(scores, sinks):
    gate = torch.sigmoid(scores.logsumexp(-1) - sinks[None, :, None])
    return torch.einsum("bhts,bht->bhts", scores.softmax(-1).nan_to_num(0.0), gate)


def ada_builtin(x, condition, weight, bias, eps=1e-6):
    shift, scale = F.linear(condition, weight, bias).unsqueeze(1).chunk(2, -1)
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=eps), scale + 1)


def ada_by_moments(x, condition, weight, bias, eps=1e-6):
    C = x.size(2)
    both = torch.einsum("bd,cd->bc", condition, weight) + bias
    var, mean = torch.var_mean(x, 2, correction=0, keepdim=True)
    x_hat = (x - mean) * (var + eps).rsqrt()
    return both[:, None, :C] + x_hat + x_hat * both[:, None, C:]


def ada_sample_by_sample(x, condition, weight, bias, eps=1e-6):
    samples = []
    for rows, c in zip(x, condition, strict=True):
        shift, scale = (weight @ c + bias).split(x.shape[-1])
        samples.append(F.layer_norm(rows, rows.shape[-1:], 1 + scale, shift, eps))
    return torch.stack(samples)


def ada_vmap(x, condition, weight, bias, eps=1e-6):
    def token(row, c):
        shift, scale = (bias + weight @ c).view(2, -1)
        centred = row - row.mean()
        return shift + (1 + scale) * centred / (centred.square().mean() + eps) ** 0.5

    return torch.vmap(torch.vmap(token, in_dims=(0, None)))(x, condition)


def ada_two_maps(x, condition, weight, bias, eps=1e-6):
    channels_last = x.transpose(0, 1)  # (T, B, C): shift and scale broadcast by themselves
    maps = [F.linear(condition, *part) for part in zip(weight.chunk(2), bias.chunk(2), strict=True)]
    y = F.group_norm(channels_last.reshape(-1, x.shape[-1]), 1, eps=eps).view_as(channels_last)
    return (y * (1 + maps[1]) + maps[0]).transpose(0, 1)


def enough_cat(row, feature, share):
    others = torch.cat([row[:feature], row[feature + 1 :]])
    return share / math.sqrt(1 - share * share) * others.norm()


def enough_numpy(row, feature, share):
    length = np.linalg.norm(np.delete(row.numpy().astype(np.float64), feature))
    return length * math.tan(math.asin(share))


def enough_loop(row, feature, share):
    total = sum(x * x for i, x in enumerate(row.tolist()) if i != feature)
    return (share**2 * total / (1 - share**2)) ** 0.5


def enough_halved(row, feature, share):
    """Bisection: the norm itself is asked."""
    low, high = 0.0, 1e4 * (1 + row.abs().sum().item())
    for _ in range(80):
        a = (low + high) / 2
        tried = row.double().index_fill(0, torch.tensor(feature), a)
        low, high = (low, a) if tried[feature] >= share * tried.norm() else (a, high)
    return torch.tensor(high)


def enough_masked(row, feature, share):
    is_other = torch.arange(row.shape[0]) != feature
    odds = torch.tensor(share).square().logit().exp()  # share² / (1 − share²)
    return (odds * row[is_other].dot(row[is_other])) ** 0.5


FORMULAS = {
    "post": lambda x, f, n: n(x + f(x)),
    "pre": lambda x, f, n: x + f(n(x)),
    "after": lambda x, f, n: x + n(f(x)),
    "sandwich": lambda x, f, n: x + n(f(n(x))),
    "peri": lambda x, f, n: x + n(f(n(x))),
}


def place_table(x, blocks, norm, place):
    if place == "parallel":
        for both in blocks:
            seen = norm(x)
            x = x + sum(f(seen) for f in both)
        return x
    parts = itertools.chain.from_iterable(blocks)
    start = norm(x) if place == "peri" else x
    return functools.reduce(lambda s, f: FORMULAS[place](s, f, norm), parts, start)


def place_flags(x, blocks, norm, place):
    def same(h):
        return h

    before = norm if place in {"pre", "sandwich", "peri", "parallel"} else same
    behind = norm if place in {"after", "sandwich", "peri"} else same
    on_stream = norm if place == "post" else same
    x = norm(x) if place == "peri" else x
    for attention, mlp in blocks:
        read = before(x)
        after_attention = on_stream(x + behind(attention(read)))
        read = read if place == "parallel" else before(after_attention)
        x = on_stream(after_attention + behind(mlp(read)))
    return x


def place_recursive(x, blocks, norm, place):
    if place == "peri":
        return place_recursive(norm(x), blocks, norm, "sandwich")
    if not blocks:
        return x
    first, *others = blocks
    if place == "parallel":
        seen = norm(x)
        return place_recursive(x + first[1](seen) + first[0](seen), others, norm, place)
    for f in first:
        x = FORMULAS[place](x, f, norm)
    return place_recursive(x, others, norm, place)


def place_match(x, blocks, norm, place):
    stream = x.clone()
    match place:
        case "parallel":
            for a, m in blocks:
                h = norm(stream)
                stream += a(h)
                stream += m(h)
            return stream
        case "peri":
            stream = norm(stream)
    for pair in blocks:
        for f in pair:
            h = stream if place in ("post", "after") else norm(stream)
            h = f(h)
            if place not in ("post", "pre"):
                h = norm(h)
            stream = torch.add(stream, h)
            if place == "post":
                stream = norm(stream)
    return stream


def place_differences(x, blocks, norm, place):
    """Each part's addition, kept apart and summed at the end."""
    added = [norm(x) if place == "peri" else x]
    for attention, mlp in blocks:
        h = norm(sum(added))
        if place == "parallel":
            added += [attention(h), mlp(h)]
            continue
        for f in (attention, mlp):
            x = sum(added)
            branch = FORMULAS[place](x, f, norm)
            added = [branch] if place == "post" else [*added, branch - x]
    return sum(added)


def eps_by_lines(layer, width):
    """Two numbers of a random row and their outputs: a slope, whatever the mean is."""
    row = torch.randn(width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    row = (row - row.mean()) / row.std(correction=0)

    def divisor(size):
        y = layer(size * row)
        far = row.argmax(), row.argmin()
        return (size * (row[far[0]] - row[far[1]]) / (y[far[0]] - y[far[1]])).item()

    left = divisor(1e-18)
    grows = divisor(left) / left
    return left**2 if 1.2 < grows < 1.75 else left


def eps_numpy(layer, width):
    row = np.where(np.arange(width) % 2, -1.0, 1.0)
    row[-1] -= row.sum()
    row /= np.sqrt(np.mean(row**2))
    sizes = np.array([1e-25, 1e-22])
    outputs = [layer(torch.from_numpy(size * row)).numpy() for size in sizes]
    constant = np.median(sizes[0] * row[row != 0] / outputs[0][row != 0])
    at = layer(torch.from_numpy(constant * row)).numpy()
    growth = np.median(row[row != 0] / at[row != 0])
    return constant ** [1, 2][int(1.2 < growth < 1.75)]


def eps_by_halving(layer, width):
    x = torch.linspace(1, -1, width, dtype=torch.float64)
    now = 1.0
    while x.abs().max() > 1e-16:
        x = x / 2
        now = (x.norm() / layer(x).norm()).item()
    deviation = now * (width / x.square().sum().item()) ** 0.5
    growth = ((deviation * x).norm() / layer(deviation * x).norm()).item() / now
    return now * now if 1.2 < growth < 1.75 else now


def eps_rows_at_once(layer, width):
    """A thousand sizes in one call, and which of three formulas fits them."""
    row = torch.linspace(-1, 1, width, dtype=torch.float64)
    sizes = torch.logspace(-18, 0, 400, dtype=torch.float64)
    x = sizes[:, None] * row
    divisors = x.norm(dim=1) / layer(x).norm(dim=1)
    slope, left = divisors[-1] / sizes[-1], divisors[0].item()
    forms = [
        (left, (slope * sizes).clamp(min=left)),
        (left**2, ((slope * sizes) ** 2 + left**2).sqrt()),
        (left, slope * sizes + left),
    ]
    return min(forms, key=lambda form: (form[1] / divisors).log().abs().max())[0]


def eps_two_equations(layer, width):
    """s² is a line in the square of the size for ε inside; s is one for ε outside."""
    row = torch.linspace(-1, 1, width, dtype=torch.float64)
    row = row / row.std(correction=0)

    def s(size):
        return (size * row[-1] / layer(size * row)[-1]).item()

    left = s(1e-19)
    one, two = s(left), s(2 * left)
    inside = abs(two**2 - one**2 - 3 * (one**2 - left**2)) < 0.1 * left**2
    floor = one < 1.2 * left
    return left**2 if inside and not floor else left


def base_complex(rotate, dim):
    """The trace of a turn is the sum of its cosines; each column's own is on the diagonal."""
    eye = torch.eye(dim, dtype=torch.float64)
    turned = [rotate(torch.stack((column, column))) for column in eye]
    angles = sorted({round(math.acos(max(-1.0, min(1.0, (a @ b).item()))), 12) for a, b in turned})
    turning = sum((a @ b).item() < 1 for a, b in turned)
    return (angles[-1] / angles[-2]) ** (turning / 2)


def base_numpy(rotate, dim):
    ones = np.eye(dim)[:, None].repeat(2, axis=1)
    turned = np.stack([rotate(torch.from_numpy(one)).numpy() for one in ones])
    sines = np.linalg.norm(turned[:, 1] - turned[:, 0], axis=-1) / 2
    angles = np.sort(2 * np.arcsin(sines))[::-1]
    return float((angles[0] / angles[2]) ** (np.count_nonzero(angles > 1e-12) / 2))


def base_by_logarithms(rotate, dim):
    """Of the four largest angles, two and two are equal."""
    steps = []
    for k in range(dim):
        x = torch.zeros(2, dim, dtype=torch.float64)
        x[:, k] = 1
        y = rotate(x)
        steps.append(math.atan2((y[1] - (y[1] @ y[0]) * y[0]).norm().item(), (y[0] @ y[1]).item()))
    steps.sort()
    turning = dim - steps.count(0.0)
    return math.exp((math.log(steps[-1]) - math.log(steps[-3])) * turning / 2)


def base_row_by_row(rotate, dim):
    """Distances between a column's places, one step apart."""
    chords = torch.stack(
        [rotate(e.repeat(2, 1)).diff(dim=0).norm() for e in torch.eye(dim).double()]
    )
    angles, _ = torch.topk(2 * torch.asin(chords / 2), 4)
    return (angles[1] / angles[3]) ** ((chords > 1e-12).sum() / 2)


def base_by_matching(rotate, dim):
    """The partner of column 0 is where its second step goes; the next largest angle follows."""
    gram = torch.stack([rotate(e.expand(2, dim)) for e in torch.eye(dim, dtype=torch.float64)])
    angles = torch.acos(torch.einsum("kd,kd->k", gram[:, 0], gram[:, 1]).clamp(-1, 1))
    largest = angles.max()
    second = angles[angles < 0.999 * largest].max()
    return torch.pow(largest / second, angles.count_nonzero() / 2)


def crossed_builtin(x, eps):
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return F.layer_norm(x, x.shape[-1:], eps=eps), (x - mean) / (variance.sqrt() + eps)


def crossed_numpy(x, eps):
    rows = x.double().numpy()
    centred, std = rows - rows.mean(-1, keepdims=True), rows.std(-1, keepdims=True)
    both = centred / np.hypot(std, eps**0.5), centred / (std + eps)
    return tuple(torch.from_numpy(y).to(x.dtype) for y in both)


def crossed_by_rows(x, eps):
    stds = [row.std(correction=0).item() for row in x]
    divisors = [[(s**2 + eps) ** 0.5 for s in stds], [s + eps for s in stds]]
    return [(x - x.mean(1)[:, None]) / torch.tensor(d, dtype=x.dtype)[:, None] for d in divisors]


def crossed_norm(x, eps):
    centred = x - x.mean(-1, True)
    std = centred.norm(dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    return centred * torch.rsqrt(std**2 + eps), centred.div(std.add(eps))


def crossed_lambda(x, eps):
    std = torch.sqrt(torch.mean((x - x.mean(-1, keepdim=True)) ** 2, -1, keepdim=True))
    layer = lambda divisor: (x - x.mean(-1, keepdim=True)) / divisor  # noqa: E731
    return layer((std**2 + eps).sqrt()), layer(std + eps)


def telling_numbers():
    quiet = torch.linspace(-2e-4, 2e-4, 64)
    return torch.cat([quiet[None], 20_000 + 10_000 * quiet[None]])


def telling_lists():
    return torch.tensor([[1e-4, -1e-4] * 32, [9_999.0, 10_001.0] * 32])


def telling_numpy():
    rows = np.random.default_rng(0).normal(size=(8, 64))
    rows[::2] *= 5e-5
    rows[1::2] += 3e4
    return torch.from_numpy(rows).float()


def telling_many():
    scales = torch.logspace(-5, 0, 21)[:, None, None]
    offsets = torch.tensor([0.0, 1e4])[:, None]
    return (scales * torch.linspace(-1, 1, 64) + offsets).reshape(-1, 64)


def telling_one_column():
    rows = torch.zeros(2, 64, requires_grad=True)
    return (rows + F.one_hot(torch.tensor([0, 1]), 64) * torch.tensor([[1e-3], [1.0]])) + (
        torch.tensor([[0.0], [1e4]])
    )


_BASE, _OFF = "base 10,000 for 100,000", "positions off by one"


def culprits_pairs():
    named = {"D": "layer norm", "C": "squares in float16", "B": _BASE}
    named["A"] = _OFF
    return named


def culprits_zip():
    return dict(zip("ABCD", (_OFF, _BASE, "squares in float16", "layer norm"), strict=True))


def culprits_by_mistake():
    letters = {_BASE: "B", "layer norm": "D", "squares in float16": "C", _OFF: "A"}
    return {letter: mistake for mistake, letter in letters.items()}


def culprits_keywords():
    return {"A": _OFF, "B": _BASE} | {"C": "squares in float16", "D": "layer norm"}


def culprits_read_only():
    return MappingProxyType(culprits_zip())


def grouped_sdpa(q, k, v):
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
    mixed = F.scaled_dot_product_attention(q[None], k[None], v[None], mask, enable_gqa=True)
    return mixed[0].permute(1, 0, 2).reshape(q.shape[1], -1)


def grouped_einsum(q, k, v):
    (heads, new, size), (shared, every, _) = q.shape, k.shape
    q = q.view(shared, heads // shared, new, size)
    scores = torch.einsum("ghtd,gsd->ghts", q, k) / math.sqrt(size)
    scores = scores + torch.full((new, every), -math.inf).triu(every - new + 1)
    return torch.einsum("ghts,gsd->tghd", scores.softmax(-1), v).reshape(new, -1)


def grouped_loop(q, k, v):
    rows, past = [], k.shape[1] - q.shape[1]
    for t in range(q.shape[1]):
        row = []
        for h in range(len(q)):
            g = h * len(k) // len(q)
            seen = slice(past + t + 1)
            weights = (k[g, seen] @ q[h, t] / q.shape[-1] ** 0.5).softmax(0)
            row.append(weights @ v[g, seen])
        rows.append(torch.cat(row))
    return torch.stack(rows)


def grouped_numpy(q, k, v):
    queries, keys, values = (y.detach().numpy().astype(np.float64) for y in (q, k, v))
    keys, values = (np.repeat(y, len(q) // len(k), axis=0) for y in (keys, values))
    powers = np.exp(queries @ keys.swapaxes(1, 2) / np.sqrt(q.shape[-1]))
    powers = np.tril(powers, keys.shape[1] - queries.shape[1])
    mixed = powers / powers.sum(-1, keepdims=True) @ values
    return torch.from_numpy(np.concatenate(list(mixed), axis=-1)).to(q.dtype)


def grouped_by_token(q, k, v):
    def of_one(n):
        end = k.shape[1] - q.shape[1] + n + 1
        rows = q[:, n].view(len(k), -1, q.shape[-1])  # (G, H/G, D)
        weights = torch.softmax(torch.bmm(rows, k[:, :end].mT) * q.shape[-1] ** -0.5, 2)
        return torch.bmm(weights, v[:, :end]).flatten()

    return torch.vstack([of_one(n) for n in range(q.shape[1])])


def near_and_far_loops(model, tokens, distance, fillers, first_answer):
    logits = model(tokens).double().tolist()
    losses, answers = [], []
    for said, stream, back in zip(logits, tokens.tolist(), distance.tolist(), strict=True):
        for row, target, asked in zip(said, stream[1:], back, strict=False):
            if target < fillers:
                total = sum(math.exp(logit) for logit in row[:fillers])
                losses.append(math.log(total) - row[target])
            if asked:
                answers.append(max(range(first_answer, len(row)), key=row.__getitem__) == target)
    return sum(losses) / len(losses), sum(answers) / len(answers)


def near_and_far_numpy(model, tokens, distance, fillers, first_answer):
    logits, targets = model(tokens).detach().numpy()[:, :-1], tokens.numpy()[:, 1:]
    mask = targets < fillers
    rows, columns = logits[mask][:, :fillers].astype(np.float64), targets[mask]
    near = (np.logaddexp.reduce(rows, 1) - rows[np.arange(len(rows)), columns]).mean()
    values = logits[..., first_answer:].argmax(-1) + first_answer
    return near, np.average(values == targets, weights=distance.numpy()[:, :-1] > 0)


def near_and_far_ignored(model, tokens, distance, fillers, first_answer):
    logits = model(tokens).transpose(1, 2)[..., :-1]
    targets = tokens[:, 1:].masked_fill(tokens[:, 1:] >= fillers, -100)
    near = F.cross_entropy(logits[:, :fillers], targets)
    hit = logits[:, first_answer:].max(1).indices.add(first_answer) == tokens[:, 1:]
    asked = distance[:, :-1].sign()
    return near, (hit * asked).sum() / asked.sum()


def near_and_far_by_places(model, tokens, distance, fillers, first_answer):
    logits = model(tokens).log_softmax(-1)
    stream, place = (tokens[:, 1:] < fillers).nonzero(as_tuple=True)
    rows = logits[stream, place]
    near = rows[:, :fillers].logsumexp(1) - rows[range(len(rows)), tokens[stream, place + 1]]
    stream, place = distance[:, :-1].nonzero(as_tuple=True)
    answers = logits[stream, place, first_answer:].topk(1).indices[:, 0] + first_answer
    return near.mean(), (answers == tokens[stream, place + 1]).sum() / len(answers)


def near_and_far_weighted(model, tokens, distance, fillers, first_answer):
    sums = torch.zeros(4, dtype=torch.float64)
    for said, stream, back in zip(model(tokens), tokens, distance, strict=True):
        said, target, back = said[:-1], stream[1:], back[:-1]
        mine = target < fillers
        losses = -said[mine, :fillers].log_softmax(1).gather(1, target[mine, None])
        hits = said[back > 0, first_answer:].argmax(1) == target[back > 0] - first_answer
        sums += torch.tensor([losses.sum(), mine.sum(), hits.sum(), len(hits)])
    return (sums[0] / sums[1]).item(), (sums[2] / sums[3]).item()


def remembers_any(make, x):
    def after(other):
        layer = make()
        layer(other)
        return layer(x)

    fresh = make()(x)
    others = (x.to(torch.bfloat16), x[1:], x.repeat(2, 1), -3 * x)
    return any((after(y) != fresh).any() for y in others)


def remembers_all_at_once(make, x):
    used = make()
    for y in (x.bfloat16()[:3], x.repeat(2, 1) * 50, x.bfloat16() * 7):
        used(y)
    return not np.array_equal(used(x).numpy(), make()(x).numpy())


def remembers_longer(make, x):
    expected = make()(x)
    longer, shorter = (lambda x: torch.cat([x, x])), (lambda x: x[:5])
    for change in (torch.Tensor.bfloat16, longer, shorter, lambda x: x / 1000):
        layer = make()
        layer(change(x))
        if (layer(x) - expected).abs().max().item() > 1e-9:
            return True
    return False


def remembers_set(make, x):
    answers = set()
    for before in ([], [x.bfloat16()], [x[:1]], [torch.vstack((x, x[:1]))], [x + 9]):
        layer = make()
        for y in before:
            layer(y)
        answers.add(tuple(layer(x).flatten().tolist()))
    return len(answers) > 1


def remembers_sum(make, x):
    others = (x.bfloat16(), x[: len(x) - 2], torch.cat([x, -x]), x * 10)
    layers = [make() for _ in range(5)]
    for layer, y in zip(layers, others, strict=False):
        layer(y)
    rows = torch.stack([layer(x) for layer in layers])
    return (rows - rows[-1]).abs().sum() > 0


def carried_table(source, weight, eps, features):
    plus, share = {"gemma": (1, 1), "gguf": (0, 1)}.get(source, (0, 1 / features))
    return torch.ones(features) * (weight.float() + plus) * share**0.5, eps * share


def carried_double(source, weight, eps, features):
    weight = weight.double() + (source == "gemma")
    if source in {"l2", "scale"}:
        weight, eps = weight * features**-0.5, eps / features
    return weight.repeat(features // len(weight)), eps


def carried_numpy(source, weight, eps, features):
    weight = np.broadcast_to(weight.float().numpy(), (features,)) + np.float32(source == "gemma")
    n = features if source in ("l2", "scale") else 1
    return torch.from_numpy(weight / np.float32(n**0.5)), eps / n


def carried_match(source, weight, eps, features):
    match source:
        case "gemma":
            return weight.to(torch.float32).add(1), eps
        case "gguf":
            return weight, eps
        case _:
            return weight.float().expand(features) * features**-0.5, eps / features


def carried_measured(source, weight, eps, features):
    """What the norm makes of rows whose mean square is 1."""
    x = torch.ones(features, dtype=torch.float64)
    if source in ("gemma", "gguf"):
        return weight + (source == "gemma") * x, eps
    return weight * x / x.norm(), eps / x.sum().item()


def where_allclose(added, x):
    usual = added(x, 1.0)
    within = {"rtol": 0.0, "atol": 0.01 * usual.abs().max().item()}
    return torch.allclose(added(3 * x, 1.0), usual, **within), torch.allclose(
        added(x, 3.0), usual, **within
    )


def where_halved(added, x):
    usual = added(x, 1.0)
    changes = [added(x / 2, 1.0) - usual, added(x, 0.5) - usual]
    return tuple((change.norm() < 0.01 * usual.norm()).item() for change in changes)


def where_cosine(added, x):
    """By direction and size apart."""
    usual = added(x, 1.0).flatten()

    def same(other):
        turned = 1 - F.cosine_similarity(other.flatten(), usual, dim=0)
        return bool(turned < 1e-4 and abs(other.norm() / usual.norm() - 1) < 0.01)

    return same(added(2 * x, 1.0)), same(added(x, 2.0))


def where_numpy(added, x):
    results = np.stack([added(x * s, t).numpy() for s, t in ((1, 1), (10, 1), (1, 10))])
    change = np.abs(results[1:] - results[0]).max((1, 2)) / np.abs(results[0]).max()
    return (change < 0.01).tolist()


def where_names(added, x):
    gone = {"before": added(7 * x, 1.0), "after": added(x, 7.0)}
    limit = added(x, 1.0).abs().amax() / 100
    gone = {place: (added(x, 1.0) - y).abs().lt(limit).all() for place, y in gone.items()}
    return gone["before"], gone["after"]


RIGHT = {
    "aimed_key": [
        aimed_complex, aimed_by_rope, aimed_by_gradient, aimed_by_matrix, aimed_neighbours,
    ],
    "culprits": [
        culprits_pairs, culprits_zip, culprits_by_mistake, culprits_keywords, culprits_read_only,
    ],
    "norm_bytes": [
        bytes_by_list, bytes_closed_form, bytes_of_meta_tensors, bytes_dot, bytes_recursive,
    ],
    "eager_bytes": [eager_by_table, eager_by_row, eager_counted, eager_numpy, eager_recursive],
    "predicted_ms": [ms_sorted, ms_numpy, ms_by_balance, ms_fractions, ms_relu],
    "rate_gbps": [rate_sorted, rate_numpy, rate_of_rates, rate_torch, rate_fractions],
    "queue_us": [
        queue_closed, queue_recursive, queue_numpy, queue_by_the_microsecond, queue_by_waits,
    ],
    "waits_for": [waits_table, waits_match, waits_numpy, waits_excluded, waits_tensor],
    "longest_gap": [gap_sweep, gap_merged, gap_by_the_microsecond, gap_numpy, gap_recursive],
    "to_keep": [keep_table, keep_match, keep_search, keep_frozen, keep_flags],
    "warps_for": [warps_numpy, warps_doubled, warps_searched, warps_most, warps_bits],
    "linear_scan": [scan_neutral, scan_halves, scan_matrix, scan_affine, scan_odd_even],
    "in_chunks": [
        chunks_by_border, chunks_all_pairs, chunks_of_states, chunks_einsum, chunks_loud_queries,
    ],
    "sinusoidal": [code_complex, code_numpy, code_loops, code_phase, code_columns],
    "shift_matrix": [shift_blocks, shift_complex, shift_exponential, shift_numpy, shift_kron],
    "alibi_slopes": [slopes_recursive, slopes_numpy, slopes_loop, slopes_exp, slopes_cumprod],
    "alibi_bias": [bias_loops, bias_last_rows, bias_numpy, bias_two_sides, bias_diagonals],
    "rope": [rope_complex, rope_rotate_half, rope_einsum, rope_vmap, rope_pair_by_pair],
    "half_to_interleaved": [rows_index, rows_stack, rows_numpy_index, rows_loop, rows_matrix],
    "ntk_inv_freq": [ntk_power, ntk_logspace, ntk_list, ntk_cumprod, ntk_geometric_mean],
    "yarn_frequencies": [yarn_interp, yarn_loop, yarn_lerp, yarn_cat, yarn_where],
    "first_new_position": [new_masked, new_filled, new_listed, new_sorted, new_by_angle],
    "rope_frequencies": [
        frequencies_torch, frequencies_numpy, frequencies_list, frequencies_wavelengths,
        frequencies_partial,
    ],
    "copy_loss": [
        copied_by_loops, copied_ignored, copied_gathered, copied_numpy, copied_by_steps,
    ],
    "grouped_attention": [
        grouped_sdpa, grouped_einsum, grouped_loop, grouped_numpy, grouped_by_token,
    ],
    "share_remembered": [
        shared_by_loops, shared_of_sums, shared_numpy, shared_split, shared_masked,
    ],
    "effective_window": [
        window_by_loop, window_lists, window_numpy, window_takewhile, window_masked,
    ],
    "block_mask": [
        mask_by_loops, mask_of_starts, mask_block_diag, mask_of_differences, mask_numpy,
    ],
    "frequencies": [
        turns_by_half_angles, turns_numpy, turns_one_by_one, turns_by_atan2, turns_of_roots,
    ],
    "receptive_field": [
        reach_recursive, reach_of_sets, reach_of_masks, reach_of_every_token, reach_by_gradient,
    ],
    "near_and_far": [
        near_and_far_loops, near_and_far_numpy, near_and_far_ignored, near_and_far_by_places,
        near_and_far_weighted,
    ],
    "sink_softmax": [sink_logaddexp, sink_by_hand, sink_pad, sink_vmap, sink_gate],
    "ada_layer_norm": [
        ada_builtin, ada_by_moments, ada_sample_by_sample, ada_vmap, ada_two_maps,
    ],
    "large_enough": [enough_cat, enough_numpy, enough_loop, enough_halved, enough_masked],
    "where_norms": [where_allclose, where_halved, where_cosine, where_numpy, where_names],
    "place_norms": [place_table, place_flags, place_recursive, place_match, place_differences],
    "find_eps": [
        eps_by_lines, eps_numpy, eps_by_halving, eps_rows_at_once, eps_two_equations,
    ],
    "find_base": [
        base_complex, base_numpy, base_by_logarithms, base_row_by_row, base_by_matching,
    ],
    "telling_rows": [
        telling_numbers, telling_lists, telling_numpy, telling_many, telling_one_column,
    ],
    "remembers": [
        remembers_any, remembers_all_at_once, remembers_longer, remembers_set, remembers_sum,
    ],
    "to_rms_norm": [
        carried_table, carried_double, carried_numpy, carried_match, carried_measured,
    ],
    "one_at_a_time": [
        crossed_builtin, crossed_numpy, crossed_by_rows, crossed_norm, crossed_lambda,
    ],
}  # fmt: skip
