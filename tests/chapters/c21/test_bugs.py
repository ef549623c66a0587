"""The pieces of chapter 21: one bug each, which no ordinary input shows; one is clean. And the
check of an answer."""

import re
from dataclasses import replace

import pytest
import torch

from chapters import check
from chapters.c21_find_the_bug import bugs
from course_utils import progress

each_piece = pytest.mark.parametrize("bug", bugs.BUGS.values(), ids=list(bugs.BUGS))
WITH_A_BUG = [bug for bug in bugs.BUGS.values() if not bug.is_clean]
each_bug = pytest.mark.parametrize("bug", WITH_A_BUG, ids=lambda bug: bug.letter)
CLEAN = next(bug for bug in bugs.BUGS.values() if bug.is_clean)


def judged(letter, **arguments):
    """What the check says to an input with these arguments, the others ordinary."""
    return check_of(letter)(lambda ordinary: arguments, record=False)


def check_of(letter):
    return getattr(check, f"input_{letter.lower()}")


def shown_by_the_course(bug):
    return bug.tried(bug.solution(bug.ordinary()))


# The bugs themselves.


def test_there_are_fourteen_named_by_letters():
    assert "".join(bugs.BUGS) == "ABCDEFGHIJKLMN"
    with pytest.raises(ValueError, match="letter must be one of A, B"):
        bugs.bug("Z")


@each_bug
def test_the_course_s_input_shows_the_bug_clearly_and_no_ordinary_one_does(bug):
    (shown,) = shown_by_the_course(bug)
    assert bug.shows(shown)
    assert bug.difference(bug.broken, shown).ratio > 5
    for seed in range(30):
        assert bug.difference(bug.broken, bug.ordinary(seed)).ratio < 0.5, seed


@each_piece
def test_the_mended_piece_is_right_on_the_shown_on_ordinary_and_on_any_inputs(bug):
    ordinary, anything = (
        map(draw, range(count)) for draw, count in ((bug.ordinary, 30), (bug.anything, 20))
    )
    for arguments in (*shown_by_the_course(bug), *ordinary, *anything):
        assert bug.complaint(arguments) == ""
        assert bug.difference(bug.mended, arguments).ratio < 0.5, arguments


def test_one_piece_is_clean_and_each_mistake_put_into_it_needs_an_input_of_its_own():
    assert [bug for bug in bugs.BUGS.values() if bug.source == bug.mended_source] == [CLEAN]
    inputs = shown_by_the_course(CLEAN)
    assert CLEAN.unnoticed(inputs) == []
    assert CLEAN.unnoticed([CLEAN.ordinary(seed) for seed in range(10)]) == list(CLEAN.spoiled)
    assert all(
        CLEAN.unnoticed([given for given in inputs if given is not left_out]) for left_out in inputs
    )


@each_piece
def test_what_is_shown_has_the_source_and_the_limits_and_does_not_say_what_is_wrong(bug):
    text = bugs.show(bug.letter).text
    assert bug.source.strip() in text
    assert list(bug.arguments) == list(bug.spec)
    assert all(f"- `{name}`: {words} (ordinary: " in text for name, words in bug.arguments.items())
    assert text.count("<details>") == len(bug.hints) == 3
    assert not any(
        secret in text for secret in (bug.wrong, bug.seen, bug.because, *bug.innocent.values())
    )
    assert not re.search("bug|wrong|broken|mistake|fixme|todo|mended|should", bug.source.lower())


@each_piece
def test_what_is_said_of_a_right_line_is_said_of_one_line_that_the_mending_keeps(bug):
    for part in bug.innocent:
        (line,) = [line for line in bug.source.splitlines() if part in line]
        assert line in bug.mended_source.splitlines()


def test_a_difference_is_found_where_it_is_largest_and_nan_is_the_largest():
    bug = replace(bugs.bug("C"), right=lambda x: x)  # within 0.01 of the largest element
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    off = bug.difference(lambda x: x + torch.tensor([[0.0, 0.0], [-2.0, 1.0]]), {"x": x})
    assert (off.place, off.error, off.ratio) == ((1, 0), 2.0, pytest.approx(2 / (0.01 * 4)))
    assert off.message() == "output [1, 0] of the piece is 1, where 3 is right"
    assert bug.difference(lambda x: x * torch.tensor([1.0, float("nan")]), {"x": x}).ratio == float(
        "inf"
    )
    with pytest.raises(ValueError, match="not finite"):
        replace(bug, right=lambda x: x / 0).difference(lambda x: x, {"x": x})


# What an argument may be.

