"""Every way to scale RoPE, held over a grid against transformers' own functions, in float64."""

import inspect
import itertools
import math
import random
import warnings
from contextlib import contextmanager

import pytest
import torch
import transformers
from transformers import GPTNeoXConfig, LlamaConfig
from transformers import PhimoeConfig as PhiMoEConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.phimoe.modeling_phimoe import PhimoeRotaryEmbedding

from course_utils import rope
from course_utils.rope import ROPE_TYPES, RopeWarning, rope_frequencies, rope_inv_freq

transformers.logging.set_verbosity_error()

BASES = (10_000.0, 500_000.0, 100.0)
HEAD_DIMS = (32, 64, 128)


def ours(parameters, head_dim, window=None, seq_len=None):
    """Ours without warnings: a grid holds many suspicious values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RopeWarning)
        return rope_frequencies(parameters, head_dim, window, seq_len)


def theirs(parameters, head_dim, window, seq_len=None):
    """The oracle: transformers' own function in float64, from a configuration of the kind that
    holds these parameters."""
    sizes = {
        "hidden_size": 2 * head_dim,
        "num_attention_heads": 2,
        "max_position_embeddings": window,
    }
    rope_type = parameters["rope_type"]
    if rope_type == "default":
        config = GPTNeoXConfig(
            **sizes, rope_parameters={"partial_rotary_factor": 1.0, **parameters}
        )
        with in_float64():
            return GPTNeoXRotaryEmbedding.compute_default_rope_parameters(config)
    if (
        rope_type == "ntk"
    ):  # dynamic scaling by a factor of 1 scales by the ratio of the lengths, and by no more
        seq_len, rope_type = int(parameters["factor"] * window), "dynamic"
        parameters = {**parameters, "rope_type": "dynamic", "factor": 1.0}
    config = LlamaConfig(**sizes, head_dim=head_dim, rope_parameters=dict(parameters))
    with in_float64():
        return ROPE_INIT_FUNCTIONS[rope_type](config, seq_len=seq_len)


@contextmanager
def in_float64():
    """Where transformers asks for float32, by any of its names, it gets float64."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("float", "float32"):
            patch.setattr(torch, name, torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def assert_theirs(parameters, head_dim, window, seq_len=None):
    (inv_freq, attention_factor), (expected, expected_factor) = (
        function(parameters, head_dim, window, seq_len) for function in (ours, theirs)
    )
    # Only the rounding of a few float64 operations: any detour through float32 would leave 1e-8.
    torch.testing.assert_close(inv_freq, expected, rtol=1e-13, atol=0)
    assert abs(attention_factor - expected_factor) < 1e-9


def longrope_lists(pairs):
    draw = random.Random(pairs)
    long = sorted(draw.uniform(1, 40) for _ in range(pairs))
    return {"short_factor": [round(value**0.2, 3) for value in long], "long_factor": long}


# rope_type -> (its keys, every combination of which is tried; sets of further options; windows;
# lengths)
NOTHING = ({},)
YARN_OPTIONS = (
    {},
    {"truncate": False},
    {"beta_fast": 16, "beta_slow": 2.0},
    {"beta_fast": 4.0, "beta_slow": 4.0},
    {"attention_factor": 1.37, "mscale": 0.7, "mscale_all_dim": 1.0},
    {"mscale": 0.707},
    {"mscale_all_dim": 1.0},
    *({"mscale": 0.707, "mscale_all_dim": of_all} for of_all in (1.3, 0.0)),
    {"mscale": 1.0, "mscale_all_dim": 1.0},
)
LLAMA3_TURNS = [
    {"low_freq_factor": low, "high_freq_factor": high}
    for low, high in ((1.0, 4.0), (0.125, 0.5), (2, 32))
]
ORIGINAL = "original_max_position_embeddings"
GRID = {
    "default": ({}, NOTHING, (2048,), (None,)),
    "linear": ({"factor": (1.0, 2.5, 8, 32.0)}, NOTHING, (2048,), (None,)),
    "ntk": ({"factor": (1.0, 2.5, 8, 32.0)}, NOTHING, (2048,), (None,)),
    "dynamic": (
        {"factor": (2.0, 8)},
        NOTHING,
        (128, 8192),
        (None, 100, 128, 129, 8192, 8193, 32_768),
    ),
    "yarn": ({"factor": (2.0, 32.0), ORIGINAL: (128, 4096)}, YARN_OPTIONS, (8192,), (None,)),
    "llama3": ({"factor": (8.0, 32), ORIGINAL: (128, 8192)}, LLAMA3_TURNS, (131_072,), (None,)),
    "longrope": (
        {ORIGINAL: (4096,)},
        ({}, {"factor": 8.0}, {"factor": 1.0}, {"attention_factor": 1.19}),
        (131_072,),
        (None, 4096, 4097),
    ),
    "proportional": ({"factor": (None, 4.0)}, NOTHING, (8192,), (None,)),
}


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("rope_type", ROPE_TYPES)
def test_frequencies_and_attention_factor_are_those_of_transformers(rope_type, head_dim):
    keys, options, windows, lengths = GRID[rope_type]
    shares = (1.0, 0.5, 0.25) if rope_type == "default" else (1.0, 0.5)
    if rope_type == "proportional":
        shares = (None, 0.0, 0.25, 0.3, 1.0)
    for base, share, *values in itertools.product(BASES, shares, *keys.values()):
        given = dict(zip(keys, values, strict=True), rope_theta=base, partial_rotary_factor=share)
        for extra, window, length in itertools.product(options, windows, lengths):
            lists = longrope_lists(int(head_dim * share) // 2) if rope_type == "longrope" else {}
            parameters = {"rope_type": rope_type, **given, **extra, **lists}
            sound = {key: value for key, value in parameters.items() if value is not None}
            assert_theirs(sound, head_dim, window, length)


LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
DYNAMIC = {**LINEAR, "rope_type": "dynamic"}
YARN = {**LINEAR, "rope_type": "yarn", ORIGINAL: 1024}
LLAMA3 = {**YARN, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, ORIGINAL: 1024, **longrope_lists(32)}


@pytest.mark.parametrize(
    ("parameters", "head_dim", "window", "seq_len"),
    [
        # an odd rotary dimension is rounded up: 0.3 of 64 is 19
        *(
            ({**given, "partial_rotary_factor": 0.3}, 64, 4096, 4097)
            for given in (LINEAR, DYNAMIC, LLAMA3, {**LONGROPE, **longrope_lists(10)})
        ),
        ({**YARN, ORIGINAL: 6}, 32, 24, None),  # no pair makes a turn: a ramp without a slope
        # a ramp that runs backwards
        ({**YARN, "rope_theta": 10.0, ORIGINAL: 10**6}, 32, 4 * 10**6, None),
        ({key: YARN[key] for key in YARN if key != ORIGINAL}, 64, 4096, None),
        ({key: LLAMA3[key] for key in LLAMA3 if key != ORIGINAL}, 64, 4096, None),
        ({key: LONGROPE[key] for key in LONGROPE if key != ORIGINAL}, 64, 4096, None),
    ],
)
def test_at_the_edges_too_frequencies_are_those_of_transformers(
    parameters, head_dim, window, seq_len
):
    assert_theirs(parameters, head_dim, window, seq_len)


def test_phimoe_has_attention_factors_of_its_own():
    own = {"short_mscale": 1.1, "long_mscale": 1.3}
    parameters = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        ORIGINAL: 128,
        **own,
        **longrope_lists(16),
    }
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": 1024}
    model = PhimoeRotaryEmbedding(PhiMoEConfig(**sizes, rope_parameters=dict(parameters)))
    for length, is_long in ((128, False), (129, True)):
        inv_freq, attention_factor = ours(parameters, 32, 1024, length)
        cos, sin = model(torch.zeros(1), torch.arange(length)[None])
        torch.testing.assert_close(
            torch.hypot(cos, sin), torch.full_like(cos, attention_factor), rtol=1e-5, atol=0
        )
        # Its own frequencies are no oracle: transformers 5.23 never reads the long factors of
        # PhiMoE.
        assert torch.equal(inv_freq, ours(parameters, 32, 1024)[0]) != is_long


# -- what the methods do ---------------------------------------------------------------------------


def test_each_method_is_the_function_of_its_name_and_its_keys_are_the_arguments():
    for parameters in (LINEAR, {**LINEAR, "rope_type": "ntk"}, DYNAMIC, YARN, LLAMA3, LONGROPE):
        method = getattr(rope, parameters["rope_type"])
        takes = inspect.signature(method).parameters
        keys = {key: value for key, value in parameters.items() if key in takes}
        if "seq_len" in takes:
            keys |= {"seq_len": 5000, "max_position_embeddings": 4096}
        expected, attention_factor = method(64, 1e4, **keys)
        inv_freq, factor = rope_frequencies(parameters, 64, 4096, 5000)
        assert torch.equal(inv_freq, expected)
        assert factor == attention_factor


def test_llama3_between_equal_factors_is_a_step_without_nan():
    # of 4 pairs, 1, 1/2, 1/4, 1/8 per position, the third makes one turn, to rounding
    length = 2 * math.pi * 4
    assert rope.yarn_paper_ramp(rope_inv_freq(8, 16.0), length, 1.0, 1.0).tolist() == [
        1.0,
        1.0,
        1.0,
        0.0,
    ]


# -- errors and warnings ---------------------------------------------------------------------------


def without(parameters, *keys):
    return {name: value for name, value in parameters.items() if name not in keys}


@pytest.mark.parametrize(
    ("parameters", "lacking"),
    [
        (LINEAR, None),
        (YARN, None),
        (LLAMA3, None),
        (DYNAMIC, "max_position_embeddings"),
        (LONGROPE, "factor"),
    ]
    + [(without(given, ORIGINAL), ORIGINAL) for given in (YARN, LLAMA3, LONGROPE)],
)
def test_a_length_may_be_left_out_where_the_parameters_carry_it_and_is_named_where_they_do_not(
    parameters, lacking
):
    if lacking is None:
        rope_frequencies(parameters, 64)
        return
    with pytest.raises(ValueError, match=lacking):
        rope_frequencies(parameters, 64)
    within = {**parameters, "max_position_embeddings": 4096}
    assert torch.equal(ours(within, 64)[0], ours(parameters, 64, 4096)[0])


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        *(
            (bad, "rope_type")
            for bad in ({"rope_type": "nkt"}, {"rope_type": ["yarn"]}, {"full_attention": LINEAR})
        ),
        ("yarn", "rope_parameters"),
        *(
            (without(given, "factor"), "factor must be given")
            for given in (LINEAR, DYNAMIC, YARN, LLAMA3)
        ),
        *(
            ({**given, "factor": bad}, "factor must be a number of at least 1")
            for given in (LINEAR, {**LINEAR, "rope_type": "ntk"}, DYNAMIC, YARN, LLAMA3, LONGROPE)
            for bad in (0.5, "4", math.nan, math.inf, 10**400)
        ),
        ({"rope_type": "proportional", "factor": 0.5}, "factor"),
        *(({**LINEAR, "rope_theta": bad}, "rope_theta") for bad in (0, 1, "big")),
        *(
            ({**LINEAR, "partial_rotary_factor": bad}, "partial_rotary_factor")
            for bad in (-0.5, 1.5, 0.01, "x")
        ),
        *(
            ({**given, ORIGINAL: bad}, ORIGINAL)
            for given in (YARN, LLAMA3, LONGROPE)
            for bad in (1, "x")
        ),
        *(({**YARN, key: 0}, key) for key in ("beta_fast", "beta_slow", "attention_factor")),
        ({**YARN, "beta_fast": 1, "beta_slow": 32}, "beta_fast"),
        *(({**YARN, key: "1"}, key) for key in ("mscale", "mscale_all_dim")),
        *(
            (without(LLAMA3, key), f"{key} must be given")
            for key in ("low_freq_factor", "high_freq_factor")
        ),
        ({**LLAMA3, "low_freq_factor": 0}, "low_freq_factor"),
        ({**LLAMA3, "high_freq_factor": 0.5}, "high_freq_factor"),
        ({**LONGROPE, "attention_factor": -1.0}, "attention_factor"),
        *(
            (without(LONGROPE, key), f"{key} must be given")
            for key in ("short_factor", "long_factor")
        ),
        *(
            ({**LONGROPE, key: bad}, key)
            for key in ("short_factor", "long_factor")
            for bad in ([1.0], [0.0] * 32, 2.0)
        ),
        ({**LONGROPE, ORIGINAL: 8192}, "factor"),
        ({**LINEAR, "max_position_embeddings": -4}, "max_position_embeddings"),
    ],
)
def test_a_missing_or_impossible_value_is_an_error_that_names_the_key(parameters, key):
    with pytest.raises(ValueError, match=key):
        ours(parameters, 64, None if "max_position_embeddings" in parameters else 4096)


