"""Chapter 09, Batch norm across machines: what its notebook alone needs.

cost             what synchronised batch norm costs
exercises        the moments of two parts as one, and a gradient from sums over ranks
processes        a function on several processes of this machine, and what each returned
simulate         several ranks in one process, one after the other
sync_batch_norm  one batch in shards on several processes, normalized as the one that it is
widgets          what it costs to synchronise batch norm over ranks
mistakes/        what is known to go wrong in each exercise
claims.toml      what the chapter claims
probes.toml      what is tried in each exercise
"""

from chapters import checks_of, claims_of
from chapters.c09_batch_norm_across_machines import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("09")
