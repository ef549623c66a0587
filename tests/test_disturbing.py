"""A disturbance makes evidence false that can be, and no other."""

import torch
from soak.disturbing import Disturber


def test_a_disturbance_makes_evidence_false_that_can_be_and_no_other(tried):
    cell = """
x = torch.arange(1, 5) / 4
def twice(x):
    return 2 * x
claims.test("warm", torch.equal(twice(x), x + x))
claims.test("dry", (twice(x) - twice(x)).abs().max() < 1e-6)
"""
    found = {key: kind for key, _, kind in Disturber({"claims": tried, "torch": torch}).run(cell)}
    assert found == {"warm": "factors", "dry": ""}
