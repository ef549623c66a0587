"""The networks of the experiments, each held against one that somebody else wrote, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_utils.models import (
    LSTM,
    CausalAttention,
    DigitsCNN,
    DigitsMLP,
    MinGRU,
    SelfAttention,
    TransformerBlock,
    ViT,
    feature_norm,
    linear_recurrence,
    linear_scan,
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
    assert_close(gradients, torch.autograd.grad(their_y, [x, *theirs.parameters()], upstream), atol=1e-13, rtol=0)


def test_torchs_lstm_is_built_with_the_same_numbers_from_a_seed():
    built = []
    for make in (lambda: LSTM(3, 5), lambda: nn.LSTM(3, 5, batch_first=True)):
        torch.manual_seed(0)
        built.append({name: value.clone() for name, value in make().state_dict().items()})
    assert_close(*built, atol=0, rtol=0)


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
    return o.sigmoid() * (F.layer_norm(c, (hidden,)) * cell.norm_c.weight + cell.norm_c.bias).tanh(), c


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


def test_layer_norm_makes_the_lstm_forget_the_scale_of_its_weights():
    small, large = (LSTM(3, 8, layer_norm=True).double() for _ in range(2))
    large.load_state_dict(small.state_dict())
    large.weight_hh_l0.data *= 100
    x = 100 * random(4, 6, 3)
    # epsilon is what is left: 1e-5 beside a variance of about 1/3 · E[h²]
    assert (small(x)[0] - large(x)[0]).abs().max() < 1e-2
    plain, plain_large = LSTM(3, 8).double(), LSTM(3, 8).double()
    plain_large.load_state_dict(plain.state_dict())
    plain_large.weight_hh_l0.data *= 100
    assert (plain(x)[0] - plain_large(x)[0]).abs().max() > 0.5


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 100, 257])
def test_the_scan_is_the_loop(length):
    a, b, h0 = random(2, length, 3).sigmoid(), random(2, length, 3, seed=1), random(2, 3, seed=2)
    for start in (None, h0):
        assert_close(linear_scan(a, b, start), linear_recurrence(a, b, start), atol=1e-13, rtol=0)


def test_the_scan_is_the_loop_where_a_gate_closes_and_in_the_gradient():
    a, b, h0 = random(2, 9, 3).sigmoid(), random(2, 9, 3, seed=1), random(2, 3, seed=2)
    a[:, 4] = 0.0
    leaves = [leaf.requires_grad_() for leaf in (a, b, h0)]
    upstream = random(2, 9, 3, seed=3)
    gradients = [torch.autograd.grad(fn(a, b, h0), leaves, upstream) for fn in (linear_scan, linear_recurrence)]
    assert_close(*gradients, atol=1e-13, rtol=0)
    assert torch.autograd.gradcheck(linear_scan, tuple(leaves))


def test_the_scan_agrees_with_scipy_free_closed_form_of_a_constant_gate():
    a, b = torch.full((1, 50, 1), 0.9, dtype=torch.float64), torch.ones(1, 50, 1, dtype=torch.float64)
    geometric = (1 - 0.9 ** torch.arange(1, 51, dtype=torch.float64)) / 0.1
    assert_close(linear_scan(a, b)[0, :, 0], geometric, atol=1e-13, rtol=0)


def test_mingru_is_a_gru_whose_gates_see_the_input_only():
    """nn.GRU with its recurrent weights at zero and its reset gate shut; its candidate has a tanh, which is undone."""
    mine = MinGRU(3, 4).double()
    theirs = nn.GRU(3, 4, batch_first=True).double()
    x = random(2, 6, 3)
    with torch.no_grad():
        theirs.weight_hh_l0.zero_()
        theirs.bias_hh_l0.zero_()
        theirs.weight_ih_l0[4:8], theirs.bias_ih_l0[4:8] = -mine.gate.weight, -mine.gate.bias
        theirs.weight_ih_l0[8:], theirs.bias_ih_l0[8:] = 1e-5 * mine.candidate.weight, 1e-5 * mine.candidate.bias
        # tanh(u) = u - u³/3: with u near 1e-5 the two differ by 1e-10 of the value
        assert_close(1e5 * theirs(x)[0], mine(x), atol=1e-9, rtol=0)


def test_mingru_gives_the_same_by_scan_and_by_loop():
    by_scan, by_loop = MinGRU(3, 4).double(), MinGRU(3, 4, linear_recurrence).double()
    by_loop.load_state_dict(by_scan.state_dict())
    x = random(2, 33, 3)
    assert_close(by_scan(x), by_loop(x), atol=1e-14, rtol=0)


def copy_linear(mine, weight, bias):
    mine.weight.data, mine.bias.data = weight.detach().clone(), bias.detach().clone()


def test_attention_is_torchs_multi_head_attention():
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).double()
    theirs.in_proj_bias.data = random(24, seed=5)
    mine = SelfAttention(8, 2).double()
    copy_linear(mine.qkv, theirs.in_proj_weight, theirs.in_proj_bias)
    copy_linear(mine.out, theirs.out_proj.weight, theirs.out_proj.bias)
    x = random(3, 5, 8)
    assert_close(mine(x), theirs(x, x, x)[0], atol=1e-14, rtol=0)


@pytest.mark.parametrize("qk_norm", [False, True], ids=["plain", "norms on q and k"])
def test_causal_attention_is_torchs_with_is_causal(qk_norm):
    mine = CausalAttention(8, 2, qk_norm).double()
    for i, parameter in enumerate(mine.parameters()):
        parameter.data = random(*parameter.shape, seed=30 + i)
    x = random(3, 5, 8)
    q, k, v = (part.view(3, 5, 2, 4).transpose(1, 2) for part in mine.qkv(x).split(8, dim=-1))
    if qk_norm:
        q, k = F.rms_norm(q, (4,), mine.norm_q.weight), F.rms_norm(k, (4,), mine.norm_k.weight)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(mine(x), mine.out(mixed.transpose(1, 2).reshape(3, 5, 8)), atol=1e-13, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_is_torchs_encoder_layer(placement):
    theirs = nn.TransformerEncoderLayer(8, 2, 32, 0.0, batch_first=True, norm_first=placement == "pre").double()
    for i, parameter in enumerate(theirs.parameters()):
        parameter.data = random(*parameter.shape, seed=20 + i) / 2
    mine = TransformerBlock(8, 2, placement).double()
    copy_linear(mine.attention.qkv, theirs.self_attn.in_proj_weight, theirs.self_attn.in_proj_bias)
    copy_linear(mine.attention.out, theirs.self_attn.out_proj.weight, theirs.self_attn.out_proj.bias)
    copy_linear(mine.feed_forward[0], theirs.linear1.weight, theirs.linear1.bias)
    copy_linear(mine.feed_forward[2], theirs.linear2.weight, theirs.linear2.bias)
    copy_linear(mine.norm1, theirs.norm1.weight, theirs.norm1.bias)
    copy_linear(mine.norm2, theirs.norm2.weight, theirs.norm2.bias)
    x = random(3, 5, 8).requires_grad_()
    y, their_y = mine(x), theirs(x)
    assert_close(y, their_y, atol=1e-12, rtol=0)
    upstream = random(3, 5, 8, seed=1)
    gradients = [torch.autograd.grad(out, x, upstream) for out in (y, their_y)]
    assert_close(*gradients, atol=1e-11, rtol=0)


def test_a_block_without_norms_has_none_and_an_unknown_placement_is_refused():
    assert not [module for module in TransformerBlock(8, 2, "none").modules() if isinstance(module, nn.LayerNorm)]
    with pytest.raises(ValueError, match="placement must be 'pre', 'post' or 'none': got 'middle'"):
        TransformerBlock(8, 2, "middle")


def test_patches_are_the_squares_of_the_image_row_by_row():
    images = random(2, 3, 8, 8)
    tokens = patches(images, 4)
    assert tokens.shape == (2, 4, 48)
    for token, (top, left) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
        square = images[:, :, top : top + 4, left : left + 4]
        assert torch.equal(tokens[:, token], square.flatten(1))


def test_a_patch_may_be_a_pixel_or_a_quarter_of_the_image():
    images = random(2, 1, 8, 8)
    assert torch.equal(patches(images, 1), images.flatten(2).mT)
    assert ViT(1, patch=4)(images.float()).shape == (2, 10)


def test_only_a_pre_norm_vit_normalizes_once_more_before_its_head():
    norms = {placement: type(ViT(1, placement).norm) for placement in ("pre", "post", "none")}
    assert norms == {"pre": nn.LayerNorm, "post": nn.Identity, "none": nn.Identity}


def test_a_patch_embedding_is_the_strided_convolution_of_the_paper():
    vit = ViT(1).double()
    images = random(2, 1, 8, 8)
    by_convolution = F.conv2d(images, vit.embed.weight.view(-1, 1, 2, 2), vit.embed.bias, stride=2)
    assert_close(vit.embed(patches(images, 2)), by_convolution.flatten(2).mT, atol=1e-14, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post", "none"])
def test_a_vit_returns_logits_and_uses_every_parameter(placement):
    vit = ViT(2, placement)
    logits = vit(random(4, 1, 8, 8).float())
    assert logits.shape == (4, 10)
    logits.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in vit.parameters())


@pytest.mark.parametrize("norm", ["batch", "layer", "group", "none"])
@pytest.mark.parametrize("network", [DigitsCNN, DigitsMLP])
def test_the_digit_networks_return_logits_with_every_norm(network, norm):
    assert network(norm)(random(4, 1, 8, 8).float()).shape == (4, 10)


def test_the_digits_cnn_has_three_by_three_windows_and_halves_the_image_twice():
    convolutions = [module for module in DigitsCNN("none", width=4) if isinstance(module, nn.Conv2d)]
    x, sizes = torch.zeros(1, 1, 8, 8), []
    for convolution in convolutions:
        x = convolution(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes == [(4, 8, 8), (8, 4, 4), (8, 2, 2)]
    assert {convolution.kernel_size for convolution in convolutions} == {(3, 3)}


def test_layer_norm_as_one_group_is_layer_norm():
    x = random(4, 8)
    assert_close(feature_norm("layer", 8, spatial=False).double()(x), F.layer_norm(x, (8,)), atol=1e-14, rtol=0)
    images = random(4, 8, 3, 3)
    over_all = F.layer_norm(images, (8, 3, 3))
    assert_close(feature_norm("layer", 8, spatial=True).double()(images), over_all, atol=1e-14, rtol=0)
    with pytest.raises(ValueError, match="kind must be one of batch, layer, group, none: got 'instance'"):
        feature_norm("instance", 8, spatial=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: patches(random(2, 1, 8, 8), 3), r"size must divide .*: got size=3, images \(2, 1, 8, 8\)"),
        (lambda: patches(random(2, 1, 8, 8), 0), "size must divide .*: got size=0"),
        (lambda: patches(random(2, 1, 6, 8), 4), r"size must divide .*: got size=4, images \(2, 1, 6, 8\)"),
        (lambda: DigitsCNN("group", width=6), "channels must be a multiple of 4 for kind='group': got 6"),
        (lambda: DigitsMLP("group", width=2), "channels must be a multiple of 4 for kind='group': got 2"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
