"""Chapter 20, On trial: what its notebook alone needs.

exercises            rows that tell layers apart; one part exchanged at a time
ledger               the ledger
telling              rows that tell five layer norms apart, and who finds them
tensorflow_layer     run the write-up's layer that is TensorFlow code, and record what it does
widgets              six layers on one row; the ledger as a table to search
writeup_layer_norms  the layer norms of the five write-ups, as they print them
mistakes/            what is known to go wrong in each exercise
claims.toml          what the chapter claims
"""

from chapters import checks_of, claims_of
from chapters.c20_on_trial import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("20")
