"""The pieces of chapter 17 are wrong in one way that ordinary inputs do not show, and their check accepts no other."""

import re
import time
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from course_utils import bugs, check
from course_utils.book import progress
from course_utils.bugs.takes import Flag, Lengths, Numbers, Options, Real, Whole, Word

PIECES = [pytest.param(piece, id=letter) for letter, piece in bugs.PIECES.items()]
each_piece = pytest.mark.parametrize("piece", PIECES)


def check_of(piece):
    return getattr(check, f"input_{piece.letter.lower()}")


def judged(letter, **arguments):
    """What the check says to an input with these arguments, the others ordinary."""
    return check_of(bugs.piece(letter))(lambda ordinary: arguments, record=False)


# The pieces themselves.


def test_there_are_fourteen_named_by_letters():
    assert "".join(bugs.PIECES) == "ABCDEFGHIJKLMN"
    with pytest.raises(ValueError, match="letter must be one of A, B"):
        bugs.piece("Z")


@each_piece
def test_the_course_s_input_is_valid_and_shows_the_bug_clearly(piece):
    arguments = piece.ordinary() | piece.solution(piece.ordinary())
    assert piece.complaint(arguments) == ""
    assert piece.difference(piece.broken, arguments).ratio > 5
    assert piece.shows(arguments)


@each_piece
def test_no_ordinary_input_shows_the_bug(piece):
    for seed in range(30):
        arguments = piece.ordinary(seed)
        assert piece.complaint(arguments) == ""
        assert piece.difference(piece.broken, arguments).ratio < 0.5, seed


@each_piece
def test_the_mended_piece_is_right_on_the_shown_on_ordinary_and_on_any_inputs(piece):
    shown = piece.ordinary() | piece.solution(piece.ordinary())
    inputs = [shown, *(piece.ordinary(seed) for seed in range(10)), *(piece.anything(seed) for seed in range(20))]
    for arguments in inputs:
        assert piece.complaint(arguments) == ""
        assert piece.difference(piece.mended, arguments).ratio < 0.5, arguments


@each_piece
def test_what_is_drawn_depends_on_the_seed_alone(piece):
    for draw in (piece.ordinary, piece.anything):
        assert repr(draw(3)) == repr(draw(3))
        assert any(repr(draw(3)) != repr(draw(seed)) for seed in (4, 5, 6))


# Of fifty inputs of any size, dtype and setting, how many show the bug: a random test that knows the contract.
SHOWN_BY_ANYTHING = {"A": 0, "B": 0, "K": 0, "D": 18, "F": 21, "I": 39, "J": 49, "M": 50}


@pytest.mark.parametrize(("letter", "count"), SHOWN_BY_ANYTHING.items())
def test_inputs_of_any_size_and_setting_show_some_bugs_and_never_those_of_the_numbers_themselves(letter, count):
    piece = bugs.piece(letter)
    found = sum(piece.shows(piece.anything(seed)) for seed in range(50))
    assert found == count if count in (0, 50) else abs(found - count) <= 3


def test_the_epsilon_of_piece_c_survives_the_samples_of_pytorch():
    from torch.testing._internal.common_methods_invocations import op_db

    rms_norm = next(op for op in op_db if op.name == "nn.functional.rms_norm")
    samples = 0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for sample in rms_norm.reference_inputs("cpu", dtype, requires_grad=False):
                shape, eps = sample.args[0], sample.kwargs.get("eps")
                x = sample.input.reshape(-1, torch.Size(shape).numel())
                y = bugs.piece("C").broken(x, eps).reshape(sample.input.shape)
                torch.testing.assert_close(y, F.rms_norm(sample.input, shape, None, eps))
                samples += 1
    assert samples >= 18


@each_piece
def test_the_source_does_not_say_what_is_wrong(piece):
    words = set(re.findall(r"[a-z]+", piece.source.lower()))
    assert not words & {"bug", "wrong", "broken", "mistake", "fixme", "todo", "mended", "should"}
    assert piece.source.startswith('"""')
    assert max(map(len, piece.source.splitlines())) <= 100


@each_piece
def test_what_is_shown_has_the_source_and_the_limits_and_keeps_the_secret(piece):
    shown = bugs.show(piece.letter)
    assert piece.source.strip() in shown.text
    assert all(f"- `{name}`: {take.says()} (ordinary: " in shown.text for name, take in piece.takes.items())
    assert shown.text.count("<details>") == len(piece.hints) == 3
    assert piece.wrong not in shown.text
    assert piece.seen not in shown.text
    assert piece.because not in shown.text
    assert piece.mend[1] not in shown.text or piece.mend[1] in piece.source
    assert repr(shown) == shown._repr_markdown_() == shown.text


