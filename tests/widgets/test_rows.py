"""The row that is normalized: rounded in the browser as PyTorch rounds."""

import numpy as np
import pytest
import torch

from course_utils import widgets

DTYPES = {"two-pass": torch.float32, "one-pass": torch.float32}
DTYPES |= {name: getattr(torch, name) for name in ("float64", "float16", "bfloat16")}


def _numbers(values):
    """Read the numbers that JSON has no word for."""
    return [float(str(value).replace("Infinity", "inf")) for value in np.atleast_1d(values)]


def row_by_pytorch(state):
    """Inputs and outputs with every operation in the state's arithmetic, sums taken from left to
    right."""
    dtype = DTYPES[state["arithmetic"]]
    row = torch.tensor(state["values"][: state["features"]], dtype=dtype)
    scale, offset, eps = (
        torch.tensor(state[name], dtype=dtype) for name in ("scale", "offset", "eps")
    )
    x = scale * row + offset

    def mean(values):
        total = torch.zeros((), dtype=dtype)
        for value in values:
            total = total + value
        return total / torch.tensor(len(values), dtype=dtype)

    mu = mean(x)
    variance = mean(x * x) - mu * mu if state["arithmetic"] == "one-pass" else mean((x - mu) ** 2)
    # PyTorch's own square root of float32 may be one bit off, and its division by a single number
    with np.errstate(invalid="ignore"):  # one pass may have made the variance negative
        std = torch.tensor(np.sqrt((variance + eps).double().numpy()), dtype=dtype).expand_as(x)
    return x, mu, variance, (x - mu) / std


def test_the_browser_rounds_every_operation_as_pytorch_does(figures):
    widget = widgets.normalize_row()
    for state, answer in figures("normalize_row", "rowFigure", 200):
        x, mean, variance, outputs = row_by_pytorch(state)
        widget.state = state
        assert widget.x.dtype == DTYPES[state["arithmetic"]]
        np.testing.assert_array_equal(widget.x.double(), _numbers(answer["inputs"]))
        for key, value in {
            "inputs": x,
            "mean": mean,
            "variance": variance,
            "outputs": outputs,
        }.items():
            np.testing.assert_array_equal(
                _numbers(answer[key]),
                np.atleast_1d(value.double().numpy()),
                err_msg=f"{key} of {state}",
            )
        beside = row_by_pytorch({**state, "arithmetic": "two-pass"})[3].double().numpy()
        if state["arithmetic"] == "one-pass":
            np.testing.assert_array_equal(_numbers(answer["twoPasses"]), np.atleast_1d(beside))
        else:
            assert answer["twoPasses"] is None
        largest = x.abs().max()
        if largest.isfinite():
            above = torch.nextafter(largest, torch.tensor(torch.inf, dtype=x.dtype))
            assert answer["spacing"] == above.double() - largest.double() or above.isinf()
        (predicted,) = _numbers(answer["predictedVariance"])
        with np.errstate(invalid="ignore"):
            spread = np.float64(variance.item())
            np.testing.assert_array_equal(predicted, spread / (spread + state["eps"]))


def test_numbers_are_rounded_to_sixteen_bits_as_pytorch_rounds_them(in_browser):
    largest = [65519.99, 65520.0, 3.4e38, -3.4e38, 2.0**-25, 1.5 * 2.0**-24, 0.0, 2049.0, 2051.0]
    drawn = [*largest, *(np.random.default_rng(0).standard_normal(500) * 1e3).tolist()]
    for name in ("float16", "bfloat16"):
        found = in_browser("normalize_row", "module.roundedTo", [[value, name] for value in drawn])
        expected = torch.tensor(drawn, dtype=torch.float64).to(getattr(torch, name)).double()
        np.testing.assert_array_equal([_numbers(value)[0] for value in found], expected)


def test_a_sum_beyond_float16_is_called_the_mean_s_end(in_browser):
    """At offset 10,000 every entry of the row is finite; its sum is not."""
    widget = widgets.normalize_row()
    state = {**widget.state, "arithmetic": "float16", "offset": 10_000}
    assert state["offset"] in widget.data["stops"]["offset"]
    (words,) = in_browser("normalize_row", "module.summary", [[state, widget.data]])
    assert words == "The sum of the row is infinite, and so is its mean: float16 ends at 65,504."


def test_one_pass_stands_beside_two_and_says_how_far_both_are_off(in_browser):
    widget = widgets.normalize_row(arithmetic="one-pass")
    states = [{**widget.state, "offset": offset} for offset in (2_000, 10_000)]
    near, far = in_browser("normalize_row", "module.summary", [[s, widget.data] for s in states])
    assert near.startswith("The normalized row has moved by at most 0.")
    assert "; in two passes by " in near
    assert far.startswith("One pass has made the variance negative or zero; two passes have moved")
    widget.state = states[0]
    _, after = widget.picture()[0].axes
    assert [bars.get_label() for bars in after.containers] == ["one pass", "two passes"]
    assert len(after.patches) == 2 * len(widget.x)


def test_it_opens_at_a_stop_of_its_slider():
    assert widgets.normalize_row(offset=50_000).x.mean() > 49_999
    with pytest.raises(ValueError, match="offset must be one of"):
        widgets.normalize_row(["offset"], offset=50_000)
