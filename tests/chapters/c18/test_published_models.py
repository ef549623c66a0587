"""A published configuration read layer by layer, against what transformers' classes and files say
of each layer."""

import copy
import json
from collections import Counter

import pytest
import torch
import transformers
from model_types import assert_read_or_refused
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from chapters.c18_models_of_today.published_models import PUBLISHED, Layer, layer_table, read_layers
from course_utils.rope import from_config, rope_inv_freq
from course_utils.rope.config import as_transformers, text_part
from course_utils.widgets.scaling import reading
from course_utils.widgets.scaling_examples import PUBLISHED as ROPE_PARTS

transformers.logging.set_verbosity_error()
LLAMA = {
    "model_type": "llama",
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
}


def read(base="Llama 3.1 8B", **changes):
    return read_layers({**text_part(PUBLISHED[base]), "num_hidden_layers": 4, **changes})


def test_the_files_agree_with_those_of_the_widget():
    shared = PUBLISHED.keys() & ROPE_PARTS.keys()
    assert len(shared) == 5
    for name in shared:
        whole, part = text_part(PUBLISHED[name]), text_part(ROPE_PARTS[name])
        assert part.items() <= whole.items(), name


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_layer_sees_as_far_as_its_configuration_says(name):
    config, layers = as_transformers(text_part(PUBLISHED[name])), read_layers(PUBLISHED[name])
    assert [layer.index for layer in layers] == list(range(config.num_hidden_layers))
    for layer in layers:
        kind = getattr(config, "layer_types", None) or ["full_attention"] * len(layers)
        windows = {
            "sliding_attention": "sliding_window",
            "chunked_attention": "attention_chunk_size",
        }
        window = windows.get(kind[layer.index])
        wanted = f"{getattr(config, window):,}" if window else "all"
        assert layer.window == (getattr(config, window) if window else None)
        assert layer.sees.removeprefix("chunks of ") == wanted
        assert layer.sees.startswith("chunks") == (kind[layer.index] == "chunked_attention")


@pytest.mark.parametrize("name", ["gpt-oss 20B", "OLMo 3 7B", "Phi-3 mini 128k", "Llama 3.1 8B"])
def test_the_scale_counts_the_factor_in_cosines_and_sines(name):
    file = from_config(PUBLISHED[name])
    for layer in read_layers(PUBLISHED[name]):
        kind = "full_attention" if layer.sees == "all" else "sliding_attention"
        _, factor = (file.layers.get(kind) or file.layers["all"]).frequencies(2**22)
        assert layer.scale == pytest.approx(factor**2, abs=1e-4)


def test_without_its_tuning_llama_4_has_no_temperature():
    for tuned in (True, False):
        *_, last = read("Llama 4 Scout", attn_temperature_tuning=tuned)
        assert (last.temperature > 1) == tuned


@pytest.mark.parametrize(
    "model_type", ["afmoe", "beam", "cohere2", "exaone4", "flint", "muse_glimmer_text", "smollm3"]
)
def test_from_config_names_the_layers_that_are_seen_to_have_no_positions(model_type):
    file = {"model_type": model_type, "num_hidden_layers": 6}
    without = tuple(layer.index for layer in read_layers(file) if not layer.frequencies)
    assert from_config(file).without_positions == without != ()


def test_without_any_window_all_layers_of_cohere_and_none_of_exaone_are_without_positions():
    no_window = {
        "num_hidden_layers": 2,
        "sliding_window": None,
        "layer_types": ["full_attention"] * 2,
    }
    for model_type, without in (("cohere2", (0, 1)), ("exaone4", ())):
        assert from_config({"model_type": model_type, **no_window}).without_positions == without
    assert all(layer.frequencies for layer in read_layers({"model_type": "exaone4", **no_window}))
    pasted = {"config": json.dumps(PUBLISHED["Command R7B"]), "head_dim": 64, "window": 64}
    assert (
        "nothing of this is for the 8 layers without positions: 3, 7, 11, …"
        in reading(pasted)["remarks"]
    )