@each_piece
def test_what_is_revealed_is_folded_and_has_the_mended_line_and_the_numbers(piece):
    text = bugs.reveal(piece.letter).text
    assert text.startswith("<details><summary>")
    assert text.endswith("</details>")
    assert text.count("<details>") == 1
    changed = [line for line in text.splitlines() if line[:1] in "+-" and line]
    gone, come = ({line[1:] for line in changed if line[0] == sign} for sign in "-+")
    assert gone == set(piece.source.splitlines()) - set(piece.mended_source.splitlines())
    assert come == set(piece.mended_source.splitlines()) - set(piece.source.splitlines())
    assert "nan" not in text.split("On the course's input,")[1].split("is right")[0].lower()
    assert piece.wrong in text
    assert piece.seen in text
    assert piece.because in text


def test_a_mend_that_is_not_in_the_source_exactly_once_is_refused():
    for text, times in (("no such line", 0), ("mean", 5)):
        piece = replace(bugs.piece("A"), mend=(text, ""))
        with pytest.raises(ValueError, match=f"once in the source of piece A: got it {times} times"):
            _ = piece.mended


def test_a_difference_is_found_where_it_is_largest_and_nan_is_the_largest():
    piece = replace(bugs.piece("A"), right=lambda x: x, tolerance=0.1)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    off = piece.difference(lambda x: x + torch.tensor([[0.0, 0.0], [-2.0, 1.0]]), {"x": x})
    assert (off.place, off.error, off.ratio) == ((1, 0), 2.0, pytest.approx(2 / (0.1 * 4)))
    assert off.told() == "output [1, 0] of the piece is 1, where 3 is right"
    assert piece.difference(lambda x: x / torch.tensor([[1.0, 1.0], [1.0, float("nan")]]), {"x": x}).ratio == float(
        "inf"
    )
    with pytest.raises(ValueError, match="not finite"):
        replace(piece, right=lambda x: x / 0).difference(lambda x: x, {"x": x})


def test_rounding_noise_beside_a_zero_is_told_as_zero():
    piece = replace(bugs.piece("A"), right=lambda x: x * 1e-17)
    told = piece.difference(lambda x: x, {"x": torch.ones(1, 2)}).told()
    assert told == "output [0, 0] of the piece is 1, where 0 is right"


# What an argument may be.


