"""The gradients by hand against autograd of the built-ins in float64, finite differences, and what
they must cost."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_utils import norms
from course_utils.norms import backward
from course_utils.norms.backward import layer_norm_backward, rms_norm_backward
from course_utils.timing import saved_bytes


@dataclass(frozen=True)
class Case:
    """One norm on one shape, called with x, weight and bias in whatever library."""

    name: str
    shape: tuple[int, ...]
    parameter_shape: tuple[int, ...]
    eps: float | None = 1e-5

    def __str__(self):
        return f"{self.name} {self.shape} {self.parameter_shape}"

    def call(self, library, x, weight=None, bias=None):
        if self.name == "batch_norm" and library is not backward:
            return library.batch_norm(x, None, None, weight, bias, True, eps=self.eps)
        shape = () if self.name == "batch_norm" else (self.parameter_shape,)
        parameters = (weight,) if self.name == "rms_norm" else (weight, bias)
        return getattr(library, self.name)(x, *shape, *parameters, self.eps)

    def builtin(self, *leaves):
        return self.call(F, *leaves)

    def function(self, *leaves):
        return self.call(backward, *leaves)

    def backward(self, dy, x, weight):
        shape = () if self.name == "batch_norm" else (self.parameter_shape,)
        return getattr(backward, f"{self.name}_backward")(dy, x, *shape, weight, self.eps)

    def inputs(self, dtype=torch.float64):
        """Return leaves x, weight and bias (the bias only where the norm has one), and dy, which
        has a mean."""
        generator = torch.Generator().manual_seed(0)
        parameters = [self.parameter_shape] * (1 if self.name == "rms_norm" else 2)
        *leaves, dy = (
            torch.randn(shape, generator=generator, dtype=torch.float64)
            for shape in (self.shape, *parameters, self.shape)
        )
        return [leaf.to(dtype).requires_grad_() for leaf in leaves], (dy + 0.5).to(dtype)


SMALL = [
    Case("layer_norm", (5, 6), (6,)),
    Case("layer_norm", (2, 3, 4), (4,)),
    Case("layer_norm", (2, 3, 4), (3, 4), eps=0.3),
    Case("layer_norm", (3, 4), (3, 4)),
    Case("batch_norm", (5, 3), (3,)),
    Case("batch_norm", (3, 2, 4), (2,), eps=0.3),
    Case("batch_norm", (2, 3, 4, 2), (3,)),
    Case("rms_norm", (5, 6), (6,)),
    Case("rms_norm", (2, 3, 4), (3, 4), eps=0.3),
    Case("rms_norm", (2, 3), (2, 3)),
    Case("rms_norm", (5, 6), (6,), eps=None),
]
LARGE = [
    Case("layer_norm", (64, 96), (96,)),
    Case("batch_norm", (256, 32), (32,)),
    Case("batch_norm", (8, 16, 14, 14), (16,)),
    Case("rms_norm", (64, 96), (96,)),
]
for_every_small_case = pytest.mark.parametrize("case", SMALL, ids=str)
for_every_large_case = pytest.mark.parametrize("case", LARGE, ids=str)


def autograd(apply, leaves, dy):
    return torch.autograd.grad(apply(*leaves), leaves, dy)


@for_every_small_case
def test_the_gradients_are_autograds_of_the_builtin(case):
    leaves, dy = case.inputs()
    expected = autograd(case.builtin, leaves, dy)
    assert_close(case.backward(dy, *[leaf.detach() for leaf in leaves[:2]]), expected)
    assert_close(autograd(case.function, leaves, dy), expected)
    assert_close(case.function(*leaves), case.builtin(*leaves))
    strided = [
        leaves[0].detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(),
        *leaves[1:],
    ]
    assert_close(
        autograd(case.function, strided, dy.transpose(0, -1).contiguous().transpose(0, -1)),
        expected,
    )


@for_every_small_case
def test_without_a_weight_the_gradients_are_those_at_a_weight_of_one(case):
    (x, *parameters), dy = case.inputs()
    ones = [torch.ones_like(parameters[0]).requires_grad_(), *parameters[1:]]
    expected = autograd(case.builtin, [x, *ones], dy)
    assert_close(case.backward(dy, x.detach(), None), expected)
    assert_close(
        torch.autograd.grad(case.function(x, None, *parameters[1:]), x, dy)[0], expected[0]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@for_every_large_case
def test_what_is_saved_is_the_input_the_weight_and_the_statistics_and_nothing_else(case, dtype):
    leaves, _ = case.inputs(dtype=dtype)
    x, weight = leaves[:2]
    rows = x.shape[1] if case.name == "batch_norm" else x.shape[0]
    statistics = 4 * rows * (1 if case.name == "rms_norm" else 2)
    assert saved_bytes(case.function, *leaves) == x.nbytes + weight.nbytes + statistics
    assert saved_bytes(partial(case.call, norms), *leaves) > 2 * x.nbytes


@pytest.mark.parametrize("case", [SMALL[2], SMALL[6], SMALL[8]], ids=str)
def test_the_functions_compile_into_one_graph_forward_and_backward(case):
    leaves, dy = case.inputs()
    compiled = torch.compile(case.function, fullgraph=True, backend="aot_eager")
    assert_close(autograd(compiled, leaves, dy), autograd(case.builtin, leaves, dy))


@for_every_small_case
def test_the_transforms_of_torch_func_give_what_they_give_of_the_builtin(case):
    leaves, dy = case.inputs()
    leaves = [leaf.detach() for leaf in leaves]
    every = tuple(range(len(leaves)))

    def loss(norm):
        return lambda *leaves: (norm(*leaves) * dy).sum()

    for transform in (
        lambda norm: torch.func.grad(loss(norm), argnums=every),
        lambda norm: torch.func.jacrev(norm, argnums=every),
        lambda norm: torch.func.jacrev(torch.func.grad(loss(norm))),
    ):
        assert_close(transform(case.function)(*leaves), transform(case.builtin)(*leaves))
    batch = torch.stack([leaves[0], leaves[0] + 1, -2 * leaves[0]])
    for dim in (None, 0):  # of the parameters in the batch
        parameters = (
            leaves[1:]
            if dim is None
            else [torch.stack([leaf, 2 * leaf, -leaf]) for leaf in leaves[1:]]
        )
        dims = (0, *[dim] * len(parameters))
        for norm in (lambda norm: norm, lambda norm: torch.func.grad(loss(norm), argnums=every)):
            results = torch.vmap(norm(case.function), dims)(batch, *parameters)
            assert_close(results, torch.vmap(norm(case.builtin), dims)(batch, *parameters))


@pytest.mark.parametrize(
    ("call", "error", "argument"),
    [
        (lambda x: layer_norm_backward(x[:1], x, (4,)), ValueError, "dy"),
        (lambda x: rms_norm_backward(x, x, (3,)), RuntimeError, "normalized_shape"),
        (lambda x: backward.layer_norm(x, (3,)), RuntimeError, "normalized_shape"),
        (lambda x: rms_norm_backward(x + 0j, x + 0j, (4,)), ValueError, "x must be real"),
        (lambda x: backward.rms_norm(x + 0j, (4,)), ValueError, "x must be real"),
        (lambda x: backward.batch_norm(x, torch.ones(2)), RuntimeError, "weight"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, error, argument):
    with pytest.raises(error, match=argument):
        call(torch.randn(2, 3, 4))
