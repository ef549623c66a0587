"""Reading config.json: published files of real models, held against what transformers makes of the
same fields."""

import copy
import importlib
import json
import sys
import warnings

import numpy as np
import pytest
import torch
import transformers
from transformers import LlamaConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from course_utils.rope import (
    RopeWarning,
    alibi_slopes,
    from_config,
    linear,
    rope_frequencies,
    rope_inv_freq,
)
from course_utils.widgets.scaling_examples import PUBLISHED as EXAMPLES

transformers.logging.set_verbosity_error()


def sized(*sizes, **others):
    names = ("model_type", "hidden_size", "num_attention_heads", "max_position_embeddings")
    return dict(zip(names, sizes, strict=True)) | others


def llama3_scaling(factor, high=4.0):
    turns = {"low_freq_factor": 1.0, "high_freq_factor": high}
    return {
        "rope_type": "llama3",
        "factor": factor,
        "original_max_position_embeddings": 8192,
        **turns,
    }


LINEAR = {"rope_type": "linear", "factor": 2.0}
GEMMA4_LAYERS = EXAMPLES["Gemma 4 E2B"]["text_config"]["rope_parameters"]
TINY = sized("llama", 64, 4, 256, rope_theta=1e4)
# The fields that bear on RoPE, as the models' publishers wrote them, and fields beside them that
# lead a reader astray; then other spellings.
CONFIGS = {
    "Llama 3.1 8B": EXAMPLES["Llama 3.1 8B"],
    "Qwen2.5 7B with YaRN": EXAMPLES["Qwen2.5 7B with YaRN"],
    "DeepSeek-V3": EXAMPLES["DeepSeek-V3"],
    "Pythia 70M": EXAMPLES["Pythia 70M"],
    "Phi-3 mini 128k": EXAMPLES["Phi-3 mini 128k"],
    "gpt-oss 20B": {
        **EXAMPLES["gpt-oss 20B"],
        "initial_context_length": 4096,
        "num_hidden_layers": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "Gemma 3 27B": {
        "model_type": "gemma3",
        "text_config": {**EXAMPLES["Gemma 3 27B"]["text_config"], "sliding_window_pattern": 6},
        "vision_config": {
            "hidden_size": 1152,
            "model_type": "siglip_vision_model",
            "num_attention_heads": 16,
        },
    },
    "Gemma 4 E2B": {
        "model_type": "gemma4",
        "text_config": {
            **EXAMPLES["Gemma 4 E2B"]["text_config"],
            "num_hidden_layers": 35,
            "layer_types": ["sliding_attention"] * 4 * 7 + ["full_attention"] * 7,
        },
    },
    "Llama 2 7B": sized("llama", 4096, 32, 4096, rope_scaling=None),
    "Llama 4 Scout": {
        "model_type": "llama4",
        "text_config": sized(
            "llama4_text",
            5120,
            40,
            10_485_760,
            head_dim=128,
            rope_theta=5e5,
            rope_scaling=llama3_scaling(16.0, high=1.0),
        ),
    },
    "Qwen3 8B": sized(
        "qwen3", 4096, 32, 40_960, head_dim=128, rope_theta=1_000_000, rope_scaling=None
    ),
    "OLMo 3, whose rope_scaling is for the full layers alone": sized(
        "olmo3",
        4096,
        32,
        65_536,
        rope_theta=500_000,
        rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192},
    ),
    "ModernBERT scaled, with two named bases": sized(
        "modernbert",
        768,
        12,
        8192,
        global_rope_theta=1.6e5,
        local_rope_theta=1e4,
        rope_scaling=LINEAR,
    ),
    "Hunyuan's alpha": sized(
        "hunyuan_v1_dense",
        4096,
        32,
        32_768,
        head_dim=128,
        rope_theta=1e4,
        rope_scaling={
            "alpha": 1000.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 1.0,
            "type": "dynamic",
        },
    ),
    "partial rotation outside": sized(
        "stablelm", 2560, 32, 4096, rope_theta=10_000, partial_rotary_factor=0.5
    ),
    "an image's sections": sized(
        "qwen2_vl_text",
        64,
        4,
        256,
        rope_theta=1e6,
        rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]},
    ),
    "Zamba2, whose heads have another name": sized(
        "zamba2", 3584, 32, 4096, attention_head_dim=224, attention_hidden_size=7168, rope_theta=1e4
    ),
}