@pytest.mark.parametrize(
    ("take", "good", "bad"),
    [
        (Flag(), [True, False], [1, "yes", None]),
        (Whole(2, 5), [2, 5], [1, 6, True, 3.0, torch.tensor(3)]),
        (Whole(1, 8, (1, 2, 4, 8)), [1, 8], [3, 0]),
        (Real(0, 1), [0, 0.5, 1], [-0.1, 1.1, float("nan"), True, "0.5"]),
        (Lengths(2, 9), [[1], [9, 3]], [[], [1, 2, 3], [10], [0], [1.0], 5, "12"]),
        (Options("a dictionary", lambda rng: {}), [{}, {"a": 1}], [None, [], "a"]),
        (Word(("one", "two")), ["one"], ["three", None, []]),
        (Numbers("NC", 2.0), [torch.zeros(1, 2), -2 * torch.ones(1, 1)], [None, 3, [[1.0]], torch.zeros(2)]),
        (Numbers("N", 2.0), [torch.zeros(0)], [torch.full((1,), 2.5), torch.full((1,), float("nan"))]),
        (Numbers("N", 2.0, (torch.bfloat16,)), [torch.zeros(1).bfloat16()], [torch.zeros(1), torch.ones(1).long()]),
        (Numbers("N", 2.0, optional=True), [None, torch.zeros(1)], [0, torch.full((1,), float("inf"))]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_an_argument_is_taken_or_the_complaint_says_what_was_given(take, good, bad):
    assert [take.complaint(value) for value in good] == [""] * len(good)
    assert all(take.complaint(value) for value in bad)
    assert take.says()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": torch.zeros(2, 8)}, "weight and x must have the same C: got 16 and 8."),
        ({"x": torch.zeros(65, 16)}, "N must be from 1 to 64: got 65 in x."),
        ({"x": torch.full((4, 16), 2e3)}, "elements up to ±1,000: got an element of 2,000."),
        ({"x": torch.full((4, 16), float("nan"))}, "got NaN or infinity among its elements."),
        ({"x": torch.zeros(4, 16).double()}, "x must be a float32 tensor (N, C), elements up to ±1,000: got float64."),
        ({"y": torch.zeros(4, 16)}, "The arguments must be x, weight, bias: got x, weight, bias, y."),
    ],
)
def test_an_input_that_the_piece_does_not_take_is_refused_with_the_reason(arguments, words):
    report = judged("B", **arguments)
    assert report.attempted
    assert not report.passed
    assert report.message.startswith("No input of this piece.")
    assert words in report.message


def test_two_tensors_of_different_dtypes_are_refused():
    report = judged("N", dy=torch.ones(256, 8))
    assert "must be of one dtype: got dy float32, x_hat bfloat16" in report.message


# The check.


@each_piece
def test_the_check_passes_the_course_s_input_and_finds_one_that_is_no_larger(piece):
    report = check_of(piece)(lambda ordinary: piece.solution(ordinary), record=False)
    assert report.passed, report
    assert "of the piece is" in report.remarks[0]
    arguments = report.evidence.arguments
    assert piece.complaint(arguments) == ""
    assert piece.shows(arguments)
    given = piece.ordinary() | piece.solution(piece.ordinary())
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            assert value.numel() <= given[name].numel()
    assert report.evidence.expected != report.evidence.got
    assert report.evidence.expected in repr(report)
    assert report.evidence.expected in report._repr_html_()


@each_piece
def test_the_check_sends_ordinary_inputs_back(piece):
    report = check_of(piece)(lambda ordinary: ordinary, record=False)
    assert report.attempted
    assert not report.passed
    assert report.message == "This is the ordinary input, and on it the piece is right."
    for seed in (1, 2, 3):
        report = check_of(piece)(lambda ordinary, seed=seed: piece.ordinary(seed), record=False)
        assert not report.passed
        assert report.message.startswith("The piece is right on this input"), report


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


OPTIONS = {"rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 4096}

# Inputs that come close, and words of what is said to them.
NEAR = [
    ("A", {"x": 1e-3 * normal(4, 8)}, "look the other way"),
    ("A", {"x": 1e3 * normal(4, 8)}, "What about their mean"),
    ("B", {"x": 0.1 * normal(4, 16)}, "go on that way"),
    ("B", {"x": 9 * normal(4, 16)}, "go the other way"),
    ("C", {"x": 1e-2 * normal(4, 16)}, "the dtype makes no difference"),
    ("C", {"x": normal(4, 16).half()}, "epsilon of 0.001"),
    ("C", {"x": torch.zeros(4, 16).bfloat16()}, "zeros come out as zeros"),
    ("C", {"x": torch.zeros(4, 16)}, "zeros come out as zeros"),
    ("D", {"x": 5 * normal(16, 4)}, "You left `dy` as it was"),
    ("E", {"batches": normal(4, 200, 3)}, "the closer its two variances"),
    ("E", {"batches": normal(4, 2, 3), "momentum": 0.0}, "no momentum"),
    ("F", {"x": normal(16, 4) + 7}, "say the same"),
    ("G", {"a": torch.zeros(100, 3), "b": torch.zeros(50, 3)}, "What else can they differ in"),
    ("H", {"x": normal(500, 8)}, "In float32 every position"),
    ("H", {"x": normal(500, 8).half()}, "to 2,048"),
    ("H", {"start": 225}, "you stay below"),
    ("I", {"rotary_dim": 2}, "exponent is zero"),
    ("I", {"base": 1e6}, "The whole head turns"),
    ("I", {"x": normal(1, 16), "rotary_dim": 4}, "position 0"),
    ("J", {"num_heads": 16}, "as many queries as keys"),
    ("K", {"lengths": [4096]}, "nothing to remember"),
    ("K", {"lengths": [9000, 4095]}, "every kind of short"),
    ("K", {"lengths": [1000, 4096]}, "left over from the one before"),
    ("M", {"x": normal(3, 320)}, "fill whole blocks"),
    ("N", {"dy": normal(2000, 8).half(), "x_hat": normal(2000, 8).half()}, "or do they cancel"),
    ("N", {"dy": torch.ones(100, 8).half(), "x_hat": torch.ones(100, 8).half()}, "few rows"),
    ("N", {"dy": torch.ones(8192, 1), "x_hat": torch.ones(8192, 1)}, "many rows, but a sum in float32"),
    ("N", {"dy": torch.ones(100, 8), "x_hat": torch.ones(100, 8)}, "how many rows does it take"),
]


@pytest.mark.parametrize(
    ("letter", "arguments", "words"), NEAR, ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_input_that_comes_close_is_told_where_to_go(letter, arguments, words):
    report = judged(letter, **arguments)
    assert not report.passed
    assert words.lower() in report.message.lower(), report


def test_the_turns_that_piece_i_tells_of_are_those_of_the_course_s_input():
    piece = bugs.piece("I")
    arguments = piece.ordinary() | piece.solution(piece.ordinary())
    head, rotary, base = arguments["x"].shape[1], arguments["rotary_dim"], arguments["base"]
    right, turns = (base ** (-2 / size) for size in (rotary, head))
    assert f"a base of {base:,.0f}" in piece.wrong
    assert f"should turn by {right:.1g} a token, and turns by {turns:.2g}" in piece.wrong


def test_a_dictionary_for_each_layer_type_without_the_option_is_told_so():
    report = judged("L", rope_parameters={"full_attention": OPTIONS}, layer_type="full_attention")
    assert "an option in it that is not the default" in report.message


def test_every_near_miss_is_tried():
    told = {words for _, _, words in NEAR}
    for piece in bugs.PIECES.values():
        for near in piece.near:
            tried = any(words.lower() in near.say.lower() for words in told)
            assert tried or "an option in it that is not the default" in near.say, near.say


def test_a_growing_difference_is_said_to_be_on_the_way():
    report = judged("A", x=normal(4, 16) + 60)
    assert not report.passed
    assert "You are on the way" in report.message
    assert re.search(r"off by [\d.]+ % of what is allowed", report.message)


def test_an_input_on_which_the_mended_piece_is_wrong_too_is_not_accepted():
    report = judged("A", x=torch.tensor([[99_999.98, 100_000.0]]))  # neighbours in float32 are 0.008 apart there
    assert not report.passed
    assert "with its bug mended it is wrong too" in report.message


def test_an_input_without_a_right_answer_is_not_accepted():
    report = judged("J", query_length=5, key_length=3)
    assert not report.passed
    assert "no right answer" in report.message
    assert "query_length=5, key_length=3" in report.message
    assert "must not be negative" in judged("F", running_var=-torch.ones(4)).message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "must have factor, original_max_position_embeddings, rope_theta, and perhaps"),
        ({**OPTIONS, "mscale": 1.0}, "got factor, mscale"),
        ({**OPTIONS, "truncate": "no"}, "truncate must be true or false"),
        ({**OPTIONS, "truncate": None}, "got null in the dictionary for sliding_attention"),
        ({"sliding_attention": 3}, "the dictionary for sliding_attention must have"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_not_accepted(options, words):
    report = judged("L", rope_parameters=options)
    assert not report.passed
    assert words in report.message


def test_an_input_on_which_the_piece_raises_is_not_accepted():
    def refuses(**arguments):
        raise RuntimeError("no such layer")

    piece = replace(bugs.piece("M"))
    piece.__dict__["broken"] = refuses
    report = replace(check.input_m, piece=piece)(lambda ordinary: {"x": torch.ones(1, 3)}, record=False)
    assert not report.passed
    assert "does not answer at all (RuntimeError: no such layer" in report.message


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda ordinary: print(ordinary), "got NoneType"),
        (lambda ordinary: torch.zeros(2, 2), 'as {"x": …}: got Tensor'),
        (lambda ordinary: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: {"x": torch.ones(2, 2)}, "It is called as input_a(ordinary)"),
        (3, "This is not a function"),
        (lambda ordinary: {"x": torch.zeros(2, 2).to_sparse()}, "No input of this piece"),
        (lambda ordinary: {5: 3}, "got x, 5"),
    ],
)
def test_whatever_the_function_does_is_a_finding(function, words):
    report = check.input_a(function, record=False)
    assert report.attempted
    assert not report.passed
    assert words in report.message, report


