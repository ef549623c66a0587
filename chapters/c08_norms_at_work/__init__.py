"""Chapter 08, Norms at work: what its notebook alone needs.

batch_size      does batch norm fail in small batches, and does it beat the others in a CNN
comparisons     the runs that are compared, each arm at the rate that other seeds chose
exercises       what to report of two arms; a step of an LSTM; a transformer's block
figures         learning curves, and what was recorded
lstm_length     does layer norm help an LSTM, more on longer sequences, more in smaller batches?
norm_placement  where a transformer has its norms
shaken          is it stillness that batch norm helps by
widgets         how often chance looks like a finding
mistakes/       what is known to go wrong in each exercise
claims.toml     what the chapter claims
recorded/       what was measured, with where it comes from
studies.toml    which studies there are, and the settings of their runs
"""

from chapters import checks_of, claims_of, records_of
from chapters.c08_norms_at_work import exercises

__all__ = ["check", "claims", "load"]

check = checks_of(exercises)
claims = claims_of("08")
load = records_of("08")
