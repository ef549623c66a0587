"""Whose claims the course tests: the five write-ups it grew from, what they say, and the papers.

>>> works_named("S2; Su et al. 2021 §3.4.3")
['S2', 'Su et al. 2021']
>>> works_named("torch 2.13.0, CPU"), works_named("")
(['libraries'], ['this course'])
"""

import re
from dataclasses import dataclass

__all__ = ["LISTED", "OWN_WORDS", "WORKS", "WRITE_UPS", "ListedClaim", "Work", "works_named"]


@dataclass(frozen=True)
class Work:
    """Something that claims come from.

    Args:
        name: what the course calls it, unique: "S0", "Ba et al. 2016", "libraries", "this course".
        title: its title, or what stands for one.
        pattern: a regular expression that finds it in a claim's ``source``.
        link: where to read it, if it has an address of its own.
    """

    name: str
    title: str
    pattern: str
    link: str = ""


@dataclass(frozen=True)
class ListedClaim:
    """One thing that a write-up says, in the course's words, and the claims that answer it as ``chapter:key``."""

    source: str
    says: str
    answered_by: tuple[str, ...]


# Author and date as the write-ups give them.
WRITE_UPS = (
    Work("S0", "Rico's Nerd Cluster, “Deep Learning - Layer Normalization”, 2022-01-20", r"\bS0\b"),
    Work("S1", "a machine-learning road map's article on layer normalization, after its LSTM article", r"\bS1\b"),
    Work("S2", "“LayerNorm vs BatchNorm”, with moving averages, RoPE and long context", r"\bS2\b"),
    Work("S3", "labml.ai, annotated PyTorch layer normalization", r"\bS3\b"),
    Work("S4", "Clay, “[Machine Learning] Note of LayerNorm”, updated 2024-08-19", r"\bS4\b"),
)


def _paper(authors: str, year: int, title: str, arxiv: str = "", also: str = "") -> Work:
    """Return a paper, found by its first author and year in one breath, or by what else it is called."""
    first = authors.split()[0]
    pattern = rf"\b{first}\b[^;,\d]*\b{year}\b" + (f"|{also}" if also else "")
    return Work(f"{authors} {year}", title, pattern, f"https://arxiv.org/abs/{arxiv}" if arxiv else "")