@pytest.mark.parametrize("parameters", [LINEAR, {"rope_type": "proportional"}])
def test_a_head_must_hold_whole_pairs(parameters):
    for head_dim in (63, 0):
        with pytest.raises(ValueError, match=f"whole pairs within the head: .*head_dim={head_dim}"):
            rope_frequencies(parameters, head_dim)
    with pytest.raises(ValueError, match="head_dim must be a whole number"):
        rope_frequencies(parameters, "64")


@pytest.mark.parametrize(
    ("parameters", "window", "message"),
    [
        ({**LINEAR, "betafast": 3}, 4096, "betafast: not known"),
        ({"rope_type": "default", "factor": 4.0}, 4096, "factor: not known"),
        (YARN, 8192, r"factor=4 disagrees with .* = 8192 / 1024 = 8"),
        ({**LONGROPE, "factor": 32.0}, 4096, r"factor=32 disagrees with .* = 4096 / 1024 = 4"),
        ({**YARN, "mscale": 0.707}, 4096, "mscale and mscale_all_dim have no effect"),
        *(
            (without(given, ORIGINAL), 4096, f"{ORIGINAL} is missing")
            for given in (YARN, LLAMA3, LONGROPE)
        ),
    ],
)
def test_a_suspicious_value_is_a_warning_that_says_what_was_assumed(parameters, window, message):
    with pytest.warns(RopeWarning, match=message) as caught:
        rope_frequencies(parameters, 64, window)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # it points at the caller


@pytest.mark.parametrize(
    ("parameters", "window"),
    [
        (None, 4096),
        ({"rope_type": "default", "factor": None, "mrope_section": [8, 12, 12]}, None),
        ({"type": "linear", "factor": 4.0, ORIGINAL: 1024}, 4096),
        (YARN, 4096),
        (YARN, 1024),  # Qwen's advice: the file keeps its window
        ({**LLAMA3, "factor": 8.0}, 131_072),  # Llama 3.1's factor is not the ratio of its lengths
        (LONGROPE, 32_768),
    ],
)
def test_sound_parameters_pass_without_a_word(parameters, window):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rope_frequencies(parameters, 64, window)
