"""The widget of chapter 12: the rounds of a scan."""

import torch

from chapters.c12_scan import widgets as scan


def test_after_each_round_a_step_is_all_the_steps_joined_that_the_circle_counts(figures):
    widget = scan.scan_rounds()
    for state, figure in figures("scan_rounds", "scanFigure", 100):
        widget.state = state
        steps = torch.arange(state["length"])
        assert torch.equal(widget.x, (steps - torch.tensor(figure["first"][-1]) + 1).float())
        a, b = torch.randn(2, state["length"], dtype=torch.float64)
        joined = list(zip(a, b, strict=True))
        for pairs in scan.rounds_of(state["method"], state["length"])[: state["done"]]:
            before = list(joined)
            for earlier, later in pairs:
                (a0, b0), (a1, b1) = before[earlier], before[later]
                joined[later] = a1 * a0, a1 * b0 + b1
        for step, first in enumerate(figure["first"][-1]):
            product, state_at = torch.ones(1).double(), torch.zeros(1).double()
            for t in range(first, step + 1):
                product, state_at = a[t] * product, a[t] * state_at + b[t]
            torch.testing.assert_close(torch.stack(joined[step]), torch.cat([product, state_at]))
        if state["done"] == len(figure["rounds"]):
            assert figure["complete"] == state["length"]
