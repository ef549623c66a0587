"""Known mistakes about YaRN's frequencies: which pairs are kept, and how the others are blended."""

import math
from collections.abc import Callable

import torch

from course_utils.check.mistakes import Catalogue
from course_utils.check.rope_recipes import pair_of, powers, ramped, yarn_with

__all__ = ["add_yarn_mistakes"]

Recipe = Callable[[Callable], Callable]


def add_yarn_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    """Add the mistakes about YaRN's frequencies.

    Args:
        catalogue: where to add them.
        recipe: makes of ``yarn_frequencies(dim, base, factor, original_length, ...)`` the function that the exercise
            asks for.
    """
    _add_ramp_mistakes(catalogue, recipe)
    _add_blend_mistakes(catalogue, recipe)


def _add_ramp_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    catalogue.add(
        "paper_ramp",
        "the ramp that the paper prints",
        "The ramp is straight in the number of turns, as in the paper; the code that everyone runs has it straight in "
        "the index of the pair.",
        "Both are sound, but a model is tuned with one of them: with the other its frequencies are off by up to a "
        "factor of 2.3.",
        "Between the pairs of 32 turns and of 1 turn: what is linear in k, and what in base^(-2k/d)?",
        recipe(_in_turns),
    )
    catalogue.add(
        "betas_swapped",
        "beta_fast and beta_slow swapped",
        "beta_fast and beta_slow have changed places, so the ramp runs from the wrong end.",
        "beta_fast belongs to pairs of many turns, which are kept and come first; beta_slow to those of few.",
        "Which pair comes first, the one that makes 32 turns in the window or the one that makes 1?",
        recipe(_betas_swapped),
    )
    catalogue.add(
        "turns_without_2pi",
        "turns counted without 2π",
        "A turn is counted as one radian: the 2π is missing where the turns in the window are counted.",
        "The ramp moves towards the slow pairs: some that never finished a turn in training are kept as they are.",
        "How many radians are in 32 turns?",
        recipe(yarn_with(pair=lambda turns, d, base, length: pair_of(turns / (2 * math.pi), d, base, length))),
    )
    catalogue.add(
        "dimension_for_pair",
        "the dimension for the pair",
        "The ends of the ramp are counted in dimensions, not in pairs: the 2 in the denominator is missing.",
        "There are half as many pairs as dimensions, so the ramp starts and ends twice as far back as it should.",
        "Solve L · base^(-2k/d) / 2π = turns for k. Where does the 2 go?",
        recipe(yarn_with(pair=lambda *of: 2 * pair_of(*of))),
    )
    catalogue.add(
        "not_rounded",
        "the ends of the ramp not rounded",
        "The ends of the ramp are not rounded outwards to whole pairs.",
        "The paper does not round either, but its authors' code does, and so do the models trained with it; `truncate` "
        "turns it off.",
        "For ends at 0.8 and 3.8: which pairs does the reference code take?",
        recipe(yarn_with(rounded=lambda low, high: (low, high))),
        recipe(yarn_with(rounded=lambda low, high: (round(low), round(high)))),
        recipe(yarn_with(rounded=lambda low, high: (math.ceil(low), math.floor(high)))),
        recipe(yarn_with(rounded=lambda low, high: (math.floor(low), math.floor(high)))),
    )
    catalogue.add(
        "clamped_to_last_pair",
        "the ramp clamped to the last pair",
        "The far end of the ramp is clamped to the last pair, d/2 - 1.",
        "The reference clamps it to d - 1, which looks like a slip and is what every model was trained with: where the "
        "window is long for the base, even the slowest pair keeps a part of its frequency.",
        "With base 100 and a window of 2,048, where does the ramp end, and how many pairs are there?",
        recipe(yarn_with(clamped=lambda low, high, dim: (max(low, 0), min(high, dim // 2 - 1)))),
    )
    catalogue.add(
        "not_clamped",
        "the start of the ramp not clamped",
        "A start of the ramp before the first pair is not clamped to 0.",
        "In a short window no pair makes 32 turns; the ramp then starts at the first pair, which stays as it is.",
        "For a window of 64, which pair, as a real number, makes 32 turns?",
        recipe(yarn_with(clamped=lambda low, high, dim: (low, high))),
        recipe(yarn_with(clamped=lambda low, high, dim: (low, min(high, dim - 1)))),
    )
    catalogue.add(
        "betas_hard_coded",
        "betas of its own",
        "It uses 32 and 1 whatever beta_fast and beta_slow say.",
        "The two are tuned for windows of thousands of tokens; a small model needs smaller ones.",
        "Call it with beta_fast=16 and beta_slow=2. Does the result change?",
        recipe(_betas_hard_coded),
    )
    catalogue.add(
        "truncate_ignored",
        "truncate is ignored",
        "It rounds the ends of the ramp although truncate is false.",
        "gpt-oss sets it to false; rounded all the same, one of its pairs turns nearly 1.8 times as fast.",
        "What does truncate=False turn off?",
        recipe(_always_rounded),
    )
    catalogue.add(
        "no_ramp",
        "a step in place of the ramp",
        "Every pair is either kept or divided by the factor; nothing lies between.",
        "Two neighbouring pairs then differ by the whole factor, where training saw a smooth range of wavelengths.",
        "What should become of a pair that makes 8 turns in the window?",
        recipe(yarn_with(blend=lambda f, s, ramp: torch.where(ramp > 0, f / s, f))),
        recipe(yarn_with(blend=lambda f, s, ramp: torch.where(ramp < 1, f, f / s))),
        recipe(yarn_with(blend=lambda f, s, ramp: torch.where(ramp < 0.5, f, f / s))),
    )


def _add_blend_mistakes(catalogue: Catalogue, recipe: Recipe) -> None:
    catalogue.add(
        "kept_and_stretched_swapped",
        "kept and stretched exchanged",
        "The fast pairs are divided by the factor and the slow ones are kept.",
        "It is the other way round: fast pairs tell neighbours apart and have seen every angle; slow ones have not.",
        "The first pair makes more than 32 turns in the window. What should be done to it?",
        recipe(yarn_with(blend=lambda f, s, ramp: f * ramp + f / s * (1 - ramp))),
    )
    catalogue.add(
        "blends_wavelengths",
        "wavelengths blended instead of frequencies",
        "The blend is taken between wavelengths, not between frequencies.",
        "Its ends are right and its middle is not: halfway, at factor 8, it divides by 4.5 and not by 1.8.",
        "Is the mean of 1 and 1/8 the inverse of the mean of 1 and 8?",
        recipe(yarn_with(blend=lambda f, s, ramp: f / (1 - ramp + s * ramp))),
    )
    catalogue.add(
        "yarn_multiplies",
        "multiplied instead of divided by the factor",
        "The slow pairs are multiplied by the factor.",
        "They should turn slower, so that the longer window holds no angle that the trained one did not.",
        "Should a pair that made half a turn in the window make more or less of it after stretching?",
        recipe(yarn_with(blend=lambda f, s, ramp: f * (1 - ramp) + f * s * ramp)),
    )
    catalogue.add(
        "no_stretch",
        "nothing is stretched",
        "The frequencies come out as they went in.",
        "Then only the temperature is left of YaRN.",
        "What is the last frequency before and after, at factor 8?",
        recipe(yarn_with(blend=lambda f, s, ramp: f)),
    )
    catalogue.add(
        "stretches_all",
        "every pair is divided by the factor",
        "Every pair is divided by the factor, as linear scaling does.",
        "That blurs neighbours: the fast pairs that tell them apart should stay as they are.",
        "Which pairs have made more than 32 turns in the window?",
        recipe(yarn_with(blend=lambda f, s, ramp: f / s)),
    )


def _in_turns(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    inv_freq = powers(dim, base)
    kept = ramped(original_length * inv_freq / (2 * math.pi), beta_slow, beta_fast)
    return inv_freq * kept + inv_freq / factor * (1 - kept), 0.1 * math.log(factor) + 1


def _betas_swapped(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    return yarn_with()(dim, base, factor, original_length, beta_slow, beta_fast, truncate)


def _betas_hard_coded(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    return yarn_with()(dim, base, factor, original_length, truncate=truncate)


def _always_rounded(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    return yarn_with()(dim, base, factor, original_length, beta_fast, beta_slow)
