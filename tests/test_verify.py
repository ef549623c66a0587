"""verify: what it accepts, what it must not, and what its table says."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import verify
from course_utils.cases import Case, cases_for

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
    return value.__name__ if callable(value) and hasattr(value, "__name__") else type(value).__name__


def layer_norm(
    x, normalized_shape, weight=None, bias=None, eps=1e-5, *, one_pass=False, eps_outside=False, detach=False
):
    """A layer norm with the mistakes that the tests below switch on."""
    dims = tuple(range(-len(normalized_shape), 0))
    wide = x if x.dtype == torch.float64 else x.float()
    mean = wide.mean(dims, keepdim=True)
    centred = wide - (mean.detach() if detach else mean)
    variance = (
        (wide.square().mean(dims, keepdim=True) - mean**2) if one_pass else centred.square().mean(dims, keepdim=True)
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


def test_a_right_layer_norm_written_otherwise_agrees_in_every_dtype():
    comparison = verify.compare(layer_norm, F.layer_norm)
    assert comparison.ok, comparison
    assert len({line.dtype for line in comparison.lines}) == 4


def test_the_one_pass_variance_differs_at_an_offset():
    comparison = verify.compare(mistaken(one_pass=True), F.layer_norm, dtypes=[torch.float32])
    line = next(line for line in comparison.lines if line.quantity == "output")
    assert line.case.startswith("offset 10,000")
    assert ("output", "float32") in failing(comparison)


def test_eps_outside_the_root_differs_on_tiny_values():
    line = verify.compare(mistaken(eps_outside=True), F.layer_norm, dtypes=[torch.float64]).lines[0]
    assert line.case.startswith("tiny")
    assert line.verdict == "differs"


def test_a_detached_mean_differs_in_the_gradient_alone():
    found = failing(verify.compare(mistaken(detach=True), F.layer_norm, dtypes=[torch.float64]))
    assert found == {("gradient of x", "float64")}


def test_statistics_in_half_precision_differ():
    def in_half(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    assert ("output", "bfloat16") in failing(verify.compare(in_half, F.layer_norm))


def test_a_wrong_dtype_or_shape_is_named():
    def widened(x, *args, **kwargs):
        return F.layer_norm(x, *args, **kwargs).double()

    def flattened(x, *args, **kwargs):
        return F.layer_norm(x, *args, **kwargs).flatten(1)

    notes = [line.note for line in verify.compare(widened, F.layer_norm, dtypes=[torch.float32]).lines]
    assert "dtype torch.float64, not torch.float32" in notes
    raised = verify.compare(flattened, F.layer_norm, dtypes=[torch.float32])  # its gradient cannot take dy's shape
    assert "raises RuntimeError" in repr(raised)


def test_swapped_momentum_shows_in_the_running_buffers_and_in_eval():
    found = failing(verify.compare(nn.BatchNorm1d(6, momentum=0.9), nn.BatchNorm1d(6), dtypes=[torch.float64]))
    assert found == {(q, "float64") for q in ("running_mean", "running_var", "output in eval")}


def test_an_error_that_only_one_of_them_raises_is_a_difference():
    class Lenient(nn.BatchNorm1d):
        def forward(self, x):
            return x * self.weight + self.bias if x.shape == (1, 6) else super().forward(x)

    comparison = verify.compare(Lenient(6), nn.BatchNorm1d(6), dtypes=[torch.float64])
    assert "raises nothing, not ValueError" in repr(comparison)


def test_a_state_dict_that_does_not_load_is_a_difference():
    comparison = verify.compare(nn.LayerNorm(6, bias=False), nn.LayerNorm(6), dtypes=[torch.float64])
    line = comparison.lines[-1]
    assert line.quantity == "state_dict both ways"
    assert not line.ok


def test_the_table_says_when_mine_is_closer_than_the_built_in():
    x = torch.ones(8192, 4, dtype=torch.float64)
    options = {"normalized_shape": (4,), "weight": torch.ones(4).double(), "bias": torch.zeros(4).double()}
    comparison = verify.compare(layer_norm, F.layer_norm, [Case("8192 rows", x, options)], dtypes=[torch.bfloat16])
    line = next(line for line in comparison.lines if line.quantity == "gradient of bias")
    assert line.verdict == "ok, closer than the reference"
    assert line.mine < line.reference / 2


def test_another_truth_replaces_the_reference_in_float64():
    comparison = verify.compare(
        layer_norm, F.layer_norm, dtypes=[torch.float64], truth=lambda x, **options: 2 * F.layer_norm(x, **options)
    )
    assert comparison.ok, "twice the reference's error is allowed, and here it is as wrong as mine"
    assert comparison.lines[0].reference > 0.1


def test_comparing_leaves_modules_and_random_state_as_they_were():
    mine, reference = nn.BatchNorm1d(6), nn.BatchNorm1d(6)
    before, state = torch.random.get_rng_state(), {k: v.clone() for k, v in mine.state_dict().items()}
    verify.compare(mine, reference)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(value, mine.state_dict()[key]) for key, value in state.items())


def test_require_names_the_line_and_the_case():
    with pytest.raises(AssertionError, match=r"output\s+float64\s+tiny"):
        verify.compare(mistaken(eps_outside=True), F.layer_norm).require()


def test_a_passing_comparison_prints_one_line_without_a_raw_float():
    text = repr(verify.compare(layer_norm, F.layer_norm))
    assert text == "layer_norm against layer_norm (built-in): 16 quantities over 30 cases, all agree"


def test_cases_are_known_for_torchs_norms_only():
    with pytest.raises(ValueError, match="got Linear"):
        cases_for(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="got softmax"):
        verify.compare(F.softmax, F.softmax)


def test_error_measures_rounding_against_float64():
    x = 1e4 + torch.randn(8, 1024, generator=torch.Generator().manual_seed(0))
    assert torch.isnan(torch.tensor(verify.error(mistaken(one_pass=True), x, normalized_shape=(1024,))))
    assert verify.error(F.layer_norm, x, normalized_shape=(1024,)) < 2e-3


def test_close_says_where_and_by_how_much():
    a = torch.zeros(2, 3)
    b = a.clone()
    b[1, 2] = 0.5
    with pytest.raises(AssertionError, match=r"dx: off by 0.5 at \(1, 2\), expected within 1e-06"):
        verify.close("dx", a, b, within=1e-6)
    with pytest.raises(AssertionError, match="off by inf"):
        verify.close("dx", a / a, b, within=1e-6)
    with pytest.raises(AssertionError, match="shape"):
        verify.close("dx", a, a[:1], within=1)


def test_close_reads_the_imaginary_part_too(capsys):
    a, b = torch.tensor([1 + 2j]), torch.tensor([1 + 3j])
    with pytest.raises(AssertionError, match=r"z: off by 1 at \(0,\)"):
        verify.close("z", a, b, within=0.5)
    with pytest.raises(AssertionError, match="off by 2"):
        verify.close("z", a, a.real, within=0.5)
    verify.close("z", a, a, within=0)
    assert capsys.readouterr().out == "z: equal within 0\n"


def test_close_does_not_call_nothing_equal():
    with pytest.raises(ValueError, match=r"at least one number: got shape \(0, 3\)"):
        verify.close("dx", torch.zeros(0, 3), torch.zeros(0, 3), within=1)


def rows_scaled(x, scale):
    return x * scale[:, None]


def test_where_both_refuse_a_given_call_nothing_has_been_compared():
    mistaken_case = Case("5 rows, 10 scales", torch.randn(5, 3).double(), {"scale": torch.ones(10).double()})
    comparison = verify.compare(lambda x, scale: 2 * rows_scaled(x, scale), rows_scaled, [mistaken_case])
    assert not comparison.ok
    assert "both raise RuntimeError: The size of tensor a (5) must match" in repr(comparison)


@pytest.mark.parametrize(
    ("mine", "reference", "options", "error", "message"),
    [
        (layer_norm, F.layer_norm, {"cases": []}, ValueError, r"cases must hold at least one Case: got \[\]"),
        (layer_norm, F.layer_norm, {"dtypes": ()}, ValueError, r"dtypes must hold at least one dtype: got \(\)"),
        (torch.ones(1), F.layer_norm, {}, TypeError, "mine must be a function or a module: got Tensor"),
        (layer_norm, "layer_norm", {}, TypeError, "reference must be a function or a module: got str"),
        (layer_norm, F.layer_norm, {"truth": 3}, TypeError, "truth must be a function or a module: got int"),
    ],
)
def test_a_comparison_of_nothing_is_refused(mine, reference, options, error, message):
    with pytest.raises(error, match=message):
        verify.compare(mine, reference, **options)


@pytest.mark.parametrize("built_in", BUILT_INS, ids=name)
def test_a_default_case_is_refused_only_for_a_single_value_that_has_no_variance(built_in):
    for case in cases_for(built_in):
        observed = verify._observe(built_in, built_in, case, torch.float64)
        if isinstance(observed, Exception):
            assert "Expected more than 1" in str(observed), case.name
