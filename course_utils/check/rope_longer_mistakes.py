"""Known mistakes about Llama 3's scaling, LongRoPE and proportional RoPE."""

import math

import torch

from course_utils.check.mistakes import Catalogue
from course_utils.check.rope_recipes import llama3_with, longrope_with, powers, ramped, rope_with, share_kept

__all__ = ["add_llama3_mistakes", "add_longrope_mistakes", "add_proportional_mistakes"]


def add_llama3_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes about Llama 3's scaling."""
    catalogue.add(
        "llama3_branches_swapped",
        "high and low exchanged",
        "The pairs of many turns are divided by the factor, and those of few are kept.",
        "high_freq_factor and low_freq_factor count turns, not wavelengths: many turns is a high frequency, and is "
        "kept.",
        "A pair makes 81 turns in the window. Is its frequency high or low, and what should be done to it?",
        rope_with(llama3=llama3_with(_swapped)),
        rope_with(llama3=llama3_with(lambda asked, f: 1 - share_kept(asked, f))),
    )
    catalogue.add(
        "smooth_factor_inverted",
        "the smooth factor upside down",
        "The ends are right, and between them the share that is kept runs the wrong way.",
        "A pair that is nearly kept then gets nearly divided: the frequencies jump at both ends of the band.",
        "For a pair just below high_freq_factor turns, should the smooth factor be near 1 or near 0?",
        rope_with(llama3=llama3_with(_inverted_between)),
    )
    catalogue.add(
        "no_smooth_band",
        "no smooth band",
        "Every pair is either kept or divided by the factor; nothing lies between.",
        "Between low_freq_factor and high_freq_factor turns the two are blended, so that neighbouring pairs stay near.",
        "What should become of a pair that makes 2.6 turns, with low 1 and high 4?",
        rope_with(llama3=llama3_with(lambda asked, f: (share_kept(asked, f) > 0).double())),
        rope_with(llama3=llama3_with(lambda asked, f: (share_kept(asked, f) == 1).double())),
        rope_with(llama3=llama3_with(lambda asked, f: (share_kept(asked, f) > 0.5).double())),
    )
    catalogue.add(
        "llama3_keys_ignored",
        "low_freq_factor and high_freq_factor ignored",
        "It uses 1 and 4 whatever low_freq_factor and high_freq_factor say.",
        "Llama's own files have 1 and 4, and that is why it works there; the keys are there to be read.",
        "Call it with high_freq_factor=32. Does the result change?",
        rope_with(llama3=llama3_with(lambda asked, f: ramped(asked.original * f / (2 * math.pi), 1.0, 4.0))),
    )
    catalogue.add(
        "llama3_extended_for_original",
        "the extended window taken for the original one",
        "It counts turns in max_position_embeddings, the window after stretching.",
        "Turns count in the window that was trained on: original_max_position_embeddings.",
        "Which of the two lengths is 8,192 in Llama 3.1's file, and which 131,072?",
        rope_with(llama3=llama3_with(lambda asked, f: _share(asked.window * f / (2 * math.pi), asked))),
    )
    catalogue.add(
        "llama3_without_2pi",
        "turns counted without 2π",
        "A turn is counted as one radian: the 2π is missing.",
        "The band moves to pairs that turn six times slower.",
        "How many radians are in a full turn?",
        rope_with(llama3=llama3_with(lambda asked, f: _share(asked.original * f, asked))),
    )
    catalogue.add(
        "llama3_temperature",
        "YaRN's temperature on Llama 3",
        "The attention factor is YaRN's. Llama 3 has none: it is 1.",
        "The ramp is the one of the YaRN paper, the temperature was left out.",
        "What does Llama 3 multiply its scores by, beside 1/√d?",
        rope_with(llama3=_with_temperature),
    )


def _share(turns: torch.Tensor, asked) -> torch.Tensor:
    return ramped(turns, asked.options["low_freq_factor"], asked.options["high_freq_factor"])


def _swapped(asked, inv_freq):
    """The two outer branches exchanged, the band between them as it should be."""
    share = share_kept(asked, inv_freq)
    return torch.where((share > 0) & (share < 1), share, 1 - share)


