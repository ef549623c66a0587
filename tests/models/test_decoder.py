"""The decoder: what a token changes, attention within a window, and where positions are seen."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_utils.models import POSITIONS, Decoder
from course_utils.models.decoder import windowed_attention
from course_utils.rope import rope_inv_freq, sinusoidal


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decoder(position="rope", **options):
    generator = torch.Generator().manual_seed(0)
    return Decoder(
        8,
        position=position,
        window=32,
        width=16,
        heads=2,
        hidden=24,
        generator=generator,
        **options,
    )


TOKENS = torch.randint(8, (2, 12), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("position", POSITIONS)
def test_a_token_changes_its_own_logits_and_later_ones_and_no_earlier_ones(position):
    model, other = decoder(position), TOKENS.clone()
    other[:, 5] = (other[:, 5] + 1) % 8
    changed = (model(TOKENS) - model(other)).abs().amax((0, 2)) > 1e-6
    assert changed.tolist() == [False] * 5 + [True] * 7


@pytest.mark.parametrize("std", [0.02, 1.0])
def test_embeddings_and_the_sinusoid_are_as_large_as_asked_for(std):
    model, streams = decoder("sinusoidal", embedding_std=std), []
    model.blocks[0].register_forward_pre_hook(lambda block, inputs: streams.append(inputs[0]))
    model(TOKENS[:1])
    code = (streams[0] - model.embedding(TOKENS[:1]))[0] / std
    assert_close(code, sinusoidal(12, 16), atol=1e-6, rtol=0)
    assert model.embedding.weight.std().item() == pytest.approx(std, rel=0.2)


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


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Decoder(8, heads=3), "heads"),
        (lambda: Decoder(8, position="late"), "position"),
        (
            lambda: Decoder(8, position="t5", window=16)(TOKENS),
            "max_distance must be above the 16 distances",
        ),
        (lambda: Decoder(8, position="none").set_rope(rope_inv_freq(8)), "position"),
        (lambda: Decoder(8).set_rope(rope_inv_freq(8)), "inv_freq"),
        (lambda: Decoder(8, position="alibi").set_attention_window(4), "position"),
        (
            lambda: Decoder(8, position="learned", window=32)(torch.zeros(1, 33, dtype=torch.long)),
            "32 positions",
        ),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()
