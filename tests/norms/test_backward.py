"""The gradients by hand against autograd of the built-ins in float64, finite differences, and what
they must cost."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from course_utils import norms
from course_utils.norms import backward
from course_utils.norms.backward import batch_norm_backward, layer_norm_backward, rms_norm_backward
from course_utils.timing import saved_bytes


@dataclass(frozen=True)
class Case:
    """One norm on one shape: the built-in, ours, the Function and the gradient, all of (x, weight,
    bias) alike."""

    name: str
    shape: tuple[int, ...]
    parameter_shape: tuple[int, ...]
    builtin: Callable[..., Tensor]
    eager: Callable[..., Tensor]
    function: Callable[..., Tensor]
    backward: Callable[..., tuple[Tensor, ...]]  # of (dy, x, weight)
    has_bias: bool = True

    def __str__(self):
        return f"{self.name} {self.shape} {self.parameter_shape}"

    def inputs(self, device="cpu", dtype=torch.float64, offset=0.0, seed=0, shape=None):
        """Return leaves x, weight and bias (the bias only where the norm has one), and dy, which
        has a mean."""
        generator = torch.Generator().manual_seed(seed)
        shapes = [shape or self.shape, self.parameter_shape] + [
            self.parameter_shape
        ] * self.has_bias
        x, *parameters, dy = (
            torch.randn(s, generator=generator, dtype=torch.float64) for s in (*shapes, shapes[0])
        )
        leaves = [offset + x, *parameters]
        return [leaf.to(device, dtype).requires_grad_() for leaf in leaves], (dy + 0.5).to(
            device, dtype
        )


def layer_case(shape, normalized_shape, eps=1e-5):
    return Case(
        "layer_norm",
        shape,
        normalized_shape,
        lambda x, w, b: F.layer_norm(x, normalized_shape, w, b, eps),
        lambda x, w, b: norms.layer_norm(x, normalized_shape, w, b, eps),
        lambda x, w, b: backward.layer_norm(x, normalized_shape, w, b, eps),
        lambda dy, x, w: layer_norm_backward(dy, x, normalized_shape, w, eps),
    )


def batch_case(shape, eps=1e-5):
    return Case(
        "batch_norm",
        shape,
        shape[1:2],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=eps),
        lambda x, w, b: norms.batch_norm(x, None, None, w, b, True, eps=eps),
        lambda x, w, b: backward.batch_norm(x, w, b, eps),
        lambda dy, x, w: batch_norm_backward(dy, x, w, eps),
    )


def rms_case(shape, normalized_shape, eps=1e-5):
    return Case(
        "rms_norm",
        shape,
        normalized_shape,
        lambda x, w, b=None: F.rms_norm(x, normalized_shape, w, eps),
        lambda x, w, b=None: norms.rms_norm(x, normalized_shape, w, eps),
        lambda x, w, b=None: backward.rms_norm(x, normalized_shape, w, eps),
        lambda dy, x, w: rms_norm_backward(dy, x, normalized_shape, w, eps),
        has_bias=False,
    )


SMALL = [
    layer_case((5, 6), (6,)),
    layer_case((2, 3, 4), (4,)),
    layer_case((2, 3, 4), (3, 4), eps=0.3),
    layer_case((3, 4), (3, 4)),
    batch_case((5, 3)),
    batch_case((3, 2, 4), eps=0.3),
    batch_case((2, 3, 4, 2)),
    rms_case((5, 6), (6,)),
    rms_case((2, 3, 4), (3, 4), eps=0.3),
    rms_case((2, 3), (2, 3)),
    rms_case((5, 6), (6,), eps=None),
]
for_every_small_case = pytest.mark.parametrize("case", SMALL, ids=str)
LARGE = [
    layer_case((64, 96), (96,)),
    batch_case((256, 32)),
    batch_case((8, 16, 14, 14)),
    rms_case((64, 96), (96,)),
]
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
    assert saved_bytes(case.eager, *leaves) > 2 * x.nbytes


@pytest.mark.parametrize("case", [SMALL[2], SMALL[6], SMALL[8]], ids=str)
def test_the_functions_compile_into_one_graph_forward_and_backward(case):
    leaves, dy = case.inputs()
    compiled = torch.compile(case.function, fullgraph=True, backend="aot_eager")
    assert_close(autograd(compiled, leaves, dy), autograd(case.builtin, leaves, dy))


@pytest.mark.parametrize("case", SMALL, ids=str)
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
