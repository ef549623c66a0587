"""The checks of chapter 13: right answers of many kinds, transformers' own functions among them."""

import math

import numpy as np
import pytest
import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from course_utils import check
from course_utils.rope import ROPE_TYPES, RotaryEmbedding, rope_frequencies

transformers.logging.set_verbosity_error()

CHECKS = (check.ntk_inv_freq, check.yarn_frequencies, check.rope_frequencies)


def test_far_more_than_fourteen_mistakes_are_known():
    assert len(check.rope_frequencies.catalogue) >= 60


# -- right answers -----------------------------------------------------------------------------------------------------


def by_transformers(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    """What transformers answers: its own functions, float32; `default` and `ntk` from the nearest that it has."""
    parameters = {"rope_theta": 10_000.0, **rope_parameters}
    window = max_position_embeddings
    if parameters["rope_type"] == "default":
        parameters |= {"rope_type": "linear", "factor": 1.0}
    if parameters["rope_type"] == "ntk":
        seq_len = int(parameters["factor"] * window)
        parameters |= {"rope_type": "dynamic", "factor": 1.0}
    config = LlamaConfig(
        head_dim=head_dim, hidden_size=2 * head_dim, max_position_embeddings=window, num_attention_heads=2
    )
    config.rope_parameters = parameters
    return ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=seq_len)


