"""The exercises of chapter 15: right answers pass whoever wrote them, and an unknown mistake is
shown."""

import pytest
import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from chapters import check
from course_utils.rope import rope_frequencies

transformers.logging.set_verbosity_error()


def by_transformers(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    """What transformers answers: its own functions, float32; `default` and `ntk` from the nearest
    that it has."""
    parameters = {"rope_theta": 10_000.0, **rope_parameters}
    window = max_position_embeddings
    if parameters["rope_type"] == "default":
        parameters |= {"rope_type": "linear", "factor": 1.0}
    if parameters["rope_type"] == "ntk":
        seq_len = int(parameters["factor"] * window)
        parameters |= {"rope_type": "dynamic", "factor": 1.0}
    sizes = {"head_dim": head_dim, "hidden_size": 2 * head_dim, "num_attention_heads": 2}
    config = LlamaConfig(**sizes, max_position_embeddings=window)
    config.rope_parameters = parameters
    return ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=seq_len)


@pytest.mark.parametrize("right", [by_transformers, rope_frequencies])
@pytest.mark.parametrize("name", ["plain_frequencies", "rope_frequencies"])
def test_right_answers_pass_whoever_wrote_them(right, name):
    its_check = getattr(check, name)
    asked = (
        right if name == "rope_frequencies" else lambda *given, **named: right(*given, **named)[0]
    )
    report = its_check(asked, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert any("rounded to float32" in remark for remark in report.remarks) == (
        right is by_transformers
    )


def changed(condition, change):
    """The right answer, with ``change`` made to it where ``condition`` holds for the parameters."""

    def rope(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        inv_freq, factor = rope_frequencies(
            rope_parameters, head_dim, max_position_embeddings, seq_len
        )
        return change(inv_freq, factor) if condition(rope_parameters) else (inv_freq, factor)

    return rope


@pytest.mark.parametrize(
    ("rope_type", "change", "stage"),
    [
        ("yarn", lambda f, a: (f, a + 0.01), "temperature of yarn"),
        ("yarn", lambda f, a: (f.roll(1), a), "frequencies of yarn"),
        ("llama3", lambda f, a: (f, 1.01), "llama3"),
        ("longrope", lambda f, a: (torch.cat((f[:1] * 2, f[1:])), a), "lists of longrope"),
    ],
)
def test_an_unknown_mistake_is_rejected_with_an_input_that_shows_it(rope_type, change, stage):
    report = check.rope_frequencies(
        changed(lambda p: p["rope_type"] == rope_type, change), record=False
    )
    assert not report.passed
    assert report.misconception is None
    assert repr(rope_type) in report.evidence.call
    assert next(probe.stage for probe in report.probes if not probe.passed) == stage


def test_a_type_that_is_not_written_yet_leaves_word_of_what_is_right_already():
    def so_far(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ("default", "linear", "ntk"):
            raise ValueError(f"unknown rope_type {rope_parameters['rope_type']!r}")
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)[0]

    report = check.plain_frequencies(so_far, record=False)
    assert not report.passed
    assert "ValueError: unknown rope_type 'dynamic'" in report.message
    assert report.right_already == ("default", "partial rotation", "linear", "ntk")
