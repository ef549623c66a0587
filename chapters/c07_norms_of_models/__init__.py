"""Chapter 07, Norms in today's models: what its notebook alone needs.

copying            do QK norm and dynamic tanh do for a small transformer what their papers say
claims.toml        what the chapter claims
real_model.jsonl   what its notebook computes with a language model, for those who lack it
recorded/          what was measured, with where it comes from
studies.toml       which studies there are, and the settings of their runs
"""

from chapters import cached_results_of, claims_of, records_of

__all__ = ["cached_result", "claims", "load"]

claims = claims_of("07")
load = records_of("07")
cached_result = cached_results_of("07")
