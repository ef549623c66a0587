"""Chapter 15: transformers' answers pass, and half an answer is told what of it is right."""

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


def test_what_transformers_answers_passes_and_its_rounding_is_remarked_on():
    report = check.rope_frequencies(by_transformers, record=False)
    assert report.passed, f"{report}\n{report.table()}"
    assert any("rounded to float32" in remark for remark in report.remarks)


def test_a_type_that_is_not_written_yet_leaves_word_of_what_is_right_already():
    def so_far(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ("linear", "dynamic", "yarn"):
            raise ValueError(f"unknown rope_type {rope_parameters['rope_type']!r}")
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    report = check.rope_frequencies(so_far, record=False)
    assert not report.passed
    assert "ValueError: unknown rope_type 'llama3'" in report.message
    assert report.right_already[:2] == ("linear", "dynamic")
