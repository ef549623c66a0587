"""decoder: sizes that cannot work are refused when the model is made."""

import pytest
import torch

from course_utils.decoder import Decoder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, "heads must divide width: got heads=0, width=128"),
        ({"position": "t5", "window": 16}, "window must be above 16 for position='t5': got 16"),
    ],
)
def test_an_impossible_size_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Decoder(8, **options)


def test_the_smallest_window_of_t5_buckets_works():
    assert Decoder(8, position="t5", window=17)(torch.zeros(1, 20, dtype=torch.long)).shape == (1, 20, 8)
