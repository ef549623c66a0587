"""Chapter 22: the weight and ε of other libraries' norms, carried over to ``nn.RMSNorm``."""

from course_utils.check.catalogue import load
from course_utils.check.exercise import Exercise
from course_utils.check.probes import Tolerance, read_probes

__all__ = ["to_rms_norm"]


def _to_rms_norm(source, weight, eps, features):
    if source == "gemma":
        weight = 1 + weight.float()
    if source in ("l2", "scale"):  # a sum of squares is features times their mean
        weight = weight.float() / features**0.5
        eps = eps / features
    return weight.float().expand(features), eps


to_rms_norm = Exercise(
    "to_rms_norm",
    _to_rms_norm,
    read_probes(__file__, "to_rms_norm", tolerance=Tolerance(1e-5, 1e-12)),
    load("to_rms_norm", _to_rms_norm),
    returns=("weight", "eps"),
    any_dtype=True,
)
