"""The learner's parts in a model: a rope that turns neighbours is put in the order of the weights,
and what is written has a name."""

import copy

import pytest
import torch
from accepted_answers import NEIGHBOURS
from transformers import LlamaConfig, LlamaForCausalLM

from chapters import yours
from chapters.c17_a_real_llama import in_halves, whose
from course_utils import progress
from course_utils.swap import compare_layers, swap


@pytest.fixture
def rope(tmp_path, monkeypatch):
    """A learner's rope that turns neighbours, as ``yours`` gives it back."""
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    progress.keep("rope", NEIGHBOURS)
    return yours.rope


def first_to_differ(rope):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        config = LlamaConfig(vocab_size=32, initializer_range=0.2, **sizes, **heads)
        original = LlamaForCausalLM(config).eval()
    own = copy.deepcopy(original)
    swap(own, rope=rope)
    return compare_layers(own, original, input_ids=torch.arange(32)[None]).first


def test_neighbours_are_turned_in_a_model_made_for_halves(rope, capsys):
    assert "interleaved" in yours.convention_of(rope)
    assert first_to_differ(rope) == "model.layers.0.self_attn.o_proj"
    capsys.readouterr()
    assert first_to_differ(in_halves(rope)) is None
    assert "It turns neighbours" in capsys.readouterr().out


def test_a_rope_in_halves_is_left_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    progress.reset()
    course = yours.rope
    capsys.readouterr()
    assert in_halves(course) is course
    assert not capsys.readouterr().out


def test_what_writes_is_named(rope):
    course = yours.rms_norm
    assert whose({"rope": in_halves(rope)}) == "your parts"
    assert whose({"rms_norm": course}) == "the course's parts"
    both = {"rms_norm": course, "rope": in_halves(rope)}
    assert whose(both) == "the course's rms_norm and your rope"
