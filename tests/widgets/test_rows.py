"""The row that is normalized: rounded in the browser as numpy rounds."""

import numpy as np


def _numbers(values):
    """Read the numbers that JSON has no word for."""
    return [float(str(value).replace("Infinity", "inf")) for value in np.atleast_1d(values)]


def row_by_numpy(state):
    """Inputs and outputs with every operation in the state's arithmetic, sums taken from left to
    right."""
    dtype = np.float64 if state["arithmetic"] == "float64" else np.float32
    row = np.array(state["values"][: state["features"]], dtype)
    x = dtype(state["scale"]) * row + dtype(state["offset"])

    def mean(values):
        return np.add.accumulate(values)[-1] / dtype(len(values))

    with np.errstate(invalid="ignore", divide="ignore"):
        mu = mean(x)
        variance = (
            mean(x * x) - mu * mu if state["arithmetic"] == "one-pass" else mean((x - mu) ** 2)
        )
        return x, mu, variance, (x - mu) / np.sqrt(variance + dtype(state["eps"]))


def test_the_browser_rounds_every_operation_as_numpy_does(figures):
    for state, answer in figures("normalize_row", "rowFigure", 500):
        x, mean, variance, outputs = row_by_numpy(state)
        for key, value in {
            "inputs": x,
            "mean": mean,
            "variance": variance,
            "outputs": outputs,
        }.items():
            np.testing.assert_array_equal(
                _numbers(answer[key]), np.atleast_1d(value), err_msg=f"{key} of {state}"
            )
        assert answer["spacing"] == np.spacing(np.abs(x).max())
        (predicted,) = _numbers(answer["predictedVariance"])
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(
                predicted, np.float64(variance) / (np.float64(variance) + state["eps"])
            )
