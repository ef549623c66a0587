"""What PyTorch's own samples (test_opinfo.py) do not reach: accuracy, awkward inputs, modules over
time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from devices import on_every_device
from torch import Tensor, nn
from torch.testing import assert_close

from course_utils import norms
from course_utils.norms import backward

HALVES = [torch.bfloat16, torch.float16]
in_both_halves = pytest.mark.parametrize("dtype", HALVES, ids=["bfloat16", "float16"])


@dataclass(frozen=True)
class Case:
    """One norm as a function of (library, x, weight, bias), with a shape to try it on."""

    name: str
    shape: tuple[int, ...]
    channels: int
    apply: Callable[..., Tensor]

    def inputs(self, seed, offset=0.0, device="cpu"):
        """Return x = offset + noise, weight, bias and the gradient of the result, in float32."""
        generator = torch.Generator().manual_seed(seed)
        shapes = (self.shape, (self.channels,), (self.channels,), self.shape)
        x, weight, bias, dy = (torch.randn(shape, generator=generator) for shape in shapes)
        return [tensor.to(device) for tensor in (offset + x, weight, bias, dy)]

    def __str__(self):
        return self.name


def evaluate_batch_norm(m, x, w, b):
    """Evaluate with running statistics that fit the input's channels roughly, as after training."""
    mean, variance = x.detach().mean((0, 2, 3)), x.detach().double().var((0, 2, 3)).to(x.dtype)
    return m.batch_norm(x, mean, variance, w, b)


LAYER = Case("layer_norm", (64, 96), 96, lambda m, x, w, b: m.layer_norm(x, w.shape, w, b))
WIDE_LAYER = Case("wide layer_norm", (64, 1024), 1024, LAYER.apply)
RMS = Case("rms_norm", (64, 96), 96, lambda m, x, w, b: m.rms_norm(x, w.shape, w) + b)
GROUP = Case("group_norm", (8, 16, 14, 14), 16, lambda m, x, w, b: m.group_norm(x, 4, w, b))
INSTANCE = Case(
    "instance_norm", (8, 16, 14, 14), 16, lambda m, x, w, b: m.instance_norm(x, None, None, w, b)
)
BATCH_2D = Case(
    "batch_norm on (N, C)",
    (256, 32),
    32,
    lambda m, x, w, b: m.batch_norm(x, None, None, w, b, True),
)
BATCH = Case("batch_norm", (8, 16, 14, 14), 16, BATCH_2D.apply)
BATCH_CHANNELS_LAST = Case(
    "batch_norm, channels last",
    BATCH.shape,
    BATCH.channels,
    lambda m, x, w, b: BATCH.apply(m, x.to(memory_format=torch.channels_last), w, b),
)
BATCH_EVAL = Case("batch_norm in evaluation", BATCH.shape, BATCH.channels, evaluate_batch_norm)

ONE_OF_EACH = (LAYER, RMS, GROUP, INSTANCE, BATCH)
CASES = (*ONE_OF_EACH, WIDE_LAYER, BATCH_2D, BATCH_CHANNELS_LAST, BATCH_EVAL)
for_one_of_each = pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)


def forward_and_backward(case, library, x, weight, bias, dy):
    """Return y, dx, dweight, dbias of fresh leaves with these values."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, weight, bias)]
    y = case.apply(library, *leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


# --- accuracy -------------------------------------------------------------------------------------


class ByHand:
    """The norms with their gradients by hand, called as torch's are."""

    layer_norm, rms_norm = backward.layer_norm, backward.rms_norm

    @staticmethod
    def batch_norm(x, mean, variance, weight, bias, training):
        return backward.batch_norm(x, weight, bias)


def in_every_library(cases, by_hand):
    """Give a test each of ``cases`` with the course's norms, and ``by_hand`` with `ByHand`."""
    return pytest.mark.parametrize(
        ("library", "case"),
        [*((norms, case) for case in cases), *((ByHand, case) for case in by_hand)],
        ids=lambda value: getattr(value, "__name__", str(value)),
    )


