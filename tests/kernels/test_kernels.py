"""The kernels against float64: in Triton's interpreter on the CPU, and on a CUDA device where there
is one."""

import re
import subprocess
import tempfile

import pytest
import torch
from torch.nn import functional as F

from course_utils import generator, kernels
from course_utils.rope import apply_rope, rope_cos_sin, rope_inv_freq

SHAPES = [(5, 3), (3, 127), (2, 128), (7, 1000), (2, 3, 64), (3, 4097)]
ROUNDING = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


# ---- where the kernels run


WHERE = [
    "interpreter",
    *([pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else []),
]


@pytest.fixture(params=WHERE)
def run(request):
    """``run(function, *args)``: the function, with every tensor on the device under test, and its
    answer on the CPU."""
    if request.param == "interpreter":
        return request.getfixturevalue("interpreter")
    return lambda function, *args: _moved(function(*_moved(args, "cuda")), "cpu")


def _moved(value, device):
    if isinstance(value, torch.Tensor):
        # all that is stored, and the same view of it: `to` alone would close the gaps in the view
        stored = value.new_empty(0).set_(value.untyped_storage()).to(device)
        return stored.as_strided(value.shape, value.stride(), value.storage_offset())
    return (
        type(value)(_moved(v, device) for v in value) if isinstance(value, (tuple, list)) else value
    )


# ---- what is run there: module-level functions, so that the other process finds them by name


def norm(name, x, weight=None, bias=None, dy=None, shape=None, module=kernels, **options):
    """Output of the norm and, with ``dy``, the gradients of every tensor given."""
    leaves = [v.detach().requires_grad_(dy is not None) for v in (x, weight, bias) if v is not None]
    parameters = {"weight": weight, "bias": bias} if name == "layer_norm" else {"weight": weight}
    filled = iter(leaves[1:])
    parameters = {
        key: next(filled) if value is not None else None for key, value in parameters.items()
    }
    y = getattr(module, name)(leaves[0], shape or x.shape[-1:], **parameters, **options)
    return y.detach(), *(torch.autograd.grad(y, leaves, dy) if dy is not None else ())


def transformed(name, x, *parameters, module=kernels):
    """What the transforms of torch.func make of the norm, and of RoPE where ``name`` is that."""
    shape = x.shape[-1:]

    def call(x, *parameters):
        if name == "rope":
            return getattr(module, name)(x, x.flip(1), *parameters)[1]
        return getattr(module, name)(x, shape, *parameters)

    def loss(*leaves):
        return (call(*leaves) ** 2 * torch.arange(1, shape[0] + 1, device=x.device)).sum()

    leaves = (x[0], *parameters)
    every = tuple(range(1 if name == "rope" else len(leaves)))
    dims = (0, *[None] * len(parameters))
    return (
        *torch.func.grad(loss, every)(*leaves),
        *torch.func.jacrev(call, every)(*leaves),
        torch.vmap(call, dims)(x, *parameters),
        *torch.vmap(torch.func.grad(loss, every), dims)(x, *parameters),
    )


def rope(q, k, cos, sin, layout, dq=None, dk=None):
    """Rotated q and k, and with ``dq`` and ``dk`` their gradients."""
    leaves = [v.detach().requires_grad_(dq is not None) for v in (q, k)]
    outputs = kernels.rope(*leaves, cos, sin, layout)
    gradients = torch.autograd.grad(outputs, leaves, (dq, dk)) if dq is not None else ()
    return *(y.detach() for y in outputs), *gradients


# ---- the oracle: PyTorch in float64 on the CPU


def truth(name, x, weight=None, bias=None, dy=None, eps=None, **options):
    if eps is None:  # RMS norm's default is that of the type computed in
        eps = (
            1e-5
            if name == "layer_norm"
            else torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
        )
    double = [None if v is None else v.double() for v in (x, weight, bias, dy)]
    return norm(name, *double, module=F, eps=eps, **options)


def rotated(x, cos, sin, layout):
    return apply_rope(x.double(), cos.double(), sin.double(), layout)


def one_rounding(dtype):
    """Half an ulp, but a whole one for bfloat16, which Triton's interpreter cuts off instead of
    rounding."""
    return torch.finfo(dtype).eps / (1 if dtype == torch.bfloat16 else 2)


def relative_errors(mine, exact):
    return [
        ((a.double() - b).norm() / b.norm().clamp_min(1e-30)).item()
        for a, b in zip(mine, exact, strict=True)
    ]


def case(shape, dtype=torch.float32, offset=0.0, seed=0, affine=("weight", "bias")):
    g = generator(seed)
    features = shape[-1]
    x = (offset + torch.randn(shape, generator=g)).to(dtype)
    weight = (
        (1 + 0.5 * torch.randn(features, generator=g)).to(dtype) if "weight" in affine else None
    )
    bias = torch.randn(features, generator=g).to(dtype) if "bias" in affine else None
    return x, weight, bias, torch.randn(shape, generator=g).to(dtype)


def without_bias(name, arguments):
    x, weight, bias, dy = arguments
    return x, weight, bias if name == "layer_norm" else None, dy


def assert_right(run, name, arguments, within=torch.float32):
    errors = relative_errors(run(norm, name, *arguments), truth(name, *arguments))
    assert max(errors) < ROUNDING[within]


NORMS = pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])