def test_pairs_and_shares_are_found_whatever_the_layout():
    partial = read("GLM-4 9B (0414)", partial_rotary_factor=0.25)[0]  # interleaved pairs
    torch.testing.assert_close(
        torch.tensor(partial.frequencies).double(), rope_inv_freq(32, 1e4), rtol=1e-3, atol=0
    )
    neox = read_layers({**ROPE_PARTS["Pythia 70M"], "num_hidden_layers": 2})
    torch.testing.assert_close(
        torch.tensor(neox[1].frequencies).double(), rope_inv_freq(16, 1e4), rtol=1e-3, atol=0
    )
    assert (neox[0].norms, neox[0].head_dim) == ("layer norm, pre", 64)


def test_longrope_depends_on_the_length():
    phi = {**ROPE_PARTS["Phi-3 mini 128k"], "num_hidden_layers": 1}
    for length in (4096, 2**20):
        measured = torch.tensor(read_layers(phi, length)[0].frequencies).double()
        wanted = from_config(phi).frequencies(length)[0].sort(descending=True).values
        torch.testing.assert_close(measured, wanted, rtol=1e-2, atol=0)


def test_a_null_is_not_a_missing_key_and_nothing_given_is_changed():
    file = {**copy.deepcopy(PUBLISHED["Qwen3 8B"]), "num_hidden_layers": 1, "sliding_window": None}
    before, state = copy.deepcopy(file), torch.get_rng_state()
    assert read_layers(file) == read_layers(file)
    assert file == before
    assert torch.get_rng_state().equal(state)
    assert as_transformers(text_part(file)).sliding_window is None


def test_a_file_that_nobody_reads_is_named():
    with pytest.raises(
        ValueError, match="model_type must be one that transformers knows: got 'nobody'"
    ):
        read_layers({**LLAMA, "model_type": "nobody"})
    with pytest.raises(ValueError, match="model_type='llama'"):
        read_layers({**LLAMA, "hidden_size": "wide"})


REFUSED = {
    "bert": "it attends to later tokens",
    "bloom": "its code does not let its attention be exchanged",
    "gptj": "its code does not let its attention be exchanged",
    "bart": "it is an encoder with a decoder",
}


@pytest.mark.parametrize("model_type", REFUSED)
def test_a_model_that_is_none_of_these_is_refused_in_a_sentence(model_type):
    with pytest.raises(ValueError, match=REFUSED[model_type]):
        read_layers({"model_type": model_type})


def test_one_in_twelve_causal_model_types_is_read_layer_by_layer_or_refused_in_a_sentence():
    """All of them in tests/soak."""
    assert_read_or_refused(list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)[::12])


@pytest.mark.parametrize(
    ("model_type", "kinds"),
    {
        "kimi_linear": {"a state": 21, "all": 6},
        "falcon_h1": {"all, a state": 32},
        "deepseek_v32": {"2,048 chosen": 61},
        "gpt2": {"all": 12},
    }.items(),
)
def test_what_mixes_tokens_is_named(model_type, kinds):
    layers = read_layers({"model_type": model_type})
    seen = Counter(", ".join(filter(None, (one.sees, one.besides))) for one in layers)
    assert kinds.items() <= seen.items()


@pytest.mark.parametrize(
    ("depth", "full", "said"),
    [
        (6, range(6), {"all 6"}),
        (12, [3, 7, 11], {"all but 3, 7, 11 (9)", "3, 7, 11"}),
        (35, [5, 11, 17, 23, 29, 34], {"all but 5, 11, …, 29, 34 (29)", "5, 11, …, 29, 34 (6)"}),
        (24, [0, 5, 11, 17, 23], {"all but 0, 5, 11, …, 23 (19)", "0, 5, 11, …, 23 (5)"}),
        (12, range(0, 12, 2), {"0, 2, …, 10 (6)", "1, 3, …, 11 (6)"}),
    ],
)
def test_the_table_names_every_layer_of_a_kind(depth, full, said):
    layers = [Layer(index, sees="all" if index in full else "128") for index in range(depth)]
    assert {row[1] for row in layer_table({"a model": layers}).rows} == said
