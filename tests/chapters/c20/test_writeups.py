"""The write-ups' layers as they are printed, and the record of the one in TensorFlow."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from chapters.c20_on_trial.tensorflow_layer import PUBLISHED, REQUIREMENTS
from chapters.c20_on_trial.writeup_layer_norms import LAYERS
from chapters.contents import chapter_of


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# what each divides a row [−a, a] by, whose mean is 0 and whose variance is a², and whether it
# averages over all dims
WRITE_UPS = {
    "Rico": (lambda a: math.sqrt(a * a + 1e-8), True),
    "Road to ML": (lambda a: math.sqrt(a * a + 1e-5), False),
    "rich-junwang": (lambda a: math.sqrt(a * a + 1e-12), False),
    "labml.ai": (lambda a: math.sqrt(a * a + 1e-5), True),
    "Clay": (lambda a: a + 1e-5, False),
}


@pytest.mark.parametrize("source", LAYERS)
def test_a_layer_divides_by_what_its_write_up_says_with_the_variance_over_n(source):
    divisor, over_all = WRITE_UPS[source]
    for a in (1e-7, 1e-4, 1e-3, 1.0, 50.0):
        y = LAYERS[source](torch.tensor([[-a, a]], dtype=torch.float64), (2,))
        assert y[0].tolist() == pytest.approx([-a / divisor(a), a / divisor(a)], rel=1e-9)
    x = random(3, 4, 5)
    normalized = F.layer_norm(x, (4, 5) if over_all else (5,))
    assert_close(LAYERS[source](x, (4, 5)), normalized, atol=1e-4, rtol=0)


def test_the_record_of_the_layer_in_tensorflow_is_of_the_published_code():
    record = json.loads((chapter_of("20").folder / "tensorflow_layer.json").read_text())
    assert record["source"] == PUBLISHED
    assert [
        f"{name}=={record['versions'][name.split('-')[0]]}" for name in ("tensorflow-cpu", "keras")
    ] == REQUIREMENTS
