"""Memory over a jump of positions: the same as in one pass; pairs agree where they are let to."""

import pytest
import torch
from small_llama import BASE, llama

from chapters.c15_scaling_rope import halved
from chapters.c15_scaling_rope import load as load_15
from chapters.c16_longer_context import load, smollm2_agreement, smollm2_memory
from chapters.c16_longer_context.smollm2_agreement import FACTOR, agreeing
from chapters.c16_longer_context.smollm2_length import set_method
from course_utils.models import pretrained
from course_utils.rope import rope_inv_freq


@pytest.mark.parametrize("gap", [0, 700])
def test_a_passage_after_one_that_was_kept_costs_what_it_costs_in_one_pass(gap):
    model, ids = llama(), torch.randint(50, (2, 16), generator=torch.Generator().manual_seed(0))
    positions = torch.arange(32)[None] + gap * (torch.arange(32) >= 16)
    whole = pretrained.token_losses(
        model, ids.view(1, 32), position_ids=positions, attention_mask=torch.ones(1, 32)
    )
    after = pretrained.losses_after(model, ids[0], ids[1], [3, gap], kept=8)
    assert after[1] == pytest.approx(whole[0, -8:].mean().item(), abs=1e-5)
    assert after[0] != pytest.approx(after[1], abs=1e-5)


def test_pairs_that_agree_turn_over_the_jump_as_over_a_fourth_of_it_and_then_as_before():
    model, gap = set_method(llama(), "YaRN", FACTOR), 6000
    rotary, x = model.model.rotary_emb, torch.zeros(1)
    before = rotary(x, torch.tensor([[5, gap + 5]]))[0][0]
    with agreeing(model, range(17, 20), gap):
        cosines = rotary(x, torch.tensor([[5, gap + 5]]))[0][0]
    angles = gap / FACTOR * rope_inv_freq(64, BASE) + 5 * rotary.inv_freq.double()
    wanted = angles.cos().float() * rotary.attention_scaling
    torch.testing.assert_close(cosines[0], before[0])
    torch.testing.assert_close(cosines[1, 17:20], wanted[17:20], atol=1e-3, rtol=0)
    torch.testing.assert_close(cosines[1, :17], before[1, :17])
    assert (before[1, 17:20] - wanted[17:20]).abs().min() > 0.05
    torch.testing.assert_close(rotary(x, torch.tensor([[5, gap + 5]]))[0][0], before)


@pytest.mark.skipif(not pretrained.available(), reason=pretrained.MISSING)
@pytest.mark.parametrize(
    ("record", "study", "settings"),
    [
        (load_15("smollm2-halved"), halved.HALVED, {"halved": "23, 24", "excerpt": 0}),
        (
            load("smollm2-agreement"),
            smollm2_agreement.AGREEMENT,
            {"agree": "17 to 19", "excerpt": 2},
        ),
        (
            load("smollm2-memory"),
            smollm2_memory.MEMORY,
            {"method": "YaRN", "factor": 2, "excerpt": 2},
        ),
    ],
)
def test_the_record_is_what_the_model_gives_today(record, study, settings):
    (recorded,) = record.select(**settings)
    today = study.run(settings, lambda fraction: None)
    field = "copy" if "copy" in recorded else "loss"
    assert today[field] == pytest.approx(recorded[field], abs=1e-3)