def loops_and_lists(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    """Pair by pair, in plain Python floats, with the formulas of the papers solved another way."""
    p, window = rope_parameters, max_position_embeddings
    kind, base, dim = p["rope_type"], p.get("rope_theta", 1e4), int(head_dim * p.get("partial_rotary_factor", 1))
    length, original = seq_len or 0, p.get("original_max_position_embeddings") or window
    factor = p.get("factor") or (window / original if kind in ("yarn", "longrope") else 1.0)
    attention = 1.0
    if kind == "yarn":
        attention = 1 + math.log(factor) / 10
        if "mscale" in p and "mscale_all_dim" in p:
            attention = (1 + p["mscale"] * math.log(factor) / 10) / (1 + p["mscale_all_dim"] * math.log(factor) / 10)
        ends = [
            math.log(original / (2 * math.pi * turns)) / math.log(base) * dim / 2
            for turns in (p.get("beta_fast", 32), p.get("beta_slow", 1))
        ]
        if p.get("truncate", True):
            ends = [math.floor(ends[0]), math.ceil(ends[1])]
        first, last = max(ends[0], 0), min(ends[1], dim - 1)
    if kind == "longrope":
        attention = math.sqrt(1 + math.log(factor, original))
    stretch = {"ntk": factor, "dynamic": factor * max(length, window) / window - factor + 1}.get(kind, 1)
    if kind not in ("default", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope", "proportional"):
        raise KeyError(kind)
    answer = []
    for k in range((head_dim if kind == "proportional" else dim) // 2):
        step = 2 * k / (head_dim if kind == "proportional" else dim)
        f = base**-step * stretch ** (-2 * k / (dim - 2))
        if kind == "linear":
            f /= factor
        elif kind == "proportional":
            f = f / factor if k < dim // 2 else 0.0
        elif kind == "longrope":
            f /= p["long_factor" if length > original else "short_factor"][k]
        elif kind == "llama3":
            wavelength = 2 * math.pi / f
            low, high = p["low_freq_factor"], p["high_freq_factor"]
            if wavelength > original / low:
                f /= factor
            elif wavelength >= original / high:
                smooth = (original / wavelength - low) / (high - low)
                f = (1 - smooth) * f / factor + smooth * f
        elif kind == "yarn":
            share = min(max((k - first) / (last - first), 0), 1)
            f = f / factor * share + f * (1 - share)
        answer.append(f)
    return torch.tensor(answer), p.get("attention_factor", attention)


def masks_in_numpy(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    """Llama 3's as in Meta's code, with masks in place of where; the others by the course's own."""
    if rope_parameters["rope_type"] != "llama3":
        inv_freq, factor = rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)
        return torch.from_numpy(inv_freq.numpy()), np.float64(factor)
    p = rope_parameters
    dim = int(head_dim * p.get("partial_rotary_factor", 1))
    f = p["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    turns = p["original_max_position_embeddings"] * f / (2 * np.pi)
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    smooth = (turns - low) / (high - low)
    answer = f.copy()
    answer[turns < low] /= p["factor"]
    middle = (turns >= low) & (turns <= high)
    answer[middle] *= smooth[middle] + (1 - smooth[middle]) / p["factor"]
    return torch.from_numpy(answer), torch.tensor(1.0)


def by_the_module(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    module = RotaryEmbedding(head_dim, rope_parameters=rope_parameters, max_position_embeddings=max_position_embeddings)
    return module.frequencies(seq_len)


@pytest.mark.parametrize("right", [by_transformers, loops_and_lists, masks_in_numpy, by_the_module])
def test_right_answers_pass_whoever_wrote_them(right):
    report = check.rope_frequencies(right, record=False)
    assert report.passed, f"{report}\n{report.table()}"


def test_float32_passes_with_a_remark_and_float64_without_one():
    for its_check in CHECKS:
        rounded = {
            "ntk_inv_freq": lambda dim, base, factor: check.ntk_inv_freq.oracle(dim, base, factor).float(),
            "yarn_frequencies": rounded_yarn,
            "rope_frequencies": by_transformers,
        }[its_check.name]
        report = its_check(rounded, record=False)
        assert report.passed
        assert any("rounded to float32" in remark for remark in report.remarks)
        assert its_check(its_check.oracle, record=False).remarks == ()


def rounded_yarn(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    inv_freq, attention = check.yarn_frequencies.oracle(
        dim, base, factor, original_length, beta_fast, beta_slow, truncate
    )
    return inv_freq.float(), attention


def test_half_precision_does_not_pass():
    def rounded(*arguments, **options):
        inv_freq, factor = rope_frequencies(*arguments, **options)
        return inv_freq.bfloat16(), factor

    assert not check.rope_frequencies(rounded, record=False).passed


@pytest.mark.parametrize("exponent", [lambda d: d / (d - 2), lambda d: 1 + 2 / (d - 2)])
def test_ntk_may_be_written_as_powers_of_the_factor(exponent):
    def ntk(dim, base, factor):
        k = torch.arange(dim // 2, dtype=torch.float64)
        return base ** (-2 * k / dim) / factor ** (2 * k / (dim - 2))

    def by_base(dim, base, factor):
        stretched = base * factor ** exponent(dim)
        return torch.tensor([stretched ** (-2 * k / dim) for k in range(dim // 2)], dtype=torch.float64)

    assert check.ntk_inv_freq(ntk, record=False).passed
    assert check.ntk_inv_freq(by_base, record=False).passed


# -- wrong answers that are in no catalogue ----------------------------------------------------------------------------


def changed(condition, change):
    """The right answer, with ``change`` made to it where ``condition`` holds for the parameters."""

    def rope(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        inv_freq, factor = rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)
        return change(inv_freq, factor) if condition(rope_parameters) else (inv_freq, factor)

    return rope


@pytest.mark.parametrize(
    ("rope_type", "change", "stage"),
    [
        ("linear", lambda f, a: (f * 1.001, a), "linear"),
        ("ntk", lambda f, a: (f.sqrt(), a), "ntk"),
        ("dynamic", lambda f, a: (f.flip(0), a), "dynamic"),
        ("yarn", lambda f, a: (f, a + 0.01), "yarn, temperature"),
        ("yarn", lambda f, a: (f.roll(1), a), "yarn, frequencies"),
        ("llama3", lambda f, a: (f, 1.01), "llama3"),
        ("longrope", lambda f, a: (torch.cat((f[:1] * 2, f[1:])), a), "longrope, lists"),
        ("proportional", lambda f, a: (f + 1e-3, a), "proportional"),
    ],
)
def test_an_unknown_mistake_is_rejected_with_an_input_that_shows_it(rope_type, change, stage):
    report = check.rope_frequencies(changed(lambda p: p["rope_type"] == rope_type, change), record=False)
    assert not report.passed
    assert report.misconception is None
    assert report.evidence is not None
    assert repr(rope_type) in report.evidence.call
    assert next(probe.stage for probe in report.probes if not probe.passed) == stage


def test_a_type_that_is_not_written_yet_leaves_word_of_what_is_right_already():
    def so_far(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ("default", "linear", "ntk"):
            raise ValueError(f"unknown rope_type {rope_parameters['rope_type']!r}")
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    report = check.rope_frequencies(so_far, record=False)
    assert not report.passed
    assert "ValueError: unknown rope_type 'dynamic'" in report.message
    assert "Right already: default, partial rotation, linear, ntk." in report.message


def test_changing_the_dictionary_is_found_and_does_not_reach_the_next_call():
    def pops(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        options = dict(rope_parameters)
        rope_parameters.pop("rope_theta", None)
        return rope_frequencies(options, head_dim, max_position_embeddings, seq_len)

    report = check.rope_frequencies(pops, record=False)
    assert "It changes the dictionary rope_parameters" in report.message
    assert check.rope_frequencies(rope_frequencies, record=False).passed


def test_the_shown_parameters_hold_only_the_keys_that_it_takes_to_fail():
    report = check.rope_frequencies(changed(lambda p: "mscale" in p, lambda f, a: (f * 2, a)), record=False)
    assert not report.passed
    assert "mscale" in report.evidence.call
    assert "rope_theta" not in report.evidence.call


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f, a: (f * 1j, a), "complex"),
        (lambda f, a: f, "expected a tuple"),
        (lambda f, a: (f, "1"), "expected a number"),
        (lambda f, a: (f[1:], a), "has the shape"),
    ],
    ids=["complex", "no tuple", "text", "too short"],
)
def test_what_is_not_a_tensor_of_frequencies_and_a_number_is_told_so(change, words):
    report = check.rope_frequencies(changed(lambda p: True, change), record=False)
    assert not report.passed
    assert words in report.message


@pytest.mark.parametrize(
    "instead",
    [lambda p: rope_frequencies({**p, "rope_type": "default"}, 16, 512), lambda p: None],
    ids=("default", "none"),
)
def test_an_unknown_type_has_to_be_refused(instead):
    def takes_any(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ROPE_TYPES:
            return instead(rope_parameters)
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    report = check.rope_frequencies(takes_any, record=False)
    assert not report.passed
    assert report.misconception == "unknown_type_taken"
    assert "'rope_type': 'nkt'" in report.evidence.call
    assert [probe.name for probe in report.probes if not probe.passed] == ["a rope_type that does not exist"]


@pytest.mark.parametrize(
    "refuse", [lambda kind: {}[kind], lambda kind: exec("raise ValueError(kind)"), lambda kind: torch.ones(2) @ kind]
)
def test_an_unknown_type_may_be_refused_with_any_exception(refuse):
    def refuses(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ROPE_TYPES:
            refuse(rope_parameters["rope_type"])
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    assert check.rope_frequencies(refuses, record=False).passed


def test_leaving_the_program_or_running_on_is_no_refusal():
    def leaves(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] not in ROPE_TYPES:
            raise SystemExit
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    report = check.rope_frequencies(leaves, record=False)
    assert not report.passed
    assert "ends the program" in report.message


@pytest.mark.parametrize("rope_type", ["llama3", "longrope"])
def test_a_part_of_the_head_counts_for_every_type(rope_type):
    def whole(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] == rope_type:
            rope_parameters = {**rope_parameters, "partial_rotary_factor": 1.0}
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    report = check.rope_frequencies(whole, record=False)
    assert not report.passed
    assert [probe.name for probe in report.probes if not probe.passed] == ["half of the head"]


def test_a_stretch_frozen_beyond_the_factor_is_named():
    def frozen(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        if rope_parameters["rope_type"] == "dynamic":
            seq_len = seq_len and min(seq_len, int(rope_parameters["factor"] * max_position_embeddings))
        return rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len)

    assert check.rope_frequencies(frozen, record=False).misconception == "frozen_beyond_the_factor"


def test_a_stub_is_not_attempted():
    def untouched(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
        """Return the frequencies."""

    assert not check.rope_frequencies(untouched, record=False).attempted
