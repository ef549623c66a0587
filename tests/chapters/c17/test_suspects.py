"""The exercise of chapter 17: each suspect has the mistake that it is said to have, and a wrong
guess is answered by what speaks against it."""

import re

import pytest

from chapters.c17_a_real_llama import check, suspects
from course_utils.models import pretrained
from course_utils.swap import compare_layers

RIGHT = suspects.culprits()


def said(**others):
    return check.culprits(lambda: RIGHT | others, record=False)


def test_the_four_names_pass():
    assert said()


@pytest.mark.parametrize(
    ("letter", "guess", "message"),
    [
        ("A", "layer norm", "A is not «layer norm»: with that a norm is the first layer"),
        (
            "A",
            "positions counted from 0",
            "A is not .*, which shows with a cache alone as well. Put it",
        ),
        ("B", "positions off by one", "B is not .*no layer differs on a prompt.*in B an `o_proj`"),
        ("C", "eps outside the root", "C is not .* Put it there yourself"),
        ("D", "layernorm", "'layernorm' is none of the nine, which are pairs interleaved, "),
    ],
)
def test_a_wrong_guess_is_answered_by_what_speaks_against_it(letter, guess, message):
    report = said(**{letter: guess})
    assert not report
    assert re.search(message, report.message)


@pytest.mark.parametrize("answer", [lambda: None, lambda: {"A": "layer norm"}, lambda: 1 / 0])
def test_what_is_no_answer_is_refused(answer):
    assert not check.culprits(answer, record=False)


@pytest.mark.skipif(not pretrained.available(), reason="needs SmolLM2")
def test_each_suspect_shows_first_where_its_mistake_does():
    smol = pretrained.smollm2()
    smol.model.model.layers = smol.model.model.layers[:25]  # enough for C
    first = {}
    for letter in RIGHT:
        broken = suspects.suspect(smol.model, letter)
        found = compare_layers(broken, smol.model, input_ids=smol.passage(20_000, 16))
        first[letter] = found.first
    assert first == {
        "A": None,
        "B": "model.layers.0.self_attn.o_proj",
        "C": "model.layers.24.input_layernorm",
        "D": "model.layers.12.input_layernorm",
    }
