"""decoder: sizes that cannot work are refused when the model is made."""

import pytest
import torch

from course_utils.models.decoder import BIASES, POSITIONS, Decoder
from course_utils.rope import rope_inv_freq


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, "heads must divide width: got heads=0, width=128"),
        ({"heads": 3}, "heads must divide width: got heads=3, width=128"),
        ({"position": "late"}, "position must be one of none, .*: got 'late'"),
        ({"position": "t5", "window": 16}, "window must be above 16 for position='t5': got 16"),
    ],
)
def test_an_impossible_size_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Decoder(8, **options)


def test_the_smallest_window_of_t5_buckets_works():
    assert Decoder(8, position="t5", window=17)(torch.zeros(1, 20, dtype=torch.long)).shape == (1, 20, 8)


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


@pytest.mark.parametrize("position", ["none", "rope"])
def test_within_a_window_of_one_every_token_is_alone_until_the_window_is_taken_away(position):
    model = decoder(position)
    free = model(TOKENS)
    alone = model(TOKENS.view(-1, 1)).view(2, 12, 8)
    assert model.set_attention_window(1) is model
    torch.testing.assert_close(model(TOKENS), alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.set_attention_window(None)(TOKENS), free, atol=0, rtol=0)


def test_a_model_of_its_own_frequencies_and_default_base_is_the_model_as_it_was():
    model = decoder()
    before = model(TOKENS)
    torch.testing.assert_close(model.set_rope(rope_inv_freq(8, 10_000.0))(TOKENS), before, atol=0, rtol=0)
    assert (model.set_rope(rope_inv_freq(8, 10.0))(TOKENS) - before).abs().max() > 1e-3


def test_there_are_no_biases_and_a_table_of_them_for_t5_alone():
    for position in POSITIONS:
        names = [name for name, _ in decoder(position).named_parameters() if "bias" in name]
        assert names == (["bias.weight"] if position == "t5" else [])


@pytest.mark.parametrize("position", [position for position in POSITIONS if position != "rope"])
def test_frequencies_and_windows_are_refused_where_they_would_change_nothing(position):
    model = decoder(position)
    with pytest.raises(ValueError, match=f"position must be 'rope' to set frequencies: got a model with '{position}'"):
        model.set_rope(rope_inv_freq(8))
    if position in BIASES:
        with pytest.raises(ValueError, match=f"position must not be one of t5, alibi for a window: got '{position}'"):
            model.set_attention_window(4)


def test_a_learned_table_has_a_place_for_every_token_of_the_window_and_none_beyond():
    model = decoder("learned")
    assert model(torch.zeros(1, 32, dtype=torch.long)).shape == (1, 32, 8)
    with pytest.raises(ValueError, match="a learned table has a row for each of 32 positions: got 33 tokens"):
        model(torch.zeros(1, 33, dtype=torch.long))


@pytest.mark.parametrize("position", POSITIONS)
def test_of_one_token_repeated_only_codes_that_are_added_to_it_show_its_place(position):
    logits = decoder(position)(torch.ones(1, 12, dtype=torch.long))[0]
    differs = (logits[1:] - logits[:1]).abs().amax(1) > 1e-5
    assert differs.all() if position in ("sinusoidal", "learned") else not differs.any()


def test_so_many_first_tokens_keep_the_frequencies_of_training():
    model = decoder()
    before = model(TOKENS)
    after = model.set_rope(rope_inv_freq(8, 10.0), first_tokens=5)(TOKENS)
    torch.testing.assert_close(after[:, :5], before[:, :5], atol=0, rtol=0)
    assert (after[:, 5:] - before[:, 5:]).abs().amax((0, 2)).min() > 1e-5
