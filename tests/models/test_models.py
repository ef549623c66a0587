"""The networks of the experiments, each held against one that somebody else wrote, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_utils.models import (
    LSTM,
    DigitsCNN,
    DigitsMLP,
    TransformerBlock,
    ViT,
    feature_norm,
    patches,
)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_without_layer_norm_the_lstm_is_torchs():
    theirs = nn.LSTM(3, 5, batch_first=True).double()
    mine = LSTM(3, 5).double()
    mine.load_state_dict(theirs.state_dict(), strict=True)
    x = random(4, 7, 3).requires_grad_()
    (y, (h, c)), (their_y, (their_h, their_c)) = mine(x), theirs(x)
    assert_close((y, h, c), (their_y, their_h[0], their_c[0]), atol=1e-14, rtol=0)
    upstream = random(4, 7, 5, seed=1)
    gradients = torch.autograd.grad(y, [x, *mine.parameters()], upstream)
    assert_close(
        gradients,
        torch.autograd.grad(their_y, [x, *theirs.parameters()], upstream),
        atol=1e-13,
        rtol=0,
    )


def lstm_step_of_the_paper(cell, x, h, c):
    """Ba et al. 2016, supplementary material, equations 20 to 22, with F.layer_norm for LN."""
    hidden = len(h[0])
    gates = (
        F.layer_norm(h @ cell.weight_hh_l0.T, (4 * hidden,)) * cell.norm_h.weight
        + F.layer_norm(x @ cell.weight_ih_l0.T, (4 * hidden,)) * cell.norm_x.weight
        + cell.bias_ih_l0
        + cell.bias_hh_l0
    )
    i, f, g, o = gates.split(hidden, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * (
        F.layer_norm(c, (hidden,)) * cell.norm_c.weight + cell.norm_c.bias
    ).tanh(), c


def test_with_layer_norm_a_step_is_the_papers():
    cell = LSTM(3, 5, layer_norm=True).double()
    for i, parameter in enumerate(cell.parameters()):
        parameter.data = random(*parameter.shape, seed=10 + i)
    x = random(4, 6, 3)
    h = c = torch.zeros(4, 5, dtype=torch.float64)
    outputs, (last_h, last_c) = cell(x)
    for t in range(6):
        h, c = lstm_step_of_the_paper(cell, x[:, t], h, c)
        assert_close(outputs[:, t], h, atol=1e-14, rtol=0)
    assert_close((last_h, last_c), (h, c), atol=1e-14, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_and_its_attention_are_torchs_encoder_layer(placement):
    theirs = nn.TransformerEncoderLayer(
        8, 2, 32, 0.0, batch_first=True, norm_first=placement == "pre"
    ).double()
    for i, parameter in enumerate(theirs.parameters()):
        parameter.data = random(*parameter.shape, seed=20 + i) / 2
    mine = TransformerBlock(8, 2, placement).double()
    mine.attention.qkv.weight, mine.attention.qkv.bias = (
        theirs.self_attn.in_proj_weight,
        theirs.self_attn.in_proj_bias,
    )
    others = {
        "feed_forward.0": "linear1",
        "feed_forward.2": "linear2",
        "norm1": "norm1",
        "norm2": "norm2",
    }
    for name, part in ({"attention.out": "self_attn.out_proj"} | others).items():
        mine.get_submodule(name).load_state_dict(theirs.get_submodule(part).state_dict())
    x = random(3, 5, 8).requires_grad_()
    y, their_y = mine(x), theirs(x)
    assert_close(y, their_y, atol=1e-12, rtol=0)
    upstream = random(3, 5, 8, seed=1)
    gradients = [torch.autograd.grad(out, x, upstream) for out in (y, their_y)]
    assert_close(*gradients, atol=1e-11, rtol=0)


NETWORKS = [lambda placement=placement: ViT(2, placement) for placement in ("pre", "post", "none")]
NETWORKS += [
    lambda network=network, norm=norm: network(norm)
    for network in (DigitsCNN, DigitsMLP)
    for norm in ("batch", "layer", "group", "none")
]


@pytest.mark.parametrize("make", NETWORKS)
def test_a_network_returns_logits_and_uses_every_parameter(make):
    network = make()
    logits = network(random(4, 1, 8, 8).float())
    assert logits.shape == (4, 10)
    logits.square().sum().backward()
    assert all(
        parameter.grad is not None and parameter.grad.any() for parameter in network.parameters()
    )


def test_a_patch_embedding_is_the_strided_convolution_and_layer_norm_of_images_has_one_group():
    vit, images = ViT(1).double(), random(2, 1, 8, 8)
    by_convolution = F.conv2d(images, vit.embed.weight.view(-1, 1, 2, 2), vit.embed.bias, stride=2)
    assert_close(vit.embed(patches(images, 2)), by_convolution.flatten(2).mT, atol=1e-14, rtol=0)
    images = random(4, 8, 3, 3)
    over_all = F.layer_norm(images, (8, 3, 3))
    assert_close(
        feature_norm("layer", 8, spatial=True).double()(images), over_all, atol=1e-14, rtol=0
    )


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: TransformerBlock(8, 2, "middle"), "placement"),
        (lambda: patches(random(2, 1, 8, 8), 3), "size"),
        (lambda: feature_norm("instance", 8, spatial=True), "kind"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()