def their_embedding(config):
    """The rotary module that transformers builds from the same fields."""
    text = copy.deepcopy(config.get("text_config", config))
    scaling = text.get("rope_scaling") or {}
    # LongRoPE's first name, which Phi3Config of 5.23 maps and then stumbles over
    if scaling.get("type") == "su":
        scaling["type"] = "longrope"
    model_type = text.pop("model_type")
    room = model_type.removesuffix("_text")
    module = importlib.import_module(f"transformers.models.{room}.modeling_{room}")
    (rotary_class,) = (
        value
        for name, value in vars(module).items()
        if name.endswith("RotaryEmbedding") and "Vision" not in name
    )
    return rotary_class(CONFIG_MAPPING[model_type](**text))


def silently(config, **given):
    """What is read, when not a word of warning is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return from_config(config, **given)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_gives_the_frequencies_and_the_window_that_transformers_gives(name):
    before = copy.deepcopy(CONFIGS[name])
    read, theirs = silently(CONFIGS[name]), their_embedding(CONFIGS[name])
    assert CONFIGS[name] == before
    assert read.max_position_embeddings == theirs.config.max_position_embeddings
    for layer_type in read.layers:
        prefix = "" if layer_type == "all" else f"{layer_type}_"
        inv_freq, attention_factor = read.frequencies(layer_type=layer_type)
        expected = getattr(theirs, f"{prefix}inv_freq").double()
        assert inv_freq.shape == expected.shape
        assert ((inv_freq - expected).abs() <= 3e-6 * expected).all()  # theirs are float32
        assert abs(attention_factor - getattr(theirs, f"{prefix}attention_scaling")) < 1e-9
    by_parameters = rope_frequencies(
        read.rope_parameters, read.head_dim, read.max_position_embeddings, 10_000
    )
    torch.testing.assert_close(by_parameters, read.frequencies(10_000), rtol=0, atol=0)


def test_gptj_turns_64_of_256_dimensions():
    read = silently(
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048, "rotary_dim": 64}
    )
    assert (read.head_dim, read.max_position_embeddings) == (256, 2048)
    assert torch.equal(read.frequencies()[0], rope_inv_freq(64))


@pytest.mark.parametrize(
    ("name", "factor", "trained_length"),
    [
        ("Pythia 70M", 1.0, 2048),
        ("Llama 3.1 8B", 8.0, 8192),
        ("Phi-3 mini 128k", 32.0, 4096),
        ("Gemma 3 27B", 8.0, 32_768),  # as the paper says and the file does not
        ("Hunyuan's alpha", 1000.0, 32_768),
    ],
)
def test_a_file_tells_from_which_length_a_model_was_stretched(name, factor, trained_length):
    main = silently(CONFIGS[name]).main
    assert (main.factor, main.trained_length) == (factor, trained_length)


@pytest.mark.parametrize(
    "name", ["Llama 3.1 8B", "Phi-3 mini 128k", "gpt-oss 20B", "Gemma 3 27B", "Gemma 4 E2B"]
)
def test_a_file_saved_by_todays_transformers_is_read_as_the_one_it_was_made_from(name, tmp_path):
    published = copy.deepcopy(EXAMPLES[name])
    if "su" in str(published.get("rope_scaling", {}).get("type")):
        published["rope_scaling"]["type"] = "longrope"
    CONFIG_MAPPING[published.pop("model_type")](**published).save_pretrained(tmp_path)
    saved, original = silently(tmp_path), silently(EXAMPLES[name])
    assert saved.max_position_embeddings == original.max_position_embeddings
    assert saved.layers.keys() == original.layers.keys()
    for layer_type, layer in saved.layers.items():
        assert layer.head_dim == original.layers[layer_type].head_dim
        assert torch.equal(layer.frequencies()[0], original.frequencies(None, layer_type)[0])


@pytest.mark.parametrize(
    "model_type",
    [
        "cohere",
        "deepseek_v2",
        "falcon",
        "gemma3n_text",
        "gpt_oss",
        "llama4_text",
        "phimoe",
        "qwen3_next",
        "smollm3",
    ],
)
def test_what_a_file_leaves_out_is_what_transformers_takes(model_type):
    read, theirs = from_config({"model_type": model_type}), CONFIG_MAPPING[model_type]()
    assert read.max_position_embeddings == getattr(theirs, "max_position_embeddings", None)
    parameters = theirs.rope_parameters
    for name, part in parameters.items() if len(read.layers) > 1 else [("all", parameters)]:
        assert read.layers[name].parameters == {
            key: value for key, value in part.items() if key != "type"
        }


def test_a_text_model_two_parts_deep_is_read():
    text = sized("qwen2_5_omni_text", 3584, 28, 32_768, rope_theta=1_000_000.0)
    read = silently(
        {"model_type": "qwen2_5_omni", "thinker_config": {"rope_theta": 5.0, "text_config": text}}
    )
    assert read.rope_parameters["rope_theta"] == 1_000_000.0
    llava = silently(
        {
            "model_type": "llava",
            "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
        }
    )
    assert (llava.head_dim, llava.max_position_embeddings, llava.model_type) == (128, 4096, "llama")


@pytest.mark.parametrize(
    "part",
    [
        {**LINEAR, "rope_theta": 500.0},
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 500.0},
        {"rope_parameters": {**LINEAR, "rope_theta": 500.0}},
    ],
)
def test_a_part_of_a_file_is_enough_with_a_head_dimension_and_needs_no_transformers(
    part, monkeypatch
):
    monkeypatch.setitem(sys.modules, "transformers.models.auto.configuration_auto", None)
    read = silently(part, head_dim=64, max_position_embeddings=512)
    assert (read.head_dim, read.max_position_embeddings) == (64, 512)
    assert torch.equal(read.frequencies()[0], rope_inv_freq(64, 500.0) / 2)
    assert silently({**part, "hidden_size": 64, "num_attention_heads": 4}).head_dim == 16
    with pytest.raises(ImportError):
        from_config({**TINY, **part})


def test_a_pasted_dictionary_of_layer_types_is_read_too():
    read = silently(GEMMA4_LAYERS, head_dim=256)
    assert list(read.layers) == ["full_attention", "sliding_attention"]
    assert read.max_position_embeddings is None
    other = {
        "sliding": {"rope_type": "default", "rope_theta": 1e4},
        "hybrid": {"rope_type": "default"},
    }
    read = silently({"head_dim": 16, "rope_parameters": other})
    assert read.main is read.layers["sliding"]  # none is full_attention


def test_what_the_file_says_wins_over_what_is_given():
    for name, head_dim, window in (
        ("Qwen3 8B", 128, 40_960),
        ("Llama 2 7B", 128, 4096),
    ):
        read = silently(CONFIGS[name], head_dim=32, max_position_embeddings=7)
        assert (read.head_dim, read.max_position_embeddings) == (head_dim, window)
    read = silently(
        {"model_type": "llama", "rope_theta": 1e4}, head_dim=32, max_position_embeddings=77
    )
    assert (read.head_dim, read.max_position_embeddings) == (32, 77)


def test_a_path_its_directory_and_its_contents_are_read_alike(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(EXAMPLES["Llama 3.1 8B"]), encoding="utf-8")
    expected = silently(EXAMPLES["Llama 3.1 8B"]).frequencies()[0]
    for config in (path, str(path), tmp_path, path.read_text()):
        assert torch.equal(silently(config).frequencies()[0], expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"rope_theta": 1e4,', "config must be JSON: "),
        ({}, "head_dim must be given, or hidden_size and num_attention_heads"),
        ({"head_dim": 64, "factor": 8.0, "low_freq_factor": 1.0}, "rope_type must be one of"),
        ({**TINY, "hidden_size": "big"}, "model_type='llama'.*hidden_size"),
        ({**TINY, "num_attention_heads": 0}, "model_type='llama'"),
        ({**TINY, "head_dim": 15}, "head_dim.*15"),
        ({**TINY, "max_position_embeddings": -1}, "max_position_embeddings must be"),
        *(
            ({**TINY, key: "yarn"}, "rope_parameters")
            for key in ("rope_scaling", "rope_parameters")
        ),
        ({"head_dim": 64, "rope_scaling": "yarn"}, "rope_parameters must be a dictionary"),
        (
            {
                "head_dim": 16,
                "rope_parameters": {**GEMMA4_LAYERS, "sliding_attention": {"rope_type": "linear"}},
            },
            "sliding_attention: factor must be given",
        ),
        ({"model_type": "gpt2"}, "model_type='gpt2' has no rotary embeddings"),
    ],
)
def test_a_bad_value_is_an_error_that_names_it(config, message):
    with pytest.raises(ValueError, match=message):
        from_config(config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**TINY, "rope_mystery": 3, "MyRope": 1}, "MyRope, rope_mystery: not known and ignored"),
        (
            {**TINY, "rope_scaling": {"type": "yarn", "factor": 4.0}},
            "original_max_position_embeddings is missing for rope_type='yarn': "
            "max_position_embeddings=256 is taken",
        ),
        (
            sized("mystery", 64, 4, 256, rope_scaling=LINEAR),
            "model_type='mystery' is not known to transformers",
        ),
        (
            {
                "head_dim": 8,
                "rope_parameters": {**GEMMA4_LAYERS, "sliding_attention": {**LINEAR, "x": 1}},
            },
            "sliding_attention: x: not known for rope_type='linear'",
        ),
    ],
)
def test_a_suspicious_file_is_read_with_a_warning_that_says_what_was_assumed(config, message):
    with pytest.warns(RopeWarning, match=message) as caught:
        read = from_config(config)
    assert [str(warning.message) for warning in caught] == list(read.warnings)
    assert len(read.warnings) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "config", [TINY, {**TINY, "rope_scaling": {"type": "dynamic", "factor": 4.0}}]
)
def test_a_file_becomes_a_module_that_rotates_as_transformers_model_does(config):
    read = from_config(config)
    theirs = LlamaRotaryEmbedding(
        LlamaConfig(**{key: value for key, value in config.items() if key != "model_type"})
    )
    x = torch.randn(1, 2, 600, read.head_dim, generator=torch.Generator().manual_seed(0))
    expected = apply_rotary_pos_emb(x, x, *theirs(x, torch.arange(600)[None]))[0]
    # theirs are angles in float32
    torch.testing.assert_close(read.rotary()(x), expected, atol=2e-4, rtol=0)


def test_each_type_of_layer_has_its_module_and_no_repr_shows_an_address():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RopeWarning)
        read = from_config({"head_dim": 16, "rope_parameters": GEMMA4_LAYERS})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for layer_type in GEMMA4_LAYERS:
            ours, theirs = (
                read.rotary(layer_type=layer_type).frequencies(),
                read.frequencies(layer_type=layer_type),
            )
            assert torch.equal(ours[0], theirs[0])
    for of_a_layer in (read.rotary, read.frequencies):
        with pytest.raises(ValueError, match="one of full_attention, sliding_attention: got 'all'"):
            of_a_layer(layer_type="all")
    assert " at 0x" not in repr(read)


def test_a_name_on_a_hub_is_no_path():
    with pytest.raises(
        FileNotFoundError, match="names on a hub are not fetched: got 'somebody/some-model'"
    ):
        from_config("somebody/some-model")


def test_numbers_of_numpy_are_numbers():
    assert torch.equal(
        linear(16, np.float32(100), factor=np.float32(2))[0], linear(16, 100, factor=2)[0]
    )
    numpy = {"rope_type": "linear", "factor": np.float32(2)}
    assert torch.equal(rope_frequencies(numpy, np.int64(16))[0], rope_frequencies(LINEAR, 16)[0])
    assert torch.equal(alibi_slopes(np.int64(6)), alibi_slopes(6))
