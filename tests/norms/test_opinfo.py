"""PyTorch's own samples, errors and modules, run against `course_utils.norms`: the external suite.

The samples come from `torch.testing._internal`, which PyTorch ships and tests itself with; what is
asserted of them is written here. Tolerances are `torch.testing.assert_close`'s defaults for each
dtype unless a line says otherwise.
"""

import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_utils import norms

INTERNAL = "torch.testing._internal"  # it moves between releases, and imports expecttest
op_db = pytest.importorskip(f"{INTERNAL}.common_methods_invocations", exc_type=ImportError).op_db
module_db = pytest.importorskip(f"{INTERNAL}.common_modules", exc_type=ImportError).module_db

FUNCTIONS = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")
MODULES = (
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    *(f"{kind}Norm{dims}d" for kind in ("Batch", "Instance") for dims in (1, 2, 3)),
)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
HALVES = (torch.bfloat16, torch.float16)
OPS = {op.name.removeprefix("nn.functional."): op for op in op_db if not op.variant_test_name}
MODULE_INFOS = {info.module_cls.__name__: info for info in module_db}


in_every_dtype = pytest.mark.parametrize(
    "dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch.")
)
for_every_function = pytest.mark.parametrize("name", FUNCTIONS)
for_every_module = pytest.mark.parametrize("name", MODULES)


@pytest.fixture(autouse=True)
def _seed_and_silence():
    """Fix the samples' random values; some modules warn on purpose about a num_features they do not
    use."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Call:
    """One sample's arguments, copied for each use because running statistics change in place."""

    def __init__(self, sample):
        self.values = [sample.input, *sample.args, *sample.kwargs.values()]
        self.keywords = tuple(sample.kwargs)

    @property
    def inputs(self):
        """The tensors to differentiate with respect to."""
        return [value for value in self.values if torch.is_tensor(value) and value.requires_grad]

    def run(self, function, dtype=None, inputs=None):
        """Return the result and the tensors given, which hold the running statistics afterwards.

        ``inputs`` stand in for ``self.inputs``; without them, copies do that keep the strides.
        """
        given = None if inputs is None else iter(inputs)
        values = [self._copy(value, dtype, given) for value in self.values]
        positional = len(values) - len(self.keywords)
        keywords = dict(zip(self.keywords, values[positional:], strict=True))
        return function(*values[:positional], **keywords), [
            value for value in values if torch.is_tensor(value)
        ]

    @staticmethod
    def _copy(value, dtype, given):
        if not torch.is_tensor(value):
            return value
        if value.requires_grad and given is not None:
            return next(given)
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(
            value.detach()
        )
        return copy.to(dtype or value.dtype).requires_grad_(value.requires_grad)


def samples(name, dtype, requires_grad=False):
    return OPS[name].reference_inputs("cpu", dtype, requires_grad=requires_grad)


def exactly(call, name, dtype):
    """Run the built-in in float32 where ``dtype`` is half precision, and round its results once.

    In half precision the built-ins of batch and instance norm fold the mean into a shift, which
    costs up to 5 % of a value near zero, and round between the steps of the moving average.
    Computed in float32 and rounded, they are the stricter oracle.
    """
    result, arguments = call.run(getattr(F, name), torch.float32 if dtype in HALVES else dtype)
    return result.to(dtype), [argument.to(dtype) for argument in arguments]


@for_every_function
@in_every_dtype
@pytest.mark.parametrize("contiguous", [True, False], ids=["contiguous", "strided"])
def test_results_and_running_statistics_equal_the_builtin_on_every_sample(name, dtype, contiguous):
    count = 0
    for sample in samples(name, dtype):
        call = Call(sample if contiguous else sample.noncontiguous())
        got, arguments = call.run(getattr(norms, name))
        expected, expected_arguments = exactly(call, name, dtype)
        assert_close(got, expected, equal_nan=True)
        assert_close(arguments, expected_arguments, equal_nan=True)
        assert got.is_contiguous() == expected.is_contiguous()
        count += 1
    assert count >= 6


def assert_gradients_close(got, expected, y):
    """Compare with float64: a sum of terms of either sign is as exact as its terms, so the floor
    grows with them."""
    terms = y.numel() // max(got.numel(), 1)
    tolerance = {
        torch.float64: 1e-7,
        torch.float32: 1.3e-6,
        torch.bfloat16: 1.6e-2,
        torch.float16: 1e-3,
    }[got.dtype]
    floor = 1e-7 if got.dtype == torch.float64 else 1e-5 + terms * torch.finfo(torch.float32).eps
    assert_close(got, expected.to(got.dtype), rtol=tolerance, atol=floor, equal_nan=True)