def test_an_endless_function_is_stopped():
    def endless(ordinary):
        while True:
            pass

    started = time.monotonic()
    assert "TimeUp" in check.input_a(endless, record=False).message
    assert time.monotonic() - started < 30


def test_a_stub_is_not_attempted_and_random_numbers_are_welcome():
    def stub(ordinary):
        """Nothing yet."""

    assert not check.input_a(stub).attempted
    assert check.input_a(lambda ordinary: {"x": 1000 + torch.randn(4, 16)}, record=False).passed
    assert check.input_d(lambda ordinary: {"dy": torch.randn(16, 4).requires_grad_()}, record=False).passed


def test_changing_the_ordinary_input_in_place_is_fine():
    def in_place(ordinary):
        ordinary["x"] += 1000
        return ordinary

    assert check.input_a(in_place, record=False).passed
    assert check.input_a(in_place, record=False).passed


def test_the_course_s_input_keeps_no_learner_from_passing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))

    def stub(ordinary):
        """Nothing yet."""

    def mine(ordinary):
        return {"start": 500}

    def courses(ordinary):
        return {"start": 1000}

    assert check.input_h.choose(stub, courses) is courses
    assert "input_h" not in progress.passed()
    assert check.input_h.choose(mine, courses) is mine
    assert "input_h" in progress.passed()
    assert "Using your input_h from here." in capsys.readouterr().out
    with pytest.raises(AssertionError, match="not yet"):
        check.input_h(lambda ordinary: ordinary, record=False).require()
