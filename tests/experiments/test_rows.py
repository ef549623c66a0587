"""Rows: what is read off them, the best rate of an arm, and differences seed by seed."""

import pytest
import torch

from course_utils.experiments import Difference, Rows, at_best, paired_difference


def test_rows_with_lists_unfold_into_one_row_a_place():
    rows = Rows([{"seed": 0, "steps": [0, 10], "loss": [2.0, 1.0]}]).unfold("steps", "loss")
    assert list(rows) == [
        {"seed": 0, "steps": 0, "loss": 2.0},
        {"seed": 0, "steps": 10, "loss": 1.0},
    ]


def test_every_arm_is_judged_by_its_own_best_rate_chosen_on_another_number():
    rows = Rows(
        [
            {"arm": arm, "lr": lr, "seed": seed, "validation": score + seed, "test": -score}
            for arm, lr, score in (("a", 1, 0.0), ("a", 2, 5.0), ("b", 1, 9.0), ("b", 2, 4.0))
            for seed in (0, 1)
        ]
    )
    best = at_best(rows, "lr", by=("arm",), value="validation")
    assert [(row["arm"], row["lr"], row["seed"]) for row in best] == [
        ("a", 2, 0),
        ("a", 2, 1),
        ("b", 1, 0),
        ("b", 1, 1),
    ]
    lowest = at_best(rows, "lr", by=("arm",), value="validation", lowest=True)
    assert {(row["arm"], row["lr"]) for row in lowest} == {("a", 1), ("b", 2)}


def test_of_rates_that_are_level_the_middle_one_is_taken():
    right = {
        "a": (706, 707, 707, 707, 679),
        "b": (705, 704, 703, 699, 447),
        "c": (683, 703, 700, 705, 686),
    }
    rows = Rows(
        {"arm": name, "lr": lr, "seed": 0, "validation": images / 720}
        for name, counts in right.items()
        for lr, images in zip((5, 4, 3, 2, 1), counts[::-1], strict=True)
    )
    level = at_best(rows, "lr", by=("arm",), value="validation", level=3 / 720)
    assert [row["lr"] for row in level] == [2, 2, 2]  # of 1 to 4, of 1 to 3, of 2 and 4
    exact = at_best(rows, "lr", by=("arm",), value="validation", level=0.0)
    assert [row["lr"] for row in exact] == [3, 1, 4]


def arm(values, start=0):
    return Rows([{"seed": seed, "loss": value} for seed, value in enumerate(values, start)])


def test_a_difference_is_taken_seed_by_seed_with_its_own_standard_error():
    # both arms spread by 100, and differ by 1, 2 and 3: s = 1, over the root of 3
    one, other = arm([1.0, 102.0, 203.0]), arm([0.0, 100.0, 200.0])
    found = paired_difference(one, Rows(reversed(other)), "loss")
    assert (found.mean, found.values) == (2.0, (1.0, 2.0, 3.0))
    assert found.error == pytest.approx(1 / 3**0.5)
    assert found.t == pytest.approx(2 * 3**0.5)
    assert not found.decided  # 3.46 of 4.30
    assert repr(found) == "2 ± 0.6: t = 3.5 of 4.3, undecided"
    assert paired_difference(other, one, "loss").mean == -2.0
    assert Difference.of([1.0, 2.0, 3.0, 2.0]).decided  # 4.9 of 3.2


@pytest.mark.parametrize(
    ("values", "decided"), [([1.0], False), ([1.0, 1.0], True), ([0.0, 0.0], False)]
)
def test_one_seed_decides_nothing_and_equal_differences_all(values, decided):
    assert Difference.of(values).decided is decided


def test_runs_are_paired_in_several_fields_and_refused_where_they_are_no_pairs():
    one, other = (
        Rows([{"batch": b, **row} for b in (16, 64) for row in arm(v)])
        for v in ([1.0, 2.0], [0.0, 0.0])
    )
    assert paired_difference(one, other, "loss", by=("batch", "seed")).values == (
        1.0,
        2.0,
        1.0,
        2.0,
    )
    with pytest.raises(ValueError, match="one must have one run for each seed: got 4 for 2"):
        paired_difference(one, other, "loss")
    with pytest.raises(ValueError, match="must have the same seed"):
        paired_difference(arm([1.0, 2.0]), arm([1.0, 2.0], start=1), "loss")
    with pytest.raises(ValueError, match="must have the same seed"):
        paired_difference(Rows([]), Rows([]), "loss")


@pytest.mark.parametrize("seeds", [2, 3, 10, 11, 31])
def test_chance_alone_is_called_a_difference_once_in_twenty_times(seeds):
    rng = torch.Generator().manual_seed(seeds)
    draws = torch.randn(200_000, seeds, generator=rng, dtype=torch.float64)
    t = draws.mean(1).abs() / (draws.std(1) / seeds**0.5)
    needed = Difference.of([float(k) for k in range(seeds)]).t_needed
    # four standard errors of the share
    assert (t > needed).double().mean().item() == pytest.approx(0.05, abs=2e-3)
