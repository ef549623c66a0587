"""The formulations of ``compiled``: their results and gradients against PyTorch in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

from course_utils.norms import compiled


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


def layer_norm_pair(shape):
    return lambda x, w, b: compiled.layer_norm(x, shape, w, b), lambda x, w, b: F.layer_norm(x, shape, w, b)


def rms_norm_pair(shape):
    return lambda x, w: compiled.rms_norm(x, shape, w), lambda x, w: F.rms_norm(x, shape, w, 1e-6)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("rows", [1, 2, 7, 128, 130, 4096])  # in blocks, in some, in none
@pytest.mark.parametrize(("pair", "parameters"), [(layer_norm_pair, 2), (rms_norm_pair, 1)])
def test_outputs_and_gradients_are_those_of_float64_for_any_number_of_rows(rows, pair, parameters):
    mine, builtin = pair((33,))
    inputs = [3 + randn(rows, 33), 1 + randn(33, seed=1) / 4, randn(33, seed=2)][: 1 + parameters]
    assert_as_exact(results(mine, *inputs), results(builtin, *(t.double() for t in inputs)), 1e-6)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 3e-3), (torch.float16, 4e-4), (torch.float64, 1e-14)]
)
@pytest.mark.parametrize(("pair", "parameters"), [(layer_norm_pair, 2), (rms_norm_pair, 1)])
def test_half_precisions_are_rounded_once_and_float64_stays_float64(dtype, tolerance, pair, parameters):
    mine, builtin = pair((64,))
    inputs = [t.to(dtype) for t in (randn(1024, 64), 1 + randn(64, seed=1) / 4, randn(64, seed=2))[: 1 + parameters]]
    found = results(mine, *inputs)
    assert {tensor.dtype for tensor in found} == {dtype}
    exact = results(builtin, *(t.double() for t in inputs))
    assert_as_exact(found, exact, tolerance)
    if dtype != torch.float64:  # float32 may see what lies near a tie on its other side
        others = [(mine != truth.to(dtype)).double().mean() for mine, truth in zip(found, exact, strict=True)]
        assert max(others) < 0.01


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("offset", [1e2, 1e4, -1e4])
def test_far_from_zero_it_is_closer_to_float64_than_the_builtin(offset):
    mine, builtin = layer_norm_pair((1024,))
    inputs = [offset + randn(64, 1024), torch.ones(1024), torch.zeros(1024)]
    exact = results(builtin, *(t.double() for t in inputs))
    assert_as_exact(results(mine, *inputs), exact, 1e-6)
    if abs(offset) == 1e4:
        assert (results(builtin, *inputs)[0].double() - exact[0]).norm() > 1e-4 * exact[0].norm()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("value", [0.0, 3.1, -1e4])
def test_a_constant_row_gives_the_bias(value):
    mine, _ = layer_norm_pair((50,))
    y = mine(torch.full((3, 50), value), torch.ones(50), torch.full((50,), 0.5))
    torch.testing.assert_close(y, torch.full((3, 50), 0.5), atol=0, rtol=0)


@pytest.mark.usefixtures("uncompiled")
def test_only_the_input_the_weight_and_three_numbers_a_row_are_saved():
    x, w, b = randn(64, 256).requires_grad_(), randn(256, seed=1), randn(256, seed=2)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        compiled.layer_norm(x, (256,), w, b)
    others = [t.numel() for t in saved if t.data_ptr() not in (x.data_ptr(), w.data_ptr())]
    assert sum(others) == 3 * 64


@pytest.mark.usefixtures("uncompiled")
def test_a_second_derivative_is_refused_instead_of_wrong():
    x, w = randn(4, 8).requires_grad_(), torch.ones(8)
    (dx,) = torch.autograd.grad(compiled.rms_norm(x, (8,), w).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("pair", "parameters"), [(layer_norm_pair, 2), (rms_norm_pair, 1)])
def test_compiled_code_gives_the_same_with_and_without_gradients(pair, parameters, dtype):
    mine, builtin = pair((100,))
    tolerance = {torch.float32: 1e-6, torch.bfloat16: 3e-3}[dtype]
    inputs = [t.to(dtype) for t in (randn(256, 100), 1 + randn(100, seed=1) / 4, randn(100, seed=2))[: 1 + parameters]]
    exact = results(builtin, *(t.double() for t in inputs))
    assert_as_exact(results(mine, *inputs), exact, tolerance)
    plain = mine(*inputs)
    assert not plain.requires_grad
    assert_as_exact([plain], exact[:1], tolerance)


@pytest.mark.slow
def test_compiled_code_takes_several_dimensions_a_shifted_start_in_memory_and_an_expanded_gradient():
    x = randn(2 * 5 * 3 * 4 + 1)[1:].view(2, 5, 3, 4).requires_grad_()
    w, b = randn(3, 4, seed=1).requires_grad_(), randn(3, 4, seed=2).requires_grad_()
    found = torch.autograd.grad(compiled.layer_norm(x, (3, 4), w, b).sum(), (x, w, b))
    exact = torch.autograd.grad(
        F.layer_norm(x.double(), (3, 4), w.double(), b.double()).sum(), (x, w, b)
    )  # dx is zero but for rounding where the weight is one; here it is not
    assert [t.shape for t in found] == [t.shape for t in exact]
    assert_as_exact(found, [t.double() for t in exact], 1e-6)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("shape", "weight", "message"),
    [((4,), (4,), r"normalized_shape=\[4\]"), ((3, 8), (24,), "weight of shape"), ((8,), (4,), "weight of shape")],
)
def test_shapes_that_do_not_fit_are_refused_in_pytorchs_words(shape, weight, message):
    with pytest.raises(RuntimeError, match=message):
        compiled.rms_norm(randn(2, 3, 8), shape, torch.ones(weight))
    with pytest.raises(RuntimeError, match=message):
        compiled.layer_norm(randn(2, 3, 8), shape, torch.ones(weight), torch.zeros(weight))


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
