"""What a check says to a learner, in a notebook and in a terminal, and which of two functions is
used afterwards."""

import sys
from html.parser import HTMLParser

import pytest
import torch
import torch.nn.functional as F

from chapters import check
from course_utils import progress
from course_utils.check.probes import Call
from course_utils.check.report import Quantity, evidence_for


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))


def stub(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalize x."""
    ...  # noqa: PIE790


def right(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def eps_outside(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(normalized_shape), 0))
    std = x.var(dims, correction=0, keepdim=True).sqrt()
    y = (x - x.mean(dims, keepdim=True)) / (std + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def negative(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return -F.layer_norm(x, normalized_shape, weight, bias, eps)


def layer_norm_that(act):
    """Return torch's layer norm that does ``act(x)`` first."""

    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        done = act(x)
        return F.layer_norm(x, normalized_shape, weight, bias, eps) if done is None else done

    return layer_norm


def raising(error):
    def act(x):
        raise error

    return act


class WellFormed(HTMLParser):
    """Reads HTML, keeps its text, and notices what is not closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_pass_and_an_untouched_stub_are_one_line_that_every_machine_prints_alike():
    for function, line in (
        (right, f"passed, {len(check.layer_norm.probes)} probes"),
        (stub, "not attempted yet"),
    ):
        report = check.layer_norm(function, record=False)
        assert repr(report) == f"layer_norm: {line}"
        assert repr(report) in WellFormed(report._repr_html_()).text
        assert check.layer_norm(function, record=False)._repr_html_() == report._repr_html_()
        assert {str(probe) for probe in report.probes} <= {"right"}
    with pytest.raises(AssertionError, match="not attempted yet"):
        report.require()


def test_a_known_mistake_is_told_explained_shown_and_hinted_at():
    report = check.layer_norm(eps_outside)
    mistake = check.layer_norm.catalogue["eps_outside_root"]
    assert report.misconceptions == ("eps_outside_root", "half_statistics")
    assert repr(report).splitlines() == [
        "layer_norm: not yet, 21 of 30 right",
        "  2 things to mend, in this order:",
        f"  1. {mistake.wrong}",
        f"  2. {check.layer_norm.catalogue['half_statistics'].wrong}",
        "  Passed already: the probes of statistics. The first to fail is of epsilon.",
        f"  Why it matters: {mistake.matters}",
        "  It shows in:",
        "    layer_norm(x, (3,))",
        "      x = [[0.00195312, 0.0012207, -0.00146484]]",
        "    expected output: [[0.397, 0.187, -0.583]]",
        "                got: [[0.935, 0.44, -1.38]]",
        f"  Hint: {mistake.hint}",
    ]
    page = WellFormed(report._repr_html_())
    for text in (
        mistake.wrong,
        mistake.matters,
        mistake.hint,
        "expected output: [[0.397, 0.187, -0.583]]",
    ):
        assert text in page.text
    assert {"details", "summary", "pre", "table"} <= page.tags


def test_an_unknown_mistake_says_what_is_right_already_and_shows_expected_and_got():
    report = check.layer_norm(
        layer_norm_that(lambda x: None if x.dtype == torch.float32 else x * 0)
    )
    right = ("statistics", "epsilon", "affine", "gradient", "large offset")
    assert report.right_already == right
    evidence = check.layer_norm(
        layer_norm_that(lambda x: F.layer_norm(x, x.shape[-1:]) * 1.0001)
    ).evidence
    assert evidence.expected != evidence.got  # as many digits as tell them apart


@pytest.mark.parametrize(
    ("right", "got", "shown"),
    [
        ([1e-5], [1.0123e-5], ("[1e-05]", "[1.012e-05]")),  # not 1.01e-05: that may be allowed
        ([1.00195, 0.93652], [1.0, 0.9375], ("[1.002, 0.9365]", "[1, 0.9375]")),
        ([12.344, 5.0], [12.144, float("nan")], ("[12.3, 5]", "[12.1, NaN]")),
        ([1000000.0], [1000000.4], ("[1000000]", "[1000000.4]")),
        ([0.5], [0.5], ("[0.5]", "[0.5]")),  # cannot be told apart
    ],
)
def test_expected_and_got_have_as_many_digits_as_show_by_how_much_they_differ(right, got, shown):
    double = (torch.tensor(numbers, dtype=torch.float64) for numbers in (right, got))
    evidence = evidence_for("f", (), Call({}), Quantity("output", *double))
    assert (evidence.expected, evidence.got) == shown


def test_a_quantity_that_is_wrong_later_is_not_said_to_have_passed():
    exact = check.layer_norm_backward.oracle

    def rounded(dy, x, normalized_shape, weight=None, eps=1e-5):
        dx, *others = exact(dy, x, normalized_shape, weight, eps)
        return dx if weight is None else dx * 1.1, *others

    report = check.layer_norm_backward(rounded)
    assert report.points == ("dx is wrong: it is 1.1 times what is expected, everywhere.",)
    said = "Passed already: the probes of dbias, dweight, dx. The first to fail is of "
    assert f"{said}dx with a weight." in repr(report)
    assert f"{said}dx with a weight." in WellFormed(report._repr_html_()).text


def test_an_input_is_shown_as_it_is_and_a_large_one_by_its_range():
    for tensor, shown in (
        (torch.tensor([999_999.0, 1e6, -0.5]), "[999999, 1e+06, -0.5]"),
        (torch.tensor([float("nan"), float("inf"), -float("inf")]), "[NaN, inf, -inf]"),
        (torch.tensor([1.0]).double(), "[1] (float64)"),
        (torch.ones(2, 3).t(), "[[1, 1], [1, 1], [1, 1]] (not contiguous)"),
        (torch.arange(16.0), f"[{', '.join(map(str, range(16)))}]"),
        (torch.arange(-2.0, 16).reshape(3, 6), "a tensor of shape (3, 6) from -2 to 15"),
        (torch.zeros(3, 6), "a tensor of shape (3, 6), all 0"),
    ):
        evidence = evidence_for(
            "f", ["x", "scale"], Call({"x": tensor, "scale": 0.1 + 0.2, "eps": 1e-5, "axis": -1})
        )
        assert evidence.lines() == ["f(x, 0.3, eps=1e-05, axis=-1)", f"  x = {shown}"]


def test_of_a_large_output_the_worst_element_is_shown():
    truth = torch.arange(18.0).double().reshape(3, 6)
    for worst, got in ((-9.0, "-9"), (float("nan"), "NaN")):
        values = truth.clone()
        values[0, 3], values[1, 2] = 9.0, worst
        evidence = evidence_for(
            "f", ["x"], Call({"x": torch.ones(1)}), Quantity("output", truth, values)
        )
        assert (evidence.quantity, evidence.expected, evidence.got) == (
            "output at [1, 2]",
            "8",
            got,
        )


SCRIPT = "<script>alert('x')</script>"


def test_what_a_learner_s_code_says_is_text_and_never_markup():
    named = type(SCRIPT, (Exception,), {})
    for act in (
        raising(ValueError(SCRIPT)),
        raising(named(SCRIPT)),
        lambda x: type(SCRIPT, (), {})(),
    ):
        html = check.layer_norm(layer_norm_that(act))._repr_html_()
        assert "script" not in WellFormed(html).tags
        assert SCRIPT in WellFormed(html).text
        assert "<script" not in html


def recursing(x):
    return recursing(x)


# What a function does, and what the report must say about it.
FINDINGS = [
    (lambda x: x.no_such_method(), "It raises AttributeError: 'Tensor' object has no attribute"),
    (raising(ValueError("long" * 10_000)), "longlong… (line"),
    (lambda x: sys.exit(1), "It ends the program (SystemExit)"),
    (recursing, "It raises RecursionError"),
    (lambda x: (x, x), "It returns a tuple; expected a tensor."),
    (lambda x: ..., "It returns an ellipsis; expected a tensor: a ... is still to be filled in."),
    (lambda x: x.sum(-1), "The output has the shape (1,); expected (1, 3)."),
    (lambda x: x.double(), "The output is float64; expected float32, as the input."),
    (lambda x: x.to("meta"), "The output is on meta; the input was on cpu."),
    (
        lambda x: x * float("nan"),
        "The output is wrong: it is NaN everywhere.",
    ),
    (
        lambda x: [torch.manual_seed(0), torch.set_default_dtype(torch.float64)].clear(),
        "It changes torch's global random state and the default dtype",
    ),
]


def test_what_stands_in_the_way_is_reported_and_nothing_is_raised():
    state = torch.get_rng_state()
    for act, words in FINDINGS:
        report = check.layer_norm(layer_norm_that(act))
        assert (report.attempted, report.passed) == (True, False)
        # the line of the function's source is shown too, and here what is expected of it stands in
        # the same line
        assert words in report.message.partition("lambda")[0], report
        assert len(report.message) < 500
        WellFormed(report._repr_html_())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32


def generator_function(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    yield x


def test_what_is_no_layer_norm_at_all_is_told_what_it_is():
    for function, words in (
        (
            generator_function,
            "It returns a generator; expected a tensor: a yield makes the function a generator.",
        ),
        (lambda x, shape: x, "takes (x, shape): got an unexpected keyword argument 'weight'."),
        (lambda x, shape, gamma, beta, eps: x, "missing a required argument: 'gamma'."),
        (
            torch.nn.LayerNorm(4),
            "This is a module: pass a function, such as `lambda x, normalized_shape, weight=None",
        ),
        (
            torch.nn.LayerNorm,
            "It is called as layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5)",
        ),
        (F.layer_norm(torch.ones(1, 4), (4,)), "This is not a function (its type is Tensor)"),
    ):
        report = check.layer_norm(function)
        assert (report.attempted, report.passed) == (True, False)
        assert words in report.message, report


def test_what_a_function_prints_is_shown_with_the_report_alone(capsys):
    for act, passes in (
        (lambda x: print("its shape:", x.shape), True),
        (lambda x: [print("its shape:", x.shape), x][1], False),
        (lambda x: [print("its shape:", x.shape) for _ in range(1000)] and None, True),
    ):
        report = check.layer_norm(layer_norm_that(act), record=False)
        assert report.passed == passes
        assert f"    its shape: torch.Size({[1, 3]})" in repr(report) or passes
        assert 1 <= repr(report).count("its shape") <= 20
        assert "What it printed" in WellFormed(report._repr_html_()).text
    assert capsys.readouterr().out == ""
    report = check.layer_norm(layer_norm_that(lambda x: [breakpoint(), x][1]), record=False)
    assert "breakpoint() is passed over in a check" in repr(report)


def test_nothing_is_said_to_be_printed_by_a_call_that_had_to_be_stopped():
    def endless(x):
        print("once")
        while True:
            pass

    report = check.layer_norm(layer_norm_that(endless), record=False)
    assert "once" not in repr(report) + report._repr_html_()


def test_a_pass_is_the_learner_s_progress_and_a_failure_an_attempt():
    check.layer_norm(eps_outside)
    assert (progress.passed(), list(progress.attempted())) == ({}, ["layer_norm"])
    report = check.layer_norm(right)
    assert list(progress.passed()) == ["layer_norm"]
    assert report.standing.startswith("1 of "), report.standing


def test_what_is_not_the_learner_s_is_not_the_learner_s_progress():
    from course_utils import norms

    marked = check.rms_norm.solution(
        lambda x, shape, weight=None, eps=None: F.rms_norm(x, shape, weight, eps)
    )
    assert repr(check.rms_norm(marked)).endswith("probes (the solution of the course)")
    check.layer_norm(stub)
    check.layer_norm(F.layer_norm)
    check.layer_norm(norms.layer_norm)
    check.layer_norm(right, record=False)
    assert progress.attempted() == {}


def test_the_learner_s_function_is_chosen_if_it_passes_and_the_course_s_with_a_reason_if_not(
    capsys,
):
    def solution(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return F.layer_norm(x, normalized_shape, weight, bias, eps)

    for yours, line in (
        (stub, "Using the course's layer_norm from here: yours is not attempted yet.\n"),
        (
            eps_outside,
            "Using the course's layer_norm from here: yours has a known mistake (epsilon outside "
            "the root).\n",
        ),
        (negative, "Using the course's layer_norm from here: yours is not right yet.\n"),
        (right, "Using your layer_norm from here.\n"),
    ):
        chosen = check.layer_norm.choose(yours, solution)
        assert chosen is (right if yours is right else solution)
        assert capsys.readouterr().out == line
        if chosen is solution:  # the cell run again in the same kernel
            assert check.layer_norm.choose(chosen, solution) is solution
            assert capsys.readouterr().out == line
    with pytest.raises(AssertionError, match="layer_norm: not yet"):
        check.layer_norm.choose(stub, negative)


def test_the_worst_of_a_large_tensor_is_found_without_what_imports_sympy(monkeypatch):
    monkeypatch.delattr(torch, "unravel_index")
    right = torch.zeros(4, 5)
    got = right.clone()
    got[2, 3] = float("nan")
    evidence = evidence_for("f", ["x"], Call({"x": right}), Quantity("output", right, got))
    assert (evidence.quantity, evidence.expected, evidence.got) == ("output at [2, 3]", "0", "NaN")
