"""The norm modules over time: training and evaluation, checkpoints, copies, and what they refuse."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_utils import norms

RUNNING = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
# In older releases group norm and the norms with running statistics know no bias argument and do not show one.


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


# --- running statistics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0, None])
def test_statistics_follow_the_builtins_through_training_and_evaluation(name, momentum):
    mine, builtin = pair(name, 3, momentum=momentum, affine=True, track_running_stats=True)
    for seed in range(4):
        assert_same_result_and_buffers(mine, builtin, batch(name, seed))
    for module in (mine, builtin):
        module.eval()
    assert_same_result_and_buffers(mine, builtin, batch(name, 5))


@pytest.mark.parametrize("name", ["BatchNorm2d", "InstanceNorm2d"])
@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("flipped", [False, True])
def test_statistics_used_and_moved_are_the_builtins_in_every_mode(name, tracks, training, flipped):
    mine, builtin = pair(name, 3, track_running_stats=tracks)
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


@pytest.mark.parametrize("name", RUNNING[3:])
def test_instance_norm_takes_a_single_sample_without_a_batch_dimension(name):
    mine, builtin = pair(name, 3, affine=True, track_running_stats=True)
    assert_same_result_and_buffers(mine, builtin, batch(name)[0])
    assert mine(batch(name)[0]).shape == batch(name)[0].shape


# --- what is refused --------------------------------------------------------------------------------------------

x, c = torch.randn(2, 6, 4), torch.ones(6)
REFUSED = {
    "normalized_shape is an int": lambda m: m.layer_norm(x, 4),
    "normalized_shape is a float": lambda m: m.layer_norm(x, (4.0,)),
    "normalized_shape is empty": lambda m: m.layer_norm(x, ()),
    "normalized_shape is another": lambda m: m.layer_norm(x, (3,)),
    "normalized_shape is not at the end": lambda m: m.layer_norm(x, (2, 6)),
    "normalized_shape is too long": lambda m: m.layer_norm(x, (1, 2, 6, 4)),
    "layer weight has another shape": lambda m: m.layer_norm(x, (4,), torch.ones(1, 4)),
    "layer bias has another shape": lambda m: m.layer_norm(x, (4,), None, torch.ones(3)),
    "layer input is integer": lambda m: m.layer_norm(x.long(), (4,)),
    "layer input is complex": lambda m: m.layer_norm(x + 0j, (4,)),
    "layer weight is double": lambda m: m.layer_norm(x, (4,), torch.ones(4).double()),
    "layer input is double": lambda m: m.layer_norm(x.double(), (4,), torch.ones(4)),
    "layer bias is another half": lambda m: m.layer_norm(x.half(), (4,), None, torch.ones(4).bfloat16()),
    "layer weight and bias differ": lambda m: m.layer_norm(x.half(), (4,), torch.ones(4).half(), torch.ones(4)),
    "rms shape is an int": lambda m: m.rms_norm(x, 4),
    "rms shape is another": lambda m: m.rms_norm(x, (6, 3)),
    "rms shape is too long": lambda m: m.rms_norm(x, (1, 2, 6, 4)),
    "rms weight has another shape": lambda m: m.rms_norm(x, (4,), torch.ones(1, 4)),
    "rms input is integer": lambda m: m.rms_norm(x.int(), (4,)),
    "group input has one dimension": lambda m: m.group_norm(x[0, :, 0], 2),
    "groups do not divide": lambda m: m.group_norm(x, 4),
    "groups are none": lambda m: m.group_norm(x, 0),
    "groups are negative": lambda m: m.group_norm(x, -1),
    "groups have one value": lambda m: m.group_norm(x[:1, :4, 0], 4),
    "group weight has another shape": lambda m: m.group_norm(x, 2, torch.ones(1, 6)),
    "group input is bool": lambda m: m.group_norm(x > 0, 2),
    "group weight is double": lambda m: m.group_norm(x, 2, c.double()),
    "instance has one position": lambda m: m.instance_norm(x[..., :1]),
    "instance statistics are missing": lambda m: m.instance_norm(x, use_input_stats=False),
    "instance variance is missing": lambda m: m.instance_norm(x, c.clone()),
    "instance weight has another length": lambda m: m.instance_norm(x, None, None, torch.ones(5)),
    "instance mean has another length": lambda m: m.instance_norm(x, torch.ones(5), torch.ones(5)),
    "instance variance has another length": lambda m: m.instance_norm(x, c.clone(), torch.ones(5)),
    "instance bias has another length": lambda m: m.instance_norm(x, None, None, None, torch.ones(5)),
    "instance variance is missing in evaluation": lambda m: m.instance_norm(x, c, None, use_input_stats=False),
    "instance weight is double": lambda m: m.instance_norm(x, None, None, c.double()),
    "instance statistics need a gradient": lambda m: m.instance_norm(x, c.clone().requires_grad_(), c.clone()),
    "instance input is integer": lambda m: m.instance_norm(x.short()),
    "batch mean is missing": lambda m: m.batch_norm(x, None, c),
    "batch variance is missing": lambda m: m.batch_norm(x, c, None),
    "batch variance is missing in training": lambda m: m.batch_norm(x, c.clone(), None, training=True),
    "batch has one value a channel": lambda m: m.batch_norm(x[:1, :, 0], None, None, training=True),
    "batch mean has another length": lambda m: m.batch_norm(x, torch.ones(5), c, torch.ones(5)),
    "batch bias has another length": lambda m: m.batch_norm(x, c, c, c, torch.ones(5)),
    "batch input has one dimension": lambda m: m.batch_norm(x[0, :, 0], c, c),
    "batch input is integer": lambda m: m.batch_norm(x.byte(), c, c),
    "batch statistics are double": lambda m: m.batch_norm(x, c.double(), c.double()),
    "batch weight is float32, statistics half": lambda m: m.batch_norm(x.half(), c.half(), c.half(), c),
    "batch statistics need a gradient": lambda m: m.batch_norm(x, c.clone().requires_grad_(), c),
    "batch eps is zero in training": lambda m: m.batch_norm(x, None, None, training=True, eps=0.0),
    "batch eps is negative": lambda m: m.batch_norm(x, c, c, eps=-1.0),
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


# --- dynamic tanh -----------------------------------------------------------------------------------------------


def test_dynamic_tanh_is_a_weighted_tanh_of_the_scaled_input_and_starts_from_one_half():
    module = norms.DynamicTanh(4)
    assert module.alpha.tolist() == [0.5]
    assert module.weight.tolist() == [1.0] * 4
    assert module.bias.tolist() == [0.0] * 4
    z = np.random.default_rng(0).normal(0, 3, (2, 3, 4)).astype(np.float32)
    assert_close(module(torch.as_tensor(z)), torch.as_tensor(np.tanh(0.5 * z)))
    with torch.no_grad():
        module.weight.copy_(torch.arange(4.0))
        module.bias.fill_(-1)
    assert_close(module(torch.as_tensor(z)), torch.as_tensor(np.tanh(0.5 * z) * np.arange(4, dtype=np.float32) - 1))


def test_dynamic_tanh_refuses_an_input_that_would_be_broadcast_to_its_weight():
    for size, shape in (((64,), (5, 1)), ((3, 4), (4,)), ((3, 4), (2, 1, 4)), ((4,), (5, 3)), ((4,), ())):
        with pytest.raises(ValueError, match=r"input must match weight and bias of shape \(.*\): got \("):
            norms.DynamicTanh(size)(torch.zeros(shape))
    for size, shape in (((4,), (5, 4)), ((4,), (4,)), ((3, 1, 1), (2, 3, 5, 5)), ((4,), (0, 4))):
        assert norms.DynamicTanh(size)(torch.zeros(shape)).shape == shape


def test_dynamic_tanh_has_the_derivatives_of_finite_differences():
    module = norms.DynamicTanh((3, 4), alpha_init=0.8).double()
    z = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    inputs = (z, *module.parameters())

    def apply(value, *parameters):
        return torch.func.functional_call(
            module, dict(zip(("alpha", "weight", "bias"), parameters, strict=True)), value
        )

    assert torch.autograd.gradcheck(apply, inputs)
    assert torch.autograd.gradgradcheck(apply, inputs)


def test_dynamic_tanh_in_half_precision_is_rounded_once():
    module = norms.DynamicTanh(4).bfloat16()
    z = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert torch.equal(module(z), torch.tanh(0.5 * z.double()).bfloat16())
