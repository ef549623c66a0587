"""diagnose over 2,000 strange layers, and over all norms of the installed transformers."""

import pytest
from strange_layers import (
    StrangeRotation,
    norms_of_transformers,
    tally,
    tally_of_transformers,
)

from chapters.c19_other_peoples_code.strange_layers import StrangeNorm


@pytest.mark.parametrize("kind", [StrangeNorm, StrangeRotation])
def test_of_a_thousand_layers_with_random_conventions_nearly_all_is_found(kind):
    counts, others = tally(kind(seed) for seed in range(1000, 2000))
    assert counts["wrong"] + counts["unsure"] <= 0.03 * sum(counts.values()), others
    assert not counts["wrong"], others


def test_all_norms_of_transformers_are_what_their_source_says():
    counts, others = tally_of_transformers(norms_of_transformers())
    assert counts["right"] >= 0.97 * sum(counts.values()), others
