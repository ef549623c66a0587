"""The formulations of ``compiled``: their results and gradients against PyTorch in float64."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

from course_utils.norms import compiled

# relative to the norm of the result; bfloat16's and float16's own rounding is 2⁻⁹ and 2⁻¹²
WITHIN = {torch.float32: 1e-6, torch.bfloat16: 3e-3, torch.float16: 4e-4, torch.float64: 1e-14}


@pytest.fixture
def uncompiled(monkeypatch):
    """Run the same code without the compiler, which takes seconds for each shape."""
    monkeypatch.setattr(compiled, "_graphs", {})
    monkeypatch.setattr(compiled, "_compile", lambda fn, tensors, *settings: lambda inputs: fn(inputs, *settings))


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def results(fn, *inputs):
    """Return the output and the gradients of all inputs, for one fixed upstream gradient that bfloat16 can hold."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    y = fn(*leaves)
    return [y, *torch.autograd.grad(y, leaves, randn(*y.shape, seed=9).bfloat16().to(y.dtype))]


def assert_as_exact(found, exact, tolerance):
    for mine, truth in zip(found, exact, strict=True):
        assert (mine.double() - truth).norm() <= tolerance * truth.norm()


NORMS = {
    "layer_norm": lambda m, x, w, b: m.layer_norm(x, w.shape, w, b),
    "rms_norm": lambda m, x, w: m.rms_norm(x, w.shape, w, 1e-6),
}
for_both_norms = pytest.mark.parametrize("name", NORMS)


def mine_and_exact(name, x, dtype=torch.float32):
    """Return results in ``dtype``, and those of the built-in in float64 on the same values."""
    inputs = [t.to(dtype) for t in (x, 1 + randn(*x.shape[-1:], seed=1) / 4, randn(*x.shape[-1:], seed=2))]
    inputs = inputs[: 2 + (name == "layer_norm")]
    both = ((compiled, dtype), (F, torch.float64))
    return [results(partial(NORMS[name], m), *(t.to(d) for t in inputs)) for m, d in both]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("rows", [1, 2, 7, 128, 130, 4096])  # in blocks, in some, in none
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@for_both_norms
def test_results_are_those_of_float64_for_any_number_of_rows_rounded_once(rows, dtype, name):
    found, exact = mine_and_exact(name, 3 + randn(rows, 33), dtype)
    assert {tensor.dtype for tensor in found} == {dtype}
    assert_as_exact(found, exact, WITHIN[dtype])
    if dtype.itemsize == 2 and rows > 1000:  # float32 may see what lies near a tie on its other side
        assert max((mine != truth.to(dtype)).double().mean() for mine, truth in zip(found, exact, strict=True)) < 0.01


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("offset", [1e2, 1e4, -1e4])
def test_far_from_zero_layer_norm_is_exact_and_a_constant_row_gives_the_bias(offset):
    assert_as_exact(*mine_and_exact("layer_norm", offset + randn(64, 1024)), 1e-6)
    y = compiled.layer_norm(torch.full((3, 50), offset + 0.1), (50,), torch.ones(50), torch.full((50,), 0.5))
    assert y.eq(0.5).all()


@pytest.mark.usefixtures("uncompiled")
def test_only_the_input_the_weight_and_three_numbers_a_row_are_saved():
    x, w, b = randn(64, 256).requires_grad_(), randn(256, seed=1), randn(256, seed=2)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        compiled.layer_norm(x, (256,), w, b)
    others = [t.numel() for t in saved if t.data_ptr() not in (x.data_ptr(), w.data_ptr())]
    assert sum(others) == 3 * 64


@pytest.mark.usefixtures("uncompiled")
def test_shapes_that_do_not_fit_and_a_second_derivative_are_refused():
    x, w = randn(2, 4, 8).requires_grad_(), torch.ones(8)
    for shape, weight in (((4,), torch.ones(4)), ((4, 8), torch.ones(32)), ((8,), torch.ones(4))):
        with pytest.raises(RuntimeError):
            compiled.rms_norm(x, shape, weight)
        with pytest.raises(RuntimeError):
            compiled.layer_norm(x, shape, weight, weight)
    (dx,) = torch.autograd.grad(compiled.rms_norm(x, (8,), w).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("layer_norm", torch.float32), ("rms_norm", torch.bfloat16)])
def test_compiled_code_gives_the_same_with_and_without_gradients_and_from_a_shifted_start_in_memory(name, dtype):
    x = randn(256 * 100 + 1)[1:].view(64, 4, 100)
    found, exact = mine_and_exact(name, x, dtype)
    assert_as_exact(found, exact, WITHIN[dtype])
    parameters = [1 + randn(100, seed=1) / 4, randn(100, seed=2)][: 1 + (name == "layer_norm")]
    plain = NORMS[name](compiled, x.to(dtype), *(parameter.to(dtype) for parameter in parameters))
    assert not plain.requires_grad
    assert_as_exact([plain], exact[:1], WITHIN[dtype])


def test_code_is_compiled_once_for_each_shape_stride_dtype_and_epsilon(monkeypatch):
    made = []
    monkeypatch.setattr(compiled, "_graphs", {})
    monkeypatch.setattr(compiled, "_compile", lambda *key: made.append(key) or (lambda inputs: inputs))
    x, w = randn(8, 32), torch.ones(32)
    apart = torch.cat([x, x], 1)[:, :32]
    calls = [(x, w, 1e-6), (x[:4], w, 1e-6), (apart, w, 1e-6), (x.half(), w.half(), 1e-6), (x, w, 1.0)]
    for known, (part, weight, eps) in enumerate(calls):
        for _ in range(2):
            compiled.rms_norm(part, (32,), weight, eps)
            assert len(made) == known + 1


def test_a_tracer_s_tensors_without_memory_do_not_reach_the_compiled_code():
    with FakeTensorMode() as mode:
        x, weight, bias = (mode.from_tensor(t) for t in (randn(4, 8), randn(8, seed=1), randn(8, seed=2)))
        assert compiled.layer_norm(x, (8,), weight, bias).shape == (4, 8)
        assert compiled.rms_norm(x, (8,), weight).shape == (4, 8)