@for_every_function
@in_every_dtype
def test_gradients_equal_the_builtins_on_every_sample(name, dtype):
    """The oracle is the built-in in float64, on the same values; each gradient is rounded once to
    its own dtype."""
    for sample in samples(name, dtype, requires_grad=True):
        call, gradients = Call(sample), []
        for function, computed_in in (
            (getattr(norms, name), None),
            (getattr(F, name), torch.float64),
        ):
            y, arguments = call.run(function, computed_in)
            inputs = [argument for argument in arguments if argument.requires_grad]
            cotangent = torch.linspace(-1, 2, y.numel(), dtype=dtype).reshape(y.shape).to(y.dtype)
            gradients.append(torch.autograd.grad(y, inputs, cotangent, allow_unused=True))
        for got, expected in zip(*gradients, strict=True):
            assert_gradients_close(got, expected, y)


def pair_of_modules(name, inputs):
    """Return mine and the built-in, from the same arguments and with the same random parameters."""
    arguments = inputs.constructor_input
    modules = [
        getattr(source, name)(*arguments.args, **arguments.kwargs) for source in (norms, torch.nn)
    ]
    for parameter in modules[1].parameters():
        torch.nn.init.normal_(parameter, mean=1.0)
    modules[0].load_state_dict(modules[1].state_dict(), strict=True)
    return modules


def module_samples(name, dtype):
    info = MODULE_INFOS[name]
    return [
        sample
        for sample in info.module_inputs_func(info, "cpu", dtype, requires_grad=True, training=True)
        if sample.forward_input is not None
    ]


@for_every_module
@in_every_dtype
def test_modules_give_the_builtins_results_buffers_and_gradients(name, dtype):
    """Two batches in training, the second strided, then one in evaluation; the oracle is the
    built-in in float64."""
    for sample in module_samples(name, dtype):
        mine, builtin = pair_of_modules(name, sample)
        mine, builtin = mine.to(dtype), builtin.to(dtype).double()
        (x,) = sample.forward_input.args
        strided = x.detach().repeat_interleave(2, -1)[..., ::2]
        for mode, given in (("train", x), ("train", strided), ("eval", x)):
            results = []
            for module, computed_in in ((mine, dtype), (builtin, torch.float64)):
                leaf = given.detach().to(computed_in).requires_grad_()
                y = getattr(module, mode)()(leaf)
                cotangent = (
                    torch.linspace(-1, 1, y.numel(), dtype=dtype).reshape(y.shape).to(y.dtype)
                )
                gradients = torch.autograd.grad(y, [leaf, *module.parameters()], cotangent)
                results.append((y, gradients, list(module.buffers())))
            (y, gradients, buffers), (expected_y, expected_gradients, expected_buffers) = results
            assert_close(y, expected_y.to(dtype))
            for got, expected in zip(gradients, expected_gradients, strict=True):
                assert_gradients_close(got, expected, y)
            for got, expected in zip(buffers, expected_buffers, strict=True):
                assert_close(got, expected.to(got.dtype))
            # the next batch starts from the same rounded statistics
            builtin.load_state_dict(mine.state_dict())


@pytest.mark.parametrize("name", [*FUNCTIONS, *MODULES])
def test_error_samples_raise_what_the_builtin_raises_word_for_word(name):
    """`layer_norm` has no error samples of its own; those of `native_layer_norm`, whose eps is
    required, serve."""
    calls = []  # of (error sample, what mine does, what the built-in does)
    if (
        name in FUNCTIONS
        and (op := OPS["native_layer_norm" if name == "layer_norm" else name]).error_inputs_func
    ):
        for error in op.error_inputs("cpu"):
            call = Call(error.sample_input)
            calls.append(
                (
                    error,
                    partial(call.run, getattr(norms, name)),
                    partial(call.run, getattr(F, name)),
                )
            )
    elif name in MODULES and (make := MODULE_INFOS[name].module_error_inputs_func):
        for error in make(
            MODULE_INFOS[name], "cpu", torch.float32, requires_grad=False, training=True
        ):
            sample = error.module_error_input
            calls.append(
                (error, *(partial(run_module, getattr(m, name), sample) for m in (norms, torch.nn)))
            )
    for error, *both in calls:
        raised = []
        for function in both:
            with pytest.raises(error.error_type, match=error.error_regex) as info:
                function()
            raised.append((info.type, str(info.value)))
        assert raised[0] == raised[1]


def run_module(module, sample):
    arguments, forward = sample.constructor_input, sample.forward_input
    return module(*arguments.args, **arguments.kwargs)(*forward.args, **forward.kwargs)