# ---- norms


@pytest.mark.parametrize(
    ("name", "affine"),
    [
        ("layer_norm", ("weight", "bias")),
        ("layer_norm", ("bias",)),
        ("layer_norm", ()),
        ("rms_norm", ("weight",)),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_output_and_gradients_are_those_of_float64_for_any_shape_with_and_without_parameters(
    run, name, shape, affine
):
    assert_right(run, name, without_bias(name, case(shape, offset=1.0, affine=affine)))


def refusal(features, dtype, backward):
    x = torch.ones(1, features, dtype=dtype, requires_grad=backward)
    try:
        kernels.rms_norm(x, (features,))
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("dtype", "backward", "longest"),
    [
        (torch.float32, False, 32_768),
        (torch.float64, False, 8192),
        (torch.bfloat16, True, 16_384),
        (torch.float64, True, 4096),
    ],
    ids=str,
)
def test_a_row_that_does_not_fit_into_the_registers_is_refused(
    interpreter, dtype, backward, longest
):
    assert interpreter(refusal, longest, dtype, backward) == ""
    assert f"at most {longest:,} features" in interpreter(refusal, longest + 1, dtype, backward)


@NORMS
def test_a_half_precision_row_of_the_longest_is_read_twice_and_right(run, name):
    arguments = without_bias(name, case((2, 16_384), torch.bfloat16, offset=1.0))
    assert_right(run, name, arguments, within=torch.bfloat16)


@NORMS
def test_the_transforms_of_torch_func_give_what_they_give_of_the_builtin(run, name):
    x, weight, bias, _ = case((3, 4, 6))
    leaves = (x, weight, bias) if name == "layer_norm" else (x, weight)
    exact = transformed(name, *(leaf.double() for leaf in leaves), module=F)
    assert (
        max(relative_errors(run(transformed, name, *leaves), exact)) < 4 * ROUNDING[torch.float32]
    )


class Composed:
    """RoPE as operators that PyTorch differentiates and batches by itself."""

    @staticmethod
    def rope(q, k, *tables):
        return apply_rope(q, *tables), apply_rope(k, *tables)


def test_the_transforms_of_torch_func_pass_through_rope(run):
    x = torch.randn(3, 1, 2, 3, 4, generator=generator(0))  # (V, B, H, T, D)
    cos, sin = rope_cos_sin(3, rope_inv_freq(4), dtype=torch.float64)
    exact = transformed("rope", x.double(), cos, sin, module=Composed)
    assert max(relative_errors(run(transformed, "rope", x, cos.float(), sin.float()), exact)) < 1e-6


@NORMS
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", [(6, 100), (3, 33)], ids=str)
def test_every_type_is_rounded_once(run, name, dtype, shape):
    arguments = without_bias(name, case(shape, dtype))
    mine, exact = run(norm, name, *arguments), truth(name, *arguments)
    for a, b in zip(mine, exact, strict=True):
        assert a.dtype == dtype
        # the one rounding of the result, and before it float32's own error (float64's for float64)
        computed = ROUNDING[torch.promote_types(dtype, torch.float32)] * b.abs().max()
        assert ((a.double() - b).abs() <= one_rounding(dtype) * b.abs() + computed).all()


@pytest.mark.parametrize("features", [5, 16, 1001])
@pytest.mark.parametrize("constant", [3.7, 1e6, 1e9])
def test_a_constant_row_gives_the_bias(run, constant, features):
    # padding lanes that hold -mean, a mean over the block, or a mean that is one rounding off leave
    # a variance
    x, dy = torch.full((2, features), constant), case((2, features))[-1]
    arguments = "layer_norm", x, None, torch.ones(features), dy
    y, dx, _ = run(norm, *arguments)
    assert torch.equal(y, torch.ones(2, features))
    assert relative_errors([dx], [truth(*arguments)[1]])[0] < ROUNDING[torch.float32]


def test_weight_gradients_of_2048_rows_are_those_of_float64_where_the_built_ins_are_not(run):
    arguments = case((2048, 16), torch.bfloat16)
    _, _, *exact = truth("layer_norm", *arguments)
    _, _, *mine = run(norm, "layer_norm", *arguments)
    # on the CPU it adds up in the type of the input
    _, _, *builtin = norm("layer_norm", *arguments, module=F)
    assert max(relative_errors(mine, exact)) < torch.finfo(torch.bfloat16).eps
    assert min(relative_errors(builtin, exact)) > 4 * max(relative_errors(mine, exact))


@NORMS
@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 5), (3, 0)], ids=str)
def test_empty_inputs_give_empty_outputs_and_zero_gradients(run, name, shape):
    x, weight, bias, dy = without_bias(name, case(shape))
    y, dx, *parameters = run(norm, name, x, weight, bias, dy)
    assert y.shape == dx.shape == shape
    assert all(torch.equal(v, torch.zeros(shape[-1])) for v in parameters)


