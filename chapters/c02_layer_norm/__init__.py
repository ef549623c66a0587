"""Chapter 02, Layer norm: what its notebook alone needs.

exercises    layer norm
figures      a plane and a circle; the rows of a trained model
widgets      ``normalized_shape``, cell by cell
mistakes/    what is known to go wrong in each exercise
claims.toml  what the chapter claims
probes.toml  what is tried in each exercise
"""

from chapters import checks_of, claims_of
from chapters.c02_layer_norm import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("02")