@on_every_device
@in_every_library(CASES, by_hand=(LAYER, RMS, BATCH_2D, BATCH))
@pytest.mark.parametrize("offset", [0.0, 1e2, 1e3, 1e4])
def test_error_against_float64_is_at_most_twice_the_builtins_far_from_zero_too(
    library, case, offset, device
):
    """The largest error over eight draws; of a single one, two maxima of rounding noise say little
    (0.4 to 3.5)."""
    worst = {"mine": torch.zeros(4), "builtin": torch.zeros(4)}
    for seed in range(8):
        inputs = case.inputs(seed, offset, device)
        truth = forward_and_backward(case, F, *(tensor.double() for tensor in inputs))
        for key, module in (("mine", library), ("builtin", F)):
            results = forward_and_backward(case, module, *inputs)
            errors = [(got - true).abs().max() for got, true in zip(results, truth, strict=True)]
            worst[key] = torch.maximum(worst[key], torch.stack(errors).float().cpu())
            if key == "mine" and case in (LAYER, GROUP, INSTANCE, BATCH) and seed == 0:
                # Centring twice removes the mean's rounding error: 1e-6 at 1e4 where one centring
                # leaves 1e-3.
                for got, true in zip(results, truth, strict=True):
                    # a sum of so many terms passes through numbers of the size of its square root
                    passed = (inputs[0].numel() / got.numel()) ** 0.5
                    atol = max(5e-6, 2 * torch.finfo(torch.float32).eps * passed)
                    assert_close(got.double(), true, atol=atol, rtol=2e-6)
    # The built-in is exact where a result is a copy (the bias of rms_norm here): allow a rounding
    # of 1e-9 beside it.
    for name, mine, builtin in zip(
        ("y", "dx", "dweight", "dbias"), worst["mine"], worst["builtin"], strict=True
    ):
        assert mine <= 2 * builtin + 1e-9, f"{name}: error {mine:.2e}, built-in {builtin:.2e}"


@on_every_device
@in_both_halves
@pytest.mark.parametrize("parameters_in", ["half", "float32"])
@in_every_library(ONE_OF_EACH, by_hand=(LAYER, RMS, BATCH))
def test_gradients_over_8192_half_precision_rows_are_the_float64_ones_rounded(
    library, case, dtype, parameters_in, device
):
    """Sums in half precision are off by 10 % and more."""
    case = replace(case, shape=(8192, 8, 4) if case in (GROUP, INSTANCE) else (8192, 64))
    case = replace(case, channels=case.shape[1])
    x, weight, bias, dy = case.inputs(0, offset=1.0, device=device)
    # a gradient with a mean, so that the sums grow with the rows
    x, dy = (x.to(dtype), (dy + 1).to(dtype))
    weight, bias = (p if parameters_in == "float32" else p.to(dtype) for p in (weight, bias))
    truth = forward_and_backward(case, F, *(tensor.double() for tensor in (x, weight, bias, dy)))
    # RMS norm has no bias: the case adds one, and a float32 bias makes its result float32.
    got = forward_and_backward(
        case, library, x, weight, bias, dy.to(bias) if case.name == "rms_norm" else dy
    )
    for mine, true in zip(got[1:], truth[1:], strict=True):
        assert (mine.double() - true).norm() <= torch.finfo(dtype).eps * true.norm()


@on_every_device
@pytest.mark.parametrize("offset", [1e4, -1e6])
def test_far_from_zero_the_mean_is_the_float64_one_rounded_once(offset, device):
    """A float32 sum is units in the last place off; the rounding error that centring removes
    corrects the mean, too."""
    x = BATCH.inputs(0, offset, device)[0]
    mean, variance = torch.zeros(16, device=device), torch.ones(16, device=device)
    # momentum 1 keeps the new mean alone
    norms.batch_norm(x, mean, variance, None, None, True, 1.0)
    assert torch.equal(mean, x.double().mean((0, 2, 3)).float())


@on_every_device
@in_both_halves
@pytest.mark.parametrize("function", ["batch_norm", "instance_norm"])
def test_half_precision_running_statistics_are_rounded_once_a_step(function, dtype, device):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(16, 512, 8, generator=generator).to(device, dtype)
    start = torch.rand(2, 512, generator=generator).to(device, dtype)
    mean, variance = start.clone()
    getattr(norms, function)(x, mean, variance, None, None, True, 0.1)
    wide_mean, wide_variance = start.double()
    getattr(F, function)(x.double(), wide_mean, wide_variance, None, None, True, 0.1)
    for got, expected in ((mean, wide_mean), (variance, wide_variance)):
        # float32 inside may land on the other side of a rounding boundary, hence not every channel.
        assert (got == expected.to(dtype)).double().mean() > 0.99


