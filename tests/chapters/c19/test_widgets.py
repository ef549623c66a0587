"""The widget of chapter 19: outputs step by step in three dtypes, and PyTorch's own."""

import torch
import torch.nn.functional as F

from chapters.c19_other_peoples_code.widgets import SCALES, computed, where_they_part


def numbers(values):
    return torch.tensor([float(value) for value in values])


def test_both_outputs_are_those_of_the_kernel_bit_by_bit(figures):
    widget, kinds = where_they_part(), set()
    for state, figure in figures("where_they_part", "partFigure", 300):
        widget.state = state
        torch.testing.assert_close(numbers(figure["x"]), widget.x.float(), rtol=0, atol=0)
        for name, y in zip(("mine", "torchs"), widget.outputs, strict=True):
            expected = y.float()
            got = numbers(figure[name]["y"])
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
            kinds.add((state["dtype"], bool(expected.isnan().any()), bool(expected.isinf().any())))
            curve = computed(widget._norms()[name == "torchs"], widget._rows(SCALES))
            largest = curve.float().abs().amax(-1).nan_to_num(torch.nan, posinf=torch.nan)
            torch.testing.assert_close(
                numbers(figure[name]["curve"]), largest, rtol=0, atol=0, equal_nan=True
            )
    assert len(kinds) >= 5


def test_pytorchs_curve_is_pytorchs():
    for layer, builtin in (("flax LayerNorm", F.layer_norm), ("timm SimpleNorm", F.rms_norm)):
        for dtype in ("float32", "bfloat16", "float16"):
            widget = where_they_part(layer, 1e-2, 10, dtype=dtype)
            allowed = {"float32": 1e-5, "bfloat16": 2**-8, "float16": 2**-11}[dtype]
            expected = builtin(widget.x, widget.x.shape)
            torch.testing.assert_close(widget.outputs[1], expected, rtol=2 * allowed, atol=allowed)
