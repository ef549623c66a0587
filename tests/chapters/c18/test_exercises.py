"""The exercise of chapter 18: a softmax with a sink in every right form."""

import torch
import transformers
from naming import assert_passes

from chapters import check

transformers.logging.set_verbosity_error()


def test_sink_softmax_takes_every_right_form():
    def gate(scores, sinks):
        share = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sinks[:, None, None])
        return (scores.softmax(-1) * share).nan_to_num(0.0)  # no key is open: the sink has all

    def stable(scores, sinks):
        sinks = sinks[:, None, None]
        largest = torch.maximum(scores.amax(-1, keepdim=True), sinks)
        powers = (scores - largest).exp()
        return powers / (powers.sum(-1, keepdim=True) + (sinks - largest).exp())

    for right in (gate, stable):
        assert_passes(check.sink_softmax, right)