@on_every_device
@in_both_halves
@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (8.0, 1.0), (0.0, 300.0)])
@for_one_of_each
def test_half_precision_results_are_the_float64_ones_rounded_once(
    case, dtype, offset, scale, device
):
    """At 300 a square overflows float16; at 8 statistics in bfloat16 are off by more than the
    data's spacing."""
    x, weight, bias, _ = (tensor.to(dtype) for tensor in case.inputs(0, device=device))
    x, bias = offset + scale * x, 0 * bias
    got = case.apply(norms, x, weight, bias)
    rounded = case.apply(F, x.double(), weight.double(), bias.double()).to(dtype)
    # float32 inside may land on the other side of a rounding boundary, hence not every element.
    assert got.dtype == dtype
    assert (got == rounded).double().mean() > 0.998
    info = torch.finfo(dtype)
    # below the smallest normal number the spacing no longer shrinks
    assert_close(got, rounded, rtol=info.eps, atol=info.eps * info.smallest_normal)


# --- awkward inputs -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (0, 4, 3), (2, 3, 0), (0, 3, 3, 3)], ids=str)
def test_empty_inputs_pass_through_leave_the_statistics_alone_and_give_zero_gradients(shape):
    """Of instance norm's statistics the built-in makes NaN."""
    channels, last = shape[1], shape[-1]
    mean, variance = torch.full((channels,), 2.0), torch.full((channels,), 5.0)
    calls = [
        (last, lambda x, w: norms.layer_norm(x, (last,), w, w)),
        (last, lambda x, w: norms.rms_norm(x, (last,), w)),
        (channels, lambda x, w: norms.batch_norm(x, mean, variance, w, w, True)),
        (channels, lambda x, w: norms.batch_norm(x, mean, variance, w, w)),
    ]
    if len(shape) == 4:
        calls.append((channels, lambda x, w: norms.instance_norm(x, mean, variance, w, w)))
    for size, call in calls:
        x, weight = torch.ones(shape, requires_grad=True), torch.ones(size, requires_grad=True)
        y = call(x, weight)
        y.sum().backward()
        assert y.shape == x.grad.shape == shape
        assert not weight.grad.any()
    assert mean.eq(2).all()
    assert variance.eq(5).all()


