"""The long-context experiment: a task that is what it says, models that can be made again, sound
checkpoints."""

import math

import pytest
import torch
import torch.nn.functional as F

from chapters.c16_longer_context import checkpoints, load, long_context, longrope_search
from chapters.c16_longer_context.checkpoints import CheckpointError
from chapters.c16_longer_context.hybrid_context import DESIGNS, LOCAL
from chapters.c16_longer_context.long_context import (
    METHODS,
    SEEDS,
    apply_method,
    new_model,
    pretrained,
)
from chapters.c16_longer_context.longrope import Candidate
from chapters.c16_longer_context.reading import by_seed
from chapters.c16_longer_context.tags import TASK
from course_utils import generator
from course_utils.models import Decoder


@pytest.mark.parametrize("length", [48, 128, 700])
def test_every_question_has_its_needle_at_the_stated_distance_and_its_answer_after_it(length):
    tokens, distance = TASK.draw(16, length, generator(0))
    assert (distance > 0).sum(1).tolist() == [TASK.questions] * 16
    for b, t in distance.nonzero().tolist():
        name = tokens[b, t] - TASK.first_question
        needle = tokens[b, t - distance[b, t]] - TASK.first_needle
        assert 0 <= name < TASK.names
        assert needle // TASK.values == name
        assert needle % TASK.values == tokens[b, t + 1] - TASK.first_answer


def test_whoever_knows_the_rule_reaches_the_local_optimum_and_whoever_knows_nothing_is_at_chance():
    streams = TASK.draw(64, 512, generator(0))
    right = 1 - TASK.noise + TASK.noise / TASK.fillers
    probability = torch.full((64, 512, TASK.vocabulary), 1e-9)
    probability[..., : TASK.fillers] = TASK.noise / TASK.fillers
    three_back = F.pad(streams.tokens, (TASK.lag - 1, 0))[:, :512]  # of the *next* token
    probability.scatter_(2, TASK.rule[three_back][..., None], right)
    assert TASK.score(probability.log(), streams).local_loss == pytest.approx(
        TASK.local_optimum, abs=0.02
    )
    assert TASK.local_optimum == pytest.approx(0.787, abs=5e-4)

    guess = TASK.score(torch.zeros(64, 512, TASK.vocabulary), streams)
    assert guess.local_loss == pytest.approx(math.log(TASK.fillers), abs=1e-5)
    assert guess.recall == pytest.approx(1 / TASK.values, abs=0.05)


def test_an_oracle_that_looks_needles_up_recalls_all_near_and_far():
    streams = TASK.draw(16, 512, generator(0))
    logits = torch.zeros(16, 512, TASK.vocabulary)
    for b, t in streams.distance.nonzero().tolist():
        needle = streams.tokens[b, t - streams.distance[b, t]] - TASK.first_needle
        logits[b, t, TASK.first_answer + needle % TASK.values] = 9.0
    score = TASK.score(logits, streams)
    assert (score.recall, score.near, score.far, sum(score.asked)) == (
        1.0,
        1.0,
        1.0,
        16 * TASK.questions,
    )
    assert score.answered == score.asked
    windows_back = streams.distance[streams.distance > 0] / TASK.window
    ranges = ((0, 1), (1, 2), (2, 4))
    assert score.asked == tuple(
        int(((windows_back > low) & (windows_back <= high)).sum()) for low, high in ranges
    )


@pytest.mark.parametrize("method", METHODS)
def test_at_the_trained_window_a_method_without_a_fixed_factor_changes_nothing(method):
    model = new_model(0)
    before = model.inv_freq.clone()
    apply_method(model, method, TASK.window)
    unchanged = torch.equal(model.inv_freq, before) and model.attention_factor == 1.0
    assert unchanged == (
        method not in ("ABF ×50", "PI, factor 8", "NTK, factor 8", "YaRN, factor 8")
    )


def test_a_layer_without_positions_is_neither_rotated_nor_limited_by_a_window():
    tokens = TASK.draw(2, 64, generator(0)).tokens
    bare, rotated, half = (
        new_model(0, nope_layers=(0, 1)),
        new_model(0),
        new_model(0, nope_layers=(1,)),
    )
    none = Decoder(TASK.vocabulary, position="none", window=TASK.window, generator=generator(0))
    assert torch.equal(bare.set_attention_window(8)(tokens), none(tokens))
    assert not torch.allclose(half(tokens), rotated(tokens), atol=1e-3)
    for model in (rotated, half):
        model.blocks[1].out.weight.data.zero_()  # without the second layer's attention they are one
    assert torch.equal(half(tokens), rotated(tokens))


