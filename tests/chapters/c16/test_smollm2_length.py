"""Long texts: methods as transformers has them, losses in parts, a record that the model still
gives (chapter 16)."""

import pytest
import torch
from small_llama import BASE, llama

from chapters.c16_longer_context import load, smollm2_length
from chapters.c16_longer_context.smollm2_length import (
    HEAD_DIM,
    METHODS,
    WINDOW,
    losses,
    set_method,
)
from course_utils.models import pretrained


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [2, 8])
def test_a_method_gives_the_model_that_transformers_makes_of_the_same_keys(method, factor):
    keys = METHODS[method]
    if method == "NTK":  # has no name in transformers: a larger base
        keys = {"rope_theta": BASE * factor ** (HEAD_DIM / (HEAD_DIM - 2))}
    elif method != "none":
        keys = {**keys, "factor": float(factor)}
    theirs, ours = llama(**keys), set_method(llama(), method, factor, 3 * WINDOW)
    positions = torch.tensor([[0, 5, 100, 3 * WINDOW - 1]])  # dynamic NTK looks at the largest
    cos_sin = [model.model.rotary_emb(torch.zeros(1), positions) for model in (ours, theirs)]
    for mine, reference in zip(*cos_sin, strict=True):
        # float32 angles up to 24,575
        torch.testing.assert_close(mine, reference, atol=5e-3, rtol=0)
    assert method == "none" or not torch.equal(
        cos_sin[0][0], llama().model.rotary_emb(torch.zeros(1), positions)[0]
    )


def test_losses_in_parts_are_those_of_the_whole():
    model, ids = llama(), torch.randint(50, (1, 2100), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(losses(model, ids), pretrained.token_losses(model, ids)[0])


@pytest.mark.skipif(not pretrained.available(), reason=pretrained.MISSING)
def test_the_record_is_what_the_model_gives_today():
    recorded = next(
        iter(load("smollm2-length").select(length=1024, method="YaRN", factor=2, excerpt=1))
    )
    settings = {name: recorded[name] for name in ("excerpt", "length", "method", "factor")}
    today = smollm2_length.LENGTH.run(settings, lambda fraction: None)
    assert today["by_position"] == pytest.approx(recorded["by_position"], abs=1e-4)
