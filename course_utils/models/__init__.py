"""The networks that the chapters train and take apart.

networks            LSTM, CNN, MLP and vision transformer on 8×8 digits (chapters 07, 08 and 12)
recurrence          a linear recurrence as a loop and as a scan (chapter 12)
decoder             a transformer whose positions are exchangeable (chapters 13 to 16)
crepe               a network that hears pitch, with six batch norms and its trained weights
                    (chapters 03 and 04)
pretrained          a language model that somebody trained, out of a package's file (chapters 07 and
                    14 to 17)
"""

from course_utils.models import pretrained
from course_utils.models.decoder import POSITIONS, Decoder
from course_utils.models.networks import (
    LSTM,
    DigitsCNN,
    DigitsMLP,
    MinGRU,
    SelfAttention,
    TransformerBlock,
    ViT,
    feature_norm,
    patches,
)
from course_utils.models.recurrence import linear_recurrence, linear_scan
from course_utils.rooms import submodules

__all__ = [
    "LSTM",
    "POSITIONS",
    "Decoder",
    "DigitsCNN",
    "DigitsMLP",
    "MinGRU",
    "SelfAttention",
    "TransformerBlock",
    "ViT",
    "feature_norm",
    "linear_recurrence",
    "linear_scan",
    "patches",
    "pretrained",
]

__getattr__ = submodules(__name__)
