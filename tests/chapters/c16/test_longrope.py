"""LongRoPE's search: it finds what can be found, and keeps to its rules, its budget and its
seed."""

import math

import pytest
import torch

from chapters.c16_longer_context import longrope_search
from chapters.c16_longer_context.long_context import BASE, new_model
from chapters.c16_longer_context.longrope import Candidate, search
from course_utils.rope import rope_inv_freq

PAIRS = 8
TARGET = torch.linspace(1, 4, PAIRS, dtype=torch.float64)


def distance(candidate):
    return (candidate.factors - TARGET).square().sum().item() + abs(candidate.first_tokens - 4)


def start(value=2.0):
    return Candidate(torch.full((PAIRS,), value, dtype=torch.float64))


def test_it_comes_close_to_a_target_that_none_of_its_starts_knows():
    found = search(distance, [start()], upper=8.0, budget=600)
    assert found.value < 0.05 * distance(start())
    assert found.best.first_tokens == 4
    assert found.history[-1] == (600, found.value)


def test_every_candidate_rises_within_its_bounds_and_no_candidate_is_tried_twice():
    tried = []
    search(
        lambda candidate: tried.append(candidate) or distance(candidate),
        [start()],
        upper=8.0,
        budget=300,
    )
    for candidate in tried:
        assert 1 <= candidate.factors.min() <= candidate.factors.max() <= 8
        assert (candidate.factors.diff() >= 0).all()
    assert (
        len({(*candidate.factors.tolist(), candidate.first_tokens) for candidate in tried})
        == len(tried)
        == 300
    )


def test_the_best_start_is_never_lost_and_the_curve_never_rises():
    good = Candidate(TARGET, 4)
    assert search(distance, [start(), good], upper=8.0, budget=50).best is good
    tried = []
    found = search(
        lambda candidate: tried.append(distance(candidate)) or tried[-1],
        [start()],
        upper=8.0,
        budget=200,
    )
    better = [
        (n, value)
        for n, value in enumerate(tried, 1)
        if value < min(tried[: n - 1], default=math.inf)
    ]
    assert found.history == [*better, (200, min(tried))]


def test_one_seed_one_search():
    runs = [search(distance, [start()], upper=8.0, budget=60, seed=seed) for seed in (1, 1, 2)]
    assert runs[0].history == runs[1].history != runs[2].history


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": []}, "starts must be"),
        ({"starts": [start(9.0)]}, "starts must rise from at least 1 to at most upper=8"),
        (
            {"starts": [Candidate(TARGET - 0.5)]},
            "starts must rise from at least 1 to at most upper=8",
        ),
        ({"starts": [Candidate(torch.tensor([1.0, 3.0, 2.0, 4.0]).double())]}, "starts must rise"),
        ({"starts": [start(), Candidate(TARGET[:4])]}, "all with as many factors"),
        ({"starts": [start(1.0)], "upper": 1.0}, "upper must be above 1"),
        ({"budget": 0}, "budget"),
    ],
)
def test_impossible_searches_are_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        search(distance, **{"starts": [start()], "upper": 8.0, **change})


def test_first_tokens_keep_the_angles_of_training_and_the_others_are_stretched():
    model = new_model(0)
    original = rope_inv_freq(model.head_dim, BASE)
    longrope_search.apply_candidate(
        model, Candidate(torch.full((16,), 8.0, dtype=torch.float64), 4)
    )
    cos, _ = model._cos_sin(torch.arange(8))
    angles = torch.arange(8, dtype=torch.float64)[:, None] * original
    angles[4:] /= 8
    torch.testing.assert_close(
        cos.double(), angles.cos() * model.attention_factor, atol=1e-7, rtol=0
    )


def test_from_its_critical_pair_on_a_candidate_stretches_by_the_whole_factor():
    candidate = longrope_search.from_critical_pair(10, 16)
    assert candidate.factors[0] == 1
    assert (candidate.factors[10:] == longrope_search.FACTOR).all()
    assert (candidate.factors.diff()[:10] > 0).all()
    assert (longrope_search.from_critical_pair(0, 16).factors == longrope_search.FACTOR).all()


def test_the_objective_asks_at_least_five_hundred_questions():
    streams = longrope_search.search_streams()
    assert int((streams.distance > 0).sum()) >= 500