# ---- rotary position


def rope_case(q_heads, k_heads, positions, features, rotary_dim, dtype=torch.float32):
    g = generator(1)
    q, dq = (torch.randn(2, q_heads, positions, features, generator=g).to(dtype) for _ in range(2))
    k, dk = (torch.randn(2, k_heads, positions, features, generator=g).to(dtype) for _ in range(2))
    angle = 7 * torch.rand(positions, rotary_dim // 2, generator=g)
    return q, k, angle.cos(), angle.sin(), dq, dk


LAYOUT = pytest.mark.parametrize("layout", ["half", "interleaved"])
STRIDED = {
    "transposed": lambda x: x.transpose(-3, -2).contiguous().transpose(-3, -2),
    "every third column": lambda x: among_nan(x, lambda wide: wide[..., 1::3]),
    "columns of a wider matrix": lambda x: among_nan(
        x, lambda wide: wide[..., x.shape[-1] : 2 * x.shape[-1]]
    ),
}


def among_nan(tensor, part_of):
    """The same values as a part of something wider, NaN wherever a wrong stride would look."""
    wide = torch.full((*tensor.shape[:-1], 3 * tensor.shape[-1]), torch.nan, dtype=tensor.dtype)
    return part_of(wide).copy_(tensor)


@NORMS
@pytest.mark.parametrize("which", ["input", "gradient"])
@pytest.mark.parametrize("how", STRIDED)
def test_strides_are_heeded(run, name, how, which):
    x, weight, bias, dy = without_bias(name, case((6, 5, 20)))
    given = (STRIDED[how](x), dy) if which == "input" else (x, STRIDED[how](dy))
    mine = run(norm, name, given[0], weight, bias, given[1])
    assert max(relative_errors(mine, truth(name, x, weight, bias, dy))) < ROUNDING[torch.float32]
    assert mine[0].is_contiguous()


@LAYOUT
@pytest.mark.parametrize(
    ("how", "heads", "positions", "features", "rotary_dim"),
    [
        ("contiguous", (4, 4), 8, 16, 16),
        ("contiguous", (5, 1), 37, 6, 6),
        ("contiguous", (1, 1), 1, 2, 2),
        ("contiguous", (8, 2), 3, 128, 96),
        *((how, (9, 3), 5, 80, 20) for how in STRIDED),
    ],
    ids=str,
)
def test_rotation_and_its_gradient_are_those_of_apply_rope(
    run, layout, how, heads, positions, features, rotary_dim
):
    q, k, cos, sin, dq, dk = rope_case(*heads, positions, features, rotary_dim)
    exact = [rotated(x, cos, sin, layout) for x in (q, k)]
    exact += [rotated(dx, cos, -sin, layout) for dx in (dq, dk)]
    mine = run(rope, *(STRIDED.get(how, torch.clone)(x) for x in (q, k)), cos, sin, layout, dq, dk)
    assert max(relative_errors(mine, exact)) < ROUNDING[torch.float32]


@LAYOUT
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_rotation_is_rounded_once(run, layout, dtype):
    q, k, cos, sin, *_ = rope_case(3, 1, 9, 24, 16, dtype)
    for mine, x in zip(run(rope, q, k, cos, sin, layout), (q, k), strict=True):
        exact = rotated(x, cos, sin, layout)
        assert mine.dtype == dtype
        computed = ROUNDING[torch.promote_types(dtype, torch.float32)]
        assert ((mine - exact).abs() <= one_rounding(dtype) * exact.abs() + computed).all()


# ---- errors


def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:
        return type(error), str(error)
    return None, ""


Q, COS = torch.zeros(1, 2, 3, 4), torch.ones(3, 2)
REFUSED = {
    "layout": (ValueError, "rope", Q, Q, COS, COS, "pairs"),
    "q must have 4 dimensions": (ValueError, "rope", Q[0], Q, COS, COS),
    "q and k must agree but for heads": (ValueError, "rope", Q, Q[:, :, :2], COS, COS),
    "cos and sin must be": (ValueError, "rope", Q, Q, COS[:2], COS[:2]),
    "rotary_dim from 2 to 4": (ValueError, "rope", Q, Q, torch.ones(3, 3), torch.ones(3, 3)),
    "got input of torch.int64": (
        NotImplementedError,
        "layer_norm",
        torch.zeros(2, 3, dtype=torch.long),
        (3,),
    ),
    "[*, 4]": (RuntimeError, "layer_norm", torch.zeros(2, 3), (4,)),
    "[*4]": (RuntimeError, "rms_norm", torch.zeros(2, 3), (4,)),
    "weight": (RuntimeError, "layer_norm", torch.zeros(2, 3), (3,), torch.ones(1, 3)),
    "must be tuple of ints": (TypeError, "layer_norm", torch.zeros(2, 3), 3),
}


@pytest.mark.parametrize("words", REFUSED)
def test_an_impossible_argument_is_refused_by_name(interpreter, words):
    kind, name, *arguments = REFUSED[words]
    raised, message = interpreter(error_of, getattr(kernels, name), *arguments)
    assert raised is kind
    assert words in message


def test_without_the_interpreter_and_a_gpu_it_is_said_what_is_missing(compiler):
    assert "TRITON_INTERPRET" in compiler(kernels.available, "cpu").reason
    assert compiler(error_of, kernels.rms_norm, torch.ones(2, 3), (3,))[0] is RuntimeError
    for device in ["meta"] + ["cuda"] * (not torch.cuda.is_available()):
        assert not kernels.available(device)
        assert "CUDA" in kernels.available(device).reason


# ---- for a GPU


class FakeDriver:
    """Names a GPU of a compute capability, so that Triton compiles for it; nothing can run
    there."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)


def compiled_for_a_gpu(launcher, *args, capability=90, disassemble=False):
    """PTX or machine code, bytes of shared memory and bytes spilled by each thread, of each kernel
    that a launcher starts; compiled by the same calls, not run."""
    import triton
    from triton.runtime.jit import KernelInterface

    compiled = {}

    def compile_only(kernel, grid):
        def compile_kernel(*args, **options):
            found = kernel.run(*args, grid=grid, warmup=True, **options)
            code = found.asm["cubin"]
            text = machine_code(code) if disassemble else found.asm["ptx"]
            compiled[kernel.__name__] = text, found.metadata.shared, _stack(code)

        return compile_kernel

    triton.runtime.driver.set_active(FakeDriver(capability))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelInterface, "__getitem__", compile_only)
        launcher(*args)
    return compiled


def _stack(cubin):
    """Bytes a thread that machine code keeps in memory for want of registers."""
    return int(re.search(r"STACK:(\d+)", _read("cuobjdump", cubin, "-res-usage"))[1])


def machine_code(cubin):
    return _read("nvdisasm", cubin)


def _read(tool, cubin, *options):
    import triton

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        reader = [getattr(triton.knobs.nvidia, tool).path, *options, file.name]
        return subprocess.run(reader, capture_output=True, text=True, check=True).stdout


def launch_norm(features, dtype, centred, affine=True):
    from course_utils.kernels.norm_function import launch_backward, launch_forward

    x = torch.empty(16, features, dtype=dtype)
    weight = torch.empty(features, dtype=dtype) if affine else None
    statistics = launch_forward(
        x, torch.empty_like(x), weight, weight if centred else None, 1e-5, centred
    )
    gradients = [None if weight is None else torch.empty_like(weight) for _ in range(2)]
    launch_backward(x, x, weight, *statistics, torch.empty_like(x), *gradients)


def launch_rope(dtype, layout, rotary_dim):
    from course_utils.kernels import rotary

    q, k, cos, sin, *_ = rope_case(4, 2, 5, 64, rotary_dim, dtype)
    rotary.launch_rotation(q, k, cos, sin, layout, 1)


@pytest.mark.parametrize(
    ("features", "dtype", "centred", "affine"),
    [
        (1000, torch.bfloat16, True, True),
        (1001, torch.bfloat16, False, True),
        (8192, torch.float32, True, False),
        (16_384, torch.bfloat16, True, True),
        (4096, torch.float64, True, True),
    ],
)
def test_norm_kernels_compile_for_a_small_gpu_and_load_16_bytes_at_a_time(
    compiler, features, dtype, centred, affine
):
    compiled = compiler(compiled_for_a_gpu, launch_norm, features, dtype, centred, affine)
    assert set(compiled) == {"forward", "backward"} | ({"column_sums"} if affine else set())
    for ptx, shared, spilled in compiled.values():
        assert ".target sm_90" in ptx
        assert shared <= 99 * 1024
        assert spilled == 0
    if dtype.itemsize == 2:  # as wide as a load can be where 8 divides the features
        for instruction in ("ld.global.v4.b32", "st.global.v4.b32"):
            assert (instruction in compiled["forward"][0]) == (features % 8 == 0)


def code_of_layer_norm(features):
    arguments = launch_norm, features, torch.float32, True
    return compiled_for_a_gpu(*arguments, disassemble=True)["forward"][0]


def test_the_mean_that_is_subtracted_was_rounded(compiler):
    # FFMA x - total * (1/1001), as the assembler makes of a division and a subtraction behind it,
    # gives a constant row of 1e6 an output of 0.99
    code = compiler(code_of_layer_norm, 1001)
    assert re.search(r"\b0\.000999000\d+ ?[,;]", code)  # 1/1001, in the quotients
    assert not re.search(r"FFMA [^;]*-0\.000999000\d+", code)


@pytest.mark.parametrize(
    ("layout", "dtype", "rotary_dim"),
    [("half", torch.bfloat16, 64), ("interleaved", torch.float32, 20)],
)
def test_rotary_kernel_compiles_for_a_gpu(compiler, layout, dtype, rotary_dim):
    assert set(compiler(compiled_for_a_gpu, launch_rope, dtype, layout, rotary_dim)) == {
        "rotate_queries_and_keys"
    }


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return "cuda"


@pytest.mark.gpu
@NORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(65_536, 512), (8192, 4096), (8191, 4097), (515, 8192)], ids=str)
def test_large_inputs_on_a_gpu_are_those_of_float64(cuda, name, dtype, shape):
    arguments = [
        None if v is None else v.to(cuda)
        for v in without_bias(name, case(shape, dtype, offset=1.0))
    ]
    mine, exact = norm(name, *arguments), truth(name, *arguments)
    assert max(relative_errors(mine, exact)) < ROUNDING[dtype]
    again = norm(name, *arguments)
    assert all(torch.equal(a, b) for a, b in zip(mine, again, strict=True))


@pytest.mark.gpu
def test_more_than_two_to_the_31_elements_are_addressed(cuda):
    rows = 2**31 // 16_384 + 8
    if torch.cuda.mem_get_info()[0] < 5 * rows * 16_384 * 2:
        pytest.skip("needs 22 GB of free GPU memory")
    # not dy = x, along which the gradient is zero
    x, dy = torch.empty(2, rows, 16_384, dtype=torch.bfloat16, device=cuda).normal_()
    y, dx = norm("rms_norm", x, dy=dy)
    exact = truth("rms_norm", x[-4:], dy=dy[-4:])
    assert max(relative_errors((y[-4:], dx[-4:]), exact)) < ROUNDING[torch.bfloat16]


@pytest.mark.gpu
def test_nothing_waits_for_the_gpu(cuda):
    arguments = [v.to(cuda) for v in case((64, 256), torch.bfloat16)]
    q, k, cos, sin, dq, dk = (v.to(cuda) for v in rope_case(4, 2, 16, 64, 64))

    def everything():
        norm("layer_norm", *arguments)
        rope(q, k, cos, sin, "half", dq, dk)

    everything()  # compiles, for which it may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        everything()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.get_sync_debug_mode() == 0
