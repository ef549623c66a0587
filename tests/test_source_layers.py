"""The five write-ups' layers: each against its formula done by hand, each part found by the input that shows it."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from course_utils.book.sources import WRITE_UPS
from course_utils.models.source_layers import LAYERS, root_of_mean_square

# what each write-up prints: the output for a row [−a, a], whose mean is 0 and whose variance is a²
BY_HAND = {
    "S0": lambda a: a / math.sqrt(a * a + 1e-8),
    "S1": lambda a: a / math.sqrt(a * a + 1e-5),
    "S2": lambda a: a / math.sqrt(a * a + 1e-12),
    "S3": lambda a: a / math.sqrt(a * a + 1e-5),
    "S4": lambda a: a / (a + 1e-5),
}


def test_each_write_up_has_its_layer():
    assert list(LAYERS) == [work.name for work in WRITE_UPS] == list(BY_HAND)


@pytest.mark.parametrize("source", LAYERS)
@pytest.mark.parametrize("a", [1e-7, 1e-4, 1e-3, 1.0, 50.0])
def test_a_layer_divides_by_what_its_write_up_says(source, a):
    y = LAYERS[source](torch.tensor([[-a, a]], dtype=torch.float64), (2,))
    assert y[0].tolist() == pytest.approx([-BY_HAND[source](a), BY_HAND[source](a)], rel=1e-9)


@pytest.mark.parametrize("source", LAYERS)
def test_the_variance_divides_by_n(source):
    x = torch.tensor([[1.0, 2.0, 6.0]], dtype=torch.float64)  # variance 14/3, and 7 with n − 1
    assert LAYERS[source](x, (3,))[0, 2].item() == pytest.approx(3 / math.sqrt(14 / 3), abs=1e-4)


@pytest.mark.parametrize(("source", "averages_over_all"), [("S0", 1), ("S1", 0), ("S2", 0), ("S3", 1), ("S4", 0)])
def test_several_dimensions_are_normalized_only_where_the_code_does_it(source, averages_over_all):
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    normalized = F.layer_norm(x, (4, 5) if averages_over_all else (5,))
    torch.testing.assert_close(LAYERS[source](x, (4, 5)), normalized, atol=1e-4, rtol=0)


@pytest.mark.parametrize("source", LAYERS)
def test_weight_and_bias_come_last(source):
    x, weight, bias = torch.tensor([[-1.0, 1.0]]), torch.tensor([2.0, 3.0]), torch.tensor([10.0, 20.0])
    torch.testing.assert_close(LAYERS[source](x, (2,), weight, bias), torch.tensor([[8.0, 23.0]]), atol=1e-4, rtol=0)
    torch.testing.assert_close(LAYERS[source](x, (2,), weight), torch.tensor([[-2.0, 3.0]]), atol=1e-4, rtol=0)


def test_only_the_raw_moments_lose_an_offset():
    x, expected = torch.tensor([[9999.0, 10001.0]]), torch.tensor([[-1.0, 1.0]])
    off = {name: (layer(x, (2,)) - expected).abs().max().item() for name, layer in LAYERS.items()}
    assert [name for name, error in off.items() if not error < 1e-3] == ["S3"]
    assert (replace(LAYERS["S3"], divisor=root_of_mean_square)(x, (2,)) - expected).abs().max() < 1e-3


def test_only_the_standard_deviation_outlives_the_square():
    loud = torch.tensor([[-300.0, 300.0]], dtype=torch.float16)
    assert [name for name, layer in LAYERS.items() if layer(loud, (2,))[0, 1] == 1] == ["S4"]


@pytest.mark.parametrize("shape", [(3,), (1, 2), ()])
def test_a_shape_that_x_does_not_end_in_is_refused(shape):
    with pytest.raises(ValueError, match=r"x must end in normalized_shape: got x of shape \(2,\)"):
        LAYERS["S0"](torch.ones(2), shape)
