"""Chapter 07, Norms in today's models: what its notebook alone needs.

copying            do QK norm and dynamic tanh do for a small transformer what their papers say
exercises          a number that rules its row; where norms stand, asked; a norm with a condition
figures            where a transformer has its norms; one large number among thousands
widgets            ``large_feature``: what a norm makes of a row with one large number
without_norms      can a deep residual network do without norms
mistakes/          what is known to go wrong in each exercise
claims.toml        what the chapter claims
probes.toml        what is tried in each exercise
real_model.jsonl   what its notebook computes with a language model, for those who lack it
recorded/          what was measured, with where it comes from
studies.toml       which studies there are, and the settings of their runs
"""

from chapters import cached_results_of, checks_of, claims_of, records_of
from chapters.c07_norms_of_models import exercises

__all__ = ["cached_result", "check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("07")
load = records_of("07")
cached_result = cached_results_of("07")
