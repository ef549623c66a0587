"""Chapter 19, Other people's code: what its notebook alone needs.

exercises       ε of a norm, the base of a rotation, a layer's memory, found by calling them
strange_layers  the zoo: norms with conventions drawn at random
published       the layers of published packages, and runs that show a defect
packages        installs nothing, diagnoses and runs them again: ``make packages``
mistakes/       what is known to go wrong in each exercise
claims.toml     what the chapter claims
"""

from chapters import checks_of, claims_of
from chapters.c19_other_peoples_code import exercises

__all__ = ["check", "claims"]

check = checks_of(exercises)
claims = claims_of("19")
