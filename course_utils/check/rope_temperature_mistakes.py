"""Known mistakes about YaRN's temperature, and about the keys that it reads."""

import math
from collections.abc import Callable

from course_utils.check.mistakes import Catalogue
from course_utils.check.rope_recipes import METHODS, yarn_with

__all__ = ["add_temperature_mistakes", "add_yarn_option_mistakes"]


def add_temperature_mistakes(catalogue: Catalogue, recipe: Callable[[Callable], Callable]) -> None:
    """Add the mistakes about YaRN's attention factor.

    Args:
        catalogue: where to add them.
        recipe: makes of ``yarn_frequencies(dim, base, factor, original_length, ...)`` the function that the exercise
            asks for.
    """

    def mistake(key: str, title: str, wrong: str, matters: str, hint: str, *formulas: Callable[[float], float]) -> None:
        catalogue.add(key, title, wrong, matters, hint, *(recipe(yarn_with(temperature=f)) for f in formulas))

    def right(s: float) -> float:
        return 0.1 * math.log(s) + 1

    mistake(
        "no_temperature",
        "the temperature is missing",
        "The attention factor is 1: the temperature is missing.",
        "Over a longer context softmax spreads over more keys; YaRN sharpens the scores, by 1.46 at factor 8.",
        "What is 0.1 · ln s + 1 for s = 8?",
        lambda s: 1.0,
    )
    mistake(
        "temperature_twice",
        "the temperature twice",
        "The attention factor is the square of what it should be.",
        "Cosine and sine are multiplied by it in queries and in keys, so the scores get its square already.",
        "By how much do the scores grow when queries and keys both grow by 1.2?",
        lambda s: right(s) ** 2,
    )
    mistake(
        "temperature_on_one_side",
        "half of the temperature",
        "The attention factor is the root of what it should be.",
        "The paper's √(1/t) is 0.1 · ln s + 1 itself, for queries and for keys each; no further root is to be taken.",
        "What should the scores be multiplied by at s = 8: 1.46 or 1.21?",
        lambda s: math.sqrt(right(s)),
    )
    mistake(
        "temperature_inverted",
        "divided by the temperature",
        "The attention factor is one over what it should be.",
        "That flattens the attention, where the longer context needs it sharper.",
        "Should scores be spread further apart, or closer together, when there are more keys?",
        lambda s: 1 / right(s),
        lambda s: right(s) ** -2,
    )
    mistake(
        "wrong_logarithm",
        "another logarithm",
        "The logarithm is not the natural one.",
        "math.log10 and math.log2 exist beside math.log: at factor 8 they make 1.09 and 1.30 of 1.21.",
        "What is ln 8, and what is log10 8?",
        lambda s: 0.1 * math.log10(s) + 1,
        lambda s: 0.1 * math.log2(s) + 1,
    )
    mistake(
        "temperature_without_one",
        "the + 1 is missing",
        "The attention factor is 0.1 · ln s, without + 1.",
        "It should be 1 where nothing is stretched, and a little more where something is.",
        "What should the attention factor be at s = 1?",
        lambda s: 0.1 * math.log(s),
    )
    mistake(
        "longrope_temperature",
        "LongRoPE's temperature",
        "The attention factor is √(1 + ln s / ln L) or near it, which is LongRoPE's and not YaRN's.",
        "Each paper has fitted its own.",
        "In YaRN's formula, does the original length occur?",
        lambda s: math.sqrt(1 + math.log(s) / math.log(512)),
        lambda s: 1 + math.log(s),
    )


def add_yarn_option_mistakes(catalogue: Catalogue, method_with: Callable[[Callable], Callable]) -> None:
    """Add the mistakes about the keys that YaRN reads.

    Args:
        catalogue: where to add them.
        method_with: makes of a method for ``yarn`` a ``rope_frequencies``.
    """
    reading = METHODS["yarn"]

    def without(*keys: str) -> Callable:
        def yarn(asked):
            options = {key: value for key, value in asked.options.items() if key not in keys}
            return reading(type(asked)(options, asked.head_dim, asked.window, asked.seq_len))

        return method_with(yarn)

    catalogue.add(
        "extended_for_original",
        "the extended window taken for the original one",
        "It counts turns in max_position_embeddings, the window after stretching.",
        "Turns have to be counted in the window that was trained on, original_max_position_embeddings. The larger one "
        "makes pairs look trained that never finished a turn.",
        "Which of the two lengths did the model see when its frequencies were learned?",
        without("original_max_position_embeddings"),
    )
    catalogue.add(
        "attention_factor_ignored",
        "the key attention_factor is ignored",
        "A stated attention_factor is not used.",
        "It is there to overrule the formula.",
        "What should be returned where rope_parameters holds attention_factor=1.3?",
        without("attention_factor"),
    )
    catalogue.add(
        "mscale_ignored",
        "mscale is ignored",
        "mscale and mscale_all_dim are not used.",
        "DeepSeek's models have both, and their quotient, 1 for DeepSeek-V3, takes the temperature out of cosine and "
        "sine.",
        "What is m(s, 1) / m(s, 1)?",
        without("mscale", "mscale_all_dim"),
    )
    catalogue.add(
        "mscale_alone",
        "mscale used without mscale_all_dim",
        "mscale changes the attention factor although mscale_all_dim is not given, or the other way round.",
        "transformers uses the two together or not at all, and so do the models that were made with it.",
        "What should come out for mscale=0.7 alone?",
        method_with(_mscale_alone),
    )


def _mscale_alone(asked):
    inv_freq, attention_factor = METHODS["yarn"](asked)
    if "attention_factor" not in asked.options and not (
        "mscale" in asked.options and "mscale_all_dim" in asked.options
    ):
        attention_factor = 0.1 * asked.options.get("mscale", 1.0) * math.log(asked.factor) + 1
    return inv_freq, attention_factor