OPTIONS = {"rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("letter", "arguments", "words"),
    [
        (
            "A",
            {"x": torch.zeros(2, 8).bfloat16()},
            "weight and x must have the same C: got 16 and 8.",
        ),
        ("C", {"x": torch.zeros(65, 16)}, "N must be from 1 to 64: got 65 in x."),
        (
            "C",
            {"x": torch.zeros(4, 16).double()},
            "elements up to ±10,000: got a float64 tensor (4, 16)",
        ),
        ("A", {"y": torch.zeros(4, 16)}, "The arguments must be x, weight: got x, weight, y."),
        ("N", {"dy": torch.ones(256, 8)}, "must be of one dtype: got dy float32, x_hat bfloat16"),
        ("H", {"start": True}, "start must be a whole number, 0 to 8192: got True."),
        ("M", {"lengths": []}, "got []"),
        # Inputs that nobody could answer.
        (
            "F",
            {"weight": torch.zeros(8, 1)},
            "num_kv_heads must divide num_heads, and 2 · num_heads the rows",
        ),
        ("J", {"running_var": -torch.ones(4)}, "must not be negative"),
        (
            "K",
            {"rope_parameters": {}},
            "must have factor, original_max_position_embeddings, rope_theta, and perhaps",
        ),
        # 0.001 apart
        ("C", {"x": torch.tensor([[9_999.999, 10_000.0]])}, "a version without a bug is wrong too"),
    ],
)
def test_an_input_that_the_piece_does_not_take_is_refused_with_the_reason(letter, arguments, words):
    report = judged(letter, **arguments)
    assert (report.attempted, report.passed) == (True, False)
    assert words in report.message, report


# The check.


@each_bug
def test_the_check_passes_the_course_s_input_and_finds_one_that_is_no_larger(bug):
    report = check_of(bug.letter)(lambda ordinary: bug.solution(ordinary), record=False)
    assert report.passed, report
    assert "of the piece is" in report.remarks[0]
    arguments = report.evidence.arguments
    assert bug.shows(arguments)
    (given,) = shown_by_the_course(bug)
    assert all(
        v.numel() <= given[name].numel()
        for name, v in arguments.items()
        if isinstance(v, torch.Tensor)
    )
    assert report.evidence.expected in repr(report)


def test_a_length_that_is_set_to_the_window_shows_what_no_draw_of_fifty_does():
    bug = bugs.bug("M")
    ordinary = bug.ordinary()
    *earlier, _ = ordinary["lengths"]
    assert bug.shows(ordinary | {"lengths": [*earlier, ordinary["window"]]})
    assert not any(bug.shows(bug.anything(seed)) for seed in range(50))


@each_piece
def test_the_check_sends_ordinary_inputs_back(bug):
    report = check_of(bug.letter)(lambda ordinary: ordinary, record=False)
    assert report.message == "This is the ordinary input, and on it the piece is right."
    report = check_of(bug.letter)(lambda ordinary: bug.ordinary(1), record=False)
    assert not report.passed
    assert report.message.startswith("The piece is right on this input"), report


def verdict_of_clean(letter, inputs):
    return check_of(letter)(lambda ordinary: inputs, record=False)


@each_bug
def test_a_piece_with_a_bug_is_not_clean_whatever_was_tried(bug):
    report = verdict_of_clean(bug.letter, [{}, {}])
    assert report.message == "Not clean: some input shows a bug, and none of your 2 does."
    report = verdict_of_clean(bug.letter, [{}, bug.solution(bug.ordinary())])
    assert report.message == "Not clean: input 2 of your list shows a bug. Return it alone."


def test_the_clean_piece_is_called_clean_by_inputs_that_would_have_shown_its_mistakes():
    report = verdict_of_clean(CLEAN.letter, CLEAN.solution(CLEAN.ordinary()))
    assert report.passed
    assert all(what in report.remarks[0] for what in CLEAN.spoiled)
    short, small, far = CLEAN.solution(CLEAN.ordinary())
    report = verdict_of_clean(CLEAN.letter, [short, far])
    assert not report.passed
    assert report.message.endswith(
        "they would also pass a version that adds ε outside of the root."
    )
    assert not check_of(CLEAN.letter)(
        lambda ordinary: short, record=False
    ).passed  # an input alone shows nothing
    beyond = {"x": torch.tensor([[9_999.999, 10_000.0]])}
    for inputs, words in (
        ([], "list 1 to 10 inputs: got 0"),
        ([{}] * 11, "got 11"),
        ([{}, 3], "got int"),
        ([{"x": torch.zeros(2)}], "No input of this piece"),
        ([small, beyond], "Input 2 of your list says nothing. The piece is wrong here"),
    ):
        report = verdict_of_clean(CLEAN.letter, inputs)
        assert not report.passed
        assert words in report.message, report


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


