"""The norm modules over time: training and evaluation, checkpoints, copies, and what they
refuse."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_utils import norms


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def batch(name, seed=0, channels=3):
    """Return an input for the module called ``name``, off centre and off scale."""
    shape = (4, channels, 5, 6, 2)[: {"1": 3, "2": 4, "3": 5}.get(name[-2], 4)]
    return 2 + 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def pair(name, *args, **kwargs):
    """Return mine and the built-in with the same random parameters."""
    mine, builtin = (getattr(library, name)(*args, **kwargs) for library in (norms, nn))
    for parameter in builtin.parameters():
        nn.init.normal_(parameter)
    mine.load_state_dict(builtin.state_dict(), strict=True)
    return mine, builtin


def assert_same_result_and_buffers(mine, builtin, x):
    assert_close(mine(x), builtin(x), rtol=1e-5, atol=1e-5)
    assert_close(dict(mine.named_buffers()), dict(builtin.named_buffers()))


# --- running statistics ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BatchNorm2d", "InstanceNorm2d"])
@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0, None])
@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("flipped", [False, True])
def test_statistics_used_and_moved_are_the_builtins_in_every_mode(
    name, momentum, tracks, training, flipped
):
    mine, builtin = pair(name, 3, momentum=momentum, affine=True, track_running_stats=tracks)
    for module in (mine, builtin):
        module(batch(name))
        module.train(training)
        module.track_running_stats ^= flipped
    if flipped and not tracks and not training and name == "InstanceNorm2d":
        for module in (mine, builtin):  # asked to evaluate with statistics that it never had
            with pytest.raises(RuntimeError, match="to be defined when use_input_stats is false"):
                module(batch(name, 1))
        return
    for seed in (1, 2):
        assert_same_result_and_buffers(mine, builtin, batch(name, seed))


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_a_subclass_computes_with_a_function_of_its_own(name):
    x = torch.randn(2, 4)

    class Doubled(getattr(norms, name)):
        function = staticmethod(lambda input, *arguments: 2 * input)

    assert_close(Doubled(4)(x), 2 * x)
    assert_close(getattr(norms, name)(4)(x), getattr(nn, name)(4)(x))


OURS = {"DynamicTanh", "l2_norm", "scale_norm"}  # PyTorch has none
NAMESAKES = [name for name in norms.__all__ if name not in OURS]


@pytest.mark.parametrize("name", NAMESAKES)
def test_arguments_have_the_names_and_defaults_of_the_builtin(name):
    def arguments(call):
        return [
            (argument.name, argument.default)
            for argument in inspect.signature(call).parameters.values()
        ]

    mine, builtin = getattr(norms, name), getattr(Builtin(), name)
    more = [("offset", 0.0)] if name == "rms_norm" else []
    assert arguments(mine) == arguments(builtin) + more
    if isinstance(mine, type):
        assert arguments(mine.forward) == arguments(builtin.forward)


# --- what is refused ------------------------------------------------------------------------------

x, c = torch.randn(2, 6, 4), torch.ones(6)
REFUSED = {
    "normalized_shape is an int": lambda m: m.layer_norm(x, 4),
    "layer input is integer": lambda m: m.layer_norm(x.long(), (4,)),
    "layer weight is double": lambda m: m.layer_norm(x, (4,), torch.ones(4).double()),
    "layer weight and bias differ": lambda m: m.layer_norm(
        x.half(), (4,), torch.ones(4).half(), torch.ones(4)
    ),
    "groups are none": lambda m: m.group_norm(x, 0),
    "groups have one value": lambda m: m.group_norm(x[:1, :4, 0], 4),
    "group weight has another shape": lambda m: m.group_norm(x, 2, torch.ones(1, 6)),
    "instance has one position": lambda m: m.instance_norm(x[..., :1]),
    "instance statistics are missing": lambda m: m.instance_norm(x, use_input_stats=False),
    "batch variance is missing": lambda m: m.batch_norm(x, c, None),
    "batch has one value a channel": lambda m: m.batch_norm(x[:1, :, 0], None, None, training=True),
    "batch mean has another length": lambda m: m.batch_norm(x, torch.ones(5), c, torch.ones(5)),
    "batch statistics are double": lambda m: m.batch_norm(x, c.double(), c.double()),
    "batch statistics need a gradient": lambda m: m.batch_norm(x, c.clone().requires_grad_(), c),
    "batch eps is zero in training": lambda m: m.batch_norm(x, None, None, training=True, eps=0.0),
    "BatchNorm1d has other channels": lambda m: m.BatchNorm1d(5)(x),
    "InstanceNorm1d has other channels": lambda m: m.InstanceNorm1d(5, affine=True)(x),
}


class Builtin:
    """`torch.nn` and `torch.nn.functional` under one name, as `course_utils.norms` has them."""

    def __getattr__(self, name):
        return getattr(nn if hasattr(nn, name) else F, name)


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refuses_what_the_builtin_refuses_with_the_same_type_and_message(call):
    try:
        call(Builtin())
    except Exception as error:
        expected = error
    else:
        pytest.skip("this torch accepts it")
    with pytest.raises(type(expected)) as info:
        call(norms)
    assert info.type is type(expected)
    assert str(info.value) == str(expected)


# --- dynamic tanh ---------------------------------------------------------------------------------


def test_dynamic_tanh_is_a_weighted_tanh_of_the_scaled_input_and_starts_from_one_half():
    module = norms.DynamicTanh(4)
    assert {name: set(value.tolist()) for name, value in module.named_parameters()} == {
        "alpha": {0.5},
        "weight": {1.0},
        "bias": {0.0},
    }
    z = 3 * torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(
        module.bfloat16()(z.bfloat16()), torch.tanh(0.5 * z.bfloat16().double()).bfloat16()
    )
    with torch.no_grad():
        module.float().weight.copy_(torch.arange(4.0))
        module.bias.fill_(-1)
    assert_close(module(z), torch.tanh(0.5 * z) * torch.arange(4.0) - 1)


def test_dynamic_tanh_refuses_an_input_that_would_be_broadcast_to_its_weight():
    for size, shape in (((64,), (5, 1)), ((3, 4), (2, 1, 4)), ((4,), (5, 3)), ((4,), ())):
        with pytest.raises(ValueError, match="input must match weight"):
            norms.DynamicTanh(size)(torch.zeros(shape))
    for size, shape in (((4,), (5, 4)), ((3, 1, 1), (2, 3, 5, 5)), ((4,), (0, 4))):
        assert norms.DynamicTanh(size)(torch.zeros(shape)).shape == shape
