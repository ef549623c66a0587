"""Moments against numpy in float64 and exact fractions, averages against torch's layers, Precise BN
against pools."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf
from torch import nn
from torch.testing import assert_close

from course_utils import norms
from course_utils.norms.statistics import Moments, bias_corrected, ema, precise_batch_norm

# Merged or not, a variance is off by a few roundings a merge (2⁻⁵³ each) and never by cancellation:
# measured at most 7e-16 over a thousand merges at an offset of 10⁸, where three numbers without the
# residue are off by 6e-9.
CLOSE = {"rtol": 1e-14, "atol": 0.0}


def exact_moments(values):
    """Return the mean and the sum of squared deviations as fractions."""
    values = [Fraction(value) for value in values]
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values)


def assert_exact(moments, values):
    """Assert that ``moments`` are those of ``values`` to the roundings of float64."""
    mean, m2 = exact_moments(values)
    largest = max(abs(value) for value in values)
    assert moments.count == len(values)
    assert abs(Fraction(moments.mean.item()) - mean) <= 2**-52 * largest
    # Squares below 2⁻¹⁰²² lose digits in float64 whatever one does; next to an m2 that large they
    # do not count.
    assert math.isclose(moments.m2.item(), float(m2), rel_tol=1e-12, abs_tol=1e-300)


offsets = st.sampled_from([0.0, -1.0, 1e4, -1e8, 1e8])
numbers = st.floats(-1e3, 1e3, allow_subnormal=False)


@st.composite
def split_values(draw):
    """Values near some offset, and the sizes of the parts that they are cut into, empty ones
    included."""
    offset = draw(offsets)
    values = [offset + value for value in draw(st.lists(numbers, min_size=1, max_size=40))]
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=8)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    return torch.tensor(values, dtype=torch.float64), sizes


@given(split_values(), st.randoms(use_true_random=False))
@example((torch.tensor([1e8, 1e8 + 1], dtype=torch.float64), [0, 1, 0, 1]), None)
def test_moments_merge_to_the_pools_in_any_order_and_nesting_of_any_split(split, random):
    values, sizes = split
    parts = [Moments.of(part) for part in values.split(sizes)]
    while len(parts) > 1:
        one = parts.pop(random.randrange(len(parts)) if random else 0)
        other = parts.pop(random.randrange(len(parts)) if random else 0)
        parts.append(one.merge(other))
    assert_exact(parts[0], values.tolist())


part = st.tuples(st.integers(0, 10**9), st.integers(-(10**8), 10**8), st.integers(0, 10**9))


@given(st.lists(part, min_size=1, max_size=6))
@example([(10**9, 10**8, 10**9), (10**9, 10**8 + 1, 10**9), (1, -(10**8), 0), (0, 5, 7)])
def test_parts_of_up_to_a_billion_values_merge_to_the_rational_truth(parts):
    pool = Moments(0, 0.0, 0.0)
    for count, mean, m2 in parts:
        pool = pool.merge(Moments(count, float(mean), float(m2)))
    present = [(Fraction(n), Fraction(mean), Fraction(m2)) for n, mean, m2 in parts if n]
    total = sum(n for n, _, _ in present)
    assert pool.count == int(total)
    if total:
        mean = sum(n * mean for n, mean, _ in present) / total
        m2 = sum(m2 + n * (part - mean) ** 2 for n, part, m2 in present)
        assert abs(Fraction(pool.mean.item()) - mean) <= 2**-52 * 10**8
        assert math.isclose(pool.m2.item(), float(m2), rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (0, -1, 1), [1]])
@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32]
)
def test_moments_of_a_tensor_are_numpys_over_the_same_dimensions(dim, correction, dtype):
    x = (100 + 10 * torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))).to(dtype)
    moments, values = Moments.of(x, dim), x.double().numpy()
    axis = tuple(dim) if isinstance(dim, list) else dim
    assert moments.mean.dtype == moments.m2.dtype == torch.float64
    assert_close(moments.mean, torch.as_tensor(values.mean(axis)), **CLOSE)
    assert_close(
        moments.variance(correction), torch.as_tensor(values.var(axis, ddof=correction)), **CLOSE
    )


def test_an_empty_part_changes_nothing_on_either_side_and_has_no_variance():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    full, empty = Moments.of(x, 0), Moments.of(x[:0], 0)
    unread = Moments(0, full.mean * math.nan, full.m2 * math.nan)
    assert empty.count == 0
    assert empty.merge(empty).variance().isnan().all()
    for nothing in (empty, unread):
        for merged in (full.merge(nothing), nothing.merge(full)):
            assert_close(tuple(merged), tuple(full), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Moments(1, torch.zeros(2), torch.zeros(3)),
            r"m2 must have the shape of mean: got \(3,\) beside \(2",
        ),
        (
            lambda: Moments.of(torch.zeros(2, dtype=torch.complex64)),
            "x must be real: got torch.complex64",
        ),
        (lambda: ema(0.0, 1.0, 1.5), "momentum must be between 0 and 1: got 1.5"),
        (lambda: ema(0.0, 1.0, math.nan), "momentum must be between 0 and 1: got nan"),
        (
            lambda: ema(0.0, 1.0, 0.1, "tensorflow"),
            "convention must be 'torch' or 'keras': got 'tensorflow'",
        ),
        (lambda: bias_corrected(0.0, 0.1, 0), "steps must be at least 1: got 0"),
        (
            lambda: bias_corrected(0.0, 1.0, 3, "keras"),
            "momentum must give the new value a weight: got 1.0 in keras's",
        ),
        (
            lambda: precise_batch_norm(nn.Linear(1, 1), []),
            "model must have a batch norm layer .*: got none",
        ),
        (
            lambda: precise_batch_norm(nn.BatchNorm1d(1), []),
            "batches must bring these layers at least one batch: got n",
        ),
    ],
)
def test_an_impossible_argument_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("momentum", [0.0, 0.001, 0.1, 0.9, 1.0])
def test_torchs_convention_moves_as_torchs_layer_and_keras_is_its_mirror(momentum):
    layer = nn.BatchNorm1d(3, momentum=momentum, dtype=torch.float64)
    mine = mirror = torch.zeros(3, dtype=torch.float64)
    for seed in range(20):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        layer(x)
        mine = ema(mine, x.mean(0), momentum)
        mirror = ema(mirror, x.mean(0), 1 - momentum, "keras")
    assert_close(mine, layer.running_mean)
    assert_close(mirror, layer.running_mean)


@pytest.mark.parametrize("convention", ["torch", "keras"])
@pytest.mark.parametrize("new_weight", [1e-9, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_a_corrected_average_is_the_weighted_mean_of_the_values_alone(
    convention, new_weight, start
):
    momentum = new_weight if convention == "torch" else 1 - new_weight
    values = [3.0, 5.0, -2.0, 7.0]
    average = start
    for steps, value in enumerate(values, start=1):
        average = ema(average, value, momentum, convention)
        with mp.workdps(60):
            old = 1 - mpf(momentum) if convention == "torch" else mpf(momentum)
            weights = [old ** (steps - 1 - k) for k in range(steps)]
            expected = sum(w * v for w, v in zip(weights, values, strict=False)) / sum(weights)
        # Where the average keeps only 1e-9 of a value beside its start, it keeps that much less of
        # its digits.
        tolerance = 1e-13 if start == 0 else 1e-13 / new_weight
        assert (
            abs(bias_corrected(average, momentum, steps, convention, start=start) - expected)
            < tolerance * 10
        )


def network():
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 4, 3),
        norms.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(144, 5),
    ]
    others = (
        nn.BatchNorm1d(5, track_running_stats=False),
        nn.BatchNorm1d(5),
        nn.Unflatten(1, (1, 5)),
    )
    instance_norm = norms.InstanceNorm1d(1, track_running_stats=True)
    return nn.Sequential(*layers, nn.BatchNorm1d(5), *others, instance_norm).double()


def images(*sizes):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 3, 8, 8, generator=generator, dtype=torch.float64) for size in sizes]


@pytest.mark.parametrize("training", [True, False], ids=["in training", "in evaluation"])
@pytest.mark.parametrize("sizes", [[16], [8, 8, 8], [2, 30, 3]], ids=str)
def test_precise_statistics_are_those_of_all_batches_pooled_at_every_depth_and_nothing_else_changes(
    sizes, training
):
    with torch.random.fork_rng():
        model = network().train(training)
        model[8].eval()  # frozen, where the model is in training
        model(images(4)[0])
        before = {key: value.clone() for key, value in model.state_dict().items()}
        modes = [module.training for module in model.modules()]
        random_state = torch.get_rng_state()
        precise_batch_norm(model, [(x, "label") for x in images(*sizes)])
        assert torch.equal(torch.get_rng_state(), random_state)
    seen = {1: [], 6: []}
    with torch.no_grad():
        for x in images(*sizes):
            h = model[0](x)
            seen[1].append(h.transpose(0, 1).flatten(1).T)
            h = nn.functional.batch_norm(
                h, None, None, model[1].weight, model[1].bias, training=True
            )
            seen[6].append(model[5](model[4](model[2](h))))  # dropout sleeps
    expected = dict(before)
    for layer, values in seen.items():
        expected[f"{layer}.running_mean"] = torch.cat(values).mean(0)
        expected[f"{layer}.running_var"] = torch.cat(values).var(0)
        expected[f"{layer}.num_batches_tracked"] = torch.tensor(len(sizes))
    for key, value in model.state_dict().items():
        if training or not key.startswith("8."):
            assert_close(value, expected[key], msg=lambda text, key=key: f"{key}: {text}")
    assert all(p.grad is None for p in model.parameters())
    assert [module.training for module in model.modules()] == modes
    assert all(not module._forward_pre_hooks for module in model.modules())
    assert model[1].track_running_stats


def test_an_error_on_the_way_leaves_the_model_as_it_was():
    layer = nn.BatchNorm1d(4).eval()
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        precise_batch_norm(layer, [torch.randn(8, 4), torch.randn(1, 4)])
    assert_close(dict(layer.state_dict()), state)
    assert not layer.training
    assert not layer._forward_pre_hooks
