"""What the exercises that can be written on a page need of torch, in Python alone.

MicroPython runs it; ``torch`` below is what an answer finds under that name. A tensor is a list of
numbers with a shape, strides and an offset, as in torch, so that views share memory. float32
results are rounded after every operation. What is missing is said by name; the tests hold what is
there against torch.
"""

import math
import random
from array import array


class NotHere(AttributeError):
    """Asked for something that only the whole torch has."""


class dtype_:
    def __init__(self, name, rank, eps=0.0):
        self.name, self.rank, self.eps = name, rank, eps
        self.is_floating_point = rank > 1

    def __repr__(self):
        return "torch." + self.name


bool_ = dtype_("bool", 0)
int64 = dtype_("int64", 1)
float16 = dtype_("float16", 2, 2.0**-10)
bfloat16 = dtype_("bfloat16", 2, 2.0**-7)
float32 = dtype_("float32", 3, 2.0**-23)
float64 = dtype_("float64", 4, 2.0**-52)
# binary digits, the exponent below which there are fewer, the largest number
_HALVES = {"float16": (11, -13, 65504.0), "bfloat16": (8, -125, 3.3895313892515355e38)}


def _is_number(value):
    return isinstance(value, (bool, int, float))


def _size(shape):
    size = 1
    for n in shape:
        size *= n
    return size


class Size(tuple):
    def numel(self):
        return _size(self)