# Inputs that come close, and words of what is said to them.
NEAR = [
    (
        "A",
        {name: torch.ones(4, 16)[:n].squeeze(0).half() for name, n in (("x", 4), ("weight", 1))},
        "which dtype is not",
    ),
    ("F", {"num_heads": 4, "num_kv_heads": 4}, "a key of its own"),
    ("F", {"num_heads": 16, "num_kv_heads": 4}, "what the first model had"),
    ("G", {"x": 5 * normal(16, 4), "training": True}, "what else can you ask the layer for"),
    ("G", {"dy": normal(16, 4), "training": False}, "the statistics are constants"),
    ("H", {"x": normal(500, 8)}, "In float32 every position"),
    ("H", {"x": normal(500, 8).half()}, "to 2,048"),
    ("H", {"start": 225}, "you stay below"),
    ("I", {"x": 1e-2 * normal(4, 16)}, "the dtype makes no difference"),
    ("I", {"x": normal(4, 16).half()}, "epsilon of 0.001"),
    ("I", {"x": torch.zeros(4, 16).bfloat16()}, "zeros come out as zeros"),
    ("B", {"rotary_dim": 2}, "exponent is zero"),
    ("B", {"base": 1e6}, "The whole head turns"),
    ("B", {"x": normal(1, 16), "rotary_dim": 4}, "position 0"),
    ("C", {"x": 1e-3 * normal(4, 8)}, "look the other way"),
    ("C", {"x": 1e3 * normal(4, 8)}, "How large is the mean beside the spread"),
    ("C", {"x": torch.full((4, 8), 3000.1)}, "Give the rows a spread"),
    ("J", {"x": normal(16, 4) + 7}, "what a training script does"),
    (
        "K",
        {"rope_parameters": {"full_attention": OPTIONS}, "layer_type": "full_attention"},
        "that is not the default",
    ),
    ("L", {"num_heads": 16}, "as many queries as keys"),
    ("D", {"step": 200}, "nothing to remember"),
    ("D", {"step": 18}, "what if it were not"),
    ("M", {"lengths": [4096]}, "nothing to remember"),
    ("M", {"lengths": [9000, 4095]}, "every kind of short"),
    ("M", {"lengths": [1000, 4096]}, "left over from the one before"),
    ("N", {"dy": normal(2000, 8).half(), "x_hat": normal(2000, 8).half()}, "or do they cancel"),
    ("N", {"dy": torch.ones(100, 8).half(), "x_hat": torch.ones(100, 8).half()}, "few rows"),
    (
        "N",
        {"dy": torch.ones(8192, 1), "x_hat": torch.ones(8192, 1)},
        "many rows, but a sum in float32",
    ),
    ("N", {"dy": torch.ones(100, 8), "x_hat": torch.ones(100, 8)}, "how many rows does it take"),
]


@pytest.mark.parametrize(("letter", "arguments", "words"), NEAR)
def test_an_input_that_comes_close_is_told_where_to_go(letter, arguments, words):
    report = judged(letter, **arguments)
    assert not report.passed
    assert words.lower() in report.message.lower(), report


def test_every_near_miss_is_tried():
    for bug in bugs.BUGS.values():
        tried = [words.lower() for letter, _, words in NEAR if letter == bug.letter]
        assert all(
            any(words in message.lower() for words in tried) for message in bug.near.values()
        ), bug.letter


def test_rounding_of_the_piece_without_a_bug_is_not_said_to_be_on_the_way():
    clean = next(letter for letter, bug in bugs.BUGS.items() if bug.is_clean)
    report = judged(clean, x=9990 + normal(4, 256))
    assert "in a right version too" in report.message
    assert "on the way" not in report.message


def test_a_growing_difference_is_said_to_be_on_the_way():
    report = judged("C", x=normal(4, 16) + 60)
    assert "You are on the way" in report.message
    assert re.search(r"off by [\d.]+ % of what is allowed", report.message)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda ordinary: torch.zeros(2, 2), 'as {"x": …}: got Tensor'),
        (lambda ordinary: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda ordinary: {"x": torch.zeros(2, 2).to_sparse()}, "No input of this piece"),
    ],
)
def test_whatever_the_function_does_is_a_finding(function, words):
    report = check.input_c(function, record=False)
    assert (report.attempted, report.passed) == (True, False)
    assert words in report.message, report


def test_the_course_s_input_keeps_no_learner_from_passing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    courses, mine = (lambda ordinary: {"start": 1000}), (lambda ordinary: {"start": 500})
    assert check.input_h.choose(lambda ordinary: None, courses) is courses
    assert "input_h" not in progress.passed()
    assert check.input_h.choose(mine, courses) is mine
    assert "input_h" in progress.passed()
    assert "Using your input_h from here." in capsys.readouterr().out