def layouts():
    """Yield (2, 4, ...) tensors laid out in memory in every way that a model meets."""

    def randn(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    yield "channels last", randn(2, 4, 3, 5).to(memory_format=torch.channels_last)
    yield "permuted", randn(3, 5, 2, 4).permute(2, 3, 0, 1)
    yield "sliced", randn(4, 8, 6, 10)[::2, ::2, ::2, ::2]
    yield "expanded", randn(1, 4, 3, 5).expand(2, 4, 3, 5)
    yield "one position", randn(2, 4, 1, 1)
    yield "transposed (N, C, L)", randn(2, 3, 4).transpose(1, 2)
    yield "transposed (N, C)", randn(4, 2).t()


@pytest.mark.parametrize(
    ("layout", "x"), list(layouts()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_results_are_laid_out_in_memory_as_the_builtins_are(layout, x):
    ones, zeros = torch.ones(4, dtype=x.dtype), torch.zeros(4, dtype=x.dtype)
    calls = {
        "layer_norm": lambda m: m.layer_norm(x, x.shape[-1:]),
        "rms_norm": lambda m: m.rms_norm(x, x.shape[-1:]),
        "group_norm": lambda m: m.group_norm(x, 2, ones, ones),
        "batch_norm": lambda m: m.batch_norm(
            x, zeros.clone(), ones.clone(), ones, ones, training=True
        ),
        "batch_norm in evaluation": lambda m: m.batch_norm(x, zeros, ones),
        "instance_norm": lambda m: m.instance_norm(x),
    }
    if x[0, 0].numel() == 1:
        del calls["instance_norm"]  # refuses a single position
    for name, call in calls.items():
        expected, got = call(F), call(norms)
        assert got.stride() == expected.stride(), name
        assert_close(got, expected)


# --- transforms -----------------------------------------------------------------------------------

STATELESS = {
    "layer_norm": lambda m, x: m.layer_norm(x, (5,), torch.arange(5.0).to(x), torch.ones(5).to(x)),
    "rms_norm": lambda m, x: m.rms_norm(x, (5,), torch.arange(5.0).to(x)),
    "group_norm": lambda m, x: m.group_norm(x, 2, torch.arange(4.0).to(x), torch.ones(4).to(x)),
    "instance_norm": lambda m, x: m.instance_norm(x, None, None, torch.arange(4.0).to(x)),
    "batch_norm": lambda m, x: m.batch_norm(x, None, None, torch.arange(4.0).to(x), training=True),
    "batch_norm in evaluation": lambda m, x: m.batch_norm(
        x, torch.zeros(4).to(x), torch.ones(4).to(x)
    ),
}
for_every_stateless = pytest.mark.parametrize("apply", STATELESS.values(), ids=STATELESS)


# PyTorch's own, on the first jvp
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@for_every_stateless
def test_vmap_jvp_and_their_compositions_agree_with_the_builtin(apply):
    from torch.func import grad, jvp, vmap

    x = torch.randn(3, 2, 4, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    transforms = {
        "vmap over the last": lambda f: vmap(f, in_dims=1, out_dims=1)(x.transpose(0, 1)),
        "vmap of grad": lambda f: vmap(grad(lambda z: f(z).pow(3).sum()))(x),
        "jvp of grad": lambda f: jvp(grad(lambda z: f(z).pow(3).sum()), (x[0],), (x[1],)),
        "vmap of jvp": lambda f: vmap(lambda z: jvp(f, (z,), (x[0],))[1])(x),
    }
    for name, transform in transforms.items():
        got, expected = (transform(lambda z, m=library: apply(m, z)) for library in (norms, F))
        assert_close(got, expected, msg=lambda text, name=name: f"{name}: {text}")


@for_every_stateless
def test_compiles_into_one_graph_that_gives_the_same_results_and_gradients(apply):
    """Traced through the backward pass too; `aot_eager` stops before code is generated."""
    compiled = torch.compile(lambda x: apply(norms, x), fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 4, 6, 5, generator=torch.Generator().manual_seed(0))
    results = []
    for function in (compiled, lambda x: apply(F, x)):
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        results.append((y, torch.autograd.grad(y.pow(3).sum(), leaf)))
    assert_close(*results, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["BatchNorm2d", "InstanceNorm2d"])
def test_compiled_modules_move_their_running_statistics_as_the_builtin_does(name):
    mine, builtin = (
        getattr(library, name)(4, affine=True, track_running_stats=True) for library in (norms, nn)
    )
    compiled = torch.compile(mine, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        x = 3 + torch.randn(2, 4, 6, 5, generator=torch.Generator().manual_seed(seed))
        assert_close(compiled(x), builtin(x))
    assert_close(dict(mine.named_buffers()), dict(builtin.named_buffers()))
    assert_close(compiled.eval()(x), builtin.eval()(x))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@for_one_of_each
def test_results_under_cuda_autocast_have_the_builtins_dtype(case):
    x, weight, bias, _ = case.inputs(0, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        dtypes = [case.apply(library, x.bfloat16(), weight, bias).dtype for library in (norms, F)]
    assert dtypes[0] == dtypes[1]


# --- what torch has under another name, or not at all ---------------------------------------------


@pytest.mark.parametrize("dim", [-1, 1, (1, 2)], ids=str)
def test_l2_norm_is_torchs_normalize_and_holds_in_half_precision_where_that_does_not(dim):
    x = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))
    assert_close(norms.l2_norm(x, dim), F.normalize(x, dim=dim))
    large = torch.full((1, 4096), 1100.0).half()
    assert_close(norms.l2_norm(large).float(), torch.full((1, 4096), 1 / 64), rtol=1e-3, atol=0)
    assert norms.l2_norm(torch.zeros(2, 6).half()).eq(0).all()


def test_an_offset_of_one_is_gemmas_norm_and_not_rounded_away_in_half_precision():
    gemma = import_module("transformers.models.gemma.modeling_gemma").GemmaRMSNorm(96)
    for dtype in (torch.float32, torch.bfloat16):
        x, weight, *_ = (tensor.to(dtype) for tensor in LAYER.inputs(0))
        gemma.weight = nn.Parameter(0.01 * weight)
        mine = norms.rms_norm(x, (96,), gemma.weight, 1e-6, offset=1)
        assert_close(mine, gemma(x), rtol=1e-5 if dtype == torch.float32 else 0, atol=1e-6)


def test_scale_norm_has_the_length_that_it_was_given_and_refuses_more_than_one():
    x = torch.randn(4, 96, generator=torch.Generator().manual_seed(0))
    y = norms.scale_norm(x, torch.tensor([3.0]))
    assert_close(y.norm(dim=-1), torch.full((4,), 3.0))
    assert_close(y, 3 * F.normalize(x, dim=-1))
    with pytest.raises(ValueError, match=r"one element: got shape \(2,\)"):
        norms.scale_norm(x, torch.ones(2))
