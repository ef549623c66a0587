"""The networks of the experiments, each held against one that somebody else wrote, in float64."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from tensorflow_layer import PUBLISHED, REQUIREMENTS
from torch import nn
from torch.testing import assert_close

from chapters.c18_on_trial.writeup_layer_norms import LAYERS
from chapters.contents import chapter_of
from course_utils.models import (
    LSTM,
    POSITIONS,
    CausalAttention,
    Decoder,
    DigitsCNN,
    DigitsMLP,
    MinGRU,
    TransformerBlock,
    ViT,
    feature_norm,
    linear_recurrence,
    linear_scan,
    patches,
)
from course_utils.models.decoder import windowed_attention
from course_utils.rope import rope_inv_freq


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


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 100, 257])
def test_the_scan_is_the_loop(length):
    a, b, h0 = random(2, length, 3).sigmoid(), random(2, length, 3, seed=1), random(2, 3, seed=2)
    for start in (None, h0):
        assert_close(linear_scan(a, b, start), linear_recurrence(a, b, start), atol=1e-13, rtol=0)
    a[:, length // 2] = 0.0  # a gate that closes
    leaves = [leaf.requires_grad_() for leaf in (a, b, h0)]
    gradients = [torch.autograd.grad(fn(*leaves).cos().sum(), leaves) for fn in (linear_scan, linear_recurrence)]
    assert_close(*gradients, atol=1e-13, rtol=0)


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
    by_scan = mine(x)
    mine.recurrence = linear_recurrence
    assert_close(by_scan, mine(x), atol=1e-14, rtol=0)


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
def test_a_block_and_its_attention_are_torchs_encoder_layer(placement):
    theirs = nn.TransformerEncoderLayer(8, 2, 32, 0.0, batch_first=True, norm_first=placement == "pre").double()
    for i, parameter in enumerate(theirs.parameters()):
        parameter.data = random(*parameter.shape, seed=20 + i) / 2
    mine = TransformerBlock(8, 2, placement).double()
    mine.attention.qkv.weight, mine.attention.qkv.bias = theirs.self_attn.in_proj_weight, theirs.self_attn.in_proj_bias
    others = {"feed_forward.0": "linear1", "feed_forward.2": "linear2", "norm1": "norm1", "norm2": "norm2"}
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
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


def test_a_patch_embedding_is_the_strided_convolution_and_layer_norm_of_images_has_one_group_as_in_the_papers():
    vit, images = ViT(1).double(), random(2, 1, 8, 8)
    by_convolution = F.conv2d(images, vit.embed.weight.view(-1, 1, 2, 2), vit.embed.bias, stride=2)
    assert_close(vit.embed(patches(images, 2)), by_convolution.flatten(2).mT, atol=1e-14, rtol=0)
    images = random(4, 8, 3, 3)
    over_all = F.layer_norm(images, (8, 3, 3))
    assert_close(feature_norm("layer", 8, spatial=True).double()(images), over_all, atol=1e-14, rtol=0)


# --- the decoder ------------------------------------------------------------------------------------------------


def decoder(position="rope", **options):
    generator = torch.Generator().manual_seed(0)
    return Decoder(8, position=position, window=32, width=16, heads=2, hidden=24, generator=generator, **options)


TOKENS = torch.randint(8, (2, 12), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("position", POSITIONS)
def test_a_token_changes_its_own_logits_and_later_ones_and_no_earlier_ones(position):
    model, other = decoder(position), TOKENS.clone()
    other[:, 5] = (other[:, 5] + 1) % 8
    changed = (model(TOKENS) - model(other)).abs().amax((0, 2)) > 1e-6
    assert changed.tolist() == [False] * 5 + [True] * 7


@pytest.mark.parametrize("window", [1, 3, 8, 20])
def test_windowed_attention_is_attention_under_a_mask(window):
    q, k, v = random(3, 2, 2, 11, 4)
    sees = torch.ones(11, 11, dtype=torch.bool).tril().triu(1 - window)
    expected = F.scaled_dot_product_attention(q, k, v, sees)
    assert_close(windowed_attention(q, k, v, window), expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize("position", ["none", "rope"])
def test_within_a_window_of_one_every_token_is_alone_until_the_window_is_taken_away(position):
    model = decoder(position)
    free = model(TOKENS)
    alone = model(TOKENS.view(-1, 1)).view(2, 12, 8)
    assert model.set_attention_window(1) is model
    torch.testing.assert_close(model(TOKENS), alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.set_attention_window(None)(TOKENS), free, atol=0, rtol=0)


@pytest.mark.parametrize("position", POSITIONS)
def test_of_one_token_repeated_only_codes_that_are_added_to_it_show_its_place(position):
    logits = decoder(position)(torch.ones(1, 12, dtype=torch.long))[0]
    differs = (logits[1:] - logits[:1]).abs().amax(1) > 1e-5
    assert differs.all() if position in ("sinusoidal", "learned") else not differs.any()


# --- the write-ups' layers --------------------------------------------------------------------------------------

# what each divides a row [−a, a] by, whose mean is 0 and whose variance is a², and whether it averages over all dims
WRITE_UPS = {
    "S0": (lambda a: math.sqrt(a * a + 1e-8), True),
    "S1": (lambda a: math.sqrt(a * a + 1e-5), False),
    "S2": (lambda a: math.sqrt(a * a + 1e-12), False),
    "S3": (lambda a: math.sqrt(a * a + 1e-5), True),
    "S4": (lambda a: a + 1e-5, False),
}


@pytest.mark.parametrize("source", LAYERS)
def test_a_layer_divides_by_what_its_write_up_says_with_the_variance_over_n(source):
    divisor, over_all = WRITE_UPS[source]
    for a in (1e-7, 1e-4, 1e-3, 1.0, 50.0):
        y = LAYERS[source](torch.tensor([[-a, a]], dtype=torch.float64), (2,))
        assert y[0].tolist() == pytest.approx([-a / divisor(a), a / divisor(a)], rel=1e-9)
    x = random(3, 4, 5)
    normalized = F.layer_norm(x, (4, 5) if over_all else (5,))
    assert_close(LAYERS[source](x, (4, 5)), normalized, atol=1e-4, rtol=0)


def test_the_record_of_the_layer_in_tensorflow_is_of_the_published_code():
    record = json.loads((chapter_of("18").folder / "tensorflow_layer.json").read_text())
    assert record["source"] == PUBLISHED
    assert [f"{name}=={record['versions'][name.split('-')[0]]}" for name in ("tensorflow-cpu", "keras")] == REQUIREMENTS


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Decoder(8, heads=3), "heads"),
        (lambda: Decoder(8, position="late"), "position"),
        (lambda: Decoder(8, position="t5", window=16)(TOKENS), "max_distance must be above the 16 distances"),
        (lambda: Decoder(8, position="none").set_rope(rope_inv_freq(8)), "position"),
        (lambda: Decoder(8).set_rope(rope_inv_freq(8)), "inv_freq"),
        (lambda: Decoder(8, position="alibi").set_attention_window(4), "position"),
        (lambda: Decoder(8, position="learned", window=32)(torch.zeros(1, 33, dtype=torch.long)), "32 positions"),
        (lambda: TransformerBlock(8, 2, "middle"), "placement"),
        (lambda: patches(random(2, 1, 8, 8), 3), "size"),
        (lambda: feature_norm("instance", 8, spatial=True), "kind"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()