_PAPERS = (
    _paper("Chan et al.", 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances"),
    _paper("Thakur et al.", 2005, "Optimization of Collective Communication Operations in MPICH"),
    _paper("Williams et al.", 2009, "Roofline: An Insightful Visual Performance Model"),
    _paper("He et al.", 2015, "Delving Deep into Rectifiers", "1502.01852"),
    _paper("Ioffe & Szegedy", 2015, "Batch Normalization", "1502.03167"),
    _paper("Kingma & Ba", 2015, "Adam", "1412.6980"),
    _paper("Ba et al.", 2016, "Layer Normalization", "1607.06450"),
    _paper("Salimans & Kingma", 2016, "Weight Normalization", "1602.07868"),
    _paper("Ulyanov et al.", 2016, "Instance Normalization", "1607.08022"),
    _paper("Vaswani et al.", 2017, "Attention Is All You Need", "1706.03762"),
    _paper("Rota Bulò et al.", 2018, "In-Place Activated BatchNorm", "1712.02616"),
    _paper("Santurkar et al.", 2018, "How Does Batch Normalization Help Optimization?", "1805.11604"),
    _paper("Shaw et al.", 2018, "Self-Attention with Relative Position Representations", "1803.02155"),
    _paper("Wu & He", 2018, "Group Normalization", "1803.08494", also=r"Wu and He 2018"),
    _paper("Zhang & Sennrich", 2019, "Root Mean Square Layer Normalization", "1910.07467"),
    _paper("Henry et al.", 2020, "Query-Key Normalization for Transformers", "2010.04245"),
    _paper("Raffel et al.", 2020, "Exploring the Limits of Transfer Learning (T5)", "1910.10683"),
    _paper("Xiong et al.", 2020, "On Layer Normalization in the Transformer Architecture", "2002.04745"),
    _paper("Dosovitskiy et al.", 2021, "An Image is Worth 16x16 Words", "2010.11929"),
    _paper("Su et al.", 2021, "RoFormer", "2104.09864", also=r"concluded from §3\.4\.3"),
    _paper("Wu & Johnson", 2021, "Rethinking “Batch” in BatchNorm", "2105.07576"),
    _paper("Press et al.", 2022, "Train Short, Test Long (ALiBi)", "2108.12409"),
    _paper("Chen et al.", 2023, "Positional Interpolation", "2306.15595"),
    _paper("Dehghani et al.", 2023, "Scaling Vision Transformers to 22 Billion Parameters", "2302.05442"),
    _paper("Jiang et al.", 2023, "Pre-RMSNorm and Pre-CRMSNorm Transformers", "2305.14858"),
    _paper("Kazemnejad et al.", 2023, "The Impact of Positional Encoding on Length Generalization", "2305.19466"),
    _paper("Peng et al.", 2023, "YaRN", "2309.00071", also=r"\bYaRN §"),
    _paper("Xiong et al.", 2023, "Effective Long-Context Scaling of Foundation Models", "2309.16039"),
    _paper("Ding et al.", 2024, "LongRoPE", "2402.13753"),
    _paper("Feng et al.", 2024, "Were RNNs All We Needed?", "2410.01201"),
    _paper("Grattafiori et al.", 2024, "The Llama 3 Herd of Models", "2407.21783", also=r"\bllama-models\b"),
    _paper("Shang et al.", 2025, "LongRoPE2", "2502.20082"),
    _paper("Zhu et al.", 2025, "Transformers without Normalization", "2503.10622"),
)

_LIBRARIES = Work(
    "libraries",
    "code and documentation: torch, transformers, Keras, Triton, courses and repositories",
    r"\btorch\b|transformers|Keras|Triton|Karpathy|llm\.c|d2l|GPT-NeoX|bloc97|jquesnelle|saved_tensors_hooks",
)
_THIS_COURSE = Work("this course", "what the course itself says, and common practice", r"(?!)")

WORKS = (*WRITE_UPS, *_PAPERS, _LIBRARIES, _THIS_COURSE)
# all that a claim's source may say besides a work's name
OWN_WORDS = {"", "this course", "measured here", "common practice", "chapter 12, decoding"}


def works_named(source: str) -> list[str]:
    """Return the names of the works that a claim's ``source`` speaks of; "this course" where it names none."""
    return [work.name for work in WORKS if re.search(work.pattern, source)] or [_THIS_COURSE.name]


def _says(source: str, sentences: dict[str, str]) -> tuple[ListedClaim, ...]:
    """Return what one write-up says: sentence to the claims that answer it, separated by spaces."""
    return tuple(ListedClaim(source, says, tuple(names.split())) for says, names in sentences.items())


LISTED = (
    *_says(
        "S0",
        {
            "batch norm does badly when the batch is small": "03:bn-small-batch-noise 07:bn-small-batch",
            "batch norm needs running means": "04:rs-state",
            "batch norm cannot be used on sequences: dimension 1 is time there": "03:bn-sequences",
            "over time it would work, but the number of elements varies": "16:ln-over-time",
            "distributed batch norm must combine statistics": "08:must-combine 08:sync-is-whole-batch",
            "layer norm stores no running statistics": "02:ln-no-state 04:rs-state",
            "its statistics run across a batch, not across channels": "02:ln-across-a-batch",
            "the layer with ε = 1e-8 gives torch's output": "02:ln-eps-1e-8",
            "elementwise_affine=False switches the affine off": "16:s0-affine-flag",
            "training and evaluation give the same output": "02:ln-train-eval",
            "the affine is per element where batch norm's is per channel": "02:ln-affine-element",
            "layer norm works in an RNN, all time steps normalized": "16:ln-over-time 07:ln-lstm-gradient",
            "the patches of a vision transformer are tokens": "02:vit-patches",
            "GPT-2 moved the norm to the front, which keeps the residual path clean": "07:clean-path",
            "PyTorch's layer is buried under 30 layers": "09:s0-30-layers",
            "the backward pass: left as a TODO": "05:ln-backward-todo",
        },
    ),
    *_says(
        "S1",
        {
            "batch norm makes no sense when lengths differ": "03:bn-lengths",
            "batch norm does badly in small batches": "03:bn-small-batch-noise 07:bn-small-batch",
            "so batch norm is infeasible in an RNN": "16:bn-in-rnn",
            "layer norm takes the mean of all activations of a data point; lengths may vary": "16:ln-over-time",
            "layer norm does not depend on the batch size": "02:ln-batch-size",
            "the steps are those of batch norm, on other elements": "01:one-function",
            "batch norm must track running statistics for inference": "04:rs-state",
            "layer norm needs no different process at inference": "02:ln-train-eval",
            "the TensorFlow layer is PyTorch's": "02:tf-layer-equals-torch 16:s1-is-torch",
            "RNNs gain most on longer sequences": "07:ln-long-sequences",
            "RNNs gain most in small batches": "07:ln-small-batches",
            "batch norm outperforms layer norm in CNNs": "07:bn-beats-ln-cnn",
            "an LSTM can still explode": "07:lstm-explodes",
            "clipping the gradient helps": "07:clipping-helps",
            "without parallelism an RNN is exponentially slower": "07:rnn-exponential 07:scan-equals-loop",
        },
    ),
    *_says(
        "S2",
        {
            "layer norm runs over the features of each input, without the batch": "01:ln-loop-axes",
            "batch norm's pseudo-code is what the layer computes": "01:bn-loop-axes 03:bn-pseudo-code",
            "Norm with dim=0 on (batch, H, W, channel) is batch norm": "03:bn-dim-0",
            "ε = 1e-12 will do": "02:eps-1e-12-safe",
            "both forms of the moving average are equal": "04:rs-forms-equal",
            "the second form is more efficient": "04:rs-forms-cheaper",
            "a lower momentum forgets sooner": "04:rs-lower-forgets",
            "momentum is chosen close to 1": "04:rs-close-to-one",
            "at inference there may be no batch": "03:bn-eval-alone",
            "the sinusoidal formula": "11:sinusoidal-formula",
            "positions break the symmetry of attention": "11:attention-symmetric 11:position-breaks-symmetry",
            "RoPE encodes absolute and relative positions": "12:rope-absolute 12:rope-relative",
            "RoPE's 2×2 matrix": "12:rope-matrix",
            "RoPE's θ is the sinusoid's": "12:rope-same-theta",
            "RoPE brings some remote attenuation": "12:rope-attenuation",
            "a larger base turns each dimension less": "12:rope-larger-base 13:abf-each-dimension",
            "LongRoPE adjusts dimensions differently": "13:longrope-dimensions",
        },
    ),
    *_says(
        "S3",
        {
            "the variance is E[x²] − E[x]²": "02:one-pass-variance",
            "any leading dimensions will do": "02:ln-leading-dims",
            "zero mean and unit variance across the features": "02:ln-zero-mean",
            "layer norm takes its statistics for each batch": "02:ln-across-a-batch",
            "batch norm fixes mean and variance for each element": "03:bn-each-element",
            "normalized_shape is an int, a list or a Size": "16:s3-shape-kinds",
        },
    ),
    *_says(
        "S4",
        {
            "std in place of the variance is closer to PyTorch": "02:std-is-closer 16:std-reach",
            "ε avoids a division by zero": "02:eps-avoids-zero",
            "γ = 1 and β = 0 change nothing at the start": "02:ln-affine-start",
            "the largest difference from PyTorch is 7.3e-5": "16:s4-largest",
            "the layer takes PyTorch's normalized_shape": "16:s4-normalized-shape",
        },
    ),
)
