"""verify: what it accepts, what it must not, and what its table says."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import rope, verify
from course_utils.verify import Case, cases_for

BUILT_INS = [
    F.layer_norm,
    F.rms_norm,
    F.group_norm,
    F.instance_norm,
    F.batch_norm,
    nn.LayerNorm((3, 4)),
    nn.RMSNorm(6),
    nn.GroupNorm(2, 6),
    nn.BatchNorm1d(6),
    nn.BatchNorm2d(6),
    nn.BatchNorm3d(6),
    nn.InstanceNorm1d(6, affine=True, track_running_stats=True),
    nn.InstanceNorm2d(6),
]


def name(value):
    return (
        value.__name__ if callable(value) and hasattr(value, "__name__") else type(value).__name__
    )


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, **mistakes):
    """A layer norm with the mistakes that the tests below switch on."""
    one_pass, eps_outside, detach, half = map(
        mistakes.get, ("one_pass", "eps_outside", "detach", "half")
    )
    dims = tuple(range(-len(normalized_shape), 0))
    wide = x if half or x.dtype == torch.float64 else x.float()
    mean = wide.mean(dims, keepdim=True)
    centred = wide - (mean.detach() if detach else mean)
    variance = (wide if one_pass else centred).square().mean(dims, keepdim=True) - (
        mean**2 if one_pass else 0
    )
    y = centred / (variance.sqrt() + eps) if eps_outside else centred * torch.rsqrt(variance + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)


def mistaken(**mistake):
    def mine(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return layer_norm(x, normalized_shape, weight, bias, eps, **mistake)

    return mine


def failing(comparison):
    return {(line.quantity, line.dtype) for line in comparison.lines if not line.ok}


@pytest.mark.parametrize("built_in", BUILT_INS, ids=name)
def test_a_built_in_agrees_with_itself(built_in):
    comparison = verify.compare(built_in, built_in)
    assert comparison.ok, comparison
    assert {"output", "gradient of x"} <= {line.quantity for line in comparison.lines}


@pytest.mark.parametrize(("reference", "is_"), [(F.layer_norm, " (built-in)"), (layer_norm, "")])
def test_a_right_layer_norm_written_otherwise_agrees_in_one_line_without_a_raw_float(
    reference, is_
):
    text = repr(verify.compare(layer_norm, reference, cases_for(F.layer_norm)))
    assert text == f"layer_norm against layer_norm{is_}: 16 quantities over 30 cases, all agree"


@pytest.mark.parametrize(
    ("mistake", "dtype", "worst"),
    [
        ("one_pass", torch.float32, "offset 10,000"),
        ("eps_outside", torch.float64, "tiny"),
        ("half", torch.bfloat16, ""),
    ],
)
def test_a_mistake_differs_where_it_shows(mistake, dtype, worst):
    line = verify.compare(mistaken(**{mistake: True}), F.layer_norm, dtypes=[dtype]).lines[0]
    assert (line.quantity, line.verdict) == ("output", "differs")
    assert line.case.startswith(worst)


def test_a_detached_mean_differs_in_the_gradient_alone():
    comparison = verify.compare(mistaken(detach=True), F.layer_norm, dtypes=[torch.float64])
    assert failing(comparison) == {("gradient of x", "float64")}
    assert re.fullmatch(
        r".* over 30 cases, differs in gradient of x \(float64, .+\)", comparison.summary()
    )
    with pytest.raises(
        AssertionError, match=r"differs from layer_norm(.|\n)*\ngradient of x"
    ) as raised:
        comparison.require()
    assert "output" not in str(raised.value)  # what is right is no part of the complaint


def test_a_wrong_dtype_or_shape_is_named():
    def widened(x, *args, **kwargs):
        return F.layer_norm(x, *args, **kwargs).double()

    def flattened(x, *args, **kwargs):
        return F.layer_norm(x, *args, **kwargs).flatten(1)

    case = Case("two rows", torch.ones(2, 3, dtype=torch.float64), {"normalized_shape": (3,)})
    line = verify.compare(widened, F.layer_norm, [case], dtypes=[torch.float32]).lines[0]
    assert (line.quantity, line.dtype, line.case) == ("output", "float32", "two rows")
    assert line.note == line.verdict == "dtype torch.float64, not torch.float32"
    # A flat output cannot take back a gradient of the input's shape.
    line = verify.compare(flattened, F.layer_norm, dtypes=[torch.float32]).lines[-1]
    assert (line.quantity, line.dtype) == ("error raised", "float32")
    assert line.note.startswith("raises RuntimeError: Mismatch in shape: grad_output[0] has")


class OtherBatchNorm(nn.Module):
    """Running statistics under other names."""

    def __init__(self, momentum):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(6)), nn.Parameter(torch.zeros(6))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("var", torch.ones(6))
        self.momentum = momentum

    def forward(self, x):
        options = (self.scale, self.shift, self.training, self.momentum)
        return F.batch_norm(x, self.mean, self.var, *options)


@pytest.mark.parametrize(
    ("mine", "is_right"),
    [
        (nn.BatchNorm1d(6, momentum=0.9), False),
        (OtherBatchNorm(0.2), False),
        (OtherBatchNorm(0.1), True),
    ],
    ids=["its names", "other names", "right"],
)
def test_another_momentum_shows_in_the_running_buffers_and_in_eval(mine, is_right):
    comparison = verify.compare(mine, nn.BatchNorm1d(6), dtypes=[torch.float64])
    kept = {"running_mean", "running_var", "output in eval"}
    assert failing(comparison) == {(quantity, "float64") for quantity in kept if not is_right}
    others = {f"gradient of {name}" for name in ("x", "weight", "bias")} | {"output"}
    others |= {"error raised", "state_dict both ways"}
    assert {line.quantity for line in comparison.lines} == kept | others


def test_an_error_that_only_one_of_them_raises_is_a_difference():
    class Lenient(nn.BatchNorm1d):
        def forward(self, x):
            return x * self.weight + self.bias if x.shape == (1, 6) else super().forward(x)

    comparison = verify.compare(Lenient(6), nn.BatchNorm1d(6), dtypes=[torch.float64])
    assert "raises nothing, not ValueError" in repr(comparison)


def test_an_exception_of_mine_is_shown_with_its_message_and_line_and_chained():
    def mistyped(x, normalized_shape, weight=None, bias=None):
        y = F.layer_norm(x, normalized_shape, weight, bias)
        return y.men(-1)

    class Renamed(nn.LayerNorm):
        def forward(self, input):
            return F.layer_norm(input, (6,), self.gamma)

    start = mistyped.__code__.co_firstlineno
    comparison = verify.compare(mistyped, F.layer_norm, dtypes=[torch.float32])
    message = f"'Tensor' object has no attribute 'men' (line {start + 2})"
    assert [line.note for line in comparison.lines] == [f"raises AttributeError: {message}"]
    with pytest.raises(AssertionError, match="has no attribute 'men'") as raised:
        comparison.require()
    assert isinstance(raised.value.__cause__, AttributeError)
    renamed = verify.compare(Renamed(6), nn.LayerNorm(6), dtypes=[torch.float32]).lines[0].note
    assert renamed.endswith(
        f"no attribute 'gamma' (line {Renamed.forward.__code__.co_firstlineno + 1})"
    )


def reordered(module):
    module._parameters = dict(reversed(module._parameters.items()))
    return module


@pytest.mark.parametrize(
    ("mine", "reference", "note"),
    [
        (nn.LayerNorm(6, bias=False), nn.LayerNorm(6), 'Unexpected key(s) in state_dict: "bias".'),
        (
            reordered(nn.LayerNorm(6)),
            nn.LayerNorm(6),
            "keys ['bias', 'weight'], not ['weight', 'bias']",
        ),
    ],
    ids=["without a bias", "another order"],
)
def test_a_state_dict_that_does_not_load_is_a_difference(mine, reference, note):
    line = verify.compare(
        mine, reference, cases_for(nn.LayerNorm(6))[:1], dtypes=[torch.float64]
    ).lines[-1]
    assert line == verify.Line("state_dict both ways", "any", "strict", 0.0, 0.0, 0.0, note)
    assert not line.ok


def test_the_table_says_when_mine_is_closer_than_the_built_in():
    x = torch.ones(8192, 4, dtype=torch.float64)
    options = {
        "normalized_shape": (4,),
        "weight": torch.ones(4).double(),
        "bias": torch.zeros(4).double(),
    }
    comparison = verify.compare(
        layer_norm, F.layer_norm, [Case("8192 rows", x, options)], dtypes=[torch.bfloat16]
    )
    line = next(line for line in comparison.lines if line.quantity == "gradient of bias")
    assert line.verdict == "ok, closer than the reference"


# -- what somebody else wrote ----------------------------------------------------------------------


class OtherNames(nn.Module):
    """A layer norm as others write it: gain as 1 + g, float32 inside, or with a mistake."""

    def __init__(self, size, mistake=""):
        super().__init__()
        self.shift, self.g = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(size))
        self.mistake = mistake

    def forward(self, x):
        z = x if self.mistake == "in float64" else x.float()
        correction = 1 if self.mistake == "n − 1" else 0
        variance = z.var(-1, correction=correction, keepdim=True)
        y = (z - z.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt()
        return (y * (1 + self.g.to(y.dtype)) + self.shift.to(y.dtype)).to(x.dtype)


def test_other_names_another_form_of_the_weight_and_float32_inside_are_no_difference():
    comparison = verify.compare(OtherNames(6), nn.LayerNorm(6))
    assert comparison.ok, comparison
    remarks = {line.quantity: line.verdict for line in comparison.lines if line.remark}
    assert remarks["state_dict both ways"] == "ok, under other names: shift for bias, g for weight"
    assert remarks["output"] == "ok, computes in float32 inside"
    given = verify.compare(
        nn.LayerNorm(6), nn.LayerNorm(6), names={"weight": "weight", "bias": "bias"}
    )
    assert given.ok
    with pytest.raises(ValueError, match=r"names must lead from .*: got gain"):
        verify.compare(OtherNames(6), nn.LayerNorm(6), names={"gain": "weight"})


def test_the_kind_of_a_difference_is_named():
    comparison = verify.compare(OtherNames(6, "n − 1"), nn.LayerNorm(6), dtypes=[torch.float32])
    assert not comparison.ok
    assert (
        "divides by: the root of: variance / (n − 1), not the root of: variance / n"
        in comparison.why
    )
    with pytest.raises(AssertionError, match=r"variance / \(n − 1\), not"):
        comparison.require()


def test_another_order_of_axes_is_turned_round():
    class ChannelsFirst(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.movedim(1, -1)).movedim(-1, 1)

    case = Case("image", torch.randn(2, 3, 4, 6, dtype=torch.float64))
    axes = ("NCHW", "NHWC")
    assert verify.compare(ChannelsFirst(6), nn.LayerNorm(6), [case], axes=axes).ok
    with pytest.raises(ValueError, match="orders of the same letters"):
        verify.compare(ChannelsFirst(6), nn.LayerNorm(6), [case], axes=("NCHW", "NHW"))


def test_a_gradient_that_is_overwritten_is_seen():
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, dy):
            return dy.mul_(2)

    case = Case("one", torch.randn(2, 3, dtype=torch.float64))
    lines = verify.compare(InPlace.apply, lambda x: 2 * x, [case], dtypes=[torch.float32]).lines
    notes = [line.note for line in lines if not line.ok]
    assert notes == ["overwritten: a residual needs it still"]


class StaleCache(nn.Module):
    """A rotation by positions of the dtype in which it was called first, stretched for the longest
    text so far, or by the first rows of its table whatever the positions are."""

    def __init__(self, mistake):
        super().__init__()
        self.mistake, self.longest, self.table = mistake, 0, torch.zeros(0)

    def forward(self, x, positions=None):
        length = x.shape[-2]
        self.longest = max(self.longest, length)
        factor = self.longest / length if self.mistake == "length" else 1
        if positions is None or self.mistake in ("decode", "dtype"):
            positions = torch.arange(length)
        if self.mistake == "dtype":
            self.table = positions.to(x.dtype) if len(self.table) < length else self.table
            positions = self.table[:length]
        return rope.apply_rope(x, *rope.rope_cos_sin(positions, rope.rope_inv_freq(8) / factor))


@pytest.mark.parametrize(
    ("mistake", "note"),
    [
        ("", None),
        ("dtype", "float32 after bfloat16 is off by"),
        ("length", "64 positions after 600 positions is off by"),
        ("decode", "the last position alone after 600 positions is off by"),
    ],
    ids=["right", "dtype", "length", "decode"],
)
def test_a_cache_that_another_call_spoils_or_that_decoding_misreads_is_seen(mistake, note):
    cases = verify.rotation_cases(8, positions=True)
    comparison = verify.compare(
        StaleCache(mistake), rope.RotaryEmbedding(8), cases, dtypes=[torch.float32]
    )
    notes = [line.note for line in comparison.lines if line.quantity == "called twice"]
    assert len(notes) == (note is not None)
    assert all(text.startswith(note) for text in notes)


def test_a_rotation_is_compared_over_cases_of_its_own_and_the_difference_named():
    comparison = verify.compare(
        lambda x: StaleCache("dtype")(x),
        lambda x: rope.RotaryEmbedding(8)(x),
        verify.rotation_cases(8),
        dtypes=[torch.bfloat16],
    )
    assert {line.case for line in comparison.lines if not line.ok} == {"600 positions"}
    assert any("bfloat16 queries: wrong" in reason for reason in comparison.why)
    assert verify.rotation_cases(8, "BTHD")[0].x.shape == (2, 1, 3, 8)


# -- what is allowed -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", verify.DTYPES, ids=str)
def test_an_exact_reference_allows_twice_four_units_and_one_rounding_of_the_result(dtype):
    x = torch.tensor([[1.0, float("nan"), -3.0], [2.0, 0.5, 0.0]], dtype=torch.float64)
    gradients = []

    def identity(x):
        y = x.clone()
        y.register_hook(gradients.append)
        return y

    lines = verify.compare(identity, identity, [Case("one", x, {})], dtypes=[dtype]).lines
    output, gradient = lines
    arithmetic = (
        torch.finfo(torch.float64).eps * 6**0.5
        if dtype == torch.float64
        else torch.finfo(torch.float32).eps
    )
    share = 2 * 4 * arithmetic + torch.finfo(dtype).eps
    largest = gradients[0].abs().max().item()  # of a gradient that is rounded to the dtype, as x is
    assert (output.mine, output.reference, gradient.mine, gradient.reference) == (0, 0, 0, 0)
    # a few units can only be added in whole ones
    rounding = 0.06 if dtype == torch.float64 else 1e-6
    assert output.allowed == pytest.approx(3 * share, rel=rounding, abs=0)
    assert gradient.allowed == pytest.approx(largest * share, rel=rounding, abs=0)


def test_otherwise_twice_the_error_of_the_reference_is_allowed():
    def off_by(error):
        return lambda x: x + error

    case = Case("one", torch.tensor([[1.0, -3.0]]).double(), {})
    for error, ok in ((0.5, True), (-0.5, True), (0.51, False)):
        comparison = verify.compare(
            off_by(error), off_by(0.25), [case], truth=off_by(0.0), dtypes=[torch.float64]
        )
        assert (comparison.lines[0].ok, comparison.lines[0].allowed) == (ok, 0.5)


@pytest.mark.parametrize("order", [1, -1], ids=["large first", "small first"])
def test_a_case_in_which_both_overflow_hides_no_other(order):
    def overflows(x):
        return (x * 2 - x * 2) + x  # NaN in float16 where x is large

    def wrong(x):
        return overflows(x) + (x < 10).to(x.dtype)

    cases = [
        Case(name, torch.full((2, 2), value).double(), {})
        for name, value in (("large", 6e4), ("small", 1.0))
    ]
    comparison = verify.compare(wrong, overflows, cases[::order], dtypes=[torch.float16])
    assert [line.case for line in comparison.lines if not line.ok] == ["small"]


def test_error_measures_rounding_against_float64():
    x = 1e4 + torch.randn(8, 1024, generator=torch.Generator().manual_seed(0))
    assert torch.isnan(
        torch.tensor(verify.max_error(mistaken(one_pass=True), x, normalized_shape=(1024,)))
    )
    assert verify.max_error(F.layer_norm, x, normalized_shape=(1024,)) < 2e-3
    third = torch.tensor([1.0, 3.0])  # in float32 a third is off, and one is not
    assert verify.max_error(lambda x: x / 3, third) == abs(
        torch.tensor(1 / 3).double().item() - 1 / 3
    )
    assert verify.max_error(lambda x: -2 * x, third, truth=lambda x: x) == 9


def test_modules_are_given_one_state_that_no_default_can_imitate_and_stay_as_they_were():
    trained, random_state = nn.LayerNorm(6), torch.random.get_rng_state()
    nn.init.constant_(trained.weight, 7.0)
    assert verify.compare(trained, nn.LayerNorm(6)).ok
    assert (trained.weight == 7).all()
    assert torch.equal(random_state, torch.random.get_rng_state())

    class Bare(nn.LayerNorm):
        def forward(self, x):
            return F.layer_norm(x, self.normalized_shape) + 0 * (self.weight + self.bias)

    assert ("output", "float32") in failing(
        verify.compare(Bare(6), nn.LayerNorm(6), dtypes=[torch.float32])
    )


def test_where_both_refuse_a_given_call_nothing_has_been_compared():
    case = Case("5 rows, 10 scales", torch.randn(5, 3).double(), {"scale": torch.ones(10).double()})
    comparison = verify.compare(
        lambda x, scale: 2 * x * scale[:, None], lambda x, scale: x * scale[:, None], [case]
    )
    assert not comparison.ok
    assert "both raise RuntimeError: The size of tensor a (5) must match" in repr(comparison)


@pytest.mark.parametrize(
    ("reference", "options", "message"),
    [
        (layer_norm, {"cases": []}, "cases and dtypes must not be empty"),
        (F.layer_norm, {"dtypes": ()}, "cases and dtypes must not be empty"),
        (nn.Linear(2, 2), {}, "cases must be given .*: got Linear"),
        (F.softmax, {}, "cases must be given .*: got softmax"),
    ],
)
def test_a_comparison_of_nothing_is_refused(reference, options, message):
    with pytest.raises(ValueError, match=message):
        verify.compare(reference, reference, **options)


@pytest.mark.parametrize(
    ("mine", "expected", "message"),
    [
        (
            [[0.0, 0.0], [0.0, 1.5]],
            [[0.0, 0.0], [0.0, 0.0]],
            r"dx: off by 1.5 at \(1, 1\), expected within 1",
        ),
        ([math.nan], [0.0], "off by inf"),
        ([math.inf, 1.0], [-math.inf, 1.0], r"off by inf at \(0,\)"),
        ([1 + 2j], [1.0], "off by 2"),
        ([1.0], [1 + 2j], "off by 2"),
        ([1.0], [[1.0]], r"shape \(1,\), expected \(1, 1\)"),
    ],
    ids=str,
)
def test_close_says_where_and_by_how_much(mine, expected, message):
    with pytest.raises(AssertionError, match=message):
        verify.assert_close("dx", torch.tensor(mine), torch.tensor(expected), within=1)


def test_close_takes_equal_infinities_for_equal_and_does_not_call_nothing_equal(capsys):
    verify.assert_close("z", torch.tensor([math.inf, 1.0]), torch.tensor([math.inf, 1.0]), within=0)
    assert capsys.readouterr().out == "✓ z: equal\n"
    with pytest.raises(ValueError, match=r"at least one number: got shape \(0, 3\)"):
        verify.assert_close("dx", torch.zeros(0, 3), torch.zeros(0, 3), within=1)