def _strides(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return tuple(strides)


def _round(values, kind):
    if kind is float32:
        return list(array("f", values))
    if kind.name in _HALVES:
        return [_half(value, *_HALVES[kind.name]) for value in array("f", values)]
    return values


def _half(value, digits, least, largest):
    if value == 0 or value != value or abs(value) == math.inf:
        return value
    step = 2.0 ** (max(math.frexp(value)[1], least) - digits)
    rounded = round(value / step) * step
    return rounded if abs(rounded) <= largest else math.copysign(math.inf, value)


def _kind_of(value):
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else float32


def _common(*operands):
    """The dtype of a result: tensors count before tensors of no dimension, these before numbers."""
    kinds = [None, None, None]
    for each in operands:
        level = 2 if _is_number(each) else 1 if each.ndim == 0 else 0
        kind = _kind_of(each) if level == 2 else each.dtype
        if kinds[level] is None or kind.rank > kinds[level].rank:
            kinds[level] = kind
    result = None
    for kind in kinds:
        if kind is None:
            continue
        if result is None or min(kind.rank, 2) > min(result.rank, 2):
            result = kind
    return result


def _broadcast(*shapes):
    ndim = max([len(shape) for shape in shapes])
    result = []
    for i in range(-ndim, 0):
        size = 1
        for shape in shapes:
            n = shape[i] if -i <= len(shape) else 1
            if n != 1 and size not in (1, n):
                raise RuntimeError(
                    f"The size of tensor a ({size}) must match the size of tensor b ({n}) "
                    f"at non-singleton dimension {ndim + i}"
                )
            size = n if size == 1 else size
        result.append(size)
    return tuple(result)


def _pow(a, b):
    try:
        result = a**b
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf
    return math.nan if isinstance(result, complex) else result


def _div(a, b):
    if b:
        return a / b
    if not a or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _sqrt(a):
    return math.nan if a < 0 or a != a else math.sqrt(a)


def _exp(a):
    return _safely(math.exp, a, math.inf)


def _log(a):
    return -math.inf if a == 0 else _safely(math.log, a, math.nan)


def _safely(function, value, otherwise):
    if value != value:
        return value
    try:
        return function(value)
    except (ValueError, OverflowError):
        return otherwise


class _Slices:
    """Makes slices, which MicroPython makes in brackets alone."""

    def __getitem__(self, index):
        return index


_slice = _Slices()
_ALL = _slice[:]


class Tensor:
    def __init__(self, data, shape, dtype, strides=None, offset=0):
        self._data, self.shape, self.dtype = data, tuple(shape), dtype
        self._strides = _strides(shape) if strides is None else tuple(strides)
        self._offset = offset

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotHere(f"this page has no Tensor.{name}; JupyterLab has all of torch")

    device = "cpu"
    requires_grad = False

    @property
    def ndim(self):
        return len(self.shape)

    def dim(self):
        return len(self.shape)

    def numel(self):
        return _size(self.shape)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def is_contiguous(self):
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self._strides)):
            if n != 1 and stride != step:
                return False
            step *= n
        return True

    def _places(self):
        places = [self._offset]
        for n, step in zip(self.shape, self._strides):
            if n != 1:
                steps = [i * step for i in range(n)]
                places = [place + s for place in places for s in steps]
        return places

    def _values(self):
        if self.is_contiguous():
            return self._data[self._offset : self._offset + self.numel()]
        data = self._data
        return [data[place] for place in self._places()]

    def _view(self, shape, strides, offset=None):
        return Tensor(
            self._data, shape, self.dtype, strides, self._offset if offset is None else offset
        )

    def _at(self, dim):
        if not -max(self.ndim, 1) <= dim < max(self.ndim, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of "
                f"[{-max(self.ndim, 1)}, {max(self.ndim, 1) - 1}], but got {dim})"
            )
        return dim % self.ndim if self.ndim else 0

    def expand(self, *shape):
        shape = _shape_of(shape)
        new = len(shape) - self.ndim
        shape = [self.shape[i - new] if n == -1 else n for i, n in enumerate(shape)]
        strides = [0] * new
        for own, n, step in zip(self.shape, shape[new:], self._strides):
            if own != n and own != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({own})"
                )
            strides.append(step if own == n else 0)
        return self._view(shape, strides)

    # arithmetic

    def _with(self, other, function, kind=None, turned=False):
        if not isinstance(other, Tensor) and not _is_number(other):
            name = type(other).__name__
            raise TypeError(f"unsupported operand type(s): 'Tensor' and '{name}'")
        return _apply(function, (other, self) if turned else (self, other), kind)

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def add(self, other, alpha=1):
        return self + (other if alpha == 1 else other * alpha)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b: a - b, turned=True)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other):
        return self._with(other, _div, float32)

    def __rtruediv__(self, other):
        return self._with(other, _div, float32, True)

    def __floordiv__(self, other):
        return self._with(other, lambda a, b: a // b)

    def __rfloordiv__(self, other):
        return self._with(other, lambda a, b: a // b, turned=True)

    def __mod__(self, other):
        return self._with(other, lambda a, b: a % b)

    def __pow__(self, other):
        return self._with(other, _pow)

    def __rpow__(self, other):
        return self._with(other, _pow, turned=True)

    def __neg__(self):
        return self._map(lambda v: -v)

    def __matmul__(self, other):
        raise NotHere("this page has no @; JupyterLab has")

    def __eq__(self, other):
        return self._with(other, lambda a, b: a == b, bool_)

    def __ne__(self, other):
        return self._with(other, lambda a, b: a != b, bool_)

    def __lt__(self, other):
        return self._with(other, lambda a, b: a < b, bool_)

    def __le__(self, other):
        return self._with(other, lambda a, b: a <= b, bool_)

    def __gt__(self, other):
        return self._with(other, lambda a, b: a > b, bool_)

    def __ge__(self, other):
        return self._with(other, lambda a, b: a >= b, bool_)

    def __and__(self, other):
        return self._with(other, lambda a, b: a and b)

    def __or__(self, other):
        return self._with(other, lambda a, b: a or b)

    def __invert__(self):
        return self._map(lambda v: not v)

    def __hash__(self):
        return id(self)

    def copy_(self, other):
        if not isinstance(other, Tensor):
            other = tensor(other)
        data, places = self._data, self._places()
        values = other.to(self.dtype).expand(self.shape)._values()
        for place, value in zip(places, values):
            data[place] = value
        return self

    def _in_place(self, result):
        if result.shape != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(result.shape)}"
            )
        return self.copy_(result)

    def __iadd__(self, other):
        return self._in_place(self + other)

    def __isub__(self, other):
        return self._in_place(self - other)

    def __imul__(self, other):
        return self._in_place(self * other)

    def __itruediv__(self, other):
        return self._in_place(self / other)

    add_, sub_, mul_, div_ = __iadd__, __isub__, __imul__, __itruediv__
    sub, mul, div, neg = __sub__, __mul__, __truediv__, __neg__
    eq, ne, lt, le, gt, ge = __eq__, __ne__, __lt__, __le__, __gt__, __ge__
    pow, __radd__, __rmul__ = __pow__, __add__, __mul__

    def _map(self, function, kind=None):
        kind = kind or self.dtype
        return Tensor(_round([function(v) for v in self._values()], kind), self.shape, kind)

    def _real(self, function):
        return self._map(function, self.dtype if self.dtype.rank > 1 else float32)

    def square(self):
        return self._map(lambda v: v * v)

    def abs(self):
        return self._map(abs)

    def sqrt(self):
        return self._real(_sqrt)

    def rsqrt(self):
        return self._real(lambda v: _div(1.0, _sqrt(v)))

    def reciprocal(self):
        return self._real(lambda v: _div(1.0, v))

    def isnan(self):
        return self != self

    def isfinite(self):
        return self.abs() < math.inf

    def count_nonzero(self):
        return (self != 0).sum()

    def exp(self):
        return self._real(_exp)

    def log(self):
        return self._real(_log)

    def sin(self):
        return self._real(math.sin)

    def cos(self):
        return self._real(math.cos)

    def round(self):
        return self._map(lambda v: round(v) * 1.0 if isinstance(v, float) else v)

    def deg2rad(self):
        return self._real(math.radians)

    def log10(self):
        return self._real(lambda v: _log(v) / math.log(10.0))

    def lerp(self, end, weight):
        return self + weight * (end - self)

    def maximum(self, other):
        return self.clamp(min=other)

    def clamp(self, min=None, max=None):
        result = self
        if min is not None:
            result = result._with(min, lambda a, b: a if a > b or a != a else b)
        if max is not None:
            result = result._with(max, lambda a, b: a if a < b or a != a else b)
        return result

    def clamp_min(self, min):
        return self.clamp(min)

    clip = clamp

    # reductions

    def _groups(self, dim):
        """The values that share a result, for each result; and its shape with dimensions kept."""
        if dim is None or dim == () or dim == []:
            dims = list(range(self.ndim))
        else:
            dims = [self._at(d) for d in ([dim] if isinstance(dim, int) else dim)]
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"dim {dims[0]} appears multiple times in the list of dims")
        order = [d for d in range(self.ndim) if d not in dims]
        kept = tuple([1 if d in dims else n for d, n in enumerate(self.shape)])
        values = self.permute(order + dims)._values() if self.ndim else self._values()
        size = _size([self.shape[d] for d in dims])
        count = _size([self.shape[d] for d in order])
        groups = [values[i * size : (i + 1) * size] for i in range(count)]
        return groups, kept, tuple([self.shape[d] for d in order])

    def _reduce(self, function, dim, keepdim, kind):
        groups, kept, fewer = self._groups(dim)
        values = _round([function(group) for group in groups], kind)
        return Tensor(values, kept if keepdim else fewer, kind)

    def sum(self, dim=None, keepdim=False, dtype=None):
        kind = dtype or (self.dtype if self.dtype.rank else int64)
        return self.to(kind)._reduce(sum, dim, keepdim, kind)

    def mean(self, dim=None, keepdim=False, dtype=None):
        kind = dtype or self.dtype
        return self.to(kind)._reduce(lambda g: _div(sum(g), len(g)), dim, keepdim, kind)

    def var(self, dim=None, unbiased=True, keepdim=False, correction=None):
        less = (1 if unbiased else 0) if correction is None else correction

        def variance(group):
            mean = _div(sum(group), len(group))
            squares = sum([(v - mean) * (v - mean) for v in group])
            return _div(squares, max(len(group) - less, 0))

        return self._reduce(variance, dim, keepdim, self.dtype)

    def std(self, dim=None, unbiased=True, keepdim=False, correction=None):
        return self.double().var(dim, unbiased, keepdim, correction).sqrt().to(self.dtype)

    def amax(self, dim=(), keepdim=False):
        return self._reduce(_largest, dim, keepdim, self.dtype)

    def amin(self, dim=(), keepdim=False):
        return -(-self).amax(dim, keepdim)

    def max(self, dim=None, keepdim=False):
        return self.amax(keepdim=keepdim) if dim is None else _Values(self.amax(dim, keepdim))

    def median(self, dim=None, keepdim=False):
        middle = self._reduce(lambda g: sorted(g)[(len(g) - 1) // 2], dim, keepdim, self.dtype)
        return middle if dim is None else _Values(middle)

    def sort(self, dim=-1, descending=False):
        rows, values, n = self.transpose(dim, -1), [], self.shape[dim]
        flat = rows._values()
        for start in range(0, len(flat), n):
            values += sorted(flat[start : start + n], reverse=descending)
        return _Values(Tensor(values, rows.shape, self.dtype).transpose(dim, -1))

    def cumsum(self, dim):
        rows = self.transpose(dim, -1)
        kind = self.dtype if self.dtype.rank else int64
        values, n = [], max(rows.shape[-1], 1)
        for i, value in enumerate(rows._values()):
            values.append(value + values[-1] if i % n else value)
        return Tensor(_round(values, kind), rows.shape, kind).transpose(dim, -1)

    def any(self, dim=None, keepdim=False):
        return self._reduce(lambda g: any([bool(v) for v in g]), dim, keepdim, bool_)

    def all(self, dim=None, keepdim=False):
        return self._reduce(lambda g: all([bool(v) for v in g]), dim, keepdim, bool_)

    # shapes

    def view(self, *shape):
        shape = _filled(_shape_of(shape), self.numel())
        if not self.is_contiguous():
            strides = self._strides_as(shape)
            if strides is None:
                raise RuntimeError(
                    "view size is not compatible with input tensor's size and stride (at least one "
                    "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
                )
            return self._view(shape, strides)
        return self._view(shape, _strides(shape))

    def _strides_as(self, shape):
        """The strides that show the same memory in another shape, or None."""
        own = [(n, s) for n, s in zip(self.shape, self._strides) if n != 1]
        new = [n for n in shape if n != 1]
        strides = []
        while own:
            n, step = own.pop(0)
            while own and step == own[0][0] * own[0][1]:  # one run in memory
                n, step = n * own[0][0], own.pop(0)[1]
            block = []
            while new and n > 1:
                if n % new[0]:
                    return None
                n //= new[0]
                block.append(step * n)
                new.pop(0)
            if n != 1:
                return None
            strides += block
        return [1 if n == 1 else strides.pop(0) for n in shape]

    def reshape(self, *shape):
        shape = _filled(_shape_of(shape), self.numel())
        strides = self._strides_as(shape) if self.numel() else None
        if strides is not None:
            return self._view(shape, strides)
        return Tensor(self._values(), shape, self.dtype)

    def flatten(self, start_dim=0, end_dim=-1):
        start, end = self._at(start_dim), self._at(end_dim)
        middle = _size(self.shape[start : end + 1])
        return self.reshape(self.shape[:start] + (middle,) + self.shape[end + 1 :])

    def unflatten(self, dim, sizes):
        dim = self._at(dim)
        sizes = _filled(tuple(sizes), self.shape[dim])
        return self.reshape(self.shape[:dim] + sizes + self.shape[dim + 1 :])

    def unsqueeze(self, dim):
        dim = dim % (self.ndim + 1)
        return self._view(
            self.shape[:dim] + (1,) + self.shape[dim:],
            self._strides[:dim] + (1,) + self._strides[dim:],
        )

    def squeeze(self, dim=None):
        dims = range(self.ndim) if dim is None else [self._at(dim)]
        kept = [d for d in range(self.ndim) if d not in dims or self.shape[d] != 1]
        return self.permute(kept)

    def permute(self, *dims):
        dims = [self._at(d) for d in _shape_of(dims)]
        return self._view([self.shape[d] for d in dims], [self._strides[d] for d in dims])

    def transpose(self, dim0, dim1):
        dims = list(range(self.ndim))
        a, b = self._at(dim0), self._at(dim1)
        if dims:
            dims[a], dims[b] = dims[b], dims[a]
        return self.permute(dims)

    swapaxes = transpose

    @property
    def mT(self):
        return self.transpose(-2, -1)

    @property
    def T(self):
        return self.permute(list(reversed(range(self.ndim))))

    def narrow(self, dim, start, length):
        return self[(_ALL,) * self._at(dim) + (_slice[start : start + length],)]

    def select(self, dim, index):
        return self[(_ALL,) * self._at(dim) + (index,)]

    def split(self, size, dim=0):
        total = self.shape[dim]
        sizes = size
        if isinstance(size, int):
            sizes = [min(size, total - start) for start in range(0, total, size)]
        parts, start = [], 0
        for n in sizes:
            parts.append(self.narrow(dim, start, n))
            start += n
        return tuple(parts)

    def chunk(self, chunks, dim=0):
        return self.split(max(-(-self.shape[dim] // chunks), 1), dim)

    def unbind(self, dim=0):
        before = (_ALL,) * self._at(dim)
        return tuple([self[before + (i,)] for i in range(self.shape[dim])])

    def flip(self, *dims):
        result = self
        for dim in _shape_of(dims):
            result = stack(list(reversed(result.unbind(dim))), dim)
        return result

    def roll(self, shift, dim):
        parts = self.unbind(dim)
        return stack(parts[-shift:] + parts[:-shift], dim)

    def repeat(self, *sizes):
        result = self
        for dim, n in enumerate(reversed(_shape_of(sizes)), 1):
            if dim > result.ndim:
                result = result.unsqueeze(0)
            result = cat([result] * n, -dim)
        return result

    def repeat_interleave(self, repeats, dim=None):
        if dim is None:
            return self.flatten().repeat_interleave(repeats, 0)
        return stack([self] * repeats, self._at(dim) + 1).flatten(self._at(dim), self._at(dim) + 1)

    def __iter__(self):
        return iter(self.unbind(0))

    def _indexed(self, index):
        """A view of what slices and whole numbers choose."""
        index = index if isinstance(index, tuple) else (index,)
        used = sum([each is not None and each is not ... for each in index])
        if used > self.ndim:
            raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
        shape, strides, offset, dim = [], [], self._offset, 0
        for each in index:
            if each is None:
                shape.append(1)
                strides.append(1)
            elif each is ...:
                skipped = self.ndim - used
                shape += self.shape[dim : dim + skipped]
                strides += self._strides[dim : dim + skipped]
                dim += skipped
            elif isinstance(each, slice):
                n, step = self.shape[dim], self._strides[dim]
                chosen = list(range(n))[each]
                if each.step is not None and each.step < 1:
                    raise ValueError("step must be greater than zero")
                shape.append(len(chosen))
                strides.append(step * (each.step or 1))
                offset += chosen[0] * step if chosen else 0
                dim += 1
            else:
                each = each.item() if isinstance(each, Tensor) else each
                n = self.shape[dim]
                if not -n <= each < n:
                    raise IndexError(
                        f"index {each} is out of bounds for dimension {dim} with size {n}"
                    )
                offset += each % n * self._strides[dim]
                dim += 1
        shape += self.shape[dim:]
        strides += self._strides[dim:]
        return self._view(shape, strides, offset)

    def __getitem__(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        lists = [i for i, each in enumerate(parts) if _is_list(each)]
        if not lists:
            return self._indexed(index)
        before, chosen, after = parts[: lists[0]], tensor(parts[lists[0]]), parts[lists[0] + 1 :]
        if chosen.dtype.rank > 1:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if len(lists) > 1 or chosen.dtype is bool_ or [each for each in parts if each is None]:
            raise NotHere("this page has no indexing by masks or several lists; JupyterLab has")
        rows = stack([self._indexed(before + (i,) + after) for i in chosen._values()])
        dim = len([each for each in before if isinstance(each, slice)])
        if [each for each in before if each is ...]:
            dim = rows.ndim - 1 - len([each for each in after if isinstance(each, slice)])
        order = list(range(chosen.ndim, chosen.ndim + rows.ndim - 1))
        order = order[:dim] + list(range(chosen.ndim)) + order[dim:]
        return rows.unflatten(0, chosen.shape).permute(order)

    def __setitem__(self, index, value):
        if [each for each in (index if isinstance(index, tuple) else (index,)) if _is_list(each)]:
            raise NotHere("this page has no assignment to masks or lists; JupyterLab has")
        self._indexed(index).copy_(value)

    # types

    def to(self, *kinds, dtype=None, device=None, copy=False):
        for each in kinds:
            if isinstance(each, dtype_):
                dtype = each
            elif isinstance(each, Tensor):
                dtype = each.dtype
        if dtype is None or dtype is self.dtype:
            return self.clone() if copy else self
        values = self._values()
        if dtype is bool_:
            values = [v != 0 for v in values]
        elif dtype is int64:
            values = [int(v) for v in values]
        elif self.dtype.rank < 2:
            values = [v * 1.0 for v in values]
        return Tensor(_round(values, dtype), self.shape, dtype)

    type = to

    def type_as(self, other):
        return self.to(other.dtype)

    def float(self):
        return self.to(float32)

    def double(self):
        return self.to(float64)

    def long(self):
        return self.to(int64)

    int = long

    def half(self):
        return self.to(float16)

    def bfloat16(self):
        return self.to(bfloat16)

    def clone(self):
        return Tensor(self._values(), self.shape, self.dtype)

    def contiguous(self):
        return self if self.is_contiguous() else self.clone()

    def detach(self):
        return self

    data = property(detach)

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self._values()[0]

    def __bool__(self):
        if self.numel() > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __int__(self):  # as an index: of int(x) answer.py makes a call of its own
        if self.dtype.rank > 1 or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return self.item()

    def tolist(self):
        return [part.tolist() for part in self] if self.ndim else self.item()

    def __repr__(self):
        suffix = "" if self.dtype in (float32, int64, bool_) else f", dtype={self.dtype!r}"
        return f"tensor({_rounded(self.tolist())}{suffix})"

    def outer(self, other):
        return self[:, None] * other


def _largest(group):
    for value in group:
        if value != value:
            return value
    return max(group)


def _rounded(value):
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


class _Values:
    """What a search along a dimension returns; here without the places."""

    def __init__(self, values):
        self.values = values


def _is_list(index):
    if isinstance(index, Tensor):
        return index.ndim > 0 or index.dtype is bool_
    return isinstance(index, list)


def _shape_of(sizes):
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return tuple([n.item() if isinstance(n, Tensor) else n for n in sizes])


def _filled(shape, size):
    known = _size([n for n in shape if n != -1])
    if -1 in shape and known and size % known == 0:
        shape = tuple([size // known if n == -1 else n for n in shape])
    if -1 in shape or _size(shape) != size:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
    return shape


def _apply(function, operands, kind=None):
    """The function of each pair of entries. ``kind``: bool, or float32 for at least a real."""
    common = _common(*operands)
    result = common if kind is None or (kind is float32 and common.rank > 1) else kind
    shape = _broadcast(*[each.shape for each in operands if isinstance(each, Tensor)])
    size = _size(shape)
    columns = []
    for each in operands:
        if isinstance(each, Tensor):
            values = each.to(common) if common.rank > 1 else each
            columns.append(
                values._values() if values.shape == shape else values.expand(shape)._values()
            )
        else:
            value = each * 1.0 if common.rank > 1 else each
            wide = float32 if common.rank == 2 else common  # as torch takes a number beside halves
            columns.append(_round([value], wide) * size if size else [])
    values = [function(a, b) for a, b in zip(*columns)]
    return Tensor(_round(values, result), shape, result)


# functions

pi, inf, nan, e = math.pi, math.inf, math.nan, math.e


def tensor(values, dtype=None, device=None, requires_grad=False):
    if isinstance(values, Tensor):
        return values.to(dtype or values.dtype, copy=True)
    shape, flat = [], [values]
    while flat and isinstance(flat[0], (list, tuple)):
        shape.append(len(flat[0]))
        flat = [each for part in flat for each in part]
    flat = [_number_in(each) for each in flat]
    if len(flat) != _size(shape):
        raise ValueError(f"expected sequences of length {shape[-1]}")
    if dtype is None:
        dtype = float32
        if flat:
            dtype = max([_kind_of(value) for value in flat], key=lambda kind: kind.rank)
    if dtype is int64:
        flat = [int(v) for v in flat]
    elif dtype is bool_:
        flat = [bool(v) for v in flat]
    else:
        flat = [v * 1.0 for v in flat]
    return Tensor(_round(flat, dtype), shape, dtype)


as_tensor = tensor


def _number_in(value):
    """The number that stands in a list, or is a tensor's only one."""
    if not isinstance(value, Tensor):
        return value
    if value.numel() != 1 and value.dtype is int64:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if value.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return value.item()


def full(shape, value, dtype=None, device=None):
    shape = _shape_of((shape,))
    dtype = dtype or _kind_of(value)
    value = value if dtype.rank < 2 else value * 1.0
    return Tensor(_round([value] * _size(shape), dtype), shape, dtype)


def zeros(*shape, dtype=float32, device=None):
    return full(_shape_of(shape), 0, dtype)


def ones(*shape, dtype=float32, device=None):
    return full(_shape_of(shape), 1, dtype)


empty = zeros


def full_like(x, value, dtype=None, device=None):
    return full(x.shape, value, dtype or x.dtype)


def zeros_like(x, dtype=None, device=None):
    return full_like(x, 0, dtype)


def ones_like(x, dtype=None, device=None):
    return full_like(x, 1, dtype)


empty_like = zeros_like


def arange(start, end=None, step=1, dtype=None, device=None):
    start, end = (0, start) if end is None else (start, end)
    if isinstance(end, Tensor) and end.ndim:
        raise TypeError("arange(): argument 'end' must be Number, not Tensor")
    start, end, step = [v.item() if isinstance(v, Tensor) else v for v in (start, end, step)]
    if dtype is None:
        dtype = max([_kind_of(v) for v in (start, end, step)], key=lambda kind: kind.rank)
    n = max(math.ceil((end - start) / step), 0)
    return tensor([start + i * step for i in range(n)], dtype)


def linspace(start, end, steps, dtype=float32, device=None):
    width = (end - start) / max(steps - 1, 1)
    values = [
        start + i * width if 2 * i < steps else end - (steps - 1 - i) * width for i in range(steps)
    ]
    return tensor(values, dtype)


def rand(*shape, generator=None, dtype=float32, device=None):
    """Other numbers than torch's: no seed makes them the same."""
    shape = _shape_of(shape)
    return Tensor(_round([random.random() for _ in range(_size(shape))], dtype), shape, dtype)


def randn(*shape, generator=None, dtype=float32, device=None):
    u, v = [rand(*shape, dtype=float64) for _ in range(2)]
    return ((-2 * (1 - u).log()).sqrt() * (2 * pi * v).cos()).to(dtype)


def stack(tensors, dim=0):
    first = tensors[0]
    dim = dim % (first.ndim + 1)
    return cat([each.unsqueeze(dim) for each in tensors], dim)


def cat(tensors, dim=0):
    kind = _common(*tensors)
    dim = tensors[0]._at(dim)
    shapes = [each.shape[:dim] + each.shape[dim + 1 :] for each in tensors]
    if [shape for shape in shapes if shape != shapes[0]]:
        raise RuntimeError("Sizes of tensors must match except in the concatenated dimension")
    rows = []
    for each in tensors:
        rows += [part.to(kind)._values() for part in each.unbind(dim)]
    flat = [value for row in rows for value in row]
    shape = (len(rows),) + tensors[0].shape[:dim] + tensors[0].shape[dim + 1 :]
    order = list(range(1, dim + 1)) + [0] + list(range(dim + 1, len(shape)))
    return Tensor(flat, shape, kind).permute(order).contiguous()


concat = concatenate = cat


def where(condition, a, b):
    kind = _common(a, b)
    shapes = [each.shape for each in (condition, a, b) if isinstance(each, Tensor)]
    shape = _broadcast(*shapes)
    columns = [
        (each if isinstance(each, Tensor) else tensor(each)).expand(shape)
        for each in (condition, a, b)
    ]
    first, second = [column.to(kind)._values() for column in columns[1:]]
    flat = [p if c else q for c, p, q in zip(columns[0]._values(), first, second)]
    return Tensor(flat, shape, kind)


def einsum(equation, *operands):
    """Of letters alone, and an arrow; an ellipsis is not here."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    letters = output + "".join(sorted([c for c in set(inputs) if c not in output and c != ","]))
    product = tensor(1, operands[0].dtype)
    for name, x in zip(inputs.split(","), operands):
        if not arrow or "." in name or len(set(name)) < len(name):
            raise NotHere("this page has einsum of letters and an arrow; JupyterLab has more")
        x = x.permute([name.index(c) for c in letters if c in name])
        for i, c in enumerate(letters):
            if c not in name:
                x = x.unsqueeze(i)
        product = product * (x.double() if x.dtype.rank > 1 else x)
    summed = tuple(range(len(output), len(letters)))
    return (product.sum(summed) if summed else product).to(_common(*operands))


def promote_types(a, b):
    if a.rank == b.rank == 2 and a is not b:
        return float32
    return a if a.rank >= b.rank else b


class finfo:
    def __init__(self, kind=float32):
        self.eps = kind.eps


class no_grad:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __call__(self, function):
        return function


class _Missing:
    """A part of torch of which this page has nothing."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotHere(f"this page has no {self._name}.{name}; JupyterLab has all of torch")


def _of_method(name):
    def function(x, *args, **others):
        if not isinstance(x, Tensor):
            kind = type(x).__name__
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {kind}")
        return getattr(x, name)(*args, **others)

    return function


METHODS = [
    "abs",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "square",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "log",
    "sin",
    "cos",
    "clamp",
    "sum",
    "mean",
    "var",
    "std",
    "amax",
    "amin",
    "max",
    "median",
    "sort",
    "cumsum",
    "any",
    "all",
    "reshape",
    "flatten",
    "unflatten",
    "unsqueeze",
    "squeeze",
    "permute",
    "transpose",
    "split",
    "chunk",
    "unbind",
    "flip",
    "repeat_interleave",
    "numel",
    "clone",
    "outer",
    "lerp",
    "round",
    "deg2rad",
    "log10",
    "maximum",
    "narrow",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
]
OTHERS = [
    "tensor",
    "as_tensor",
    "full",
    "zeros",
    "ones",
    "empty",
    "full_like",
    "zeros_like",
    "ones_like",
    "empty_like",
    "arange",
    "linspace",
    "rand",
    "randn",
    "stack",
    "cat",
    "concat",
    "concatenate",
    "where",
    "einsum",
    "promote_types",
    "finfo",
    "no_grad",
    "Tensor",
    "Size",
    "pi",
    "inf",
    "nan",
    "e",
    "int64",
    "float32",
    "float64",
    "float16",
    "bfloat16",
]

torch = _Missing("torch")
for _name in METHODS:
    setattr(torch, _name, _of_method(_name))
for _name in OTHERS:
    setattr(torch, _name, globals()[_name])
torch.pow = lambda a, b: a**b
torch.is_tensor = lambda x: isinstance(x, Tensor)
torch.broadcast_to = lambda x, shape: x.expand(shape)
torch.long, torch.float, torch.double, torch.half, torch.bool = (
    int64,
    float32,
    float64,
    float16,
    bool_,
)
torch.nn = _Missing("torch.nn")
torch.nn.functional = _Missing("torch.nn.functional")
