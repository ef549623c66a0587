"""What is said of a wrong result that no known mistake gives: its relation to the right one."""

import pytest
import torch

from course_utils.check import Check, Exercise
from course_utils.check.probes import Call, Probe, integers


def cumulative(x):
    """The oracle: running sums along the last dimension."""
    return x.cumsum(-1)


PROBES = [
    Probe(f"rows of {length}", "values", Call({"x": integers(3, length, seed=seed)}, {"x": "RC"}))
    for seed, length in enumerate((4, 5, 7))
]


def said(function):
    report = Check(Exercise("cumulative", cumulative, PROBES))(function, record=False)
    assert not report.passed
    return report.message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: x, "it is x itself, unchanged."),
        (lambda x: -x.cumsum(-1), "it is minus what is expected."),
        (lambda x: 0 * x, "it is 0 everywhere."),
        (lambda x: x + torch.nan, "it is NaN everywhere."),
        (lambda x: 1.5 * x.cumsum(-1), "it is 1.5 times what is expected, everywhere."),
        (
            lambda x: x.cumsum(-1) / x.shape[-1],
            "on each input it is a multiple of what is expected: 0.25 times on rows of 4, 0.143 "
            "times on rows of 7.",
        ),
        (
            lambda x: x.cumsum(-1).flip(-1),
            "the right numbers, in reverse order along dimension -1.",
        ),
        (lambda x: x.cumsum(-1).roll(1, 0), "the right numbers, moved by 1 along dimension -2."),
        (lambda x: x.cumsum(-1)[[0, 2, 1]], "in another order along dimension -2."),
        (
            lambda x: torch.cat([x[:, :1] + 3, x.cumsum(-1)[:, 1:]], 1),
            "it is right in all but the first along dimension -1.",
        ),
        (
            lambda x: torch.cat([x.cumsum(-1)[:, :-1], x[:, -1:] + 30], 1),
            "it is right in all but the last along dimension -1.",
        ),
    ],
)
def test_what_a_wrong_result_is_is_told(wrong, words):
    assert said(wrong).endswith(words)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.cumsum(-1) + torch.arange(x.numel()).reshape(x.shape) % 3,
        lambda x: -x.cumsum(-1) if x.shape[-1] == 4 else x.cumsum(-1) + 2,
    ],
    ids=["no relation", "another on every input"],
)
def test_what_is_not_true_of_every_input_is_not_said(wrong):
    assert (
        said(wrong)
        == "The output is wrong, by none of the known mistakes. Seen first on: rows of 4."
    )


def test_of_a_wrong_shape_it_is_said_what_would_be_right():
    assert said(lambda x: x.cumsum(-1).unsqueeze(0)).endswith("Its numbers are right.")
    parts = lambda x: torch.stack([x.cumsum(-1) * 0.25, x.cumsum(-1) * 0.75])  # noqa: E731
    assert said(parts).endswith(
        "Summed over its first 1 dimensions it would be right: a sum is missing."
    )


def test_what_is_true_in_the_first_wrong_stage_alone_is_said_of_that():
    """And a constant is one on the probes that pass, too."""
    later = Probe("rows of 9", "long rows", Call({"x": integers(3, 9, seed=3)}, {"x": "RC"}))
    report_on = Check(Exercise("cumulative", cumulative, [*PROBES, later]))
    for wrong, words in (
        (lambda x: 2 * x.cumsum(-1) + x.shape[-1] // 9, "on the probe “rows of 4” it is 2 times"),
        (lambda x: x.cumsum(-1) * (x.shape[-1] == 9), "none of the known mistakes"),
    ):
        assert words in report_on(wrong, record=False).message


def test_the_input_that_is_shown_has_the_factor_that_is_said():
    """A smaller one may have another."""
    report_on = Check(Exercise("cumulative", cumulative, PROBES[:1]))
    report = report_on(lambda x: x.cumsum(-1) / x.shape[-1], record=False)
    assert "it is 0.25 times" in report.message
    assert report.evidence.arguments["x"].shape[-1] == 4