def test_the_window_without_the_other_half_limits_the_first_layer_and_leaves_the_second_alone():
    tokens = TASK.draw(2, 64, generator(0)).tokens
    window, both, rope = DESIGNS["RoPE, window"](0), DESIGNS["hybrid, window"](0), new_model(0)
    assert torch.equal(window(tokens[:, :LOCAL]), rope(tokens[:, :LOCAL]))
    assert not torch.allclose(window(tokens), rope(tokens), atol=1e-3)
    for model in (window, both):
        model.blocks[1].out.weight.data.zero_()  # without the second layer's attention they are one
    assert torch.equal(window(tokens), both(tokens))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_searched_factors_stretch_beyond_the_window_only_and_are_those_that_the_search_tested(
    seed,
):
    methods, model = long_context.methods_of(seed), new_model(seed)
    trained = model.inv_freq.clone()
    within = apply_method(model, "LongRoPE", TASK.window, methods)
    assert torch.equal(within.inv_freq, trained)
    assert within.attention_factor > 1

    found = next(iter(load("longrope-search").select(objective="all tokens", seed=seed)))
    for multiple in (2, 8, 16):
        beyond = apply_method(new_model(seed), "LongRoPE", multiple * TASK.window, methods)
        candidate = Candidate(
            torch.tensor(found["factors"], dtype=torch.float64), found["first_tokens"]
        )
        searched = longrope_search.apply_candidate(new_model(seed), candidate)
        # float32 against float64
        torch.testing.assert_close(beyond.inv_freq, searched.inv_freq, rtol=1e-6, atol=0)
        assert beyond.attention_factor == searched.attention_factor


@pytest.mark.parametrize("seed", SEEDS)
def test_the_record_of_the_shipped_models_is_what_they_give_today(seed):
    recorded = next(iter(load("long-context").select(method="LongRoPE", multiple=2, seed=seed)))
    settings = {name: recorded[name] for name in ("method", "multiple", "seed", "streams")}
    today = long_context.ZERO_SHOT.run(settings, lambda fraction: None)
    assert today["local_loss"] == pytest.approx(recorded["local_loss"], abs=0.02)
    assert today["recall"] == pytest.approx(recorded["recall"], abs=0.02)


def test_the_record_of_the_temperature_is_what_the_shipped_models_give_today():
    recorded = next(iter(load("long-context-temperature").select(method="NTK", seed=2)))
    settings = {name: recorded[name] for name in ("method", "seed", "streams")}
    today = long_context.TEMPERATURE.run(settings, lambda fraction: None)
    assert today["local_loss"] == pytest.approx(recorded["local_loss"], abs=0.02)
    assert today["recall"] == pytest.approx(recorded["recall"], abs=0.02)


def test_checkpoints_that_are_damaged_missing_or_of_another_model_are_told_apart(tmp_path):
    cut, foreign = tmp_path / "seed-0.safetensors", tmp_path / "foreign.safetensors"
    cut.write_bytes(long_context.checkpoint_path(0).read_bytes()[:1000])
    with pytest.raises(
        CheckpointError, match=r"seed-0.*is damaged.*`python -m .*long_context` makes all"
    ):
        pretrained(0, cut)
    with pytest.raises(CheckpointError, match=r"seed-7\.safetensors is missing"):
        pretrained(7)
    with pytest.raises(CheckpointError, match="was made with seed 0, and 1 is needed"):
        pretrained(1, long_context.checkpoint_path(0))
    checkpoints.save(torch.nn.Linear(2, 2), foreign, long_context.facts(0))
    with pytest.raises(CheckpointError, match="holds another model: "):
        pretrained(0, foreign)


def test_the_two_numbers_of_an_answer_may_come_in_a_list():
    in_a_list, in_a_tuple = (by_seed({1: [kind((2.0, 0.5))]}) for kind in (list, tuple))
    assert str(in_a_list) == str(in_a_tuple)