def _inverted_between(asked, inv_freq):
    share = share_kept(asked, inv_freq)
    return torch.where((share > 0) & (share < 1), 1 - share, share)


def _with_temperature(asked):
    inv_freq, _ = llama3_with()(asked)
    return inv_freq, 0.1 * math.log(asked.factor) + 1


def add_longrope_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes about LongRoPE."""
    catalogue.add(
        "lists_swapped",
        "the two lists exchanged",
        "short_factor is used for long sequences, and long_factor for short ones.",
        "Up to the original window the short list keeps the model as good as it was; only beyond it the long one is "
        "needed.",
        "For a sequence of 10 tokens, which list?",
        rope_with(longrope=longrope_with(lists=("long_factor", "short_factor"))),
    )
    catalogue.add(
        "one_list_only",
        "one list at every length",
        "It uses the same list at every length.",
        "Half of the method is the switch: long factors on a short text cost quality that nothing gives back.",
        "Call it with seq_len=10 and with seq_len=500. What should differ?",
        rope_with(longrope=longrope_with(lists=("long_factor", "long_factor"))),
        rope_with(longrope=longrope_with(lists=("short_factor", "short_factor"))),
    )
    catalogue.add(
        "switches_at_the_window",
        "the switch at the wrong length",
        "The long list takes over at another length than one past original_max_position_embeddings.",
        "At exactly the original length nothing lies outside what training saw: the short list still serves.",
        "Which list for a sequence as long as the original window, and which for one token more?",
        rope_with(longrope=longrope_with(lambda asked: (asked.seq_len or 0) >= asked.original)),
        rope_with(longrope=longrope_with(lambda asked: (asked.seq_len or 0) > asked.window)),
        rope_with(longrope=longrope_with(lambda asked: (asked.seq_len or 0) >= asked.window)),
    )
    catalogue.add(
        "no_length_is_long",
        "no length taken for a long one",
        "Where seq_len is None it uses the long list.",
        "None counts as short, as in transformers: the table is made before anything long has come.",
        "What should seq_len=None mean?",
        rope_with(longrope=longrope_with(lambda asked: asked.seq_len is None or asked.seq_len > asked.original)),
        rope_with(longrope=longrope_with(lambda asked: (asked.seq_len or asked.window) > asked.original)),
    )
    catalogue.add(
        "longrope_multiplies",
        "multiplied instead of divided",
        "It multiplies the frequencies by the factors.",
        "The factors stretch wavelengths: a pair with factor 4 should turn four times slower.",
        "The factors grow from pair to pair. Which pairs should be slowed most?",
        rope_with(longrope=longrope_with(rescale=lambda f, factors: f * factors)),
    )
    catalogue.add(
        "longrope_no_temperature",
        "LongRoPE's temperature is missing",
        "The attention factor is 1.",
        "LongRoPE multiplies cosine and sine by √(1 + ln s / ln L).",
        "What is √(1 + ln 8 / ln 64)?",
        rope_with(longrope=longrope_with(attention=lambda asked: 1.0)),
    )
    catalogue.add(
        "logarithm_of_extended",
        "the logarithm of the extended window",
        "The L in √(1 + ln s / ln L) is max_position_embeddings, the extended window.",
        "L is the original one. For 4,096 and 131,072 that is 1.19, and with the wrong one 1.14.",
        "Which window is the logarithm in the denominator of?",
        rope_with(longrope=longrope_with(attention=lambda a: math.sqrt(1 + math.log(a.factor) / math.log(a.window)))),
    )
    catalogue.add(
        "longrope_no_root",
        "the root is missing",
        "The attention factor is 1 + ln s / ln L, without the root.",
        "Cosine and sine are multiplied in queries and in keys, so the root is what the scores get twice.",
        "What do the scores get when both sides are multiplied by √2?",
        rope_with(longrope=longrope_with(attention=lambda a: 1 + math.log(a.factor) / math.log(a.original))),
    )
    catalogue.add(
        "yarn_temperature",
        "YaRN's temperature on LongRoPE",
        "The attention factor is YaRN's 0.1 · ln s + 1.",
        "LongRoPE has a formula of its own, with the original length in it.",
        "In which of the two formulas does L occur?",
        rope_with(longrope=longrope_with(attention=lambda asked: 0.1 * math.log(asked.factor) + 1)),
    )
    catalogue.add(
        "longrope_factor_ignored",
        "LongRoPE's factor is ignored",
        "The temperature takes max_position_embeddings / original_max_position_embeddings where a factor is given.",
        "The ratio is what stands in for a missing factor; a stated one wins.",
        "What is s where rope_parameters holds factor=4 and the windows are 64 and 512?",
        rope_with(
            longrope=longrope_with(
                attention=lambda a: math.sqrt(1 + math.log(a.window / a.original) / math.log(a.original))
            )
        ),
    )
    catalogue.add(
        "longrope_attention_factor_ignored",
        "LongRoPE's attention_factor is ignored",
        "A stated attention_factor is not used.",
        "It is there to overrule the formula.",
        "What should be returned where rope_parameters holds attention_factor=1.3?",
        rope_with(longrope=_formula_always),
    )


def _formula_always(asked):
    inv_freq, _ = longrope_with()(asked)
    return inv_freq, math.sqrt(1 + math.log(asked.factor) / math.log(asked.original))


def add_proportional_mistakes(catalogue: Catalogue) -> None:
    """Add the mistakes about proportional RoPE."""

    def proportional(dim, keep=lambda f, n: torch.cat((f[:n], torch.zeros_like(f[n:]))), scaled=True):
        def method(asked):
            inv_freq = keep(powers(dim(asked), asked.base), asked.dim // 2)
            return inv_freq / (asked.options.get("factor", 1.0) if scaled else 1.0), 1.0

        return rope_with(proportional=method)

    def head(asked):
        return asked.head_dim

    def squeezed(asked):
        tail = torch.zeros((asked.head_dim - asked.dim) // 2, dtype=torch.float64)
        return torch.cat((asked.inv_freq, tail)) / asked.options.get("factor", 1.0), 1.0

    catalogue.add(
        "proportional_as_partial",
        "proportional with the exponent of partial rotation",
        "The exponent is over the part that rotates, as in partial rotation.",
        "p-RoPE keeps the wavelengths of the whole head and lets the slow pairs stand still. Squeezed into fewer "
        "pairs, other channels turn, at other speeds.",
        "With head_dim=16 and partial_rotary_factor=0.5, should the fourth frequency be that of the whole head?",
        rope_with(proportional=squeezed),
    )
    catalogue.add(
        "no_zero_tail",
        "no zeros for the pairs that stand still",
        "The pairs that do not rotate are left out, where they should be zeros.",
        "A pair is dimensions k and k + head_dim/2 here: with fewer frequencies, others would be paired.",
        "How many frequencies should there be for head_dim=16?",
        proportional(head, lambda f, n: f[:n]),
    )
    catalogue.add(
        "all_pairs_turn",
        "every pair turns",
        "No frequency is zero: the proportion is ignored.",
        "The slow pairs are the ones that a long context takes where training never went; p-RoPE lets them rest.",
        "With partial_rotary_factor=0.25, how many of 8 pairs turn?",
        proportional(head, lambda f, n: f),
    )
    catalogue.add(
        "fast_pairs_rest",
        "the fast pairs stand still",
        "The zeros stand at the front: the fast pairs rest and the slow ones turn.",
        "Then nothing tells neighbours apart.",
        "Which frequencies are the large ones, the first or the last?",
        proportional(head, lambda f, n: torch.cat((torch.zeros_like(f[:-n]), f[-n:]))),
    )
    catalogue.add(
        "proportional_factor_ignored",
        "the factor of proportional is ignored",
        "A stated factor is not used.",
        "As in linear scaling, the frequencies are divided by it; it is 1 where none is given.",
        "Call it with factor=4. What should the first frequency be?",
        proportional(head, scaled=False),
    )
